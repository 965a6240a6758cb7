//! What is known about an attempt, apart from what it brought: what decisions, reports and log
//! lines are made from.

use std::time::Duration;

use http::StatusCode;

use crate::{
    platform::Instant,
    policy::{Evidence, InvalidHint, KeyAnswer, Signal},
    proof::cause::Cause,
    proof::witness::KeyKept,
};

/// What is known about one attempt.
pub(crate) struct AttemptFacts {
    /// What it came back with, or what a probe found after it.
    pub(crate) signal: Signal,
    pub(crate) evidence: Evidence,
    pub(crate) cause: Cause,
    pub(crate) status: Option<StatusCode>,
    /// The wait that its answer asks for, or the probe after it.
    pub(crate) hint: Option<Result<Duration, InvalidHint>>,
    /// For how long the server keeps a connection that nobody uses.
    pub(crate) keeps_alive: Option<Duration>,
    /// What the answer says about the key it was sent under.
    pub(crate) key_answer: Option<KeyAnswer>,
    /// Whether it went out under the operation's key.
    pub(crate) key_kept: KeyKept,
    /// How often it was sent: more than once if an inner middleware resends, 1 where nobody sees.
    pub(crate) sends: u32,
    pub(crate) started: Instant,
    /// When the head arrived or the attempt failed.
    pub(crate) ended: Instant,
}
