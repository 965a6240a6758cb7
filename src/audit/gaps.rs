//! What a contract lacks: one rule for each of its parts.

use http::StatusCode;

use super::{
    allowed::Allowed,
    effects,
    finding::{Finding, Gap, Severity},
    words::Time,
};
use crate::contract::catalog::Listed;

/// Everything that is missing in a row's contract.
pub(super) fn of(row: &Listed, allowed: Allowed) -> Vec<Finding> {
    [effects::protection(row, allowed), settling(row, allowed), limits(row, allowed), owner(row), method(row), refusals(row)]
        .into_iter()
        .flatten()
        .collect()
}

fn settling(row: &Listed, allowed: Allowed) -> Option<Finding> {
    let (endpoint, time) = (&row.endpoint, allowed.time());
    let asked = endpoint.probe().is_some() && row.is_write();
    (asked && endpoint.settling_time() >= time).then(|| {
        let message = format!("absent counts after {}, but the operation ends within {}", Time(endpoint.settling_time()), Time(time));
        Finding::new(Gap::SettlesTooLate, Severity::error_if(effects::rests_on_the_probe(endpoint.effect())), message)
    })
}

fn limits(row: &Listed, allowed: Allowed) -> Option<Finding> {
    let (gap, severity, message) = match (allowed.deadline, allowed.attempt_limit) {
        (None, None) => (Gap::NoDeadline, Severity::error_if(row.is_write()), "no deadline and no attempt limit: it may take forever"),
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
    let method = row.methods.iter().find(|method| effects::gentler_than(row.endpoint.effect(), method))?;
    let message = format!("{method} alone does not promise what is stated here");
    Some(Finding::new(Gap::GentlerThanMethod, Severity::Warning, message))
}

fn refusals(row: &Listed) -> Option<Finding> {
    let status = ALSO_AFTER_THE_EFFECT.into_iter().find(|status| row.endpoint.trusts_refusal(*status))?;
    let message = format!("{} is trusted to mean \"not applied\", but also comes after the effect", status.as_u16());
    Some(Finding::new(Gap::TrustsAnyRefusal, Severity::Warning, message))
}

/// 429 and 503 come before the effect at many servers, and then to trust them is right. These come
/// from timeouts and crashes.
const ALSO_AFTER_THE_EFFECT: [StatusCode; 4] =
    [StatusCode::REQUEST_TIMEOUT, StatusCode::INTERNAL_SERVER_ERROR, StatusCode::BAD_GATEWAY, StatusCode::GATEWAY_TIMEOUT];
