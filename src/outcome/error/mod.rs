//! What the caller gets when there is no answer to hand back: variants say what the caller may do
//! next.
//!
//! "It failed" is not enough to act on: after a write it matters whether it may have happened. So
//! the variants tell those apart, and carry what the next step needs. Nothing in them prints a URL,
//! header, key or body.

mod extension;
mod failure;
mod misuse;

use std::{error::Error, fmt};

use http::StatusCode;

pub use extension::RetryErrorExt;
pub use failure::Failure;
pub(crate) use failure::FailureSource;
pub use misuse::Misuse;

use crate::{outcome::report::RetryReport, policy::IdempotencyKey};

/// Why an operation ended without an answer.
///
/// It travels as `reqwest_middleware::Error::Middleware`; [`RetryError::find`] and
/// [`RetryErrorExt`] get it out. Where the transport failed, requests that nothing marks, and
/// marked reads, keep its own `reqwest::Error` instead. No variant prints a URL, header, key or
/// body; the transport's error is the `source()`, with its URL taken off. Where that would print
/// what a server wrote, the `source()` says in our own words what happened, and
/// [`RetryErrorExt::transport_error`] reaches the transport's error.
///
/// # Examples
/// What to do next:
/// ```no_run
/// use reqwest_safe_retry::{RetryError, RetryReport};
///
/// fn next(error: &reqwest_middleware::Error) -> String {
///     let Some(error) = RetryError::find(error) else {
///         return "a request that nothing marks, or a read: as without this crate".into();
///     };
///     match error {
///         RetryError::OutcomeUnknown(_) => match error.key() {
///             Some(_) => "store the key of the error, and send it again with that one".into(),
///             None => "look at the state, never just send it again".into(),
///         },
///         RetryError::Unprocessed(_) => "it did not happen: try again later".into(),
///         RetryError::DeadlineExceeded(_) => {
///             "nothing was written: try again, with more time".into()
///         }
///         RetryError::AttemptTimedOut(_) => {
///             "a read: try again, with more time; an unmarked write may have happened".into()
///         }
///         RetryError::CoolingDown(_) => {
///             let wait = error.report().and_then(RetryReport::hint);
///             format!("nothing was sent: try again in {wait:?}")
///         }
///         RetryError::BodyLost(_) => {
///             format!("answered, {:?}: read the state, do not send it again", error.status())
///         }
///         RetryError::Unsuccessful(_) => {
///             format!("a read, answered with an error: {:?}", error.status())
///         }
///         RetryError::Misused(misuse) => {
///             format!("nothing was sent, correct the program: {misuse}")
///         }
///         _ => error.to_string(),
///     }
/// }
/// ```
#[derive(Debug)]
#[non_exhaustive]
#[must_use]
#[doc(alias = "ambiguous")]
pub enum RetryError {
    /// The write may or may not have happened. Do not send it again with another key: look at the
    /// state, or send it again with [`key`](Self::key).
    OutcomeUnknown(Failure),
    /// The write did not happen: no attempt was processed. It may be tried again.
    Unprocessed(Failure),
    /// The deadline passed first. Nothing was written that this error would have to warn about.
    DeadlineExceeded(Failure),
    /// A shared cool-down holds first sends back for longer than this operation has; nothing was
    /// sent. The report's [`hint`](RetryReport::hint) is the wait.
    CoolingDown(Failure),
    /// The last attempt ran into its own limit. Of a read, or of a write that nothing marks: that
    /// one may have happened, and the report's [`evidence`](RetryReport::evidence) tells.
    AttemptTimedOut(Failure),
    /// The write was answered with a final status ([`status`](Self::status)), but the answer's body
    /// was lost.
    BodyLost(Failure),
    /// The last answer of a read is none by the endpoint's own verdict
    /// ([`Endpoint::failures_are_errors`](crate::Endpoint::failures_are_errors)), whatever its
    /// [`status`](Self::status).
    Unsuccessful(Failure),
    /// The request was used wrongly; nothing was sent.
    Misused(Misuse),
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
        self.failure().map(Failure::report)
    }

    /// The idempotency key the operation was sent with: trying again yourself means using this one.
    /// If the server may have seen it, it tells when it was
    /// [first used](IdempotencyKey::first_use), so that it does not grow younger by being tried
    /// again.
    #[must_use]
    pub fn key(&self) -> Option<&IdempotencyKey> {
        self.failure().and_then(Failure::key)
    }

    /// The last status the server answered with.
    #[must_use]
    pub fn status(&self) -> Option<StatusCode> {
        self.failure().and_then(Failure::status)
    }

    /// What stands behind the variant: a failure, or wrong use.
    fn behind(&self) -> Result<&Failure, &Misuse> {
        match self {
            Self::OutcomeUnknown(failure)
            | Self::Unprocessed(failure)
            | Self::DeadlineExceeded(failure)
            | Self::CoolingDown(failure)
            | Self::AttemptTimedOut(failure)
            | Self::BodyLost(failure)
            | Self::Unsuccessful(failure) => Ok(failure),
            Self::Misused(misuse) => Err(misuse),
        }
    }

    fn transport(&self) -> Option<&reqwest::Error> {
        self.failure().and_then(Failure::transport)
    }

    fn failure(&self) -> Option<&Failure> {
        self.behind().ok()
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
            Self::Unsuccessful(failure) => write!(f, "answered, and the answer is no result ({failure})"),
            Self::Misused(misuse) => write!(f, "request used wrongly: {misuse}"),
        }
    }
}

impl Error for RetryError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.behind().map_or_else(Misuse::source, Failure::source)
    }
}

impl From<RetryError> for reqwest_middleware::Error {
    fn from(error: RetryError) -> Self {
        Self::middleware(error)
    }
}

/// The first error of a type, however many layers wrapped it. `reqwest_middleware::Error` hides the
/// error that it holds: its `source()` is already that error's own.
fn find<E: Error + 'static>(error: &reqwest_middleware::Error) -> Option<&E> {
    match error {
        reqwest_middleware::Error::Reqwest(error) => (error as &(dyn Error + 'static)).downcast_ref(),
        reqwest_middleware::Error::Middleware(error) => error
            .chain()
            .find_map(|layer| layer.downcast_ref().or_else(|| layer.downcast_ref::<reqwest_middleware::Error>().and_then(find))),
    }
}
