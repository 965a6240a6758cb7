//! What is settled about an operation before its first attempt: who won where several had a say, so that nobody asks again later.

use std::time::Duration;

use tokio::time::Instant;

use crate::{
    contract::endpoint::{DeadlineCovers, Endpoint},
    contract::hints::HintSources,
    observe::Telemetry,
    operation::key::OperationKey,
    outcome::report::ReportSlot,
    policy::{Draw, Effect, RetryPolicy, defaults},
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
    /// Absent on requests that are left alone.
    pub(crate) telemetry: Option<&'a Telemetry>,
    #[cfg(feature = "testing")]
    pub(crate) draws: Option<crate::testing::Draws>,
}

impl Plan<'_> {
    /// The body is watched where the verdict matters: what a failed read proves changes nothing, and a watched body keeps reqwest from
    /// resending what an HTTP/2 server refused, which is the client's own affair where a request is left alone.
    pub(crate) fn watch(&self) -> Watch {
        if self.is_write && !self.is_left_alone() { Watch::Body } else { Watch::Errors }
    }

    /// Whether any attempt can follow the first.
    pub(crate) fn may_resend(&self) -> bool {
        self.policy.attempts() > 1 && self.effect.allows_resends()
    }

    /// Strictly opt-in, and nothing named the request: only its slot is told.
    pub(crate) fn is_left_alone(&self) -> bool {
        self.account.is_none()
    }

    pub(crate) fn has_probe(&self) -> bool {
        self.endpoint.as_ref().is_some_and(|endpoint| endpoint.probe().is_some())
    }

    /// Whether somebody will be told about an operation even if it is uneventful.
    pub(crate) fn wants_record(&self) -> bool {
        self.slot.is_some() || self.telemetry.is_some_and(Telemetry::wants_records)
    }

    /// Takes the token for one resend or probe; `None`: the budget is spent.
    pub(crate) fn withdraw(&self) -> Option<Withdrawal> {
        self.account.and_then(|account| account.withdraw(Instant::now(), self.draw()))
    }

    pub(crate) fn draw(&self) -> Draw {
        #[cfg(feature = "testing")]
        if let Some(draws) = &self.draws {
            return draws.next();
        }
        Draw::new(rand::random())
    }

    /// When the last attempt has to be over: a tenth of the deadline is kept for the last look of a write that can be asked about.
    pub(crate) fn sending_until(&self) -> Deadline {
        match self.deadline.instant() {
            Some(instant) if self.is_write && self.has_probe() => {
                let kept = self.deadline.time_left() / defaults::LAST_LOOK_DIVISOR;
                Deadline::at(instant.checked_sub(kept).unwrap_or(instant))
            }
            _ => self.deadline,
        }
    }
}
