//! The results table: what an operation ends with, and who is told.
//!
//! Every way out of the loop leads through here, so that no caller, slot or observer is forgotten.
//! What is decided here is only how to say it: who gets the transport's own error, and who must
//! learn that a write may have happened.

use std::{mem, time::Duration};

use http::Extensions;
use reqwest::{Request, Response};
use reqwest_middleware::{Error, Result};

use super::{Run, cooldown::HeldBack, giving_up::Progress, preparing::Unsent, probing::Look};
use crate::{
    contract::endpoint::DeadlineCovers,
    observe::{End, Telemetry},
    operation::attempt::{Attempt, Held},
    operation::key::OperationKey,
    outcome::advice::Advice,
    outcome::error::{Failure, FailureSource, Misuse, RetryError},
    outcome::report::{Record, ReportSlot, RetryReport},
    platform::Instant,
    policy::{BodySupply, Ending, Evidence, History, IdempotencyKey, LastAnswer, Outcome, Signal, StopReason},
    proof::cause::TimeLimit,
    proof::witness::leave,
    request::call::Call,
    request::origin::Origin,
    request::sent_before::SentBefore,
    request::shown::ShownMethod,
    response::body,
};

impl Run<'_> {
    /// Ends the operation: an unknown write that can be asked about is asked about once more, free
    /// of the budget.
    pub(super) async fn stop(&mut self, attempt: &mut Attempt, reason: StopReason) -> Result<Response> {
        self.forget_unsent();
        if reason == StopReason::BodyConsumed && self.supply.body() == BodySupply::Consumed {
            self.advise(Advice::StreamWithoutFactory);
        }
        if self.plan.has_probe() && self.ending(attempt, reason).is_worth_a_last_look() {
            match Box::pin(self.last_look(attempt)).await {
                Look::Applied(response) => return self.reconciled(attempt, response),
                Look::Absent => self.evidence = Evidence::Unprocessed,
                Look::InProgress(_) | Look::Undecided => {}
            }
        }
        self.finish(attempt, reason)
    }

    /// The answer is final: no resend could improve it.
    pub(super) fn answered(&mut self, attempt: &mut Attempt) -> Result<Response> {
        if let Some(account) = self.plan.account {
            account.accepted();
        }
        self.forget_unsent();
        self.finish(attempt, StopReason::AnswerIsFinal)
    }

    /// The probe found the operation applied: its response is the answer.
    pub(super) fn reconciled(&mut self, attempt: &mut Attempt, response: Response) -> Result<Response> {
        let outcome = Outcome::of(&Ending::new(StopReason::AnswerIsFinal, LastAnswer::Probe, self.history(), self.evidence));
        let report = self.report(attempt, StopReason::AnswerIsFinal, outcome);
        self.ended(StopReason::AnswerIsFinal, outcome, Some(attempt), Some(&report));
        self.hand_back(mem::take(&mut attempt.extensions), response, Some(report), Shown::Everywhere)
    }

    /// Every cell of the results table.
    fn finish(&mut self, attempt: &mut Attempt, reason: StopReason) -> Result<Response> {
        let outcome = Outcome::of(&self.ending(attempt, reason));
        let told = !self.attempts.is_empty();
        let one_attempt = self.sends <= 1 && !self.plan.was_sent_before;
        let uneventful = one_attempt && reason.is_final() || self.plan.is_left_alone();
        let mut held = mem::replace(&mut attempt.held, Held::GivenBack);
        if matches!(held, Held::Response(_)) && self.makes_an_error_of(attempt.facts.signal) {
            held = Held::NoResult;
        }
        if let Held::Response(response) = held {
            let report = told.then(|| self.report(attempt, reason, outcome));
            self.ended(reason, outcome, Some(attempt), report.as_ref());
            return self.hand_back(
                mem::take(&mut attempt.extensions),
                response,
                report,
                if uneventful { Shown::InSlot } else { Shown::Everywhere },
            );
        }
        let report = self.report(attempt, reason, outcome);
        self.ended(reason, outcome, Some(attempt), Some(&report));
        self.fill(&report);
        if let (Evidence::Unknown, Some(guarded)) = (self.key_evidence, &mut self.guarded) {
            guarded.handed_out(Instant::now());
        }
        let error = self.error(held, attempt, report);
        leave::<Call>(self.extensions, mem::take(&mut attempt.extensions));
        Err(error)
    }

    /// Who is told what: a request that nothing marks keeps the transport's own error, a marked
    /// write learns whether it may have happened.
    fn error(&self, held: Held, attempt: &Attempt, report: RetryReport) -> Error {
        let stop = report.stop();
        let marked_write = self.plan.is_write && self.plan.endpoint.is_some();
        let failure = |source| Failure::new(report, self.key(), attempt.facts.status, source);
        let by_evidence = |failure| match self.evidence {
            Evidence::Unprocessed => RetryError::Unprocessed(failure),
            Evidence::Unknown => RetryError::OutcomeUnknown(failure),
        };
        match held {
            Held::Error(error @ Error::Middleware(_)) => error,
            // An inner middleware made an error of a final answer: there is nothing to add to it.
            Held::Error(error) if stop.is_final() => error,
            Held::Error(Error::Reqwest(error)) if marked_write => by_evidence(failure(Some(FailureSource::Transport(error)))).into(),
            Held::Error(error @ Error::Reqwest(_)) => error,
            Held::Unsupplied(error) => by_evidence(failure(Some(FailureSource::Supply(error)))).into(),
            Held::BodyLost(cause) if marked_write => {
                let failure = failure(cause.ok().map(FailureSource::Transport));
                if matches!(attempt.facts.signal, Signal::BodyLost(_)) {
                    RetryError::BodyLost(failure).into()
                } else {
                    by_evidence(failure).into()
                }
            }
            Held::BodyLost(Ok(error)) => Error::Reqwest(error),
            Held::TimedOut(_) | Held::GivenBack | Held::NoResult | Held::Response(_) if marked_write => by_evidence(failure(None)).into(),
            Held::NoResult => RetryError::Unsuccessful(failure(None)).into(),
            Held::Unsent if self.plan.is_write => by_evidence(failure(None)).into(),
            Held::TimedOut(TimeLimit::Deadline) if self.plan.is_write => match self.evidence {
                Evidence::Unprocessed => RetryError::DeadlineExceeded(failure(None)).into(),
                Evidence::Unknown => RetryError::OutcomeUnknown(failure(None)).into(),
            },
            Held::TimedOut(TimeLimit::Attempt) | Held::BodyLost(Err(TimeLimit::Attempt)) => {
                RetryError::AttemptTimedOut(failure(None)).into()
            }
            Held::TimedOut(TimeLimit::Deadline | TimeLimit::Client)
            | Held::BodyLost(Err(TimeLimit::Deadline | TimeLimit::Client))
            | Held::GivenBack
            | Held::Unsent
            | Held::Response(_) => RetryError::DeadlineExceeded(failure(None)).into(),
        }
    }

    fn makes_an_error_of(&self, signal: Signal) -> bool {
        self.plan.endpoint.as_ref().is_some_and(|endpoint| endpoint.makes_an_error_of(signal))
    }

    /// The operation as it would end with this attempt.
    fn ending(&self, attempt: &Attempt, stop: StopReason) -> Ending {
        let answer = LastAnswer::of(attempt.facts.signal, attempt.facts.status);
        Ending { stop, answer, key_answer: attempt.facts.key_answer, history: self.history(), evidence: self.evidence }
    }

    pub(super) fn history(&self) -> History {
        match (self.plan.is_write, self.followed_unknown) {
            (false, false | true) => History::Read,
            (true, false) => History::Write,
            (true, true) => History::WriteAfterUnknown,
        }
    }

    /// Nothing was sent. With a key that was used before, that says nothing about then.
    pub(super) fn unsent(&mut self, unsent: Unsent) -> Result<Response> {
        let error = match unsent {
            Unsent::TimeUp => {
                let failure = self.failure_unsent(StopReason::DeadlineTooNear);
                match (self.plan.is_write, self.evidence) {
                    (true, Evidence::Unknown) => RetryError::OutcomeUnknown(failure),
                    (true, Evidence::Unprocessed) | (false, Evidence::Unknown | Evidence::Unprocessed) => {
                        RetryError::DeadlineExceeded(failure)
                    }
                }
            }
            Unsent::HeldBack(HeldBack { wait, limit }) => {
                self.hint = Some(wait);
                RetryError::CoolingDown(self.failure_unsent(limit))
            }
            Unsent::Misused(misuse) => {
                self.end_unsent(StopReason::Misused);
                RetryError::Misused(misuse)
            }
        };
        Err(error.into())
    }

    fn failure_unsent(&mut self, stop: StopReason) -> Failure {
        let report = self.end_unsent(stop);
        Failure::new(report, self.key(), None, None)
    }

    /// Tells everybody about an operation of which nothing was sent.
    fn end_unsent(&mut self, stop: StopReason) -> RetryReport {
        let outcome = Outcome::of(&Ending::new(stop, LastAnswer::None, self.history(), self.evidence));
        let report = self.report_as(stop, outcome, None);
        self.ended(stop, outcome, None, Some(&report));
        self.fill(&report);
        report
    }

    fn hand_back(&mut self, extensions: Extensions, mut response: Response, report: Option<RetryReport>, shown: Shown) -> Result<Response> {
        leave::<Call>(self.extensions, extensions);
        if let Some(report) = report {
            self.fill(&report);
            if shown == Shown::Everywhere {
                report.ride_on(&mut response);
            }
        }
        Ok(match self.plan.deadline_covers {
            DeadlineCovers::Body => body::bounded(response, self.plan.deadline),
            DeadlineCovers::Head => response,
        })
    }

    fn ended(&mut self, stop: StopReason, outcome: Outcome, last: Option<&Attempt>, report: Option<&RetryReport>) {
        self.progress = Progress::Over;
        let last = last.map(|attempt| &attempt.facts);
        self.watched.ended(&End { stop, outcome, last, started: self.started, report });
    }

    pub(super) fn fill(&self, report: &RetryReport) {
        match &self.plan.slot {
            Some(slot) if self.plan.is_left_alone() => slot.fill_if_empty(report.clone()),
            Some(slot) => slot.fill(report.clone()),
            None => {}
        }
    }

    /// The key for whoever tries again. What the server may have seen keeps its age, also where it
    /// has not acted on it. A key that was made and not sent is not that of what was sent before.
    pub(super) fn key(&self) -> Option<IdempotencyKey> {
        let names_nothing = |key: &OperationKey| self.plan.was_sent_before && self.sends == 0 && key.was_made();
        self.plan.key.as_deref().filter(|key| !names_nothing(key)).map(|key| match self.key_evidence {
            Evidence::Unprocessed => key.key().clone(),
            Evidence::Unknown => key.once_used(),
        })
    }
}

/// Where a report is to be found.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Shown {
    /// One attempt brought a final answer: only who asked is told.
    InSlot,
    Everywhere,
}

/// The error of a request that was used wrongly: nothing was sent, and a report without attempts
/// says so.
pub(crate) fn misused(misuse: Misuse, request: &Request, extensions: &Extensions, telemetry: &Telemetry) -> Error {
    let evidence = if extensions.get::<SentBefore>().is_some() { Evidence::Unknown } else { misuse.evidence() };
    let report = RetryReport::new(Record {
        method: ShownMethod(request.method().clone()),
        origin: Origin::of(request.url()),
        endpoint: None,
        correlation: extensions.get().cloned(),
        sent_before: None,
        attempts: Vec::new(),
        probes: Vec::new(),
        stop: StopReason::Misused,
        outcome: Outcome::of(&Ending::new(StopReason::Misused, LastAnswer::None, History::Write, evidence)),
        evidence,
        advice: Vec::new(),
        hint: None,
        key: None,
        key_answer: None,
        took: Duration::ZERO,
        time_left: Duration::MAX,
    });
    telemetry.misused(&report);
    if let Some(slot) = extensions.get::<ReportSlot>() {
        slot.fill(report);
    }
    RetryError::Misused(misuse).into()
}
