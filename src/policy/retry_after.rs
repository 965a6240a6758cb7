//! Reading the wait that a server asks for. Clock passed in.

use std::time::{Duration, SystemTime};

use http::HeaderMap;

/// Reads the wait that a server asks for.
#[derive(Debug)]
#[non_exhaustive]
pub struct Hint;

impl Hint {
    /// Stub.
    pub fn parse(_headers: &HeaderMap, _received: SystemTime) -> Option<Result<Duration, InvalidHint>> {
        None
    }
}

/// The server asked to wait, but not readably.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct InvalidHint;

impl std::fmt::Display for InvalidHint {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("the server's wait cannot be read")
    }
}

impl std::error::Error for InvalidHint {}
