//! One resend, from its permit to its attempt; and the first send of what was sent before, which
//! needs a permit as well.

use super::Run;
use crate::{
    operation::attempt::{Attempt, Held},
    operation::supply::Outgoing,
    platform::MaybeSend,
    policy::{ResendPermit, StopReason},
    request::replay::ReplayError,
    shared::budget::Withdrawal,
    shared::reuse_guard::Reused,
};

impl Run<'_> {
    /// One resend: the budget pays, the old connection goes back, the pause passes, the permit is
    /// spent.
    ///
    /// # Errors
    /// Why it was not sent.
    #[expect(clippy::manual_async_fn, reason = "what an `async fn` is given it keeps twice")]
    pub(super) fn resend(
        &mut self,
        attempt: &mut Attempt,
        permit: ResendPermit,
    ) -> impl Future<Output = Result<(), StopReason>> + MaybeSend {
        async move {
            let payment = self.pay()?;
            self.watched.resending(&permit, self.sending_until);
            self.pause(attempt, permit.pause()).await?;
            let outgoing = self.next_request(attempt, permit)?;
            if let Some(token) = payment {
                token.spend();
            }
            // Boxed: while a pause passes, nothing is kept for the attempt after it.
            *attempt = Box::pin(self.send(outgoing)).await;
            Ok(())
        }
    }

    /// Spends the permit.
    fn next_request(&mut self, attempt: &mut Attempt, permit: ResendPermit) -> Result<Outgoing, StopReason> {
        if !permit.still_holds(self.effect, self.key_age()) {
            return Err(StopReason::KeyExpired);
        }
        let may_follow = self.plan.has_probe() || self.plan.key.is_some();
        let is_last = self.sends.saturating_add(1) >= self.plan.policy.attempts() && !may_follow;
        let outgoing = if is_last { self.supply.resend_last(permit) } else { self.supply.resend(permit) };
        match outgoing.and_then(|outgoing| self.is_the_same(outgoing)) {
            // The factory took what was left.
            Ok(_) if self.sending_until.time_left().is_zero() => Err(StopReason::DeadlineTooNear),
            Ok(outgoing) => Ok(outgoing),
            Err(error) => {
                attempt.held = Held::Unsupplied(error);
                Err(StopReason::BodyConsumed)
            }
        }
    }
}

impl Run<'_> {
    /// Has the guard look at what a factory made for the same key.
    fn is_the_same(&mut self, outgoing: Outgoing) -> Result<Outgoing, ReplayError> {
        match self.guarded.as_mut().filter(|_| self.supply.is_made_anew()).map(|guarded| guarded.sends_again(outgoing.request())) {
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
