//! The cool-down that operations share: what the others were told is waited out, what this one was
//! told is passed on.

use std::time::Duration;

use crate::platform::{Instant, sleep_until};

use super::{Run, pausing::reach};
use crate::{operation::attempt::Attempt, policy::StopReason, shared::cooldown::HoldsBack};

impl Run<'_> {
    /// Waits out what others were told meanwhile, as far as it fits.
    ///
    /// # Errors
    /// The wait, and the limit before which it would not end.
    pub(super) async fn cool_down(&self, sends: HoldsBack) -> Result<(), HeldBack> {
        let Some(place) = &self.plan.cooldown else { return Ok(()) };
        while let Some(wait) = place.wait(sends, Instant::now()) {
            let wait = wait.with_elapsed(self.started.elapsed()).with_time_left(self.sending_until.time_left()).with_draw(self.plan.draw());
            let until = self.plan.policy.hold_back(&wait).and_then(|pause| reach(Instant::now(), pause));
            sleep_until(until.map_err(|limit| HeldBack { wait: wait.left, limit })?).await;
        }
        Ok(())
    }

    /// Tells the others of its scope what this operation was told, as far as it concerns them.
    pub(super) fn share(&self, attempt: &Attempt, hint: Duration) {
        let concerns_others = self.plan.policy.concerns_others(attempt.facts.signal);
        if let (true, Some(place)) = (concerns_others, &self.plan.cooldown) {
            place.note(attempt.answered_by().unwrap_or(&self.plan.url), attempt.facts.ended, hint);
        }
    }

    /// The same for what the answer to a question asks for.
    pub(super) fn share_wait(&self, attempt: &Attempt, wait: Duration) {
        if let Some(place) = &self.plan.cooldown {
            place.note(&self.plan.url, attempt.waits_from, wait);
        }
    }
}

/// What a shared cool-down asks for, and the limit that it does not fit.
pub(super) struct HeldBack {
    pub(super) wait: Duration,
    pub(super) limit: StopReason,
}
