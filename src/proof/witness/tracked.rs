//! A request body that notices how far the transport gets with it.

use std::{
    error::Error,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};

use super::claim::Claim;

/// Framed on the wire like the body inside, byte for byte.
///
/// hyper asks [`is_end_stream`](Body::is_end_stream) right before it writes the head, of empty
/// bodies too, and nobody asks before a connection has taken the request. It is one of the two
/// hooks; polling is the other. A body that is dropped without either was never sent.
pub(super) struct Tracked {
    body: reqwest::Body,
    claim: Arc<Claim>,
}

impl Tracked {
    pub(super) fn new(body: reqwest::Body, claim: Arc<Claim>) -> Self {
        Self { body, claim }
    }
}

impl Body for Tracked {
    type Data = Bytes;
    type Error = Box<dyn Error + Send + Sync>;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        self.claim.begin();
        let frame = ready!(Pin::new(&mut self.body).poll_frame(cx));
        if frame.is_none() || self.body.is_end_stream() {
            self.claim.read();
        }
        Poll::Ready(frame.map(|frame| frame.map_err(Into::into)))
    }

    fn is_end_stream(&self) -> bool {
        self.claim.begin();
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

impl Drop for Tracked {
    fn drop(&mut self) {
        self.claim.end();
    }
}

#[cfg(test)]
mod tests {
    use std::task::Waker;

    use super::{super::claim::Stage, *};

    fn tracked(body: &'static str) -> (Tracked, Arc<Claim>) {
        let claim = Arc::new(Claim::waiting());
        (Tracked::new(body.into(), Arc::clone(&claim)), claim)
    }

    fn poll(body: &mut Tracked) {
        assert!(Pin::new(body).poll_frame(&mut Context::from_waker(Waker::noop())).is_ready());
    }

    #[test]
    fn either_hook_begins_the_message_for_good() {
        for hook in [|body: &mut Tracked| assert!(!body.is_end_stream()), poll as fn(&mut Tracked)] {
            let (mut body, claim) = tracked("body");
            assert_eq!(body.size_hint().exact(), Some(4), "asking for the length begins nothing");
            assert_eq!(claim.stage(), Stage::Waiting);
            hook(&mut body);
            drop(body);
            assert_ne!(claim.stage(), Stage::Dropped);
        }
    }

    #[test]
    fn a_body_is_read_when_its_last_byte_is_taken_and_not_before() {
        let (mut body, claim) = tracked("body");
        assert!(!body.is_end_stream());
        assert_eq!(claim.stage(), Stage::Begun);
        poll(&mut body);
        assert_eq!(claim.stage(), Stage::Read);
    }

    #[test]
    fn a_message_that_was_dropped_unasked_was_not_sent() {
        let (body, claim) = tracked("body");
        drop(body);
        assert_eq!(claim.stage(), Stage::Dropped);
    }
}
