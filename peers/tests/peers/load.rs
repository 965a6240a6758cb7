//! POSTs by three clients, and what came of them.

use std::{collections::HashMap, fmt, time::Duration};

use http::Version;
use reqwest_middleware::{ClientBuilder, ClientWithMiddleware};
use reqwest_retry::{RetryTransientMiddleware, policies::ExponentialBackoff};
use reqwest_safe_retry::{Endpoint, Outcome, RetryError, RetryReport, SafeRetry};
use tokio::{task::JoinSet, time::sleep};

use crate::acts::Acts;

/// The header under which a POST carries its name.
pub(crate) const OPERATION: &str = "x-operation";

/// A load that each of the three clients makes.
pub(crate) struct Load {
    pub(crate) url: String,
    pub(crate) version: Version,
    /// What this crate is told about the POSTs.
    pub(crate) endpoint: Endpoint,
    /// How many clients with a connection of their own, and how often each of them sends.
    pub(crate) workers: u64,
    pub(crate) posts: u64,
    /// The time between two POSTs of a worker.
    pub(crate) pause: Pause,
}

/// Evenly spread between the two, the same in every run.
#[derive(Clone, Copy)]
pub(crate) struct Pause {
    pub(crate) least: Duration,
    pub(crate) most: Duration,
}

impl Pause {
    /// As long as a server keeps idle connections, a little more or less.
    pub(crate) fn at_the_edge_of(idle: Duration) -> Self {
        Self { least: idle - Duration::from_millis(2), most: idle + Duration::from_millis(6) }
    }

    fn of(self, worker: u64, post: u64) -> Duration {
        // Multiples of the golden ratio are spread evenly (Knuth, TAOCP 3, 6.4).
        let place = (worker * 1_000 + post).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 44;
        self.least + (self.most - self.least) * u32::try_from(place).unwrap() / (1 << 20)
    }
}

/// Who sends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Who {
    Reqwest,
    ReqwestRetry,
    SafeRetry,
}

/// How a POST ended for its caller.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum End {
    /// 2xx.
    Answered,
    /// Another status, and nothing is said about what was done.
    Refused,
    /// An error that says no more than that.
    Failed,
    Unprocessed,
    Unknown,
}

impl Load {
    /// The table: one row for each client. This crate's is held to what it promises.
    pub(crate) async fn table(&self, scene: &str, acts: &Acts) -> [Row; 3] {
        let mut rows = [const { None }; 3];
        for (who, row) in [Who::Reqwest, Who::ReqwestRetry, Who::SafeRetry].into_iter().zip(&mut rows) {
            *row = Some(Row::of(who, &self.run(who).await, &acts.counted()));
        }
        let rows = rows.map(Option::unwrap);
        for row in &rows {
            println!("| {scene} | {row}");
        }
        let safe = &rows[2];
        assert_eq!(safe.twice, 0, "an unprotected write was done twice");
        assert_eq!(safe.said_undone_but_done, 0, "what was said not to have been processed was");
        assert_eq!(safe.answered_but_undone, 0, "what was answered was not done");
        rows
    }

    async fn run(&self, who: Who) -> Vec<(String, End)> {
        let mut workers = JoinSet::new();
        for worker in 0..self.workers {
            let (client, url, pause, posts) = (self.client(who), self.url.clone(), self.pause, self.posts);
            // Scenes of one test share what counts the acts.
            let scene = self.version;
            workers.spawn(async move {
                let mut ends = Vec::new();
                for post in 0..posts {
                    let name = format!("{who:?}-{scene:?}-{worker}-{post}");
                    let sent = client.post(&url).header(OPERATION, &name).body("one coffee").send().await;
                    ends.push((name, end(sent).await));
                    sleep(pause.of(worker, post)).await;
                }
                ends
            });
        }
        workers.join_all().await.into_iter().flatten().collect()
    }

    fn client(&self, who: Who) -> ClientWithMiddleware {
        // A process that was forked meanwhile may hold a killed one's connection open for ever.
        let builder = reqwest::Client::builder().no_proxy().timeout(Duration::from_secs(5));
        let builder = if self.version == Version::HTTP_2 { builder.http2_prior_knowledge() } else { builder.http1_only() };
        match who {
            Who::Reqwest => ClientBuilder::new(builder.build().unwrap()).build(),
            Who::ReqwestRetry => {
                let policy =
                    ExponentialBackoff::builder().retry_bounds(Duration::from_millis(50), Duration::from_secs(1)).build_with_max_retries(3);
                let retry = RetryTransientMiddleware::new_with_policy(policy);
                ClientBuilder::new(builder.build().unwrap()).with(retry).build()
            }
            Who::SafeRetry => SafeRetry::new().with_default_write(self.endpoint.clone()).client(builder).build().unwrap(),
        }
    }
}

async fn end(sent: reqwest_middleware::Result<reqwest::Response>) -> End {
    let response = match sent {
        Ok(response) => response,
        Err(error) => {
            return match RetryError::find(&error) {
                Some(RetryError::Unprocessed(_)) => End::Unprocessed,
                Some(RetryError::OutcomeUnknown(_)) => End::Unknown,
                Some(_) | None => End::Failed,
            };
        }
    };
    let end = match RetryReport::of(&response).map(RetryReport::outcome) {
        Some(Outcome::Unprocessed) => End::Unprocessed,
        Some(Outcome::Unknown) => End::Unknown,
        Some(_) | None if response.status().is_success() => End::Answered,
        Some(_) | None => End::Refused,
    };
    // Read to its end, so that the connection is free.
    let _ = response.bytes().await;
    end
}

/// What came of the POSTs of one client.
pub(crate) struct Row {
    who: Who,
    posts: usize,
    ends: HashMap<End, usize>,
    pub(crate) done: usize,
    pub(crate) twice: usize,
    said_undone_but_done: usize,
    answered_but_undone: usize,
}

impl Row {
    fn of(who: Who, posts: &[(String, End)], acts: &HashMap<String, u32>) -> Self {
        let done = |name: &String| acts.get(name).copied().unwrap_or_default();
        let count = |holds: fn(End, u32) -> bool| posts.iter().filter(|(name, end)| holds(*end, done(name))).count();
        let mut ends = HashMap::new();
        posts.iter().for_each(|(_, end)| *ends.entry(*end).or_default() += 1);
        Self {
            who,
            posts: posts.len(),
            ends,
            done: count(|_, done| done > 0),
            twice: count(|_, done| done > 1),
            said_undone_but_done: count(|end, done| end == End::Unprocessed && done > 0),
            answered_but_undone: count(|end, done| end == End::Answered && done == 0),
        }
    }

    pub(crate) fn answered(&self) -> usize {
        self.ended(End::Answered)
    }

    fn ended(&self, end: End) -> usize {
        self.ends.get(&end).copied().unwrap_or_default()
    }
}

impl fmt::Display for Row {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let who = match self.who {
            Who::Reqwest => "reqwest",
            Who::ReqwestRetry => "reqwest-retry",
            Who::SafeRetry => "this crate",
        };
        write!(f, "{who} | {} |", self.posts)?;
        for end in [End::Answered, End::Refused, End::Failed, End::Unprocessed, End::Unknown] {
            write!(f, " {} |", self.ended(end))?;
        }
        write!(f, " {} | {} |", self.done, self.twice)
    }
}
