//! One call of the client is one operation, also when a middleware outside of the plugin sends it
//! again: an auth refresh, or somebody else's retries.
//!
//! Each pass through the plugin would make a key of its own, and a new key for the same operation
//! is a second operation. So the outermost middleware of the paved road opens a call, and the
//! passes inside it find the key of the first. Nothing of it outlives the call: what stands in the
//! extensions is a weak reference, which a call that ended or was dropped leaves empty.

use std::{
    cell::RefCell,
    fmt, mem, ptr,
    sync::{Arc, Mutex, PoisonError, Weak},
};

use http::Extensions;
use reqwest::{Body, Request, Response};
use reqwest_middleware::{Middleware, Next, Result};

use crate::{platform::BoxFuture, policy::IdempotencyKey};

/// The outermost middleware of the paved road.
pub(crate) struct OneCall;

/// The call that a pass belongs to, in the extensions of its request.
/// [`Default`] is one of which nothing is left.
#[derive(Debug, Clone, Default)]
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

impl PartialEq for Call {
    fn eq(&self, other: &Self) -> bool {
        self.0.ptr_eq(&other.0)
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

/// How many calls a thread keeps, as the witness keeps the maps of their attempts.
const MOST_SPARE: usize = 512;

thread_local! {
    /// Calls of which nothing is left: making one anew costs as much as a send does.
    static SPARE: RefCell<Vec<Opened>> = const { RefCell::new(Vec::new()) };
}

/// A call with the extensions that point to it, and nothing else in them.
struct Opened {
    call: Arc<Mutex<Vec<Pass>>>,
    extensions: Extensions,
}

impl Opened {
    fn new() -> Self {
        let spare = SPARE.try_with(|spare| spare.try_borrow_mut().ok()?.pop()).ok().flatten();
        spare.unwrap_or_else(|| {
            let call = Arc::new(Mutex::new(Vec::new()));
            let mut extensions = Extensions::new();
            extensions.insert(Call(Arc::downgrade(&call)));
            Self { call, extensions }
        })
    }

    /// Keeps the call for a later one, where nothing but these extensions knows of it and no pass
    /// left a key.
    fn forget(self) {
        let points_here = self.extensions.get::<Call>().is_some_and(|call| ptr::eq(call.0.as_ptr(), Arc::as_ptr(&self.call)));
        if !points_here || self.extensions.len() != 1 || Arc::weak_count(&self.call) != 1 || Arc::strong_count(&self.call) != 1 {
            return;
        }
        if self.call.lock().unwrap_or_else(PoisonError::into_inner).is_empty() {
            // Where there is no room, or no thread-local any more, it is dropped.
            let _ = SPARE.try_with(|spare| {
                if let Ok(mut spare) = spare.try_borrow_mut() {
                    if spare.len() < MOST_SPARE {
                        spare.push(self);
                    }
                }
            });
        }
    }
}

/// The extensions of a call within another one, such as one for a token: they get the outer call
/// back, also when the inner one is dropped.
struct Within<'e> {
    extensions: &'e mut Extensions,
    around: Option<Call>,
}

impl Drop for Within<'_> {
    fn drop(&mut self) {
        match self.around.take() {
            Some(call) => drop(self.extensions.insert(call)),
            None => drop(self.extensions.remove::<Call>()),
        }
    }
}

// Not by `async_trait`: a future in another would be copied into its box.
impl Middleware for OneCall {
    fn handle<'s, 'e, 'n, 'f>(&'s self, request: Request, extensions: &'e mut Extensions, next: Next<'n>) -> BoxFuture<'f, Result<Response>>
    where
        Self: 'f,
        's: 'f,
        'e: 'f,
        'n: 'f,
    {
        Box::pin(async move {
            if !extensions.is_empty() {
                let call = Arc::new(Mutex::new(Vec::new()));
                let around = extensions.insert(Call(Arc::downgrade(&call)));
                let within = Within { extensions, around };
                return next.run(request, &mut *within.extensions).await;
            }
            let Opened { call, extensions: ours } = Opened::new();
            *extensions = ours;
            let result = next.run(request, extensions).await;
            if extensions.len() == 1 && extensions.get::<Call>().is_some() {
                Opened { call, extensions: mem::take(extensions) }.forget();
            } else {
                extensions.remove::<Call>();
            }
            result
        })
    }
}
