//! What a run adds up to.

use std::{collections::BTreeMap, time::Duration};

use reqwest_safe_retry::RetryReport;
use tokio::time::Instant;

use crate::{
    caller::{Ended, How},
    class::Class,
    fleet::MEMBERS,
    histogram::Histogram,
    journal::{Kind, Record},
    promise::{Breach, Promise},
};

/// How many stories are kept of operations that broke the same promise.
const KEPT: usize = 3;

pub(crate) struct Tally {
    began: Instant,
    pub(crate) classes: BTreeMap<Class, Row>,
    /// Of each of the fleet's clients: its operations, and those that were answered.
    pub(crate) members: [(u64, u64); MEMBERS],
    /// How much later than their deadline calls ended, of those that did.
    pub(crate) overshoots: Histogram,
    pub(crate) broken: BTreeMap<Promise, Broken>,
    /// The first operations that broke it, each with its story.
    stories: BTreeMap<Promise, Vec<String>>,
    pub(crate) worst_late: Duration,
}

/// How often a promise was broken.
pub(crate) struct Broken {
    pub(crate) times: u64,
    /// How long the run had lasted when that was first seen.
    pub(crate) first_after: Duration,
}

/// The operations of one class.
#[derive(Default)]
pub(crate) struct Row {
    pub(crate) operations: u64,
    how: BTreeMap<How, u64>,
    pub(crate) calls: u64,
    pub(crate) attempts: u64,
    pub(crate) probes: u64,
    pub(crate) heads: u64,
    pub(crate) applied: u64,
}

impl Row {
    /// How many ended like this.
    pub(crate) fn how(&self, how: How) -> u64 {
        self.how.get(&how).copied().unwrap_or_default()
    }
}

impl Tally {
    pub(crate) fn new() -> Self {
        Self {
            began: Instant::now(),
            classes: BTreeMap::new(),
            members: [(0, 0); MEMBERS],
            overshoots: Histogram::new(),
            broken: BTreeMap::new(),
            stories: BTreeMap::new(),
            worst_late: Duration::ZERO,
        }
    }

    pub(crate) fn operations(&self) -> u64 {
        self.classes.values().map(|row| row.operations).sum()
    }

    /// How often a promise was broken.
    pub(crate) fn breaches(&self) -> u64 {
        self.broken.values().map(|broken| broken.times).sum()
    }

    /// Adds an operation that has been judged.
    pub(crate) fn add(&mut self, record: &Record, applied: u64, ended: &Ended, breaches: &[Breach]) {
        let row = self.classes.entry(record.plan.class).or_default();
        let sends = |kind| record.sends.iter().filter(|send| send.kind == kind).count() as u64;
        if let Some((operations, answered)) = self.members.get_mut(record.plan.member) {
            *operations += 1;
            *answered += u64::from(ended.how == How::Answered);
        }
        row.operations += 1;
        *row.how.entry(ended.how).or_default() += 1;
        row.calls += record.calls.len() as u64;
        row.attempts += sends(Kind::Attempt);
        row.probes += sends(Kind::Probe);
        row.heads += record.heads.len() as u64;
        row.applied += applied;
        ended.overshoots.iter().for_each(|late| self.overshoots.add(*late));
        for send in &record.sends {
            let deadline = record.calls.get(send.call).and_then(|call| call.deadline);
            let late = deadline.map_or(Duration::ZERO, |deadline| send.began.saturating_duration_since(deadline));
            self.worst_late = self.worst_late.max(late);
        }
        self.break_promises(breaches, || story(record, &ended.reports, breaches));
    }

    pub(crate) fn break_promises(&mut self, breaches: &[Breach], story: impl Fn() -> String) {
        for (number, breach) in breaches.iter().enumerate() {
            let first_after = self.began.elapsed();
            self.broken.entry(breach.promise).or_insert(Broken { times: 0, first_after }).times += 1;
            let kept = self.stories.entry(breach.promise).or_default();
            let is_told = breaches[..number].iter().any(|told| told.promise == breach.promise);
            if kept.len() < KEPT && !is_told {
                kept.push(story());
            }
        }
    }

    /// What is told at the end. An operation that broke several promises may be told for each.
    pub(crate) fn stories(&self) -> impl Iterator<Item = &String> {
        self.stories.values().flatten()
    }
}

/// An operation as a person reads it: what was planned, what was seen, what the crate says about
/// each call.
pub(crate) fn story(record: &Record, reports: &[RetryReport], breaches: &[Breach]) -> String {
    let mut story = format!("{}\n{record}", record.plan);
    for report in reports {
        story.push_str(&format!("{report}\n"));
    }
    for Breach { promise, how } in breaches {
        story.push_str(&format!("  BROKEN  {promise}: {how}\n"));
    }
    story
}
