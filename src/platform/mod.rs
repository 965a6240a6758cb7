//! What the platform gives: time, chance, and whether a future may move to another thread.
//!
//! Here there is an operating system below: time is tokio's, which a test can pause, and chance is
//! the standard library's. In a browser `browser.rs` stands in for this file, under the same names.
//! Nothing is decided here.

use std::{pin::Pin, time::SystemTime};

pub(crate) use std::hash::RandomState;
pub(crate) use std::marker::Send as MaybeSend;
pub(crate) use tokio::time::{Instant, sleep_until, timeout_at};

/// A future of which nothing is known but what comes out of it.
pub(crate) type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// The moment as the engine takes it, which knows no clock.
pub(crate) fn engine_time(now: Instant) -> std::time::Instant {
    now.into_std()
}

/// The time of day. Nothing is measured by it but what other machines say about it.
pub(crate) fn wall_clock() -> SystemTime {
    SystemTime::now()
}
