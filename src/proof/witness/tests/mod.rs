//! Real sockets: what the witness says against what the server saw.

mod fault;
mod faults;
#[cfg(feature = "http2")]
mod faults_h2;
mod framing;
#[cfg(feature = "http2")]
mod h2;
mod race;
mod redirects;
mod revocable;
mod sends;
mod support;
