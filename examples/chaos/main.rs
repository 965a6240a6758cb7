//! Everything goes wrong at once, and the promises are kept: `cargo run --release --example chaos
//! --features testing-tls -- --seconds 60 --seed 1`.
//!
//! Hundreds of operations at a time, of every effect, over HTTP/1 and HTTP/2, plain and (with the
//! feature `testing-tls`) by TLS, through clients of both kinds, meet a server that refuses, hangs,
//! breaks, lies and restarts, and callers that drop what they have begun. The server records every request head; what it recorded is held
//! against what the crate promises ([`promise`]). Any breach is told with the operation's story,
//! and the exit code tells.
//!
//! What an operation does, and what is done to it, is drawn from a seed of its own: `--replay` and
//! the operation's name carry it out once more, alone (with `--operations 100`, a hundred times).
//! Connections and restarts are the weather, drawn from the run's `--seed`.
//!
//! [`verdict`] is the file to read first.

mod asked;
mod caller;
mod chance;
mod class;
mod fleet;
mod histogram;
mod holds;
mod journal;
mod leftovers;
mod limits;
mod options;
mod person;
mod plan;
mod promise;
mod purses;
mod soak;
mod stalls;
mod summary;
mod tally;
mod tap;
mod upstream;
mod verdict;

use std::{process::ExitCode, sync::Arc};

use anyhow::{Context as _, Result};
use indicatif::{ProgressBar, ProgressStyle};

use journal::Journal;
use options::Options;
use stalls::Stalls;
use summary::Summary;
use upstream::Upstream;

fn main() -> Result<ExitCode> {
    let options = Options::parse(std::env::args().skip(1))?;
    let journal = Arc::new(Journal::new());
    let upstream = Upstream::start(options.seed, Arc::clone(&journal))?;
    let bar = bar(&options)?;
    // The clients' own: what is alive in it when they are gone was left behind.
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    let stalls = Stalls::watch();
    let outcome = runtime.block_on(soak::run(&options, &upstream, &journal, stalls.longest(), &bar));
    bar.finish_and_clear();
    let outcome = outcome?;

    let grace = stalls.longest().grace();
    let (strays, stalls) = (journal.strays(), stalls.counted()?);
    let summary = Summary { options: &options, outcome: &outcome, counts: &upstream.counts, strays, stalls, grace };
    let (gaps, text) = (summary.gaps(), summary.to_string());
    println!("{text}");
    if let Some(out) = &options.out {
        std::fs::write(out, &text).with_context(|| out.display().to_string())?;
    }
    upstream.stop();
    for story in outcome.tally.stories() {
        println!("{story}");
    }
    for gap in &gaps {
        println!("NOTHING PROVEN: {gap}");
    }
    if outcome.tally.breaches() == 0 && gaps.is_empty() {
        return Ok(ExitCode::SUCCESS);
    }
    println!("seed {}; once more: --seed {} --replay OPERATION", options.seed, options.seed);
    Ok(ExitCode::FAILURE)
}

fn bar(options: &Options) -> Result<ProgressBar> {
    let counts_seconds = options.operations == u64::MAX;
    let bar = ProgressBar::new(if counts_seconds { options.limit.as_secs() } else { options.operations });
    let template = if counts_seconds { "{wide_bar} {pos}/{len} s  {msg}" } else { "{wide_bar} {pos}/{len}  {eta} left  {msg}" };
    bar.set_style(ProgressStyle::with_template(template)?);
    Ok(bar)
}
