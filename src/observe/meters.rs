//! The metrics. Labels are few by construction: a name the user gave, a method of a closed list, a
//! reason of ours, and the origin by opt-in.

use std::time::Duration;

use metrics::{Label, Unit, counter, describe_counter, describe_histogram, histogram};

use super::{
    Detail, End, OperationFacts, Telemetry,
    names::{
        self, Counted,
        metric::{self, label},
    },
};
use crate::{
    outcome::facts::AttemptFacts,
    outcome::report::ProbeRecord,
    platform::Instant,
    policy::{Evidence, Outcome, ResendPermit, StopReason},
    request::origin::Origin,
};

pub(super) fn describe() {
    describe_counter!(metric::OPERATIONS, Unit::Count, "Operations begun, each counted once however often it is sent");
    describe_counter!(metric::ATTEMPTS, Unit::Count, "Sends, first ones and resends");
    describe_counter!(metric::RESENDS, Unit::Count, "Resends that the budget paid for, by the reason why they are harmless");
    describe_counter!(metric::STOPS, Unit::Count, "Operations over, by the reason why nothing more was sent");
    describe_counter!(metric::UNKNOWN, Unit::Count, "Operations of which nobody on this side knows whether they happened");
    describe_counter!(metric::PROBES, Unit::Count, "Questions to status probes, by what they found");
    describe_counter!(metric::DRAINS, Unit::Count, "Connections of failed responses, by whether they could be given back");
    describe_histogram!(metric::PAUSE, Unit::Seconds, "Pauses before resends and probes");
    describe_histogram!(metric::HINT, Unit::Seconds, "Waits that servers asked for");
    describe_histogram!(metric::BUDGET_LEFT, Unit::Count, "Resends left in the budget after each resend, probe or refusal");
}

/// The labels that all metrics of one operation share.
#[derive(Clone)]
pub(crate) struct Meters(Vec<Label>);

impl Meters {
    /// Counts an operation.
    pub(crate) fn of(operation: &OperationFacts<'_>, telemetry: &Telemetry) -> Self {
        let mut labels = vec![
            operation.endpoint.map_or_else(
                || Label::from_static_parts(label::ENDPOINT, metric::UNNAMED),
                |name| Label::new(label::ENDPOINT, name.clone()),
            ),
            Label::from_static_parts(label::METHOD, names::method(operation.method)),
        ];
        if telemetry.origin_in_metrics == Detail::Shown {
            labels.push(Label::new(label::ORIGIN, Origin::of(operation.url).to_string()));
        }
        let meters = Self(labels);
        counter!(metric::OPERATIONS, meters.labels()).increment(1);
        meters
    }

    pub(crate) fn attempt(&self) {
        counter!(metric::ATTEMPTS, self.labels()).increment(1);
    }

    pub(super) fn attempted(&self, attempt: &AttemptFacts) {
        if let Some(Ok(hint)) = attempt.hint {
            histogram!(metric::HINT, self.labels()).record(hint);
        }
    }

    pub(super) fn resend(&self, operation: &OperationFacts<'_>, permit: &ResendPermit) {
        counter!(metric::RESENDS, self.labels_and(label::REASON, names::resend(permit.reason()))).increment(1);
        self.pause(operation, permit.pause());
    }

    pub(super) fn pause(&self, operation: &OperationFacts<'_>, pause: Duration) {
        histogram!(metric::PAUSE, self.labels()).record(pause);
        self.budget(operation);
    }

    pub(super) fn probed(&self, probe: &ProbeRecord) {
        counter!(metric::PROBES, self.labels_and(label::FOUND, names::found(probe.found()))).increment(1);
    }

    pub(super) fn counted(&self, what: Counted) {
        match what {
            Counted::Drained(drained) => counter!(metric::DRAINS, self.labels_and(label::RESULT, names::drained(drained))).increment(1),
        }
    }

    pub(super) fn ended(&self, operation: &OperationFacts<'_>, end: &End<'_>) {
        counter!(metric::STOPS, self.labels_and(label::REASON, names::stop(end.stop))).increment(1);
        if end.outcome == Outcome::Unknown {
            self.unknown();
        }
        if end.stop == StopReason::BudgetSpent {
            self.budget(operation);
        }
    }

    /// The operation ended with the answer to its first send.
    pub(crate) fn went_well(&self) {
        counter!(metric::STOPS, self.labels_and(label::REASON, names::stop(StopReason::AnswerIsFinal))).increment(1);
    }

    pub(super) fn abandoned(&self, evidence: Evidence) {
        counter!(metric::STOPS, self.labels_and(label::REASON, metric::ABANDONED)).increment(1);
        match evidence {
            Evidence::Unknown => self.unknown(),
            Evidence::Unprocessed => {}
        }
    }

    fn unknown(&self) {
        counter!(metric::UNKNOWN, self.labels()).increment(1);
    }

    fn budget(&self, operation: &OperationFacts<'_>) {
        if let Some(account) = operation.account {
            // Counts far beyond u32 are budgets without limits.
            let left = u32::try_from(account.left(Instant::now())).unwrap_or(u32::MAX);
            histogram!(metric::BUDGET_LEFT, self.labels()).record(left);
        }
    }

    fn labels(&self) -> Vec<Label> {
        self.0.clone()
    }

    fn labels_and(&self, name: &'static str, value: &'static str) -> Vec<Label> {
        let mut labels = Vec::with_capacity(self.0.len() + 1);
        labels.extend_from_slice(&self.0);
        labels.push(Label::from_static_parts(name, value));
        labels
    }
}
