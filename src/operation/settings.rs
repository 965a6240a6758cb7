//! What a client gives to all its operations, as far as an operation states nothing of its own.

use std::{sync::Arc, time::Duration};

use crate::{
    contract::catalog::EndpointCatalog,
    contract::endpoint::Endpoint,
    contract::hints::HintSources,
    observe::Telemetry,
    operation::chance::Chance,
    policy::{BudgetLimits, RetryPolicy},
    proof::witness::Strays,
    request::attempt_headers::AttemptHeaders,
    shared::budget::RetryBudget,
    shared::cooldown::Cooldown,
    shared::kept_alive::KeptAlive,
    shared::reuse_guard::ReuseGuard,
    shared::scope::Scoping,
};

#[derive(Clone)]
pub(crate) struct Settings {
    pub(crate) policy: RetryPolicy,
    pub(crate) budget: RetryBudget,
    pub(crate) limit: Option<Duration>,
    pub(crate) attempt_limit: Option<Duration>,
    pub(crate) default_write: Option<Endpoint>,
    pub(crate) catalog: Option<EndpointCatalog>,
    pub(crate) hints: HintSources,
    pub(crate) cooldown: Option<Cooldown>,
    pub(crate) attempt_headers: Option<Arc<AttemptHeaders>>,
    pub(crate) telemetry: Telemetry,
    pub(crate) reuse_guard: Arc<ReuseGuard>,
    pub(crate) kept_alive: Arc<KeptAlive>,
    /// Within what a key has to be unique.
    pub(crate) accounts: Scoping,
    pub(crate) chance: Chance,
    /// Of a client whose every send is witnessed.
    pub(crate) strays: Option<Strays>,
    pub(crate) lane: Lane,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            policy: RetryPolicy::DEFAULT,
            budget: RetryBudget::new(BudgetLimits::DEFAULT),
            limit: None,
            attempt_limit: None,
            default_write: None,
            catalog: None,
            hints: HintSources::STANDARD,
            cooldown: None,
            attempt_headers: None,
            telemetry: Telemetry::default(),
            reuse_guard: Arc::new(ReuseGuard::new()),
            kept_alive: Arc::default(),
            accounts: Scoping::default(),
            chance: Chance::default(),
            strays: None,
            lane: Lane::default(),
        }
    }
}

/// Whether operations may go this way; a test closes it, to see that they cannot tell.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum Lane {
    #[default]
    Open,
    #[cfg(all(test, feature = "testing", feature = "metrics"))]
    Closed,
}
