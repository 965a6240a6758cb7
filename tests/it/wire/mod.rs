//! The wire: real sockets, and real times that are short. What counts is what the server received.

mod baseline;
mod bodies;
mod client_timeouts;
#[cfg(feature = "testing-h2")]
mod connections;
#[cfg(feature = "testing-tls")]
mod encrypted;
#[cfg(feature = "testing-h2")]
mod error_evidence;
mod fault_server;
#[cfg(feature = "testing-h2")]
mod fault_server_h2;
#[cfg(feature = "testing-tls")]
mod fault_server_tls;
mod inner;
mod key_of_the_error;
#[cfg(all(feature = "testing-h2", feature = "testing-tls"))]
mod paved;
#[cfg(feature = "testing-tls")] // a proxy is asked for a tunnel only where the client speaks TLS
mod proxies;
