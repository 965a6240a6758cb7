//! Real sockets: what the witness says against what the server saw.

mod asking;
mod fault;
mod faults;
#[cfg(feature = "http2")]
mod faults_h2;
mod framing;
#[cfg(feature = "http2")]
mod h2;
mod race;
mod redirects;

#[cfg(feature = "testing-tls")] // hangs in a TLS handshake
mod sends;
mod support;
