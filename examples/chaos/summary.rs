//! A run as Markdown: for the terminal, and for the page that quotes it.

use std::{fmt, time::Duration};

use crate::{
    caller::How,
    fleet::{MEMBERS, ROADS, WIRES},
    histogram::Histogram,
    leftovers::Held,
    limits::CONCURRENCY,
    options::Options,
    promise::Promise,
    soak::Outcome,
    tally::Row,
    upstream::Counts,
};

/// How many operations it takes until everything that can happen has happened.
const ENOUGH_FOR_ALL: u64 = 10_000;
/// The kinds of faults of writes and of status questions.
const FAULTS: usize = 18 + 8;

pub(crate) struct Summary<'a> {
    pub(crate) options: &'a Options,
    pub(crate) outcome: &'a Outcome,
    pub(crate) counts: &'a Counts,
    pub(crate) strays: u64,
    /// How long a thread had to wait for a core.
    pub(crate) stalls: Histogram,
    /// How late a send was allowed to begin in the end.
    pub(crate) grace: Duration,
}

impl Summary<'_> {
    /// What has not happened in a run that was long enough for it: without it the run has proven
    /// nothing.
    pub(crate) fn gaps(&self) -> Vec<String> {
        let tally = &self.outcome.tally;
        if tally.operations() < ENOUGH_FOR_ALL {
            return Vec::new();
        }
        let mut gaps = Vec::new();
        let struck = self.counts.faults().len();
        if struck < FAULTS {
            gaps.push(format!("{struck} kinds of faults have struck, of {FAULTS}"));
        }
        if self.counts.restarts() == 0 {
            gaps.push("the server was never restarted".to_owned());
        }
        for (class, row) in &tally.classes {
            if row.how(How::Answered) * 20 < row.operations {
                gaps.push(format!("of the class {} hardly an operation was answered", class.name()));
            }
        }
        for (number, (operations, answered)) in tally.members.iter().enumerate() {
            if answered * 20 < *operations {
                gaps.push(format!("of client {number} hardly an operation was answered"));
            }
        }
        for how in How::ALL {
            if tally.classes.values().all(|row| row.how(how) == 0) {
                gaps.push(format!("no operation ended as {how:?}"));
            }
        }
        if tally.overshoots.count() == 0 {
            gaps.push("no deadline has ended anything".to_owned());
        }
        gaps
    }
}

impl fmt::Display for Summary<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Outcome { tally, took, settled, full } = self.outcome;
        let (operations, rate) = (tally.operations(), tally.operations() as f64 / took.as_secs_f64().max(1.0));
        writeln!(f, "Seed {}: {operations} operations in {:.1} s ({rate:.0}/s),", self.options.seed, took.as_secs_f64())?;
        let tls = if cfg!(feature = "testing-tls") { "" } else { " None of them spoke TLS: `--features testing-tls`." };
        writeln!(f, "{CONCURRENCY} at a time, by {MEMBERS} clients.{tls}\n")?;

        writeln!(
            f,
            "| {:<12} | operations | answered | looked up | not processed | unknown | failed | dropped | attempts | probes | heads | applied |",
            "class"
        )?;
        writeln!(
            f,
            "|--------------|-----------:|---------:|----------:|--------------:|--------:|-------:|--------:|---------:|-------:|------:|--------:|"
        )?;
        for (class, row) in &tally.classes {
            let [answered, looked_up, unprocessed, unknown, failed, dropped] = How::ALL.map(|how| row.how(how));
            let Row { operations, attempts, probes, heads, applied, .. } = row;
            writeln!(
                f,
                "| {:<12} | {operations:>10} | {answered:>8} | {looked_up:>9} | {unprocessed:>13} | {unknown:>7} | {failed:>6} | {dropped:>7} | \
                 {attempts:>8} | {probes:>6} | {heads:>5} | {applied:>7} |",
                class.name()
            )?;
        }

        write!(f, "\n| {:<17} |", "answered")?;
        WIRES.iter().try_for_each(|wire| write!(f, " {:>5} |", format!("{wire:?}")))?;
        write!(f, "\n|{}|{}", "-".repeat(19), "------:|".repeat(WIRES.len()))?;
        for (road, members) in ROADS.iter().zip(tally.members.chunks(WIRES.len())) {
            write!(f, "\n| {:<17} |", format!("{road:?}"))?;
            members.iter().try_for_each(|(operations, answered)| write!(f, " {:>3} % |", answered * 100 / operations.max(&1)))?;
        }

        writeln!(f, "\n\n| {:<48} | broken | first after |\n|{}|-------:|------------:|", "promise", "-".repeat(50))?;
        for promise in Promise::ALL {
            let broken = tally.broken.get(&promise);
            let first_after = broken.map_or_else(String::new, |broken| format!("{:.1} s", broken.first_after.as_secs_f64()));
            writeln!(f, "| {promise:<48} | {:>6} | {first_after:>11} |", broken.map_or(0, |broken| broken.times))?;
        }

        writeln!(f, "\n| {:<22} | struck |\n|{}|-------:|", "fault", "-".repeat(24))?;
        for (fault, struck) in self.counts.faults() {
            writeln!(f, "| {fault:<22} | {struck:>6} |")?;
        }

        let ends = [50, 99].map(|percent| millis(tally.overshoots.percentile(percent)));
        let [p50, p99] = ends;
        writeln!(
            f,
            "\n* Ended after their deadline: {} calls, by {p50} (p50), {p99} (p99), {} (most).",
            tally.overshoots.count(),
            millis(tally.overshoots.most())
        )?;
        writeln!(f, "* Begun after its deadline: by {} at most, where {} are granted.", millis(tally.worst_late), millis(self.grace))?;
        let (usual, most) = (millis(self.stalls.percentile(99)), millis(self.stalls.most()));
        writeln!(f, "* A thread waited for a core for {usual} (p99), {most} (most).")?;
        let (restarts, connections) = (self.counts.restarts(), self.counts.connections());
        writeln!(
            f,
            "* The server was restarted {restarts} times and had {connections} connections; {} heads came when nobody waited any more.",
            self.strays
        )?;
        writeln!(f, "* Memory: {} after the first third, {} at the end.", memory(*settled), memory(*full))
    }
}

fn millis(duration: Duration) -> String {
    format!("{:.1} ms", duration.as_secs_f64() * 1e3)
}

fn memory(held: Held) -> String {
    held.memory.map_or_else(|| "not told here".to_owned(), |kib| format!("{:.1} MiB", kib as f64 / 1024.0))
}
