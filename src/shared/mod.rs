//! What operations share: budgets, cool-downs, used keys; each per scope, each bounded.

pub(crate) mod budget;
pub(crate) mod cooldown;
pub(crate) mod kept_alive;
pub(crate) mod lifetime;
#[cfg(test)]
mod orders;
pub(crate) mod reuse_guard;
pub(crate) mod scope;
