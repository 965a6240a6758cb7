//! Three published simulations and two of our own, on virtual time. Nothing here sleeps, and the
//! same seed gives the same numbers.
//!
//! The clients obey the crate itself:
//! [`RetryPolicy::decide`](reqwest_safe_retry::policy::RetryPolicy::decide) says whether and when
//! to send again, [`Backoff`](reqwest_safe_retry::policy::Backoff) draws the pauses,
//! [`TokenBucket`](reqwest_safe_retry::policy::TokenBucket) pays. Only what the crate does not
//! offer on purpose (decorrelated jitter, a breaker) is written here, to compare with.

mod agenda;
mod chance;
pub(crate) mod claim;
pub(crate) mod collapse;
pub(crate) mod contention;
pub(crate) mod failures;
pub(crate) mod fleet;
pub(crate) mod outage;
pub(crate) mod published;
