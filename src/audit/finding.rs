//! What an audit finds: gaps, and how bad they are.

use std::fmt;

/// One gap in one endpoint's contract.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    pub(super) gap: Gap,
    pub(super) severity: Severity,
    pub(super) message: String,
}

/// How bad a gap is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[expect(clippy::exhaustive_enums, reason = "either it keeps the catalogue from being ready or it does not")]
pub enum Severity {
    /// The endpoint is not ready: one of the four questions has no good answer.
    Error,
    /// It may be meant so; somebody should have thought about it.
    Warning,
}

impl Severity {
    pub(super) const fn error_if(error: bool) -> Self {
        if error { Self::Error } else { Self::Warning }
    }
}

/// What is missing in a contract.
///
/// # Examples
/// ```
/// use reqwest_safe_retry::audit::{AuditRow, Finding, Gap, Severity};
/// use reqwest_safe_retry::{Endpoint, EndpointCatalog, Row};
///
/// # fn main() -> Result<(), reqwest_safe_retry::errors::CatalogError> {
/// let note = Row::post("/notes", Endpoint::unprotected_write().owned_by("office"));
/// let audit = EndpointCatalog::new().with_row("https://api.example", note)?.audit();
/// let worst: Vec<(&AuditRow, &Finding)> = audit.findings().filter(|(_, finding)| finding.severity() == Severity::Error).collect();
/// assert!(!audit.is_ready() && worst.iter().any(|(_, finding)| finding.gap() == Gap::Unprotected));
/// for row in audit.rows() {
///     println!("{}: {}; when nobody knows: {}", row.route(), row.because(), row.when_unknown());
/// }
/// // It is meant so: a note twice hurts nobody.
/// let accepted = audit.accepting(Gap::Unprotected);
/// # let _ = accepted;
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Gap {
    /// A write that a second copy would do twice, with neither a key nor a probe. An error.
    Unprotected,
    /// A write that is never sent again, and no probe that could tell its result. A warning.
    ResultUnknowable,
    /// The server may forget the key while the operation still goes on. An error, or a warning
    /// where a probe takes over.
    KeyForgottenTooEarly,
    /// The probe's *absent* only counts when the operation's time is up. An error where nothing
    /// else protects the write, else a warning.
    SettlesTooLate,
    /// Neither the row nor the client has a deadline. An error for writes without an attempt limit
    /// either, else a warning.
    NoDeadline,
    /// One attempt that hangs may use up the whole deadline, and no other would follow. A warning.
    AttemptMayTakeAll,
    /// Nobody is named who owns the state that the write changes. A warning.
    NoOwner,
    /// The effect is stated to be more harmless than the method promises ([RFC 9110 §9.2]). A
    /// warning.
    ///
    /// [RFC 9110 §9.2]: https://www.rfc-editor.org/rfc/rfc9110#section-9.2
    GentlerThanMethod,
    /// A status that also comes after the effect (408, 500, 502, 504) is trusted to mean *not
    /// applied*. A warning.
    TrustsAnyRefusal,
}

impl Finding {
    pub(super) fn new(gap: Gap, severity: Severity, message: impl Into<String>) -> Self {
        Self { gap, severity, message: message.into() }
    }

    /// What is missing.
    #[must_use]
    pub const fn gap(&self) -> Gap {
        self.gap
    }

    /// How bad that is.
    #[must_use]
    pub const fn severity(&self) -> Severity {
        self.severity
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.severity, self.message)
    }
}

impl fmt::Display for Severity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Error => "error",
            Self::Warning => "warning",
        })
    }
}
