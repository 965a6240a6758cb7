//! How long to wait when nobody says: exponential backoff with jitter, in integers, for every
//! input.

use std::time::Duration;

/// Exponential backoff: `min(cap, first · 2^(resend − 1))`, jittered.
///
/// Saturates for every input: no resend number, however large, and no duration, however long,
/// overflows, panics or wraps to zero.
///
/// # Examples
/// ```
/// use reqwest_safe_retry::policy::{Backoff, Draw};
/// use std::time::Duration;
///
/// let backoff = Backoff::doubling(Duration::from_millis(100), Duration::from_secs(20));
/// assert_eq!(backoff.pause(3, Draw::HALF), Duration::from_millis(200)); // half of 100 · 2²
/// assert!(backoff.pause(u32::MAX, Draw::GREATEST) <= Duration::from_secs(20));
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[doc(alias("exponential backoff", "delay"))]
pub struct Backoff {
    first: Duration,
    cap: Duration,
    jitter: Jitter,
}

impl Backoff {
    /// A backoff whose bound starts at `first`, doubles with every resend and never exceeds `cap`.
    /// Jitter is [`Jitter::DEFAULT`].
    #[must_use]
    pub const fn doubling(first: Duration, cap: Duration) -> Self {
        Self { first, cap, jitter: Jitter::DEFAULT }
    }

    /// Replaces the jitter.
    #[must_use]
    pub const fn with_jitter(self, jitter: Jitter) -> Self {
        Self { jitter, ..self }
    }

    /// The pause before the given resend (the first resend is 1) for one uniform draw.
    #[must_use]
    pub fn pause(&self, resend: u32, draw: Draw) -> Duration {
        let bound = self.bound(resend);
        let least = self.least(bound);
        least.saturating_add(draw.of(bound.saturating_sub(least)))
    }

    /// The bound before jitter: `min(cap, first · 2^(resend − 1))`.
    #[must_use]
    pub fn bound(&self, resend: u32) -> Duration {
        // 2^94 ns exceed Duration::MAX, so from there on only zero stays below the cap.
        let doublings = resend.saturating_sub(1).min(95);
        let mut bound = self.first.min(self.cap);
        for _ in 0..doublings {
            if bound.is_zero() || bound >= self.cap {
                break;
            }
            bound = bound.saturating_mul(2).min(self.cap);
        }
        bound
    }

    /// The shortest pause that the jitter can make of this bound.
    pub(super) fn least(&self, bound: Duration) -> Duration {
        match self.jitter {
            Jitter::Full => Duration::ZERO,
            Jitter::Equal => bound / 2,
            Jitter::None => bound,
        }
    }
}

/// How a pause is spread below its bound `b`, so that clients that failed together do not come back
/// together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[expect(clippy::exhaustive_enums, reason = "the kinds that stay at or below the bound; others would break the cap")]
#[doc(alias("full jitter", "equal jitter"))]
pub enum Jitter {
    /// Uniform in `[0, b)`: fewest calls and shortest time under contention (AWS, "Exponential
    /// Backoff And Jitter").
    Full,
    /// Uniform in `[b/2, b)`: never quite at once, at the price of a longer recovery.
    Equal,
    /// Exactly `b`: for tests and for a single client.
    None,
}

/// One uniform draw from `[0, 1)`, as the numerator over 2^64. Chance is an argument, so that
/// decisions are pure.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Draw(u64);

impl Draw {
    /// The smallest draw: 0.
    pub const LEAST: Self = Self(0);
    /// One half.
    pub const HALF: Self = Self(1 << 63);
    /// The greatest draw below 1.
    pub const GREATEST: Self = Self(u64::MAX);

    /// A draw from 64 uniform random bits.
    #[must_use]
    pub const fn new(bits: u64) -> Self {
        Self(bits)
    }

    /// The drawn share of a duration, rounded down: always below the duration, unless that is zero.
    pub(super) fn of(self, whole: Duration) -> Duration {
        // whole · draw / 2^64 in two halves: nanoseconds need 94 bits, so the product would not fit
        // 128.
        let nanos = whole.as_nanos();
        let (high, low) = (nanos >> 64, nanos & u128::from(u64::MAX));
        let draw = u128::from(self.0);
        duration_from_nanos(high * draw + ((low * draw) >> 64))
    }
}

/// Saturates instead of wrapping; `Duration::from_nanos` takes only 64 bits.
fn duration_from_nanos(nanos: u128) -> Duration {
    const PER_SECOND: u128 = 1_000_000_000;
    let subsecond = (nanos % PER_SECOND) as u32; // below 10^9 by the modulus
    u64::try_from(nanos / PER_SECOND).map_or(Duration::MAX, |seconds| Duration::new(seconds, subsecond))
}
