//! What a caller does, drawn from the operation's own seed.

use std::{fmt, time::Duration};

use reqwest_safe_retry::{
    RetryPolicy,
    policy::{Backoff, HintSpread, Jitter, UnreadableHint},
};

use crate::{
    chance::{Chance, Subject},
    class::Class,
    fleet::MEMBERS,
};

/// One operation, as its caller wants it.
#[derive(Debug, Clone)]
pub(crate) struct Plan {
    pub(crate) seed: u64,
    pub(crate) class: Class,
    /// Which of the fleet's clients: part of the seed, so that several operations can be given to
    /// one.
    pub(crate) member: usize,
    pub(crate) policy: RetryPolicy,
    pub(crate) unreadable: UnreadableHint,
    pub(crate) limit: Option<Duration>,
    pub(crate) told_by: ToldBy,
    pub(crate) dropped_after: Option<Duration>,
    pub(crate) payload: Payload,
    /// The operation is known under its query only.
    pub(crate) has_tenant: bool,
    /// How often the caller carries on under the same key while the outcome is unknown, and how
    /// long it thinks before.
    pub(crate) carries_on: usize,
    pub(crate) thinks: Duration,
}

/// How the operation learns of its deadline.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ToldBy {
    Extension,
    Scope,
}

/// The body of the request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Payload {
    None,
    Bytes(usize),
    /// Cannot be sent twice.
    Stream(usize),
    /// A stream that can be made anew.
    Factory(usize),
}

impl Plan {
    pub(crate) fn of(seed: u64) -> Self {
        let chance = &mut Chance::of(seed, Subject::Plan);
        let class = chance.weighted(&[
            (12, Class::Read),
            (6, Class::Put),
            (18, Class::Keyed),
            (8, Class::Brief),
            (8, Class::BriefProbed),
            (14, Class::Probed),
            (14, Class::Unprotected),
            (8, Class::Trusting),
            (3, Class::Never),
            (9, Class::Unmarked),
        ]);
        let unreadable = chance.weighted(&[(1, UnreadableHint::Stop), (1, UnreadableHint::UseBackoff)]);
        Self {
            seed,
            class,
            member: (seed % MEMBERS as u64) as usize,
            policy: policy(chance).with_unreadable_hint(unreadable),
            unreadable,
            limit: limit(chance),
            told_by: chance.weighted(&[(3, ToldBy::Extension), (1, ToldBy::Scope)]),
            dropped_after: chance.happens(8).then(|| chance.millis(0, 500)),
            payload: payload(class, chance),
            has_tenant: chance.happens(20),
            carries_on: if class.is_keyed() { chance.weighted(&[(2, 0), (1, 1), (1, 2)]) } else { 0 },
            thinks: chance.millis(0, 300),
        }
    }

    /// The operation's name, in paths and in the header by which everybody knows it.
    pub(crate) fn name(&self) -> String {
        format!("{:016x}", self.seed)
    }

    pub(crate) fn path(&self) -> String {
        format!("/{}/{}{}", self.class.name(), self.name(), if self.has_tenant { "?tenant=7" } else { "" })
    }
}

fn policy(chance: &mut Chance) -> RetryPolicy {
    let attempts = chance.weighted(&[(4, 3), (1, 1), (2, 2), (2, 4), (2, 5)]);
    let jitter = chance.weighted(&[(4, Jitter::Full), (1, Jitter::Equal), (1, Jitter::None)]);
    let backoff = Backoff::doubling(chance.millis(5, 60), Duration::from_millis(200)).with_jitter(jitter);
    let throttle_backoff = Backoff::doubling(chance.millis(20, 150), Duration::from_millis(600)).with_jitter(jitter);
    RetryPolicy::DEFAULT
        .with_attempts(attempts)
        .with_backoff(backoff)
        .with_throttle_backoff(throttle_backoff)
        .with_window(Duration::from_secs(2))
        .with_hint_spread(chance.weighted(&[(2, HintSpread::Jittered), (1, HintSpread::Exact)]))
}

fn limit(chance: &mut Chance) -> Option<Duration> {
    let (least, most) =
        chance.weighted(&[(15, None), (1, Some((0, 0))), (8, Some((10, 100))), (46, Some((300, 1_500))), (30, Some((1_500, 4_000)))])?;
    Some(chance.millis(least, most))
}

fn payload(class: Class, chance: &mut Chance) -> Payload {
    if !class.is_write() {
        return Payload::None;
    }
    let length = chance.weighted(&[(6, 12), (3, 2_000), (2, 64 * 1024), (1, 512 * 1024)]);
    chance.weighted(&[(8, Payload::Bytes(length)), (2, Payload::None), (1, Payload::Stream(length)), (1, Payload::Factory(length))])
}

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}, {:?}", self.path(), self.payload)?;
        match self.limit {
            Some(limit) => write!(f, ", deadline {} ms by {:?}", limit.as_millis(), self.told_by)?,
            None => f.write_str(", no deadline")?,
        }
        if let Some(after) = self.dropped_after {
            write!(f, ", dropped after {} ms", after.as_millis())?;
        }
        write!(f, ", {} attempts, unreadable hints: {:?}", self.policy.attempts(), self.unreadable)
    }
}
