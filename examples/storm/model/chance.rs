//! Chance that is the same in every run.

use std::{f64::consts::TAU, time::Duration};

use reqwest_safe_retry::policy::Draw;

/// SplitMix64 (Steele, Lea, Flood: "Fast Splittable Pseudorandom Number Generators", 2014).
pub(super) struct Chance(u64);

impl Chance {
    /// Neighbouring seeds start far apart: the seed is mixed once.
    pub(super) fn seeded(seed: u64) -> Self {
        Self(Self(seed).bits())
    }

    fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    /// What a policy's jitter takes.
    pub(super) fn draw(&mut self) -> Draw {
        Draw::new(self.bits())
    }

    /// Uniform in `[0, 1)`.
    pub(super) fn unit(&mut self) -> f64 {
        (self.bits() >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// Uniform between the two.
    pub(super) fn between(&mut self, least: Duration, most: Duration) -> Duration {
        least + most.saturating_sub(least).mul_f64(self.unit())
    }

    pub(super) fn happens(&mut self, probability: f64) -> bool {
        self.unit() < probability
    }

    pub(super) fn one_of(&mut self, count: usize) -> usize {
        (self.unit() * count as f64) as usize
    }

    /// The gap to the next of many independent events, so many a second.
    pub(super) fn gap(&mut self, per_second: f64) -> Duration {
        Duration::from_secs_f64(-(1.0 - self.unit()).ln() / per_second)
    }

    /// The absolute value of a normal variable (Box and Muller).
    pub(super) fn normal(&mut self, mean: Duration, deviation: Duration) -> Duration {
        let standard = (-2.0 * (1.0 - self.unit()).ln()).sqrt() * (TAU * self.unit()).cos();
        Duration::from_secs_f64((mean.as_secs_f64() + deviation.as_secs_f64() * standard).abs())
    }
}
