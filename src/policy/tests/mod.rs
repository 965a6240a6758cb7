//! What holds for the engine as a whole.

mod sending;
mod tables;
