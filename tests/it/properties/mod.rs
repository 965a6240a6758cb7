//! Properties: what holds for every input.

mod budget;
#[cfg(feature = "catalog-files")]
mod corpora;
mod hints;
mod operations;
mod policy;
