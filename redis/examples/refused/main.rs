//! How many requests an upstream has to refuse when it wants to be left alone, by what its clients
//! share: `cargo run -p reqwest-safe-retry-redis --example refused -- --out redis`.
//!
//! It starts a store, an upstream and fleets of real processes, prints the table of the README, and
//! draws one fleet over time. It wants a quiet machine: what the store is late by, the upstream
//! refuses.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a measurement that fails is run again")]

mod picture;
#[path = "../../tests/fleet/server.rs"]
#[allow(dead_code, reason = "the tests need more of it")]
mod server;
#[path = "../../tests/fleet/upstream.rs"]
mod upstream;
#[path = "../../tests/fleet/worker.rs"]
mod worker;

use std::{error::Error, path::PathBuf, time::Duration};

use picture::Line;
use server::{Server, pause};
use tokio::{runtime::Runtime, time::Instant};
use upstream::Upstream;
use worker::{Fleet, Sharing};

const WAIT: Duration = Duration::from_secs(5);
/// Until all processes have connected.
const STARTED: Duration = Duration::from_secs(4);
/// From the beginning of one wait to that of the next.
const APART: Duration = Duration::from_secs(9);

fn main() -> Result<(), Box<dyn Error>> {
    if worker::is_one() {
        worker::work();
        return Ok(());
    }
    let mut out = PathBuf::from("target");
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        match argument.as_str() {
            "--out" => out = arguments.next().ok_or("--out wants a directory")?.into(),
            _ => return Err(format!("unknown argument {argument}; known is --out DIR").into()),
        }
    }
    std::fs::create_dir_all(&out)?;
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
    let server = Server::start();
    let ways = [("none", Sharing::None), ("own", Sharing::Own), ("shared", Sharing::Store(server.port()))];

    println!("Requests refused in a wait of {} s, by what is shared\n", WAIT.as_secs());
    println!("{:<18} {:<16} {:>6} {:>6} {:>6}", "fleet", "a refusal takes", "none", "own", "shared");
    for (processes, rate) in [(20, 20.0), (100, 0.5)] {
        for takes in [0, 200] {
            print!("{:<18} {:<16}", format!("{processes} × {rate}/s"), format!("{takes} ms"));
            for (_, sharing) in ways {
                let refused = run(&runtime, Fleet { processes, rate, sharing }, Duration::from_millis(takes), 1);
                print!(" {:>6}", refused.len());
            }
            println!();
        }
    }

    let line = |(name, sharing)| Line { name, refused: run(&runtime, Fleet { processes: 20, rate: 20.0, sharing }, Duration::ZERO, 3) };
    picture::draw(&out.join("refused.svg"), &[line(ways[1]), line(ways[2])], WAIT, APART)?;
    println!("\npicture: {}", out.join("refused.svg").display());
    Ok(())
}

/// A fleet that meets so many waits, one after the other. When each request was refused, since the
/// first wait began.
fn run(runtime: &Runtime, fleet: Fleet, refusing_takes: Duration, waits: u32) -> Vec<Duration> {
    let upstream = runtime.block_on(Upstream::start(refusing_takes));
    let workers = fleet.start(&upstream.url(), &[]);
    pause(STARTED);
    let began = Instant::now();
    for _ in 0..waits {
        upstream.refuse(WAIT);
        pause(APART);
    }
    workers.end();
    upstream.arrivals().iter().filter(|arrival| arrival.refused).map(|arrival| arrival.at - began).collect()
}
