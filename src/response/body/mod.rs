//! The body of an answer: bounded by the operation's deadline, or read inside the attempt.
//!
//! `reqwest` returns when the head has arrived, so a body that is cut or stalls lies outside every loop around it. Here it gets the
//! operation's deadline ([`bounded`]), or becomes part of the attempt ([`read`]). Nobody may notice the difference on a response that
//! went well: url, version, headers, extensions, length, trailers and upgrades stay as they were. This module decides nothing.

use std::{
    collections::VecDeque,
    error::Error as StdError,
    io,
    pin::Pin,
    task::{Context, Poll, ready},
};

use bytes::Bytes;
use http::response::Parts;
use http_body::{Body as HttpBody, Frame, SizeHint};
use http_body_util::BodyExt as _;
use reqwest::{Body, Response, ResponseBuilderExt as _};
use tokio::{
    runtime::Handle,
    time::{Instant, Sleep, sleep_until},
};

use crate::{
    policy::defaults::{BODY_GRACE, LEAST_FRAME},
    request::deadline::Deadline,
};

type BoxError = Box<dyn StdError + Send + Sync>;

/// The time limit passed before the body of an answer had arrived.
///
/// `reqwest::Error::is_timeout()` holds for the error that carries it. The value itself is inside an [`io::Error`], where a walk along
/// `source()` does not look: see [`io::Error::get_ref`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("time was up before the body of the answer had arrived")]
#[non_exhaustive]
pub struct BodyDeadlineExceeded;

impl BodyDeadlineExceeded {
    /// Whether the error comes from here.
    pub(crate) fn caused(error: &(dyn StdError + 'static)) -> bool {
        let carried = error.downcast_ref().and_then(io::Error::get_ref);
        carried.is_some_and(|inner| inner.is::<Self>()) || error.source().is_some_and(Self::caused)
    }
}

impl From<BodyDeadlineExceeded> for io::Error {
    fn from(exceeded: BodyDeadlineExceeded) -> Self {
        Self::new(io::ErrorKind::TimedOut, exceeded)
    }
}

/// Gives the body of the response a deadline: when it passes, reading ends with [`BodyDeadlineExceeded`] and the connection is closed.
/// Everything else about the response stays as it was.
pub(crate) fn bounded(response: Response, deadline: Deadline) -> Response {
    let Some(bound) = Bound::new(deadline) else { return response };
    let head = Head::of(&response);
    let (parts, body) = http::Response::from(response).into_parts();
    if body.is_end_stream() { head.rejoin(parts, body) } else { head.rejoin(parts, Body::wrap(Bounded::new(body, Some(bound)))) }
}

/// What came of reading a body inside the attempt.
#[derive(Debug)]
pub(crate) enum Read {
    /// The whole body arrived. The response carries it as if it were still to be read; it needs no deadline any more.
    Whole { response: Response, body: Bytes },
    /// The body is longer than may be held: the response is as it came, nothing of its body is lost, and it is still being received.
    TooLong(Response),
    /// The body was cut, or did not arrive in time.
    Lost(LostBody),
}

/// The head of an answer whose body was lost, and how.
#[derive(Debug)]
pub(crate) struct LostBody {
    pub(crate) head: Parts,
    /// What reading the body would have told the caller: `is_decode()` holds, the url is inside.
    pub(crate) error: Option<reqwest::Error>,
    pub(crate) loss: Loss,
}

/// Who ended a body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Loss {
    /// The transport: cut, broken, or timed out by the client's own limit.
    Transport,
    /// The limit that the body was read under.
    TimeUp,
}

/// Reads the whole body, at most `most` bytes of it and until `until` at the latest.
///
/// # Cancellation
/// Dropping the future drops the response.
pub(crate) async fn read(response: Response, most: usize, until: Deadline) -> Read {
    let most = u64::try_from(most).unwrap_or(u64::MAX);
    if response.content_length().is_some_and(|length| length > most) {
        return Read::TooLong(response);
    }
    let head = Head::of(&response);
    let (parts, body) = http::Response::from(response).into_parts();
    let mut rest = Bounded::new(body, Bound::new(until));
    let mut arrived = Arrived::default();
    loop {
        match rest.frame().await {
            Some(Ok(frame)) => arrived.push(frame),
            Some(Err(error)) => return Read::Lost(head.lose(parts, error).await),
            None => break,
        }
        if arrived.bytes > most {
            return Read::TooLong(head.rejoin(parts, Body::wrap(PutBack { arrived, rest: rest.body })));
        }
    }
    let (body, whole) = arrived.join();
    Read::Whole { response: head.rejoin(parts, whole), body }
}

/// The part of a response's head that `reqwest` loses when the response is taken apart.
struct Head {
    extensions: http::Extensions,
}

impl Head {
    fn of(response: &Response) -> Self {
        // The type under which the url is kept is private; only this builder makes one.
        let mut carrier = http::Response::builder().url(response.url().clone());
        Self { extensions: carrier.extensions_mut().map(std::mem::take).unwrap_or_default() }
    }

    fn rejoin(self, mut parts: Parts, body: Body) -> Response {
        parts.extensions.extend(self.extensions);
        http::Response::from_parts(parts, body).into()
    }

    /// Lets `reqwest` make its usual error of the failure, so that the caller's predicates work as for a body of their own reading.
    async fn lose(self, parts: Parts, error: BoxError) -> LostBody {
        let loss = if BodyDeadlineExceeded::caused(error.as_ref()) { Loss::TimeUp } else { Loss::Transport };
        let failing = self.rejoin(http::Response::new(()).into_parts().0, Body::wrap(Failed(Some(error))));
        LostBody { head: parts, error: failing.bytes().await.err(), loss }
    }
}

/// When a body has to end, and the runtime whose timer says so: the caller may read the body outside of it.
struct Bound {
    at: Instant,
    runtime: Handle,
}

impl Bound {
    fn new(deadline: Deadline) -> Option<Self> {
        // Without a runtime there is no timer, but no transport either.
        Some(Self { at: deadline.instant()?, runtime: Handle::try_current().ok()? })
    }

    fn timer(&self) -> Pin<Box<Sleep>> {
        let _inside = self.runtime.enter();
        Box::pin(sleep_until(self.at))
    }
}

/// A body that ends with an error when its bound passes. What is ready goes first, and nothing follows an end or an error.
struct Bounded {
    /// Gone once the body has ended.
    body: Option<Body>,
    bound: Option<Bound>,
    /// Made when the body first lets us wait: most short bodies never do.
    timer: Option<Pin<Box<Sleep>>>,
    late: u64,
}

impl Bounded {
    fn new(body: Body, bound: Option<Bound>) -> Self {
        Self { body: Some(body), bound, timer: None, late: 0 }
    }

    /// Whether more has been handed over since the bound passed than can have been waiting then.
    fn is_overdue(&mut self, frame: &Frame<Bytes>) -> bool {
        if self.bound.as_ref().is_some_and(|bound| bound.at <= Instant::now()) {
            self.late = self.late.saturating_add(length_of(frame).max(LEAST_FRAME));
        }
        self.late > BODY_GRACE
    }

    fn time_up(&mut self) -> BoxError {
        self.body = None;
        Box::new(io::Error::from(BodyDeadlineExceeded))
    }
}

impl HttpBody for Bounded {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        let this = &mut *self;
        let Some(body) = &mut this.body else { return Poll::Ready(None) };
        if let Poll::Ready(next) = Pin::new(body).poll_frame(cx) {
            return Poll::Ready(match next {
                Some(Ok(frame)) if this.is_overdue(&frame) => Some(Err(this.time_up())),
                Some(Ok(frame)) => Some(Ok(frame)),
                Some(Err(error)) => {
                    this.body = None;
                    Some(Err(error.into()))
                }
                None => {
                    this.body = None;
                    None
                }
            });
        }
        let Some(bound) = &this.bound else { return Poll::Pending };
        ready!(this.timer.get_or_insert_with(|| bound.timer()).as_mut().poll(cx));
        Poll::Ready(Some(Err(this.time_up())))
    }

    fn is_end_stream(&self) -> bool {
        self.body.as_ref().is_none_or(Body::is_end_stream)
    }

    fn size_hint(&self) -> SizeHint {
        self.body.as_ref().map_or_else(|| SizeHint::with_exact(0), Body::size_hint)
    }
}

/// The frames read so far.
#[derive(Default)]
struct Arrived {
    frames: VecDeque<Frame<Bytes>>,
    bytes: u64,
}

impl Arrived {
    fn push(&mut self, frame: Frame<Bytes>) {
        let length = length_of(&frame);
        self.bytes = self.bytes.saturating_add(length);
        // Empty frames say nothing, and a peer could send them without end.
        if length > 0 || frame.is_trailers() {
            self.frames.push_back(frame);
        }
    }

    /// The bytes in one piece, and a body that hands them out once more, trailers included. A body of one frame is not copied.
    fn join(self) -> (Bytes, Body) {
        let (mut data, mut trailers) = (Vec::new(), VecDeque::new());
        for frame in self.frames {
            match frame.into_data() {
                Ok(bytes) => data.push(bytes),
                Err(other) => trailers.push_back(other),
            }
        }
        let whole = if data.len() > 1 { data.concat().into() } else { data.pop().unwrap_or_default() };
        let body = if trailers.is_empty() {
            Body::from(whole.clone())
        } else {
            trailers.push_front(Frame::data(whole.clone()));
            Body::wrap(PutBack { arrived: Self { frames: trailers, bytes: self.bytes }, rest: None })
        };
        (whole, body)
    }
}

/// A body with the frames that were already read put back in front.
struct PutBack {
    arrived: Arrived,
    rest: Option<Body>,
}

impl HttpBody for PutBack {
    type Data = Bytes;
    type Error = reqwest::Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, reqwest::Error>>> {
        if let Some(frame) = self.arrived.frames.pop_front() {
            self.arrived.bytes = self.arrived.bytes.saturating_sub(length_of(&frame));
            return Poll::Ready(Some(Ok(frame)));
        }
        self.rest.as_mut().map_or(Poll::Ready(None), |rest| Pin::new(rest).poll_frame(cx))
    }

    fn is_end_stream(&self) -> bool {
        self.arrived.frames.is_empty() && self.rest.as_ref().is_none_or(Body::is_end_stream)
    }

    fn size_hint(&self) -> SizeHint {
        let rest = self.rest.as_ref().map_or_else(|| SizeHint::with_exact(0), Body::size_hint);
        let mut hint = SizeHint::new();
        hint.set_lower(rest.lower().saturating_add(self.arrived.bytes));
        if let Some(upper) = rest.upper() {
            hint.set_upper(upper.saturating_add(self.arrived.bytes));
        }
        hint
    }
}

/// A body that consists of one failure.
struct Failed(Option<BoxError>);

impl HttpBody for Failed {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        Poll::Ready(self.0.take().map(Err))
    }
}

fn length_of(frame: &Frame<Bytes>) -> u64 {
    frame.data_ref().map_or(0, |data| u64::try_from(data.len()).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests;
