//! The span and the events.

use std::time::Duration;

use tracing::{Level, Metadata, Span, event, field::Empty, level_filters::LevelFilter, span};
use tracing_core::{callsite::DefaultCallsite, metadata::Kind};

use super::{
    Detail, End, OperationFacts, Telemetry,
    names::{self, ADVICE_TARGET, TARGET, event as name, field},
};
use crate::{
    outcome::advice::Advice,
    outcome::facts::AttemptFacts,
    outcome::report::{ProbeRecord, RetryReport},
    platform::Instant,
    policy::{Evidence, Outcome, ResendPermit},
    proof::cause::Cause,
    request::deadline::Deadline,
    request::origin::Origin,
    request::shown,
};

/// Whether anybody may listen to what is told of an operation that goes well.
///
/// What subscribers said of this target and level when they were installed is all that is looked
/// at. `tracing::enabled!` would ask them anew, and a subscriber with filters of its layers' own
/// takes that for the beginning of an event: the next span would be lost to a layer.
pub(super) fn are_heard() -> bool {
    static PLACE: DefaultCallsite = DefaultCallsite::new(&EVENT);
    static EVENT: Metadata<'static> = tracing_core::metadata! {
        name: name::ATTEMPT,
        target: TARGET,
        level: Level::DEBUG,
        fields: &[],
        callsite: &PLACE,
        kind: Kind::EVENT,
    };
    LevelFilter::current() >= Level::DEBUG && !PLACE.interest().is_never()
}

pub(super) fn operation(operation: &OperationFacts<'_>, telemetry: &Telemetry) -> Span {
    let (method, url) = (operation.method, operation.url);
    let endpoint = operation.endpoint.map(AsRef::<str>::as_ref);
    span!(
        target: TARGET,
        Level::WARN,
        names::OPERATION,
        { field::ENDPOINT } = endpoint,
        { field::METHOD } = names::method(method),
        { field::METHOD_ORIGINAL } = names::other_method(method).as_deref(),
        { field::SCHEME } = &*shown::scheme(url),
        { field::HOST } = shown::host(url).as_deref(),
        { field::PORT } = url.port_or_known_default(),
        { field::PATH } = (telemetry.path_in_logs == Detail::Shown).then(|| url.path()),
        { field::CORRELATION_ID } = operation.correlation.map(tracing::field::display),
        { field::KEY } = operation.key.map(|key| tracing::field::display(key.fingerprint())),
        { field::OTEL_NAME } = tracing::field::display(names::SpanName { method, endpoint }),
        { field::OTEL_KIND } = names::SPAN_KIND,
        // For exporters, which see the span as a whole.
        { field::STATUS } = Empty,
        { field::RESEND_COUNT } = Empty,
        { field::ERROR_TYPE } = Empty,
        { field::OUTCOME } = Empty,
        { field::OTEL_STATUS } = Empty,
    )
}

pub(super) fn attempt(operation: &OperationFacts<'_>, number: u32, attempt: &AttemptFacts, until: Deadline) {
    event!(name: name::ATTEMPT, target: TARGET, Level::DEBUG, {
        message = name::ATTEMPT,
        { field::ATTEMPT } = number,
        { field::RESEND_COUNT } = resend_count(number),
        { field::STATUS } = attempt.status.map(|status| status.as_u16()),
        { field::ERROR_TYPE } = names::error_type(attempt.cause, attempt.status.as_ref()),
        { field::SIGNAL } = names::signal(attempt.signal),
        { field::EVIDENCE } = names::evidence(attempt.evidence),
        { field::CAUSE } = failure(attempt.cause).map(tracing::field::debug),
        { field::TOOK } = millis(attempt.ended.saturating_duration_since(attempt.started)),
        { field::HINT } = attempt.hint.and_then(Result::ok).map(millis),
        { field::TIME_LEFT } = bounded(until),
        { field::BUDGET_LEFT } = budget_left(operation),
    });
}

pub(super) fn resend(operation: &OperationFacts<'_>, number: u32, permit: &ResendPermit, until: Deadline) {
    event!(name: name::RESEND, target: TARGET, Level::INFO, {
        message = name::RESEND,
        { field::ATTEMPT } = number,
        { field::REASON } = names::resend(permit.reason()),
        { field::PAUSE } = millis(permit.pause()),
        { field::TIME_LEFT } = bounded(until),
        { field::BUDGET_LEFT } = budget_left(operation),
    });
}

pub(super) fn probe(operation: &OperationFacts<'_>, number: u32, pause: Duration, until: Deadline) {
    event!(name: name::PROBE, target: TARGET, Level::DEBUG, {
        message = name::PROBE,
        { field::ATTEMPT } = number,
        { field::PAUSE } = millis(pause),
        { field::TIME_LEFT } = bounded(until),
        { field::BUDGET_LEFT } = budget_left(operation),
    });
}

pub(super) fn probed(probe: &ProbeRecord) {
    event!(name: name::PROBED, target: TARGET, Level::DEBUG, {
        message = name::PROBED,
        { field::ATTEMPT } = probe.after_attempt(),
        { field::FOUND } = names::found(probe.found()),
        { field::TOOK } = millis(probe.took()),
    });
}

pub(super) fn end(operation: &OperationFacts<'_>, span: &Span, sends: u32, end: &End<'_>) {
    let status = end.status();
    let error_type = end.cause().and_then(|cause| names::error_type(cause, status.as_ref()));
    // A level belongs to a place in the code, so there are two of them.
    macro_rules! end_at {
        ($level:expr) => {
            event!(name: name::END, target: TARGET, $level, {
                message = name::END,
                { field::ATTEMPTS } = sends,
                { field::STOP } = names::stop(end.stop),
                { field::OUTCOME } = names::outcome(end.outcome),
                { field::STATUS } = status.map(|status| status.as_u16()),
                { field::ERROR_TYPE } = error_type,
                { field::CAUSE } = end.cause().and_then(failure).map(tracing::field::debug),
                { field::TOOK } = millis(end.started.elapsed()),
                { field::TIME_LEFT } = bounded(operation.deadline),
                { field::BUDGET_LEFT } = budget_left(operation),
            })
        };
    }
    if end.is_alarming(sends) {
        end_at!(Level::WARN);
    } else {
        end_at!(Level::DEBUG);
    }
    // After the event, whose line would say everything twice otherwise.
    if let Some(status) = status {
        span.record(field::STATUS, status.as_u16());
    }
    if let Some(resends) = resend_count(sends) {
        span.record(field::RESEND_COUNT, resends);
    }
    if let Some(error_type) = error_type {
        span.record(field::ERROR_TYPE, error_type);
    }
    span.record(field::OUTCOME, names::outcome(end.outcome));
    if error_type.is_some() || end.outcome == Outcome::Unknown {
        span.record(field::OTEL_STATUS, names::SPAN_FAILED);
    }
}

pub(super) fn abandoned(span: &Span, sends: u32, evidence: Evidence) {
    macro_rules! abandoned_at {
        ($level:expr) => {
            event!(name: name::ABANDONED, target: TARGET, $level, {
                message = name::ABANDONED,
                { field::ATTEMPTS } = sends,
                { field::EVIDENCE } = names::evidence(evidence),
            })
        };
    }
    match evidence {
        Evidence::Unknown => {
            abandoned_at!(Level::WARN);
            span.record(field::OTEL_STATUS, names::SPAN_FAILED);
        }
        Evidence::Unprocessed => abandoned_at!(Level::DEBUG),
    }
}

pub(super) fn misused(report: &RetryReport) {
    event!(name: name::MISUSED, target: TARGET, Level::DEBUG, {
        message = name::MISUSED,
        { field::METHOD } = names::method(report.method()),
        { field::METHOD_ORIGINAL } = names::other_method(report.method()).as_deref(),
        { field::SCHEME } = report.origin().scheme(),
        { field::HOST } = report.origin().host(),
        { field::PORT } = report.origin().port(),
        { field::STOP } = names::stop(report.stop()),
    });
}

pub(super) fn advice(advice: Advice, origin: &Origin) {
    event!(name: name::ADVICE, target: ADVICE_TARGET, Level::WARN, {
        message = name::ADVICE,
        { field::REASON } = tracing::field::display(advice),
        { field::SCHEME } = origin.scheme(),
        { field::HOST } = origin.host(),
        { field::PORT } = origin.port(),
    });
}

/// An answer has no other cause than the server.
fn failure(cause: Cause) -> Option<Cause> {
    Some(cause).filter(|cause| *cause != Cause::Status)
}

/// OpenTelemetry counts resends, and says nothing about a first send.
fn resend_count(number: u32) -> Option<u32> {
    number.checked_sub(1).filter(|resends| *resends > 0)
}

fn budget_left(operation: &OperationFacts<'_>) -> Option<u64> {
    operation.account.map(|account| account.left(Instant::now()))
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

/// No deadline, no field.
fn bounded(until: Deadline) -> Option<u64> {
    until.instant().map(|_| millis(until.time_left()))
}
