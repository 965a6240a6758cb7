//! Nobody knows whether it happened. What do I do on Monday morning?
//!
//! A write left this process and no answer came back. The server may have acted or not; no error
//! can tell. [`RetryError::OutcomeUnknown`] says so instead of sending a second copy.
//!
//! # Three steps
//!
//! 1. **Store** what the error carries, next to the order: the key and its first use, or your own
//!    number of the operation, and the time.
//! 2. **Look** at the state, with a read: the order's page, the list of payments, a person in the
//!    other company. Reading is always allowed.
//! 3. **Resume.** Under the same key the operation may be sent again. Without a key it may be sent
//!    again only when the look found nothing and nothing can still appear.
//!
//! ```
//! use reqwest_safe_retry::{Endpoint, RetryError, SafeRetry};
//! # use reqwest_safe_retry::testing::{Fault, FaultServer};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), reqwest_middleware::Error> {
//! # let shop = FaultServer::start([Fault::close_after_request(), Fault::ok("one coffee")]).await;
//! # let builder = reqwest::Client::builder().no_proxy();
//! # let client = SafeRetry::new().client(builder).redirects_off().build()?;
//! let order = client.post(shop.url("/orders")).body("no. 2041: one coffee");
//! match order.with_extension(Endpoint::unprotected_write().named("orders")).send().await {
//!     Ok(answer) => println!("{}", answer.status()),
//!     Err(error) => match RetryError::find(&error) {
//!         Some(RetryError::OutcomeUnknown(_)) => {
//!             println!("{error}");
//!             let found = client.get(shop.url("/orders/2041")).send().await?;
//!             println!("looked it up: {}", found.status()); // 404: not there. Not there yet? Look again.
//!         }
//!         Some(RetryError::Unprocessed(_)) => println!("it did not happen: a later try is safe"),
//!         _ => return Err(error),
//!     },
//! }
//! # shop.assert_writes(1);
//! # Ok(())
//! # }
//! ```
//!
//! [Payments](super::payments) has the program for a write with a key. A [probe](super::probes)
//! looks by itself.
//!
//! # After a crash
//!
//! A process that is killed in the middle of a write leaves no answer, and no key that it made
//! itself. So before the first send, write down in the order's row that it will be sent, with the
//! time and the key. A key that is derived from the order
//! ([`IdempotencyKey::derived`](crate::IdempotencyKey::derived)) needs no row.
//! [`KeySource::CallerMust`](crate::policy::KeySource::CallerMust) refuses an operation that nobody
//! gave a key.
//!
//! The new process sends each open order with [`SentBefore::since`](crate::SentBefore::since) that
//! time. It begins as after a lost answer:
//!
//! * with a key, it is sent under that key, unless the server may have forgotten it by now;
//! * with a [probe](super::probes), it is asked about first;
//! * otherwise nothing is sent, and it ends as `OutcomeUnknown`: look first.
//!
//! [After a crash](super::after_a_crash) has the program. `cargo run --example survive_a_crash`
//! kills a process in the middle of an order and counts the orders.
//!
//! # What comes back, in full
//!
//! | what happened | unmarked request, or marked read | marked write, nothing processed | marked write, something unknown |
//! |---|---|---|---|
//! | an answer, any status | `Ok`, unread (buffered with `reading_body`) | same | same; the report's `outcome()` is `Unknown` |
//! | transport error | `Error::Reqwest`, unchanged | `Unprocessed` | `OutcomeUnknown` |
//! | attempt limit | `AttemptTimedOut` | `Unprocessed` | `OutcomeUnknown` |
//! | deadline, nothing sent | `DeadlineExceeded` | `DeadlineExceeded` | |
//! | deadline | `DeadlineExceeded` (`OutcomeUnknown` for an unmarked write) | `Unprocessed` | `OutcomeUnknown` |
//! | an answer given back before a pause, then time is up | `DeadlineExceeded` with its `status()` | `Unprocessed` | `OutcomeUnknown` with its `status()` |
//! | an inner middleware's own error | unchanged | unchanged | unchanged |
//! | a last answer that its endpoint calls a failure, with `failures_are_errors` | `Unsuccessful` with the status; an unmarked request has no endpoint | `Unprocessed` | `OutcomeUnknown` |
//! | body lost, with `reading_body` | `Error::Reqwest` | | `BodyLost` with the status, else `OutcomeUnknown` |
//! | held back by a shared cool-down, nothing sent | `CoolingDown` | `CoolingDown` | |
//! | wrong use of a key, or a factory that fails at once | `Misused`, nothing sent | same | same |
//! | a factory that fails later | by evidence, as on the right | `Unprocessed` | `OutcomeUnknown` |
//!
//! An answer is always `Ok`, also a final 503. After a resend that followed an unknown attempt, a
//! 404, 409, 410 or 412 may be the echo of our own success:
//! [`Outcome::AnsweredAfterUnknown`](crate::Outcome::AnsweredAfterUnknown).
//!
//! * [`RetryError::find`] gets the typed error out. It carries the report, the key, the last status
//!   and, as `source()`, the `reqwest::Error` with its URL taken off.
//! * [`RetryErrorExt`] answers `timed_out()`, `transport_error()` and `evidence()` for every
//!   middleware error.
//! * [`RetryReport::of`] tells what happened before an answer. `error_for_status()` drops it: look
//!   before. A [`ReportSlot`] on the request tells in every case, also when the future was dropped.
//! * [`RetryReport::advice`] names what should be mended in the program, such as a key that an
//!   inner middleware replaced.
//!
//! # Printing an error
//!
//! Print `{error}`, never `{error:?}`: so a `main` that returns such an error prints too much, and
//! with `RUST_BACKTRACE=1` a backtrace, which reqwest-middleware takes for each error; with
//! `RUST_LIB_BACKTRACE=0` it takes none. The errors of this crate print no URL, header, key or
//! body. A plain reqwest error, which unmarked requests and reads get, prints its URL with the
//! query.
//! Take it off first:
//!
//! ```
//! fn log(error: reqwest_middleware::Error) {
//!     eprintln!("{}", error.without_url());
//! }
//! ```
//!
//! [`Misuse::KeyExpired`]: crate::Misuse::KeyExpired
//! [`ReportSlot`]: crate::ReportSlot
//! [`RetryError::OutcomeUnknown`]: crate::RetryError::OutcomeUnknown
//! [`RetryError::find`]: crate::RetryError::find
//! [`RetryErrorExt`]: crate::RetryErrorExt
//! [`RetryReport::advice`]: crate::RetryReport::advice
//! [`RetryReport::of`]: crate::RetryReport::of
