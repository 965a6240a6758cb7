//! How a story is told, and how it is held to what it says.

use std::{fmt::Debug, ops::Range, path::Path, process::ExitCode, time::Duration};

use anyhow::{Context as _, Result};
use reqwest::{Response, StatusCode};
use reqwest_middleware::{Error, RequestBuilder};
use reqwest_safe_retry::{ReportSlot, RetryError, RetryReport};
use tokio::time::{Instant, timeout};

use crate::{
    ink,
    orders::Tally,
    picture::{Drawn, Picture},
    upstream::Upstream,
};

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

    fn draw(&self, title: &str, picture: &mut Picture) {
        let holds = format!("database: {}", counted(self.tally.orders, "order"));
        let outcome = format!("outcome: {}", self.told.report.outcome());
        picture.add(&Drawn { title, attempts: self.told.report.attempts(), took: self.told.took, outcome, holds });
    }

    fn print(&self) {
        for (number, row) in self.told.report.to_string().lines().enumerate() {
            // What is the same in each story: request and titles.
            println!("{}", if number < 2 { ink::dim(row) } else { row.to_owned() });
        }
        line("caller", &format!("{}, after {}", self.told.in_words(), seconds(self.told.took)));
        line("database", &self.tally.in_words());
    }
}

impl Tally {
    fn in_words(&self) -> String {
        let seen = [(self.gets, "GET"), (self.posts, "POST"), (self.keys, "key")];
        let seen: Vec<_> = seen.into_iter().filter(|(count, _)| *count > 0).map(|(count, what)| counted(count, what)).collect();
        format!("{}; the server saw {}", counted(self.orders, "order"), seen.join(", "))
    }
}

fn counted(count: u64, what: &str) -> String {
    format!("{count} {what}{}", if count == 1 { "" } else { "s" })
}

fn seconds(time: Duration) -> String {
    format!("{:.3} s", time.as_secs_f64())
}

fn line(label: &str, text: &str) {
    println!("{}  {text}", ink::dim(&format!("{label:>9}")));
}

/// The stories told so far.
pub(crate) struct Tour {
    began: Instant,
    told: u32,
    kept: u32,
    picture: Picture,
}

impl Tour {
    pub(crate) fn begin(title: &str, preface: &str) -> Self {
        println!("\n{}\n{}", ink::bold(title), ink::dim(preface));
        Self { began: Instant::now(), told: 0, kept: 0, picture: Picture::default() }
    }

    /// Tells one story.
    pub(crate) async fn tell(&mut self, title: &str, setting: &str, story: impl Future<Output = Result<Ending>>) {
        self.told += 1;
        println!("\n\n{}\n{}\n", ink::bold(&format!("{} · {title}", self.told)), ink::dim(setting));
        match story.await {
            Ok(ending) => {
                ending.print();
                ending.draw(title, &mut self.picture);
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

    /// Draws the picture if it was asked for, and sums up.
    pub(crate) fn end(self, svg: Option<&Path>) -> ExitCode {
        if let Some(Err(error)) = svg.map(|file| self.picture.write(file)) {
            line("", &ink::red(&format!("✗ {error:#}")));
            return ExitCode::FAILURE;
        }
        let sum = format!("{} of {} stories came out as they say, in {}.", self.kept, self.told, seconds(self.began.elapsed()));
        if self.kept == self.told {
            println!("\n\n{}\n", ink::green(&format!("✓ {sum}")));
            ExitCode::SUCCESS
        } else {
            println!("\n\n{}\n", ink::red(&format!("✗ {sum}")));
            ExitCode::FAILURE
        }
    }
}
