//! Asking what became of a write: between attempts, and once more before an operation ends as
//! unknown.
//!
//! A probe is the user's code and may hang, so each has a time by which it is over; and what it
//! does not see yet may still appear, so its *absent* counts only after the endpoint's settling
//! time.

use std::time::Duration;

use http::HeaderName;
use reqwest::Response;

use super::Run;
use crate::{
    contract::probe::{Operation, ProbeVerdict},
    operation::attempt::Attempt,
    operation::key::OperationKey,
    outcome::report::{Found, ProbeRecord},
    platform::{Instant, sleep_until, timeout_at},
    policy::{Evidence, Signal, StopReason, defaults},
    request::deadline::Deadline,
};

impl Run<'_> {
    /// One probe: the budget pays, the old connection goes back, the pause passes, the probe is
    /// asked.
    pub(super) async fn probe(&mut self, attempt: &mut Attempt, pause: Duration) -> Result<Probed, StopReason> {
        let payment = self.pay()?;
        self.watched.probing(pause, self.sending_until);
        self.pause(attempt, pause).await?;
        if let Some(token) = payment {
            token.spend();
        }
        self.probes = self.probes.saturating_add(1);
        let look = Box::pin(self.look(attempt.facts.ended, self.probe_until())).await;
        attempt.waits_from = Instant::now();
        if let Look::InProgress(Wait::Told(wait)) = look {
            self.hint = Some(wait);
            self.share_wait(attempt, wait);
        }
        match look {
            Look::Applied(response) => Ok(Probed::Applied(response)),
            Look::Absent => {
                self.evidence = Evidence::Unprocessed;
                self.followed_unknown = false;
                attempt.facts.signal = Signal::ProbedAbsent;
                attempt.facts.hint = None;
                Ok(Probed::Open)
            }
            Look::InProgress(wait) => {
                attempt.facts.hint = match wait {
                    Wait::Told(wait) | Wait::Settling(wait) => Some(Ok(wait)),
                    Wait::Unsaid => None,
                };
                Ok(Probed::Open)
            }
            Look::Undecided => Err(StopReason::ProbeUndecided),
        }
    }

    /// Asks the probe once.
    pub(super) async fn look(&mut self, last_ended: Instant, until: Deadline) -> Look {
        let (Some(endpoint), Some(request)) = (self.plan.endpoint.as_ref(), self.supply.template()) else { return Look::Undecided };
        let Some(probe) = endpoint.probe() else { return Look::Undecided };
        let asked = Instant::now();
        let key_headers: &[HeaderName] = self.plan.key.as_deref().map_or(&[], OperationKey::headers);
        let operation = Operation {
            request,
            extensions: self.extensions,
            key: self.plan.key.as_deref().map(OperationKey::key),
            key_headers,
            attempts: &self.attempts,
            deadline: until,
            hints: self.plan.hints,
            last_ended,
            next: self.next.clone(),
        };
        let own_limit = self.plan.attempt_limit.map_or(Deadline::NONE, Deadline::after).earlier(until);
        let verdict = match own_limit.instant() {
            Some(instant) => timeout_at(instant, probe.look_up(&operation)).await.unwrap_or(if own_limit == until {
                ProbeVerdict::Undecided
            } else {
                // It may be asked again.
                ProbeVerdict::InProgress
            }),
            None => probe.look_up(&operation).await,
        };
        // What counts is when it was asked: the answer may have been on its way for long.
        let asked_after = asked.saturating_duration_since(last_ended);
        let look = match verdict {
            ProbeVerdict::Applied(response) if operation.is_stale(&response) => Look::InProgress(Wait::Unsaid),
            ProbeVerdict::Applied(response) => Look::Applied(response),
            ProbeVerdict::Absent if asked_after >= endpoint.settling_time() => Look::Absent,
            // Asking before the endpoint has settled could only hear the same again.
            ProbeVerdict::Absent => Look::InProgress(Wait::Settling(endpoint.settling_time().saturating_sub(last_ended.elapsed()))),
            ProbeVerdict::InProgress => Look::InProgress(Wait::Unsaid),
            ProbeVerdict::InProgressFor(wait) => Look::InProgress(Wait::Told(wait)),
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

    /// The deadline; where there is none, what is left of the window, so that a probe that hangs
    /// cannot hang the operation.
    fn probe_until(&self) -> Deadline {
        let window = || Deadline::after(self.plan.policy.window().saturating_sub(self.started.elapsed()));
        if self.plan.deadline.instant().is_some() { self.plan.deadline } else { window() }
    }

    /// Asks once more before the operation ends: after what somebody asked to wait, if that fits
    /// before the deadline, and else not at all.
    pub(super) async fn last_look(&mut self, attempt: &Attempt) -> Look {
        let until = self.last_look_until();
        let mut from = attempt.waits_from;
        let mut wait = match self.asked_wait(attempt) {
            Some(Ok(wait)) => wait,
            Some(Err(_)) => return Look::Undecided,
            None => Duration::ZERO,
        };
        // Others may be told a longer wait while this one passes.
        while !wait.is_zero() {
            match from.checked_add(wait) {
                Some(then) if until.instant().is_some_and(|end| then < end) => sleep_until(then).await,
                Some(_) | None => return Look::Undecided,
            }
            from = Instant::now();
            wait = self.shared_wait(from).map_or(Duration::ZERO, |shared| shared.left);
        }
        // A machine that slept may wake when the tenth is over, too.
        if until.time_left().is_zero() {
            return Look::Undecided;
        }
        self.look(attempt.facts.ended, until).await
    }

    /// The deadline itself, whose last tenth was kept free; a tenth of the window where there is
    /// none.
    fn last_look_until(&self) -> Deadline {
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
    Open,
    Applied(Response),
}

/// What one look found.
pub(super) enum Look {
    Applied(Response),
    Absent,
    InProgress(Wait),
    Undecided,
}

/// What the next question has to wait for.
#[derive(Clone, Copy)]
pub(super) enum Wait {
    Unsaid,
    /// The endpoint has to settle.
    Settling(Duration),
    /// The server said so.
    Told(Duration),
}

impl Look {
    const fn found(&self) -> Found {
        match self {
            Self::Applied(_) => Found::Applied,
            Self::Absent => Found::Absent,
            Self::InProgress(_) => Found::InProgress,
            Self::Undecided => Found::Undecided,
        }
    }
}
