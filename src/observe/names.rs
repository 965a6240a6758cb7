//! The names themselves: spans, events, fields, metrics, and the words their values are made of.
//!
//! Values are the names of the variants, so that a word in a log line is found in the
//! documentation; only `error.type` follows OpenTelemetry.

use std::{borrow::Cow, fmt};

use http::{Method, StatusCode};

use crate::{
    outcome::report::Found,
    policy::{Evidence, Outcome, ResendReason, Signal, StopReason},
    proof::cause::Cause,
    request::shown,
    response::drained::Drained,
};

/// The target of every span and event.
pub(crate) const TARGET: &str = "reqwest_safe_retry";

/// The target of advice, so that it can be filtered by itself.
pub(crate) const ADVICE_TARGET: &str = "reqwest_safe_retry::advice";

/// The one span, over a whole operation.
pub(crate) const OPERATION: &str = "operation";

/// The events; each name is the message, too.
pub(crate) mod event {
    pub(crate) const ATTEMPT: &str = "attempt";
    pub(crate) const RESEND: &str = "resend";
    pub(crate) const PROBE: &str = "probe";
    pub(crate) const PROBED: &str = "probed";
    pub(crate) const END: &str = "end";
    pub(crate) const ABANDONED: &str = "abandoned";
    pub(crate) const MISUSED: &str = "misused";
    pub(crate) const ADVICE: &str = "advice";
    pub(crate) const ALL: [&str; 8] = [ATTEMPT, RESEND, PROBE, PROBED, END, ABANDONED, MISUSED, ADVICE];
}

/// The fields of spans and events. Dotted ones are OpenTelemetry's.
pub(crate) mod field {
    pub(crate) const OTEL_NAME: &str = "otel.name";
    pub(crate) const OTEL_KIND: &str = "otel.kind";
    pub(crate) const OTEL_STATUS: &str = "otel.status_code";
    pub(crate) const ENDPOINT: &str = "endpoint";
    pub(crate) const METHOD: &str = "http.request.method";
    pub(crate) const METHOD_ORIGINAL: &str = "http.request.method_original";
    pub(crate) const SCHEME: &str = "url.scheme";
    pub(crate) const PATH: &str = "url.path";
    pub(crate) const HOST: &str = "server.address";
    pub(crate) const PORT: &str = "server.port";
    pub(crate) const STATUS: &str = "http.response.status_code";
    pub(crate) const RESEND_COUNT: &str = "http.request.resend_count";
    pub(crate) const ERROR_TYPE: &str = "error.type";
    pub(crate) const CORRELATION_ID: &str = "correlation_id";
    pub(crate) const KEY: &str = "key";
    pub(crate) const ATTEMPT: &str = "attempt";
    pub(crate) const ATTEMPTS: &str = "attempts";
    pub(crate) const SIGNAL: &str = "signal";
    pub(crate) const EVIDENCE: &str = "evidence";
    pub(crate) const CAUSE: &str = "cause";
    pub(crate) const REASON: &str = "reason";
    pub(crate) const STOP: &str = "stop";
    pub(crate) const OUTCOME: &str = "outcome";
    pub(crate) const FOUND: &str = "found";
    pub(crate) const PAUSE: &str = "pause_ms";
    pub(crate) const HINT: &str = "hint_ms";
    pub(crate) const TOOK: &str = "took_ms";
    pub(crate) const TIME_LEFT: &str = "time_left_ms";
    pub(crate) const BUDGET_LEFT: &str = "budget_left";
    pub(crate) const ALL: [&str; 29] = [
        OTEL_NAME,
        OTEL_KIND,
        OTEL_STATUS,
        ENDPOINT,
        METHOD,
        METHOD_ORIGINAL,
        SCHEME,
        PATH,
        HOST,
        PORT,
        STATUS,
        RESEND_COUNT,
        ERROR_TYPE,
        CORRELATION_ID,
        KEY,
        ATTEMPT,
        ATTEMPTS,
        SIGNAL,
        EVIDENCE,
        CAUSE,
        REASON,
        STOP,
        OUTCOME,
        FOUND,
        PAUSE,
        HINT,
        TOOK,
        TIME_LEFT,
        BUDGET_LEFT,
    ];
}

/// The metrics and their labels.
pub(crate) mod metric {
    pub(crate) const OPERATIONS: &str = "safe_retry_operations_total";
    pub(crate) const ATTEMPTS: &str = "safe_retry_attempts_total";
    pub(crate) const RESENDS: &str = "safe_retry_resends_total";
    pub(crate) const STOPS: &str = "safe_retry_stops_total";
    pub(crate) const UNKNOWN: &str = "safe_retry_unknown_outcomes_total";
    pub(crate) const PROBES: &str = "safe_retry_probes_total";
    pub(crate) const DRAINS: &str = "safe_retry_drains_total";
    pub(crate) const PAUSE: &str = "safe_retry_pause_seconds";
    pub(crate) const HINT: &str = "safe_retry_hint_seconds";
    pub(crate) const BUDGET_LEFT: &str = "safe_retry_budget_left";
    pub(crate) const ALL: [&str; 10] = [OPERATIONS, ATTEMPTS, RESENDS, STOPS, UNKNOWN, PROBES, DRAINS, PAUSE, HINT, BUDGET_LEFT];

    pub(crate) mod label {
        pub(crate) const ENDPOINT: &str = "endpoint";
        pub(crate) const METHOD: &str = "method";
        pub(crate) const ORIGIN: &str = "origin";
        pub(crate) const REASON: &str = "reason";
        pub(crate) const FOUND: &str = "found";
        pub(crate) const RESULT: &str = "result";
        pub(crate) const ALL: [&str; 6] = [ENDPOINT, METHOD, ORIGIN, REASON, FOUND, RESULT];
    }

    /// The endpoint of requests whose endpoint has no name.
    pub(crate) const UNNAMED: &str = "unnamed";
    /// The reason of an operation whose future was dropped.
    pub(crate) const ABANDONED: &str = "Abandoned";
}

const OTHER_METHOD: &str = "_OTHER";

/// A method as a word of a bounded set; OpenTelemetry calls all the others `_OTHER`.
pub(super) fn method(method: &Method) -> &'static str {
    match *method {
        Method::GET => "GET",
        Method::HEAD => "HEAD",
        Method::POST => "POST",
        Method::PUT => "PUT",
        Method::DELETE => "DELETE",
        Method::PATCH => "PATCH",
        Method::OPTIONS => "OPTIONS",
        Method::TRACE => "TRACE",
        Method::CONNECT => "CONNECT",
        _ => OTHER_METHOD,
    }
}

/// The method itself where [`method`] has no word for it.
pub(super) fn other_method(asked: &Method) -> Option<Cow<'_, str>> {
    (method(asked) == OTHER_METHOD).then(|| shown::method(asked))
}

/// OpenTelemetry's name of a span: the method, and what tells the endpoints of a client apart.
pub(super) struct SpanName<'a> {
    pub(super) method: &'a Method,
    pub(super) endpoint: Option<&'a str>,
}

impl fmt::Display for SpanName<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(Some(method(self.method)).filter(|word| *word != OTHER_METHOD).unwrap_or("HTTP"))?;
        self.endpoint.map_or(Ok(()), |endpoint| write!(f, " {endpoint}"))
    }
}

/// OpenTelemetry's kind of a span around requests that go out.
pub(super) const SPAN_KIND: &str = "client";
/// OpenTelemetry's status of a span that failed; the others have none.
pub(super) const SPAN_FAILED: &str = "ERROR";

/// OpenTelemetry's `error.type`: the status of an error answer, or a word for the failure.
pub(super) fn error_type(cause: Cause, status: Option<&StatusCode>) -> Option<&str> {
    Some(match cause {
        Cause::Status => return status.filter(|status| status.is_client_error() || status.is_server_error()).map(StatusCode::as_str),
        Cause::Connect => "connect",
        Cause::Certificate => "certificate",
        Cause::Reset => "reset",
        Cause::PeerClosed => "peer_closed",
        Cause::TimedOut(_) => "timeout",
        Cause::Protocol => "protocol",
        Cause::Refused => "refused",
        Cause::Redirect => "redirect",
        Cause::RequestBody => "request_body",
        Cause::Request => "request",
        Cause::BodyLost => "body_lost",
        Cause::Middleware => "middleware",
        Cause::Transport => "transport",
        Cause::SentBefore => "sent_before",
    })
}

pub(super) const fn signal(signal: Signal) -> &'static str {
    match signal {
        Signal::Answered(_) => "Answered",
        Signal::Final(_) => "Final",
        Signal::Resendable(_) => "Resendable",
        Signal::Overloaded(_) => "Overloaded",
        Signal::KeyInUse => "KeyInUse",
        Signal::Failed => "Failed",
        Signal::Broken => "Broken",
        Signal::BodyLost(_) => "BodyLost",
        Signal::Forbidden => "Forbidden",
        Signal::ProbedAbsent => "ProbedAbsent",
        Signal::SentBefore => "SentBefore",
    }
}

pub(super) const fn evidence(evidence: Evidence) -> &'static str {
    match evidence {
        Evidence::Unprocessed => "Unprocessed",
        Evidence::Unknown => "Unknown",
    }
}

pub(super) const fn resend(reason: ResendReason) -> &'static str {
    match reason {
        ResendReason::ProvenUnprocessed => "ProvenUnprocessed",
        ResendReason::EffectRepeatable => "EffectRepeatable",
        ResendReason::KeyDeduplicates => "KeyDeduplicates",
        ResendReason::ProbeFoundNothing => "ProbeFoundNothing",
    }
}

pub(super) const fn stop(reason: StopReason) -> &'static str {
    match reason {
        StopReason::AnswerIsFinal => "AnswerIsFinal",
        StopReason::MayHaveHappened => "MayHaveHappened",
        StopReason::AttemptsSpent => "AttemptsSpent",
        StopReason::DeadlineTooNear => "DeadlineTooNear",
        StopReason::WindowClosed => "WindowClosed",
        StopReason::BudgetSpent => "BudgetSpent",
        StopReason::KeyExpired => "KeyExpired",
        StopReason::BodyConsumed => "BodyConsumed",
        StopReason::ProbeUndecided => "ProbeUndecided",
        StopReason::UnreadableHint => "UnreadableHint",
        StopReason::ServerForbade => "ServerForbade",
        StopReason::Broken => "Broken",
        StopReason::Misused => "Misused",
        StopReason::Disabled => "Disabled",
        StopReason::Cancelled => "Cancelled",
    }
}

pub(super) const fn outcome(outcome: Outcome) -> &'static str {
    match outcome {
        Outcome::Answered => "Answered",
        Outcome::AnsweredAfterUnknown => "AnsweredAfterUnknown",
        Outcome::Reconciled => "Reconciled",
        Outcome::Unprocessed => "Unprocessed",
        Outcome::Unknown => "Unknown",
    }
}

pub(super) const fn found(found: Found) -> &'static str {
    match found {
        Found::Applied => "Applied",
        Found::Absent => "Absent",
        Found::InProgress => "InProgress",
        Found::Undecided => "Undecided",
    }
}

/// What only metrics tell.
#[cfg_attr(not(feature = "metrics"), expect(dead_code, reason = "nobody asks what it was"))]
pub(crate) enum Counted {
    /// The connection of a response was given back, or not.
    Drained(Drained),
}

pub(super) const fn drained(drained: Drained) -> &'static str {
    match drained {
        Drained::Whole => "Whole",
        Drained::TooLong => "TooLong",
        Drained::TooSlow => "TooSlow",
        Drained::Broken => "Broken",
        Drained::NotNeeded => "NotNeeded",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::every_variant;

    const TABLE: &str = include_str!("../../docs/telemetry.md");
    const INCIDENT: &str = include_str!("../../docs/reading-an-incident.md");

    /// What stands between backticks in the first cells of tables.
    fn documented() -> Vec<&'static str> {
        let cells = TABLE.lines().filter(|line| line.starts_with("| `")).filter_map(|line| line.split('|').nth(1));
        cells.flat_map(|cell| cell.split('`').skip(1).step_by(2)).collect()
    }

    #[test]
    fn the_documentation_lists_every_name_and_no_other() {
        let mut names: Vec<&str> =
            [OPERATION].into_iter().chain(event::ALL).chain(field::ALL).chain(metric::ALL).chain(metric::label::ALL).collect();
        let mut documented = documented();
        names.sort_unstable();
        documented.sort_unstable();
        assert_eq!(documented, names);
    }

    #[test]
    fn the_incident_s_log_lines_hold_only_names_that_exist() {
        let lines: Vec<&str> = INCIDENT.lines().filter(|line| line.contains(&format!("{TARGET}:"))).collect();
        assert!(lines.len() > 5);
        for line in lines {
            let (_, said) = line.split_once(&format!("{TARGET}: ")).unwrap();
            let (name, fields) = said.split_once(' ').unwrap();
            assert!(event::ALL.contains(&name), "{line}");
            let span = line.split(['{', '}']).nth(1).unwrap();
            // What has no `=` is the rest of a value with a blank in it.
            for (name, _) in fields.split(' ').chain(span.split(' ')).filter_map(|field| field.split_once('=')) {
                assert!(field::ALL.contains(&name), "{name} in {line}");
            }
        }
    }

    #[test]
    fn words_are_the_names_of_the_variants() {
        for reason in StopReason::ALL {
            assert_eq!(stop(reason), format!("{reason:?}"));
        }
        for reason in every_variant!(ResendReason { ProvenUnprocessed, EffectRepeatable, KeyDeduplicates, ProbeFoundNothing }) {
            assert_eq!(resend(reason), format!("{reason:?}"));
        }
        for known in every_variant!(Outcome { Answered, AnsweredAfterUnknown, Reconciled, Unprocessed, Unknown }) {
            assert_eq!(outcome(known), format!("{known:?}"));
        }
        for verdict in every_variant!(Found { Applied, Absent, InProgress, Undecided }) {
            assert_eq!(found(verdict), format!("{verdict:?}"));
        }
        for result in every_variant!(Drained { Whole, TooLong, TooSlow, Broken, NotNeeded }) {
            assert_eq!(drained(result), format!("{result:?}"));
        }
        for proof in every_variant!(Evidence { Unprocessed, Unknown }) {
            assert_eq!(evidence(proof), format!("{proof:?}"));
        }
        let status = StatusCode::OK;
        let signals = every_variant!(Signal {
            Answered => Signal::Answered(status),
            Final => Signal::Final(status),
            Resendable => Signal::Resendable(status),
            Overloaded => Signal::Overloaded(status),
            KeyInUse => Signal::KeyInUse,
            Failed => Signal::Failed,
            Broken => Signal::Broken,
            BodyLost => Signal::BodyLost(status),
            Forbidden => Signal::Forbidden,
            ProbedAbsent => Signal::ProbedAbsent,
            SentBefore => Signal::SentBefore,
        });
        for came_back in signals {
            assert_eq!(signal(came_back), format!("{came_back:?}").trim_end_matches("(200)"));
        }
    }
}
