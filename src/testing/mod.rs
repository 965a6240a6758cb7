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
//! # A bad day, rehearsed
//!
//! Retries are rehearsed before they are needed: let the server answer 429 and 503, let it fall
//! silent before the body of the request and after it, let it close connections, and then count
//! how often it would have acted twice. [`Fault::bad_day`] is that day, and
//! [`FaultServer::duplicates`] the count.
//!
//! ```
//! use reqwest_safe_retry::testing::{Fault, FaultServer};
//! use reqwest_safe_retry::{Endpoint, KeyContract, RetryError, SafeRetry};
//! use std::time::Duration;
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let server = FaultServer::start(Fault::bad_day(7)).await;
//! let retry = SafeRetry::new().with_attempt_limit(Duration::from_millis(200)).with_deadline(Duration::from_secs(5));
//! let client = retry.client(reqwest::Client::builder().no_proxy()).redirects_off().build()?;
//!
//! for order in 1..=10 {
//!     let request = client.post(server.url("/orders")).body(format!("order {order}"));
//!     match request.with_extension(Endpoint::keyed_write(KeyContract::STRIPE)).send().await {
//!         Ok(answer) => println!("{order}: {}", answer.status()),
//!         Err(error) if matches!(RetryError::find(&error), Some(RetryError::OutcomeUnknown(_))) => {
//!             println!("{order}: nobody knows, and the caller was told");
//!         }
//!         Err(error) => println!("{order}: {error}"),
//!     }
//! }
//! println!("{} POSTs for 10 orders", server.writes());
//! server.assert_no_duplicates("idempotency-key");
//! # Ok(())
//! # }
//! ```
//!
//! `cargo run --example misbehave --features testing -- --port 8080` has the same day for curl and
//! for clients in other languages.
//!
//! # What not to mix
//!
//! A paused clock and a real socket never belong in one test: tokio moves a paused clock whenever
//! all tasks wait, and a task that waits for a socket counts as waiting, so every timeout fires at
//! once.
//!
//! Everything here is for tests: wrong use and missed expectations panic, with a message that says
//! what was seen. What a peer received is printed without headers' values, paths and bodies; ask
//! [`Recorded`] for those.

mod bad_day;
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
