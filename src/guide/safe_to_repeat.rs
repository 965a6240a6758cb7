//! May this request run again?
//!
//! Two things decide it: what the request does to the world, and what is known about the attempts
//! so far. How often and how fast comes later.
//!
//! # What a request does
//!
//! | say | when | sent again |
//! |---|---|---|
//! | [`Endpoint::read`] | nothing changes | after any failure that can pass |
//! | [`Endpoint::idempotent_write`] | twice is as good as once, whatever the method | the same |
//! | [`Endpoint::keyed_write`] | the server acts once for each key | with the same key, as long as the server remembers it: [keys](super::keys) |
//! | [`Endpoint::probed_write`] | it can be asked whether it happened | after a look that found nothing: [probes](super::probes) |
//! | [`Endpoint::unprotected_write`] | a second copy acts twice | only when no attempt can have been processed |
//! | [`Endpoint::never_resend`] | you forbid it | never |
//!
//! An endpoint is an extension of the request, a row of an [`EndpointCatalog`], or the client's
//! [`with_default_write`]. The first of these that speaks wins, in this order. Such a request is
//! called *marked*. Nothing marks a request? Then its method speaks: GET, HEAD, OPTIONS and TRACE
//! read, PUT and DELETE are idempotent, POST, PATCH and unknown methods are unprotected writes, and
//! the other registered methods are what IANA's registry says. A GET with `X-HTTP-Method-Override`
//! is no read.
//!
//! [`Unmarked::Untouched`] leaves unmarked requests alone: no resend, no deadline, no budget.
//!
//! The mark travels with `send()`. `client.execute(builder.build()?)` drops every extension without
//! a word; [`Endpoint`] shows the way around. tower's `Service` carries no extension either: let a
//! catalogue or the default write mark such requests.
//!
//! # What is known about the attempts
//!
//! *Proven unprocessed* means all attempts so far. These prove it: the connection was refused, the
//! name did not resolve, TLS failed, the request was still queued when its connection died, HTTP/2
//! refused the stream, an HTTP/2 connection closed below a request whose body had been read, the
//! server said 425, or a status that you [trust](crate::Endpoint::trusting_refusal).
//!
//! These prove nothing, whatever their names suggest: a timeout, a reset, a connection that closes
//! without an answer, 429, 503, 504. `is_connect()` after a redirect proves nothing either: the
//! first server had the request. On a client that follows redirects and has no
//! [`SendWitness`](crate::SendWitness) that counts them, no answer proves anything, not even 425.
//!
//! The README shows the whole table: effect × what happened → resend, probe or stop.
//!
//! # One table for the whole client
//!
//! ```
//! use std::time::Duration;
//!
//! use reqwest_safe_retry::{Endpoint, EndpointCatalog, KeyContract, Row, SafeRetry, errors::CatalogError};
//!
//! fn retry() -> Result<SafeRetry, CatalogError> {
//!     Ok(SafeRetry::new().with_attempt_limit(Duration::from_secs(3)).with_catalog(catalog()?))
//! }
//!
//! fn catalog() -> Result<EndpointCatalog, CatalogError> {
//!     let charge = Endpoint::keyed_write(KeyContract::STRIPE).owned_by("payments").with_deadline(Duration::from_secs(20));
//!     EndpointCatalog::new().with_row("https://api.stripe.com", Row::post("/v1/charges", charge))
//! }
//!
//! #[test]
//! fn no_write_is_left_unprotected() -> Result<(), CatalogError> {
//!     catalog()?.audit_for(&retry()?).assert_ready(); // or fails, with the whole table and what is missing in it
//!     Ok(())
//! }
//! ```
//!
//! `EndpointCatalog::from_toml` and `from_json` read the same from a file (feature
//! `catalog-files`). [`audit::Gap`](crate::audit::Gap) lists what the audit finds.
//!
//! # One URL for reads and writes
//!
//! GraphQL and JSON-RPC send everything as POST to one URL. Never mark that row as a read: a
//! mutation would be sent twice. Let an outer middleware look at the body and mark each request.
//!
//! ```
//! use http::Extensions;
//! use reqwest::{Request, Response};
//! use reqwest_middleware::{Middleware, Next, Result};
//! use reqwest_safe_retry::{Endpoint, SafeRetry, async_trait};
//! # use reqwest_safe_retry::testing::{Fault, FaultServer};
//!
//! struct MarkGraphQl;
//!
//! #[async_trait]
//! impl Middleware for MarkGraphQl {
//!     async fn handle(&self, request: Request, extensions: &mut Extensions, next: Next<'_>) -> Result<Response> {
//!         let body = request.body().and_then(|body| body.as_bytes()).unwrap_or_default();
//!         extensions.insert(if reads(body) { Endpoint::read() } else { Endpoint::unprotected_write() });
//!         next.run(request, extensions).await
//!     }
//! }
//!
//! /// Careful: what cannot be read, and what speaks of a mutation anywhere, is a write.
//! fn reads(body: &[u8]) -> bool {
//!     let call = serde_json::from_slice::<serde_json::Value>(body).unwrap_or_default();
//!     call["query"].as_str().is_some_and(|text| !text.contains("mutation"))
//! }
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<()> {
//! # let api = FaultServer::start([Fault::close_after_request(), Fault::close_after_request(), Fault::ok("{}")]).await;
//! # let builder = reqwest::Client::builder().no_proxy();
//! let client = SafeRetry::new().client(builder).with_outside(MarkGraphQl).build()?;
//! # assert!(client.post(api.url("/graphql")).json(&serde_json::json!({ "query": "mutation { pay }" })).send().await.is_err());
//! # api.assert_writes(1);
//! # client.post(api.url("/graphql")).json(&serde_json::json!({ "query": "{ menu }" })).send().await?;
//! # api.assert_requests(3);
//! # Ok(())
//! # }
//! ```
//!
//! # Bodies that can be sent once only
//!
//! A stream is sent once, and the operation ends with
//! [`StopReason::BodyConsumed`](crate::StopReason::BodyConsumed). [`ReplayBody`] makes a body anew
//! for each attempt, [`ReplayRequest`] the whole request, as multipart needs it.
//!
//! A signature belongs into an inner middleware ([`SafeClientBuilder::with`]), which runs once per
//! attempt. That holds for signatures in the query too. A [`ReplayRequest`] that signs the URL anew
//! makes another request: method and URL must be equal, so the operation ends there. A signature
//! that ends after a while wants a [deadline](super::deadlines) of its own, shorter than its life.
//!
//! Once you read the answer's body, nothing is sent again. If the body belongs to the attempt, say
//! [`Endpoint::reading_body`].
//!
//! [`Endpoint`]: crate::Endpoint
//! [`Endpoint::idempotent_write`]: crate::Endpoint::idempotent_write
//! [`Endpoint::keyed_write`]: crate::Endpoint::keyed_write
//! [`Endpoint::never_resend`]: crate::Endpoint::never_resend
//! [`Endpoint::probed_write`]: crate::Endpoint::probed_write
//! [`Endpoint::read`]: crate::Endpoint::read
//! [`Endpoint::reading_body`]: crate::Endpoint::reading_body
//! [`Endpoint::unprotected_write`]: crate::Endpoint::unprotected_write
//! [`EndpointCatalog`]: crate::EndpointCatalog
//! [`ReplayBody`]: crate::ReplayBody
//! [`ReplayRequest`]: crate::ReplayRequest
//! [`SafeClientBuilder::with`]: crate::SafeClientBuilder::with
//! [`Unmarked::Untouched`]: crate::Unmarked::Untouched
//! [`with_default_write`]: crate::SafeRetry::with_default_write

#![allow(clippy::test_attr_in_doctest, reason = "a reader copies them; `tests/it/readme.rs` runs them")]
