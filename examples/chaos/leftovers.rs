//! What is still there when it should not be: tasks, connections, open files, memory.

use std::time::Duration;

use tokio::{
    runtime::Handle,
    time::{Instant, sleep},
};

use crate::{
    promise::{Breach, Promise},
    upstream::Counts,
};

/// How long what has ended may take to go.
const PATIENCE: Duration = Duration::from_secs(5);
/// What the memory of a run may grow by after its first third: less than 1 KiB for each operation
/// of a minute, and what an allocator keeps.
const GROWTH: u64 = 48 * 1024;

/// What the process holds. What the system does not tell is not known.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Held {
    /// KiB.
    pub(crate) memory: Option<u64>,
    pub(crate) files: Option<usize>,
}

impl Held {
    pub(crate) fn now() -> Self {
        let status = std::fs::read_to_string("/proc/self/status").ok();
        let memory = status.and_then(|status| {
            let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
            line.trim().trim_end_matches(" kB").parse().ok()
        });
        Self { memory, files: std::fs::read_dir("/proc/self/fd").ok().map(Iterator::count) }
    }
}

/// Looks for what a run has left behind, once every operation has ended and every client is gone.
pub(crate) async fn look(before: Held, settled: Held, full: Held, counts: &Counts) -> Vec<Breach> {
    let since = Instant::now();
    let found = loop {
        let found = still_there(before, counts);
        if found.is_empty() || since.elapsed() > PATIENCE {
            break found;
        }
        sleep(Duration::from_millis(50)).await;
    };
    found.into_iter().chain(grown(settled, full)).map(|how| Breach::of(Promise::NothingLeft, how)).collect()
}

fn still_there(before: Held, counts: &Counts) -> Vec<String> {
    let tasks = Handle::current().metrics().num_alive_tasks();
    let mut found = Vec::new();
    if tasks > 0 {
        found.push(format!("{tasks} tasks"));
    }
    if counts.open() > 0 {
        found.push(format!("{} connections", counts.open()));
    }
    if let (Some(before), Some(now)) = (before.files, Held::now().files) {
        if now > before {
            found.push(format!("{} open files", now - before));
        }
    }
    found
}

fn grown(settled: Held, full: Held) -> Option<String> {
    let grown = full.memory?.saturating_sub(settled.memory?);
    (grown > GROWTH).then(|| format!("{grown} KiB of memory that were not there after the first third"))
}
