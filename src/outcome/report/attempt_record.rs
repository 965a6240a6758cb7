//! One attempt of an operation, as its report keeps it.

use std::time::Duration;

use http::StatusCode;

use crate::policy::{Evidence, ResendReason, Signal};
use crate::proof::cause::Cause;

/// One attempt, as it was decided about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AttemptRecord {
    pub(crate) number: u32,
    pub(crate) started: Duration,
    pub(crate) took: Duration,
    pub(crate) signal: Signal,
    pub(crate) status: Option<StatusCode>,
    pub(crate) evidence: Evidence,
    pub(crate) cause: Cause,
    pub(crate) sends: u32,
    pub(crate) hint: Option<Duration>,
    pub(crate) time_left: Duration,
    pub(crate) pause: Option<Duration>,
    pub(crate) resend: Option<ResendReason>,
}

impl AttemptRecord {
    /// The attempt's number; the first send is 1, what an earlier process may have sent is 0.
    #[must_use]
    pub fn number(&self) -> u32 {
        self.number
    }

    /// When it started, from the start of the operation.
    #[must_use]
    pub fn started(&self) -> Duration {
        self.started
    }

    /// How long it took, to the response head or the failure.
    #[must_use]
    pub fn took(&self) -> Duration {
        self.took
    }

    /// What it came back with.
    #[must_use]
    pub fn signal(&self) -> Signal {
        self.signal
    }

    /// The status the server answered with, if it answered.
    #[must_use]
    pub fn status(&self) -> Option<StatusCode> {
        self.status
    }

    /// What is proven about this one attempt.
    #[must_use]
    pub fn evidence(&self) -> Evidence {
        self.evidence
    }

    /// Why it ended the way it did, as far as this side can see.
    #[must_use]
    pub fn cause(&self) -> Cause {
        self.cause
    }

    /// How often it was sent: more than once if an inner middleware resends, which weakens every
    /// promise. 1 where nobody sees it, without a [`SendWitness`](crate::SendWitness).
    #[must_use]
    pub fn sends(&self) -> u32 {
        self.sends
    }

    /// The wait the server asked for with this answer.
    #[must_use]
    pub fn hint(&self) -> Option<Duration> {
        self.hint
    }

    /// Time left before the deadline when it was decided about; [`Duration::MAX`] when there is
    /// none.
    ///
    /// For a write with a probe it is what is left for sending: the tenth of the deadline that is
    /// kept for the last look is not counted. The report's own
    /// [`time_left`](crate::RetryReport::time_left) counts everything.
    #[must_use]
    pub fn time_left(&self) -> Duration {
        self.time_left
    }

    /// The pause decided after it; `None` when nothing was sent or asked after it.
    #[must_use]
    pub fn pause(&self) -> Option<Duration> {
        self.pause
    }

    /// Why it was harmless to send again; `None` when it was not sent again.
    #[must_use]
    pub fn resend(&self) -> Option<ResendReason> {
        self.resend
    }
}
