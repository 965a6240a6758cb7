//! Chance that a test can foresee: the draws of jitter, scripted.

use std::sync::{Arc, Mutex, PoisonError};

use crate::{middleware::SafeRetry, operation::chance::Chance, policy::Draw};

/// A deterministic source of the random draws that jitter needs.
///
/// A clone shares the source: what one takes, the other will not see.
///
/// # Examples
/// ```
/// use reqwest_safe_retry::policy::Draw;
/// use reqwest_safe_retry::testing::Draws;
///
/// // Full jitter pauses for half the backoff, every time.
/// let always_half = Draws::constant(Draw::HALF);
/// // First at once, then for nearly all of it, from then on likewise.
/// let extremes = Draws::list([Draw::LEAST, Draw::GREATEST]);
/// // Looks random, but is the same in every run.
/// let repeatable = Draws::seeded(7);
/// # let _ = (always_half, extremes, repeatable);
/// ```
#[derive(Debug, Clone)]
pub struct Draws(Arc<Mutex<Source>>);

#[derive(Debug)]
enum Source {
    List { draws: Vec<Draw>, next: usize },
    Seeded { state: u64 },
}

impl Draws {
    /// The same draw every time.
    #[must_use]
    pub fn constant(draw: Draw) -> Self {
        Self::list([draw])
    }

    /// These draws in this order; the last one repeats. An empty list draws [`Draw::HALF`].
    #[must_use]
    pub fn list(draws: impl IntoIterator<Item = Draw>) -> Self {
        Self::of(Source::List { draws: draws.into_iter().collect(), next: 0 })
    }

    /// Uniform draws that are the same for the same seed, on every machine (SplitMix64).
    #[must_use]
    pub fn seeded(seed: u64) -> Self {
        Self::of(Source::Seeded { state: seed })
    }

    fn of(source: Source) -> Self {
        Self(Arc::new(Mutex::new(source)))
    }

    fn next(&self) -> Draw {
        match &mut *self.0.lock().unwrap_or_else(PoisonError::into_inner) {
            Source::List { draws, next } => {
                let draw = draws.get(*next).copied().unwrap_or(Draw::HALF);
                *next = next.saturating_add(1).min(draws.len().saturating_sub(1));
                draw
            }
            Source::Seeded { state } => Draw::new(split_mix(state)),
        }
    }
}

impl SafeRetry {
    /// Replaces chance by a scripted source, for tests of your own client.
    pub fn with_draws(self, draws: Draws) -> Self {
        self.with(|settings| settings.chance = Chance::of(move || draws.next()))
    }
}

/// One step of SplitMix64 (Steele, Lea, Flood: "Fast Splittable Pseudorandom Number Generators",
/// 2014).
pub(super) fn split_mix(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
    let mixed = (*state ^ (*state >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    mixed ^ (mixed >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_constant_never_changes() {
        let draws = Draws::constant(Draw::GREATEST);
        assert!((0..5).all(|_| draws.next() == Draw::GREATEST));
    }

    #[test]
    fn the_last_draw_of_a_list_repeats() {
        let draws = Draws::list([Draw::LEAST, Draw::HALF, Draw::GREATEST]);
        let drawn: Vec<_> = (0..5).map(|_| draws.next()).collect();
        assert_eq!(drawn, [Draw::LEAST, Draw::HALF, Draw::GREATEST, Draw::GREATEST, Draw::GREATEST]);
        assert_eq!(Draws::list([]).next(), Draw::HALF);
    }

    #[test]
    fn a_seed_draws_as_its_reference_does_and_a_clone_shares_it() {
        // The reference values of SplitMix64 for the seed 1234567
        // (https://rosettacode.org/wiki/Pseudo-random_numbers/Splitmix64).
        let draws = Draws::seeded(1_234_567);
        let shared = draws.clone();
        assert_eq!(draws.next(), Draw::new(6_457_827_717_110_365_317));
        assert_eq!(shared.next(), Draw::new(3_203_168_211_198_807_973));
        assert_eq!(draws.next(), Draw::new(9_817_491_932_198_370_423));
    }
}
