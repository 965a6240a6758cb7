//! One operation from its first attempt to its end: plan, send, decide, obey.

pub(crate) mod attempt;
pub(crate) mod chance;
pub(crate) mod key;
pub(crate) mod plan;
pub(crate) mod run;
pub(crate) mod supply;
