//! The judge: one operation against the promises, by what the server recorded.

use std::time::Duration;

use reqwest_safe_retry::{Outcome, RetryReport, policy::UnreadableHint, report::Found};

use crate::{
    asked::Asked,
    class::{Class, Protection},
    journal::{Kind, Record},
    plan::Payload,
    promise::{Breach, Promise},
};

/// How often a copy that is under way is waited for at most, beside the attempts.
const COPIES_WAITED_FOR: usize = 10;

/// Judges an operation that has ended, of which nothing can act any more. Grace: how late a send may
/// begin.
pub(crate) fn judge(record: &Record, applied: u64, reports: &[RetryReport], grace: Duration) -> Vec<Breach> {
    let mut breaches = record.breaches.clone();
    breaches.extend(acted(record, applied));
    breaches.extend(reports.last().and_then(|last| unprocessed(record, applied, last)));
    breaches.extend(heads(record));
    for call in 0..record.calls.len() {
        breaches.extend(attempts(record, call));
        breaches.extend(late(record, call, grace));
    }
    breaches.extend(hints(record));
    breaches
}

fn acted(record: &Record, applied: u64) -> Option<Breach> {
    let acts = record.acts();
    match record.plan.class.protection() {
        Protection::Repeatable => None,
        Protection::Recognised => (applied > 1).then(|| Breach::of(Promise::AppliedOnce, format!("applied {applied} times"))),
        Protection::None => (acts > 1).then(|| Breach::of(Promise::UnprotectedOnce, format!("{acts} heads that were not refused"))),
    }
}

/// "It did not happen" has to be true. What a probe found absent may have been heard, but has left
/// no trace.
fn unprocessed(record: &Record, applied: u64, report: &RetryReport) -> Option<Breach> {
    let looked = report.probes().iter().any(|probe| probe.found() == Found::Absent);
    let traces = if looked { applied } else { record.acts() as u64 };
    let says_so = report.outcome() == Outcome::Unprocessed;
    (says_so && traces > 0)
        .then(|| Breach::of(Promise::UnprocessedIsTrue, format!("said not to have been processed, and was {traces} times")))
}

/// A send is one head at most.
fn heads(record: &Record) -> Option<Breach> {
    let heads_of = |send: usize| record.heads.iter().filter(|head| head.send == send).count();
    let (send, heads) = (0..record.sends.len()).map(|send| (send, heads_of(send))).find(|(_, heads)| *heads > 1)?;
    Some(Breach::of(Promise::WithinAttempts, format!("send {send} brought {heads} heads")))
}

/// Waiting for a copy that is under way has a number of its own.
fn attempts(record: &Record, call: usize) -> Option<Breach> {
    let plan = &record.plan;
    let can_be_repeated = !matches!(plan.payload, Payload::Stream(_)) && plan.class != Class::Never;
    let allowed = if can_be_repeated { plan.policy.attempts() as usize } else { 1 };
    let of_call = |kind| record.sends.iter().enumerate().filter(move |(_, send)| send.call == call && send.kind == kind);
    let in_use = |send: usize| record.said_to(send).is_some_and(|said| said.in_use);
    let copies = of_call(Kind::Attempt).filter(|(send, _)| in_use(*send)).count();
    let (attempts, probes) = (of_call(Kind::Attempt).count(), of_call(Kind::Probe).count());
    if attempts > allowed + copies.min(COPIES_WAITED_FOR) {
        let waited = format!("{copies} for a copy under way");
        return Some(Breach::of(Promise::WithinAttempts, format!("{attempts} attempts, {waited}, where {allowed} are allowed")));
    }
    let allowed = plan.policy.attempts() as usize + 1; // and the last look
    (probes > allowed).then(|| Breach::of(Promise::WithinAttempts, format!("{probes} probes, where {allowed} are allowed")))
}

fn late(record: &Record, call: usize, grace: Duration) -> Option<Breach> {
    let deadline = record.calls.get(call)?.deadline?;
    let of_call = record.sends.iter().enumerate().filter(|(_, send)| send.call == call);
    let (send, late) =
        of_call.map(|(number, send)| (number, send.began.saturating_duration_since(deadline))).max_by_key(|(_, late)| *late)?;
    (late > grace).then(|| Breach::of(Promise::NotAfterDeadline, format!("send {send} was begun {late:?} after the deadline")))
}

/// Every later request of the call has to come after what the client was asked to wait, counted
/// from when the server asked.
fn hints(record: &Record) -> Option<Breach> {
    record.sends.iter().enumerate().filter(|(_, send)| send.answered.is_some()).find_map(|(asking, send)| {
        let said = record.said_to(asking).filter(|said| send.answered == Some(said.status))?;
        let mut later = record.heads.iter().filter(|head| head.send > asking && record.sends[head.send].call == send.call);
        match said.asked {
            Asked::Nothing => None,
            Asked::Wait(wait) => {
                let head = later.find(|head| head.at.saturating_duration_since(said.at) < wait)?;
                let early: Duration = wait - head.at.saturating_duration_since(said.at);
                let how = format!("{:?} {} came {early:?} before what the answer to {asking} asked", head.kind, head.send);
                Some(Breach::of(Promise::NotBeforeHint, how))
            }
            Asked::Unreadable => {
                let head = later.find(|head| head.kind == Kind::Attempt && record.plan.unreadable == UnreadableHint::Stop)?;
                Some(Breach::of(Promise::NotBeforeHint, format!("attempt {} follows a hint that cannot be read", head.send)))
            }
        }
    })
}
