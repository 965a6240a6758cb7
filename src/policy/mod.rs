//! The policy engine: whether an operation may run again, and when. Pure.
//!
//! It names only `std`, `http` and `httpdate`. There is no clock, no randomness, no I/O, no async
//! and no logging in here: time left, the jitter draw, the evidence and the server's hint are
//! arguments ([`Situation`]), the answer is a value ([`Decision`]). So it can be put in a `const`,
//! shared by many clients and services, used without any client (`default-features = false`), and
//! tested exhaustively.
//!
//! It decides by three tables, each one `match` without a catch-all arm, and `docs/tables.md`
//! prints them: what an answer means ([`RetryPolicy::read`]), why sending again is harmless or why
//! not ([`RetryPolicy::decide`]), and what is known in the end ([`Outcome::of`]).
//!
//! ```
//! use reqwest_safe_retry::policy::{
//!     Decision, Effect, Evidence, RetryPolicy, Signal, Situation, StopReason,
//! };
//!
//! // A POST without a key whose answer was lost: nobody knows whether it happened, so it is not
//! // sent again.
//! let lost = Situation::new(Effect::UnprotectedWrite, Signal::Failed, Evidence::Unknown);
//! assert_eq!(RetryPolicy::DEFAULT.decide(&lost), Decision::Stop(StopReason::MayHaveHappened));
//!
//! // The same failure, but the connection was refused: the server cannot have acted.
//! let refused = Situation::new(Effect::UnprotectedWrite, Signal::Failed, Evidence::Unprocessed);
//! assert!(matches!(RetryPolicy::DEFAULT.decide(&refused), Decision::Resend(_)));
//! ```

#![warn(clippy::wildcard_enum_match_arm)]

mod backoff;
mod bucket;
mod decision;
pub mod defaults;
mod effect;
mod explain;
mod instant;
mod key;
mod outcome;
mod protection;
mod reading;
mod retry_after;
mod shared_wait;
mod signal;
mod situation;
mod statuses;
pub(crate) mod structured;
mod throttle;
#[cfg(feature = "serde")]
mod trace;
mod variants;
mod window;

#[cfg(test)]
mod tests;

use std::time::Duration;

pub use backoff::{Backoff, Draw, Jitter};
pub use bucket::{BudgetLimits, Token, TokenBucket};
pub use decision::{Decision, ResendPermit, ResendReason, StopReason};
pub use effect::{Effect, Lapsed};
pub use explain::Explanation;
#[cfg(target_arch = "wasm32")] // elsewhere it is the standard library's
pub use instant::Instant;
pub use key::{Coverage, IdempotencyKey, InvalidKey, KeyAnswer, KeyContract, KeyFormat, KeySource, Replays, UniqueWithin};
pub use outcome::{Ending, History, LastAnswer, Outcome};
pub use reading::{AnswerFacts, ServerAdvice, TooEarly, Verdict};
pub use retry_after::{Hint, InvalidHint};
#[cfg(feature = "middleware")]
pub(crate) use retry_after::{SECOND, decimal, longest_of, server_time};
pub use shared_wait::SharedWait;
pub use signal::{Evidence, Signal};
pub use situation::{BodySupply, Situation};
pub use statuses::RetryStatuses;
pub use throttle::{AdaptiveLimits, AdaptiveThrottle};

pub(crate) use variants::every_variant;

use protection::{Key, Occasion, Protection, protect};

/// When an operation may be sent again, how often and how fast. `Copy`, `const`, without a clock.
///
/// # Default
/// [`RetryPolicy::DEFAULT`]; each number with its reason in [`defaults`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
#[doc(alias("exponential backoff", "max retries"))]
pub struct RetryPolicy {
    attempts: u32,
    backoff: Backoff,
    throttle_backoff: Backoff,
    window: Duration,
    least_attempt: Duration,
    statuses: RetryStatuses,
    key_in_use_waits: u32,
    hint_spread: HintSpread,
    unreadable_hint: UnreadableHint,
}

impl RetryPolicy {
    /// The defaults of this crate, each explained in [`defaults`].
    pub const DEFAULT: Self = Self {
        attempts: defaults::ATTEMPTS,
        backoff: defaults::BACKOFF,
        throttle_backoff: defaults::THROTTLE_BACKOFF,
        window: defaults::WINDOW,
        least_attempt: defaults::LEAST_ATTEMPT,
        statuses: defaults::STATUSES,
        key_in_use_waits: defaults::KEY_IN_USE_WAITS,
        hint_spread: defaults::HINT_SPREAD,
        unreadable_hint: defaults::UNREADABLE_HINT,
    };

    /// The policy of the article that this crate grew from: only 429 and 503, 4 attempts, 100 ms
    /// doubling to 2 s with full jitter for every signal, the hint exactly as sent, no least
    /// attempt and no window. Its deadline is the caller's.
    pub const ARTICLE: Self = {
        let backoff = Backoff::doubling(Duration::from_millis(100), Duration::from_secs(2));
        Self {
            attempts: 4,
            backoff,
            throttle_backoff: backoff,
            window: Duration::MAX,
            least_attempt: Duration::ZERO,
            statuses: RetryStatuses::THROTTLING,
            key_in_use_waits: defaults::KEY_IN_USE_WAITS,
            hint_spread: HintSpread::Exact,
            unreadable_hint: UnreadableHint::Stop,
        }
    };

    /// Replaces how many times an operation may be sent in all. The first send counts; 0 means 1.
    ///
    /// A send that only found an earlier copy of itself still being processed does not count: those
    /// have a [number of their own](Self::with_key_in_use_waits).
    #[doc(alias("max retries", "retries"))]
    pub const fn with_attempts(self, total: u32) -> Self {
        Self { attempts: if total == 0 { 1 } else { total }, ..self }
    }

    /// Replaces the backoff after failures and after statuses other than 429 and 503.
    pub const fn with_backoff(self, backoff: Backoff) -> Self {
        Self { backoff, ..self }
    }

    /// Replaces the backoff after 429, 503 and a key in use: the server said "too much", so the
    /// pause starts longer.
    pub const fn with_throttle_backoff(self, backoff: Backoff) -> Self {
        Self { throttle_backoff: backoff, ..self }
    }

    /// Replaces the window: where there is no deadline, no attempt *starts* later than this after
    /// the first one started.
    pub const fn with_window(self, limit: Duration) -> Self {
        Self { window: limit, ..self }
    }

    /// Replaces the least time an attempt needs: a resend that would have less before the deadline
    /// is not started. The strict reading of "a useful attempt" is your attempt limit.
    pub const fn with_least_attempt(self, limit: Duration) -> Self {
        Self { least_attempt: limit, ..self }
    }

    /// Replaces the statuses after which trying again can help.
    pub const fn with_statuses(self, statuses: RetryStatuses) -> Self {
        Self { statuses, ..self }
    }

    /// Replaces how often an operation waits for a copy of itself that the server is still
    /// processing (a key in use). With a single attempt it never waits.
    ///
    /// ```
    /// use reqwest_safe_retry::policy::{HintSpread, RetryPolicy, UnreadableHint};
    ///
    /// let policy = RetryPolicy::DEFAULT.with_key_in_use_waits(3);
    /// assert_eq!(policy.key_in_use_waits(), 3);
    /// // The rest is as it was.
    /// assert_eq!(policy.hint_spread(), HintSpread::Jittered);
    /// assert_eq!(policy.unreadable_hint(), UnreadableHint::Stop);
    /// ```
    pub const fn with_key_in_use_waits(self, waits: u32) -> Self {
        Self { key_in_use_waits: waits, ..self }
    }

    /// Replaces how a server's wait is spread, so that everybody who was told "30" does not come
    /// back in one wave.
    pub const fn with_hint_spread(self, spread: HintSpread) -> Self {
        Self { hint_spread: spread, ..self }
    }

    /// Replaces what an unreadable hint means.
    pub const fn with_unreadable_hint(self, unreadable: UnreadableHint) -> Self {
        Self { unreadable_hint: unreadable, ..self }
    }

    /// How many times an operation may be sent in all, the first send included.
    #[must_use]
    pub const fn attempts(&self) -> u32 {
        self.attempts
    }

    /// The backoff after failures and after statuses other than 429 and 503.
    #[must_use]
    pub const fn backoff(&self) -> Backoff {
        self.backoff
    }

    /// The backoff after 429, 503 and a key in use.
    #[must_use]
    pub const fn throttle_backoff(&self) -> Backoff {
        self.throttle_backoff
    }

    /// How long after the first attempt the last one may start, where there is no deadline.
    #[must_use]
    pub const fn window(&self) -> Duration {
        self.window
    }

    /// The least time before the deadline with which a resend is started.
    #[must_use]
    pub const fn least_attempt(&self) -> Duration {
        self.least_attempt
    }

    /// The statuses after which trying again can help.
    #[must_use]
    pub const fn statuses(&self) -> RetryStatuses {
        self.statuses
    }

    /// How often an operation waits for a copy of itself that is still being processed.
    #[must_use]
    pub const fn key_in_use_waits(&self) -> u32 {
        self.key_in_use_waits
    }

    /// How a server's wait is spread.
    #[must_use]
    pub const fn hint_spread(&self) -> HintSpread {
        self.hint_spread
    }

    /// What an unreadable hint means.
    #[must_use]
    pub const fn unreadable_hint(&self) -> UnreadableHint {
        self.unreadable_hint
    }

    /// Decides what to do after an attempt or a probe, or before the first attempt of what may have
    /// been sent before: signal, protection, attempts, pause, each leaving early, in this order.
    pub fn decide(&self, situation: &Situation) -> Decision {
        let occasion = match self.occasion(situation) {
            Ok(occasion) => occasion,
            Err(settled) => return settled,
        };
        match protect(situation.effect, Key::Remembered, occasion) {
            Protection::Return => Decision::Return,
            Protection::Stop(reason) => Decision::Stop(reason),
            Protection::Probe => self.probe(situation),
            Protection::Resend(_) => self.resend(situation, occasion),
        }
    }

    /// Whether an attempt is still worth sending after a pause that may have taken longer than
    /// planned.
    ///
    /// # Errors
    /// [`StopReason::DeadlineTooNear`]: less time is left than an attempt needs.
    ///
    /// ```
    /// use reqwest_safe_retry::policy::{RetryPolicy, StopReason};
    /// use std::time::Duration;
    ///
    /// let policy = RetryPolicy::DEFAULT.with_least_attempt(Duration::from_millis(200));
    /// assert_eq!(policy.least_attempt(), Duration::from_millis(200));
    /// assert_eq!(policy.still_worth_sending(Duration::from_secs(1)), Ok(()));
    /// let late = policy.still_worth_sending(Duration::from_millis(100));
    /// assert_eq!(late, Err(StopReason::DeadlineTooNear));
    /// ```
    pub fn still_worth_sending(&self, time_left: Duration) -> Result<(), StopReason> {
        if time_left.is_zero() || time_left < self.least_attempt { Err(StopReason::DeadlineTooNear) } else { Ok(()) }
    }

    /// Whether this signal is settled at once, whatever else there is to look at.
    #[cfg(feature = "middleware")]
    pub(crate) fn settles(&self, signal: Signal) -> bool {
        self.occasion(&Situation::new(Effect::NeverResend, signal, Evidence::Unknown)).is_err()
    }

    /// Step 1: a final signal is settled at once; a hint never makes a status retryable.
    fn occasion(&self, situation: &Situation) -> Result<Occasion, Decision> {
        let open = |unknown| match situation.evidence {
            Evidence::Unprocessed => Occasion::ProvenUnprocessed,
            Evidence::Unknown => unknown,
        };
        match situation.signal {
            Signal::Answered(status) if !self.statuses.contains(status) => Err(Decision::Return),
            Signal::Final(_) | Signal::Broken => Err(Decision::Return),
            Signal::Forbidden => Err(Decision::Stop(StopReason::ServerForbade)),
            Signal::Answered(_) | Signal::Resendable(_) | Signal::Overloaded(_) => Ok(open(Occasion::RetryableStatus)),
            Signal::Failed => Ok(open(Occasion::FailedUnknown)),
            Signal::BodyLost(_) => Ok(Occasion::BodyLost),
            Signal::KeyInUse => Ok(Occasion::KeyInUse),
            Signal::ProbedAbsent => Ok(Occasion::ProbedAbsent),
            Signal::SentBefore => Ok(Occasion::SentBefore),
        }
    }

    /// Steps 3 and 4 for a resend that something protects.
    fn resend(&self, situation: &Situation, occasion: Occasion) -> Decision {
        if situation.body == BodySupply::Consumed {
            return Decision::Stop(StopReason::BodyConsumed);
        }
        if self.are_sends_spent(situation, occasion) {
            return Decision::Stop(StopReason::AttemptsSpent);
        }
        let waits = if occasion == Occasion::KeyInUse { situation.key_in_use } else { situation.tries() };
        let (pause, backoff) = match self.pause(situation, waits) {
            Ok(pauses) => pauses,
            Err(reason) => return Decision::Stop(reason),
        };
        // The server may have forgotten the key by the time the resend arrives, which can be as
        // late as its attempt ends.
        let lasts = self.longest_attempt(situation.attempt_limit);
        let key_age = situation.key_age.saturating_add(pause).saturating_add(lasts);
        match protect(situation.effect, Key::of_age(key_age, situation.effect), occasion) {
            Protection::Resend(reason) => Decision::Resend(ResendPermit::new(pause, backoff, reason, lasts)),
            Protection::Probe => self.probe(situation),
            Protection::Return => Decision::Return,
            Protection::Stop(reason) => Decision::Stop(reason),
        }
    }

    /// Step 3. Waiting for a copy that is still being processed costs no attempt.
    fn are_sends_spent(&self, situation: &Situation, occasion: Occasion) -> bool {
        if occasion == Occasion::KeyInUse {
            self.attempts <= 1 || situation.key_in_use > self.key_in_use_waits
        } else {
            situation.tries() >= self.attempts
        }
    }

    /// How long the server has to remember a key after its attempt was sent. Where nothing limits
    /// the attempt, all that is known is the least it needs.
    fn longest_attempt(&self, limit: Duration) -> Duration {
        if limit == Duration::MAX { self.least_attempt } else { limit.max(self.least_attempt) }
    }

    /// Steps 3 and 4 for a probe: sends bound it too, and there are at most as many probes as
    /// attempts.
    fn probe(&self, situation: &Situation) -> Decision {
        let probes = situation.earlier_probes.saturating_add(situation.probes);
        if situation.tries() >= self.attempts || probes >= self.attempts {
            return Decision::Stop(StopReason::AttemptsSpent);
        }
        match self.pause(situation, situation.tries().saturating_add(situation.probes)) {
            Ok((pause, _)) => Decision::Probe(pause),
            Err(reason) => Decision::Stop(reason),
        }
    }

    /// Step 4: the pause and the backoff it was drawn from, or the limit that it would break. A
    /// hint is never shortened.
    fn pause(&self, situation: &Situation, waits: u32) -> Result<(Duration, Duration), StopReason> {
        let hint = match situation.hint {
            None => None,
            Some(Ok(hint)) => Some(hint),
            Some(Err(InvalidHint)) => match self.unreadable_hint {
                UnreadableHint::Stop => return Err(StopReason::UnreadableHint),
                UnreadableHint::UseBackoff => None,
            },
        };
        let room = self.room(situation.elapsed, situation.time_left)?;
        let schedule = self.schedule(situation.signal, waits);
        let backoff = schedule.bound(waits);
        let jittered = schedule.pause(waits, situation.draw);
        let pause = match hint {
            None => jittered,
            Some(hint) => match self.hint_spread {
                HintSpread::Exact => jittered.max(hint),
                HintSpread::Jittered => {
                    let least = schedule.least(backoff);
                    let floor = hint.max(least);
                    let spread = backoff.saturating_sub(least).max(hint.max(situation.told) / defaults::HINT_SPREAD_DIVISOR);
                    floor.saturating_add(situation.draw.of(spread.min(room.longest.saturating_sub(floor))))
                }
            },
        };
        if room.holds(pause) { Ok((pause, backoff)) } else { Err(room.limit) }
    }

    /// The backoff after this signal and so many sends and probes.
    fn schedule(&self, signal: Signal, waits: u32) -> Backoff {
        // The probe already waited for what the attempt before it asked; and where nothing was sent
        // or asked yet, there is nothing to keep a distance from.
        if signal == Signal::ProbedAbsent || (signal == Signal::SentBefore && waits == 0) {
            Backoff::doubling(Duration::ZERO, Duration::ZERO)
        } else if signal.is_throttle() {
            self.throttle_backoff
        } else {
            self.backoff
        }
    }

    /// How long the next pause may be, and which limit says so. Exactly one of deadline and window
    /// applies.
    fn room(&self, elapsed: Duration, time_left: Duration) -> Result<Room, StopReason> {
        if time_left == Duration::MAX {
            let longest = self.window.checked_sub(elapsed).ok_or(StopReason::WindowClosed)?;
            Ok(Room { longest, limit: StopReason::WindowClosed })
        } else {
            let longest = time_left.checked_sub(self.least_attempt).ok_or(StopReason::DeadlineTooNear)?;
            Ok(Room { longest, limit: StopReason::DeadlineTooNear })
        }
    }
}

impl Default for RetryPolicy {
    fn default() -> Self {
        Self::DEFAULT
    }
}

/// The room for one pause.
struct Room {
    longest: Duration,
    limit: StopReason,
}

impl Room {
    /// A pause up to the window is fine; a pause up to the deadline leaves nothing to send in. A
    /// saturated wait fits nowhere.
    fn holds(&self, pause: Duration) -> bool {
        pause < self.longest || (pause == self.longest && self.limit == StopReason::WindowClosed && pause < Duration::MAX)
    }
}

/// How a server's wait is spread over the clients that were told it. The wait is never shorter
/// than the server asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[expect(clippy::exhaustive_enums, reason = "spread or not")]
pub enum HintSpread {
    /// `hint + draw · min(max(backoff, hint / 4), what still fits)`; of a shared wait, a quarter of
    /// what was told, not of what is left.
    Jittered,
    /// The longer of hint and jittered backoff.
    Exact,
}

/// What a wait that cannot be read means.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[expect(clippy::exhaustive_enums, reason = "guess or do not guess")]
pub enum UnreadableHint {
    /// Stop with [`StopReason::UnreadableHint`]: the server asked to wait, and any guess may be too
    /// early.
    Stop,
    /// As if the server had said nothing.
    UseBackoff,
}
