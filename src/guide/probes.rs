//! The server has no keys. How do I let it be asked?
//!
//! A write whose answer was lost may have happened. Without a key, only the server can tell. A
//! probe is the question: a read that finds the operation, or finds no trace of it.
//!
//! # The common one: a URL
//!
//! ```
//! use std::time::Duration;
//!
//! use reqwest::StatusCode;
//! use reqwest_safe_retry::{Endpoint, Outcome, RetryReport, SafeRetry, StatusUrl, errors::InvalidStatusUrl, report::Found};
//! # use reqwest_safe_retry::testing::{Fault, FaultServer};
//!
//! /// What became of POST /orders/2041/shipment is asked with GET /orders/2041/shipment.
//! fn shipment() -> Result<Endpoint, InvalidStatusUrl> {
//!     let page = StatusUrl::by_path("/orders/{order}/shipment", "/orders/{order}/shipment")?.with(StatusCode::NO_CONTENT, Found::Absent);
//!     Ok(Endpoint::probed_write(page).settling(Duration::from_secs(2)).with_deadline(Duration::from_secs(30)))
//! }
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let api = FaultServer::start([Fault::close_after_request(), Fault::ok("on its way")]).await;
//! # let builder = reqwest::Client::builder().no_proxy();
//! # let client = SafeRetry::new().client(builder).redirects_off().build()?;
//! let answer = client.post(api.url("/orders/2041/shipment")).body("express").with_extension(shipment()?).send().await?;
//! let outcome = RetryReport::of(&answer).map(RetryReport::outcome);
//! assert_eq!(outcome, Some(Outcome::Reconciled)); // the answer is that of the page
//! # api.assert_writes(1);
//! # Ok(())
//! # }
//! ```
//!
//! | the page says | found | then |
//! |---|---|---|
//! | 2xx but 202 | applied, also when it was declined | the page's answer becomes the operation's |
//! | 404, 410 | absent | once the endpoint has settled: sent again |
//! | 202, 409, 425 | in progress | asked again, not before the page's own `Retry-After` |
//! | everything else, every failure, no URL | undecided | `OutcomeUnknown`; nothing is sent again |
//!
//! [`StatusUrl::with`](crate::StatusUrl::with) changes single statuses.
//! [`StatusUrl::by_key`](crate::StatusUrl::by_key) puts the idempotency key into the URL.
//!
//! **Check the URL.** An API that answers 404 to a wrong path means a second write.
//!
//! # Settling
//!
//! Most systems show a write to a reader some time after they took it. So *absent* counts only when
//! it was asked [`settling`](crate::Endpoint::settling) after the last attempt ended: 5 s by
//! default. Asked earlier, it means "in progress". Give the endpoint a deadline well above it, with
//! room for an attempt and a resend; otherwise every *absent* comes too early and the operation
//! ends as unknown.
//!
//! # When it is asked
//!
//! * Instead of a resend, for a write that only a probe protects.
//! * For a keyed write whose key has lapsed: [`Endpoint::probed_by`](crate::Endpoint::probed_by).
//! * As a last look, before an operation ends as unknown: because its attempts, its budget or its
//!   time are spent, for example. A tenth of the time is kept for it. A wait that the server asked
//!   for comes first; if it does not fit, nobody is asked. So "send once, then look" is a policy
//!   with one attempt.
//!
//! A probe costs the budget as much as a resend; the last look costs nothing. There are at most as
//! many probes as attempts.
//!
//! # What the question looks like
//!
//! It goes through the inner middlewares (signers) and carries the operation's own headers to the
//! operation's own origin: its credentials and its query, no key, no header that overrides the
//! method, none that describes the body. It asks past caches (`Cache-Control: no-cache`), and a 404
//! that is older than the last attempt (`Age`) proves nothing. A page that leaves out the query of
//! the operation cannot say *absent*.
//!
//! A URL at another origin gets no credentials. On the client of
//! [`SafeRetry::client`](crate::SafeRetry::client) a probe follows no redirect to another origin.
//! On an existing client reqwest follows it, with whatever custom headers the request has: turn
//! redirects off there.
//!
//! # Your own
//!
//! ```
//! use reqwest_safe_retry::{Endpoint, Operation, ProbeVerdict, StatusProbe, async_trait};
//!
//! /// Asks the list of orders for ours.
//! struct OrderList;
//!
//! #[async_trait]
//! impl StatusProbe for OrderList {
//!     async fn look_up(&self, operation: &Operation<'_>) -> ProbeVerdict {
//!         let Ok(orders) = operation.url().join("/orders?reference=2041") else {
//!             return ProbeVerdict::Undecided;
//!         };
//!         match operation.send(operation.get(orders)).await {
//!             Ok(answer) if operation.is_stale(&answer) => ProbeVerdict::InProgress,
//!             Ok(answer) if answer.status() == 200 => ProbeVerdict::Applied(answer),
//!             Ok(answer) if answer.status() == 404 => ProbeVerdict::Absent,
//!             _ => ProbeVerdict::Undecided,
//!         }
//!     }
//! }
//!
//! let orders = Endpoint::probed_write(OrderList);
//! # let _ = orders;
//! ```
//!
//! A probe must be a read. It is dropped when the operation's time is up, which counts as
//! undecided.
