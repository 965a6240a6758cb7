//! Scripted peers, so that you can rehearse on your own clients what a bad day does to them.
//!
//! Three tools, one for each kind of test:
//!
//! * [`Scripted`] stands in for the transport and opens no socket: for tests of *timing* under a
//!   paused clock (`#[tokio::test(start_paused = true)]`), where seconds of backoff cost nothing
//!   and every pause is exact.
//! * [`FaultServer`] answers, stalls, cuts and resets on real loopback sockets: for tests of what a
//!   client makes of the *wire*. HTTP/1.1 here, HTTP/2 with the feature `testing-h2`, TLS with
//!   `testing-tls`.
//! * [`Draws`] takes chance out of a test.
//!
//! A paused clock and a real socket never belong in one test: tokio moves a paused clock whenever
//! all tasks wait, and a task that waits for a socket counts as waiting, so every timeout fires at
//! once.
//!
//! Everything here is for tests: wrong use and missed expectations panic, with a message that says
//! what was seen. What a peer received is printed without headers' values, paths and bodies; ask
//! [`Recorded`] for those.

mod connection;
mod draws;
mod fault;
mod fault_server;
#[cfg(feature = "testing-h2")]
mod h2;
#[cfg(feature = "testing-h2")]
mod h2_reason;
mod ledger;
mod recorded;
mod request_reader;
mod script;
mod scripted;
mod spelled;
mod step;
#[cfg(feature = "testing-tls")]
mod tls;
mod transport_error;

pub use draws::Draws;
pub use fault::{Act, Fault};
pub use fault_server::FaultServer;
#[cfg(feature = "testing-h2")]
pub use h2::H2Fault;
#[cfg(feature = "testing-h2")]
pub use h2_reason::H2Reason;
pub use recorded::Recorded;
pub use scripted::Scripted;
pub use step::Step;
#[cfg(feature = "testing-tls")]
pub use tls::{Handshake, Tls};
