//! stub

pub mod policy;

#[cfg(feature = "middleware")]
mod attempt;
#[cfg(feature = "middleware")]
mod attempt_loop;
#[cfg(feature = "middleware")]
mod body;
#[cfg(feature = "middleware")]
mod budget;
#[cfg(feature = "middleware")]
mod catalog;
#[cfg(feature = "middleware")]
mod client;
#[cfg(feature = "middleware")]
mod cooldown;
#[cfg(feature = "middleware")]
mod deadline;
#[cfg(feature = "middleware")]
mod drain;
#[cfg(feature = "middleware")]
mod endpoint;
#[cfg(feature = "middleware")]
mod error;
#[cfg(feature = "middleware")]
mod evidence;
#[cfg(feature = "middleware")]
mod key_source;
#[cfg(feature = "middleware")]
mod middleware;
#[cfg(feature = "middleware")]
mod observe;
#[cfg(feature = "middleware")]
mod origin;
#[cfg(feature = "middleware")]
pub mod presets;
#[cfg(feature = "middleware")]
mod probe;
#[cfg(feature = "middleware")]
mod replay;
#[cfg(feature = "middleware")]
mod report;
#[cfg(feature = "middleware")]
mod reuse_guard;
#[cfg(feature = "middleware")]
mod scope;
#[cfg(feature = "testing")]
pub mod testing;
#[cfg(feature = "middleware")]
mod vendor_hints;
#[cfg(feature = "middleware")]
mod witness;

#[cfg(feature = "middleware")]
pub use vendor_hints::{HintSources, Veto};
pub use key_source::KeyFingerprint;
pub use policy::{IdempotencyKey, InvalidKey, KeyContract, KeyFormat, KeyScope, KeySource};
pub use body::BodyDeadlineExceeded;
#[cfg(feature = "middleware")]
pub use deadline::Deadline;
#[cfg(feature = "middleware")]
pub use replay::{ReplayBody, ReplayRequest};
pub use client::SafeClientBuilder;
#[cfg(feature = "middleware")]
pub use middleware::SafeRetry;
#[cfg(feature = "middleware")]
pub use witness::SendWitness;
pub use budget::RetryBudget;
#[cfg(feature = "middleware")]
pub use cooldown::Cooldown;
#[cfg(feature = "middleware")]
pub use scope::ScopeKey;
