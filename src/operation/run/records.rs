//! What the report will tell: a line for each attempt, written when it is decided about.
//!
//! The report has to be true in the end, not only when it is written: what was decided and then not
//! done is taken back.

use std::{mem, time::Duration};

use super::Run;
use crate::{
    contract::endpoint::Endpoint,
    operation::attempt::Attempt,
    outcome::advice::Advice,
    outcome::facts::AttemptFacts,
    outcome::report::{AttemptRecord, Record, RetryReport},
    policy::{Decision, Evidence, KeyAnswer, Outcome, Situation, StopReason},
    proof::cause::Cause,
    proof::witness::KeyKept,
    request::origin::Origin,
    request::shown::ShownMethod,
};

impl Run<'_> {
    /// Notes the attempt that was decided about; later decisions about it (after probes) add to its
    /// record.
    pub(super) fn record(&mut self, attempt: &Attempt, situation: &Situation, decision: &Decision) {
        let (pause, resend) = match decision {
            Decision::Resend(permit) => (Some(permit.pause()), Some(permit.reason())),
            Decision::Probe(pause) => (Some(*pause), None),
            Decision::Return | Decision::Stop(_) => (None, None),
        };
        let sends = self.sends;
        if let Some(last) = self.last_record_mut().filter(|last| last.number == sends) {
            last.pause = last.pause.max(pause);
            last.resend = resend;
            return;
        }
        let record = AttemptRecord {
            number: self.sends,
            started: attempt.facts.started.saturating_duration_since(self.started),
            took: attempt.facts.ended.saturating_duration_since(attempt.facts.started),
            signal: attempt.facts.signal,
            status: attempt.facts.status,
            evidence: attempt.facts.evidence,
            cause: attempt.facts.cause,
            sends: attempt.facts.sends,
            hint: attempt.facts.hint.and_then(Result::ok),
            time_left: situation.time_left,
            pause,
            resend,
        };
        if self.sends == 0 {
            self.sent_before = Some(Box::new(record));
        } else {
            if self.attempts.is_empty() {
                // Most operations have few, and wait with them.
                self.attempts.reserve_exact(1);
            }
            self.attempts.push(record);
        }
    }

    /// The record of what was decided about last.
    pub(super) fn last_record(&self) -> Option<&AttemptRecord> {
        self.attempts.last().or(self.sent_before.as_deref())
    }

    fn last_record_mut(&mut self) -> Option<&mut AttemptRecord> {
        self.attempts.last_mut().or(self.sent_before.as_deref_mut())
    }

    /// Takes in what the witness saw of how the attempt was sent.
    pub(super) fn learn(&mut self, facts: &AttemptFacts) {
        let more = facts.sends.saturating_sub(1);
        self.hidden_sends = self.hidden_sends.saturating_add(more);
        if more > 0 {
            self.advise(Advice::SentMoreOften);
        }
        self.learn_of_the_connection(facts);
        let lost = match facts.key_kept {
            KeyKept::Kept => return,
            KeyKept::LeftHome => Advice::KeyLeftHome,
            KeyKept::Replaced => Advice::KeyReplaced,
        };
        self.effect = self.effect.without_key();
        self.advise(lost);
    }

    /// Takes in how long the server keeps its connections, and whether the attempt may have been
    /// lost to that. A server that took the request and died mostly takes longer to do so.
    fn learn_of_the_connection(&mut self, facts: &AttemptFacts) {
        const AT_ONCE: Duration = Duration::from_secs(1);
        if let Some(timeout) = facts.keeps_alive {
            self.plan.settings.kept_alive.note(&self.plan.url, timeout, facts.ended);
        }
        let closed = matches!(facts.cause, Cause::PeerClosed | Cause::Reset) && facts.evidence == Evidence::Unknown;
        let at_once = facts.ended.saturating_duration_since(facts.started) < AT_ONCE;
        if closed && at_once && self.plan.is_write && self.plan.settings.kept_alive.may_have_ended(&self.plan.url, facts.started) {
            self.advise(Advice::IdleConnection);
        }
    }

    /// Notes what the owner of the program should know and did not ask not to be told, once.
    pub(super) fn advise(&mut self, advice: Advice) {
        if !self.advice.contains(&advice) && !self.watched.is_silenced(advice) {
            self.advice.push(advice);
            self.watched.advised(advice);
        }
    }

    /// A resend that was decided and never sent, for want of budget, time or body, is none in the
    /// report.
    pub(super) fn forget_unsent(&mut self) {
        let sends = self.sends;
        let asked = self.probe_records.iter().any(|probe| probe.after_attempt == sends);
        if let Some(last) = self.last_record_mut().filter(|last| last.number == sends) {
            last.resend = None;
            last.pause = last.pause.filter(|_| asked);
        }
    }

    pub(super) fn report(&mut self, attempt: &Attempt, stop: StopReason, outcome: Outcome) -> RetryReport {
        self.report_as(stop, outcome, attempt.facts.key_answer)
    }

    /// The end of the operation: what it kept goes into the report.
    pub(super) fn report_as(&mut self, stop: StopReason, outcome: Outcome, key_answer: Option<KeyAnswer>) -> RetryReport {
        RetryReport::new(Record {
            method: ShownMethod(self.plan.method.clone()),
            origin: Origin::of(&self.plan.url),
            endpoint: self.plan.endpoint.as_ref().and_then(Endpoint::name).cloned(),
            correlation: self.plan.correlation.as_deref().cloned(),
            sent_before: self.sent_before.as_deref().cloned(),
            attempts: mem::take(&mut self.attempts),
            probes: mem::take(&mut self.probe_records),
            stop,
            outcome,
            evidence: self.evidence,
            advice: mem::take(&mut self.advice),
            hint: self.hint,
            key: self.key().filter(|_| self.sends > 0),
            key_answer,
            took: self.started.elapsed(),
            time_left: self.plan.deadline.time_left(),
        })
    }
}
