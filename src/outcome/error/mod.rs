//! What the caller gets when there is no answer to hand back: variants say what the caller may do next.
//!
//! "It failed" is not enough to act on: after a write it matters whether it may have happened. So the variants tell those apart, and carry
//! what the next step needs. Nothing in them prints a URL, header, key or body.

use std::{error::Error, fmt};

use http::StatusCode;

use crate::{
    outcome::report::{Cause, RetryReport},
    policy::{Evidence, IdempotencyKey, InvalidKey, StopReason},
};

/// Why an operation ended without an answer.
///
/// It travels as `reqwest_middleware::Error::Middleware`; [`RetryError::find`] and [`RetryErrorExt`] get it out. Where the transport failed,
/// requests that nothing marks, and marked reads, keep its own `reqwest::Error` instead. No variant prints a URL, header, key or body; the transport's
/// error is the `source()`, with its URL taken off.
///
/// # Examples
/// What to do next:
/// ```no_run
/// use reqwest_safe_retry::{RetryError, RetryReport};
///
/// fn next(error: &reqwest_middleware::Error) -> String {
///     let Some(error) = RetryError::find(error) else { return "a request that nothing marks, or a read: as without this crate".into() };
///     match error {
///         RetryError::OutcomeUnknown(_) => match error.key() {
///             Some(_) => "store the key of the error, and send it again with that one".into(),
///             None => "look at the state, never just send it again".into(),
///         },
///         RetryError::Unprocessed(_) => "it did not happen: try again later".into(),
///         RetryError::DeadlineExceeded(_) => "nothing was written: try again, with more time".into(),
///         RetryError::AttemptTimedOut(_) => "a read: try again, with more time; a write that nothing marks may have happened".into(),
///         RetryError::CoolingDown(_) => format!("nothing was sent: try again in {:?}", error.report().and_then(RetryReport::hint)),
///         RetryError::BodyLost(_) => format!("it was answered, {:?}: read the state, do not send it again", error.status()),
///         RetryError::Misused(misuse) => format!("nothing was sent, mend the program: {misuse}"),
///         _ => error.to_string(),
///     }
/// }
/// ```
#[derive(Debug)]
#[non_exhaustive]
#[must_use]
pub enum RetryError {
    /// The write may or may not have happened. Do not send it again with another key: look at the state, or send it again with
    /// [`key`](Self::key).
    OutcomeUnknown(Failure),
    /// The write did not happen: no attempt was processed. It may be tried again.
    Unprocessed(Failure),
    /// The deadline passed first. Nothing was written that this error would have to warn about.
    DeadlineExceeded(Failure),
    /// A shared cool-down holds first sends back for longer than this operation has; nothing was sent. The report's
    /// [`hint`](RetryReport::hint) is the wait.
    CoolingDown(Failure),
    /// The last attempt ran into its own limit. Of a read, or of a write that nothing marks: that one may have happened, and the report's
    /// [`evidence`](RetryReport::evidence) tells.
    AttemptTimedOut(Failure),
    /// The write was answered with a final status ([`status`](Self::status)), but the answer's body was lost.
    BodyLost(Failure),
    /// The request was used wrongly; nothing was sent.
    Misused(Misuse),
}

/// What stands behind a [`RetryError`]: the report, the key, the last status and the transport's error.
pub struct Failure(Box<FailureParts>);

struct FailureParts {
    report: RetryReport,
    key: Option<IdempotencyKey>,
    status: Option<StatusCode>,
    source: Option<FailureSource>,
}

/// What an error of ours was made from.
pub(crate) enum FailureSource {
    Transport(reqwest::Error),
    Supply(Box<dyn Error + Send + Sync>),
}

/// How a request was used wrongly.
#[non_exhaustive]
pub enum Misuse {
    /// The contract wants the caller's key, and the request has none.
    MissingKey,
    /// The key breaks the contract's format or length.
    InvalidKey(InvalidKey),
    /// The request carries more than one key: two header lines, or a header and an extension that differ.
    SeveralKeys,
    /// The request carries a key, but nothing says that the server honours one.
    KeyWithoutContract,
    /// The key was used before with another request, within its scope and lifetime.
    KeyReused,
    /// The key was first used so long ago that the server may have forgotten it: sending it is a new operation.
    KeyExpired,
    /// The factory of the request's body, or of the whole request, failed before the first attempt.
    FactoryFailed(Box<dyn Error + Send + Sync>),
}

impl RetryError {
    /// The error of this crate inside a middleware error, also behind another middleware's context.
    #[must_use]
    pub fn find(error: &reqwest_middleware::Error) -> Option<&Self> {
        find(error)
    }

    /// What became of the operation. `None` for [`Misused`](Self::Misused): nothing was sent.
    #[must_use]
    pub fn report(&self) -> Option<&RetryReport> {
        self.failure().map(|failure| &failure.0.report)
    }

    /// The idempotency key the operation was sent with: trying again yourself means using this one. If the server may have seen it, it
    /// tells when it was [first used](IdempotencyKey::first_use), so that it does not grow younger by being tried again.
    #[must_use]
    pub fn key(&self) -> Option<&IdempotencyKey> {
        self.failure().and_then(|failure| failure.0.key.as_ref())
    }

    /// The last status the server answered with.
    #[must_use]
    pub fn status(&self) -> Option<StatusCode> {
        self.failure().and_then(|failure| failure.0.status)
    }

    fn failure(&self) -> Option<&Failure> {
        match self {
            Self::OutcomeUnknown(failure)
            | Self::Unprocessed(failure)
            | Self::DeadlineExceeded(failure)
            | Self::CoolingDown(failure)
            | Self::AttemptTimedOut(failure)
            | Self::BodyLost(failure) => Some(failure),
            Self::Misused(_) => None,
        }
    }
}

impl fmt::Display for RetryError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::OutcomeUnknown(failure) => write!(f, "outcome unknown: the write may have happened ({failure})"),
            Self::Unprocessed(failure) => write!(f, "not processed: the write did not happen ({failure})"),
            Self::DeadlineExceeded(failure) => write!(f, "deadline exceeded ({failure})"),
            Self::CoolingDown(failure) => write!(f, "held back: the server asked to wait ({failure})"),
            Self::AttemptTimedOut(failure) => write!(f, "attempt timed out ({failure})"),
            Self::BodyLost(failure) => write!(f, "answer received, but its body was lost ({failure})"),
            Self::Misused(misuse) => write!(f, "request used wrongly: {misuse}"),
        }
    }
}

impl Error for RetryError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::Misused(Misuse::FactoryFailed(error)) => Some(&**error),
            Self::Misused(Misuse::InvalidKey(error)) => Some(error),
            Self::Misused(_) => None,
            Self::OutcomeUnknown(failure)
            | Self::Unprocessed(failure)
            | Self::DeadlineExceeded(failure)
            | Self::CoolingDown(failure)
            | Self::AttemptTimedOut(failure)
            | Self::BodyLost(failure) => match &failure.0.source {
                Some(FailureSource::Transport(error)) => Some(error),
                Some(FailureSource::Supply(error)) => Some(&**error),
                None => None,
            },
        }
    }
}

impl From<RetryError> for reqwest_middleware::Error {
    fn from(error: RetryError) -> Self {
        Self::middleware(error)
    }
}

impl Failure {
    pub(crate) fn new(report: RetryReport, key: Option<IdempotencyKey>, status: Option<StatusCode>, source: Option<FailureSource>) -> Self {
        let source = match source {
            Some(FailureSource::Transport(error)) => Some(FailureSource::Transport(error.without_url())),
            other => other,
        };
        Self(Box::new(FailureParts { report, key, status, source }))
    }

    /// What became of the operation.
    #[must_use]
    pub fn report(&self) -> &RetryReport {
        &self.0.report
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let report = &self.0.report;
        write!(f, "{} {}, ", report.method(), report.origin())?;
        match report.attempts() {
            [] => f.write_str("nothing sent")?,
            [only] => write!(f, "1 attempt, {}", only.cause())?,
            [.., last] => write!(f, "{} attempts, last {}", report.attempts().len(), last.cause())?,
        }
        self.0.status.map_or(Ok(()), |status| write!(f, ", status {}", status.as_u16()))
    }
}

impl fmt::Debug for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Failure").field("report", &self.0.report).field("status", &self.0.status).finish_non_exhaustive()
    }
}

impl fmt::Debug for Misuse {
    /// Without the factory's own error, which may say anything; it is the `source()` of the [`RetryError`].
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::MissingKey => "MissingKey",
            Self::InvalidKey(error) => return f.debug_tuple("InvalidKey").field(error).finish(),
            Self::SeveralKeys => "SeveralKeys",
            Self::KeyWithoutContract => "KeyWithoutContract",
            Self::KeyReused => "KeyReused",
            Self::KeyExpired => "KeyExpired",
            Self::FactoryFailed(_) => "FactoryFailed(..)",
        })
    }
}

impl fmt::Display for Misuse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::MissingKey => "the contract wants the caller's idempotency key, and there is none",
            Self::InvalidKey(_) => "the idempotency key breaks its contract",
            Self::SeveralKeys => "there is more than one idempotency key",
            Self::KeyWithoutContract => "there is an idempotency key, but no contract says that the server honours one",
            Self::KeyReused => "the idempotency key was used before with another request",
            Self::KeyExpired => "the idempotency key was first used longer ago than the server remembers it",
            Self::FactoryFailed(_) => "the factory of the request or its body failed before the first attempt",
        })
    }
}

/// What a middleware error says, whichever variant it is and however many layers wrapped it.
///
/// `reqwest_middleware::Error`'s own predicates answer `false` for every error that any middleware made; these look inside.
pub trait RetryErrorExt: sealed::Sealed {
    /// The error of this crate, if it is one.
    fn safe_retry(&self) -> Option<&RetryError>;

    /// The transport's own error, with all its predicates.
    fn transport_error(&self) -> Option<&reqwest::Error>;

    /// Whether a limit ended the operation or its last attempt: a deadline, an attempt limit, or the client's own timeout.
    fn timed_out(&self) -> bool;

    /// What is proven about the operation. [`Evidence::Unknown`] for a plain reqwest error, which carries no proof: redirects below may
    /// have delivered the request before the failure. A [`ReportSlot`](crate::ReportSlot) always tells.
    fn evidence(&self) -> Evidence;
}

impl RetryErrorExt for reqwest_middleware::Error {
    fn safe_retry(&self) -> Option<&RetryError> {
        RetryError::find(self)
    }

    fn transport_error(&self) -> Option<&reqwest::Error> {
        find(self)
    }

    fn timed_out(&self) -> bool {
        let ours = self.safe_retry().is_some_and(|error| match error {
            RetryError::DeadlineExceeded(_) | RetryError::AttemptTimedOut(_) => true,
            RetryError::OutcomeUnknown(failure) | RetryError::Unprocessed(failure) | RetryError::BodyLost(failure) => {
                let cut = || failure.report().attempts().last().is_some_and(|last| matches!(last.cause(), Cause::TimedOut(_)));
                failure.report().stop() == StopReason::DeadlineTooNear || cut()
            }
            RetryError::CoolingDown(_) | RetryError::Misused(_) => false,
        });
        ours || self.transport_error().is_some_and(reqwest::Error::is_timeout)
    }

    fn evidence(&self) -> Evidence {
        match self.safe_retry() {
            Some(RetryError::Misused(_)) => Evidence::Unprocessed,
            Some(error) => error.report().map_or(Evidence::Unknown, RetryReport::evidence),
            None => Evidence::Unknown,
        }
    }
}

/// The first error of a type, however many layers wrapped it. `reqwest_middleware::Error` hides the error that it holds: its `source()` is
/// already that error's own.
fn find<E: Error + 'static>(error: &reqwest_middleware::Error) -> Option<&E> {
    match error {
        reqwest_middleware::Error::Reqwest(error) => (error as &(dyn Error + 'static)).downcast_ref(),
        reqwest_middleware::Error::Middleware(error) => error
            .chain()
            .find_map(|layer| layer.downcast_ref().or_else(|| layer.downcast_ref::<reqwest_middleware::Error>().and_then(find))),
    }
}

mod sealed {
    /// Only for `reqwest_middleware::Error`.
    #[expect(unnameable_types, reason = "that outsiders cannot name it is what seals the trait")]
    pub trait Sealed {}
    impl Sealed for reqwest_middleware::Error {}
}
