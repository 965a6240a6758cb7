//! What came out of an operation: each attempt, why it ended, what is known.
//!
//! An answer alone does not say how often it was asked for, and an error does not say what it left behind. So every operation keeps its
//! history, and prints no URL, header, key or body of it: it may be logged as it is.

#[cfg(feature = "serde")]
mod json;
mod timeline;

use std::{
    borrow::Cow,
    fmt,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use http::{Method, StatusCode};
use reqwest::Response;

use crate::{
    policy::{Evidence, IdempotencyKey, KeyAnswer, Outcome, ResendReason, Signal, StopReason},
    request::correlation::CorrelationId,
    request::origin::Origin,
};

/// What became of one operation: its attempts, why it ended and what is known about its effect.
///
/// It stands in the extensions of the response ([`RetryReport::of`]), in every [`RetryError`](crate::RetryError) and in the request's
/// [`ReportSlot`]. `Display` prints it as a timeline: a table with a row for each attempt and probe, and the outcome; the feature `serde`
/// serialises it, durations as whole milliseconds (`took_ms`), statuses as numbers, reasons by their names. Clones share one allocation.
///
/// It prints no URL, header or key: method, origin and the caller's own names (endpoint, correlation id) are all it tells of the request.
/// The [`key`](Self::key) is for whoever asks for it.
///
/// # Examples
/// ```no_run
/// # async fn run(client: reqwest_middleware::ClientWithMiddleware) -> reqwest_middleware::Result<()> {
/// use reqwest_safe_retry::{Endpoint, Outcome, RetryReport};
///
/// let order = client.post("https://api.example/orders").body("1 coffee").with_extension(Endpoint::unprotected_write());
/// let answer = order.send().await?;
/// match RetryReport::of(&answer) {
///     Some(report) if report.outcome() == Outcome::Unknown => println!("{}, and it may have happened all the same:\n{report}", answer.status()),
///     Some(report) => println!("{} after {} attempts: {}", answer.status(), report.attempts().len(), report.stop()),
///     None => println!("{} at once", answer.status()),
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone)]
pub struct RetryReport(Arc<Record>);

#[derive(Debug)]
pub(crate) struct Record {
    pub(crate) method: Method,
    pub(crate) origin: Origin,
    pub(crate) endpoint: Option<Cow<'static, str>>,
    pub(crate) correlation: Option<CorrelationId>,
    pub(crate) attempts: Vec<AttemptRecord>,
    pub(crate) probes: Vec<ProbeRecord>,
    pub(crate) stop: StopReason,
    pub(crate) outcome: Outcome,
    pub(crate) evidence: Evidence,
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

    /// The report of the operation that a response answers. `None`: one attempt brought a final answer, or the request was left alone
    /// ([`Unmarked::Untouched`](crate::Unmarked::Untouched)), so there is nothing to tell.
    #[must_use]
    pub fn of(response: &Response) -> Option<&Self> {
        response.extensions().get()
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

    /// The wait the server last asked for, also when it was too long to be waited: a good moment to try again by hand.
    #[must_use]
    pub fn hint(&self) -> Option<Duration> {
        self.0.hint
    }

    /// The idempotency key the operation was sent with, also after an answer: the caller's, or the one that was made for it. Sending the
    /// operation again later means using this one. If the server may have processed it, the key tells when it was
    /// [first used](IdempotencyKey::first_use), as that of an [error](crate::RetryError::key) does. `None`: no key, or nothing was sent.
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

    /// What the last answer says about the key it was sent under: a replay, a copy in progress, or a mismatch that is the caller's mistake.
    #[must_use]
    pub fn key_answer(&self) -> Option<KeyAnswer> {
        self.0.key_answer
    }

    /// The operation's method.
    #[must_use]
    pub fn method(&self) -> &Method {
        &self.0.method
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
    pub(crate) hint: Option<Duration>,
    pub(crate) time_left: Duration,
    pub(crate) pause: Option<Duration>,
    pub(crate) resend: Option<ResendReason>,
}

impl AttemptRecord {
    /// The attempt's number; the first send is 1.
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

    /// The wait the server asked for with this answer.
    #[must_use]
    pub fn hint(&self) -> Option<Duration> {
        self.hint
    }

    /// Time left before the deadline when it was decided about; [`Duration::MAX`] when there is none.
    ///
    /// For a write with a probe it is what is left for sending: the tenth of the deadline that is kept for the last look is not counted.
    /// The report's own [`time_left`](RetryReport::time_left) counts everything.
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

/// Why an attempt ended the way it did, as far as this side can see.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub enum Cause {
    /// The server answered; the signal carries the status.
    Status,
    /// No connection: the name did not resolve, the peer refused, a proxy tunnel or the TLS handshake failed.
    Connect,
    /// The certificate is not trusted.
    Certificate,
    /// The peer reset the connection or the stream.
    Reset,
    /// The peer closed the connection before a whole answer arrived.
    PeerClosed,
    /// A limit ended the attempt.
    TimedOut(TimeLimit),
    /// The peer broke the protocol.
    Protocol,
    /// The protocol refused the request before processing: HTTP/2 REFUSED_STREAM, or GOAWAY below this stream.
    Refused,
    /// The redirect policy stopped the chain.
    Redirect,
    /// The request's own body failed to be read.
    RequestBody,
    /// The request could not be built: bad URL, bad header.
    Request,
    /// The answer's body was cut or stalled.
    BodyLost,
    /// An inner middleware's own error.
    Middleware,
    /// Something else in the transport.
    Transport,
}

/// Which limit ended an attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub enum TimeLimit {
    /// The operation's deadline.
    Deadline,
    /// The limit of one attempt.
    Attempt,
    /// The client's own: reqwest's `timeout`, `read_timeout` or `connect_timeout`.
    Client,
}

/// Receives the report of one operation, whatever its result: put a clone on the request, keep the other.
///
/// It belongs to one operation; a second operation with the same slot overwrites the first one's report.
///
/// # Examples
/// ```no_run
/// # async fn run(client: reqwest_middleware::ClientWithMiddleware) -> reqwest_middleware::Result<()> {
/// use reqwest_safe_retry::ReportSlot;
///
/// let slot = ReportSlot::new();
/// let answer = client.get("http://localhost/").with_extension(slot.clone()).send().await;
/// if let Some(report) = slot.take() {
///     println!("{} attempts, {:?}", report.attempts().len(), report.outcome());
/// }
/// # answer.map(drop)
/// # }
/// ```
#[derive(Debug, Clone, Default)]
pub struct ReportSlot(Arc<Mutex<Option<RetryReport>>>);

impl ReportSlot {
    /// An empty slot.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Takes the report out. `None` before the operation has ended, after its future was dropped, and after a first `take`.
    #[must_use]
    pub fn take(&self) -> Option<RetryReport> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    pub(crate) fn fill(&self, report: RetryReport) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(report);
    }
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

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Status => "answered",
            Self::Connect => "not connected",
            Self::Certificate => "certificate not trusted",
            Self::Reset => "reset by the peer",
            Self::PeerClosed => "closed by the peer",
            Self::TimedOut(TimeLimit::Deadline) => "cut by the deadline",
            Self::TimedOut(TimeLimit::Attempt) => "cut by the attempt limit",
            Self::TimedOut(TimeLimit::Client) => "timed out in the client",
            Self::Protocol => "protocol broken",
            Self::Refused => "refused by the protocol",
            Self::Redirect => "redirects stopped",
            Self::RequestBody => "request body failed",
            Self::Request => "request not buildable",
            Self::BodyLost => "answer's body lost",
            Self::Middleware => "failed in a middleware",
            Self::Transport => "transport failed",
        })
    }
}
