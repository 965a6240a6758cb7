//! What is asked about one endpoint: four questions, and the answers that its contract gives.

use std::time::Duration;

use super::{allowed::Allowed, finding::Finding, gaps, words::Time};
use crate::{
    contract::{catalog::Listed, endpoint::Endpoint},
    middleware::Limits,
    policy::{Effect, KeySource, Lapsed},
};

/// What the audit says about one endpoint.
#[derive(Debug, Clone)]
pub struct AuditRow {
    pub(super) route: String,
    name: Option<String>,
    owner: Option<String>,
    pub(super) effect: Effect,
    pub(super) because: String,
    pub(super) allowed: Allowed,
    pub(super) when_unknown: String,
    pub(super) findings: Vec<Finding>,
}

impl AuditRow {
    pub(super) fn of(row: &Listed, limits: &Limits) -> Self {
        let endpoint = &row.endpoint;
        let allowed = Allowed::of(endpoint, limits);
        Self {
            route: row.to_string(),
            name: endpoint.name().map(ToString::to_string),
            owner: endpoint.owner().map(ToOwned::to_owned),
            effect: endpoint.effect(),
            because: because(endpoint),
            allowed,
            when_unknown: when_unknown(row),
            findings: gaps::of(row, allowed),
        }
    }

    /// The endpoint: methods, origin and path template.
    #[must_use]
    pub fn route(&self) -> &str {
        &self.route
    }

    /// Its name.
    #[must_use]
    pub fn name(&self) -> Option<&str> {
        self.name.as_deref()
    }

    /// Who owns the state that it changes.
    #[must_use]
    pub fn owner(&self) -> Option<&str> {
        self.owner.as_deref()
    }

    /// First question: which effect would be repeated?
    #[must_use]
    pub const fn effect(&self) -> Effect {
        self.effect
    }

    /// Second question: why is repeating it harmless?
    #[must_use]
    pub fn because(&self) -> &str {
        &self.because
    }

    /// Third question: how much time has the operation? `None`: no deadline.
    #[must_use]
    pub const fn deadline(&self) -> Option<Duration> {
        self.allowed.deadline
    }

    /// Third question: how much time has one attempt? `None`: whatever the operation has left.
    #[must_use]
    pub const fn attempt_limit(&self) -> Option<Duration> {
        self.allowed.attempt_limit
    }

    /// Third question: how many times may it be sent in all?
    #[must_use]
    pub const fn attempts(&self) -> u32 {
        self.allowed.attempts
    }

    /// Fourth question: what happens when the result stays unknown?
    #[must_use]
    pub fn when_unknown(&self) -> &str {
        &self.when_unknown
    }

    /// What is missing.
    #[must_use]
    pub fn findings(&self) -> &[Finding] {
        &self.findings
    }
}

/// Second question.
fn because(endpoint: &Endpoint) -> String {
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

/// Fourth question.
fn when_unknown(row: &Listed) -> String {
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
