//! Where does this middleware belong among the others, and what is lost elsewhere?
//!
//! A middleware *outside* runs once for each operation, before this crate. One *inside* runs once
//! for each attempt, after it and above the [`SendWitness`](crate::SendWitness), which is the
//! last.
//!
//! ```
//! use http::{Extensions, HeaderValue, header::AUTHORIZATION};
//! use reqwest::{Request, Response};
//! use reqwest_middleware::{ClientWithMiddleware, Middleware, Next, Result};
//! use reqwest_safe_retry::{SafeRetry, async_trait};
//!
//! /// Signs each attempt anew.
//! struct Signer;
//!
//! #[async_trait]
//! impl Middleware for Signer {
//!     async fn handle(&self, mut request: Request, extensions: &mut Extensions, next: Next<'_>) -> Result<Response> {
//!         request.headers_mut().insert(AUTHORIZATION, HeaderValue::from_static("Bearer 1"));
//!         next.run(request, extensions).await
//!     }
//! }
//!
//! fn client() -> reqwest::Result<ClientWithMiddleware> {
//!     SafeRetry::new().client(reqwest::Client::builder()).redirects_off().with(Signer).build() // outside: `with_outside`
//! }
//! # client()?;
//! # Ok::<(), reqwest::Error>(())
//! ```
//!
//! With a client that exists already, the order of the `with` calls says the same: what comes
//! before `SafeRetry` is outside.
//!
//! # The table
//!
//! Each cell is a test against the real crate, in the folder `neighbours/` of the repository.
//!
//! | middleware | it belongs | what happens there | what is lost on the other side |
//! |---|---|---|---|
//! | signer | inside | each attempt is signed anew | all attempts carry one signature, which may have expired |
//! | reqwest-tracing | inside | a span and a `traceparent` for each attempt, below the span of the operation | outside, one span and one `traceparent` for all; failed attempts are not told |
//! | http-cache-reqwest | outside | what is in the cache is no operation | inside, an answer from the cache is an attempt, and a body that breaks off is not asked for again |
//! | reqwest-ratelimit | inside | each send takes a permit | outside, resends are not counted, and no deadline ends the wait for a permit |
//! | auth refresh | outside, on the paved road | the second pass keeps the key of the first | inside, the refresh is reported as [`Advice::SentMoreOften`](crate::Advice::SentMoreOften) |
//! | reqwest-retry | nowhere | inside it is advised against, once for each origin | outside nobody can see it: an unmarked write is sent again after a lost answer |
//!
//! # What to know of some of them
//!
//! **A cache outside builds the answer anew.** [`RetryReport::of`](crate::RetryReport::of) finds
//! nothing then. It makes a text of the error of a GET or HEAD, with the URL and its query, so
//! neither [`RetryError::find`](crate::RetryError::find) nor
//! [`transport_error`](crate::RetryErrorExt::transport_error) finds anything. A
//! [`ReportSlot`](crate::ReportSlot) still tells all of it. Writes keep their answer and error.
//!
//! **A rate limit inside takes time of the attempt.** If the deadline ends the wait for a permit,
//! nothing was sent, and on the paved road the error says so. An existing client cannot know that
//! a witness stands in every way to the wire: there a write is *unknown*. So on the paved road an
//! inner middleware has to send with `next`. One that also sends with a client of its own, such as
//! a failover, belongs into an existing client.
//!
//! **A signer inside** writes the token on every attempt. Where it drops a token that a 401
//! refused, [`Endpoint::refreshed_after`](crate::Endpoint::refreshed_after) makes the 401 worth one
//! more attempt, once; the example `auth_refresh` shows both places.
//!
//! **An auth refresh outside of an existing client is two operations**, and the second one makes a
//! key of its own. Use the paved road ([`SafeRetry::client`](crate::SafeRetry::client)), or put an
//! [`IdempotencyKey`](crate::IdempotencyKey) on the request.
//!
//! **reqwest-retry outside** gives up at a typed error, so a marked write whose answer was lost
//! stays one write. But it sends each 503 again that this crate gives back: the attempts multiply,
//! under one key. Remove it ([`migrating`](super::migrating)).
//!
//! # What is around the client
//!
//! **tower.** As a `Service`, also behind a `Buffer`, the client gets bare requests: they carry no
//! [`Endpoint`](crate::Endpoint), and initialisers (`with_init`) do not run. A catalogue or a
//! default write marks them:
//!
//! ```
//! use reqwest_safe_retry::{Endpoint, KeyContract, SafeRetry};
//!
//! let retry = SafeRetry::new().with_default_write(Endpoint::keyed_write(KeyContract::STRIPE));
//! let service = retry.client(reqwest::Client::builder()).redirects_off().build()?;
//! # Ok::<(), reqwest::Error>(())
//! ```
//!
//! The error of a `Buffer` is boxed: `error.downcast_ref::<reqwest_middleware::Error>()`.
//!
//! **A handler** (axum and others) passes the time of its caller on with a scope, which caps every
//! call inside:
//!
//! ```no_run
//! use reqwest_middleware::ClientWithMiddleware;
//! use reqwest_safe_retry::{Deadline, RetryErrorExt};
//! use std::time::Duration;
//!
//! /// What the handler answers; `left` comes from a header of its own request.
//! async fn order(client: &ClientWithMiddleware, left: Option<Duration>) -> u16 {
//!     let deadline = left.map_or(Deadline::NONE, Deadline::after);
//!     match deadline.scope(client.get("https://stock.example/coffee").send()).await {
//!         Ok(answer) => answer.status().as_u16(),
//!         Err(error) if error.timed_out() => 504,
//!         Err(_) => 502,
//!     }
//! }
//! ```
//!
//! axum drops a handler whose caller hangs up. The operation ends with it, and nothing is sent
//! later.
//!
//! **`timeout` and `select!`** drop the operation, too. A [`ReportSlot`](crate::ReportSlot) is
//! filled with [`StopReason::Cancelled`](crate::StopReason::Cancelled). A deadline is better: it
//! ends in an error that says what is known.
//!
//! **wiremock and httpmock** see each attempt as a request of its own.
