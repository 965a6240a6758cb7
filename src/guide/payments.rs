//! How do I start with an API that moves money?
//!
//! The first hour, with an API like Stripe's. It takes a key, a deadline and an attempt limit, and
//! a client that follows no redirect.
//!
//! ```
//! use std::time::{Duration, SystemTime};
//!
//! use reqwest_middleware::ClientWithMiddleware;
//! use reqwest_safe_retry::{Endpoint, IdempotencyKey, KeyContract, RetryError, SafeRetry, Uuid, policy::InvalidKey};
//! # use reqwest_safe_retry::testing::{Fault, FaultServer};
//!
//! fn client() -> reqwest::Result<ClientWithMiddleware> {
//!     SafeRetry::new()
//!         .with_deadline(Duration::from_secs(30)) // of the whole operation
//!         .with_attempt_limit(Duration::from_secs(8)) // without it, a hang is never sent again
//!         .with_default_write(Endpoint::keyed_write(KeyContract::STRIPE)) // every POST and PATCH gets a key
//!         .client(reqwest::Client::builder().connect_timeout(Duration::from_secs(2)))
//!         .redirects_off()
//!         .build()
//! }
//!
//! /// Trying again yourself, later or after a restart, means using the key of the error: store both. No first use: the server never saw it.
//! fn to_store(error: &reqwest_middleware::Error) -> Option<(String, Option<SystemTime>)> {
//!     let key = RetryError::find(error)?.key()?;
//!     Some((key.as_str().to_owned(), key.first_use()))
//! }
//!
//! /// The way back: a key that the server may have forgotten by now is refused before anything is sent.
//! fn stored(text: &str, first_use: Option<SystemTime>) -> Result<IdempotencyKey, InvalidKey> {
//!     let key = IdempotencyKey::parse(text)?;
//!     Ok(match first_use {
//!         Some(at) => key.first_used(at),
//!         None => key,
//!     })
//! }
//!
//! /// Or nothing to store: the same key in every process, made from what the operation is.
//! fn derived(order: u64) -> IdempotencyKey {
//!     const SHOP: Uuid = Uuid::from_u128(0x5a1d_93c6_0f6e_4d35_9a52_61d0_7f9b_2c11); // your own, once and for all
//!     IdempotencyKey::derived(SHOP, &format!("order {order}: charge"))
//! }
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let lost = Fault::close_after_request;
//! # let api = FaultServer::start([lost(), lost(), lost(), Fault::ok("charged")]).await;
//! let client = client()?;
//! let charge = |key: IdempotencyKey| client.post(api.url("/v1/charges")).body("amount=300").with_extension(key).send();
//! if let Err(error) = charge(derived(2041)).await {
//!     let Some((text, first_use)) = to_store(&error) else { return Err(error.into()) };
//!     println!("{}", charge(stored(&text, first_use)?).await?.status()); // an hour later, in another process
//! }
//! # let keys: Vec<_> = api.requests().iter().map(|sent| sent.header("idempotency-key").map(str::to_owned)).collect();
//! # assert!(keys.len() == 4 && keys[0].is_some() && keys.iter().all(|key| *key == keys[0]));
//! # Ok(())
//! # }
//! ```
//!
//! # What you will meet
//!
//! * **A saved 500 is replayed.** An answer with `Idempotent-Replayed: true` is final: another send
//!   returns the same.
//! * **409** means that the first copy still runs. It is waited for, with the same key.
//! * **400** is final, and never a reason for a new key.
//! * **429 on a POST without a key** is not sent again. If your server counts before it acts, say
//!   so: `Endpoint::unprotected_write().trusting_refusal(StatusCode::TOO_MANY_REQUESTS)`.
//! * **reqwest's own `.timeout(..)`** keeps working underneath, per attempt. The deadline is ours.
//! * **`error_for_status()`** makes an error of an answer and drops its report. Use a
//!   [`ReportSlot`](crate::ReportSlot).
//! * **Stripe's GET and DELETE** ignore keys; only POST takes one.
//!
//! # Why an attempt limit as well
//!
//! A deadline ends the operation. It cannot let a second attempt start, because an attempt that
//! hangs uses up all of it. Hangs are real: after a GOAWAY, an HTTP/2 POST sometimes stays unsent
//! in the client below us (15 of 20,000 with plain reqwest), and only an attempt limit heals it.
//!
//! # Why redirects off
//!
//! * No POST is repeated elsewhere because a server said 307.
//! * Every kind of evidence counts: a limit that fires while still connecting proves that nothing
//!   was sent.
//! * A key stays where it is known. A resend that relies on a key follows no redirect to another
//!   origin anyway, on the paved client.
//!
//! Give the builder a `connect_timeout`: a connection that cannot be made fails early, with proof.
//!
//! # Before you go live
//!
//! 1. Write each write of the API into a [catalogue](super::safe_to_repeat) and let a test audit
//!    it.
//! 2. [Rehearse](super::testing) a lost answer on your own client, and count what the server saw.
//! 3. Alert on `safe_retry_unknown_outcomes_total`: see [telemetry](super::telemetry).
//! 4. Decide who [looks on Monday morning](super::outcome_unknown).
//!
//! [Keys](super::keys) has the contracts of well-known APIs.
