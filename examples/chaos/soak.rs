//! The run: hundreds of operations at a time, each judged when nothing of it can act any more, and
//! what they leave behind.

use std::sync::{Arc, Mutex};

use anyhow::{Result, anyhow};
use indicatif::ProgressBar;
use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore},
    task::JoinSet,
    time::{Instant, sleep, timeout_at},
};

use crate::{
    caller::carry_out,
    chance::{Chance, Subject},
    fleet::{self, MEMBERS, Member},
    journal::{Journal, lock},
    leftovers::{self, Held},
    limits::{AFTERMATH, CONCURRENCY},
    options::Options,
    person,
    plan::Plan,
    stalls::Longest,
    tally::{self, Tally},
    upstream::{Upstream, database::Database},
    verdict::judge,
};

/// After so many broken promises a run has nothing more to say.
const ENOUGH: u64 = 200;

/// What every operation needs.
struct Stage {
    members: Arc<Vec<Member>>,
    journal: Arc<Journal>,
    database: Arc<Database>,
    tally: Arc<Mutex<Tally>>,
    stalls: Longest,
    /// One operation alone, whose story is told in any case. It has only one place in the journal.
    is_replay: bool,
}

/// What a run came to.
pub(crate) struct Outcome {
    pub(crate) tally: Tally,
    pub(crate) took: std::time::Duration,
    pub(crate) settled: Held,
    pub(crate) full: Held,
}

pub(crate) async fn run(
    options: &Options,
    upstream: &Upstream,
    journal: &Arc<Journal>,
    stalls: Longest,
    bar: &ProgressBar,
) -> Result<Outcome> {
    let before = Held::now();
    let members = Arc::new(fleet::build(&upstream.ports, &upstream.authority, journal)?);
    let person = tokio::spawn(person::look_after(Arc::clone(&members)));
    let stage = Arc::new(Stage {
        members,
        journal: Arc::clone(journal),
        database: Arc::clone(&upstream.database),
        tally: Arc::new(Mutex::new(Tally::new())),
        stalls,
        is_replay: options.replay.is_some(),
    });
    let tally = Arc::clone(&stage.tally);

    let began = Instant::now();
    let settled = admit(options, &stage, began, bar).await?;
    let (took, full) = (began.elapsed(), Held::now());
    person.abort();
    // That it was aborted is no news.
    let _ = person.await;
    drop(stage);

    let breaches = leftovers::look(before, settled, full, &upstream.counts).await;
    let tally = Arc::into_inner(tally).ok_or_else(|| anyhow!("an operation still runs"))?;
    let mut tally = tally.into_inner().map_err(|_| anyhow!("an operation panicked"))?;
    if !breaches.is_empty() {
        tally.break_promises(&breaches, || {
            breaches.iter().map(|breach| format!("  BROKEN  {}: {}\n", breach.promise, breach.how)).collect()
        });
    }
    if let Some(error) = upstream.database.failure() {
        return Err(anyhow!("the upstream's database failed: {error}"));
    }
    Ok(Outcome { tally, took, settled, full })
}

/// Starts operations as others end, and waits for the last. Answers what was held when the run had
/// settled.
async fn admit(options: &Options, stage: &Arc<Stage>, began: Instant, bar: &ProgressBar) -> Result<Held> {
    let until = began + options.limit;
    let gate = Arc::new(Semaphore::new(if stage.is_replay { 1 } else { CONCURRENCY }));
    let (mut settled, mut number) = (None, 0);
    let mut running = JoinSet::new();
    for round in 0.. {
        let seeds = herd(options, round, number);
        let permits = timeout_at(until, Arc::clone(&gate).acquire_many_owned(u32::try_from(seeds.len())?));
        let Ok(permits) = permits.await else { break };
        let (mut permits, breaches) = (permits?, lock(&stage.tally).breaches());
        if seeds.is_empty() || breaches >= ENOUGH || Instant::now() >= until {
            break;
        }
        if settled.is_none() && (began.elapsed() > options.limit / 3 || number > options.operations / 3) {
            settled = Some(Held::now());
        }
        for seed in seeds {
            let permit = permits.split(1).ok_or_else(|| anyhow!("a herd is larger than its permits"))?;
            running.spawn(one(Arc::clone(stage), Plan::of(seed), permit));
            number += 1;
        }
        while let Some(ended) = running.try_join_next() {
            ended??;
        }
        bar.set_position(if options.operations == u64::MAX { began.elapsed().as_secs() } else { number });
        bar.set_message(format!("{number} operations, {breaches} broken promises"));
    }
    while let Some(ended) = running.join_next().await {
        ended??;
    }
    Ok(settled.unwrap_or_else(Held::now))
}

/// The seeds of operations that begin together, by one client: what happens to a connection then
/// meets several in the act.
fn herd(options: &Options, round: u64, first: u64) -> Vec<u64> {
    let left = options.operations - first;
    if let Some(operation) = options.replay {
        return std::iter::repeat_n(operation, usize::from(left > 0)).collect();
    }
    let mut chance = Chance::of(options.seed, Subject::Herd(round));
    let (size, member) = (chance.weighted(&[(4, 1), (2, 4), (1, 16)]), chance.bits() % MEMBERS as u64);
    let seed = |number| (Chance::of(options.seed, Subject::Operation(number)).bits() >> 8) * MEMBERS as u64 + member;
    (first..first + left.min(size)).map(seed).collect()
}

/// One operation, from its plan to its verdict.
async fn one(stage: Arc<Stage>, plan: Plan, permit: OwnedSemaphorePermit) -> Result<()> {
    let seed = plan.seed;
    let member = &stage.members[plan.member];
    stage.journal.open(plan.clone());
    let ended = carry_out(member, &plan, &stage.journal).await?;
    // Others may begin meanwhile, unless it is the same one.
    let permit = stage.is_replay.then_some(permit);
    sleep(AFTERMATH).await;
    let record = stage.journal.close(seed).ok_or_else(|| anyhow!("an operation is missing in the journal"))?;
    let applied = stage.database.applied(seed);
    stage.database.forget(seed);
    let breaches = judge(&record, applied, &ended.reports, stage.stalls.grace());
    if stage.is_replay {
        let (road, wire) = (member.road, member.wire);
        println!("{road:?} over {wire:?}: {}", tally::story(&record, &ended.reports, &breaches));
    }
    lock(&stage.tally).add(&record, applied, &ended, &breaches);
    drop(permit);
    Ok(())
}
