//! What is said: every name, level and field that is promised, and no secret among them.
//!
//! A binary of its own, because tracing remembers for the whole process whether anybody was
//! interested in a place in the code. Every test that lets the plugin speak starts a
//! [`capture::Capture`].

#![cfg(all(feature = "testing", feature = "tracing"))]
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "what fails here fails its test")]

mod capture;
#[cfg(all(feature = "testing-h2", feature = "testing-tls", feature = "metrics", feature = "serde"))]
mod secrets;
mod telemetry;
