//! A policy in words, for people. It asks `decide` itself, so it cannot say anything else than what
//! will be done.

use std::{fmt, time::Duration};

use http::StatusCode;

use super::{
    Backoff, Decision, Draw, Effect, Evidence, HintSpread, RetryPolicy, RetryStatuses, Signal, Situation, UnreadableHint, effect::SAMPLES,
};

/// What a policy would do, as a table: made by [`RetryPolicy::explain`], printed with `{}`.
///
/// # Examples
/// ```
/// use reqwest_safe_retry::policy::{Explanation, RetryPolicy};
///
/// let table: Explanation = RetryPolicy::DEFAULT.with_attempts(5).explain();
/// println!("{table}");
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use = "an explanation is there to be printed"]
pub struct Explanation(RetryPolicy);

impl RetryPolicy {
    /// What this policy would do after a first send, or before it where an earlier process may have
    /// sent it, for each effect and signal, and how long it would wait: a table for people.
    ///
    /// Every cell is a call of [`decide`](Self::decide): it cannot be out of date.
    ///
    /// # Examples
    /// ```
    /// use reqwest_safe_retry::RetryPolicy;
    ///
    /// let table = RetryPolicy::DEFAULT.explain().to_string();
    /// assert!(table.contains("UnprotectedWrite"));
    /// assert!(table.contains("stop MayHaveHappened"));
    /// println!("{table}");
    /// ```
    pub const fn explain(&self) -> Explanation {
        Explanation(*self)
    }
}

const COLUMNS: [&str; 8] =
    ["effect", "retryable status", "proven unprocessed", "failed, unknown", "body lost", "KeyInUse", "ProbedAbsent", "SentBefore"];

impl Explanation {
    /// The columns after the first: what came back, and what it proves.
    fn signals(&self) -> [(Signal, Evidence); COLUMNS.len() - 1] {
        // A policy without statuses shows what it makes of the most common one: nothing.
        let status = self.0.statuses().iter().next().unwrap_or(StatusCode::SERVICE_UNAVAILABLE);
        [
            (Signal::Answered(status), Evidence::Unknown),
            (Signal::Failed, Evidence::Unprocessed),
            (Signal::Failed, Evidence::Unknown),
            (Signal::BodyLost(StatusCode::OK), Evidence::Unknown),
            (Signal::KeyInUse, Evidence::Unknown),
            (Signal::ProbedAbsent, Evidence::Unknown),
            (Signal::SentBefore, Evidence::Unknown),
        ]
    }

    fn cell(&self, effect: Effect, key_age: Duration, (signal, evidence): (Signal, Evidence)) -> String {
        // The least draw: whether, not how long.
        let situation = Situation::new(effect, signal, evidence).with_key_age(key_age).with_draw(Draw::LEAST);
        match self.0.decide(&situation) {
            Decision::Return => "return".to_owned(),
            Decision::Resend(permit) => format!("resend {:?}", permit.reason()),
            Decision::Probe(_) => "probe".to_owned(),
            Decision::Stop(stop) => format!("stop {stop:?}"),
        }
    }
}

impl fmt::Display for Explanation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let signals = self.signals();
        let rows: Vec<[String; COLUMNS.len()]> = SAMPLES
            .iter()
            .map(|(name, effect, key_age)| {
                let mut row: [String; COLUMNS.len()] = Default::default();
                row[0] = (*name).to_owned();
                for (cell, signal) in row[1..].iter_mut().zip(signals) {
                    *cell = self.cell(*effect, *key_age, signal);
                }
                row
            })
            .collect();
        let widths: [usize; COLUMNS.len()] =
            std::array::from_fn(|column| rows.iter().map(|row| row[column].len()).fold(COLUMNS[column].len(), usize::max));
        line(f, &COLUMNS, &widths)?;
        for row in &rows {
            line(f, &row.each_ref().map(String::as_str), &widths)?;
        }
        self.limits(f)
    }
}

impl Explanation {
    fn limits(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let policy = &self.0;
        write!(f, "\nretryable statuses:")?;
        for status in policy.statuses().iter() {
            write!(f, " {}", status.as_u16())?;
        }
        write!(f, "\nsends: at most {}", policy.attempts())?;
        if policy.window() < Duration::MAX {
            write!(f, "; without a deadline none starts later than {:?} after the first", policy.window())?;
        }
        write!(f, "; with one none starts with less than {:?} left", policy.least_attempt())?;
        write!(f, "\npauses: {}", Schedule(policy.backoff(), policy.attempts()))?;
        let throttling: Vec<String> = RetryStatuses::THROTTLING.iter().map(|status| status.as_str().to_owned()).collect();
        let schedule = Schedule(policy.throttle_backoff(), policy.attempts());
        write!(f, "\n  after {} and KeyInUse: {schedule}", throttling.join(", "))?;
        f.write_str(match policy.hint_spread() {
            HintSpread::Jittered => "\na wait that the server asks for: never shortened, spread upward",
            HintSpread::Exact => "\na wait that the server asks for: never shortened, as long as asked",
        })?;
        f.write_str(match policy.unreadable_hint() {
            UnreadableHint::Stop => "; unreadable: stop",
            UnreadableHint::UseBackoff => "; unreadable: as if there were none",
        })
    }
}

fn line(f: &mut fmt::Formatter<'_>, cells: &[&str], widths: &[usize]) -> fmt::Result {
    let mut separator = "";
    for (cell, width) in cells.iter().zip(widths) {
        write!(f, "{separator}{cell:width$}")?;
        separator = " | ";
    }
    writeln!(f)
}

/// The first pauses of a backoff, shortest to longest.
struct Schedule(Backoff, u32);

impl fmt::Display for Schedule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const SHOWN: u32 = 5;
        let Self(backoff, attempts) = self;
        let resends = attempts.saturating_sub(1);
        if resends == 0 {
            return f.write_str("none");
        }
        for resend in 1..=resends.min(SHOWN) {
            let bound = backoff.bound(resend);
            let separator = if resend == 1 { "" } else { ", " };
            match backoff.least(bound) {
                least if least == bound => write!(f, "{separator}{bound:?}")?,
                Duration::ZERO => write!(f, "{separator}0 to {bound:?}")?,
                least => write!(f, "{separator}{least:?} to {bound:?}")?,
            }
        }
        if resends > SHOWN { f.write_str(", …") } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use super::super::Jitter;
    use super::*;

    fn row(table: &str, name: &str) -> Vec<String> {
        let line = table.lines().find(|line| line.starts_with(name)).unwrap();
        line.split('|').skip(1).map(|cell| cell.trim().to_owned()).collect()
    }

    #[test]
    fn the_default_reads_as_the_effect_table_does() {
        let table = RetryPolicy::DEFAULT.explain().to_string();
        let (repeatable, unprocessed) = ("resend EffectRepeatable", "resend ProvenUnprocessed");
        for name in ["Read", "IdempotentWrite"] {
            assert_eq!(row(&table, name), [repeatable, unprocessed, repeatable, repeatable, "return", "return", repeatable], "{name}");
        }
        let keyed = "resend KeyDeduplicates";
        assert_eq!(row(&table, "KeyedWrite "), [keyed, unprocessed, keyed, keyed, keyed, "resend ProbeFoundNothing", keyed]);
        let expired = "stop KeyExpired";
        assert_eq!(
            row(&table, "KeyedWrite, key lapsed"),
            [expired, unprocessed, expired, "return", expired, "resend ProbeFoundNothing", expired]
        );
        assert_eq!(
            row(&table, "KeyedWrite, key lapsed, probed"),
            ["probe", unprocessed, "probe", "return", "probe", "resend ProbeFoundNothing", "probe"]
        );
        assert_eq!(row(&table, "ProbedWrite"), ["probe", unprocessed, "probe", "return", "return", "resend ProbeFoundNothing", "probe"]);
        let may = "stop MayHaveHappened";
        assert_eq!(row(&table, "UnprotectedWrite"), [may, unprocessed, may, "return", "return", may, may]);
        let disabled = "stop Disabled";
        assert_eq!(row(&table, "NeverResend"), [disabled, disabled, disabled, "return", "return", disabled, disabled]);
    }

    #[test]
    fn the_limits_are_the_policy_s() {
        let table = RetryPolicy::DEFAULT.explain().to_string();
        for line in [
            "retryable statuses: 408 425 429 500 502 503 504",
            "sends: at most 3; without a deadline none starts later than 30s after the first; with one none starts with less than 10ms left",
            "pauses: 0 to 100ms, 0 to 200ms",
            "  after 429, 503 and KeyInUse: 0 to 1s, 0 to 2s",
            "a wait that the server asks for: never shortened, spread upward; unreadable: stop",
        ] {
            assert!(table.lines().any(|found| found == line), "{line}\n{table}");
        }
    }

    #[test]
    fn a_policy_that_does_nothing_says_so() {
        let policy = RetryPolicy::DEFAULT.with_attempts(1).with_statuses(RetryStatuses::NONE);
        let table = policy.with_backoff(Backoff::doubling(Duration::MAX, Duration::MAX).with_jitter(Jitter::None)).explain().to_string();
        assert_eq!(row(&table, "Read")[..3], ["return", "stop AttemptsSpent", "stop AttemptsSpent"]);
        assert!(table.contains("pauses: none"), "{table}");
        let endless = RetryPolicy::ARTICLE.with_attempts(u32::MAX).explain().to_string();
        assert!(endless.contains("0 to 1.6s, …"), "{endless}");
    }
}
