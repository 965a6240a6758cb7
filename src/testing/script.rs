//! Steps that are taken one after another; the last one repeats.

use std::{
    iter::{Fuse, Peekable},
    sync::{Mutex, MutexGuard, PoisonError},
};

/// The steps of one peer, shared by everything that may take one. They are asked for when they are
/// needed, so there may be no end of them.
pub(super) struct Script<S>(Mutex<Steps<S>>);

struct Steps<S> {
    left: Peekable<Fuse<Box<dyn Iterator<Item = S> + Send>>>,
    /// What is played when nothing is left.
    last: S,
}

impl<S: Clone> Script<S> {
    /// These steps, or `otherwise` if there are none.
    pub(super) fn new(steps: impl IntoIterator<Item = S, IntoIter: Send + 'static>, otherwise: S) -> Self {
        let steps: Box<dyn Iterator<Item = S> + Send> = Box::new(steps.into_iter());
        Self(Mutex::new(Steps { left: steps.fuse().peekable(), last: otherwise }))
    }

    /// Takes the next step.
    pub(super) fn take(&self) -> S {
        self.steps().take()
    }

    /// Takes the next step if it is of the wanted kind, and leaves it for later otherwise.
    pub(super) fn take_if(&self, wanted: impl FnOnce(&S) -> bool) -> Option<S> {
        let mut steps = self.steps();
        wanted(steps.next()).then(|| steps.take())
    }

    fn steps(&self) -> MutexGuard<'_, Steps<S>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<S: Clone> Steps<S> {
    fn next(&mut self) -> &S {
        self.left.peek().unwrap_or(&self.last)
    }

    fn take(&mut self) -> S {
        if let Some(step) = self.left.next() {
            self.last = step;
        }
        self.last.clone()
    }
}
