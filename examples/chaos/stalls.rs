//! How long a thread of this process waits for a core: what a limit of time was overrun by may come
//! from there.

#![expect(clippy::disallowed_methods, reason = "the machine's time is what this measures")]

use std::{
    sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel},
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use anyhow::{Result, anyhow};

use crate::histogram::Histogram;

const EVERY: Duration = Duration::from_millis(10);

/// A thread that wants to wake again and again, and counts how late it does.
pub(crate) struct Stalls {
    end: Sender<()>,
    thread: JoinHandle<Histogram>,
}

impl Stalls {
    pub(crate) fn watch() -> Self {
        let (end, ended) = channel();
        Self { end, thread: thread::spawn(move || count(&ended)) }
    }

    pub(crate) fn counted(self) -> Result<Histogram> {
        drop(self.end);
        self.thread.join().map_err(|_| anyhow!("the thread that counts stalls"))
    }
}

fn count(ended: &Receiver<()>) -> Histogram {
    let mut late = Histogram::new();
    loop {
        let asleep = Instant::now();
        if ended.recv_timeout(EVERY) != Err(RecvTimeoutError::Timeout) {
            return late;
        }
        late.add(asleep.elapsed().saturating_sub(EVERY));
    }
}
