//! One thing that is measured, and the row of the table that comes of it.

use std::{
    fs,
    time::{Duration, Instant},
};

use anyhow::{Result, ensure};

/// More than this is a leak, whatever the scene.
const MOST_MEMORY: u64 = 2 * 1024 * 1024;

#[derive(Clone, Copy)]
pub(crate) struct Scene {
    pub(crate) name: &'static str,
    pub(crate) run: fn() -> Result<Found>,
}

pub(crate) struct Found {
    pub(crate) many: u64,
    pub(crate) said: String,
}

impl Scene {
    /// Runs it, in this process.
    pub(crate) fn measured(&self) -> Result<String> {
        let start = Instant::now();
        let found = (self.run)()?;
        let took = start.elapsed().as_secs_f64();
        let peak = memory("VmHWM:");
        ensure!(peak.is_none_or(|peak| peak < MOST_MEMORY), "{peak:?} KiB of memory");
        let peak = peak.map_or_else(|| "?".to_owned(), mebibytes);
        Ok(format!("| {} | {} | {took:.1} s | {peak} | {} |", self.name, found.many, found.said))
    }
}

/// KiB, by a line of the process's status. What the system does not tell is not known.
pub(crate) fn memory(line: &str) -> Option<u64> {
    let status = fs::read_to_string("/proc/self/status").ok()?;
    status.lines().find_map(|found| found.strip_prefix(line))?.trim().trim_end_matches(" kB").parse().ok()
}

#[expect(clippy::cast_precision_loss, reason = "it is printed with one digit")]
pub(crate) fn mebibytes(kibibytes: u64) -> String {
    format!("{:.1} MiB", kibibytes as f64 / 1024.0)
}

/// The one in the middle, and the last.
pub(crate) fn middle_and_last(mut times: Vec<Duration>) -> (Duration, Duration) {
    times.sort_unstable();
    (times.get(times.len() / 2).copied().unwrap_or_default(), times.last().copied().unwrap_or_default())
}

pub(crate) fn milliseconds(time: Duration) -> String {
    format!("{:.0} ms", time.as_secs_f64() * 1000.0)
}

/// A runtime like that of a small service.
pub(crate) fn runtime() -> Result<tokio::runtime::Runtime> {
    Ok(tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?)
}
