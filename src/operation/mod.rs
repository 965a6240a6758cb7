//! One operation from its first attempt to its end: plan, send, decide, obey.

mod attempt;
mod begun;
pub(crate) mod chance;
mod key;
mod lane;
pub(crate) mod plan;
mod run;
pub(crate) mod settings;
mod supply;

pub(crate) use lane::carry_out;
pub(crate) use run::hands_off;
