//! Where an operation's random draws come from: one place, so that a test can foresee them.

use std::{
    hash::{BuildHasher, Hasher},
    sync::Arc,
};

use crate::{platform::RandomState, policy::Draw};

/// The source of the draws that jitter and budgets need. Clones share it.
#[derive(Clone)]
pub(crate) struct Chance(Arc<dyn Fn() -> Draw + Send + Sync>);

impl Chance {
    pub(crate) fn of(draw: impl Fn() -> Draw + Send + Sync + 'static) -> Self {
        Self(Arc::new(draw))
    }

    pub(crate) fn draw(&self) -> Draw {
        (self.0)()
    }
}

impl Default for Chance {
    fn default() -> Self {
        // Each one is seeded anew, as hash tables are: good enough to spread pauses, which is all
        // that hangs on it.
        Self::of(|| Draw::new(RandomState::new().build_hasher().finish()))
    }
}
