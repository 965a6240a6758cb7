//! stub

pub mod policy;

#[cfg(feature = "middleware")]
mod attempt;
#[cfg(feature = "middleware")]
mod attempt_loop;
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
mod supply;
#[cfg(feature = "testing")]
pub mod testing;
#[cfg(feature = "middleware")]
mod vendor_hints;
#[cfg(feature = "middleware")]
mod witness;

pub use policy::{
    Backoff, BodySupply, Decision, Draw, Effect, Evidence, Explanation, Hint, HintSpread, IdempotencyKey, InvalidHint, InvalidKey, Jitter,
    KeyAnswer, KeyContract, KeyFormat, KeyScope, KeySource, Lapsed, Replays, ResendPermit, ResendReason, RetryPolicy, RetryStatuses,
    Signal, Situation, StopReason, UnreadableHint,
};

#[cfg(feature = "middleware")]
pub use {
    body::BodyDeadlineExceeded,
    budget::RetryBudget,
    catalog::EndpointCatalog,
    client::SafeClientBuilder,
    correlation::{CorrelationId, InvalidCorrelationId},
    deadline::Deadline,
    endpoint::{Answer, DEFAULT_SETTLING, Endpoint, Verdict},
    error::{Failure, Misuse, RetryError, RetryErrorExt},
    key_source::KeyFingerprint,
    middleware::{SafeRetry, Unmarked},
    observe::{Decided, Observer},
    origin::Origin,
    policy::{AdaptiveLimits, BudgetLimits},
    probe::{Operation, ProbeVerdict, StatusProbe},
    replay::{ReplayBody, ReplayRequest},
    report::{AttemptRecord, Cause, Found, Outcome, ProbeRecord, ReportSlot, RetryReport, TimeLimit},
    scope::ScopeKey,
    vendor_hints::{HintSources, Veto},
    witness::SendWitness,
};
