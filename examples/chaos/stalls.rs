//! How long a thread of this process waits for a core: what a limit of time was overrun by may come
//! from there.

#![expect(clippy::disallowed_methods, reason = "the machine's time is what this measures")]

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
        mpsc::{Receiver, RecvTimeoutError, Sender, channel},
    },
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use anyhow::{Result, anyhow};

use crate::{
    histogram::Histogram,
    limits::{GRACE, MOST_GRACE},
};

const EVERY: Duration = Duration::from_millis(10);

/// A thread that wants to wake again and again, and counts how late it does.
pub(crate) struct Stalls {
    end: Sender<()>,
    thread: JoinHandle<Histogram>,
    longest: Longest,
}

/// The longest stall so far.
#[derive(Clone, Default)]
pub(crate) struct Longest(Arc<AtomicU64>);

impl Longest {
    /// How late a task may get its turn between the crate's look at the clock and the judge's: no
    /// code can keep the machine from taking its core away there.
    pub(crate) fn grace(&self) -> Duration {
        Duration::from_micros(self.0.load(Ordering::Relaxed)).clamp(GRACE, MOST_GRACE)
    }

    fn add(&self, stall: Duration) {
        self.0.fetch_max(u64::try_from(stall.as_micros()).unwrap_or(u64::MAX), Ordering::Relaxed);
    }
}

impl Stalls {
    pub(crate) fn watch() -> Self {
        let (end, ended) = channel();
        let longest = Longest::default();
        let of_thread = longest.clone();
        Self { end, thread: thread::spawn(move || count(&ended, &of_thread)), longest }
    }

    pub(crate) fn longest(&self) -> Longest {
        self.longest.clone()
    }

    pub(crate) fn counted(self) -> Result<Histogram> {
        drop(self.end);
        self.thread.join().map_err(|_| anyhow!("the thread that counts stalls"))
    }
}

fn count(ended: &Receiver<()>, longest: &Longest) -> Histogram {
    let mut late = Histogram::new();
    loop {
        let asleep = Instant::now();
        if ended.recv_timeout(EVERY) != Err(RecvTimeoutError::Timeout) {
            return late;
        }
        let stall = asleep.elapsed().saturating_sub(EVERY);
        late.add(stall);
        longest.add(stall);
    }
}
