//! The command line.

use std::{path::PathBuf, time::Duration};

use anyhow::{Context as _, Result, bail};

pub(crate) const USAGE: &str = "chaos [--seconds N] [--operations N] [--seed S] [--replay OPERATION] [--out FILE.md]";

#[derive(Debug)]
pub(crate) struct Options {
    /// The run admits operations for so long.
    pub(crate) limit: Duration,
    /// The run ends when it has so many.
    pub(crate) operations: u64,
    pub(crate) seed: u64,
    /// Carries out this operation alone, again and again.
    pub(crate) replay: Option<u64>,
    /// Where the summary goes besides the terminal.
    pub(crate) out: Option<PathBuf>,
}

impl Options {
    pub(crate) fn parse(arguments: impl Iterator<Item = String>) -> Result<Self> {
        let (mut seconds, mut operations, mut seed, mut replay, mut out) = (None, None, None, None, None);
        let mut arguments = arguments.into_iter();
        while let Some(name) = arguments.next() {
            let value = arguments.next().with_context(|| format!("{name} wants a value: {USAGE}"))?;
            match name.as_str() {
                "--seconds" => seconds = Some(value.parse().context("--seconds")?),
                "--operations" => operations = Some(value.parse().context("--operations")?),
                "--seed" => seed = Some(value.parse().context("--seed")?),
                "--replay" => replay = Some(u64::from_str_radix(&value, 16).context("--replay wants an operation's name, 16 digits")?),
                "--out" => out = Some(PathBuf::from(value)),
                _ => bail!("unknown argument {name}: {USAGE}"),
            }
        }
        // A minute, or as long as it takes where a number of operations is asked for; once, where
        // one is replayed.
        let seconds = seconds.unwrap_or(if operations.is_some() { 24 * 60 * 60 } else { 60 });
        let operations = operations.unwrap_or(if replay.is_some() { 1 } else { u64::MAX });
        Ok(Self { limit: Duration::from_secs(seconds), operations, seed: seed.unwrap_or(1), replay, out })
    }
}
