//! An outage of 30 s, and what the clients make of the time after it.
//!
//! Many clients, spread over instances of an application that each share one budget and one
//! cool-down, start operations at random times. One server works first come, first served. During
//! the outage it takes requests and answers none of them; its queue fills, and what does not fit is
//! refused with 503. A client waits 1 s for an attempt and 10 s for the operation. The server does
//! not notice that a client has given up: it works on what nobody waits for any more, and that is
//! how a storm outlives its cause.

use std::{collections::VecDeque, time::Duration};

use http::StatusCode;
use reqwest_safe_retry::policy::{
    Backoff, BudgetLimits, Decision, Effect, Evidence, Jitter, RetryPolicy, SharedWait, Signal, Situation, TokenBucket,
    defaults::{BACKOFF, THROTTLE_BACKOFF},
};

use super::{agenda::Agenda, chance::Chance, claim::Claim};

const HOP: Duration = Duration::from_millis(10);
const ATTEMPT_LIMIT: Duration = Duration::from_secs(1);
const DEADLINE: Duration = Duration::from_secs(10);
const RETRY_AFTER: Duration = Duration::from_secs(30);
/// The share of answers that fail for no reason, at any time: what resends are good for.
const BAD_LUCK: f64 = 0.01;

/// When what happens.
pub(crate) const BEGINS: u32 = 30;
pub(crate) const ENDS: u32 = BEGINS + 30;

/// How large the scene is. The shape of the curves does not depend on it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Scene {
    pub(crate) instances: u32,
    pub(crate) clients_each: u32,
    /// Operations a second, of all clients together.
    pub(crate) offered: u32,
    /// Requests a second that the server can answer.
    pub(crate) capacity: u32,
    pub(crate) seconds: u32,
}

impl Scene {
    pub(crate) const FULL: Self = Self { instances: 50, clients_each: 60, offered: 600, capacity: 1000, seconds: 180 };
    /// A fifth of it, for quick runs.
    pub(crate) const SMALL: Self = Self { instances: 10, clients_each: 60, offered: 120, capacity: 200, seconds: 120 };

    fn service(&self) -> Duration {
        Duration::from_secs(1) / self.capacity
    }

    /// Two seconds of work.
    fn queue(&self) -> usize {
        2 * self.capacity as usize
    }
}

/// What the clients do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Behaviour {
    NoResends,
    AtOnce,
    Unjittered,
    Jittered,
    /// This crate's defaults.
    Budget,
    /// And what the server asked of one operation holds back the resends of its whole instance.
    CoolDown,
    /// First sends too: they wait within their deadline, or fail at once.
    CoolDownOfAll,
}

impl Behaviour {
    pub(crate) const ALL: [Self; 7] =
        [Self::NoResends, Self::AtOnce, Self::Unjittered, Self::Jittered, Self::Budget, Self::CoolDown, Self::CoolDownOfAll];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::NoResends => "No resends",
            Self::AtOnce => "Three tries, at once",
            Self::Unjittered => "Backoff, no jitter",
            Self::Jittered => "Backoff, full jitter",
            Self::Budget => "Full jitter + budget",
            Self::CoolDown => "Budget + cool-down",
            Self::CoolDownOfAll => "… of first sends too",
        }
    }

    fn policy(self) -> RetryPolicy {
        const NO_PAUSE: Backoff = Backoff::doubling(Duration::ZERO, Duration::ZERO);
        let with = |backoff, throttled| RetryPolicy::DEFAULT.with_backoff(backoff).with_throttle_backoff(throttled);
        match self {
            Self::NoResends => RetryPolicy::DEFAULT.with_attempts(1),
            Self::AtOnce => with(NO_PAUSE, NO_PAUSE),
            Self::Unjittered => with(BACKOFF.with_jitter(Jitter::None), THROTTLE_BACKOFF.with_jitter(Jitter::None)),
            Self::Jittered | Self::Budget | Self::CoolDown | Self::CoolDownOfAll => RetryPolicy::DEFAULT,
        }
    }

    fn budget(self) -> BudgetLimits {
        match self {
            Self::NoResends | Self::AtOnce | Self::Unjittered | Self::Jittered => BudgetLimits::UNLIMITED,
            Self::Budget | Self::CoolDown | Self::CoolDownOfAll => BudgetLimits::DEFAULT,
        }
    }

    /// What the refusals of the outage ask for: only these two would share it.
    fn hint(self) -> Option<Duration> {
        matches!(self, Self::CoolDown | Self::CoolDownOfAll).then_some(RETRY_AFTER)
    }
}

/// What happened in one second.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Second {
    /// Operations started by the clients.
    pub(crate) operations: u32,
    /// Of those, how many succeeded in the end.
    pub(crate) healed: u32,
    /// Requests sent.
    pub(crate) sends: u32,
    /// Answers that a client still waited for.
    pub(crate) goodput: u32,
}

/// One run.
#[derive(Debug)]
pub(crate) struct Storm {
    pub(crate) behaviour: Behaviour,
    pub(crate) scene: Scene,
    pub(crate) seconds: Vec<Second>,
    /// Pauses that would end before what the server had asked.
    too_early: u32,
}

impl Storm {
    /// Seconds from the end of the outage until nine of ten operations succeed, and go on to;
    /// `None`: not within the run.
    pub(crate) fn recovery(&self) -> Option<u32> {
        let settled = &self.seconds[..self.settled() as usize];
        let served = |second: &Second| second.healed * 10 >= second.operations * 9;
        let since = settled.iter().rposition(|second| !served(second)).map_or(0, |last| last as u32 + 1);
        (since + 10 < self.settled()).then(|| since.saturating_sub(ENDS))
    }

    /// How many seconds there are whose operations have all ended.
    pub(crate) fn settled(&self) -> u32 {
        self.scene.seconds - DEADLINE.as_secs() as u32
    }

    /// Requests sent for each operation, in these seconds.
    pub(crate) fn load(&self, from: u32, to: u32) -> f64 {
        self.sum(from, to, |second| second.sends) / self.sum(from, to, |second| second.operations)
    }

    /// The share of the operations started in these seconds that failed in the end.
    pub(crate) fn failed(&self, from: u32, to: u32) -> f64 {
        1.0 - self.sum(from, to, |second| second.healed) / self.sum(from, to, |second| second.operations)
    }

    /// The most requests sent in a second.
    pub(crate) fn peak(&self) -> u32 {
        self.seconds.iter().map(|second| second.sends).max().unwrap_or_default()
    }

    fn sum(&self, from: u32, to: u32, of: impl Fn(&Second) -> u32) -> f64 {
        self.seconds[from as usize..to as usize].iter().map(|second| f64::from(of(second))).sum()
    }
}

/// What the picture has to show, of one run of each behaviour.
pub(crate) fn claims(storms: &[Storm]) -> Vec<Claim> {
    storms.iter().flat_map(claims_of).collect()
}

fn claims_of(storm: &Storm) -> Vec<Claim> {
    let calm = storm.failed(0, BEGINS - DEADLINE.as_secs() as u32);
    let (out, after) = (storm.load(BEGINS, ENDS), storm.failed(ENDS + 30, storm.settled()));
    let recovery = storm.recovery().map_or(f64::INFINITY, f64::from);
    let says = |what| format!("{}: {what}", storm.behaviour.name());
    let heals_bad_luck = Claim::at_most(says("share that fails before the outage"), calm, 0.001);
    let comes_back_within = |seconds| Claim::at_most(says("seconds to recover"), recovery, seconds);
    match storm.behaviour {
        Behaviour::NoResends => {
            vec![Claim::within(says("share that fails before the outage"), calm, 0.5 * BAD_LUCK..=2.0 * BAD_LUCK), comes_back_within(10.0)]
        }
        Behaviour::AtOnce | Behaviour::Unjittered | Behaviour::Jittered => vec![
            heals_bad_luck,
            Claim::at_least(says("requests for an operation in the outage"), out, 2.5),
            Claim::at_least(says("share that fails half a minute after the outage and ever since"), after, 0.9),
        ],
        Behaviour::Budget => {
            let BudgetTerms { granted, promised } = storm.budget_terms();
            vec![heals_bad_luck, comes_back_within(15.0), Claim::at_most(says("resends in the outage, as promised"), granted, promised)]
        }
        Behaviour::CoolDown => vec![
            heals_bad_luck,
            comes_back_within(10.0),
            Claim::at_most(says("requests for an operation in the outage"), out, 1.1),
            Claim::at_most(says("pauses shorter than asked"), storm.too_early.into(), 0.0),
        ],
        Behaviour::CoolDownOfAll => vec![
            heals_bad_luck,
            comes_back_within(20.0), // those who were held back come together, and the budget breaks the wave
            Claim::at_most(says("requests for an operation in the outage"), out, 0.25),
            Claim::at_most(says("pauses shorter than asked"), storm.too_early.into(), 0.0),
        ],
    }
}

/// How many resends went out in the outage, and how many the budgets promised to let out at most.
struct BudgetTerms {
    granted: f64,
    promised: f64,
}

impl Storm {
    fn budget_terms(&self) -> BudgetTerms {
        let limits = self.behaviour.budget();
        let operations = |from| self.sum(from, ENDS, |second| second.operations);
        let remembered = BEGINS - limits.memory().as_secs() as u32;
        let reserves = self.scene.instances * (limits.reserve() + limits.refill_per_second() * (ENDS - BEGINS));
        BudgetTerms {
            granted: self.sum(BEGINS, ENDS, |second| second.sends) - operations(BEGINS),
            promised: f64::from(limits.share()) / 1e6 * operations(remembered) + f64::from(reserves),
        }
    }
}

struct Instance {
    bucket: TokenBucket,
    cooling_until: Duration,
    /// How long it was asked to cool down.
    told: Duration,
}

struct Operation {
    instance: usize,
    started: Duration,
    sends: u32,
    state: State,
}

#[derive(PartialEq)]
enum State {
    Sent,
    Pausing,
    Ended,
}

#[derive(Clone, Copy)]
struct Attempt {
    operation: usize,
    number: u32,
}

#[derive(Clone, Copy)]
enum Answer {
    Done,
    BadLuck,
    Refused(Option<Duration>),
}

enum Event {
    OutageEnds,
    Start,
    /// The end of a pause, or of being held back.
    Send(usize),
    Arrive(Attempt),
    Serve,
    Answer(Attempt, Answer),
    TimeOut(Attempt),
}

/// One run of one behaviour.
pub(crate) fn run(behaviour: Behaviour, scene: Scene, seed: u64) -> Storm {
    let mut world = World::new(behaviour, scene, seed);
    while let Some(event) = world.agenda.next() {
        if world.now() >= Duration::from_secs(scene.seconds.into()) {
            break;
        }
        world.happen(event);
    }
    world.storm
}

struct World {
    agenda: Agenda<Event>,
    chance: Chance,
    policy: RetryPolicy,
    instances: Vec<Instance>,
    operations: Vec<Operation>,
    queue: VecDeque<Attempt>,
    server: Server,
    storm: Storm,
}

#[derive(PartialEq)]
enum Server {
    Idle,
    Busy,
}

impl World {
    fn new(behaviour: Behaviour, scene: Scene, seed: u64) -> Self {
        let mut agenda = Agenda::new();
        agenda.plan(Duration::from_secs(ENDS.into()), Event::OutageEnds);
        agenda.plan(Duration::ZERO, Event::Start);
        let born = agenda.instant();
        let instance =
            |_| Instance { bucket: TokenBucket::new(behaviour.budget(), born), cooling_until: Duration::ZERO, told: Duration::ZERO };
        Self {
            agenda,
            chance: Chance::seeded(seed),
            policy: behaviour.policy(),
            instances: (0..scene.instances).map(instance).collect(),
            operations: Vec::new(),
            queue: VecDeque::new(),
            server: Server::Idle,
            storm: Storm { behaviour, scene, seconds: vec![Second::default(); scene.seconds as usize], too_early: 0 },
        }
    }

    fn now(&self) -> Duration {
        self.agenda.now()
    }

    fn second(&mut self, at: Duration) -> &mut Second {
        &mut self.storm.seconds[at.as_secs() as usize]
    }

    fn is_out(&self) -> bool {
        (u64::from(BEGINS)..u64::from(ENDS)).contains(&self.now().as_secs())
    }

    fn happen(&mut self, event: Event) {
        match event {
            Event::OutageEnds => self.work(),
            Event::Start => self.start(),
            Event::Send(operation) => self.send(operation),
            Event::Arrive(attempt) => self.arrive(attempt),
            Event::Serve => self.serve(),
            Event::Answer(attempt, answer) => self.answered(attempt, answer),
            Event::TimeOut(attempt) if self.awaited(attempt) => self.ended(attempt, Signal::Failed, None),
            Event::TimeOut(_) => {}
        }
    }

    // ===== the server =====

    fn arrive(&mut self, attempt: Attempt) {
        if self.queue.len() < self.storm.scene.queue() {
            self.queue.push_back(attempt);
            self.work();
        } else {
            let hint = self.storm.behaviour.hint().filter(|_| self.is_out());
            self.agenda.plan(HOP, Event::Answer(attempt, Answer::Refused(hint)));
        }
    }

    fn work(&mut self) {
        if self.server == Server::Idle && !self.is_out() && !self.queue.is_empty() {
            self.server = Server::Busy;
            self.agenda.plan(self.storm.scene.service(), Event::Serve);
        }
    }

    fn serve(&mut self) {
        self.server = Server::Idle;
        if let Some(attempt) = self.queue.pop_front() {
            let answer = if self.chance.happens(BAD_LUCK) { Answer::BadLuck } else { Answer::Done };
            self.agenda.plan(HOP, Event::Answer(attempt, answer));
        }
        self.work();
    }

    // ===== the clients =====

    fn start(&mut self) {
        let (now, scene) = (self.now(), self.storm.scene);
        self.agenda.plan(self.chance.gap(scene.offered.into()), Event::Start);
        self.second(now).operations += 1;
        let client = self.chance.one_of((scene.instances * scene.clients_each) as usize);
        let instance = client / scene.clients_each as usize;
        self.operations.push(Operation { instance, started: now, sends: 0, state: State::Pausing });
        self.send(self.operations.len() - 1);
    }

    /// Sends, unless the cool-down holds the operation back.
    fn send(&mut self, index: usize) {
        let (now, draw) = (self.now(), self.chance.draw());
        let operation = &mut self.operations[index];
        let instance = &mut self.instances[operation.instance];
        let elapsed = now - operation.started;
        let wait = instance.cooling_until.saturating_sub(now);
        let concerned = operation.sends > 0 || self.storm.behaviour == Behaviour::CoolDownOfAll;
        if concerned && !wait.is_zero() {
            let held_back =
                SharedWait::new(wait, instance.told).with_elapsed(elapsed).with_time_left(DEADLINE.saturating_sub(elapsed)).with_draw(draw);
            match self.policy.hold_back(&held_back) {
                Ok(pause) if pause < wait => {
                    self.storm.too_early += 1;
                    operation.state = State::Ended;
                }
                Ok(pause) => self.agenda.plan(pause, Event::Send(index)),
                Err(_) => operation.state = State::Ended,
            }
            return;
        }
        if operation.sends == 0 {
            instance.bucket.deposit(self.agenda.instant());
        }
        operation.sends += 1;
        operation.state = State::Sent;
        let attempt = Attempt { operation: index, number: operation.sends };
        self.agenda.plan(HOP, Event::Arrive(attempt));
        self.agenda.plan(ATTEMPT_LIMIT.min(DEADLINE.saturating_sub(elapsed)), Event::TimeOut(attempt));
        self.second(now).sends += 1;
    }

    fn awaited(&self, attempt: Attempt) -> bool {
        let operation = &self.operations[attempt.operation];
        operation.sends == attempt.number && operation.state == State::Sent
    }

    fn answered(&mut self, attempt: Attempt, answer: Answer) {
        if !self.awaited(attempt) {
            return;
        }
        match answer {
            Answer::Done => {
                let operation = &mut self.operations[attempt.operation];
                operation.state = State::Ended;
                let started = operation.started;
                self.second(started).healed += 1;
                let now = self.now();
                self.second(now).goodput += 1;
            }
            Answer::BadLuck => self.ended(attempt, Signal::Answered(StatusCode::INTERNAL_SERVER_ERROR), None),
            Answer::Refused(hint) => self.ended(attempt, Signal::Answered(StatusCode::SERVICE_UNAVAILABLE), hint),
        }
    }

    /// An attempt came to nothing: the policy decides, the budget pays.
    fn ended(&mut self, attempt: Attempt, signal: Signal, hint: Option<Duration>) {
        let (now, draw) = (self.now(), self.chance.draw());
        let operation = &mut self.operations[attempt.operation];
        let instance = &mut self.instances[operation.instance];
        if let Some(hint) = hint {
            instance.cooling_until = instance.cooling_until.max(now + hint);
            instance.told = hint;
        }
        let asked = Some(instance.cooling_until.saturating_sub(now)).filter(|wait| !wait.is_zero());
        let elapsed = now - operation.started;
        let situation = Situation::new(Effect::Read, signal, Evidence::Unknown)
            .with_hint(asked.map(Ok))
            .with_sends(operation.sends)
            .with_elapsed(elapsed)
            .with_time_left(DEADLINE.saturating_sub(elapsed))
            .with_draw(draw);
        operation.state = State::Ended;
        if let Decision::Resend(permit) = self.policy.decide(&situation) {
            if instance.bucket.withdraw(self.agenda.instant()).is_some() {
                operation.state = State::Pausing;
                self.storm.too_early += u32::from(asked.is_some_and(|wait| permit.pause() < wait));
                self.agenda.plan(permit.pause(), Event::Send(attempt.operation));
            }
        }
    }
}
