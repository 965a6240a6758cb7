//! How the audit writes a number of things and a duration.

use std::{fmt, time::Duration};

/// `1 attempt`, `2 attempts`.
pub(super) fn counted<N: fmt::Display + PartialEq + From<u8>>(number: N, what: &str) -> String {
    format!("{number} {what}{}", if number == N::from(1) { "" } else { "s" })
}

/// A duration as people write it: `24h`, `1m 30s`, `250ms`.
pub(super) struct Time(pub(super) Duration);

impl fmt::Display for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0 == Duration::MAX {
            return f.write_str("ever");
        }
        let seconds = self.0.as_secs();
        let parts = [
            (u128::from(seconds / 3600), "h"),
            (u128::from(seconds / 60 % 60), "m"),
            (u128::from(seconds % 60), "s"),
            (u128::from(self.0.subsec_millis()), "ms"),
        ];
        let mut gap = "";
        for (count, unit) in parts.into_iter().filter(|(count, _)| *count > 0) {
            write!(f, "{gap}{count}{unit}")?;
            gap = " ";
        }
        if gap.is_empty() { f.write_str("0s") } else { Ok(()) }
    }
}
