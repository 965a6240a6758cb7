//! Everything a decision may look at, and nothing else: what is not in here cannot sway it, so a
//! recorded situation replays to the same decision.

use std::time::Duration;

use super::{Draw, Effect, Evidence, InvalidHint, Signal};

/// Everything a decision may look at: time, chance and proof are arguments, so the same situation
/// always gives the same decision.
///
/// [`Situation::new`] is complete at birth; the `with_…` methods replace single facts.
///
/// # Examples
/// ```
/// use reqwest_safe_retry::policy::{BodySupply, Decision, Effect, Evidence, Lapsed, RetryPolicy, Signal, Situation, StopReason};
/// use std::time::Duration;
///
/// const HOUR: Duration = Duration::from_secs(3600);
/// let keyed = Effect::KeyedWrite { remembered_for: 24 * HOUR, lapsed: Lapsed::Stop };
/// let lost = Situation::new(keyed, Signal::Failed, Evidence::Unknown).with_sends(1).with_key_age(HOUR);
/// assert!(matches!(RetryPolicy::DEFAULT.decide(&lost), Decision::Resend(_)));
///
/// let forgotten = lost.clone().with_key_age(25 * HOUR);
/// assert_eq!(RetryPolicy::DEFAULT.decide(&forgotten), Decision::Stop(StopReason::KeyExpired));
/// let streamed = lost.clone().with_body(BodySupply::Consumed);
/// assert_eq!(RetryPolicy::DEFAULT.decide(&streamed), Decision::Stop(StopReason::BodyConsumed));
/// let late = lost.with_time_left(Duration::from_millis(1)).with_elapsed(Duration::from_secs(20));
/// assert_eq!(RetryPolicy::DEFAULT.decide(&late), Decision::Stop(StopReason::DeadlineTooNear));
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct Situation {
    /// What sending again does to the world.
    pub effect: Effect,
    /// What the last attempt, or the probe after it, came back with; [`Signal::SentBefore`] before
    /// the first attempt of what an earlier process may have sent.
    pub signal: Signal,
    /// The wait that the server asked for, counted from the arrival of the response head; `Err`
    /// when it asked unreadably.
    pub hint: Option<Result<Duration, InvalidHint>>,
    /// How long the wait was when it was told, where the hint is what is left of a wait that other
    /// operations were told; zero otherwise. All who wait for the same end are spread by it.
    #[cfg_attr(feature = "serde", serde(default))]
    pub told: Duration,
    /// The worst evidence of all attempts so far that no probe has cleared.
    pub evidence: Evidence,
    /// How many times the operation was sent.
    pub sends: u32,
    /// How many of the sends found an earlier copy still being processed.
    #[cfg_attr(feature = "serde", serde(default))]
    pub key_in_use: u32,
    /// How many probes were asked since the last send.
    pub probes: u32,
    /// How many probes were asked before the last send.
    pub earlier_probes: u32,
    /// Time since the operation started: since the first attempt, unless a shared cool-down held
    /// that back.
    pub elapsed: Duration,
    /// Time since the key was first sent.
    pub key_age: Duration,
    /// Time until the deadline; [`Duration::MAX`] when there is none.
    pub time_left: Duration,
    /// The longest that the next attempt can take before its own limit cuts it; [`Duration::MAX`]
    /// when it has none. Until its end the server has to remember the key that it relies on.
    #[cfg_attr(feature = "serde", serde(default = "unlimited"))]
    pub attempt_limit: Duration,
    /// Whether the request's body can be supplied once more.
    pub body: BodySupply,
    /// The random draw for jitter.
    pub draw: Draw,
}

impl Situation {
    /// A situation after one send (after none for [`Signal::SentBefore`]): no time has passed, no
    /// deadline, no attempt limit, a body that can be supplied again, no hint, [`Draw::HALF`].
    #[must_use]
    pub const fn new(effect: Effect, signal: Signal, evidence: Evidence) -> Self {
        Self {
            effect,
            signal,
            hint: None,
            told: Duration::ZERO,
            evidence,
            sends: if matches!(signal, Signal::SentBefore) { 0 } else { 1 },
            key_in_use: 0,
            probes: 0,
            earlier_probes: 0,
            elapsed: Duration::ZERO,
            key_age: Duration::ZERO,
            time_left: Duration::MAX,
            attempt_limit: Duration::MAX,
            body: BodySupply::Replayable,
            draw: Draw::HALF,
        }
    }

    /// Replaces the server's hint: `Ok(wait)`, `Err(InvalidHint)`, or what
    /// [`Hint::parse`](super::Hint::parse) returned.
    #[must_use]
    pub fn with_hint(mut self, hint: impl Into<Option<Result<Duration, InvalidHint>>>) -> Self {
        self.hint = hint.into();
        self
    }

    /// Replaces how long the wait was when other operations were told.
    ///
    /// ```
    /// use reqwest_safe_retry::policy::{
    ///     Decision, Effect, Evidence, RetryPolicy, Signal, Situation,
    /// };
    /// use std::time::Duration;
    ///
    /// // The second send of a probed write was lost. A probe before it said "absent", one after it
    /// // that the write is being processed: ask again.
    /// let lost = Situation::new(Effect::ProbedWrite, Signal::Failed, Evidence::Unknown);
    /// let situation = lost.with_sends(2).with_key_in_use(0).with_probes(1).with_earlier_probes(1);
    /// assert!(matches!(RetryPolicy::DEFAULT.decide(&situation), Decision::Probe(_)));
    ///
    /// // One second is left of the ten that all operations of this server were told to wait.
    /// let busy = Signal::Answered(http::StatusCode::SERVICE_UNAVAILABLE);
    /// let situation = Situation::new(Effect::Read, busy, Evidence::Unknown)
    ///     .with_hint(Some(Ok(Duration::from_secs(1))))
    ///     .with_told(Duration::from_secs(10));
    /// let decision = RetryPolicy::DEFAULT.decide(&situation);
    /// let Decision::Resend(permit) = decision else { unreachable!() };
    /// assert!(permit.pause() >= Duration::from_secs(1));
    /// ```
    #[must_use]
    pub const fn with_told(mut self, told: Duration) -> Self {
        self.told = told;
        self
    }

    /// Replaces the number of sends so far.
    #[must_use]
    pub const fn with_sends(mut self, sends: u32) -> Self {
        self.sends = sends;
        self
    }

    /// Replaces how many of the sends found an earlier copy still being processed.
    #[must_use]
    pub const fn with_key_in_use(mut self, sends: u32) -> Self {
        self.key_in_use = sends;
        self
    }

    /// How many of the sends count as attempts.
    pub(super) const fn tries(&self) -> u32 {
        self.sends.saturating_sub(self.key_in_use)
    }

    /// Replaces the number of probes since the last send.
    #[must_use]
    pub const fn with_probes(mut self, probes: u32) -> Self {
        self.probes = probes;
        self
    }

    /// Replaces the number of probes before the last send.
    #[must_use]
    pub const fn with_earlier_probes(mut self, probes: u32) -> Self {
        self.earlier_probes = probes;
        self
    }

    /// Replaces the time since the operation started.
    #[must_use]
    pub const fn with_elapsed(mut self, elapsed: Duration) -> Self {
        self.elapsed = elapsed;
        self
    }

    /// Replaces the time since the key was first sent.
    #[must_use]
    pub const fn with_key_age(mut self, key_age: Duration) -> Self {
        self.key_age = key_age;
        self
    }

    /// Replaces the time until the deadline.
    #[must_use]
    pub const fn with_time_left(mut self, time_left: Duration) -> Self {
        self.time_left = time_left;
        self
    }

    /// Replaces the longest that the next attempt can take.
    #[must_use]
    pub const fn with_attempt_limit(mut self, limit: Duration) -> Self {
        self.attempt_limit = limit;
        self
    }

    /// Replaces whether the body can be supplied once more.
    #[must_use]
    pub const fn with_body(mut self, body: BodySupply) -> Self {
        self.body = body;
        self
    }

    /// Replaces the random draw.
    #[must_use]
    pub const fn with_draw(mut self, draw: Draw) -> Self {
        self.draw = draw;
        self
    }
}

/// What situations say that were written down before there was an attempt limit in them.
#[cfg(feature = "serde")]
const fn unlimited() -> Duration {
    Duration::MAX
}

/// Whether the request's body can be supplied once more.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[expect(clippy::exhaustive_enums, reason = "a body can be supplied again or it cannot")]
pub enum BodySupply {
    /// Every attempt can send the same bytes.
    Replayable,
    /// The body was a stream, and it is spent.
    Consumed,
}
