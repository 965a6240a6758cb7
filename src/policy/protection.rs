//! Why sending again is harmless, or why not: the one match to audit.
//!
//! Rows are effects, columns are occasions; the README shows the same table and a test compares the
//! two. There is no `_` arm, so a new effect or occasion does not compile until somebody has
//! thought about it.

use std::time::Duration;

use super::{Effect, Lapsed, ResendReason, StopReason};

/// What there is to decide about, once the signal is known not to be final.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Occasion {
    /// An answer whose status is worth another try, after which the server may have acted.
    RetryableStatus,
    /// An answer or a failure, and no attempt so far can have been processed.
    ProvenUnprocessed,
    /// A failure, after which the server may have acted.
    FailedUnknown,
    /// A final status whose body was lost.
    BodyLost,
    /// The first copy of a keyed write still runs.
    KeyInUse,
    /// The status probe found nothing.
    ProbedAbsent,
    /// Nothing was sent yet, but an earlier process may have.
    SentBefore,
}

/// Whether the server will still recognise the key when a resend arrives. Means nothing for effects
/// without a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Key {
    Remembered,
    Lapsed,
}

impl Key {
    pub(super) fn of_age(age: Duration, effect: Effect) -> Self {
        if effect.key_has_lapsed(age) { Self::Lapsed } else { Self::Remembered }
    }
}

/// What protects the world from a second copy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Protection {
    Resend(ResendReason),
    Probe,
    Return,
    Stop(StopReason),
}

pub(super) const fn protect(effect: Effect, key: Key, occasion: Occasion) -> Protection {
    use Occasion::{BodyLost, FailedUnknown, KeyInUse, ProbedAbsent, ProvenUnprocessed, RetryableStatus, SentBefore};
    use Protection::{Probe, Resend, Return, Stop};

    match (effect, occasion) {
        (Effect::Read | Effect::IdempotentWrite, RetryableStatus | FailedUnknown | BodyLost | SentBefore) => {
            Resend(ResendReason::EffectRepeatable)
        }
        (Effect::Read | Effect::IdempotentWrite, ProvenUnprocessed) => Resend(ResendReason::ProvenUnprocessed),
        (Effect::Read | Effect::IdempotentWrite, KeyInUse | ProbedAbsent) => Return,

        (Effect::KeyedWrite { lapsed, .. }, RetryableStatus | FailedUnknown | KeyInUse | SentBefore) => match (key, lapsed) {
            (Key::Remembered, Lapsed::Stop | Lapsed::Probe) => Resend(ResendReason::KeyDeduplicates),
            (Key::Lapsed, Lapsed::Probe) => Probe,
            (Key::Lapsed, Lapsed::Stop) => Stop(StopReason::KeyExpired),
        },
        (Effect::KeyedWrite { .. }, BodyLost) => match key {
            Key::Remembered => Resend(ResendReason::KeyDeduplicates),
            Key::Lapsed => Return,
        },
        (Effect::KeyedWrite { .. }, ProvenUnprocessed) => Resend(ResendReason::ProvenUnprocessed),
        (Effect::KeyedWrite { .. }, ProbedAbsent) => Resend(ResendReason::ProbeFoundNothing),

        (Effect::ProbedWrite, RetryableStatus | FailedUnknown | SentBefore) => Probe,
        (Effect::ProbedWrite, ProvenUnprocessed) => Resend(ResendReason::ProvenUnprocessed),
        (Effect::ProbedWrite, BodyLost | KeyInUse) => Return,
        (Effect::ProbedWrite, ProbedAbsent) => Resend(ResendReason::ProbeFoundNothing),

        (Effect::UnprotectedWrite, RetryableStatus | FailedUnknown | ProbedAbsent | SentBefore) => Stop(StopReason::MayHaveHappened),
        (Effect::UnprotectedWrite, ProvenUnprocessed) => Resend(ResendReason::ProvenUnprocessed),
        (Effect::UnprotectedWrite, BodyLost | KeyInUse) => Return,

        (Effect::NeverResend, RetryableStatus | ProvenUnprocessed | FailedUnknown | ProbedAbsent | SentBefore) => {
            Stop(StopReason::Disabled)
        }
        (Effect::NeverResend, BodyLost | KeyInUse) => Return,
    }
}
