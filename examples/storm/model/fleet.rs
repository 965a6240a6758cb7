//! What a fleet gets from budgets that know nothing of each other.
//!
//! Some number of processes share the same traffic, 40 operations a second in all. Each has a
//! budget of its own: shares of the traffic add up to the same share of all of it, reserves add up
//! to as many reserves as there are processes. Once everything fails, once one attempt in a hundred
//! does.

use std::time::Duration;

use reqwest_safe_retry::policy::{BudgetLimits, Decision, Effect, Evidence, RetryPolicy, Signal, Situation, TokenBucket};

use super::{agenda::Agenda, chance::Chance, claim::Claim};

/// Operations a second, of all processes together.
const OFFERED: f64 = 40.0;
const OUTAGE: Duration = Duration::from_secs(60);
const EVERYDAY: Duration = Duration::from_secs(1_800);
/// The share of attempts that fail on any day.
const BAD_LUCK: f64 = 0.01;

const PROCESSES: [usize; 10] = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1_000];
pub(crate) const CELLS: usize = PROCESSES.len() * Budget::ALL.len();

/// The budget that every process has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Budget {
    Default,
    Fleet,
    /// As `Fleet`, and what was saved can be spent for a minute.
    FleetMinute,
    /// One bucket that all processes pay from, as if asking it cost nothing: what sharing could
    /// reach at best.
    Shared,
}

impl Budget {
    pub(crate) const ALL: [Self; 4] = [Self::Default, Self::Fleet, Self::FleetMinute, Self::Shared];

    fn limits(self) -> BudgetLimits {
        match self {
            Self::Default | Self::Shared => BudgetLimits::DEFAULT,
            Self::Fleet => BudgetLimits::FLEET,
            Self::FleetMinute => BudgetLimits::FLEET.with_memory(Duration::from_secs(60)),
        }
    }

    /// Which bucket a process pays from.
    fn bucket(self, process: usize) -> usize {
        match self {
            Self::Default | Self::Fleet | Self::FleetMinute => process,
            Self::Shared => 0,
        }
    }
}

/// What a fleet of one size got from one kind of budget.
#[derive(Debug)]
pub(crate) struct Cell {
    pub(crate) processes: usize,
    pub(crate) budget: Budget,
    /// Requests for an operation while everything fails.
    pub(crate) load: f64,
    /// The share of the operations whose first attempt had bad luck that succeeded in the end.
    pub(crate) healed: f64,
}

pub(crate) fn table(ran: impl Fn()) -> Vec<Cell> {
    let sizes = PROCESSES.into_iter().flat_map(|processes| Budget::ALL.map(|budget| (processes, budget)));
    sizes
        .map(|(processes, budget)| {
            let outage = Fleet::new(processes, budget, 1.0).run(OUTAGE);
            let everyday = Fleet::new(processes, budget, BAD_LUCK).run(EVERYDAY);
            ran();
            Cell {
                processes,
                budget,
                load: f64::from(outage.sends) / f64::from(outage.operations),
                healed: f64::from(everyday.healed) / f64::from(everyday.unlucky),
            }
        })
        .collect()
}

pub(crate) fn claims(cells: &[Cell]) -> Vec<Claim> {
    cells.iter().flat_map(claims_of).collect()
}

fn claims_of(cell: &Cell) -> Vec<Claim> {
    let says = |what: &str| format!("fleet of {}, {:?}: {what}", cell.processes, cell.budget);
    let (load, healed) = (says("requests for an operation in an outage"), says("share of bad luck healed"));
    match cell.budget {
        Budget::Default if cell.processes >= 100 => vec![Claim::at_least(load, cell.load, 2.9), Claim::at_least(healed, cell.healed, 0.95)],
        Budget::Default => vec![Claim::at_least(healed, cell.healed, 0.95)],
        Budget::Fleet | Budget::FleetMinute => {
            let least = if cell.processes <= 20 { 0.95 } else { 0.0 };
            vec![Claim::at_most(load, cell.load, 1.2), Claim::at_least(healed, cell.healed, least)]
        }
        // A fifth, and one reserve with what refills it.
        Budget::Shared => vec![Claim::at_most(load, cell.load, 1.26), Claim::at_least(healed, cell.healed, 0.95)],
    }
}

#[derive(Default)]
struct Count {
    operations: u32,
    sends: u32,
    unlucky: u32,
    healed: u32,
}

enum Event {
    Start,
    /// The end of a pause: the operation is sent again.
    Resend(Operation),
}

#[derive(Clone, Copy)]
struct Operation {
    bucket: usize,
    started: Duration,
    sends: u32,
}

struct Fleet {
    agenda: Agenda<Event>,
    chance: Chance,
    budget: Budget,
    processes: usize,
    buckets: Vec<TokenBucket>,
    failing: f64,
    count: Count,
}

impl Fleet {
    fn new(processes: usize, budget: Budget, failing: f64) -> Self {
        let mut agenda = Agenda::new();
        agenda.plan(Duration::ZERO, Event::Start);
        let buckets = vec![TokenBucket::new(budget.limits(), agenda.instant()); processes];
        Self { agenda, chance: Chance::seeded(processes as u64), budget, processes, buckets, failing, count: Count::default() }
    }

    /// Operations start for so long, and all of them end.
    fn run(mut self, time: Duration) -> Count {
        while let Some(event) = self.agenda.next() {
            match event {
                Event::Start if self.agenda.now() < time => self.start(),
                Event::Start => {}
                Event::Resend(operation) => self.send(operation),
            }
        }
        self.count
    }

    fn start(&mut self) {
        self.agenda.plan(self.chance.gap(OFFERED), Event::Start);
        let bucket = self.budget.bucket(self.chance.one_of(self.processes));
        self.buckets[bucket].deposit(self.agenda.instant());
        self.count.operations += 1;
        self.send(Operation { bucket, started: self.agenda.now(), sends: 0 });
    }

    fn send(&mut self, mut operation: Operation) {
        operation.sends += 1;
        self.count.sends += 1;
        let failed = self.chance.happens(self.failing);
        self.count.unlucky += u32::from(failed && operation.sends == 1);
        self.count.healed += u32::from(!failed && operation.sends > 1);
        if failed {
            self.decide(operation);
        }
    }

    fn decide(&mut self, operation: Operation) {
        let situation = Situation::new(Effect::Read, Signal::Failed, Evidence::Unknown)
            .with_sends(operation.sends)
            .with_elapsed(self.agenda.now() - operation.started)
            .with_draw(self.chance.draw());
        if let Decision::Resend(permit) = RetryPolicy::DEFAULT.decide(&situation) {
            if self.buckets[operation.bucket].withdraw(self.agenda.instant()).is_some() {
                self.agenda.plan(permit.pause(), Event::Resend(operation));
            }
        }
    }
}
