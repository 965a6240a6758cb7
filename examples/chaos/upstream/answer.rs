//! Answers, and the ways in which their bodies fail to arrive.

use std::{convert::Infallible, io, time::Duration};

use bytes::Bytes;
use futures_util::{Stream, StreamExt as _, stream};
use http::{Response, StatusCode};
use http_body_util::{BodyExt, Full, StreamBody, combinators::BoxBody};
use hyper::body::Frame;

/// An error ends the stream on HTTP/2 and the connection on HTTP/1.
pub(super) type Failure = Box<dyn std::error::Error + Send + Sync>;
pub(super) type Answer = Response<BoxBody<Bytes, io::Error>>;

/// Enough to be in several reads.
const TEXT: &[u8] = &[b'-'; 600];

pub(super) fn answer(status: StatusCode) -> Answer {
    let mut answer = Response::new(Full::new(Bytes::from_static(TEXT)).map_err(|never: Infallible| match never {}).boxed());
    *answer.status_mut() = status;
    answer
}

/// Half of the body, and then the end of the connection.
pub(super) fn cut(answer: Answer) -> Answer {
    streamed(answer, stream::once(async { Err(io::Error::other("cut")) }))
}

/// Half of the body, and then nothing.
pub(super) fn stalled(answer: Answer) -> Answer {
    streamed(answer, stream::pending())
}

/// Half of the body, and the rest byte by byte.
pub(super) fn trickling(answer: Answer, pause: Duration) -> Answer {
    let rest = stream::iter(0..20).then(move |_| async move {
        tokio::time::sleep(pause).await;
        Ok(Frame::data(Bytes::from_static(b"-")))
    });
    streamed(answer, rest)
}

fn streamed(answer: Answer, rest: impl Stream<Item = io::Result<Frame<Bytes>>> + Send + Sync + 'static) -> Answer {
    let half = stream::once(async { Ok(Frame::data(Bytes::from_static(&TEXT[..TEXT.len() / 2]))) });
    answer.map(|_| BodyExt::boxed(StreamBody::new(half.chain(rest))))
}
