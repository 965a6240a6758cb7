//! Steps that are taken one after another; the last one repeats.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// The steps of one peer, shared by everything that may take one.
#[derive(Debug)]
pub(super) struct Script<S> {
    steps: Vec<S>,
    otherwise: S,
    taken: Mutex<usize>,
}

impl<S: Clone> Script<S> {
    /// These steps, or `otherwise` if there are none.
    pub(super) fn new(steps: impl IntoIterator<Item = S>, otherwise: S) -> Self {
        Self { steps: steps.into_iter().collect(), otherwise, taken: Mutex::new(0) }
    }

    /// Takes the next step.
    pub(super) fn take(&self) -> S {
        let mut taken = self.taken();
        let step = self.step(*taken).clone();
        *taken = taken.saturating_add(1);
        step
    }

    /// Takes the next step if it is of the wanted kind, and leaves it for later otherwise.
    pub(super) fn take_if(&self, wanted: impl FnOnce(&S) -> bool) -> Option<S> {
        let mut taken = self.taken();
        let step = Some(self.step(*taken)).filter(|step| wanted(step)).cloned()?;
        *taken = taken.saturating_add(1);
        Some(step)
    }

    fn step(&self, number: usize) -> &S {
        self.steps.get(number).or(self.steps.last()).unwrap_or(&self.otherwise)
    }

    fn taken(&self) -> MutexGuard<'_, usize> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
