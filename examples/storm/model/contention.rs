//! "Exponential Backoff And Jitter" (AWS Architecture Blog): what jitter is for.
//!
//! So many clients each want to write one row once, under optimistic concurrency control: read the
//! version, write, start again if somebody else was faster. The model is that of
//! `aws-samples/aws-arch-backoff-simulator`; every hop takes |N(10, 2)| ms.

use std::time::Duration;

use reqwest_safe_retry::policy::{Backoff, Jitter};

use super::{agenda::Agenda, chance::Chance, claim::Claim, published};

const HOP: (Duration, Duration) = (Duration::from_millis(10), Duration::from_millis(2));
const BASE: Duration = Duration::from_millis(5);
const CAP: Duration = Duration::from_millis(2000);
/// The published bound after the n-th failure is `5 · 2^n` ms, and n starts at 1; ours starts with
/// the first.
const BACKOFF: Backoff = Backoff::doubling(Duration::from_millis(10), CAP);

/// How many clients compete.
pub(crate) const CROWDS: [usize; 5] = [10, 50, 100, 150, 190];

pub(crate) const CELLS: usize = CROWDS.len() * Algorithm::ALL.len();

/// How long a client pauses after a lost race.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Algorithm {
    None,
    Exponential,
    EqualJitter,
    FullJitter,
    /// Not in the crate: it makes more calls than full jitter for the same time.
    Decorrelated,
}

impl Algorithm {
    pub(crate) const ALL: [Self; 5] = [Self::None, Self::Exponential, Self::EqualJitter, Self::FullJitter, Self::Decorrelated];

    /// As in the published table.
    fn published_as(self) -> &'static str {
        match self {
            Self::None => "None",
            Self::Exponential => "Exponential",
            Self::EqualJitter => "EqualJitter",
            Self::FullJitter => "FullJitter",
            Self::Decorrelated => "Decorr",
        }
    }

    fn pause(self, client: &mut Client, chance: &mut Chance) -> Duration {
        let backoff = |jitter, draw| BACKOFF.with_jitter(jitter).pause(client.lost, draw);
        match self {
            Self::None => Duration::ZERO,
            Self::Exponential => backoff(Jitter::None, chance.draw()),
            Self::EqualJitter => backoff(Jitter::Equal, chance.draw()),
            Self::FullJitter => backoff(Jitter::Full, chance.draw()),
            Self::Decorrelated => {
                client.paused = chance.between(BASE, client.paused * 3).min(CAP);
                client.paused
            }
        }
    }
}

struct Client {
    lost: u32,
    paused: Duration,
}

enum Event {
    Read(usize),
    Write { client: usize, version: u32 },
    Lost(usize),
    Won,
}

/// The means of some runs.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Cell {
    pub(crate) algorithm: Algorithm,
    pub(crate) clients: usize,
    /// Writes tried, by all clients together.
    pub(crate) calls: f64,
    /// Until the last client is done.
    pub(crate) millis: f64,
}

/// All cells of the table, each the mean of so many runs. `ran` is called after each.
pub(crate) fn table(runs: u32, ran: impl Fn()) -> Vec<Cell> {
    let cells = CROWDS.iter().flat_map(|&clients| Algorithm::ALL.map(|algorithm| (clients, algorithm)));
    cells
        .map(|(clients, algorithm)| {
            let (mut calls, mut time) = (0, Duration::ZERO);
            for seed in 0..u64::from(runs) {
                let (called, took) = run(algorithm, clients, seed);
                calls += called;
                time += took;
                ran();
            }
            let mean = |sum: f64| sum / f64::from(runs);
            Cell { algorithm, clients, calls: mean(f64::from(calls)), millis: mean(time.as_secs_f64() * 1e3) }
        })
        .collect()
}

fn run(algorithm: Algorithm, clients: usize, seed: u64) -> (u32, Duration) {
    let mut chance = Chance::seeded(seed);
    let mut agenda = Agenda::new();
    let (mut version, mut calls) = (0, 0);
    let mut crowd: Vec<_> = (0..clients).map(|_| Client { lost: 0, paused: BASE }).collect();
    let hop = |chance: &mut Chance| chance.normal(HOP.0, HOP.1);
    for client in 0..clients {
        agenda.plan(hop(&mut chance), Event::Read(client));
    }
    while let Some(event) = agenda.next() {
        match event {
            Event::Read(client) => {
                // The answer travels one hop, the write that follows it another.
                let there_and_back = hop(&mut chance) + hop(&mut chance);
                agenda.plan(there_and_back, Event::Write { client, version });
            }
            Event::Write { client, version: read } => {
                calls += 1;
                let won = read == version;
                version += u32::from(won);
                agenda.plan(hop(&mut chance), if won { Event::Won } else { Event::Lost(client) });
            }
            Event::Lost(client) => {
                crowd[client].lost += 1;
                let pause = algorithm.pause(&mut crowd[client], &mut chance);
                agenda.plan(hop(&mut chance) + pause, Event::Read(client));
            }
            Event::Won => {}
        }
    }
    (calls, agenda.now())
}

/// The mean that the table says, and how far the mean of so many runs of ours may be from it.
///
/// For 100 runs the allowance is 4.5 standard errors of theirs, that is 3.2 of the difference of
/// the two means; fewer runs err more.
pub(crate) fn published(cell: &Cell, runs: u32) -> [(&'static str, f64, f64, f64); 2] {
    let rows = published::contention();
    let row = published::row(&rows, |row| {
        row["algorithm"] == cell.algorithm.published_as() && row["clients"].as_u64() == Some(cell.clients as u64)
    });
    let allowance = 4.5 * ((0.01 + 1.0 / f64::from(runs)) / 2.0).sqrt();
    [("calls", cell.calls, "mean_calls", "sd_calls"), ("ms", cell.millis, "mean_time_ms", "sd_time_ms")]
        .map(|(unit, ours, mean, deviation)| (unit, ours, published::number(row, mean), allowance * published::number(row, deviation)))
}

/// Each cell against the published one, and the four claims that the article makes of them.
pub(crate) fn claims(cells: &[Cell], runs: u32) -> Vec<Claim> {
    let mut claims = Vec::new();
    for cell in cells {
        for (unit, ours, theirs, allowed) in published(cell, runs) {
            let what = format!("{:?}, {} clients, {unit}", cell.algorithm, cell.clients);
            claims.push(Claim::within(what, ours, theirs - allowed..=theirs + allowed));
        }
    }
    for clients in CROWDS.into_iter().filter(|&clients| clients >= 50) {
        let to_full = |algorithm, of: fn(&Cell) -> f64| {
            let [ours, full] = [algorithm, Algorithm::FullJitter]
                .map(|algorithm| cells.iter().find(|cell| (cell.algorithm, cell.clients) == (algorithm, clients)).map_or(f64::NAN, of));
            ours / full
        };
        let calls = |algorithm| to_full(algorithm, |cell| cell.calls);
        let time = |algorithm| to_full(algorithm, |cell| cell.millis);
        let at = |what| format!("{clients} clients, {what} of full jitter");
        use Algorithm::{Decorrelated, EqualJitter, Exponential, None};
        if clients >= 100 {
            claims.push(Claim::at_least(at("no jitter makes twice the calls"), calls(Exponential), 2.0));
            claims.push(Claim::at_least(at("no jitter takes over ten times the time"), time(Exponential), 10.0));
            claims.push(Claim::at_least(at("no backoff makes three times the calls"), calls(None), 2.9));
        }
        claims.push(Claim::at_most(at("no backoff takes half the time"), time(None), 0.6));
        claims.push(Claim::within(at("equal jitter makes about the calls"), calls(EqualJitter), 0.95..=1.05));
        claims.push(Claim::at_least(at("equal jitter takes a quarter more than the time"), time(EqualJitter), 1.2));
        claims.push(Claim::at_least(at("decorrelated jitter makes a tenth more than the calls"), calls(Decorrelated), 1.09));
        // Published: 0.75 (50 clients) to 1.07. The ratio of two means of 100 runs has a standard
        // error of 0.022 there.
        claims.push(Claim::within(at("decorrelated jitter takes about the time"), time(Decorrelated), 0.65..=1.15));
    }
    claims
}
