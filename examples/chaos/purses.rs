//! What may be spent on resends and probes, counted once more without the crate.
//!
//! From the start of a run on, no more than `share · operations + reserve + refill · seconds` is
//! granted for one origin, whoever shares the budget. What is asked before the first send is free, and
//! so is the last look. Nobody outside knows which one that was: of each operation, the last probe
//! is not counted.

use std::sync::{
    Mutex,
    atomic::{AtomicU64, Ordering},
};

use reqwest_safe_retry::BudgetLimits;
use tokio::time::Instant;

use crate::{
    journal::{Kind, lock},
    promise::{Breach, Promise},
};

/// One budget's purse at one origin.
pub(crate) struct Purse {
    /// `None`: what is granted is left to chance.
    limits: Option<BudgetLimits>,
    opened: Instant,
    operations: AtomicU64,
    spent: Mutex<u64>,
}

impl Purse {
    pub(crate) fn new(limits: Option<BudgetLimits>) -> Self {
        Self { limits, opened: Instant::now(), operations: AtomicU64::new(0), spent: Mutex::default() }
    }

    /// Before each operation.
    pub(crate) fn operation(&self) {
        self.operations.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts what is sent, and says so when it is too much.
    pub(crate) fn pays(&self, kind: Kind, before: &[Kind], now: Instant) -> Option<Breach> {
        let limits = self.limits?;
        let sent = before.iter().skip_while(|kind| **kind == Kind::Probe);
        let is_resend = u64::from(kind == Kind::Attempt && sent.clone().next().is_some());
        let probe_was_not_the_last = u64::from(sent.last() == Some(&Kind::Probe));
        let mut spent = lock(&self.spent);
        *spent += probe_was_not_the_last + is_resend;
        let allowed = self.allowed(limits, now);
        let how = || format!("{spent} resends and probes, where {allowed} are allowed");
        (*spent > allowed).then(|| Breach::of(Promise::WithinBudget, how()))
    }

    fn allowed(&self, limits: BudgetLimits, now: Instant) -> u64 {
        let earned = self.operations.load(Ordering::Relaxed) * u64::from(limits.share()) / 1_000_000;
        let seconds = now.saturating_duration_since(self.opened).as_secs() + 1;
        earned + u64::from(limits.reserve()) + u64::from(limits.refill_per_second()) * seconds
    }
}
