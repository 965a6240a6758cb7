//! A report as a person reads it: one line for each thing that happened, in order.

use std::fmt;
use std::time::Duration;

use super::{AttemptRecord, Cause, ProbeRecord, RetryReport};
use crate::policy::{Evidence, Signal};

/// The timeline: what was sent when, what came back, what was waited for, and what is known in the end. Without a line break at the end.
///
/// ```text
/// POST https://api.example.com:443 "payments"
///   attempt 1 at 0 ms, took 40 ms: 503, may have been processed; asked to wait 2 s; pause 2.1 s, 17.9 s left
///   attempt 2 at 2.14 s, resent because KeyDeduplicates, took 35 ms: 200
///   Answered, stopped by AnswerIsFinal after 2 attempts in 2.18 s, 17.8 s left
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
        let mut before: Option<&AttemptRecord> = None;
        for attempt in self.attempts() {
            write!(f, "\n  {}", AttemptLine { attempt, before })?;
            for probe in self.probes().iter().filter(|probe| probe.after_attempt == attempt.number) {
                write!(f, "\n  {}", ProbeLine(probe))?;
            }
            before = Some(attempt);
        }
        write!(f, "\n  {:?}, stopped by {:?} after {}", self.outcome(), self.stop(), Counted(self.attempts().len(), "attempt"))?;
        if !self.probes().is_empty() {
            write!(f, " and {}", Counted(self.probes().len(), "probe"))?;
        }
        write!(f, " in {}{}", Readable(self.took()), Left(self.time_left()))
    }
}

struct AttemptLine<'a> {
    attempt: &'a AttemptRecord,
    before: Option<&'a AttemptRecord>,
}

impl fmt::Display for AttemptLine<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let attempt = self.attempt;
        write!(f, "attempt {} at {}", attempt.number, Readable(attempt.started))?;
        if let Some(reason) = self.before.and_then(AttemptRecord::resend) {
            write!(f, ", resent because {reason:?}")?;
        }
        write!(f, ", took {}: ", Readable(attempt.took))?;
        match attempt.status {
            Some(status) => write!(f, "{}", status.as_u16())?,
            None => write!(f, "{}", attempt.cause)?,
        }
        if attempt.status.is_some() && attempt.cause != Cause::Status {
            write!(f, ", {}", attempt.cause)?;
        }
        match attempt.signal {
            // What an answer or a failure means where its status or cause does not say it.
            Signal::Final(_) => f.write_str(", final")?,
            Signal::Resendable(_) => f.write_str(", worth another try")?,
            Signal::KeyInUse => f.write_str(", the key is in use")?,
            Signal::Forbidden => f.write_str(", asked not to be sent again")?,
            Signal::Answered(_) | Signal::Failed | Signal::Broken | Signal::BodyLost(_) | Signal::ProbedAbsent => {}
        }
        f.write_str(match attempt.evidence {
            Evidence::Unprocessed => ", not processed",
            Evidence::Unknown if attempt.is_success() => "",
            Evidence::Unknown => ", may have been processed",
        })?;
        if let Some(hint) = attempt.hint {
            write!(f, "; the server asked to wait {}", Readable(hint))?;
        }
        match attempt.pause {
            Some(pause) => write!(f, "; pause {}{}", Readable(pause), Left(attempt.time_left)),
            None => Ok(()),
        }
    }
}

impl AttemptRecord {
    fn is_success(&self) -> bool {
        self.cause == Cause::Status && self.status.is_some_and(|status| status.is_success())
    }
}

struct ProbeLine<'a>(&'a ProbeRecord);

impl fmt::Display for ProbeLine<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(probe) = self;
        write!(f, "probe at {}, took {}: {:?}", Readable(probe.started), Readable(probe.took), probe.found)
    }
}

/// No deadline, no word.
struct Left(Duration);

impl fmt::Display for Left {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0 == Duration::MAX { Ok(()) } else { write!(f, ", {} left", Readable(self.0)) }
    }
}

struct Counted(usize, &'static str);

impl fmt::Display for Counted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(count, what) = self;
        write!(f, "{count} {what}{}", if *count == 1 { "" } else { "s" })
    }
}

/// Milliseconds below a second, seconds above.
struct Readable(Duration);

impl fmt::Display for Readable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.as_secs() {
            0 => write!(f, "{} ms", self.0.subsec_millis()),
            seconds => match self.0.subsec_millis() / 10 {
                0 => write!(f, "{seconds} s"),
                hundredths if hundredths % 10 == 0 => write!(f, "{seconds}.{} s", hundredths / 10),
                hundredths => write!(f, "{seconds}.{hundredths:02} s"),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use http::{Method, StatusCode};

    use super::super::*;
    use super::Readable;

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

    #[test]
    fn the_timeline_reads_in_order() {
        let throttled = AttemptRecord {
            signal: Signal::Answered(StatusCode::SERVICE_UNAVAILABLE),
            status: Some(StatusCode::SERVICE_UNAVAILABLE),
            cause: Cause::Status,
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
        let probe =
            ProbeRecord { after_attempt: 2, started: Duration::from_millis(2_255), took: Duration::from_millis(12), found: Found::Absent };
        let report = RetryReport::new(Record {
            method: Method::POST,
            origin: Origin::of(&"https://user:pw@api.example.com/v1/payments?secret=1".parse().unwrap()),
            endpoint: Some("payments".into()),
            correlation: Some(CorrelationId::new("checkout-7").unwrap()),
            attempts: vec![throttled, lost, answered],
            probes: vec![probe],
            stop: StopReason::AnswerIsFinal,
            outcome: Outcome::Answered,
            evidence: Evidence::Unknown,
            hint: Some(Duration::from_secs(2)),
            key_was_sent: true,
            key_answer: None,
            took: Duration::from_millis(2_300),
            time_left: Duration::from_millis(17_700),
        });
        let wanted = "POST https://api.example.com:443 \"payments\" checkout-7
  attempt 1 at 0 ms, took 40 ms: 503, may have been processed; the server asked to wait 2 s; pause 2.1 s, 19.96 s left
  attempt 2 at 2.14 s, resent because KeyDeduplicates, took 35 ms: closed by the peer, may have been processed; pause 80 ms, 17.82 s left
  probe at 2.25 s, took 12 ms: Absent
  attempt 3 at 2.26 s, resent because ProbeFoundNothing, took 33 ms: 200
  Answered, stopped by AnswerIsFinal after 3 attempts and 1 probe in 2.3 s, 17.7 s left";
        assert_eq!(report.to_string(), wanted);
    }

    #[test]
    fn durations_are_short_at_every_size() {
        for (millis, text) in [(0, "0 ms"), (999, "999 ms"), (1_000, "1 s"), (1_050, "1.05 s"), (1_100, "1.1 s"), (61_009, "61 s")] {
            assert_eq!(Readable(Duration::from_millis(millis)).to_string(), text);
        }
    }
}
