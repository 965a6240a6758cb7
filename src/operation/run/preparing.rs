//! What comes before the first attempt, and may be the reason that there is none.

use super::{Run, cooldown::HeldBack};
use crate::{
    operation::key::OperationKey,
    operation::supply::Outgoing,
    outcome::advice::Advice,
    outcome::error::Misuse,
    platform::Instant,
    request::key_fields::carries_a_key,
    shared::budget::BudgetAccount,
    shared::cooldown::HoldsBack,
    shared::reuse_guard::{KnownTo, Reused},
};

impl Run<'_> {
    /// Waits out what the others were told, and splits the request.
    ///
    /// # Errors
    /// Why nothing is sent.
    pub(super) async fn prepare(&mut self) -> Result<Outgoing, Unsent> {
        if self.plan.deadline.time_left().is_zero() {
            return Err(Unsent::TimeUp);
        }
        if self.plan.is_write
            && self.plan.endpoint.is_none()
            && self.supply.template().is_some_and(|request| carries_a_key(request.headers()))
        {
            self.advise(Advice::KeyWithoutContract);
        }
        if let Some(advice) = self.plan.advice {
            self.advise(advice);
        }
        // In no report: it is not this operation's fault, nor perhaps this client's.
        if self.plan.account.is_some_and(BudgetAccount::is_one_of_many) && !self.watched.is_silenced(Advice::BudgetNotShared) {
            self.watched.advised(Advice::BudgetNotShared);
        }
        if self.plan.cooldown.is_some() {
            Box::pin(self.cool_down(HoldsBack::FirstSendsToo)).await.map_err(Unsent::HeldBack)?;
        }
        let supplied = self.supply.split(self.plan, self.extensions);
        let supplied = supplied.map_err(|error| Unsent::Misused(Misuse::FactoryFailed(Box::new(error))))?;
        // Cooling down and a factory take time as well.
        if self.sending_until.time_left().is_zero() {
            return Err(Unsent::TimeUp);
        }
        self.admit(&supplied)?;
        Ok(supplied)
    }

    /// Has the guard look at what is about to be sent under the key.
    fn admit(&mut self, first: &Outgoing) -> Result<(), Unsent> {
        let Some(key) = self.plan.guarded else { return Ok(()) };
        let is_made = self.plan.key.as_deref().is_some_and(OperationKey::was_made);
        let known_to = if is_made { KnownTo::ThisOperation } else { KnownTo::Caller };
        let admitted = key.admit(first.request(), known_to, Instant::now());
        self.guarded = Some(Box::new(admitted.map_err(|Reused| Unsent::Misused(Misuse::KeyReused))?));
        Ok(())
    }
}

/// Why an operation ends before anything was sent.
pub(super) enum Unsent {
    /// The deadline had passed.
    TimeUp,
    /// The server asked others to wait for longer than this operation can.
    HeldBack(HeldBack),
    /// The first attempt could not be supplied, or the server may have forgotten the key that it
    /// was to go out under.
    Misused(Misuse),
}
