//! A server that never stops writing and never finishes.

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use reqwest_safe_retry::{Endpoint, SafeRetry};
use tokio::task::JoinSet;

use crate::{
    peer::{Answer, serve},
    scene::{Found, middle_and_last, milliseconds, runtime},
};

const OPERATIONS: u64 = 2_000;
const DEADLINE: Duration = Duration::from_secs(5);
/// What an operation may take longer on a busy machine.
const MOST: Duration = Duration::from_secs(2);

/// A field of the head that never ends.
pub(crate) fn heads() -> Result<Found> {
    slow("HTTP/1.1 200 OK\r\nx-slow: ", Endpoint::read())
}

/// A body of 60,000 bytes that would take most of an hour.
const BODY: &str = "HTTP/1.1 200 OK\r\ncontent-length: 60000\r\n\r\n";

/// Read by this crate, inside the attempt.
pub(crate) fn bodies() -> Result<Found> {
    slow(BODY, Endpoint::read().reading_body(64 * 1024))
}

/// Read by the caller, who collects it with reqwest.
pub(crate) fn collected_bodies() -> Result<Found> {
    slow(BODY, Endpoint::read())
}

fn slow(begins: &str, endpoint: Endpoint) -> Result<Found> {
    runtime()?.block_on(async {
        let port = serve(Answer { begins: begins.to_owned(), trickles: Some(Duration::from_millis(50)) }).await?;
        let retry = SafeRetry::new().with_deadline(DEADLINE);
        let client = retry.client(reqwest::Client::builder().no_proxy()).build()?;
        let mut operations = JoinSet::new();
        for n in 0..OPERATIONS {
            let request = client.get(format!("http://127.0.0.1:{port}/{n}")).with_extension(endpoint.clone());
            operations.spawn(async move {
                let asked = Instant::now();
                let whole = match request.send().await {
                    Ok(answer) => answer.bytes().await.is_ok(),
                    Err(_) => false,
                };
                (whole, asked.elapsed())
            });
        }
        let ended = operations.join_all().await;
        ensure!(ended.iter().all(|(whole, _)| !whole), "an answer ended");
        let (middle, last) = middle_and_last(ended.iter().map(|(_, took)| took.saturating_sub(DEADLINE)).collect());
        ensure!(last < MOST, "ended {last:?} after the deadline");
        let (middle, last) = (milliseconds(middle), milliseconds(last));
        let said = format!("at once, each with a deadline of 5 s; ended {middle} after it in the middle, {last} at most");
        Ok(Found { many: OPERATIONS, said })
    })
}
