//! What comes before the first attempt, and may be the reason that there is none.

use reqwest::Request;

use super::{Run, cooldown::HeldBack};
use crate::{
    operation::supply::{Outgoing, Supply},
    outcome::advice::Advice,
    outcome::error::Misuse,
    request::key_fields::carries_a_key,
    shared::budget::BudgetAccount,
    shared::cooldown::HoldsBack,
};

impl Run<'_> {
    /// Waits out what the others were told, and splits the request.
    ///
    /// # Errors
    /// Why nothing is sent.
    pub(super) async fn prepare(&mut self, request: Request) -> Result<(Outgoing, Supply), Unsent> {
        if self.plan.deadline.time_left().is_zero() {
            return Err(Unsent::TimeUp);
        }
        if self.plan.is_write && self.plan.endpoint.is_none() && carries_a_key(request.headers()) {
            self.advise(Advice::KeyWithoutContract);
        }
        if let Some(advice) = self.plan.advice {
            self.advise(advice);
        }
        // In no report: it is not this operation's fault, nor perhaps this client's.
        if self.plan.account.is_some_and(BudgetAccount::is_one_of_many) && !self.watched.is_silenced(Advice::BudgetNotShared) {
            self.watched.advised(Advice::BudgetNotShared, &self.url);
        }
        if self.plan.cooldown.is_some() {
            Box::pin(self.cool_down(HoldsBack::FirstSendsToo)).await.map_err(Unsent::HeldBack)?;
        }
        let supplied = Supply::split(request, self.plan, self.extensions);
        let supplied = supplied.map_err(|error| Unsent::Misused(Misuse::FactoryFailed(Box::new(error))))?;
        // Cooling down and a factory take time as well.
        if self.sending_until.time_left().is_zero() {
            return Err(Unsent::TimeUp);
        }
        Ok(supplied)
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
