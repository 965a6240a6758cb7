//! What is logged, counted and reported?
//!
//! Spans, events and metrics need no code, only a subscriber and a recorder. An [`Observer`] is
//! told every decision and every end as values:
//!
//! ```
//! use reqwest_safe_retry::{Observer, Outcome, RetryReport, SafeRetry, report::Decided};
//!
//! struct Alarm;
//!
//! impl Observer for Alarm {
//!     fn decided(&self, decided: &Decided<'_>) {
//!         println!("{} {}: {:?}", decided.method(), decided.origin(), decided.decision());
//!     }
//!
//!     fn ended(&self, report: &RetryReport) {
//!         if report.outcome() == Outcome::Unknown {
//!             eprintln!("somebody has to look:\n{report}");
//!         }
//!     }
//! }
//!
//! let watched = SafeRetry::new().with_observer(Alarm);
//! # let _ = watched;
//! ```
//!
//! [Reading an incident](super::incident) shows these names in use.
//!
//! [`Observer`]: crate::Observer
//!
#![doc = include_str!("../../docs/telemetry.md")]
