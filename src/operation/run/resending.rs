//! One resend, from its permit to its attempt; and the first send of what was sent before, which
//! needs a permit as well.

use super::Run;
use crate::{
    operation::attempt::{Attempt, Held},
    operation::supply::{Outgoing, Supply},
    policy::{ResendPermit, StopReason},
    request::replay::ReplayError,
    shared::budget::Withdrawal,
    shared::reuse_guard::Reused,
};

impl Run<'_> {
    /// One resend: the budget pays, the old connection goes back, the pause passes, the permit is
    /// spent.
    pub(super) async fn resend(&mut self, mut attempt: Attempt, supply: &mut Supply, permit: ResendPermit) -> Resent {
        let payment = match self.pay() {
            Ok(payment) => payment,
            Err(reason) => return Resent::Stopped(attempt, reason),
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
        let outgoing = outgoing.and_then(|outgoing| self.is_the_same(outgoing, supply));
        match outgoing {
            // The factory took what was left.
            Ok(_) if self.sending_until.time_left().is_zero() => Resent::Stopped(attempt, StopReason::DeadlineTooNear),
            Ok(outgoing) => {
                if let Some(token) = payment {
                    token.spend();
                }
                // Boxed: while a pause passes, nothing is kept for the attempt after it.
                Resent::Sent(Box::pin(self.send(outgoing)).await)
            }
            Err(error) => {
                attempt.held = Held::Unsupplied(error);
                Resent::Stopped(attempt, StopReason::BodyConsumed)
            }
        }
    }
}

impl Run<'_> {
    /// Has the guard look at what a factory made for the same key.
    fn is_the_same(&mut self, outgoing: Outgoing, supply: &Supply) -> Result<Outgoing, ReplayError> {
        match self.guarded.as_mut().filter(|_| supply.is_made_anew()).map(|guarded| guarded.sends_again(outgoing.request())) {
            Some(Err(Reused)) => Err(ReplayError::OtherContent),
            Some(Ok(())) | None => Ok(outgoing),
        }
    }

    /// Takes the token for a resend or a question. The first send pays nothing, and neither does
    /// what has to be asked before it: a process that has just started has earned nothing yet.
    ///
    /// # Errors
    /// [`StopReason::BudgetSpent`].
    pub(super) fn pay(&self) -> Result<Option<Withdrawal>, StopReason> {
        if self.sends == 0 {
            return Ok(None);
        }
        self.plan.withdraw().map(Some).ok_or(StopReason::BudgetSpent)
    }
}

/// What came of a resend.
pub(super) enum Resent {
    Sent(Attempt),
    Stopped(Attempt, StopReason),
}
