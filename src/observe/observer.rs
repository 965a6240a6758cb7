//! Telemetry of the user's own: every decision with what it looked at, and every end. It sees and
//! changes nothing.

use std::{
    fmt,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
};

use http::Method;

use crate::{
    outcome::report::{AttemptRecord, RetryReport},
    policy::{Decision, Situation},
    request::correlation::CorrelationId,
    request::origin::Origin,
    request::shown,
};

/// Watches operations, for telemetry of your own.
///
/// It is called inside the request's task, so it has to be quick and must not block. A panic in it
/// is caught and harms nothing (unless the program aborts on panics).
///
/// # Examples
/// A trace that can be replayed: the policy decides the same in the same situation.
/// ```
/// use reqwest_safe_retry::{Observer, RetryPolicy, SafeRetry, report::Decided};
///
/// struct Audit;
///
/// impl Observer for Audit {
///     fn decided(&self, decided: &Decided<'_>) {
///         assert_eq!(*decided.decision(), RetryPolicy::DEFAULT.decide(decided.situation()));
///     }
/// }
///
/// let plugin = SafeRetry::new().with_observer(Audit);
/// ```
#[doc(alias("callback", "on retry"))]
pub trait Observer: Send + Sync + 'static {
    /// Something was decided. What became of a decision (a budget may refuse a resend) stands in
    /// the report at the end.
    fn decided(&self, decided: &Decided<'_>);

    /// An operation ended, whatever its result, also because its future was dropped
    /// ([`StopReason::Cancelled`](crate::StopReason::Cancelled)).
    fn ended(&self, report: &RetryReport) {
        let _ = report;
    }
}

/// One decision and what led to it.
pub struct Decided<'a> {
    pub(crate) method: &'a Method,
    pub(crate) origin: Origin,
    pub(crate) endpoint: Option<&'a str>,
    pub(crate) correlation: Option<&'a CorrelationId>,
    pub(crate) attempt: &'a AttemptRecord,
    pub(crate) situation: &'a Situation,
    pub(crate) decision: &'a Decision,
}

impl Decided<'_> {
    /// The operation's method.
    #[must_use]
    pub fn method(&self) -> &Method {
        self.method
    }

    /// Scheme, host and port of the operation.
    #[must_use]
    pub fn origin(&self) -> &Origin {
        &self.origin
    }

    /// The endpoint's name, when it has one.
    #[must_use]
    pub fn endpoint(&self) -> Option<&str> {
        self.endpoint
    }

    /// The operation's correlation id, when the caller gave one: what tells concurrent operations
    /// apart.
    #[must_use]
    pub fn correlation_id(&self) -> Option<&CorrelationId> {
        self.correlation
    }

    /// The attempt that was decided about, as the report will show it.
    #[must_use]
    pub fn attempt(&self) -> &AttemptRecord {
        self.attempt
    }

    /// Everything the decision looked at. Feature `serde` writes it down and reads it back.
    #[must_use]
    pub fn situation(&self) -> &Situation {
        self.situation
    }

    /// The decision.
    pub fn decision(&self) -> &Decision {
        self.decision
    }
}

impl fmt::Debug for Decided<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Decided")
            .field("method", &shown::method(self.method))
            .field("origin", &self.origin)
            .field("endpoint", &self.endpoint)
            .field("correlation_id", &self.correlation)
            .field("attempt", self.attempt)
            .field("situation", self.situation)
            .field("decision", self.decision)
            .finish()
    }
}

/// The observers of a client.
#[derive(Clone, Default)]
pub(super) struct Observers(Vec<Arc<dyn Observer>>);

impl Observers {
    pub(super) fn add(&mut self, observer: impl Observer) {
        self.0.push(Arc::new(observer));
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn tell(&self, tell: impl Fn(&dyn Observer)) {
        for observer in &self.0 {
            // The operation goes on, and the panic hook has told of it already.
            drop(catch_unwind(AssertUnwindSafe(|| tell(&**observer))));
        }
    }
}
