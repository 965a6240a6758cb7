//! What does an idempotency key promise, and for how long?
//!
//! A key names one operation, so that the server recognises a second copy and acts once. It is a
//! promise of the *server*: where the key stands, how it is spelled, how long it is remembered,
//! what the answers mean. A [`KeyContract`] states that promise. Read the server's documentation
//! before you write one.
//!
//! # The contract
//!
//! | fact | how to say it | where nobody says |
//! |---|---|---|
//! | header, spelling, memory | [`KeyContract::new`], or [`ietf`] for the IETF draft | must be said |
//! | who makes the key | [`with_source`] | a random key is made for each operation |
//! | length | [`with_length`] | 1 to 255 characters |
//! | "the first copy still runs" | [`with_in_progress`]: waited for beside the attempts, up to 10 times, with the same key | an answer like any other |
//! | "this key had other content" | [`with_mismatch`]: final, and never a reason for a new key | an answer like any other |
//! | "this is a saved answer" | [`with_replay_marker`]: final, whatever the status | unknown |
//! | which results are saved | [`with_replays`]: the second equal failure is final where failures are saved | unstated |
//! | unique within what | [`with_uniqueness`] | the account |
//! | time of the first send as a header | [`with_first_sent_header`] (OASIS) | none |
//! | a look-out for reused keys, on this side | [`with_reuse_guard`] | off |
//!
//! [`presets`] has Stripe, PayPal, Adyen, Checkout.com, TrueLayer, Whop, Fullstory, Azure and
//! OASIS, each with the page that says so. Servers that take a bare key refuse a quoted one, or
//! count it as another key: `IdempotencyKey` and `"IdempotencyKey"` are two.
//!
//! # What this crate does with it
//!
//! * The key is made or checked before the first send. Every attempt carries the same bytes.
//! * No new key is ever made for an operation that failed under its first one.
//! * It is no longer trusted once the server may have forgotten it. The time counts from the first
//!   use, also while a laptop sleeps or a virtual machine is paused. Then a [probe](super::probes)
//!   is asked, or the operation stops with [`KeyExpired`](crate::StopReason::KeyExpired).
//! * For a contract that remembers for seconds, set an attempt limit: with it, no resend relies on
//!   a key that the server may forget before the attempt has ended.
//! * It is not trusted where an inner middleware replaced it or a redirect led to another origin:
//!   [`Advice`](crate::Advice) says so in the report and once per origin in the log.
//! * One call of the client is one operation with one key, also when an outer middleware sends it
//!   again, on the client of [`SafeRetry::client`](crate::SafeRetry::client).
//! * Wrong use ends before anything is sent: no key where the caller must bring one, a malformed
//!   one, two that differ, one without a contract ([`Misuse`](crate::Misuse)).
//!
//! # Your own key
//!
//! ```
//! use std::time::Duration;
//!
//! use reqwest::{StatusCode, header::HeaderName};
//! use reqwest_safe_retry::{Endpoint, IdempotencyKey, KeyContract, SafeRetry, Uuid, policy::{KeyFormat, KeySource}};
//! # use reqwest_safe_retry::testing::{Fault, FaultServer};
//!
//! const HEADER: HeaderName = HeaderName::from_static("x-request-key");
//! const CONTRACT: KeyContract = KeyContract::new(HEADER, KeyFormat::Bare, Duration::from_secs(6 * 60 * 60))
//!     .with_source(KeySource::CallerMust)
//!     .with_in_progress(StatusCode::CONFLICT);
//!
//! /// The same in every process: nothing to store, and no second key by mistake.
//! fn key(order: u64) -> IdempotencyKey {
//!     const SHOP: Uuid = Uuid::from_u128(0x5a1d_93c6_0f6e_4d35_9a52_61d0_7f9b_2c11); // your own, once and for all
//!     IdempotencyKey::derived(SHOP, &format!("order {order}: capture"))
//! }
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> reqwest_middleware::Result<()> {
//! # let api = FaultServer::start([Fault::close_after_request(), Fault::ok("captured")]).await;
//! # let builder = reqwest::Client::builder().no_proxy();
//! # let client = SafeRetry::new().client(builder).redirects_off().build()?;
//! let capture = client.post(api.url("/orders/2041/capture")).with_extension(Endpoint::keyed_write(CONTRACT));
//! let answer = capture.with_extension(key(2041)).send().await?;
//! # assert_eq!(answer.status(), 200);
//! # api.assert_requests(2);
//! # assert_eq!(api.requests()[0].header("x-request-key"), api.requests()[1].header("x-request-key"));
//! # Ok(())
//! # }
//! ```
//!
//! Make the key outside of whatever repeats the call. A key that is made inside is new each time
//! and protects nothing. A key header that you write by hand is sent, but nothing relies on it
//! until an endpoint states the contract. Then the key in the contract's header is taken over, if
//! it is spelled as the contract says: [`ietf`] wants it quoted, [`KeyFormat::Bare`] does not.
//!
//! # A key in the body
//!
//! Some APIs take the key in the JSON body (Square: `idempotency_key`). This crate does not look
//! there. Two ways:
//!
//! * **Send it as a header too.** The server ignores a header that it does not know, every attempt
//!   carries the same body, and the memory of the contract holds. State the header, the memory and
//!   `CallerMust`, and give the same key as an extension.
//! * Or call it an [`idempotent_write`]: the same body comes with every attempt. Then nothing minds
//!   how long the server remembers the key, so give it a short deadline. Where 409 means "the first
//!   copy still runs", say so, or it is final:
//!
//! ```
//! use reqwest_safe_retry::{Endpoint, Verdict};
//!
//! let payment = Endpoint::idempotent_write()
//!     .classified_by(|answer| (answer.status() == 409).then_some(Verdict::Resendable));
//! # let _ = payment;
//! ```
//!
//! # The reuse guard
//!
//! [`with_reuse_guard`] refuses a key that comes back with another method, URL or body while it is
//! remembered ([`KeyReused`](crate::Misuse::KeyReused)). It sees what one client sends, and
//! remembers 10 000 keys as hashes: yours from the first send that may have left, and those that
//! this crate makes once an error has handed them out. Each body is hashed in the task that sends,
//! in about half a millisecond for each MiB. A 400 does not free the key: what you correct takes a
//! new one. A client that serves several tenants says what tells them apart
//! ([`with_key_accounts`]). The server's own check stays the authority.
//!
//! [`KeyContract`]: crate::KeyContract
//! [`KeyFormat::Bare`]: crate::policy::KeyFormat::Bare
//! [`KeyContract::new`]: crate::KeyContract::new
//! [`idempotent_write`]: crate::Endpoint::idempotent_write
//! [`ietf`]: crate::KeyContract::ietf
//! [`presets`]: crate::presets
//! [`with_first_sent_header`]: crate::KeyContract::with_first_sent_header
//! [`with_in_progress`]: crate::KeyContract::with_in_progress
//! [`with_key_accounts`]: crate::SafeRetry::with_key_accounts
//! [`with_length`]: crate::KeyContract::with_length
//! [`with_mismatch`]: crate::KeyContract::with_mismatch
//! [`with_replay_marker`]: crate::KeyContract::with_replay_marker
//! [`with_replays`]: crate::KeyContract::with_replays
//! [`with_reuse_guard`]: crate::KeyContract::with_reuse_guard
//! [`with_uniqueness`]: crate::KeyContract::with_uniqueness
//! [`with_source`]: crate::KeyContract::with_source
