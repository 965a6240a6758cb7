//! HTTP retries that are safe: a [`reqwest_middleware`] plugin that repeats a request only when it can say why repeating is harmless, never
//! earlier than the server asked, never past the operation's deadline, and that says plainly when nobody can know whether a write happened.
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
//! * [`policy`]: the engine. Pure: no clock, no chance, no I/O. Builds alone with `default-features = false`.
//! * [`SafeRetry`]: the middleware and its defaults; [`SafeRetry::client`] builds a client whose evidence is complete, [`SendWitness`] gives
//!   an existing client what can be given to it.
//! * [`Endpoint`]: what you know about a request, per request; [`EndpointCatalog`]: the same as a table that can be audited; [`presets`]:
//!   what is publicly known about well-known APIs.
//! * [`Deadline`], [`IdempotencyKey`], [`CorrelationId`], [`ReplayBody`], [`ReplayRequest`], [`ReportSlot`]: what else a request can carry.
//! * [`StatusProbe`], [`StatusUrl`]: asking what became of a write. [`RetryBudget`], [`Cooldown`]: what is shared, so that no storm starts.
//! * [`HintSources`], [`AttemptHeaders`]: what servers say besides `Retry-After`, and what they are told.
//! * [`RetryReport`], [`RetryError`], [`RetryErrorExt`], [`Observer`]: what comes out.
//!
//! # What it does not do
//!
//! It keeps no state beyond budgets, cool-downs and, for contracts that ask for it ([`KeyContract::with_reuse_guard`]), hashes of the keys
//! used last; each is bounded. It spawns no task, changes no request but by the headers you asked for, and never decides
//! by the text of an error. The README has the tables: which effect is sent again and why, every default with its reason, every result.
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
//! | `serde` | | reports as JSON, catalogues from TOML and JSON |
//! | `testing` | | scripted peers, to rehearse on your own client |
//! | `testing-h2`, `testing-tls` | | the same over HTTP/2 and TLS |

// Shows on docs.rs which feature an item needs.
#![cfg_attr(docsrs, feature(doc_cfg))]

pub mod policy;

#[cfg(feature = "middleware")]
mod attempt;
#[cfg(feature = "middleware")]
mod attempt_headers;
#[cfg(feature = "middleware")]
mod attempt_loop;
#[cfg(feature = "middleware")]
mod audit;
#[cfg(feature = "middleware")]
mod body;
#[cfg(feature = "middleware")]
mod budget;
#[cfg(feature = "middleware")]
mod catalog;
#[cfg(feature = "middleware")]
mod client;
#[cfg(feature = "middleware")]
mod cooldown;
#[cfg(feature = "middleware")]
mod correlation;
#[cfg(feature = "middleware")]
mod deadline;
#[cfg(feature = "middleware")]
mod drain;
#[cfg(feature = "middleware")]
mod endpoint;
#[cfg(feature = "middleware")]
mod error;
#[cfg(feature = "middleware")]
mod evidence;
#[cfg(feature = "middleware")]
mod key_source;
#[cfg(feature = "middleware")]
mod middleware;
#[cfg(feature = "middleware")]
mod observe;
#[cfg(feature = "middleware")]
mod operation_key;
#[cfg(feature = "middleware")]
mod origin;
#[cfg(feature = "middleware")]
mod plan;
#[cfg(feature = "middleware")]
pub mod presets;
#[cfg(feature = "middleware")]
mod probe;
#[cfg(feature = "middleware")]
mod replay;
#[cfg(feature = "middleware")]
mod report;
#[cfg(feature = "middleware")]
mod reuse_guard;
#[cfg(feature = "middleware")]
mod scope;
#[cfg(feature = "middleware")]
mod status_url;
#[cfg(feature = "middleware")]
mod supply;
#[cfg(feature = "testing")]
pub mod testing;
#[cfg(feature = "middleware")]
mod vendor_hints;
#[cfg(feature = "middleware")]
mod witness;

#[doc(inline)]
pub use policy::{
    AdaptiveLimits, Backoff, BodySupply, BudgetLimits, Decision, Draw, Effect, Evidence, Explanation, Hint, HintSpread, IdempotencyKey,
    InvalidHint, InvalidKey, Jitter, KeyAnswer, KeyContract, KeyFormat, KeyScope, KeySource, Lapsed, Replays, ResendPermit, ResendReason,
    RetryPolicy, RetryStatuses, Signal, Situation, StopReason, UnreadableHint,
};

#[cfg(feature = "middleware")]
pub use {
    attempt_headers::{AttemptHeaders, TimeLeftFormat},
    audit::{Audit, AuditRow, Finding, Gap, Severity},
    body::BodyDeadlineExceeded,
    budget::RetryBudget,
    catalog::{CatalogError, EndpointCatalog, Row},
    client::SafeClientBuilder,
    cooldown::{Cooldown, HoldsBack},
    correlation::{CorrelationId, InvalidCorrelationId},
    deadline::Deadline,
    endpoint::{Answer, DEFAULT_SETTLING, Endpoint, Verdict},
    error::{Failure, Misuse, RetryError, RetryErrorExt},
    key_source::KeyFingerprint,
    middleware::{SafeRetry, Unmarked},
    observe::{Decided, Observer},
    origin::Origin,
    probe::{Operation, ProbeVerdict, StatusProbe},
    replay::{ReplayBody, ReplayRequest},
    report::{AttemptRecord, Cause, Found, Outcome, ProbeRecord, ReportSlot, RetryReport, TimeLimit},
    scope::ScopeKey,
    status_url::{InvalidStatusUrl, StatusUrl},
    vendor_hints::{HintSources, Veto},
    witness::SendWitness,
};

#[cfg(all(feature = "middleware", feature = "serde"))]
pub use catalog::InvalidFile;

/// Makes an `async fn` of a trait usable behind `dyn`, as implementations of [`StatusProbe`] need it: re-exported, so that they need no
/// dependency of their own.
#[cfg(feature = "middleware")]
pub use async_trait::async_trait;
/// The namespace of [`IdempotencyKey::derived`].
#[cfg(feature = "middleware")]
pub use uuid::Uuid;

/// The README's programs compile. Some of them are tests, which need the scripted peers.
#[cfg(all(doctest, feature = "testing"))]
#[doc = include_str!("../README.md")]
struct Readme;
