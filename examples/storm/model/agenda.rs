//! What happens next.

use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};

/// Events in the order of their virtual time; those of the same instant in the order they were
/// planned.
pub(super) struct Agenda<Event> {
    began: Instant,
    now: Duration,
    planned: u64,
    events: BTreeMap<(Duration, u64), Event>,
}

impl<Event> Agenda<Event> {
    #[expect(clippy::disallowed_methods, reason = "an instant to count from; virtual time does the rest")]
    pub(super) fn new() -> Self {
        Self { began: Instant::now(), now: Duration::ZERO, planned: 0, events: BTreeMap::new() }
    }

    /// The virtual time.
    pub(super) fn now(&self) -> Duration {
        self.now
    }

    /// The virtual time as the token bucket takes it. Only differences count, so the real start
    /// does not matter.
    pub(super) fn instant(&self) -> Instant {
        self.began + self.now
    }

    pub(super) fn plan(&mut self, pause: Duration, event: Event) {
        self.events.insert((self.now.saturating_add(pause), self.planned), event);
        self.planned += 1;
    }

    /// Moves on to the next event.
    pub(super) fn next(&mut self) -> Option<Event> {
        let ((at, _), event) = self.events.pop_first()?;
        self.now = at;
        Some(event)
    }
}
