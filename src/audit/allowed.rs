//! How much time and how many attempts an operation gets.

use std::{fmt, time::Duration};

use super::words::{Time, counted};
use crate::{contract::endpoint::Endpoint, middleware::Limits};

/// The answer to the third question: what an operation gets at most.
#[derive(Debug, Clone, Copy)]
pub(super) struct Allowed {
    pub(super) deadline: Option<Duration>,
    pub(super) attempt_limit: Option<Duration>,
    pub(super) attempts: u32,
    /// Where there is no deadline, how long resends may start.
    window: Duration,
}

impl Allowed {
    pub(super) fn of(endpoint: &Endpoint, limits: &Limits) -> Self {
        let policy = endpoint.policy().copied().unwrap_or(limits.policy);
        let bounded = |limit: Option<Duration>| limit.filter(|limit| *limit < Duration::MAX);
        Self {
            deadline: bounded(endpoint.limit().or(limits.deadline)),
            attempt_limit: bounded(endpoint.attempt_limit().or(limits.attempt)),
            attempts: if endpoint.effect().allows_resends() { policy.attempts() } else { 1 },
            window: policy.window(),
        }
    }

    /// The time within which the operation may send again.
    pub(super) fn time(self) -> Duration {
        self.deadline.unwrap_or(self.window)
    }
}

/// `20s, 3 attempts of 5s`.
impl fmt::Display for Allowed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.deadline {
            Some(limit) => write!(f, "{}", Time(limit))?,
            None if self.attempts == 1 => f.write_str("no deadline")?,
            None => write!(f, "no deadline, resends for {}", Time(self.window))?,
        }
        write!(f, ", {}", counted(self.attempts, "attempt"))?;
        self.attempt_limit.map_or(Ok(()), |limit| write!(f, " of {}", Time(limit)))
    }
}
