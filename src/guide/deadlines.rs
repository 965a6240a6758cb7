//! How long may an operation take, and who says so?
//!
//! A deadline is one instant over everything: queueing, attempts, pauses, probes and the body of
//! the final answer. Set it on the client, the endpoint, the request or a whole piece of work. Add
//! a limit for each attempt, or nothing follows an attempt that hangs.
//!
//! | setting | bounds |
//! |---|---|
//! | [`SafeRetry::with_deadline`], [`Endpoint::with_deadline`], a [`Deadline`] as extension | the operation, body included |
//! | [`Deadline::scope`] | every operation that starts inside |
//! | [`SafeRetry::with_attempt_limit`], [`Endpoint::with_attempt_limit`] | each attempt up to the answer's head; with [`reading_body`] through its body |
//! | [`RetryPolicy::with_window`] | where there is no deadline: when the last resend may start; it cuts nothing |
//! | [`RetryPolicy::with_least_attempt`] | the least time before the deadline with which an attempt is started |
//! | reqwest's `.timeout(..)` | each attempt, underneath; this crate never makes it longer |
//!
//! Request beats endpoint beats client. A scope caps whichever won. `Duration::MAX` lifts what a
//! client sets. [`deadline_to_head`](crate::Endpoint::deadline_to_head) ends the deadline at the
//! head, for downloads and event streams.
//!
//! An attempt gets its limit or what is left, whichever is shorter; never a full limit of its own.
//! A pause that does not fit is not begun: the operation returns at once, with the answer and the
//! wait in its report. With no time left nothing is sent.
//!
//! # One deadline for a piece of work
//!
//! The caller of your service says how long it waits. Pass it on. In axum this is a route of
//! `get(move |headers: HeaderMap| checkout(client.clone(), shop.clone(), headers))`: `HeaderMap` and
//! `StatusCode` are those of `http`.
//!
//! ```
//! use std::time::Duration;
//!
//! use http::{HeaderMap, StatusCode};
//! use reqwest_middleware::ClientWithMiddleware;
//! use reqwest_safe_retry::{Deadline, RetryErrorExt, SafeRetry};
//! # use reqwest_safe_retry::testing::{Fault, FaultServer};
//!
//! async fn checkout(client: ClientWithMiddleware, shop: reqwest::Url, headers: HeaderMap) -> StatusCode {
//!     let deadline = Deadline::after(callers_limit(&headers));
//!     match deadline.scope(price(&client, shop)).await {
//!         Ok(_) => StatusCode::OK,
//!         Err(error) if error.timed_out() => StatusCode::GATEWAY_TIMEOUT,
//!         Err(_) => StatusCode::BAD_GATEWAY,
//!     }
//! }
//!
//! /// Milliseconds, as Envoy writes them. No more than 10 s, and a little less than the caller waits.
//! fn callers_limit(headers: &HeaderMap) -> Duration {
//!     let told = headers.get("x-envoy-expected-rq-timeout-ms").and_then(|told| told.to_str().ok()?.parse().ok());
//!     let limit = told.map_or(Duration::MAX, Duration::from_millis).min(Duration::from_secs(10));
//!     limit.saturating_sub(Duration::from_millis(20))
//! }
//!
//! /// Knows nothing of the deadline, and keeps it all the same.
//! async fn price(client: &ClientWithMiddleware, shop: reqwest::Url) -> reqwest_middleware::Result<String> {
//!     Ok(client.get(shop).send().await?.text().await?)
//! }
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> reqwest::Result<()> {
//! # let shop = FaultServer::start([Fault::hang()]).await;
//! # let builder = reqwest::Client::builder().no_proxy();
//! # let client = SafeRetry::new().client(builder).build()?;
//! # let headers = HeaderMap::from_iter([(http::HeaderName::from_static("x-envoy-expected-rq-timeout-ms"), http::HeaderValue::from_static("120"))]);
//! assert_eq!(checkout(client, shop.url("/price"), headers).await, StatusCode::GATEWAY_TIMEOUT);
//! # Ok(())
//! # }
//! ```
//!
//! [`AttemptHeaders`](crate::AttemptHeaders) tells the next server in turn how long each attempt
//! has.
//!
//! # Where a scope does not reach
//!
//! * **Spawned tasks.** A scope belongs to its task. It reaches through `join!`, `select!` and
//!   timeouts, not into `tokio::spawn` or `spawn_blocking`. Open it again there:
//!   `tokio::spawn(deadline.scope(work))`.
//! * **Requests that are left alone.** Under [`Unmarked::Untouched`](crate::Unmarked::Untouched) a
//!   request that nothing names has no deadline, and a scope does not cap it.
//! * **An application's own `task_local_extensions`.** Those maps do not nest: the innermost one
//!   hides the scope, unless it carries the [`Deadline`] on.
//! * **`work` itself.** It is not stopped; only the operations in it end.
//!
//! # A timeout around the call
//!
//! `tokio::time::timeout` and `select!` drop the operation: nothing more is sent, no task is left,
//! and nobody gets an outcome, except a [`ReportSlot`](crate::ReportSlot) and an
//! [`Observer`](crate::Observer). Give the operation a deadline that is a little shorter. Then it
//! ends with a result that says what is known.
//!
//! # A machine that sleeps
//!
//! Deadlines, limits and pauses are measured on the monotonic clock. On Linux it stands still while
//! a laptop sleeps or a virtual machine is paused: time asleep does not count for a deadline. It
//! does count for the age of a [key](super::keys), which is also measured on the wall clock: the
//! server goes on forgetting. A signature that ends at a time of day may end earlier than the
//! deadline, then.
//!
//! # Signatures that end
//!
//! Sign in an inner middleware ([`SafeClientBuilder::with`](crate::SafeClientBuilder::with)): it
//! runs once per attempt, so each one is signed anew, in a header or in the query. A URL that was
//! signed before the call is the same on every attempt. Give that request a [`Deadline`] that ends
//! before the signature does.
//!
//! [`Deadline`]: crate::Deadline
//! [`Deadline::scope`]: crate::Deadline::scope
//! [`Endpoint::with_attempt_limit`]: crate::Endpoint::with_attempt_limit
//! [`Endpoint::with_deadline`]: crate::Endpoint::with_deadline
//! [`RetryPolicy::with_least_attempt`]: crate::RetryPolicy::with_least_attempt
//! [`RetryPolicy::with_window`]: crate::RetryPolicy::with_window
//! [`SafeRetry::with_attempt_limit`]: crate::SafeRetry::with_attempt_limit
//! [`SafeRetry::with_deadline`]: crate::SafeRetry::with_deadline
//! [`reading_body`]: crate::Endpoint::reading_body
