//! Virtual time: clients in front of scripted peers under a paused clock. No socket is open.

mod advice;
mod attempt_headers;
mod budget;
mod cooldown;
mod deadline;
mod giving_up;
mod keys;
mod loop_hygiene;
#[cfg(feature = "metrics")]
mod metrics;
#[cfg(feature = "serde")]
mod observer;
mod precedence;
mod probes;
mod questions;
mod readiness;
mod results;
mod scripted;
mod sent_before;
mod status_url;
mod vendor_hints;
