//! A report as a person reads it: a table with a row for each thing that happened, in order, and
//! the outcome below it.

use std::{fmt, time::Duration};

use super::{AttemptRecord, Found, ProbeRecord, RetryReport};
use crate::{
    policy::{Evidence, Outcome, Signal},
    proof::cause::Cause,
    request::shown,
};

/// The timeline: what was sent when, what came back, what that proves, what was decided and why,
/// and what is known in the end. Without a line break at the end.
///
/// ```text
/// POST https://api.example.com:443 "payments"
///        at  attempt  signal  evidence    pause  time left  decision
///   0.000 s  #1       503     unknown   0.100 s   19.960 s  send again: the key makes it act once
///   0.140 s  #2       200     answered        –   19.825 s  done: the answer is final
///   outcome  answered, after 2 attempts in 0.175 s, 19.825 s left
/// ```
impl fmt::Display for RetryReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", shown::method(self.method()), self.origin())?;
        if let Some(name) = self.endpoint() {
            write!(f, " {name:?}")?;
        }
        if let Some(id) = self.correlation_id() {
            write!(f, " {id}")?;
        }
        self.table(f)?;
        write!(f, "\n{:>LEAST_WIDTH$}  {}, ", "outcome", self.outcome())?;
        match self.attempts().len() {
            0 => f.write_str("nothing was sent")?,
            attempts => write!(f, "after {}", Counted(attempts, "attempt"))?,
        }
        if !self.probes().is_empty() {
            write!(f, " and {}", Counted(self.probes().len(), "probe"))?;
        }
        write!(f, " in {}", Seconds(self.took()))?;
        if self.time_left() < Duration::MAX {
            write!(f, ", {} left", Seconds(self.time_left()))?;
        }
        // Without a row the reason would be nowhere.
        if self.attempts().is_empty() && self.sent_before().is_none() { write!(f, ": {}", self.stop()) } else { Ok(()) }
    }
}

const COLUMNS: usize = 7;

type Row = [String; COLUMNS];

const TITLES: [&str; COLUMNS] = ["at", "attempt", "signal", "evidence", "pause", "time left", "decision"];

/// Of the first column, so that the timelines of different operations stand below each other.
const LEAST_WIDTH: usize = 9;

impl RetryReport {
    fn table(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let rows: Vec<Row> = self.sent_before().into_iter().chain(self.attempts()).flat_map(|attempt| self.rows_of(attempt)).collect();
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

    /// The row of an attempt, and those of the probes that asked about it. The last of them shows
    /// what was decided in the end.
    fn rows_of(&self, attempt: &AttemptRecord) -> Vec<Row> {
        let probes: Vec<&ProbeRecord> = self.probes().iter().filter(|probe| probe.after_attempt == attempt.number).collect();
        let decision = |rows_below: usize| if rows_below > 0 { "ask the probe".to_owned() } else { self.decision(attempt) };
        let none = || "–".to_owned();
        let mut rows = vec![[
            Seconds(attempt.started).to_string(),
            if attempt.number == 0 { none() } else { format!("#{}", attempt.number) },
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
        match attempt.resend {
            Some(reason) => format!("send again: {reason}"),
            None if self.stop().is_final() => format!("done: {}", self.stop()),
            None => format!("stop: {}", self.stop()),
        }
    }

    /// After the operation's answer nobody asks whether its status proves anything.
    fn proven(&self, attempt: &AttemptRecord) -> String {
        let is_answer = attempt.resend.is_none() && self.stop().is_final() && self.outcome() != Outcome::Reconciled;
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
            Signal::Overloaded(_) => ", overloaded",
            Signal::KeyInUse => ", key in use",
            Signal::Forbidden => ", not again",
            Signal::Answered(_) | Signal::Failed | Signal::Broken | Signal::BodyLost(_) | Signal::ProbedAbsent | Signal::SentBefore => "",
        });
        match self.hint {
            Some(hint) => format!("{said}, wait {}", Seconds(hint)),
            None => said,
        }
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
    use http::{Method, StatusCode};

    use super::super::Record;
    use super::*;
    use crate::{
        policy::{IdempotencyKey, ResendReason, StopReason},
        request::correlation::CorrelationId,
        request::origin::Origin,
        request::shown::ShownMethod,
    };

    fn attempt(number: u32, started: u64, took: u64) -> AttemptRecord {
        AttemptRecord {
            number,
            started: Duration::from_millis(started),
            took: Duration::from_millis(took),
            signal: Signal::Failed,
            status: None,
            evidence: Evidence::Unknown,
            cause: Cause::PeerClosed,
            sends: 1,
            hint: None,
            time_left: Duration::from_millis(20_000 - started - took),
            pause: None,
            resend: None,
        }
    }

    fn probe(after_attempt: u32, started: u64, found: Found) -> ProbeRecord {
        ProbeRecord { after_attempt, started: Duration::from_millis(started), took: Duration::from_millis(12), found }
    }

    fn report(attempts: Vec<AttemptRecord>, probes: Vec<ProbeRecord>, stop: StopReason, outcome: Outcome) -> RetryReport {
        RetryReport::new(Record {
            method: ShownMethod(Method::POST),
            origin: Origin::of(&"https://user:pw@api.example.com/v1/payments?secret=1".parse().unwrap()),
            endpoint: Some("payments".into()),
            correlation: Some(CorrelationId::new("checkout-7").unwrap()),
            sent_before: None,
            attempts,
            probes,
            stop,
            outcome,
            evidence: Evidence::Unknown,
            advice: vec![],
            hint: None,
            key: Some(IdempotencyKey::random()),
            key_answer: None,
            took: Duration::from_millis(2_300),
            time_left: Duration::from_millis(17_700),
        })
    }

    #[test]
    fn the_timeline_reads_in_order() {
        let throttled = AttemptRecord {
            signal: Signal::Answered(StatusCode::SERVICE_UNAVAILABLE),
            status: Some(StatusCode::SERVICE_UNAVAILABLE),
            cause: Cause::Status,
            sends: 1,
            hint: Some(Duration::from_secs(2)),
            pause: Some(Duration::from_millis(2_100)),
            resend: Some(ResendReason::KeyDeduplicates),
            ..attempt(1, 0, 40)
        };
        let lost = AttemptRecord {
            pause: Some(Duration::from_millis(80)),
            resend: Some(ResendReason::ProbeFoundNothing),
            ..attempt(2, 2_140, 35)
        };
        let answered = AttemptRecord {
            signal: Signal::Answered(StatusCode::OK),
            status: Some(StatusCode::OK),
            cause: Cause::Status,
            ..attempt(3, 2_267, 33)
        };
        let report =
            report(vec![throttled, lost, answered], vec![probe(2, 2_255, Found::Absent)], StopReason::AnswerIsFinal, Outcome::Answered);
        let wanted = "POST https://api.example.com:443 \"payments\" checkout-7
       at  attempt  signal              evidence         pause  time left  decision
  0.000 s  #1       503, wait 2.000 s   unknown        2.100 s   19.960 s  send again: the key makes it act once
  2.140 s  #2       closed by the peer  unknown        0.080 s   17.825 s  ask the probe
  2.255 s  probe    no trace of it      not processed        –          –  send again: the probe found no trace
  2.267 s  #3       200                 answered             –   17.700 s  done: the answer is final
  outcome  answered, after 3 attempts and 1 probe in 2.300 s, 17.700 s left";
        assert_eq!(report.to_string(), wanted);
    }

    #[test]
    fn the_row_of_the_last_probe_tells_what_was_decided() {
        let probes = || vec![probe(1, 60, Found::InProgress), probe(1, 2_240, Found::Applied)];
        let looked_up = report(vec![attempt(1, 0, 40)], probes(), StopReason::AnswerIsFinal, Outcome::Reconciled);
        let wanted = "POST https://api.example.com:443 \"payments\" checkout-7
       at  attempt  signal              evidence   pause  time left  decision
  0.000 s  #1       closed by the peer  unknown        –   19.960 s  ask the probe
  0.060 s  probe    in progress         unknown        –          –  ask the probe
  2.240 s  probe    it happened         processed      –          –  done: the answer is final
  outcome  looked up: it happened, after 1 attempt and 2 probes in 2.300 s, 17.700 s left";
        assert_eq!(looked_up.to_string(), wanted);
    }

    #[test]
    fn an_operation_that_was_not_sent_says_why() {
        let unsent = report(vec![], vec![], StopReason::Misused, Outcome::Unprocessed);
        let wanted = "POST https://api.example.com:443 \"payments\" checkout-7
  outcome  it did not happen, nothing was sent in 2.300 s, 17.700 s left: the request was used wrongly";
        assert_eq!(unsent.to_string(), wanted);
    }

    #[test]
    fn an_answer_says_what_it_means_here() {
        let answer = |signal, status, cause| AttemptRecord { signal, status: Some(status), cause, ..attempt(1, 0, 40) }.came_back();
        let (ok, conflict) = (StatusCode::OK, StatusCode::CONFLICT);
        for (said, wanted) in [
            (answer(Signal::Answered(ok), ok, Cause::Status), "200"),
            (answer(Signal::Final(conflict), conflict, Cause::Status), "409, final"),
            (answer(Signal::Resendable(conflict), conflict, Cause::Status), "409, can pass"),
            (answer(Signal::KeyInUse, conflict, Cause::Status), "409, key in use"),
            (answer(Signal::Forbidden, conflict, Cause::Status), "409, not again"),
            (answer(Signal::BodyLost(ok), ok, Cause::BodyLost), "200, answer's body lost"),
            (attempt(1, 0, 40).came_back(), "closed by the peer"),
        ] {
            assert_eq!(said, wanted);
        }
    }
}
