//! What a catalogue promises, written out: four questions for each endpoint, and what is missing.
//!
//! It reads the same contracts that the middleware obeys and decides nothing. What it cannot see,
//! such as the `timeout` of the [`reqwest::Client`] below, it does not assume.

mod allowed;
mod effects;
mod finding;
mod gaps;
#[cfg(feature = "catalog-files")]
mod json;
mod row;
mod table;
mod words;

pub use finding::{Finding, Gap, Severity};
pub use row::AuditRow;

use crate::{contract::catalog::EndpointCatalog, middleware::SafeRetry};

impl EndpointCatalog {
    /// Answers four questions for each row, and lists the gaps: what may be sent again, why that is
    /// harmless, how much time and how many attempts it gets, and what happens when the result
    /// stays unknown.
    ///
    /// What a row leaves open is answered by the defaults of [`SafeRetry::new`];
    /// [`audit_for`](Self::audit_for) takes a client's own.
    pub fn audit(&self) -> Audit {
        self.audit_for(&SafeRetry::new())
    }

    /// As [`audit`](Self::audit), with the policy, the deadline and the attempt limit that this
    /// middleware gives to rows without.
    pub fn audit_for(&self, retry: &SafeRetry) -> Audit {
        let limits = retry.limits();
        Audit { rows: self.rows().iter().map(|row| AuditRow::of(row, &limits)).collect(), longest_lookup: self.longest_lookup() }
    }
}

/// The answers to four questions about each endpoint of a catalogue, and the gaps in them. Printed,
/// it is a table.
///
/// Made by [`EndpointCatalog::audit`](crate::EndpointCatalog::audit).
///
/// # Examples
/// A test that keeps a catalogue complete:
/// ```
/// # use reqwest_safe_retry::{Endpoint, EndpointCatalog, KeyContract, Row, errors::CatalogError};
/// # use std::time::Duration;
/// # fn our_catalog() -> Result<EndpointCatalog, CatalogError> {
/// #     let pay = Endpoint::keyed_write(KeyContract::STRIPE).owned_by("payments");
/// #     let pay = pay.with_deadline(Duration::from_secs(20));
/// #     EndpointCatalog::new().with_row("https://api.example.com", Row::post("/payments", pay))
/// # }
/// # fn main() -> Result<(), CatalogError> {
/// our_catalog()?.audit().assert_ready();
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone)]
#[must_use]
pub struct Audit {
    rows: Vec<AuditRow>,
    longest_lookup: usize,
}

impl Audit {
    /// The endpoints, in the catalogue's order.
    #[must_use]
    pub fn rows(&self) -> &[AuditRow] {
        &self.rows
    }

    /// All findings, each with its endpoint.
    pub fn findings(&self) -> impl Iterator<Item = (&AuditRow, &Finding)> {
        self.rows.iter().flat_map(|row| row.findings.iter().map(move |finding| (row, finding)))
    }

    /// How many steps it takes at most to find the row of a request, each a question to a hash
    /// table (some 20 ns). Printed with the table where it is more than 64.
    ///
    /// It does not grow with the number of rows, but with the number of ways to read one path:
    /// `/{a}/b` beside `/a/{b}` gives two, and each level can double them.
    #[must_use]
    pub const fn longest_lookup(&self) -> usize {
        self.longest_lookup
    }

    /// Whether there is no error. Warnings are allowed.
    #[must_use]
    pub fn is_ready(&self) -> bool {
        self.count(Severity::Error) == 0
    }

    /// Turns the errors of one kind into warnings: the team knows, and lives with it.
    pub fn accepting(mut self, gap: Gap) -> Self {
        let findings = self.rows.iter_mut().flat_map(|row| &mut row.findings);
        findings.filter(|finding| finding.gap == gap).for_each(|finding| finding.severity = Severity::Warning);
        self
    }

    /// Does nothing if the catalogue [is ready](Self::is_ready). For tests.
    ///
    /// # Panics
    /// There is an error; the message is the whole audit.
    #[track_caller]
    pub fn assert_ready(&self) {
        assert!(self.is_ready(), "the catalogue is not ready:\n{self}");
    }

    fn count(&self, severity: Severity) -> usize {
        self.findings().filter(|(_, finding)| finding.severity == severity).count()
    }
}
