//! Everything that a decision looks at.

use std::time::Duration;

use super::Run;
use crate::{
    operation::attempt::Attempt,
    platform::Instant,
    policy::{InvalidHint, SharedWait, Situation},
    shared::cooldown::HoldsBack,
};

impl Run<'_> {
    pub(super) fn situation(&self, attempt: &Attempt) -> Situation {
        let mut situation = Situation::new(self.effect, attempt.facts.signal, self.evidence);
        situation.hint = self.asked_wait(attempt);
        situation.told = self.shared_wait(attempt.waits_from).map_or(Duration::ZERO, |wait| wait.told);
        situation.sends = self.sends.saturating_add(self.hidden_sends);
        situation.key_in_use = self.key_in_use;
        situation.probes = self.probes;
        situation.earlier_probes = self.earlier_probes;
        situation.elapsed = self.started.elapsed();
        situation.key_age = self.key_age();
        situation.time_left = self.sending_until.time_left();
        situation.attempt_limit = self.plan.attempt_limit.unwrap_or(Duration::MAX);
        situation.body = self.supply.body();
        // What is settled at once takes no chance.
        if !self.plan.policy.settles(attempt.facts.signal) {
            situation.draw = self.plan.draw();
        }
        situation
    }

    pub(super) fn key_age(&self) -> Duration {
        self.plan.key.as_ref().map_or(Duration::ZERO, |key| key.age_after(self.started.elapsed()))
    }

    /// The longer of what the server asked of this operation and what it asked of the others.
    pub(super) fn asked_wait(&self, attempt: &Attempt) -> Option<Result<Duration, InvalidHint>> {
        match (attempt.facts.hint, self.shared_wait(attempt.waits_from).map(|wait| wait.left)) {
            (Some(Ok(own)), Some(shared)) => Some(Ok(own.max(shared))),
            (None, Some(shared)) => Some(Ok(shared)),
            (Some(Err(unreadable)), _) => Some(Err(unreadable)),
            (own, None) => own,
        }
    }

    /// What the others of its scope were told, as it stands then.
    pub(super) fn shared_wait(&self, then: Instant) -> Option<SharedWait> {
        self.plan.cooldown.as_ref()?.wait(HoldsBack::Resends, then)
    }
}
