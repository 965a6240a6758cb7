//! The main job, to see: `cargo run --example tour`.
//!
//! A small shop runs on a loopback port, keeps its orders in SQLite and misbehaves on purpose. A
//! real client calls it, seven times, and each story shows what was tried, what that proved, what
//! was decided and why, and what the database holds in the end. Each is held to what it says; the
//! exit code tells.
//!
//! `-- --svg FILE` writes the stories as one picture, too.
//!
//! [`stories`] is the file to read first: it has all that a user of the crate would write.

mod ink;
mod orders;
mod picture;
mod stories;
mod story;
mod upstream;

use std::{path::PathBuf, process::ExitCode};

use story::Tour;

/// The file of `--svg FILE`, if it was asked for.
fn picture() -> Result<Option<PathBuf>, String> {
    let mut arguments = std::env::args_os().skip(1);
    let Some(argument) = arguments.next() else { return Ok(None) };
    match (argument == "--svg", arguments.next(), arguments.next()) {
        (true, Some(file), None) => Ok(Some(file.into())),
        _ => Err("the tour knows one argument: --svg FILE".to_owned()),
    }
}

#[tokio::main]
async fn main() -> ExitCode {
    let svg = match picture() {
        Ok(svg) => svg,
        Err(usage) => {
            eprintln!("{usage}");
            return ExitCode::FAILURE;
        }
    };
    let mut tour = Tour::begin(
        "reqwest-safe-retry, a tour",
        "A real client, and a small shop that misbehaves on purpose. May this very operation run again?\n\
         The counts come from the shop's database, not from the client.",
    );
    tour.tell("A short outage", "GET /menu. The shop answers 503, 503, then 200.", stories::short_outage()).await;
    tour.tell(
        "Told to wait",
        "GET /menu. The shop answers 429 with `Retry-After: 1`, then 429 with an HTTP-date one second away, then 200.",
        stories::told_to_wait(),
    )
    .await;
    tour.tell(
        "The lost answer",
        "POST /orders, nothing protects it. The shop takes the order, and the connection breaks before the answer.",
        stories::lost_answer(),
    )
    .await;
    tour.tell(
        "The lost answer, with a key",
        "The same POST under an idempotency key, which the shop stores in one transaction with the order.",
        stories::lost_answer_with_a_key(),
    )
    .await;
    tour.tell(
        "Nobody at the door",
        "POST /orders, nothing protects it. The shop does not listen yet; it opens while the client pauses.",
        stories::refused_connection(),
    )
    .await;
    tour.tell(
        "Come back in a minute",
        "GET /menu with 5 s to spend. The shop answers 429 with `Retry-After: 60`.",
        stories::hint_beyond_the_deadline(),
    )
    .await;
    tour.tell(
        "Silence",
        "GET /menu with 900 ms to spend, at most 500 ms an attempt. The shop reads the request and never answers.",
        stories::hanging_server(),
    )
    .await;
    tour.end(svg.as_deref())
}
