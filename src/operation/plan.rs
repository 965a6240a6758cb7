//! What is settled about an operation before its first attempt: who won where several had a say, so that nobody asks again later.

use std::time::Duration;

use tokio::time::Instant;

use crate::{
    contract::endpoint::{DeadlineCovers, Endpoint},
    contract::hints::HintSources,
    observe::OperationFacts,
    operation::chance::Chance,
    operation::key::OperationKey,
    outcome::report::ReportSlot,
    policy::{Draw, Effect, RetryPolicy},
    proof::witness::Watch,
    request::attempt_headers::AttemptHeaders,
    request::correlation::CorrelationId,
    request::deadline::Deadline,
    shared::budget::{BudgetAccount, Withdrawal},
    shared::cooldown::CooldownPlace,
};

/// Everything that was settled before the first attempt.
pub(crate) struct Plan<'a> {
    pub(crate) policy: RetryPolicy,
    pub(crate) effect: Effect,
    pub(crate) is_write: bool,
    pub(crate) deadline: Deadline,
    pub(crate) deadline_covers: DeadlineCovers,
    pub(crate) attempt_limit: Option<Duration>,
    /// Present on marked requests.
    pub(crate) endpoint: Option<Endpoint>,
    pub(crate) key: Option<OperationKey>,
    /// Absent on requests that are left alone.
    pub(crate) account: Option<BudgetAccount<'a>>,
    pub(crate) slot: Option<ReportSlot>,
    pub(crate) hints: HintSources,
    pub(crate) cooldown: Option<CooldownPlace<'a>>,
    pub(crate) headers: Option<&'a AttemptHeaders>,
    /// Sent and logged alike on every attempt.
    pub(crate) correlation: Option<CorrelationId>,
    pub(crate) chance: &'a Chance,
}

impl Plan<'_> {
    /// The body is watched where the verdict matters: what a failed read proves changes nothing, and a watched body keeps reqwest from
    /// resending what an HTTP/2 server refused, which is the client's own affair where a request is left alone.
    pub(crate) fn watch(&self) -> Watch {
        if self.is_write && !self.is_left_alone() { Watch::Body } else { Watch::Errors }
    }

    /// Whether any attempt can follow the first.
    pub(crate) fn may_resend(&self) -> bool {
        self.policy.attempts() > 1 && self.effect != Effect::NeverResend
    }

    /// Strictly opt-in, and nothing named the request: only its slot is told.
    pub(crate) fn is_left_alone(&self) -> bool {
        self.account.is_none()
    }

    pub(crate) fn has_probe(&self) -> bool {
        self.endpoint.as_ref().is_some_and(|endpoint| endpoint.probe().is_some())
    }

    /// Takes the token for one resend or probe; `None`: the budget is spent.
    pub(crate) fn withdraw(&self) -> Option<Withdrawal> {
        self.account.and_then(|account| account.withdraw(Instant::now(), self.draw()))
    }

    pub(crate) fn draw(&self) -> Draw {
        self.chance.draw()
    }

    /// What telemetry tells about the operation.
    pub(crate) fn facts(&self) -> OperationFacts<'_> {
        OperationFacts {
            endpoint: self.endpoint.as_ref().and_then(Endpoint::name),
            correlation: self.correlation.as_ref(),
            key: self.key.as_ref().map(OperationKey::key),
            account: self.account,
            deadline: self.deadline,
            is_write: self.is_write,
        }
    }

    /// When the last attempt has to be over: a tenth of the deadline is kept for the last look of a write that can be asked about.
    pub(crate) fn sending_until(&self) -> Deadline {
        match self.deadline.instant() {
            Some(instant) if self.is_write && self.has_probe() => {
                let kept = self.deadline.time_left() / 10;
                Deadline::at(instant.checked_sub(kept).unwrap_or(instant))
            }
            _ => self.deadline,
        }
    }
}
