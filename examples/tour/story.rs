//! How a story is told, and how it is held to what it says.

use std::fmt::Debug;
use std::ops::Range;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use reqwest::{Response, StatusCode};
use reqwest_middleware::{Error, RequestBuilder};
use reqwest_safe_retry::{Outcome, ReportSlot, RetryError, RetryReport};
use tokio::time::timeout;

use crate::orders::Tally;
use crate::upstream::Upstream;
use crate::{ink, timeline};

/// Far above what any story takes.
const PATIENCE: Duration = Duration::from_secs(8);

/// One operation, from the call to its end.
pub(crate) struct Told {
    pub(crate) result: Result<Response, Error>,
    pub(crate) report: RetryReport,
    pub(crate) took: Duration,
}

impl Told {
    /// Sends the request and keeps the report, whatever the result.
    pub(crate) async fn by(request: RequestBuilder) -> Result<Self> {
        let (slot, started) = (ReportSlot::new(), Instant::now());
        let result = timeout(PATIENCE, request.with_extension(slot.clone()).send()).await.context("the story does not end")?;
        let report = slot.take().context("the operation left no report")?;
        Ok(Self { result, report, took: started.elapsed() })
    }

    pub(crate) fn status(&self) -> Option<StatusCode> {
        self.result.as_ref().ok().map(Response::status)
    }

    pub(crate) fn error(&self) -> Option<&RetryError> {
        self.result.as_ref().err().and_then(RetryError::find)
    }

    fn in_words(&self) -> String {
        match &self.result {
            Ok(response) => response.status().to_string(),
            Err(error) => error.to_string(),
        }
    }

    fn outcome_in_words(&self) -> &'static str {
        match self.report.outcome() {
            Outcome::Answered => "answered",
            Outcome::AnsweredAfterUnknown => "answered, perhaps the echo of an earlier success",
            Outcome::Reconciled => "looked up: it happened",
            Outcome::Unprocessed => "it did not happen",
            Outcome::Unknown if self.report.method().is_safe() => "no answer, and nothing changed",
            _ => "unknown: it may have happened",
        }
    }
}

/// A told story, its verdict and the claims it makes.
pub(crate) struct Ending {
    told: Told,
    tally: Tally,
    verdict: &'static str,
    broken: Vec<String>,
}

impl Ending {
    pub(crate) fn new(told: Told, upstream: &Upstream, verdict: &'static str) -> Result<Self> {
        Ok(Self { told, tally: upstream.orders().tally()?, verdict, broken: Vec::new() })
    }

    /// Claims that the story shows exactly this.
    pub(crate) fn claim<T: Debug + PartialEq>(mut self, what: &str, look: impl FnOnce(&Told) -> T, wanted: T) -> Self {
        let seen = look(&self.told);
        if seen != wanted {
            self.broken.push(format!("{what}: wanted {wanted:?}, saw {seen:?}"));
        }
        self
    }

    /// Claims what the database holds.
    pub(crate) fn holds(mut self, wanted: Tally) -> Self {
        if self.tally != wanted {
            self.broken.push(format!("database: wanted {wanted:?}, saw {:?}", self.tally));
        }
        self
    }

    /// Claims that a time lies in this range.
    pub(crate) fn within(mut self, what: &str, look: impl FnOnce(&Told) -> Duration, wanted: Range<Duration>) -> Self {
        let seen = look(&self.told);
        if !wanted.contains(&seen) {
            self.broken.push(format!("{what}: wanted {wanted:?}, saw {seen:?}"));
        }
        self
    }

    fn print(&self) {
        timeline::print(&self.told.report);
        println!();
        line("caller", &format!("{}, after {}", self.told.in_words(), timeline::seconds(self.told.took)));
        line("outcome", self.told.outcome_in_words());
        line("database", &self.tally.in_words());
    }
}

impl Tally {
    fn in_words(&self) -> String {
        let counted = |count: u64, what: &str| format!("{count} {what}{}", if count == 1 { "" } else { "s" });
        let seen = [(self.gets, "GET"), (self.posts, "POST"), (self.keys, "key")];
        let seen: Vec<_> = seen.into_iter().filter(|(count, _)| *count > 0).map(|(count, what)| counted(count, what)).collect();
        format!("{}; the server saw {}", counted(self.orders, "order"), seen.join(", "))
    }
}

fn line(label: &str, text: &str) {
    println!("{}  {text}", ink::dim(&format!("{label:>9}")));
}

/// The stories told so far.
pub(crate) struct Tour {
    began: Instant,
    told: u32,
    kept: u32,
}

impl Tour {
    pub(crate) fn begin(title: &str, preface: &str) -> Self {
        println!("\n{}\n{}", ink::bold(title), ink::dim(preface));
        Self { began: Instant::now(), told: 0, kept: 0 }
    }

    /// Tells one story.
    pub(crate) async fn tell(&mut self, title: &str, setting: &str, story: impl Future<Output = Result<Ending>>) {
        self.told += 1;
        println!("\n\n{}\n{}\n", ink::bold(&format!("{} · {title}", self.told)), ink::dim(setting));
        match story.await {
            Ok(ending) => {
                ending.print();
                if ending.broken.is_empty() {
                    self.kept += 1;
                    line("", &ink::green(&format!("✓ {}", ending.verdict)));
                } else {
                    line("", &ink::red(&format!("✗ {}", ending.verdict)));
                    ending.broken.iter().for_each(|claim| line("", &ink::red(claim)));
                }
            }
            Err(error) => line("", &ink::red(&format!("✗ {error:#}"))),
        }
    }

    pub(crate) fn end(self) -> ExitCode {
        let sum = format!("{} of {} stories came out as they say, in {}.", self.kept, self.told, timeline::seconds(self.began.elapsed()));
        if self.kept == self.told {
            println!("\n\n{}\n", ink::green(&format!("✓ {sum}")));
            ExitCode::SUCCESS
        } else {
            println!("\n\n{}\n", ink::red(&format!("✗ {sum}")));
            ExitCode::FAILURE
        }
    }
}
