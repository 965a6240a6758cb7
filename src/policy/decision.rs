//! What `decide` answers: return, resend, probe, or stop with a reason. A value rather than an act,
//! so that it can be tested, logged and obeyed elsewhere; and a permit rather than a flag, so that
//! nothing is sent again without one.

use std::{fmt, time::Duration};

use super::Effect;
#[cfg(test)]
use super::every_variant;

/// What to do next. The loop obeys; it holds no opinion of its own.
#[derive(Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[must_use = "a decision that nobody obeys protects nobody"]
#[expect(clippy::exhaustive_enums, reason = "the loop must handle every kind of decision; a new one has to break it")]
pub enum Decision {
    /// Hand the result back: it is the operation's answer, or repeating cannot help.
    Return,
    /// Send again after the permit's pause.
    Resend(ResendPermit),
    /// Ask the status probe after this pause.
    Probe(Duration),
    /// Hand the result back although it is not an answer, and say why nothing more is done.
    Stop(StopReason),
}

/// Permission for exactly one resend, or for the first send of what may have been sent before.
///
/// Only [`RetryPolicy::decide`](super::RetryPolicy::decide) makes one and sending consumes it, so a
/// resend without a decision does not compile:
///
/// ```compile_fail
/// use reqwest_safe_retry::policy::{ResendPermit, ResendReason};
/// use std::{fmt, time::Duration};
/// let forged = ResendPermit {
///     pause: Duration::ZERO,
///     backoff: Duration::ZERO,
///     reason: ResendReason::EffectRepeatable,
///     lasts: Duration::ZERO,
/// };
/// ```
///
/// It is neither `Clone` nor `Default`:
///
/// ```compile_fail
/// fn twice(permit: reqwest_safe_retry::policy::ResendPermit) {
///     let _ = (permit.clone(), permit);
/// }
/// ```
#[derive(Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[must_use = "a permit that is dropped sends nothing"]
pub struct ResendPermit {
    pause: Duration,
    backoff: Duration,
    reason: ResendReason,
    /// How long the attempt can last.
    lasts: Duration,
}

impl ResendPermit {
    pub(super) const fn new(pause: Duration, backoff: Duration, reason: ResendReason, lasts: Duration) -> Self {
        Self { pause, backoff, reason, lasts }
    }

    /// How long to wait before sending, counted from the arrival of the response head or the
    /// failure. Never below the server's hint.
    #[must_use]
    pub const fn pause(&self) -> Duration {
        self.pause
    }

    /// The backoff before jitter and hint: the bound the pause was drawn from.
    #[must_use]
    pub const fn backoff(&self) -> Duration {
        self.backoff
    }

    /// Why sending again is harmless.
    #[must_use]
    pub const fn reason(&self) -> ResendReason {
        self.reason
    }

    /// Whether the reason still holds after a pause that took longer than planned, with a key of
    /// this age: a machine that slept may wake when the server has forgotten it, or forgets it
    /// before the attempt can have ended.
    ///
    /// ```
    /// use reqwest_safe_retry::policy::{
    ///     Decision, Effect, Evidence, Lapsed, ResendPermit, RetryPolicy, Signal, Situation,
    /// };
    /// use std::time::Duration;
    ///
    /// let minute = Duration::from_secs(60);
    /// let keyed = Effect::KeyedWrite { remembered_for: minute, lapsed: Lapsed::Stop };
    /// let lost = Situation::new(keyed, Signal::Failed, Evidence::Unknown);
    /// let Decision::Resend(permit) = RetryPolicy::DEFAULT.decide(&lost) else { unreachable!() };
    /// // The pause is over. Was the machine asleep meanwhile?
    /// let after = |age| ResendPermit::still_holds(&permit, keyed, age);
    /// assert!(after(Duration::from_secs(1)) && !after(minute * 2));
    /// ```
    #[must_use]
    pub fn still_holds(&self, effect: Effect, key_age: Duration) -> bool {
        match self.reason {
            ResendReason::KeyDeduplicates => !effect.key_has_lapsed(key_age.saturating_add(self.lasts)),
            ResendReason::ProvenUnprocessed | ResendReason::EffectRepeatable | ResendReason::ProbeFoundNothing => true,
        }
    }
}

/// Why sending again is harmless.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub enum ResendReason {
    /// No attempt so far can have been processed ([RFC 9110 §9.2.2], [RFC 9113 §8.7]).
    ///
    /// [RFC 9110 §9.2.2]: https://www.rfc-editor.org/rfc/rfc9110#section-9.2.2
    /// [RFC 9113 §8.7]: https://www.rfc-editor.org/rfc/rfc9113#section-8.7
    ProvenUnprocessed,
    /// Applying the operation twice equals applying it once.
    EffectRepeatable,
    /// The server recognises the key and acts once.
    KeyDeduplicates,
    /// The status probe found no trace of the attempts so far.
    ProbeFoundNothing,
}

/// Why nothing more is sent.
///
/// # Examples
/// ```
/// use reqwest_safe_retry::policy::{Decision, Effect, Evidence, RetryPolicy, Signal, Situation, StopReason};
///
/// let lost_answer = Situation::new(Effect::UnprotectedWrite, Signal::Failed, Evidence::Unknown);
/// assert_eq!(RetryPolicy::DEFAULT.decide(&lost_answer), Decision::Stop(StopReason::MayHaveHappened));
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub enum StopReason {
    /// The answer is final; also after a probe that found the operation applied.
    AnswerIsFinal,
    /// The operation may have happened, sending it again would do it twice, and nobody can be
    /// asked.
    MayHaveHappened,
    /// The policy's attempts (or probes) are used up.
    AttemptsSpent,
    /// The pause plus a useful attempt would not end before the deadline, or the deadline has
    /// passed.
    DeadlineTooNear,
    /// No deadline is set, and the pause would end after the policy's window.
    WindowClosed,
    /// The budget of this origin is empty: too many resends for the operations it carries.
    BudgetSpent,
    /// The server may have forgotten the idempotency key by then, so a resend would be a new
    /// operation.
    KeyExpired,
    /// The body was a stream that cannot be supplied again.
    BodyConsumed,
    /// The status probe could not tell, or failed.
    ProbeUndecided,
    /// The server sent a wait that cannot be read; guessing could be too early.
    UnreadableHint,
    /// The server asked not to be sent this again.
    ServerForbade,
    /// The failure cannot be healed by repeating: bad URL, untrusted certificate, redirect limit,
    /// an inner middleware's own error.
    Broken,
    /// The request was used wrongly, and nothing was sent.
    Misused,
    /// The caller forbade resends for this request.
    Disabled,
    /// The caller dropped the operation before its end.
    Cancelled,
}

impl StopReason {
    /// Whether the operation ends with its result, and not because it was given up.
    ///
    /// ```
    /// use reqwest_safe_retry::policy::StopReason;
    ///
    /// assert!(StopReason::AnswerIsFinal.is_final() && !StopReason::BudgetSpent.is_final());
    /// ```
    #[must_use]
    pub const fn is_final(self) -> bool {
        match self {
            Self::AnswerIsFinal => true,
            Self::MayHaveHappened
            | Self::AttemptsSpent
            | Self::DeadlineTooNear
            | Self::WindowClosed
            | Self::BudgetSpent
            | Self::KeyExpired
            | Self::BodyConsumed
            | Self::ProbeUndecided
            | Self::UnreadableHint
            | Self::ServerForbade
            | Self::Broken
            | Self::Misused
            | Self::Disabled
            | Self::Cancelled => false,
        }
    }

    /// Whether a probe may know more than was known when the operation stopped: one that could not
    /// tell just now is not asked again.
    pub(super) const fn allows_a_last_look(self) -> bool {
        match self {
            Self::ProbeUndecided | Self::Cancelled => false,
            Self::AnswerIsFinal
            | Self::MayHaveHappened
            | Self::AttemptsSpent
            | Self::DeadlineTooNear
            | Self::WindowClosed
            | Self::BudgetSpent
            | Self::KeyExpired
            | Self::BodyConsumed
            | Self::UnreadableHint
            | Self::ServerForbade
            | Self::Broken
            | Self::Misused
            | Self::Disabled => true,
        }
    }
}

#[cfg(test)]
impl StopReason {
    pub(crate) const ALL: [Self; 15] = every_variant!(StopReason {
        AnswerIsFinal,
        MayHaveHappened,
        AttemptsSpent,
        DeadlineTooNear,
        WindowClosed,
        BudgetSpent,
        KeyExpired,
        BodyConsumed,
        ProbeUndecided,
        UnreadableHint,
        ServerForbade,
        Broken,
        Misused,
        Disabled,
        Cancelled,
    });
}

impl fmt::Display for ResendReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::ProvenUnprocessed => "the server cannot have acted",
            Self::EffectRepeatable => "twice is as good as once",
            Self::KeyDeduplicates => "the key makes it act once",
            Self::ProbeFoundNothing => "the probe found no trace",
        })
    }
}

impl fmt::Display for StopReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::AnswerIsFinal => "the answer is final",
            Self::MayHaveHappened => "it may have happened",
            Self::AttemptsSpent => "no attempts left",
            Self::DeadlineTooNear => "the deadline comes first",
            Self::WindowClosed => "the window closes first",
            Self::BudgetSpent => "the budget is spent",
            Self::KeyExpired => "the key may be forgotten",
            Self::BodyConsumed => "the body cannot be sent twice",
            Self::ProbeUndecided => "the probe could not tell",
            Self::UnreadableHint => "the server's wait cannot be read",
            Self::ServerForbade => "the server asked not to be sent it again",
            Self::Broken => "sending it again cannot help",
            Self::Misused => "the request was used wrongly",
            Self::Disabled => "the caller allows no resend",
            Self::Cancelled => "the caller gave it up",
        })
    }
}
