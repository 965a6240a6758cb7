//! What is asked about one endpoint: four questions, and the answers that its contract gives.

use std::time::Duration;

use super::{allowed::Allowed, effects, finding::Finding, gaps};
use crate::{contract::catalog::Listed, middleware::Limits, policy::Effect};

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
            because: effects::because(endpoint),
            allowed,
            when_unknown: effects::when_unknown(row),
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
