//! The tests through the public interface, by kind: tables and properties of what is computed,
//! virtual time for policy and timing, real sockets for the wire and for evidence.
//!
//! Only a test that owns state of its whole process, or needs the machine for itself, has a binary
//! of its own.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "what fails here fails its test")]

mod api;
mod properties;
mod readme;
mod support;
mod tables;
#[cfg(feature = "testing")]
mod virtual_time;
#[cfg(feature = "testing")]
mod wire;
