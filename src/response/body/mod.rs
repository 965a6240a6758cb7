//! The body of an answer: bounded by the operation's deadline, or read inside the attempt.
//!
//! `reqwest` returns when the head has arrived, so a body that is cut or stalls lies outside every
//! loop around it. Here it gets the operation's deadline ([`bounded`]), or becomes part of the
//! attempt ([`read`]). Nobody may notice the difference on a response that went well: url, version,
//! headers, extensions, length, trailers and upgrades stay as they were. This module decides
//! nothing.

use std::{
    collections::VecDeque,
    error::Error as StdError,
    io, mem,
    pin::Pin,
    task::{Context, Poll, ready},
};

use bytes::Bytes;
use http::{Version, response::Parts};
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
    response::read::{Loss, LostBody, Read, Whole},
};

type BoxError = Box<dyn StdError + Send + Sync>;

/// The time limit passed before the body of an answer had arrived.
///
/// `reqwest::Error::is_timeout()` holds for the error that carries it. The value itself is inside
/// an [`io::Error`], where a walk along `source()` does not look: see [`io::Error::get_ref`].
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

/// Gives the body of the response a deadline: when it passes, reading ends with
/// [`BodyDeadlineExceeded`] and the connection is closed. Everything else about the response stays
/// as it was.
pub(crate) fn bounded(mut response: Response, deadline: Deadline) -> Response {
    let Some(until) = deadline.instant() else { return response };
    if has_ended(&response) {
        return response;
    }
    // As `Head` does, without a second map beside the one that the transport has made.
    let mut carrier = http::Response::builder();
    exchange(&mut carrier, &mut response);
    carrier = carrier.url(response.url().clone());
    exchange(&mut carrier, &mut response);
    let (parts, body) = http::Response::from(response).into_parts();
    let body = if body.is_end_stream() { body } else { Body::wrap(Bounded::new(body, Some(until))) };
    http::Response::from_parts(parts, body).into()
}

fn exchange(carrier: &mut http::response::Builder, response: &mut Response) {
    if let Some(extensions) = carrier.extensions_mut() {
        mem::swap(extensions, response.extensions_mut());
    }
}

/// Whether nothing of the body can be left to wait for: in HTTP/1 no trailers follow a body of this
/// length.
fn has_ended(response: &Response) -> bool {
    response.version() <= Version::HTTP_11 && response.content_length() == Some(0)
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
    let mut rest = Bounded::new(body, until.instant());
    let mut arrived = Arrived::default();
    loop {
        match rest.frame().await {
            Some(Ok(frame)) => arrived.push(frame),
            Some(Err(error)) => return Read::Lost(head.lose(parts, error).await),
            None => break,
        }
        if arrived.bytes() > most {
            return Read::TooLong(head.rejoin(parts, arrived.put_back(rest.body)));
        }
    }
    let trailers = arrived.others.iter().find_map(|frame| frame.trailers_ref().cloned());
    let (body, once_more) = arrived.join();
    Read::Whole { response: head.rejoin(parts, once_more), whole: Whole { body, trailers } }
}

/// The part of a response's head that `reqwest` loses when the response is taken apart.
struct Head {
    extensions: http::Extensions,
}

impl Head {
    fn of(response: &Response) -> Self {
        // The type under which the url is kept is private; only this builder makes one.
        let mut carrier = http::Response::builder().url(response.url().clone());
        Self { extensions: carrier.extensions_mut().map(mem::take).unwrap_or_default() }
    }

    fn rejoin(self, mut parts: Parts, body: Body) -> Response {
        parts.extensions.extend(self.extensions);
        http::Response::from_parts(parts, body).into()
    }

    /// Lets `reqwest` make its usual error of the failure, so that the caller's predicates work as
    /// for a body of their own reading.
    async fn lose(self, parts: Parts, error: BoxError) -> LostBody {
        let loss = if BodyDeadlineExceeded::caused(error.as_ref()) { Loss::TimeUp } else { Loss::Transport };
        let failing = self.rejoin(http::Response::new(()).into_parts().0, Body::wrap(Failed(Some(error))));
        LostBody { head: parts, error: failing.bytes().await.err(), loss }
    }
}

/// A body that ends with an error when its time is up. What is ready goes first, and nothing
/// follows an end or an error.
struct Bounded {
    /// Gone once the body has ended.
    body: Option<Body>,
    until: Option<Instant>,
    /// What wakes the reader when time is up. Made by each poll that has to wait, in the runtime of
    /// that poll: the runtime of an earlier one may be gone, or nobody may drive its timers.
    timer: Option<Pin<Box<Sleep>>>,
    late: u64,
}

impl Bounded {
    fn new(body: Body, until: Option<Instant>) -> Self {
        Self { body: Some(body), until, timer: None, late: 0 }
    }

    fn is_time_up(&self) -> bool {
        self.until.is_some_and(|until| until <= Instant::now())
    }

    /// Whether more has been handed over since time was up than can have been waiting then.
    fn is_overdue(&mut self, frame: &Frame<Bytes>) -> bool {
        if self.is_time_up() {
            self.late = self.late.saturating_add(length_of(frame).max(LEAST_FRAME));
        }
        self.late > BODY_GRACE
    }

    /// Whether time is up. If not, and if there is a runtime around, the task is woken when it is.
    fn poll_time_up(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        if self.is_time_up() {
            return Poll::Ready(());
        }
        let runtime = Handle::try_current();
        self.timer = self.until.filter(|_| runtime.is_ok()).map(|until| Box::pin(sleep_until(until)));
        self.timer.as_mut().map_or(Poll::Pending, |timer| timer.as_mut().poll(cx))
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
        ready!(this.poll_time_up(cx));
        Poll::Ready(Some(Err(this.time_up())))
    }

    fn is_end_stream(&self) -> bool {
        self.body.as_ref().is_none_or(Body::is_end_stream)
    }

    fn size_hint(&self) -> SizeHint {
        self.body.as_ref().map_or_else(|| SizeHint::with_exact(0), Body::size_hint)
    }
}

/// What has been read so far.
#[derive(Default)]
struct Arrived {
    data: Data,
    /// Trailers, and frames of kinds to come.
    others: VecDeque<Frame<Bytes>>,
}

/// The data of a body. Each frame keeps the read buffer alive that it came in, however few bytes of
/// it are its own, so several frames are copied together.
enum Data {
    One(Bytes),
    Several(Vec<u8>),
}

impl Default for Data {
    fn default() -> Self {
        Self::One(Bytes::new())
    }
}

impl Data {
    fn len(&self) -> usize {
        match self {
            Self::One(bytes) => bytes.len(),
            Self::Several(bytes) => bytes.len(),
        }
    }

    fn push(&mut self, more: Bytes) {
        match self {
            Self::One(first) if first.is_empty() => *first = more,
            Self::One(first) => *self = Self::Several([&first[..], &more[..]].concat()),
            Self::Several(bytes) => bytes.extend_from_slice(&more),
        }
    }

    fn whole(self) -> Bytes {
        match self {
            Self::One(bytes) => bytes,
            Self::Several(bytes) => bytes.into(),
        }
    }
}

impl Arrived {
    /// Empty frames say nothing, and a peer could send them without end.
    fn push(&mut self, frame: Frame<Bytes>) {
        match frame.into_data() {
            Ok(bytes) if bytes.is_empty() => {}
            Ok(bytes) => self.data.push(bytes),
            Err(other) => self.others.push_back(other),
        }
    }

    fn bytes(&self) -> u64 {
        u64::try_from(self.data.len()).unwrap_or(u64::MAX)
    }

    /// The bytes in one piece, and a body that hands them out once more, trailers included. A body
    /// of one frame is not copied.
    fn join(self) -> (Bytes, Body) {
        let whole = self.data.whole();
        let body =
            if self.others.is_empty() { Body::from(whole.clone()) } else { Body::wrap(PutBack::new(whole.clone(), self.others, None)) };
        (whole, body)
    }

    /// A body that hands out what was read, then the rest.
    fn put_back(self, rest: Option<Body>) -> Body {
        Body::wrap(PutBack::new(self.data.whole(), self.others, rest))
    }
}

/// A body with the frames that were already read put back in front.
struct PutBack {
    frames: VecDeque<Frame<Bytes>>,
    rest: Option<Body>,
}

impl PutBack {
    fn new(data: Bytes, mut others: VecDeque<Frame<Bytes>>, rest: Option<Body>) -> Self {
        if !data.is_empty() {
            others.push_front(Frame::data(data));
        }
        Self { frames: others, rest }
    }
}

impl HttpBody for PutBack {
    type Data = Bytes;
    type Error = reqwest::Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, reqwest::Error>>> {
        if let Some(frame) = self.frames.pop_front() {
            return Poll::Ready(Some(Ok(frame)));
        }
        self.rest.as_mut().map_or(Poll::Ready(None), |rest| Pin::new(rest).poll_frame(cx))
    }

    fn is_end_stream(&self) -> bool {
        self.frames.is_empty() && self.rest.as_ref().is_none_or(Body::is_end_stream)
    }

    fn size_hint(&self) -> SizeHint {
        let rest = self.rest.as_ref().map_or_else(|| SizeHint::with_exact(0), Body::size_hint);
        let put_back: u64 = self.frames.iter().map(length_of).fold(0, u64::saturating_add);
        let mut hint = SizeHint::new();
        hint.set_lower(rest.lower().saturating_add(put_back));
        if let Some(upper) = rest.upper() {
            hint.set_upper(upper.saturating_add(put_back));
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
