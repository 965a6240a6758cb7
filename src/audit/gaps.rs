//! What a contract lacks: one rule for each of its parts.

use http::{Method, StatusCode};

use super::{
    allowed::Allowed,
    finding::{Finding, Gap, Severity},
    words::Time,
};
use crate::{
    contract::catalog::Listed,
    policy::{Effect, Lapsed},
};

/// Everything that is missing in a row's contract.
pub(super) fn of(row: &Listed, allowed: Allowed) -> Vec<Finding> {
    [protection(row, allowed), settling(row, allowed), limits(row, allowed), owner(row), method(row), refusals(row)]
        .into_iter()
        .flatten()
        .collect()
}

fn protection(row: &Listed, allowed: Allowed) -> Option<Finding> {
    let (gap, severity, message) = match row.endpoint.effect() {
        Effect::UnprotectedWrite => {
            let message = "a write without protection: neither a key nor a probe, and nobody can tell whether it happened";
            (Gap::Unprotected, Severity::Error, message.to_owned())
        }
        Effect::NeverResend if row.is_write() && row.endpoint.probe().is_none() => {
            let message = "no probe: nobody can tell whether the write happened";
            (Gap::ResultUnknowable, Severity::Warning, message.to_owned())
        }
        Effect::KeyedWrite { remembered_for, lapsed } if remembered_for <= allowed.time() => {
            let (memory, time) = (Time(remembered_for), Time(allowed.time()));
            let message = format!("the server forgets the key after {memory}, the operation may take {time}");
            (Gap::KeyForgottenTooEarly, error_if(lapsed == Lapsed::Stop), message)
        }
        Effect::Read | Effect::IdempotentWrite | Effect::KeyedWrite { .. } | Effect::ProbedWrite | Effect::NeverResend => return None,
    };
    Some(Finding::new(gap, severity, message))
}

fn settling(row: &Listed, allowed: Allowed) -> Option<Finding> {
    let (endpoint, time) = (&row.endpoint, allowed.time());
    let asked = endpoint.probe().is_some() && row.is_write();
    (asked && endpoint.settling_time() >= time).then(|| {
        let message = format!("absent counts after {}, but the operation ends within {}", Time(endpoint.settling_time()), Time(time));
        Finding::new(Gap::SettlesTooLate, error_if(rests_on_the_probe(endpoint.effect())), message)
    })
}

fn limits(row: &Listed, allowed: Allowed) -> Option<Finding> {
    let (gap, severity, message) = match (allowed.deadline, allowed.attempt_limit) {
        (None, None) => (Gap::NoDeadline, error_if(row.is_write()), "no deadline and no attempt limit: it may take forever"),
        (None, Some(_)) => (Gap::NoDeadline, Severity::Warning, "no deadline: only attempts are limited"),
        (Some(deadline), attempt) if allowed.attempts > 1 && attempt.is_none_or(|limit| limit >= deadline) => {
            let message = "no shorter attempt limit: one attempt that hangs takes the whole deadline, and none follows";
            (Gap::AttemptMayTakeAll, Severity::Warning, message)
        }
        (Some(_), _) => return None,
    };
    Some(Finding::new(gap, severity, message))
}

fn owner(row: &Listed) -> Option<Finding> {
    let nobody = row.is_write() && row.endpoint.owner().is_none();
    nobody.then(|| Finding::new(Gap::NoOwner, Severity::Warning, "nobody is named who owns the state"))
}

fn method(row: &Listed) -> Option<Finding> {
    let method = row.methods.iter().find(|method| gentler_than(row.endpoint.effect(), method))?;
    let message = format!("{method} alone does not promise what is stated here");
    Some(Finding::new(Gap::GentlerThanMethod, Severity::Warning, message))
}

fn refusals(row: &Listed) -> Option<Finding> {
    let status = ALSO_AFTER_THE_EFFECT.into_iter().find(|status| row.endpoint.trusts_refusal(*status))?;
    let message = format!("{} is trusted to mean \"not applied\", but also comes after the effect", status.as_u16());
    Some(Finding::new(Gap::TrustsAnyRefusal, Severity::Warning, message))
}

/// Whether nothing but the probe's answer can make a resend harmless.
const fn rests_on_the_probe(effect: Effect) -> bool {
    match effect {
        Effect::ProbedWrite => true,
        Effect::Read | Effect::IdempotentWrite | Effect::KeyedWrite { .. } | Effect::UnprotectedWrite | Effect::NeverResend => false,
    }
}

const fn error_if(error: bool) -> Severity {
    if error { Severity::Error } else { Severity::Warning }
}

/// 429 and 503 come before the effect at many servers, and then to trust them is right. These come
/// from timeouts and crashes.
const ALSO_AFTER_THE_EFFECT: [StatusCode; 4] =
    [StatusCode::REQUEST_TIMEOUT, StatusCode::INTERNAL_SERVER_ERROR, StatusCode::BAD_GATEWAY, StatusCode::GATEWAY_TIMEOUT];

/// Whether more is stated than the method promises by itself.
fn gentler_than(effect: Effect, method: &Method) -> bool {
    match (effect, Effect::of_method(method)) {
        (Effect::Read, promised) => promised != Effect::Read,
        (Effect::IdempotentWrite, promised) => promised == Effect::UnprotectedWrite,
        (Effect::KeyedWrite { .. } | Effect::ProbedWrite | Effect::UnprotectedWrite | Effect::NeverResend, _) => false,
    }
}
