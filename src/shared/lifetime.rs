//! How long budgets live: a program that builds a client for each request shows itself by many
//! short lives.
//!
//! What counts is one number for the whole process. It is written when a budget is dropped, and
//! read without a lock, so that an operation pays nothing for it.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::platform::Instant;
use crate::policy::defaults;

/// The budgets that were used and dropped while they were young.
static SHORT_LIVED: AtomicU64 = AtomicU64::new(0);

/// The life of one budget.
pub(crate) struct Lifetime {
    began: Instant,
}

impl Lifetime {
    pub(crate) fn begin() -> Self {
        Self { began: Instant::now() }
    }

    /// The end of a budget that was used.
    pub(crate) fn end(&self) {
        if self.is_young() {
            SHORT_LIVED.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Whether it is young, and many others ended young.
    pub(crate) fn is_one_of_many(&self) -> bool {
        SHORT_LIVED.load(Ordering::Relaxed) >= defaults::MANY_BUDGETS && self.is_young()
    }

    fn is_young(&self) -> bool {
        self.began.elapsed() < defaults::YOUNG_BUDGET
    }
}
