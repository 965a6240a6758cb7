//! Every span, event, metric and field name. Nothing else mentions tracing or metrics.

use std::{
    fmt,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
};

use http::Method;
use reqwest::Url;

use crate::{
    attempt::Attempt,
    attempt_loop::Plan,
    drain::Drained,
    policy::{Decision, Situation},
    report::{ProbeRecord, RetryReport},
};

/// Watches operations, for telemetry of your own.
///
/// It is called inside the request's task, so it has to be quick and must not block. A panic in it is caught and harms nothing.
pub trait Observer: Send + Sync + 'static {
    /// Something was decided.
    fn decided(&self, situation: &Situation, decision: &Decision);

    /// An operation ended that has something to tell.
    fn ended(&self, report: &RetryReport) {
        let _ = report;
    }
}

/// The observers of a client.
#[derive(Clone, Default)]
pub(crate) struct Observers(Arc<Vec<Arc<dyn Observer>>>);

impl Observers {
    pub(crate) fn add(&mut self, observer: impl Observer) {
        Arc::make_mut(&mut self.0).push(Arc::new(observer));
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    fn tell(&self, tell: impl Fn(&dyn Observer)) {
        for observer in self.0.iter() {
            // An observer that panics has only itself to blame; the operation goes on.
            let _ = catch_unwind(AssertUnwindSafe(|| tell(&**observer)));
        }
    }
}

impl fmt::Debug for Observers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Observers({})", self.0.len())
    }
}

pub(crate) async fn operation<T>(_plan: &Plan<'_>, _method: &Method, _url: &Url, operation: impl Future<Output = T>) -> T {
    operation.await
}

pub(crate) fn decided(plan: &Plan<'_>, _attempt: &Attempt, situation: &Situation, decision: &Decision) {
    plan.observers.tell(|observer| observer.decided(situation, decision));
}

pub(crate) fn probed(_plan: &Plan<'_>, _probe: &ProbeRecord) {}

pub(crate) fn drained(_drained: Drained) {}

pub(crate) fn ended(plan: &Plan<'_>, report: &RetryReport) {
    plan.observers.tell(|observer| observer.ended(report));
}
