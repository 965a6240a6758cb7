//! One call of the client is one operation, also when a middleware outside of the plugin sends it
//! again: an auth refresh, or somebody else's retries.
//!
//! Each pass through the plugin would make a key of its own, and a new key for the same operation
//! is a second operation. So the outermost middleware of the paved road opens a call, and the
//! passes inside it find the key of the first. Nothing of it outlives the call: what stands in the
//! extensions is a weak reference, which a call that ended or was dropped leaves empty.

use std::{
    fmt,
    sync::{Arc, Mutex, PoisonError, Weak},
};

use async_trait::async_trait;
use http::Extensions;
use reqwest::{Body, Request, Response};
use reqwest_middleware::{Middleware, Next, Result};

use crate::policy::IdempotencyKey;

/// The outermost middleware of the paved road.
pub(crate) struct OneCall;

/// The call that a pass belongs to, in the extensions of its request.
#[derive(Debug, Clone)]
pub(crate) struct Call(Weak<Mutex<Vec<Pass>>>);

/// What an earlier pass was, and its key, which counts as used from then on.
struct Pass {
    request: Request,
    key: IdempotencyKey,
}

impl Call {
    /// The key of an earlier pass of the same request. Another request in the same call, such as
    /// one for a token or the next of a batch, is another operation.
    pub(crate) fn key_of(extensions: &Extensions, request: &Request) -> Option<IdempotencyKey> {
        let call = extensions.get::<Self>()?.0.upgrade()?;
        let passes = call.lock().unwrap_or_else(PoisonError::into_inner);
        passes.iter().find(|pass| pass.sends(request)).map(|pass| pass.key.clone())
    }

    /// Keeps the key of a pass for the passes after it. It is kept before anything is sent: the
    /// pass may be dropped at any time after that.
    pub(crate) fn keep(extensions: &Extensions, request: &Request, key: IdempotencyKey) {
        let Some(call) = extensions.get::<Self>().and_then(|call| call.0.upgrade()) else { return };
        let mut passes = call.lock().unwrap_or_else(PoisonError::into_inner);
        if !passes.iter().any(|pass| pass.sends(request)) {
            // A stream cannot be kept, and is told apart by nothing but where it goes.
            let request = request.try_clone().unwrap_or_else(|| Request::new(request.method().clone(), request.url().clone()));
            passes.push(Pass { request, key });
        }
    }
}

impl Pass {
    fn sends(&self, request: &Request) -> bool {
        self.request.method() == request.method()
            && self.request.url() == request.url()
            && self.request.body().and_then(Body::as_bytes) == request.body().and_then(Body::as_bytes)
    }
}

impl fmt::Debug for Pass {
    /// Nothing: a request shows its URL and headers.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pass").finish_non_exhaustive()
    }
}

#[cfg_attr(not(target_arch = "wasm32"), async_trait)]
#[cfg_attr(target_arch = "wasm32", async_trait(?Send))]
impl Middleware for OneCall {
    async fn handle(&self, request: Request, extensions: &mut Extensions, next: Next<'_>) -> Result<Response> {
        let call = Arc::new(Mutex::new(Vec::new()));
        extensions.insert(Call(Arc::downgrade(&call)));
        let result = next.run(request, extensions).await;
        extensions.remove::<Call>();
        result
    }
}
