//! The time between attempts: nothing is held in it but the request.

use std::time::Duration;

use super::Run;
use crate::{
    observe::Counted,
    operation::attempt::{Attempt, Held},
    platform::{Instant, sleep_until},
    policy::StopReason,
    request::deadline::Deadline,
    response::drain,
    shared::cooldown::HoldsBack,
};

impl Run<'_> {
    /// Gives the connection of a response back and lets the pause pass, counted from the end of the
    /// attempt or of the last probe.
    ///
    /// # Errors
    /// The limit that leaves no time for an attempt after all.
    pub(super) async fn pause(&self, attempt: &mut Attempt, pause: Duration) -> Result<(), StopReason> {
        let until = reach(attempt.waits_from, pause)?;
        if let Held::Response(response) = &mut attempt.held {
            // Not boxed: it takes the room of the sleep that follows it.
            let drained = drain::read_rest(response, self.sending_until.earlier(Deadline::at(until))).await;
            self.watched.counted(Counted::Drained(drained));
            attempt.held = Held::GivenBack;
        }
        sleep_until(until).await;
        if self.plan.cooldown.is_some() {
            // Boxed: while a pause passes, this takes no room.
            Box::pin(self.cool_down(HoldsBack::Resends)).await.map_err(|held_back| held_back.limit)?;
        }
        self.plan.policy.still_worth_sending(self.sending_until.time_left())
    }
}

/// When a pause is over.
///
/// # Errors
/// It lies beyond the horizon of the timers. Deadlines that far are none, so only a policy without
/// a window can have allowed it.
pub(super) fn reach(from: Instant, pause: Duration) -> Result<Instant, StopReason> {
    from.checked_add(pause).and_then(|until| Deadline::at(until).instant()).ok_or(StopReason::WindowClosed)
}
