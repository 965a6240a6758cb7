//! What the caller gets with an error: the report, and what the next step needs.

use std::{error::Error, fmt};

use http::StatusCode;

use crate::{
    outcome::report::RetryReport,
    policy::{IdempotencyKey, StopReason},
    proof::errors::Unquoted,
    request::replay::ReplayError,
    request::shown,
};

/// What stands behind a [`RetryError`](super::RetryError): the report, the key, the last status and
/// the transport's error.
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
    /// The same, whose chain would print what a peer wrote, and what is printed instead.
    Quoting(reqwest::Error, Unquoted),
    /// A later attempt could not be supplied.
    Supply(ReplayError),
}

impl Failure {
    pub(crate) fn new(report: RetryReport, key: Option<IdempotencyKey>, status: Option<StatusCode>, source: Option<FailureSource>) -> Self {
        let source = match source {
            Some(FailureSource::Transport(error)) => Some(match Unquoted::of(&error) {
                Some(unquoted) => FailureSource::Quoting(error.without_url(), unquoted),
                None => FailureSource::Transport(error.without_url()),
            }),
            other => other,
        };
        Self(Box::new(FailureParts { report, key, status, source }))
    }

    /// What became of the operation.
    #[must_use]
    pub fn report(&self) -> &RetryReport {
        &self.0.report
    }

    pub(super) fn key(&self) -> Option<&IdempotencyKey> {
        self.0.key.as_ref()
    }

    pub(super) fn status(&self) -> Option<StatusCode> {
        self.0.status
    }

    /// The transport's own error, also where the chain shows words of ours instead.
    pub(super) fn transport(&self) -> Option<&reqwest::Error> {
        match &self.0.source {
            Some(FailureSource::Transport(error) | FailureSource::Quoting(error, _)) => Some(error),
            Some(FailureSource::Supply(_)) | None => None,
        }
    }

    pub(super) fn source(&self) -> Option<&(dyn Error + 'static)> {
        match &self.0.source {
            Some(FailureSource::Transport(error)) => Some(error),
            Some(FailureSource::Quoting(_, unquoted)) => Some(unquoted),
            Some(FailureSource::Supply(error)) => Some(error),
            None => None,
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let report = &self.0.report;
        write!(f, "{} {}, ", shown::method(report.method()), report.origin())?;
        match report.attempts() {
            [] => f.write_str("nothing sent")?,
            [only] => write!(f, "1 attempt, {}", only.cause())?,
            [.., last] => write!(f, "{} attempts, last {}", report.attempts().len(), last.cause())?,
        }
        self.0.status.map_or(Ok(()), |status| write!(f, ", status {}", status.as_u16()))?;
        // The one reason to stop that lies in the program: it could have been sent again.
        match &self.0.source {
            Some(FailureSource::Supply(error)) => write!(f, ", {error}"),
            Some(FailureSource::Transport(_) | FailureSource::Quoting(..)) | None if report.stop() == StopReason::BodyConsumed => {
                write!(f, ", {}", report.stop())
            }
            Some(FailureSource::Transport(_) | FailureSource::Quoting(..)) | None => Ok(()),
        }
    }
}

impl fmt::Debug for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Failure").field("report", &self.0.report).field("status", &self.0.status).finish_non_exhaustive()
    }
}
