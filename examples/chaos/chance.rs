//! Chance that answers the same question always alike, so that one operation can be repeated
//! without all the others.

use std::time::Duration;

/// SplitMix64 (Steele, Lea, Flood: "Fast Splittable Pseudorandom Number Generators", 2014).
#[derive(Debug, Clone)]
pub(crate) struct Chance(u64);

/// What is left to chance. Each subject draws from a stream of its own: what one draws moves
/// nothing for the others.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Subject {
    /// Of a run's seed: how many operations begin together, by which client.
    Herd(u64),
    /// Of a run's seed: the seed of its operation of this number.
    Operation(u64),
    /// Of an operation's seed: what the caller does.
    Plan,
    /// Of an operation's seed: what the server does to its write that arrives as this one.
    Write(u64),
    /// Of an operation's seed: what the server does to its status question of this number.
    Status(u64),
    /// Of an operation's seed: what waits where a redirect of this number leads.
    Landing(u64),
    /// Of a run's seed: the weather of the server's connection of this number.
    Connection(u64),
    /// Of a run's seed: how long the server lives for this time.
    Life(u64),
}

impl Subject {
    const fn stream(self) -> (u64, u64) {
        match self {
            Self::Operation(number) => (1, number),
            Self::Plan => (2, 0),
            Self::Write(number) => (3, number),
            Self::Status(number) => (4, number),
            Self::Landing(number) => (5, number),
            Self::Connection(number) => (6, number),
            Self::Life(number) => (7, number),
            Self::Herd(number) => (8, number),
        }
    }
}

impl Chance {
    pub(crate) const fn of(seed: u64, subject: Subject) -> Self {
        let (stream, number) = subject.stream();
        Self(mixed(seed ^ mixed(stream ^ mixed(number))))
    }

    pub(crate) const fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        mixed(self.0)
    }

    pub(crate) const fn happens(&mut self, percent: u64) -> bool {
        self.bits() % 100 < percent
    }

    /// Evenly between the two, to the microsecond.
    pub(crate) fn between(&mut self, least: Duration, most: Duration) -> Duration {
        let width = u64::try_from(most.saturating_sub(least).as_micros()).unwrap_or(u64::MAX);
        least + Duration::from_micros(self.bits() % width.saturating_add(1).max(1))
    }

    pub(crate) fn millis(&mut self, least: u64, most: u64) -> Duration {
        self.between(Duration::from_millis(least), Duration::from_millis(most))
    }

    /// One of these, as often as its weight says.
    pub(crate) fn weighted<T: Copy>(&mut self, choices: &[(u32, T)]) -> T {
        let whole: u32 = choices.iter().map(|(weight, _)| weight).sum();
        let mut drawn = self.bits() % u64::from(whole.max(1));
        for (weight, choice) in choices {
            match drawn.checked_sub(u64::from(*weight)) {
                Some(rest) => drawn = rest,
                None => return *choice,
            }
        }
        choices[0].1 // no weight at all: the first
    }
}

const fn mixed(bits: u64) -> u64 {
    let bits = (bits ^ (bits >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let bits = (bits ^ (bits >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    bits ^ (bits >> 31)
}
