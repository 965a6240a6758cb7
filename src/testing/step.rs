//! What `Scripted` does with one send, as a value.

use std::{
    fmt, io,
    pin::Pin,
    task::{Context, Poll},
    time::Duration,
};

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Method, StatusCode, Version, header};
use http_body::{Body, Frame, SizeHint};
use reqwest::{Response, ResponseBuilderExt, Url};

use super::{spelled, transport_error::TransportError};

/// What [`Scripted`](super::Scripted) does with one send.
///
/// # Examples
/// ```
/// use reqwest_safe_retry::testing::Step;
/// use std::time::Duration;
///
/// let overloaded = Step::status(503).with_header("retry-after", "2");
/// let slow = Step::ok("done").after(Duration::from_millis(40));
/// let lost_answer = Step::fails(); // taken, then closed without an answer: proves nothing
/// let nobody_there = Step::refused(); // never taken: proves that the server did not act
/// # let _ = (overloaded, slow, lost_answer, nobody_there);
/// ```
///
/// ```
/// use reqwest_safe_retry::testing::Step;
///
/// let nobody_answers = Step::hangs_connecting();
/// let too_slow = Step::times_out();
/// let broken_off = Step::status(500).with_cut_body("so f");
/// let stalled = Step::ok("ok").with_stalled_body("so f").with_version(http::Version::HTTP_2);
/// # let _ = (nobody_answers, too_slow, broken_off, stalled);
/// ```
#[derive(Clone)]
#[must_use]
pub struct Step {
    pub(super) taken: Taken,
    pub(super) delay: Duration,
    pub(super) end: End,
}

/// Whether a connection takes the request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Taken {
    /// The transport reads the body, as it does when it sends.
    Whole,
    /// The transport never touches it.
    Untouched,
}

#[derive(Clone)]
pub(super) enum End {
    Answers(Answer),
    Fails(TransportError),
    Hangs,
}

impl Step {
    /// Takes the request and answers with this status and an empty body.
    ///
    /// # Panics
    /// Panics if the code is not a status (100 to 999).
    #[track_caller]
    pub fn status(code: u16) -> Self {
        let status = spelled::status(code);
        Self::taking(End::Answers(Answer::new(status)))
    }

    /// Takes the request and answers 200 with this body.
    pub fn ok(body: impl Into<Bytes>) -> Self {
        Self::status(200).with_body(body)
    }

    /// Takes the whole request and fails without an answer: reqwest's error of a connection that
    /// closed. Nobody can know what the server did.
    pub fn fails() -> Self {
        Self::taking(End::Fails(TransportError::Closed))
    }

    /// Fails before any connection exists, as when a name does not resolve: the server cannot have
    /// acted, and the error proves it.
    pub fn refused() -> Self {
        Self { taken: Taken::Untouched, delay: Duration::ZERO, end: End::Fails(TransportError::Unresolved) }
    }

    /// Takes the whole request and fails with reqwest's error of the client's own timeout, which
    /// says nothing about the server.
    pub fn times_out() -> Self {
        Self::taking(End::Fails(TransportError::TimedOut))
    }

    /// Fails with an error of which repeating can't cure the cause: the URL's scheme is one that
    /// nobody speaks. The request is not taken.
    pub fn broken() -> Self {
        Self { taken: Taken::Untouched, delay: Duration::ZERO, end: End::Fails(TransportError::Broken) }
    }

    /// Takes the whole request and never answers.
    pub fn hangs() -> Self {
        Self::taking(End::Hangs)
    }

    /// Never gets a connection and never gives up: the request is not taken.
    pub fn hangs_connecting() -> Self {
        Self { taken: Taken::Untouched, delay: Duration::ZERO, end: End::Hangs }
    }

    /// Waits this long before it answers or fails, after it has taken the request.
    pub fn after(self, delay: Duration) -> Self {
        Self { delay, ..self }
    }

    /// Adds a header to the answer. No effect on a step that does not answer.
    ///
    /// # Panics
    /// Panics if name or value is malformed.
    #[track_caller]
    pub fn with_header(self, name: &str, value: &str) -> Self {
        let (name, value) = spelled::header(name, value);
        self.answering(|answer| {
            answer.headers.append(name, value);
        })
    }

    /// Replaces the answer's body; its length is announced.
    pub fn with_body(self, body: impl Into<Bytes>) -> Self {
        self.with_body_ending(body, BodyEnd::Whole)
    }

    /// Gives the answer a body that breaks off after these bytes.
    pub fn with_cut_body(self, begin: impl Into<Bytes>) -> Self {
        self.with_body_ending(begin, BodyEnd::Cut)
    }

    /// Gives the answer a body that stops after these bytes and never ends.
    pub fn with_stalled_body(self, begin: impl Into<Bytes>) -> Self {
        self.with_body_ending(begin, BodyEnd::Stalled)
    }

    /// Answers with this HTTP version. The default is HTTP/1.1.
    pub fn with_version(self, version: Version) -> Self {
        self.answering(|answer| answer.version = version)
    }

    fn with_body_ending(self, body: impl Into<Bytes>, end: BodyEnd) -> Self {
        let body = body.into();
        self.answering(|answer| answer.body = ScriptedBody { rest: body, end })
    }

    fn taking(end: End) -> Self {
        Self { taken: Taken::Whole, delay: Duration::ZERO, end }
    }

    fn answering(mut self, change: impl FnOnce(&mut Answer)) -> Self {
        if let End::Answers(answer) = &mut self.end {
            change(answer);
        }
        self
    }
}

impl fmt::Debug for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut step = f.debug_struct("Step");
        step.field("taken", &self.taken).field("after", &self.delay);
        match &self.end {
            End::Answers(answer) => step.field("answers", &answer.status),
            End::Fails(error) => step.field("fails", error),
            End::Hangs => step.field("hangs", &()),
        };
        step.finish()
    }
}

#[derive(Clone)]
pub(super) struct Answer {
    status: StatusCode,
    version: Version,
    headers: HeaderMap,
    body: ScriptedBody,
}

impl Answer {
    fn new(status: StatusCode) -> Self {
        let body = ScriptedBody { rest: Bytes::new(), end: BodyEnd::Whole };
        Self { status, version: Version::HTTP_11, headers: HeaderMap::new(), body }
    }

    /// The response as the transport would hand it over: with the request's URL, and without a body
    /// where HTTP knows none.
    pub(super) fn response(mut self, url: Url, method: &Method) -> Response {
        let bodiless = self.status.is_informational() || matches!(self.status, StatusCode::NO_CONTENT | StatusCode::NOT_MODIFIED);
        if !bodiless && self.body.end == BodyEnd::Whole {
            let length = HeaderValue::from(self.body.rest.len());
            self.headers.entry(header::CONTENT_LENGTH).or_insert(length);
        }
        let body = if bodiless || *method == Method::HEAD { Self::new(self.status).body } else { self.body };
        let response = http::Response::builder().url(url).body(reqwest::Body::wrap(body));
        // A URL and a body can't fail; whatever could was checked when the step was written.
        let mut response = response.unwrap_or_default();
        *response.status_mut() = self.status;
        *response.version_mut() = self.version;
        *response.headers_mut() = self.headers;
        Response::from(response)
    }
}

/// A body of one frame, and what comes after it.
#[derive(Clone)]
struct ScriptedBody {
    rest: Bytes,
    end: BodyEnd,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum BodyEnd {
    Whole,
    Cut,
    Stalled,
}

impl Body for ScriptedBody {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        if !self.rest.is_empty() {
            return Poll::Ready(Some(Ok(Frame::data(std::mem::take(&mut self.rest)))));
        }
        match self.end {
            BodyEnd::Whole => Poll::Ready(None),
            BodyEnd::Cut => {
                self.end = BodyEnd::Whole;
                Poll::Ready(Some(Err(io::Error::new(io::ErrorKind::UnexpectedEof, "the body was cut by the script"))))
            }
            BodyEnd::Stalled => Poll::Pending,
        }
    }

    fn is_end_stream(&self) -> bool {
        self.rest.is_empty() && self.end == BodyEnd::Whole
    }

    fn size_hint(&self) -> SizeHint {
        match self.end {
            BodyEnd::Whole => SizeHint::with_exact(self.rest.len() as u64),
            BodyEnd::Cut | BodyEnd::Stalled => SizeHint::default(),
        }
    }
}
