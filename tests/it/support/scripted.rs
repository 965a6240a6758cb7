//! A client in front of a scripted peer, under a paused clock: what the tests of timing and results
//! have in common.

use std::{
    collections::VecDeque,
    sync::{Arc, LazyLock, Mutex},
    time::Duration,
};

use reqwest::Response;
use reqwest_middleware::{ClientBuilder, ClientWithMiddleware, Error};
use reqwest_safe_retry::{
    BudgetLimits, Operation, ProbeVerdict, ReportSlot, RetryBudget, RetryReport, SafeRetry, SendWitness, StatusProbe,
    policy::Draw,
    testing::{Draws, Scripted},
};
use tokio::time::Instant;

pub(crate) const URL: &str = "http://peer.test/orders";

/// Longer than anything here waits for.
pub(crate) const LATER: Duration = Duration::from_secs(24 * 60 * 60);

pub(crate) const fn millis(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

pub(crate) const fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

/// Without chance and without a budget, so that nothing but the matter of a test decides: a failure
/// pauses for 50 ms, then 100 ms; a throttle for 500 ms, then 1 s.
pub(crate) fn steady() -> SafeRetry {
    SafeRetry::new().with_draws(Draws::constant(Draw::HALF)).with_budget(RetryBudget::new(BudgetLimits::UNLIMITED))
}

/// As [`steady`], and every pause is as short as it can be.
pub(crate) fn hasty() -> SafeRetry {
    steady().with_draws(Draws::constant(Draw::LEAST))
}

/// Never reached, so one is enough.
static TRANSPORT: LazyLock<reqwest::Client> = LazyLock::new(reqwest::Client::new);

/// A builder over a transport that is never reached.
pub(crate) fn builder() -> ClientBuilder {
    ClientBuilder::new(TRANSPORT.clone())
}

/// The plugin, the witness that redirects are off, the peer.
pub(crate) fn client(retry: SafeRetry, peer: &Scripted) -> ClientWithMiddleware {
    builder().with(retry).with(SendWitness::redirects_off()).with(peer.clone()).build()
}

/// What came out of one request: its result, its report, and how long it took.
pub(crate) struct Ended {
    pub(crate) result: Result<Response, Error>,
    pub(crate) report: RetryReport,
    pub(crate) took: Duration,
}

impl Ended {
    pub(crate) fn response(&self) -> &Response {
        self.result.as_ref().unwrap()
    }

    pub(crate) fn error(&self) -> &Error {
        self.result.as_ref().unwrap_err()
    }

    pub(crate) fn status(&self) -> u16 {
        self.response().status().as_u16()
    }
}

/// Sends and waits for the end; the report comes from a slot, which must be filled whatever the
/// result.
pub(crate) async fn end(request: reqwest_middleware::RequestBuilder) -> Ended {
    let (slot, began) = (ReportSlot::new(), Instant::now());
    let result = request.with_extension(slot.clone()).send().await;
    Ended { result, report: slot.take().unwrap(), took: began.elapsed() }
}

/// What a scripted probe says; the last word repeats.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Says {
    /// With the answer 201.
    Applied,
    Absent,
    InProgress,
    Undecided,
    /// It never comes back.
    Hangs,
}

/// A probe without a server behind it, that remembers when it was asked.
#[derive(Clone)]
pub(crate) struct ScriptedProbe(Arc<Mutex<(VecDeque<Says>, Vec<Instant>)>>);

impl ScriptedProbe {
    pub(crate) fn new(words: impl IntoIterator<Item = Says>) -> Self {
        Self(Arc::new(Mutex::new((words.into_iter().collect(), Vec::new()))))
    }

    pub(crate) fn asked(&self) -> Vec<Instant> {
        self.0.lock().unwrap().1.clone()
    }

    pub(crate) fn times(&self) -> usize {
        self.asked().len()
    }

    fn next(&self) -> Says {
        let (words, asked) = &mut *self.0.lock().unwrap();
        asked.push(Instant::now());
        if words.len() > 1 { words.pop_front().unwrap() } else { words[0] }
    }
}

#[async_trait::async_trait]
impl StatusProbe for ScriptedProbe {
    async fn look_up(&self, _: &Operation<'_>) -> ProbeVerdict {
        match self.next() {
            Says::Applied => ProbeVerdict::Applied(http::Response::builder().status(201).body("found").unwrap().into()),
            Says::Absent => ProbeVerdict::Absent,
            Says::InProgress => ProbeVerdict::InProgress,
            Says::Undecided => ProbeVerdict::Undecided,
            Says::Hangs => std::future::pending().await,
        }
    }
}
