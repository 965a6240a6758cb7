//! A request body that notices how far the transport gets with it.

use std::{
    error::Error,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
};

use bytes::Bytes;
use http_body::{Body as HttpBody, Frame, SizeHint};

use super::claim::Claim;

/// Framed on the wire like the body inside, byte for byte.
///
/// hyper asks [`is_end_stream`](HttpBody::is_end_stream) right before it writes the head, of empty
/// bodies too, and nobody asks before a connection has taken the request. It is one of the two
/// hooks; polling is the other. A body that is dropped without either was never sent.
///
/// The transport takes a frame as a whole, so a long one is handed over in pieces: what it has not
/// taken can still be stopped.
pub(super) struct Tracked {
    body: reqwest::Body,
    /// What is left of a frame that was too long.
    rest: Bytes,
    claim: Arc<Claim>,
}

/// 64 KiB: a shorter body is in the kernel's hands by the time an answer comes.
const PIECE: usize = 64 * 1024;

/// Nobody wants the rest of a request any more: its answer came early, and was given up.
#[derive(Debug, thiserror::Error)]
#[error("the answer came before the end of the request, and was given up")]
struct GivenUp;

impl Tracked {
    pub(super) fn new(body: reqwest::Body, claim: Arc<Claim>) -> Self {
        Self { body, rest: Bytes::new(), claim }
    }
}

impl Tracked {
    fn first_piece(&mut self, frame: Frame<Bytes>) -> Frame<Bytes> {
        match frame.into_data() {
            Ok(data) if data.len() > PIECE => {
                self.rest = data;
                self.next_piece()
            }
            Ok(data) => Frame::data(data),
            Err(other) => other,
        }
    }

    fn next_piece(&mut self) -> Frame<Bytes> {
        let piece = PIECE.min(self.rest.len());
        Frame::data(self.rest.split_to(piece))
    }
}

impl HttpBody for Tracked {
    type Data = Bytes;
    type Error = Box<dyn Error + Send + Sync>;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        self.claim.begin();
        if self.claim.is_given_up() {
            return Poll::Ready(Some(Err(GivenUp.into())));
        }
        let frame = if self.rest.is_empty() {
            // The chunks of a body without a length stay as they are: they can be seen on the wire.
            let is_framed_by_length = self.body.size_hint().exact().is_some();
            let frame = ready!(Pin::new(&mut self.body).poll_frame(cx));
            if is_framed_by_length { frame.map(|frame| frame.map(|frame| self.first_piece(frame))) } else { frame }
        } else {
            Some(Ok(self.next_piece()))
        };
        if frame.is_none() || HttpBody::is_end_stream(&*self) {
            self.claim.read();
        }
        Poll::Ready(frame.map(|frame| frame.map_err(Into::into)))
    }

    fn is_end_stream(&self) -> bool {
        self.claim.begin();
        self.rest.is_empty() && self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        let hint = self.body.size_hint();
        let rest = u64::try_from(self.rest.len()).unwrap_or(u64::MAX);
        hint.exact().filter(|_| rest > 0).map_or(hint, |left| SizeHint::with_exact(left.saturating_add(rest)))
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
    fn a_long_body_is_handed_over_in_pieces_and_read_with_the_last_one() {
        let claim = Arc::new(Claim::waiting());
        let bytes: Vec<u8> = (0..=u8::MAX).cycle().take(2 * PIECE + 1).collect();
        let mut body = Tracked::new(bytes.clone().into(), Arc::clone(&claim));
        let mut read = Vec::new();
        for (piece, stage) in [(PIECE, Stage::Begun), (PIECE, Stage::Begun), (1, Stage::Read)] {
            assert_eq!(body.size_hint().exact(), Some((bytes.len() - read.len()) as u64));
            assert!(!body.is_end_stream());
            let Poll::Ready(Some(Ok(frame))) = Pin::new(&mut body).poll_frame(&mut Context::from_waker(Waker::noop())) else { panic!() };
            read.extend_from_slice(frame.data_ref().unwrap());
            assert_eq!((frame.data_ref().unwrap().len(), claim.stage()), (piece, stage));
        }
        assert!(body.is_end_stream() && read == bytes);
    }

    #[test]
    fn a_body_that_was_given_up_ends_in_an_error() {
        let (mut body, claim) = tracked("body");
        claim.give_up();
        let Poll::Ready(Some(Err(_))) = Pin::new(&mut body).poll_frame(&mut Context::from_waker(Waker::noop())) else { panic!() };
        assert_eq!(claim.stage(), Stage::Begun, "what was taken before may have been sent");
    }

    #[test]
    fn a_message_that_was_dropped_unasked_was_not_sent() {
        let (body, claim) = tracked("body");
        drop(body);
        assert_eq!(claim.stage(), Stage::Dropped);
    }
}
