//! Properties: what holds for every input.

mod budget;
mod hints;
mod policy;
