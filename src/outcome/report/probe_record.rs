//! One question to the status probe and what it found, as the report keeps them.

use std::{fmt, time::Duration};

/// One question to the status probe.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProbeRecord {
    pub(crate) after_attempt: u32,
    pub(crate) started: Duration,
    pub(crate) took: Duration,
    pub(crate) found: Found,
}

impl ProbeRecord {
    /// The number of the attempt it was asked about.
    #[must_use]
    pub fn after_attempt(&self) -> u32 {
        self.after_attempt
    }

    /// When it was asked, from the start of the operation.
    #[must_use]
    pub fn started(&self) -> Duration {
        self.started
    }

    /// How long the question took.
    #[must_use]
    pub fn took(&self) -> Duration {
        self.took
    }

    /// What it found.
    #[must_use]
    pub fn found(&self) -> Found {
        self.found
    }
}

/// What a probe found, without the response.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub enum Found {
    /// The operation was processed.
    Applied,
    /// There is no trace of it, and enough time has passed for that to count.
    Absent,
    /// It is being processed, or it is too early to tell.
    InProgress,
    /// The probe could not tell, failed, or ran out of time.
    Undecided,
}

impl fmt::Display for Found {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Applied => "it happened",
            Self::Absent => "no trace of it",
            Self::InProgress => "in progress",
            Self::Undecided => "could not tell",
        })
    }
}
