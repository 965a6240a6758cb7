//! An audit as a person reads it.

use std::fmt;

use super::{Audit, Severity, effects, words::counted};

/// Beyond this many steps, more than a microsecond, somebody should know what finding a row may
/// cost.
const LONG_LOOKUP: usize = 64;

const HEAD: [&str; 5] = ["endpoint", "effect", "harmless because", "allowed", "result unknown"];

/// The table, then the findings, then their number.
impl fmt::Display for Audit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let rows = self.rows.iter().map(|row| {
            [
                row.route.clone(),
                effects::name(row.effect).to_owned(),
                row.because.clone(),
                row.allowed.to_string(),
                row.when_unknown.clone(),
            ]
        });
        let lines: Vec<[String; 5]> = std::iter::once(HEAD.map(str::to_owned)).chain(rows).collect();
        let mut widths = [0; 5];
        for line in &lines {
            for (width, cell) in widths.iter_mut().zip(line) {
                *width = cell.chars().count().max(*width);
            }
        }
        for line in &lines {
            let written: Vec<String> = widths.into_iter().zip(line).map(|(width, cell)| format!("{cell:width$}")).collect();
            writeln!(f, "{}", written.join("  ").trim_end())?;
        }
        writeln!(f)?;
        for (row, finding) in self.findings() {
            writeln!(f, "{}: {}: {}", finding.severity, row.route, finding.message)?;
        }
        if self.longest_lookup > LONG_LOOKUP {
            writeln!(f, "finding a row takes up to {} steps: many templates may match one path", self.longest_lookup)?;
        }
        let (errors, warnings) = (self.count(Severity::Error), self.count(Severity::Warning));
        write!(f, "{}, {}, {}", counted(self.rows.len(), "endpoint"), counted(errors, "error"), counted(warnings, "warning"))
    }
}
