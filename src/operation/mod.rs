//! One operation from its first attempt to its end: plan, send, decide, obey.

mod attempt;
pub(crate) mod chance;
mod key;
pub(crate) mod plan;
mod run;
pub(crate) mod settings;
mod supply;

pub(crate) use run::{carry_out, misused};
