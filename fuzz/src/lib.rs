//! What has to hold for every input. Each module has one `check`, which panics where it does not.
//!
//! A fuzz target feeds it; `tests/it/properties/corpora.rs` includes this file and feeds it the seeds, on stable.
//! Nothing here looks inside the crate: the public interface is what a stranger's bytes reach.

pub mod catalogs;
pub mod decide;
pub mod hints;
pub mod keys;
pub mod replay;
pub mod templates;
pub mod vendor_fields;

mod lines;
mod situations;
