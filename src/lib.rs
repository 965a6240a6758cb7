//! HTTP retries that are safe: a [`reqwest_middleware`] plugin that repeats a request only when it
//! can say why repeating is harmless, never earlier than the server asked, never past the
//! operation's deadline, and that says plainly when nobody can know whether a write happened.
//!
//! ```no_run
//! use reqwest_safe_retry::{Deadline, Endpoint, Evidence, KeyContract, RetryErrorExt, RetryReport, SafeRetry};
//! use std::time::Duration;
//!
//! # async fn run() -> Result<(), Box<dyn std::error::Error>> {
//! let builder = reqwest::Client::builder().connect_timeout(Duration::from_secs(2));
//! let client = SafeRetry::new().with_deadline(Duration::from_secs(20)).client(builder).redirects_off().build()?;
//!
//! // A read is sent again after any failure that can pass, and waits for as long as the server asks.
//! let menu = client.get("https://api.example/menu").send().await?;
//! println!("{} after {} attempts", menu.status(), RetryReport::of(&menu).map_or(1, |report| report.attempts().len()));
//!
//! // A write under a key the server honours is sent again with the same key.
//! let order = client.post("https://api.example/orders").body("1 coffee");
//! let order = order.with_extension(Endpoint::keyed_write(KeyContract::STRIPE)).with_extension(Deadline::after(Duration::from_secs(5)));
//! if let Err(error) = order.send().await {
//!     let not_done = error.evidence() == Evidence::Unprocessed; // otherwise nobody knows
//!     println!("{error}; timed out: {}; the server cannot have acted: {not_done}", error.timed_out());
//! }
//! # Ok(())
//! # }
//! ```
//!
//! # What is where
//!
//! * [`policy`]: the engine. Pure: no clock, no chance, no I/O. Builds alone with `default-features
//!   = false`.
//! * [`SafeRetry`]: the middleware and its defaults; [`SafeRetry::client`] builds a client whose
//!   evidence is complete, [`SendWitness`] gives an existing client what can be given to it.
//! * [`Endpoint`]: what you know about a request, per request; [`EndpointCatalog`]: the same as a
//!   table that can be audited; [`presets`]: what is publicly known about well-known APIs.
//! * [`Deadline`], [`IdempotencyKey`], [`SentBefore`], [`CorrelationId`], [`ReplayBody`],
//!   [`ReplayRequest`], [`ReportSlot`]: what else a request can carry.
//! * [`StatusProbe`], [`StatusUrl`]: asking what became of a write. [`RetryBudget`], [`Cooldown`]:
//!   what is shared, so that no storm starts.
//! * [`hints`], [`AttemptHeaders`]: what servers say besides `Retry-After`, and what they are told.
//! * [`RetryReport`], [`RetryError`], [`RetryErrorExt`], [`Observer`]: what comes out. [`report`]
//!   holds what stands in it, [`errors`] what can be wrong with something that is built or read,
//!   [`audit`] what a catalogue lacks.
//!
//! # What it does not do
//!
//! It keeps no state beyond budgets, cool-downs and, for contracts that ask for it
//! ([`KeyContract::with_reuse_guard`]), hashes of the keys used last; each is bounded. It spawns no
//! task, changes no request but by the headers you asked for, and never decides by the text of an
//! error. The [`guide`] answers one question a page: which effect is sent again and why, every
//! default with its reason, every result.
//!
//! # In a browser
//!
//! On `wasm32-unknown-unknown` the plugin builds with `default-features = false, features =
//! ["middleware"]`; all other features but those for testing build as well. Keys, hints, deadlines,
//! budgets, cool-downs, probes and reports work as everywhere. What is different:
//!
//! * Every fetch that fails is [`Evidence::Unknown`], and so is an answer that elsewhere proves
//!   something: a page is told neither why a fetch failed, nor of redirects. An unprotected write
//!   is never sent again.
//! * There is no [`SafeRetry::client`] and no [`SendWitness`]: put the plugin around a client by
//!   `reqwest_middleware::ClientBuilder`. What a redirect does with a key, nobody sees.
//! * A response carries no report, so there is no [`RetryReport::of`]: give a [`ReportSlot`] along.
//! * An answer's body belongs to no attempt: [`Endpoint::reading_body`] reads nothing, and
//!   classifiers see the head alone. The deadline covers the body all the same: when it passes, the
//!   fetch is aborted, and reading the body fails with a decoding error of reqwest.
//! * [`Deadline::at`] and [`Cooldown`] take `wasmtimer::std::Instant`. Futures are not `Send`, so a
//!   [`StatusProbe`] is written with `#[async_trait(?Send)]`.
//! * Connections are the browser's: nothing is drained, and [`ReplayBody`] has no streams to bound.
//! * A browser shows a page another origin's `Retry-After` only if that server lists it in
//!   `Access-Control-Expose-Headers`, and sends a key there only if it is in
//!   `Access-Control-Allow-Headers`. In a tab in the background timers fire late.
//!
//! # Features
//!
//! | feature | default | brings |
//! |---|---|---|
//! | `middleware` | yes | the plugin; without it only [`policy`] builds, with `http` and `httpdate` and nothing else |
//! | `tracing` | yes | spans and events of every decision |
//! | `http2` | yes | reads HTTP/2 refusals as proof |
//! | `rustls` | | recognises an untrusted certificate as beyond help: enable it with reqwest's default TLS, which is rustls |
//! | `metrics` | | counters and histograms through the `metrics` facade |
//! | `serde` | | reports, situations and decisions can be serialised |
//! | `catalog-files` | | catalogues from TOML and JSON, audits as JSON |
//! | `testing` | | scripted peers, to rehearse on your own client |
//! | `testing-h2`, `testing-tls` | | the same over HTTP/2 and TLS |

// Shows on docs.rs which feature an item needs.
#![cfg_attr(docsrs, feature(doc_cfg))]
// What nobody asks in a browser is compiled all the same, so that few files know of it.
#![cfg_attr(target_arch = "wasm32", allow(dead_code, reason = "nobody witnesses a fetch"))]

pub mod policy;

#[cfg(feature = "middleware")]
pub mod audit;
// What a client has below its middlewares no page can set.
#[cfg(all(feature = "middleware", not(target_arch = "wasm32")))]
mod client;
#[cfg(feature = "middleware")]
mod contract;
// Its programs talk to the scripted peers.
#[cfg(all(feature = "middleware", any(feature = "testing", not(doctest))))]
pub mod guide;
#[cfg(feature = "middleware")]
mod middleware;
#[cfg(feature = "middleware")]
mod observe;
#[cfg(feature = "middleware")]
mod operation;
#[cfg(feature = "middleware")]
mod outcome;
#[cfg(feature = "middleware")]
#[cfg_attr(target_arch = "wasm32", path = "platform/browser.rs")]
mod platform;
#[cfg(feature = "middleware")]
mod proof;
#[cfg(feature = "middleware")]
mod request;
#[cfg(feature = "middleware")]
mod response;
#[cfg(feature = "middleware")]
mod shared;
#[cfg(feature = "testing")]
pub mod testing;

#[doc(inline)]
pub use policy::{BudgetLimits, Effect, Evidence, IdempotencyKey, KeyContract, Outcome, RetryPolicy, StopReason, Verdict};

#[cfg(feature = "middleware")]
pub use {
    contract::catalog::{EndpointCatalog, Row},
    contract::endpoint::{Answer, Endpoint},
    contract::hints,
    contract::presets,
    contract::probe::{Operation, ProbeVerdict, StatusProbe},
    contract::status_url::StatusUrl,
    middleware::{SafeRetry, Unmarked},
    observe::Observer,
    outcome::advice::Advice,
    outcome::error::{Failure, Misuse, RetryError, RetryErrorExt},
    outcome::report::{ReportSlot, RetryReport},
    proof::cause::Cause,
    request::attempt_headers::{AttemptHeaders, TimeLeftFormat},
    request::correlation::CorrelationId,
    request::deadline::Deadline,
    request::replay::{ReplayBody, ReplayRequest},
    request::sent_before::SentBefore,
    shared::budget::RetryBudget,
    shared::cooldown::{Cooldown, HoldsBack},
    shared::scope::ScopeKey,
};

#[cfg(all(feature = "middleware", not(target_arch = "wasm32")))]
pub use {client::SafeClientBuilder, proof::witness::SendWitness};

/// What stands in a [`RetryReport`] and in what an [`Observer`] is told.
///
/// # Examples
/// ```no_run
/// use reqwest_safe_retry::report::{AttemptRecord, Found, KeyFingerprint, Origin, ProbeRecord, TimeLimit};
/// use reqwest_safe_retry::{Cause, RetryReport};
///
/// /// Whether an attempt of ours was cut short by our own limit.
/// fn cut(attempt: &AttemptRecord) -> bool {
///     attempt.cause() == Cause::TimedOut(TimeLimit::Attempt)
/// }
///
/// fn note(report: &RetryReport) {
///     let at: &Origin = report.origin();
///     let key: Option<KeyFingerprint> = report.key().map(|key| key.fingerprint()); // never the key
///     let asked: Option<&ProbeRecord> = report.probes().last();
///     let absent = asked.is_some_and(|probe| probe.found() == Found::Absent && probe.after_attempt() > 0);
///     println!("{}://{} {key:?} cut {} absent {absent}", at.scheme(), at.host(), report.attempts().iter().any(cut));
///     if report.sent_before().is_none() && !report.key_was_sent() && report.key_answer().is_none() {
///         println!("{:?} {:?}", report.correlation_id(), report.time_left());
///     }
/// }
/// ```
#[cfg(feature = "middleware")]
pub mod report {
    #[doc(inline)]
    pub use crate::{
        observe::Decided,
        outcome::report::{AttemptRecord, Found, ProbeRecord},
        proof::cause::TimeLimit,
        request::key_making::KeyFingerprint,
        request::origin::Origin,
    };
}

/// What is wrong with something that was to be built or read: everything but the failure of an
/// operation, which is a [`RetryError`].
///
/// # Examples
/// ```
/// use reqwest_safe_retry::errors::{BodyDeadlineExceeded, CatalogError, InvalidCorrelationId, InvalidHint, InvalidKey, InvalidStatusUrl};
/// use reqwest_safe_retry::{CorrelationId, Endpoint, EndpointCatalog, IdempotencyKey, Row, StatusUrl};
///
/// let key: Result<_, InvalidKey> = IdempotencyKey::parse("");
/// let id: Result<_, InvalidCorrelationId> = CorrelationId::new("two words");
/// let url: Result<_, InvalidStatusUrl> = StatusUrl::by_key("no template");
/// assert!(key.is_err() && id.is_err() && url.is_err());
///
/// let star = EndpointCatalog::new().with_row("https://api.example", Row::get("/*", Endpoint::read()));
/// assert!(matches!(star, Err(CatalogError::ForeignParameter { instead, .. }) if instead == "{*rest}"));
///
/// // A decision's hint that cannot be read, and a body that did not arrive in time.
/// # #[allow(unused)]
/// fn known(error: &(dyn std::error::Error + 'static)) -> bool {
///     error.is::<InvalidHint>() || error.is::<BodyDeadlineExceeded>()
/// }
/// ```
#[cfg(feature = "middleware")]
pub mod errors {
    #[cfg(feature = "catalog-files")]
    #[doc(inline)]
    pub use crate::contract::catalog::InvalidFile;
    #[doc(inline)]
    pub use crate::{
        contract::catalog::CatalogError,
        contract::status_url::InvalidStatusUrl,
        policy::{InvalidHint, InvalidKey},
        request::correlation::InvalidCorrelationId,
        response::body::BodyDeadlineExceeded,
    };
}

/// Makes an `async fn` of a trait usable behind `dyn`, as implementations of [`StatusProbe`] need
/// it: re-exported, so that they need no dependency of their own.
#[cfg(feature = "middleware")]
pub use async_trait::async_trait;
/// The namespace of [`IdempotencyKey::derived`].
#[cfg(feature = "middleware")]
pub use uuid::Uuid;

/// The README's programs compile. Some of them are tests, which need the scripted peers.
#[cfg(all(doctest, feature = "testing"))]
#[doc = include_str!("../README.md")]
struct Readme;
