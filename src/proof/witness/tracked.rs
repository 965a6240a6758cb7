//! A request body that notices when the transport reaches for it, and that can be revoked until then.

use std::{
    error::Error,
    fmt,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};

use super::claim::Claim;

/// Framed on the wire like the body inside, byte for byte.
///
/// hyper asks [`is_end_stream`](Body::is_end_stream) right before it writes the head, of empty bodies too, and nobody asks before a
/// connection has taken the request. It is one of the two hooks; polling is the other.
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
        if !self.claim.take() {
            return Poll::Ready(Some(Err(Revoked.into())));
        }
        Pin::new(&mut self.body).poll_frame(cx).map_err(Into::into)
    }

    fn is_end_stream(&self) -> bool {
        self.claim.take() && self.body.is_end_stream()
    }

    /// A revoked body announces one byte that never comes: a message without a length could count as complete.
    fn size_hint(&self) -> SizeHint {
        if self.claim.is_revoked() { SizeHint::with_exact(1) } else { self.body.size_hint() }
    }
}

/// Ends the sending of a message whose caller was told that it is not sent.
#[derive(Debug)]
struct Revoked;

impl fmt::Display for Revoked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the request was given up before it was sent")
    }
}

impl Error for Revoked {}

#[cfg(test)]
mod tests {
    use std::task::Waker;

    use super::*;

    #[test]
    fn either_hook_takes_the_message() {
        let hooks: [fn(&mut Tracked); 2] = [
            |body| assert!(!body.is_end_stream()),
            |body| assert!(Pin::new(body).poll_frame(&mut Context::from_waker(Waker::noop())).is_ready()),
        ];
        for hook in hooks {
            let claim = Arc::new(Claim::fresh());
            let mut body = Tracked::new("body".into(), Arc::clone(&claim));
            assert_eq!(body.size_hint().exact(), Some(4), "asking for the length takes nothing");
            hook(&mut body);
            assert!(!claim.revoke());
        }
    }
}
