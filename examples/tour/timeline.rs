//! A report as a timeline: one line an attempt, with what was decided after it and why.

use std::time::Duration;

use reqwest_safe_retry::{AttemptRecord, Evidence, ResendReason, RetryReport, StopReason};

use crate::ink;

pub(crate) fn print(report: &RetryReport) {
    let header = format!("{:>9}  {:<8}{:<27}{:<15}{:>9}{:>11}  decision", "at", "attempt", "signal", "evidence", "pause", "time left");
    println!("{}", ink::dim(&header));
    for attempt in report.attempts() {
        println!(
            "{:>9}  {:<8}{:<27}{:<15}{:>9}{:>11}  {}",
            seconds(attempt.started()),
            format!("#{}", attempt.number()),
            signal(attempt),
            evidence(attempt, report),
            attempt.pause().map_or_else(|| "–".to_owned(), seconds),
            seconds(attempt.time_left()),
            decision(attempt, report),
        );
    }
}

pub(crate) fn seconds(time: Duration) -> String {
    if time == Duration::MAX { "no limit".to_owned() } else { format!("{:.3} s", time.as_secs_f64()) }
}

fn signal(attempt: &AttemptRecord) -> String {
    match (attempt.status(), attempt.hint()) {
        (Some(status), Some(hint)) => format!("{}, wait {hint:?}", status.as_u16()),
        (Some(status), None) => status.to_string(),
        (None, _) => attempt.cause().to_string(),
    }
}

fn evidence(attempt: &AttemptRecord, report: &RetryReport) -> &'static str {
    let is_last = attempt.resend().is_none();
    match attempt.evidence() {
        Evidence::Unknown if is_last && report.stop() == StopReason::AnswerIsFinal => "answered",
        Evidence::Unknown => "unknown",
        Evidence::Unprocessed => "not processed",
    }
}

fn decision(attempt: &AttemptRecord, report: &RetryReport) -> String {
    match attempt.resend() {
        Some(ResendReason::EffectRepeatable) => "send again: twice is as good as once".to_owned(),
        Some(ResendReason::KeyDeduplicates) => "send again: the key makes it act once".to_owned(),
        Some(ResendReason::ProvenUnprocessed) => "send again: the server cannot have acted".to_owned(),
        Some(other) => format!("send again: {other:?}"),
        None => match report.stop() {
            StopReason::AnswerIsFinal => "done: the answer is final".to_owned(),
            StopReason::MayHaveHappened => "stop: it may have happened".to_owned(),
            StopReason::DeadlineTooNear => "stop: the deadline comes first".to_owned(),
            StopReason::AttemptsSpent => "stop: no attempts left".to_owned(),
            other => format!("stop: {other:?}"),
        },
    }
}
