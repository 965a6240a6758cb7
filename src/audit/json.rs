//! An audit as a machine reads it (feature `catalog-files`).

use std::time::Duration;

use serde_json::{Value, json};

use super::{Audit, AuditRow, Severity, effects};

impl Audit {
    /// The audit as JSON: `{"endpoints": [..], "longest_lookup": 5, "errors": 0, "warnings": 0}`,
    /// durations in milliseconds.
    #[must_use]
    pub fn to_json(&self) -> String {
        let rows: Vec<_> = self.rows.iter().map(AuditRow::to_json).collect();
        let json = json!({
            "endpoints": rows,
            "longest_lookup": self.longest_lookup,
            "errors": self.count(Severity::Error),
            "warnings": self.count(Severity::Warning),
        });
        format!("{json:#}")
    }
}

impl AuditRow {
    fn to_json(&self) -> Value {
        let millis = |limit: Option<Duration>| limit.map(|limit| u64::try_from(limit.as_millis()).unwrap_or(u64::MAX));
        let findings = self.findings.iter().map(|finding| {
            let (gap, severity) = (format!("{:?}", finding.gap), finding.severity.to_string());
            json!({ "gap": gap, "severity": severity, "message": finding.message })
        });
        json!({
            "route": self.route,
            "name": self.name(),
            "owner": self.owner(),
            "effect": effects::name(self.effect),
            "because": self.because,
            "deadline": millis(self.deadline()),
            "attempt_limit": millis(self.attempt_limit()),
            "attempts": self.attempts(),
            "when_unknown": self.when_unknown,
            "findings": findings.collect::<Vec<_>>(),
        })
    }
}
