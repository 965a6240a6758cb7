//! The stated length of a body, and a body that is held to it.

use std::{
    error::Error as StdError,
    pin::Pin,
    task::{Context, Poll, ready},
};

use bytes::Bytes;
use http_body::{Body as HttpBody, Frame, SizeHint};
use reqwest::Body;

type BoxError = Box<dyn StdError + Send + Sync>;

/// The body, which ends in an error where it is not as long as stated.
///
/// # Errors
/// It is known by now that it is not.
pub(super) fn held_to(stated: u64, body: Body) -> Result<Body, WrongLength> {
    match body.size_hint().exact() {
        Some(known) if known != stated => Err(WrongLength),
        Some(_) => Ok(body),
        None => Ok(Body::wrap(Exactly { body: Some(body), left: stated, held: None })),
    }
}

/// A replayed body did not have its stated length.
#[derive(Debug, thiserror::Error)]
#[error("the replayed body is not as long as stated")]
pub(super) struct WrongLength;

/// A body with a stated length, which is held to it. The last frame is kept back until the end has
/// been seen: a body that goes on would otherwise be cut off at its stated length and arrive as a
/// complete, wrong one.
struct Exactly {
    /// Gone once it has ended.
    body: Option<Body>,
    left: u64,
    held: Option<Frame<Bytes>>,
}

impl Exactly {
    /// Counts the frame; the frame before it, or itself while more must follow, may go.
    fn pass(&mut self, frame: Frame<Bytes>) -> Result<Option<Frame<Bytes>>, BoxError> {
        let length = frame.data_ref().map_or(0, Bytes::len);
        if length == 0 && frame.is_data() {
            return Ok(None);
        }
        self.left = u64::try_from(length).ok().and_then(|length| self.left.checked_sub(length)).ok_or(WrongLength)?;
        Ok(if self.left > 0 { Some(frame) } else { self.held.replace(frame) })
    }
}

impl HttpBody for Exactly {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        while let Some(body) = &mut self.body {
            let passed = match ready!(Pin::new(body).poll_frame(cx)) {
                Some(Ok(frame)) => self.pass(frame),
                Some(Err(error)) => Err(error.into()),
                None if self.left > 0 => Err(WrongLength.into()),
                None => {
                    self.body = None;
                    break;
                }
            };
            match passed {
                Ok(None) => {}
                Ok(Some(frame)) => return Poll::Ready(Some(Ok(frame))),
                Err(error) => {
                    (self.body, self.held) = (None, None);
                    return Poll::Ready(Some(Err(error)));
                }
            }
        }
        Poll::Ready(self.held.take().map(Ok))
    }

    fn is_end_stream(&self) -> bool {
        self.held.is_none() && self.left == 0 && self.body.as_ref().is_none_or(Body::is_end_stream)
    }

    fn size_hint(&self) -> SizeHint {
        let held = self.held.as_ref().and_then(Frame::data_ref).map_or(0, Bytes::len);
        let length = u64::try_from(held).map_or(u64::MAX, |held| held.saturating_add(self.left));
        // Nobody polls a body of zero bytes, so one that is not empty at all would go unnoticed.
        if length == 0 && self.body.is_some() { SizeHint::new() } else { SizeHint::with_exact(length) }
    }
}
