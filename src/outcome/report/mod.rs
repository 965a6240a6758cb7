//! What came out of an operation: each attempt, why it ended, what is known.
//!
//! An answer alone does not say how often it was asked for, and an error does not say what it left
//! behind. So every operation keeps its history, and prints no URL, header, key or body of it: it
//! may be logged as it is.

mod attempt_record;
#[cfg(feature = "serde")]
mod json;
mod probe_record;
mod slot;
mod timeline;

use std::{borrow::Cow, sync::Arc, time::Duration};

use http::Method;

pub use attempt_record::AttemptRecord;
pub use probe_record::{Found, ProbeRecord};
pub use slot::ReportSlot;

use crate::{
    outcome::advice::Advice,
    policy::{Evidence, IdempotencyKey, KeyAnswer, Outcome, StopReason},
    request::correlation::CorrelationId,
    request::origin::Origin,
    request::shown::ShownMethod,
};

/// What became of one operation: its attempts, why it ended and what is known about its effect.
///
/// It stands in the extensions of the response ([`RetryReport::of`]), in every
/// [`RetryError`](crate::RetryError) and in the request's [`ReportSlot`]. `Display` prints it as a
/// timeline: a table with a row for each attempt and probe, and the outcome; the feature `serde`
/// serialises it, durations as whole milliseconds (`took_ms`), statuses as numbers, reasons by
/// their names. Clones share one allocation.
///
/// It prints no URL, header or key: method, origin and the caller's own names (endpoint,
/// correlation id) are all it tells of the request. The [`key`](Self::key) is for whoever asks for
/// it.
///
/// # Examples
/// ```no_run
/// # use reqwest_middleware::{ClientWithMiddleware, Result};
/// # async fn run(client: ClientWithMiddleware) -> Result<()> {
/// use reqwest_safe_retry::{Endpoint, Outcome, RetryReport};
///
/// let order = client.post("https://api.example/orders").body("1 coffee");
/// let answer = order.with_extension(Endpoint::unprotected_write()).send().await?;
/// let status = answer.status();
/// match RetryReport::of(&answer) {
///     Some(report) if report.outcome() == Outcome::Unknown => {
///         println!("{status}, and it may have happened all the same:\n{report}");
///     }
///     Some(report) => {
///         println!("{status} after {} attempts: {}", report.attempts().len(), report.stop());
///     }
///     None => println!("{status} at once"),
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone)]
pub struct RetryReport(Arc<Record>);

#[derive(Debug)]
pub(crate) struct Record {
    pub(crate) method: ShownMethod,
    pub(crate) origin: Origin,
    pub(crate) endpoint: Option<Cow<'static, str>>,
    pub(crate) correlation: Option<CorrelationId>,
    pub(crate) sent_before: Option<AttemptRecord>,
    pub(crate) attempts: Vec<AttemptRecord>,
    pub(crate) probes: Vec<ProbeRecord>,
    pub(crate) stop: StopReason,
    pub(crate) outcome: Outcome,
    pub(crate) evidence: Evidence,
    pub(crate) advice: Vec<Advice>,
    pub(crate) hint: Option<Duration>,
    /// As far as it was sent.
    pub(crate) key: Option<IdempotencyKey>,
    pub(crate) key_answer: Option<KeyAnswer>,
    pub(crate) took: Duration,
    pub(crate) time_left: Duration,
}

impl RetryReport {
    pub(crate) fn new(record: Record) -> Self {
        Self(Arc::new(record))
    }

    /// The report of the operation that a response answers. `None`: one attempt brought a final
    /// answer, or the request was left alone ([`Unmarked::Untouched`](crate::Unmarked::Untouched)),
    /// so there is nothing to tell.
    #[cfg(not(target_arch = "wasm32"))] // a browser's response carries nothing of ours
    #[must_use]
    pub fn of(response: &reqwest::Response) -> Option<&Self> {
        response.extensions().get()
    }

    /// Lets the response that it is about carry it, where it can.
    #[cfg_attr(target_arch = "wasm32", expect(unused_variables, reason = "a browser's response carries nothing of ours"))]
    pub(crate) fn ride_on(self, response: &mut reqwest::Response) {
        #[cfg(not(target_arch = "wasm32"))]
        response.extensions_mut().insert(self);
    }

    /// What was decided before the first attempt, of an operation that an earlier process may have
    /// sent ([`SentBefore`](crate::SentBefore), or a key that was used before): a record with the
    /// number 0 and the signal [`SentBefore`](crate::policy::Signal::SentBefore). Probes asked
    /// before the first attempt are asked about it. `None`: nothing says that it was sent before,
    /// or the operation ended before anything was decided.
    #[must_use]
    pub fn sent_before(&self) -> Option<&AttemptRecord> {
        self.0.sent_before.as_ref()
    }

    /// The attempts, in order. Empty when nothing was sent.
    #[must_use]
    pub fn attempts(&self) -> &[AttemptRecord] {
        &self.0.attempts
    }

    /// The probes, in order.
    #[must_use]
    pub fn probes(&self) -> &[ProbeRecord] {
        &self.0.probes
    }

    /// Why nothing more was sent.
    #[must_use]
    pub fn stop(&self) -> StopReason {
        self.0.stop
    }

    /// What is known about the operation.
    #[must_use]
    pub fn outcome(&self) -> Outcome {
        self.0.outcome
    }

    /// The worst evidence of the attempts that no probe has cleared.
    #[must_use]
    pub fn evidence(&self) -> Evidence {
        self.0.evidence
    }

    /// What was noticed about how the operation was sent, and should be mended in the program.
    #[must_use]
    pub fn advice(&self) -> &[Advice] {
        &self.0.advice
    }

    /// The wait the server last asked for, also when it was too long to be waited: a good moment to
    /// try again by hand.
    #[must_use]
    pub fn hint(&self) -> Option<Duration> {
        self.0.hint
    }

    /// The idempotency key the operation was sent with, also after an answer: the caller's, or the
    /// one that was made for it. Sending the operation again later means using this one. If the
    /// server may have processed it, the key tells when it was
    /// [first used](IdempotencyKey::first_use), as that of an [error](crate::RetryError::key) does.
    /// `None`: no key, or nothing was sent.
    #[must_use]
    pub fn key(&self) -> Option<&IdempotencyKey> {
        self.0.key.as_ref()
    }

    /// Whether an idempotency key went out with the operation.
    #[must_use]
    pub fn key_was_sent(&self) -> bool {
        self.key().is_some()
    }

    /// Whether the server marked the answer as the replay of an earlier one with the same key.
    #[must_use]
    pub fn replayed(&self) -> bool {
        self.0.key_answer == Some(KeyAnswer::Replayed)
    }

    /// What the last answer says about the key it was sent under: a replay, a copy in progress, or
    /// a mismatch that is the caller's mistake.
    #[must_use]
    pub fn key_answer(&self) -> Option<KeyAnswer> {
        self.0.key_answer
    }

    /// The operation's method, whole; where it is printed, it is cut at
    /// [`SHOWN_METHOD`](crate::policy::defaults::SHOWN_METHOD) bytes.
    #[must_use]
    pub fn method(&self) -> &Method {
        &self.0.method.0
    }

    /// Scheme, host and port of the operation.
    #[must_use]
    pub fn origin(&self) -> &Origin {
        &self.0.origin
    }

    /// The endpoint's name, when it has one.
    #[must_use]
    pub fn endpoint(&self) -> Option<&str> {
        self.0.endpoint.as_deref()
    }

    /// The correlation id, when the caller gave one.
    #[must_use]
    pub fn correlation_id(&self) -> Option<&CorrelationId> {
        self.0.correlation.as_ref()
    }

    /// Time from the start of the operation to its end (to the response head of the final answer).
    #[must_use]
    pub fn took(&self) -> Duration {
        self.0.took
    }

    /// Time left before the deadline when the operation ended; [`Duration::MAX`] when it has none.
    #[must_use]
    pub fn time_left(&self) -> Duration {
        self.0.time_left
    }
}
