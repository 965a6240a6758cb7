//! A report as a person reads it: a table with a row for each thing that happened, in order, and the outcome below it.

use std::{fmt, time::Duration};

use super::{AttemptRecord, Cause, Found, Outcome, ProbeRecord, RetryReport};
use crate::policy::{Evidence, Signal, StopReason};

/// The timeline: what was sent when, what came back, what that proves, what was decided and why, and what is known in the end. Without a
/// line break at the end.
///
/// ```text
/// POST https://api.example.com:443 "payments"
///        at  attempt  signal             evidence    pause  time left  decision
///   0.000 s  #1       503, wait 2.000 s  unknown   2.100 s   19.960 s  send again: the key makes it act once
///   2.140 s  #2       200                answered        –   17.825 s  done: the answer is final
///   outcome  answered, after 2 attempts in 2.175 s, 17.825 s left
/// ```
impl fmt::Display for RetryReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.method(), self.origin())?;
        if let Some(name) = self.endpoint() {
            write!(f, " {name:?}")?;
        }
        if let Some(id) = self.correlation_id() {
            write!(f, " {id}")?;
        }
        self.table(f)?;
        write!(f, "\n{:>1$}  {2}, ", "outcome", LEAST_WIDTH, self.outcome())?;
        if self.attempts().is_empty() {
            write!(f, "nothing was sent: {}", self.stop())?;
        } else {
            write!(f, "after {}", Counted(self.attempts().len(), "attempt"))?;
        }
        if !self.probes().is_empty() {
            write!(f, " and {}", Counted(self.probes().len(), "probe"))?;
        }
        write!(f, " in {}", Seconds(self.took()))?;
        if self.time_left() == Duration::MAX { Ok(()) } else { write!(f, ", {} left", Seconds(self.time_left())) }
    }
}

const COLUMNS: usize = 7;

type Row = [String; COLUMNS];

const TITLES: [&str; COLUMNS] = ["at", "attempt", "signal", "evidence", "pause", "time left", "decision"];

/// Of the first column, so that the timelines of different operations stand below each other.
const LEAST_WIDTH: usize = 9;

impl RetryReport {
    fn table(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let rows: Vec<Row> = self.attempts().iter().flat_map(|attempt| self.rows_of(attempt)).collect();
        if rows.is_empty() {
            return Ok(());
        }
        let mut widths = TITLES.map(str::len);
        widths[0] = LEAST_WIDTH;
        for row in &rows {
            for (width, cell) in widths.iter_mut().zip(row) {
                *width = (*width).max(cell.chars().count());
            }
        }
        line(f, &TITLES, &widths)?;
        rows.iter().try_for_each(|row| line(f, &row.each_ref().map(String::as_str), &widths))
    }

    /// The row of an attempt, and those of the probes that asked about it. The last of them shows what was decided in the end.
    fn rows_of(&self, attempt: &AttemptRecord) -> Vec<Row> {
        let probes: Vec<&ProbeRecord> = self.probes().iter().filter(|probe| probe.after_attempt == attempt.number).collect();
        let decision = |rows_below: usize| if rows_below > 0 { "ask the probe".to_owned() } else { self.decision(attempt) };
        let none = || "–".to_owned();
        let mut rows = vec![[
            Seconds(attempt.started).to_string(),
            format!("#{}", attempt.number),
            attempt.came_back(),
            self.proven(attempt),
            attempt.pause.map_or_else(none, |pause| Seconds(pause).to_string()),
            if attempt.time_left == Duration::MAX { none() } else { Seconds(attempt.time_left).to_string() },
            decision(probes.len()),
        ]];
        for (asked, probe) in (1..).zip(&probes) {
            rows.push([
                Seconds(probe.started).to_string(),
                "probe".to_owned(),
                probe.found.to_string(),
                probe.proven().to_owned(),
                none(),
                none(),
                decision(probes.len().saturating_sub(asked)),
            ]);
        }
        rows
    }

    fn decision(&self, attempt: &AttemptRecord) -> String {
        match (attempt.resend, self.stop()) {
            (Some(reason), _) => format!("send again: {reason}"),
            (None, StopReason::AnswerIsFinal) => format!("done: {}", StopReason::AnswerIsFinal),
            (None, reason) => format!("stop: {reason}"),
        }
    }

    /// After the operation's answer nobody asks whether its status proves anything.
    fn proven(&self, attempt: &AttemptRecord) -> String {
        let is_answer = attempt.resend.is_none() && self.stop() == StopReason::AnswerIsFinal && self.outcome() != Outcome::Reconciled;
        match attempt.evidence {
            Evidence::Unknown if is_answer => Outcome::Answered.to_string(),
            evidence => evidence.to_string(),
        }
    }
}

impl AttemptRecord {
    /// What came back, and what it means where its status or cause does not say so.
    fn came_back(&self) -> String {
        let mut said = match self.status {
            Some(status) if self.cause == Cause::Status => status.as_u16().to_string(),
            Some(status) => format!("{}, {}", status.as_u16(), self.cause),
            None => self.cause.to_string(),
        };
        said.push_str(match self.signal {
            Signal::Final(_) => ", final",
            Signal::Resendable(_) => ", can pass",
            Signal::KeyInUse => ", key in use",
            Signal::Forbidden => ", not again",
            Signal::Answered(_) | Signal::Failed | Signal::Broken | Signal::BodyLost(_) | Signal::ProbedAbsent => "",
        });
        if let Some(hint) = self.hint {
            said.push_str(&format!(", wait {}", Seconds(hint)));
        }
        said
    }
}

impl ProbeRecord {
    const fn proven(&self) -> &'static str {
        match self.found {
            Found::Applied => "processed",
            Found::Absent => "not processed",
            Found::InProgress | Found::Undecided => "unknown",
        }
    }
}

fn line(f: &mut fmt::Formatter<'_>, cells: &[&str; COLUMNS], widths: &[usize; COLUMNS]) -> fmt::Result {
    let [at, attempt, signal, evidence, pause, time_left, decision] = cells;
    let [w_at, w_attempt, w_signal, w_evidence, w_pause, w_time_left, _] = widths;
    write!(f, "\n{at:>w_at$}  {attempt:w_attempt$}  {signal:w_signal$}  {evidence:w_evidence$}  ")?;
    write!(f, "{pause:>w_pause$}  {time_left:>w_time_left$}  {decision}")
}

struct Counted(usize, &'static str);

impl fmt::Display for Counted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(count, what) = self;
        write!(f, "{count} {what}{}", if *count == 1 { "" } else { "s" })
    }
}

/// Seconds with three digits, so that columns of them align.
struct Seconds(Duration);

impl fmt::Display for Seconds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{:03} s", self.0.as_secs(), self.0.subsec_millis())
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use http::{Method, StatusCode};

    use super::super::*;

    fn attempt(number: u32, started: u64, took: u64) -> AttemptRecord {
        AttemptRecord {
            number,
            started: Duration::from_millis(started),
            took: Duration::from_millis(took),
            signal: Signal::Failed,
            status: None,
            evidence: Evidence::Unknown,
            cause: Cause::PeerClosed,
            hint: None,
            time_left: Duration::from_millis(20_000 - started - took),
            pause: None,
            resend: None,
        }
    }

    fn throttled() -> AttemptRecord {
        AttemptRecord {
            signal: Signal::Answered(StatusCode::SERVICE_UNAVAILABLE),
            status: Some(StatusCode::SERVICE_UNAVAILABLE),
            cause: Cause::Status,
            hint: Some(Duration::from_secs(2)),
            pause: Some(Duration::from_millis(2_100)),
            resend: Some(ResendReason::KeyDeduplicates),
            ..attempt(1, 0, 40)
        }
    }

    fn answered(attempt: AttemptRecord) -> AttemptRecord {
        AttemptRecord { signal: Signal::Answered(StatusCode::OK), status: Some(StatusCode::OK), cause: Cause::Status, ..attempt }
    }

    /// Ends when its last attempt does.
    fn paid(attempts: Vec<AttemptRecord>, probes: Vec<ProbeRecord>, correlation: Option<&str>) -> RetryReport {
        let (took, time_left) = attempts.last().map(|last| (last.started + last.took, last.time_left)).unwrap();
        RetryReport::new(Record {
            method: Method::POST,
            origin: Origin::of(&"https://user:pw@api.example.com/v1/payments?secret=1".parse().unwrap()),
            endpoint: Some("payments".into()),
            correlation: correlation.map(|id| CorrelationId::new(id).unwrap()),
            attempts,
            probes,
            stop: StopReason::AnswerIsFinal,
            outcome: Outcome::Answered,
            evidence: Evidence::Unknown,
            hint: Some(Duration::from_secs(2)),
            key_was_sent: true,
            key_answer: None,
            took,
            time_left,
        })
    }

    #[test]
    fn the_sample_in_the_docs_is_what_is_printed() {
        let docs = include_str!("timeline.rs").split("/// ```text\n").nth(1).and_then(|rest| rest.split("/// ```").next()).unwrap();
        let sample: Vec<&str> = docs.lines().map(|line| line.strip_prefix("/// ").unwrap()).collect();
        let report = paid(vec![throttled(), answered(attempt(2, 2_140, 35))], vec![], None);
        assert_eq!(report.to_string(), sample.join("\n"));
    }

    #[test]
    fn the_timeline_reads_in_order() {
        let lost = AttemptRecord {
            pause: Some(Duration::from_millis(80)),
            resend: Some(ResendReason::ProbeFoundNothing),
            ..attempt(2, 2_140, 35)
        };
        let probe =
            ProbeRecord { after_attempt: 2, started: Duration::from_millis(2_255), took: Duration::from_millis(12), found: Found::Absent };
        let report = paid(vec![throttled(), lost, answered(attempt(3, 2_267, 33))], vec![probe], Some("checkout-7"));
        let wanted = "POST https://api.example.com:443 \"payments\" checkout-7
       at  attempt  signal              evidence         pause  time left  decision
  0.000 s  #1       503, wait 2.000 s   unknown        2.100 s   19.960 s  send again: the key makes it act once
  2.140 s  #2       closed by the peer  unknown        0.080 s   17.825 s  ask the probe
  2.255 s  probe    no trace of it      not processed        –          –  send again: the probe found no trace
  2.267 s  #3       200                 answered             –   17.700 s  done: the answer is final
  outcome  answered, after 3 attempts and 1 probe in 2.300 s, 17.700 s left";
        assert_eq!(report.to_string(), wanted);
    }
}
