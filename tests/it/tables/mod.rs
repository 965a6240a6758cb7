//! Tables: a row for each situation, and what is computed for it. No time passes, and no socket is
//! open.

#[cfg(feature = "middleware")]
mod audit;
mod budget;
#[cfg(all(feature = "testing", feature = "catalog-files"))]
mod catalog;
mod decide;
mod hints;
mod key_contract;
mod plan_retry;
#[cfg(feature = "middleware")]
mod presets;
mod storm;
