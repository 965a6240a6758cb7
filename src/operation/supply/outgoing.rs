//! What may be sent: an operation's first request, or one that a permit was spent for.

use http::{Extensions, HeaderMap};
use reqwest::{Request, Response};
use reqwest_middleware::{Next, Result};

use crate::{platform::BoxFuture, policy::ResendPermit};

/// A request that may be sent, once: only the supply makes one, an attempt takes nothing else, and
/// sending consumes it.
#[must_use = "what is dropped is not sent"]
pub(crate) struct Outgoing(Request);

impl Outgoing {
    /// The operation's own request.
    pub(super) fn first(request: Request) -> Self {
        Self(request)
    }

    /// One more like it: this is where a permit is spent.
    pub(super) fn permitted(request: Request, _permit: ResendPermit) -> Self {
        Self(request)
    }

    /// The operation's own request, where it may have been sent before and needs a permit too.
    pub(super) fn permitted_after_all(self, _permit: ResendPermit) -> Self {
        self
    }

    /// For what differs from attempt to attempt.
    pub(crate) fn headers_mut(&mut self) -> &mut HeaderMap {
        self.0.headers_mut()
    }

    /// What is sent, to look at.
    pub(crate) fn request(&self) -> &Request {
        &self.0
    }

    /// Gives the whole fetch a time limit, the body of its answer included: where a page's timer is
    /// the only thing that ends a body.
    #[cfg(target_arch = "wasm32")]
    pub(crate) fn until(self, deadline: crate::request::deadline::Deadline) -> Self {
        Self(crate::response::body::limit(self.0, deadline))
    }

    pub(crate) fn send<'a>(self, next: Next<'a>, extensions: &'a mut Extensions) -> BoxFuture<'a, Result<Response>> {
        next.run(self.0, extensions)
    }
}
