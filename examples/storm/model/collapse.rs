//! "What is backoff for?" (Marc Brooker, 2022): a server that gets slower with load, and clients
//! that keep it slow.
//!
//! The server takes 1 s + 10 ms × requests in it; clients give up on an attempt after 3 s and try
//! three times. The model is `simple_collapse_sim` of `mbrooker/simulator_example`. It is stuck
//! when less than half succeeds long after the trigger has gone.

use std::{ops::Range, time::Duration};

use reqwest_safe_retry::policy::{Backoff, BudgetLimits, Decision, Effect, Evidence, RetryPolicy, Signal, Situation, TokenBucket};

use super::{agenda::Agenda, chance::Chance, claim::Claim, published};

const HOPS_A_SECOND: f64 = 10.0;
const SERVICE: Duration = Duration::from_secs(1);
const SLOWER_BY: Duration = Duration::from_millis(10);
const ATTEMPT_LIMIT: Duration = Duration::from_secs(3);
const UNTIL: Duration = Duration::from_secs(80);
/// Later than the published windows begin. Our defaults spend twice the published budget, and after
/// the ramp the server needs 10 s longer.
const LATE: Range<f64> = 60.0..75.0;

pub(crate) const CELLS: usize = Trigger::ALL.len() * Client::ALL.len();

/// What overloads the server for a while.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Trigger {
    /// 40 calls a second, 80 for five seconds.
    Spike,
    /// Up to 80 calls a second and down again.
    Ramp,
}

impl Trigger {
    pub(crate) const ALL: [Self; 2] = [Self::Spike, Self::Ramp];

    fn published_as(self) -> &'static str {
        match self {
            Self::Spike => "spike",
            Self::Ramp => "ramp",
        }
    }

    /// Calls a second.
    fn rate(self, second: f64) -> f64 {
        match self {
            Self::Spike if (20.0..=25.0).contains(&second) => 80.0,
            Self::Spike => 40.0,
            Self::Ramp => 80.0 - 1.6 * (second - 25.0).abs(),
        }
    }

    /// When the trigger has long gone.
    fn aftermath(self) -> Range<f64> {
        match self {
            Self::Spike => 60.0..79.0,
            Self::Ramp => 45.0..65.0,
        }
    }
}

/// What a client does when nobody answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Client {
    NoResends,
    AtOnce,
    /// Full jitter below 20 s, then 40 s.
    Jittered,
    /// At once, from a shared budget of 10 % and 5.
    SmallBudget,
    /// This crate's defaults.
    Default,
}

impl Client {
    pub(crate) const ALL: [Self; 5] = [Self::NoResends, Self::AtOnce, Self::Jittered, Self::SmallBudget, Self::Default];

    /// As in the published table, where it is.
    fn published_as(self) -> Option<&'static str> {
        match self {
            Self::NoResends => Some("no_retries"),
            Self::AtOnce => Some("three_tries_no_backoff"),
            Self::Jittered => Some("three_tries_backoff_jitter"),
            Self::SmallBudget => Some("token_bucket_10pct_cap5"),
            Self::Default => None,
        }
    }

    fn policy(self) -> RetryPolicy {
        const AT_ONCE: Backoff = Backoff::doubling(Duration::ZERO, Duration::ZERO);
        const LONG: Backoff = Backoff::doubling(Duration::from_secs(20), Duration::MAX);
        let three = RetryPolicy::DEFAULT.with_attempts(3).with_window(Duration::MAX);
        match self {
            Self::NoResends => three.with_attempts(1),
            Self::AtOnce | Self::SmallBudget => three.with_backoff(AT_ONCE),
            Self::Jittered => three.with_backoff(LONG),
            Self::Default => RetryPolicy::DEFAULT,
        }
    }

    fn budget(self) -> BudgetLimits {
        match self {
            Self::NoResends | Self::AtOnce | Self::Jittered => BudgetLimits::UNLIMITED,
            Self::SmallBudget => BudgetLimits::percent(10).with_reserve(5, 0),
            Self::Default => BudgetLimits::DEFAULT,
        }
    }
}

struct Call {
    started: Duration,
    sends: u32,
    done: bool,
}

/// One send of one call.
#[derive(Clone, Copy)]
struct Attempt {
    call: usize,
    number: u32,
}

enum Event {
    Start,
    Send(Attempt),
    Arrive(Attempt),
    Leave(Attempt),
    Answer(Attempt),
    TimeOut(Attempt),
}

/// One cell of the table.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Cell {
    pub(crate) trigger: Trigger,
    pub(crate) client: Client,
    /// The share of runs that did not come back within the published window.
    pub(crate) stuck: f64,
    /// Nor within the later one.
    pub(crate) stuck_late: f64,
}

impl Cell {
    /// The published share, where there is one.
    pub(crate) fn published(&self) -> Option<f64> {
        let kind = self.client.published_as()?;
        let rows = published::collapse(self.trigger.published_as());
        let row = published::row(&rows, |row| row["kind"] == kind);
        Some(published::number(row, "stuck_after_spike") / published::number(row, "runs"))
    }
}

/// All cells, each of so many runs. `ran` is called after each run.
pub(crate) fn table(runs: u32, ran: impl Fn()) -> Vec<Cell> {
    let cells = Trigger::ALL.iter().flat_map(|&trigger| Client::ALL.map(|client| (trigger, client)));
    cells
        .map(|(trigger, client)| {
            let (mut stuck, mut stuck_late) = (0, 0);
            for seed in 0..u64::from(runs) {
                let [success, late_success] = run(trigger, client, seed);
                stuck += u32::from(success < 0.5);
                stuck_late += u32::from(late_success < 0.5);
                ran();
            }
            let share = |stuck: u32| f64::from(stuck) / f64::from(runs);
            Cell { trigger, client, stuck: share(stuck), stuck_late: share(stuck_late) }
        })
        .collect()
}

/// Successes for each call started, long after the trigger and late.
fn run(trigger: Trigger, client: Client, seed: u64) -> [f64; 2] {
    let mut chance = Chance::seeded(seed);
    let mut agenda = Agenda::new();
    let policy = client.policy();
    let mut bucket = TokenBucket::new(client.budget(), agenda.instant());
    let mut calls: Vec<Call> = Vec::new();
    let windows = [trigger.aftermath(), LATE];
    let (mut in_server, mut starts, mut successes) = (0_u32, [0_u32; 2], [0_u32; 2]);
    agenda.plan(Duration::from_millis(10), Event::Start);
    while let Some(event) = agenda.next() {
        let now = agenda.now();
        if now >= UNTIL {
            break;
        }
        let count = |counts: &mut [u32; 2]| {
            for (count, window) in counts.iter_mut().zip(&windows) {
                *count += u32::from(window.contains(&now.as_secs_f64()));
            }
        };
        match event {
            Event::Start => {
                count(&mut starts);
                bucket.deposit(agenda.instant());
                agenda.plan(Duration::ZERO, Event::Send(Attempt { call: calls.len(), number: 1 }));
                calls.push(Call { started: now, sends: 0, done: false });
                let rate = trigger.rate(now.as_secs_f64());
                if rate > 0.0 {
                    agenda.plan(chance.gap(rate), Event::Start);
                }
            }
            Event::Send(attempt) => {
                calls[attempt.call].sends = attempt.number;
                agenda.plan(ATTEMPT_LIMIT, Event::TimeOut(attempt));
                agenda.plan(chance.gap(HOPS_A_SECOND), Event::Arrive(attempt));
            }
            Event::Arrive(attempt) => {
                in_server += 1;
                agenda.plan(SERVICE + SLOWER_BY * in_server, Event::Leave(attempt));
            }
            Event::Leave(attempt) => {
                in_server -= 1;
                agenda.plan(chance.gap(HOPS_A_SECOND), Event::Answer(attempt));
            }
            Event::Answer(attempt) => {
                let call = &mut calls[attempt.call];
                // Nobody listens any more to an attempt that was given up.
                if call.sends == attempt.number && !call.done {
                    call.done = true;
                    count(&mut successes);
                }
            }
            Event::TimeOut(attempt) => {
                let call = &mut calls[attempt.call];
                if call.done {
                    continue;
                }
                let situation = Situation::new(Effect::Read, Signal::Failed, Evidence::Unknown)
                    .with_sends(call.sends)
                    .with_elapsed(now - call.started)
                    .with_draw(chance.draw());
                call.sends += 1; // an answer to what was given up comes too late
                if let Decision::Resend(permit) = policy.decide(&situation) {
                    if bucket.withdraw(agenda.instant()).is_some() {
                        agenda.plan(permit.pause(), Event::Send(Attempt { number: attempt.number + 1, ..attempt }));
                    }
                }
            }
        }
    }
    [0, 1].map(|window| f64::from(successes[window]) / f64::from(starts[window]))
}

/// Each cell against the published one: backoff cures the spike, only a budget (or no resend at
/// all) cures the ramp.
pub(crate) fn claims(cells: &[Cell], runs: u32) -> Vec<Claim> {
    let claim = |cell: &Cell| {
        let what = format!("{:?}, {:?}, share of runs stuck", cell.trigger, cell.client);
        match cell.published() {
            Some(theirs) => {
                // Three standard errors of the difference of two shares, theirs of 20 runs.
                let allowed = 3.0 * (theirs * (1.0 - theirs) * (1.0 / 20.0 + 1.0 / f64::from(runs))).sqrt();
                Claim::within(what, cell.stuck, theirs - allowed..=theirs + allowed)
            }
            None => Claim::at_most(what, cell.stuck_late, 0.0),
        }
    };
    cells.iter().map(claim).collect()
}
