//! Asking what became of a write: between attempts, and once more before an operation ends as unknown.
//!
//! A probe is the user's code and may hang, so each has a time by which it is over; and what it does not see yet may still appear, so its
//! *absent* counts only after the endpoint's settling time.

use std::time::Duration;

use http::HeaderName;
use reqwest::Response;
use tokio::time::{Instant, timeout_at};

use super::Run;
use crate::{
    contract::probe::{Operation, ProbeVerdict},
    operation::attempt::Attempt,
    operation::key::OperationKey,
    operation::supply::Supply,
    outcome::report::{Found, ProbeRecord},
    policy::{Evidence, Signal, StopReason, defaults},
    request::deadline::Deadline,
};

impl Run<'_> {
    /// One probe: the budget pays, the old connection goes back, the pause passes, the probe is asked.
    pub(super) async fn probe(&mut self, mut attempt: Attempt, supply: &Supply, pause: Duration) -> Probed {
        let Some(token) = self.plan.withdraw() else {
            return Probed::Stopped(attempt, StopReason::BudgetSpent);
        };
        self.watched.probing(pause, self.sending_until);
        if let Err(reason) = self.wait(&mut attempt, pause).await {
            return Probed::Stopped(attempt, reason);
        }
        token.spend();
        self.probes = self.probes.saturating_add(1);
        let look = self.look(attempt.ended, supply, self.probe_until()).await;
        attempt.waits_from = Instant::now();
        match look {
            Look::Applied(response) => Probed::Applied(attempt, response),
            Look::Absent => {
                self.evidence = Evidence::Unprocessed;
                self.followed_unknown = false;
                attempt.signal = Signal::ProbedAbsent;
                attempt.hint = None;
                Probed::Open(attempt)
            }
            Look::InProgress { settled_in } => {
                // Asking before the endpoint has settled could only hear the same again.
                attempt.hint = settled_in.map(Ok);
                Probed::Open(attempt)
            }
            Look::Undecided => Probed::Stopped(attempt, StopReason::ProbeUndecided),
        }
    }

    /// Asks the probe once.
    pub(super) async fn look(&mut self, last_ended: Instant, supply: &Supply, until: Deadline) -> Look {
        let (Some(endpoint), Some(request)) = (self.plan.endpoint.as_ref(), supply.template()) else { return Look::Undecided };
        let Some(probe) = endpoint.probe() else { return Look::Undecided };
        let asked = Instant::now();
        let key_headers: &[HeaderName] = self.plan.key.as_ref().map_or(&[], OperationKey::headers);
        let operation = Operation {
            request,
            extensions: self.extensions,
            key: self.plan.key.as_ref().map(OperationKey::key),
            key_headers,
            attempts: &self.attempts,
            deadline: until,
            next: self.next.clone(),
        };
        let verdict = match until.instant() {
            Some(instant) => timeout_at(instant, probe.look_up(&operation)).await.unwrap_or(ProbeVerdict::Undecided),
            None => probe.look_up(&operation).await,
        };
        let unsettled = endpoint.settling_time().saturating_sub(last_ended.elapsed());
        let look = match verdict {
            ProbeVerdict::Applied(response) => Look::Applied(response),
            ProbeVerdict::Absent if unsettled.is_zero() => Look::Absent,
            ProbeVerdict::Absent => Look::InProgress { settled_in: Some(unsettled) },
            ProbeVerdict::InProgress => Look::InProgress { settled_in: None },
            ProbeVerdict::Undecided => Look::Undecided,
        };
        let record = ProbeRecord {
            after_attempt: self.sends,
            started: asked.saturating_duration_since(self.started),
            took: asked.elapsed(),
            found: look.found(),
        };
        let cleared = matches!(look, Look::Applied(_) | Look::Absent);
        self.watched.probed(&record, if cleared { Evidence::Unprocessed } else { self.evidence });
        self.probe_records.push(record);
        look
    }

    /// The deadline; where there is none, what is left of the window, so that a probe that hangs cannot hang the operation.
    fn probe_until(&self) -> Deadline {
        let window = || Deadline::after(self.plan.policy.window().saturating_sub(self.started.elapsed()));
        if self.plan.deadline.instant().is_some() { self.plan.deadline } else { window() }
    }

    /// The deadline itself, whose last tenth was kept free; a tenth of the window where there is none.
    pub(super) fn last_look_until(&self) -> Deadline {
        if self.plan.deadline.instant().is_some() {
            self.plan.deadline
        } else {
            Deadline::after(self.plan.policy.window() / defaults::LAST_LOOK_DIVISOR)
        }
    }
}

/// What came of a probe between attempts.
pub(super) enum Probed {
    /// There is something to decide again.
    Open(Attempt),
    Applied(Attempt, Response),
    Stopped(Attempt, StopReason),
}

/// What one look found.
pub(super) enum Look {
    Applied(Response),
    Absent,
    InProgress { settled_in: Option<Duration> },
    Undecided,
}

impl Look {
    const fn found(&self) -> Found {
        match self {
            Self::Applied(_) => Found::Applied,
            Self::Absent => Found::Absent,
            Self::InProgress { .. } => Found::InProgress,
            Self::Undecided => Found::Undecided,
        }
    }
}
