//! "Fixing retries with token buckets and circuit breakers" (Marc Brooker, 2022): what resends cost
//! when each attempt fails by chance.
//!
//! 100 clients, 10 calls a second each, every hop Exp(10 ms), no pauses, 30 s. The model is
//! `retry_sim` of `mbrooker/simulator_example`.

use std::time::Duration;

use http::StatusCode;
use reqwest_safe_retry::policy::{Backoff, BudgetLimits, Decision, Effect, Evidence, RetryPolicy, Signal, Situation, TokenBucket};

use super::{agenda::Agenda, chance::Chance, claim::Claim, published};

const CLIENTS: usize = 100;
const CALLS_A_SECOND: f64 = 10.0;
const HOPS_A_SECOND: f64 = 100.0;
const UNTIL: Duration = Duration::from_secs(30);
const SEED: u64 = 42;

/// His bucket gains a tenth a call and holds 5. Ours holds what it gained in 5 s, which is the same
/// at 10 calls a second.
const BUCKET: BudgetLimits = BudgetLimits::percent(10).with_reserve(5, 0).with_memory(Duration::from_secs(5));
const AT_ONCE: Backoff = Backoff::doubling(Duration::ZERO, Duration::ZERO);

/// The share of attempts that fail.
pub(crate) const RATES: [f64; 9] = [0.0, 0.01, 0.05, 0.1, 0.2, 0.3, 0.5, 0.75, 1.0];

pub(crate) const CELLS: usize = RATES.len() * Strategy::ALL.len();

/// What a client does about a failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Strategy {
    NoResends,
    ThreeResends,
    Bucket,
    /// Not in the crate: no resend once failures exceed a tenth of the calls.
    Breaker,
}

impl Strategy {
    pub(crate) const ALL: [Self; 4] = [Self::NoResends, Self::ThreeResends, Self::Bucket, Self::Breaker];

    fn published_as(self) -> &'static str {
        match self {
            Self::NoResends => "no_retries",
            Self::ThreeResends => "three_retries",
            Self::Bucket => "adaptive_10pct_cap5",
            Self::Breaker => "breaker_10pct",
        }
    }

    fn policy(self) -> RetryPolicy {
        let attempts = match self {
            Self::NoResends => 1,
            Self::ThreeResends | Self::Breaker => 4,
            Self::Bucket => 20, // the bucket stops it long before
        };
        RetryPolicy::DEFAULT.with_attempts(attempts).with_backoff(AT_ONCE)
    }
}

struct Client {
    bucket: TokenBucket,
    calls: f64,
    failures: f64,
}

impl Client {
    fn pays(&mut self, strategy: Strategy, now: std::time::Instant) -> bool {
        match strategy {
            Strategy::NoResends | Strategy::ThreeResends => true,
            Strategy::Bucket => self.bucket.withdraw(now).is_some(),
            Strategy::Breaker => self.failures <= 0.1 * self.calls,
        }
    }
}

#[derive(Clone, Copy)]
struct Call {
    client: usize,
    sends: u32,
}

enum Event {
    Start(usize),
    Arrive(Call),
    Succeed,
    Fail(Call),
}

/// One cell of the table.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Cell {
    pub(crate) rate: f64,
    pub(crate) strategy: Strategy,
    /// The share of calls that succeeded in the end.
    pub(crate) success: f64,
    /// How often a call was sent.
    pub(crate) load: f64,
    calls: f64,
}

impl Cell {
    /// What the published table says here.
    pub(crate) fn published(&self, column: &str) -> f64 {
        let rows = published::failures();
        let strategy = self.strategy.published_as();
        let row = published::row(&rows, |row| row["strategy"] == strategy && published::number(row, "failure_rate") == self.rate);
        published::number(row, column)
    }
}

/// All cells. `ran` is called after each.
pub(crate) fn table(ran: impl Fn()) -> Vec<Cell> {
    let cells = RATES.iter().flat_map(|&rate| Strategy::ALL.map(|strategy| (rate, strategy)));
    cells
        .map(|(rate, strategy)| {
            let cell = run(rate, strategy);
            ran();
            cell
        })
        .collect()
}

fn run(rate: f64, strategy: Strategy) -> Cell {
    let mut chance = Chance::seeded(SEED);
    let mut agenda = Agenda::new();
    let policy = strategy.policy();
    let born = agenda.instant();
    let mut clients: Vec<_> = (0..CLIENTS).map(|_| Client { bucket: TokenBucket::new(BUCKET, born), calls: 0.0, failures: 0.0 }).collect();
    let (mut calls, mut sends, mut successes) = (0_u32, 0_u32, 0_u32);
    for client in 0..CLIENTS {
        agenda.plan(chance.gap(CALLS_A_SECOND), Event::Start(client));
    }
    while let Some(event) = agenda.next() {
        match event {
            Event::Start(client) if agenda.now() < UNTIL => {
                agenda.plan(chance.gap(CALLS_A_SECOND), Event::Start(client));
                calls += 1;
                sends += 1;
                clients[client].calls += 1.0;
                clients[client].bucket.deposit(agenda.instant());
                agenda.plan(chance.gap(HOPS_A_SECOND), Event::Arrive(Call { client, sends: 1 }));
            }
            Event::Start(_) => {}
            Event::Arrive(call) => {
                let fate = if chance.happens(rate) { Event::Fail(call) } else { Event::Succeed };
                agenda.plan(chance.gap(HOPS_A_SECOND), fate);
            }
            Event::Succeed => successes += 1,
            Event::Fail(call) => {
                let client = &mut clients[call.client];
                client.failures += 1.0;
                let failure = Signal::Answered(StatusCode::INTERNAL_SERVER_ERROR);
                let situation = Situation::new(Effect::Read, failure, Evidence::Unknown).with_sends(call.sends).with_draw(chance.draw());
                if let Decision::Resend(permit) = policy.decide(&situation) {
                    if client.pays(strategy, agenda.instant()) {
                        sends += 1;
                        let again = Call { sends: call.sends + 1, ..call };
                        agenda.plan(permit.pause() + chance.gap(HOPS_A_SECOND), Event::Arrive(again));
                    }
                }
            }
        }
    }
    let share = |count: u32| f64::from(count) / f64::from(calls);
    Cell { rate, strategy, success: share(successes), load: share(sends), calls: f64::from(calls) }
}

/// Each cell against the published one and the closed forms, and what the article concludes.
pub(crate) fn claims(cells: &[Cell]) -> Vec<Claim> {
    let mut claims = Vec::new();
    for cell in cells {
        let Cell { rate, strategy, success, load, calls } = *cell;
        let at = |what: &str| format!("{strategy:?} at {:.0} % failing, {what}", rate * 100.0);
        // Five standard errors of a share of 30 000 calls, on both sides: sqrt(2 · 1/4 / 30 000) ·
        // 5.
        let about = |theirs: f64| theirs - 0.021..=theirs + 0.021;
        claims.push(Claim::within(at("share that succeeds"), success, about(cell.published("success_ratio"))));
        claims.push(Claim::within(at("sends for a call"), load, about(cell.published("load_ratio"))));
        let of = |strategy| cells.iter().find(|cell| (cell.rate, cell.strategy) == (rate, strategy));
        match strategy {
            Strategy::NoResends => claims.push(Claim::within(at("no call is sent twice"), load, 1.0..=1.0)),
            Strategy::ThreeResends => {
                claims.push(Claim::within(at("success is 1 - f^4"), success, about(1.0 - rate.powi(4))));
                let load_of_four: f64 = (0..4).map(|resend| rate.powi(resend)).sum();
                claims.push(Claim::within(at("load is 1 + f + f^2 + f^3"), load, about(load_of_four)));
            }
            Strategy::Bucket => {
                claims.push(Claim::at_most(at("load is bounded at any rate"), load, 1.1 + 5.0 * CLIENTS as f64 / calls));
                if rate <= 0.05 {
                    claims.push(Claim::at_least(at("what is rare is healed"), success, 0.999));
                }
                let breaker = of(Strategy::Breaker).map_or(f64::NAN, |breaker| breaker.success);
                claims.push(Claim::at_least(at("heals no less than a breaker"), success, breaker - 0.01));
            }
            Strategy::Breaker if rate >= 0.2 => {
                let none = of(Strategy::NoResends).map_or(f64::NAN, |none| none.success);
                claims.push(Claim::within(at("past its threshold it helps no more than no resends"), success, none - 0.021..=none + 0.021));
            }
            Strategy::Breaker => {}
        }
    }
    claims
}
