//! What the audit has to say of each effect: in the audit, a new one is added here only.

use http::Method;

use super::{
    allowed::Allowed,
    finding::{Finding, Gap, Severity},
    words::Time,
};
use crate::{
    contract::{catalog::Listed, endpoint::Endpoint},
    policy::{Effect, KeySource, Lapsed},
};

/// What it is called.
pub(super) const fn name(effect: Effect) -> &'static str {
    match effect {
        Effect::Read => "read",
        Effect::IdempotentWrite => "idempotent write",
        Effect::KeyedWrite { .. } => "keyed write",
        Effect::ProbedWrite => "probed write",
        Effect::UnprotectedWrite => "unprotected write",
        Effect::NeverResend => "never sent again",
    }
}

/// Second question: why is repeating it harmless?
pub(super) fn because(endpoint: &Endpoint) -> String {
    match endpoint.effect() {
        Effect::Read => "nothing changes".to_owned(),
        Effect::IdempotentWrite => "twice equals once".to_owned(),
        Effect::KeyedWrite { remembered_for, lapsed: Lapsed::Stop } => format!("the server knows the key for {}", Time(remembered_for)),
        Effect::KeyedWrite { remembered_for, lapsed: Lapsed::Probe } => {
            format!("the server knows the key for {}, then the probe", Time(remembered_for))
        }
        Effect::ProbedWrite => format!("only once the probe finds nothing, {} later", Time(endpoint.settling_time())),
        Effect::UnprotectedWrite => "only if it cannot have been processed".to_owned(),
        Effect::NeverResend => "it is not repeated".to_owned(),
    }
}

/// Fourth question: what happens when the result stays unknown?
pub(super) fn when_unknown(row: &Listed) -> String {
    if !row.is_write() {
        return "the error as it came; asking again is harmless".to_owned();
    }
    let endpoint = &row.endpoint;
    let asked = if endpoint.probe().is_some() { "the probe is asked, else " } else { "" };
    match endpoint.effect() {
        Effect::IdempotentWrite => format!("{asked}OutcomeUnknown; sending it again is harmless"),
        Effect::KeyedWrite { .. } => {
            let whose = endpoint.contract().map_or(KeySource::Generate, |contract| contract.source());
            let key = if whose == KeySource::CallerMust { "the caller's key" } else { "the error's key" };
            format!("{asked}OutcomeUnknown; only again with {key}")
        }
        Effect::Read | Effect::ProbedWrite | Effect::UnprotectedWrite | Effect::NeverResend => {
            let who = endpoint.owner().unwrap_or("somebody");
            format!("{asked}OutcomeUnknown; {who} has to look")
        }
    }
}

/// What is missing in the protection itself.
pub(super) fn protection(row: &Listed, allowed: Allowed) -> Option<Finding> {
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
            (Gap::KeyForgottenTooEarly, Severity::error_if(lapsed == Lapsed::Stop), message)
        }
        Effect::Read | Effect::IdempotentWrite | Effect::KeyedWrite { .. } | Effect::ProbedWrite | Effect::NeverResend => return None,
    };
    Some(Finding::new(gap, severity, message))
}

/// Whether nothing but the probe's answer can make a resend harmless.
pub(super) const fn rests_on_the_probe(effect: Effect) -> bool {
    match effect {
        Effect::ProbedWrite => true,
        Effect::Read | Effect::IdempotentWrite | Effect::KeyedWrite { .. } | Effect::UnprotectedWrite | Effect::NeverResend => false,
    }
}

/// Whether more is stated than the method promises by itself.
pub(super) fn gentler_than(effect: Effect, method: &Method) -> bool {
    match (effect, Effect::of_method(method)) {
        (Effect::Read, promised) => promised != Effect::Read,
        (Effect::IdempotentWrite, promised) => promised == Effect::UnprotectedWrite,
        (Effect::KeyedWrite { .. } | Effect::ProbedWrite | Effect::UnprotectedWrite | Effect::NeverResend, _) => false,
    }
}
