//! Unprotected POSTs against real servers, in the moments in which these servers drop connections:
//! by plain reqwest, by reqwest-retry and by this crate, counted by what was really done.
//!
//! A server that is not installed fails its tests with the name of its package. `--nocapture`
//! shows the table of `docs/reliability.md`.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "what fails here fails its test")]

mod acts;
mod asgi;
mod haproxy;
mod load;
mod nginx;
mod node;
mod process;
mod upstream;
