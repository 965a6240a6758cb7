//! The caller dropped the operation: a timeout around it, a `select!`, a client that hung up.
//!
//! Nobody waits for a result, but whoever looks for one later has to find it. So slot and observers
//! are told at once, without a task and without waiting: what is on its way counts as unknown.

use super::Run;
use crate::policy::{Ending, Evidence, LastAnswer, Outcome, StopReason};

/// How far an operation is.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Progress {
    /// Nothing is on its way.
    Open,
    /// An attempt is.
    Sending,
    /// Its end was told.
    Over,
}

impl Drop for Run<'_> {
    fn drop(&mut self) {
        if self.progress == Progress::Sending {
            (self.evidence, self.key_evidence) = (Evidence::Unknown, Evidence::Unknown);
        }
        if let Some(mut guarded) = self.guarded.take() {
            guarded.ended(self.key_evidence);
        }
        if self.progress == Progress::Over {
            return;
        }
        if self.plan.slot.is_none() && !self.watched.wants_record() {
            return;
        }
        let outcome = Outcome::of(&Ending::new(StopReason::Cancelled, LastAnswer::None, self.history(), self.evidence));
        let report = self.report_as(StopReason::Cancelled, outcome, None);
        self.watched.given_up(&report);
        self.fill(&report);
    }
}
