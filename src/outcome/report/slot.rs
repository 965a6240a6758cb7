//! Where the caller of an operation receives its report, whatever the result.

use std::sync::{Arc, Mutex, PoisonError};

use super::RetryReport;

/// Receives the report of one operation, whatever its result: put a clone on the request, keep the
/// other.
///
/// It belongs to one operation; a second operation with the same slot overwrites the first one's
/// report.
///
/// # Examples
/// ```no_run
/// # use reqwest_middleware::{ClientWithMiddleware, Result};
/// # async fn run(client: ClientWithMiddleware) -> Result<()> {
/// use reqwest_safe_retry::ReportSlot;
///
/// let slot = ReportSlot::new();
/// let answer = client.get("http://localhost/").with_extension(slot.clone()).send().await;
/// if let Some(report) = slot.take() {
///     println!("{} attempts, {:?}", report.attempts().len(), report.outcome());
/// }
/// # answer.map(drop)
/// # }
/// ```
#[derive(Debug, Clone, Default)]
pub struct ReportSlot(Arc<Mutex<Option<RetryReport>>>);

impl ReportSlot {
    /// An empty slot.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Takes the report out. `None` before the operation has ended, and after a first `take`. An
    /// operation whose future was dropped has ended:
    /// [`StopReason::Cancelled`](crate::StopReason::Cancelled).
    #[must_use]
    pub fn take(&self) -> Option<RetryReport> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    pub(crate) fn fill(&self, report: RetryReport) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(report);
    }

    /// Fills the slot unless a `SafeRetry` further in has done so.
    pub(crate) fn fill_if_empty(&self, report: RetryReport) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(report);
    }
}
