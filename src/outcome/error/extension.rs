//! Questions to a middleware error, answered whichever layer made it.

use super::{RetryError, find};
use crate::{
    outcome::report::RetryReport,
    policy::{Evidence, StopReason},
    proof::cause::Cause,
};

/// What a middleware error says, whichever variant it is and however many layers wrapped it.
///
/// `reqwest_middleware::Error`'s own predicates answer `false` for every error that any middleware
/// made; these look inside.
///
/// ```
/// use reqwest_safe_retry::{Endpoint, RetryError, RetryErrorExt, SafeRetry};
/// use reqwest_safe_retry::testing::{Fault, FaultServer};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> reqwest::Result<()> {
/// let server = FaultServer::start([Fault::close_after_request()]).await;
/// let client = SafeRetry::new().client(reqwest::Client::builder()).redirects_off().build()?;
/// let order = client.post(server.url("/orders")).with_extension(Endpoint::unprotected_write());
/// let error = order.send().await.unwrap_err();
/// assert!(matches!(error.safe_retry(), Some(RetryError::OutcomeUnknown { .. })));
/// assert!(error.transport_error().is_some_and(|error| error.is_request()));
/// assert!(!error.timed_out());
/// # Ok(())
/// # }
/// ```
pub trait RetryErrorExt: sealed::Sealed {
    /// The error of this crate, if it is one.
    fn safe_retry(&self) -> Option<&RetryError>;

    /// The transport's own error, with all its predicates.
    fn transport_error(&self) -> Option<&reqwest::Error>;

    /// Whether a limit ended the operation or its last attempt: a deadline, an attempt limit, or
    /// the client's own timeout.
    fn timed_out(&self) -> bool;

    /// What is proven about the operation. [`Evidence::Unknown`] for a plain reqwest error, which
    /// carries no proof: redirects below may have delivered the request before the failure. A
    /// [`ReportSlot`](crate::ReportSlot) always tells.
    fn evidence(&self) -> Evidence;
}

impl RetryErrorExt for reqwest_middleware::Error {
    fn safe_retry(&self) -> Option<&RetryError> {
        RetryError::find(self)
    }

    fn transport_error(&self) -> Option<&reqwest::Error> {
        self.safe_retry().and_then(RetryError::transport).or_else(|| find(self))
    }

    fn timed_out(&self) -> bool {
        let ours = self.safe_retry().is_some_and(|error| match error {
            RetryError::DeadlineExceeded(_) | RetryError::AttemptTimedOut(_) => true,
            RetryError::OutcomeUnknown(failure) | RetryError::Unprocessed(failure) | RetryError::BodyLost(failure) => {
                let cut = || failure.report().attempts().last().is_some_and(|last| matches!(last.cause(), Cause::TimedOut(_)));
                failure.report().stop() == StopReason::DeadlineTooNear || cut()
            }
            RetryError::CoolingDown(_) | RetryError::Unsuccessful(_) | RetryError::Misused(_) => false,
        });
        ours || self.transport_error().is_some_and(reqwest::Error::is_timeout)
    }

    fn evidence(&self) -> Evidence {
        match self.safe_retry() {
            Some(RetryError::Misused(misuse)) => misuse.evidence(),
            Some(error) => error.report().map_or(Evidence::Unknown, RetryReport::evidence),
            None => Evidence::Unknown,
        }
    }
}

mod sealed {
    /// Only for `reqwest_middleware::Error`.
    #[expect(unnameable_types, reason = "that outsiders cannot name it is what seals the trait")]
    pub trait Sealed {}
    impl Sealed for reqwest_middleware::Error {}
}
