//! The upload behind an answer that came early: it stops when nobody wants that answer any more.
//!
//! On HTTP/1 a server may refuse a request whose body is still on its way, and hyper goes on
//! writing it, whatever becomes of the answer. Nobody wants those bytes, and they would travel
//! beside the next attempt. So an error answer takes the tracked body with it.

use std::{
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use reqwest::{Response, ResponseBuilderExt as _};

use super::claim::{Claim, Stage};

/// Ties the upload to an answer that refuses it: it is given up with the answer. A success that
/// comes early may be the answer to what is still being sent, and is left alone.
pub(super) fn ends_with(response: Response, claim: Arc<Claim>) -> Response {
    let is_error = response.status().is_client_error() || response.status().is_server_error();
    if !is_error || claim.stage() != Stage::Begun {
        return response;
    }
    // The type under which reqwest keeps the url is private; only this builder makes one.
    let carrier = http::Response::builder().url(response.url().clone()).body(());
    let (mut parts, body) = http::Response::from(response).into_parts();
    if let Ok(carrier) = carrier {
        parts.extensions.extend(carrier.into_parts().0.extensions);
    }
    http::Response::from_parts(parts, reqwest::Body::wrap(Refusal { body, claim })).into()
}

/// The body of an answer that refuses an upload.
struct Refusal {
    body: reqwest::Body,
    claim: Arc<Claim>,
}

impl Body for Refusal {
    type Data = Bytes;
    type Error = reqwest::Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, reqwest::Error>>> {
        let frame = ready!(Pin::new(&mut self.body).poll_frame(cx));
        if !matches!(frame, Some(Ok(_))) {
            self.claim.give_up();
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

impl Drop for Refusal {
    fn drop(&mut self) {
        self.claim.give_up();
    }
}
