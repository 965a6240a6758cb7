//! One resend, from its permit to its attempt.

use super::Run;
use crate::{
    operation::attempt::{Attempt, Held},
    operation::supply::Supply,
    policy::{ResendPermit, StopReason},
};

impl Run<'_> {
    /// One resend: the budget pays, the old connection goes back, the pause passes, the permit is
    /// spent.
    pub(super) async fn resend(&mut self, mut attempt: Attempt, supply: &mut Supply, permit: ResendPermit) -> Resent {
        let Some(token) = self.plan.withdraw() else {
            return Resent::Stopped(attempt, StopReason::BudgetSpent);
        };
        self.watched.resending(&permit, self.sending_until);
        if let Err(reason) = self.pause(&mut attempt, permit.pause()).await {
            return Resent::Stopped(attempt, reason);
        }
        if !permit.still_holds(self.effect, self.key_age()) {
            return Resent::Stopped(attempt, StopReason::KeyExpired);
        }
        let may_follow = self.plan.has_probe() || self.plan.key.is_some();
        let is_last = self.sends.saturating_add(1) >= self.plan.policy.attempts() && !may_follow;
        let outgoing = if is_last { supply.resend_last(permit) } else { supply.resend(permit) };
        match outgoing {
            // The factory took what was left.
            Ok(_) if self.sending_until.time_left().is_zero() => Resent::Stopped(attempt, StopReason::DeadlineTooNear),
            Ok(outgoing) => {
                token.spend();
                // Boxed: while a pause passes, nothing is kept for the attempt after it.
                Resent::Sent(Box::pin(self.send(outgoing)).await)
            }
            Err(error) => {
                attempt.held = Held::Unsupplied(Box::new(error));
                Resent::Stopped(attempt, StopReason::BodyConsumed)
            }
        }
    }
}

/// What came of a resend.
pub(super) enum Resent {
    Sent(Attempt),
    Stopped(Attempt, StopReason),
}
