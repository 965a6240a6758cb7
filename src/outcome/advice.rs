//! What was noticed about how an operation was sent, and should be mended in the program.

use std::fmt;

/// Something that weakens the protection of an operation, or hides what happens to it.
///
/// It stands in the report ([`RetryReport::advice`](crate::RetryReport::advice)), and a log line at
/// WARN with the target `reqwest_safe_retry::advice` tells it once for each origin.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub enum Advice {
    /// An inner middleware replaced the idempotency key or took it away, so the key protects
    /// nothing, and no resend relied on it any more. Let one of the two make the key.
    KeyReplaced,
    /// A redirect led to another origin, which does not know the key, so no resend relied on it any
    /// more. Turn redirects off, or call the other origin.
    KeyLeftHome,
    /// An inner middleware sent the request more often than the report has attempts. Remove it: its
    /// sends know no deadline, no budget and no protection.
    SentMoreOften,
    /// The request carries an idempotency key in a header, but nothing says that the server honours
    /// it, so no resend relied on it. State it with
    /// [`Endpoint::keyed_write`](crate::Endpoint::keyed_write).
    KeyWithoutContract,
}

impl fmt::Display for Advice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::KeyReplaced => "an inner middleware replaced the idempotency key, so it protects nothing",
            Self::KeyLeftHome => "a redirect led to another origin, which does not know the idempotency key",
            Self::SentMoreOften => "an inner middleware sent the request more often than this crate knows",
            Self::KeyWithoutContract => "an idempotency key was sent that no contract speaks of, so nothing relies on it",
        })
    }
}
