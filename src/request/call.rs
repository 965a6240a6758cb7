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
use reqwest_middleware::{Middleware, Next};

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
    /// Settles a pass, given the key of an earlier pass of the same request. Another request in the
    /// same call, such as one for a token or the next of a batch, is another operation.
    ///
    /// The key that `settle` tells is kept for the passes after it, before anything is sent: the
    /// pass may be dropped at any time after that. Passes of one call settle one after another, so
    /// two that start at once have one key.
    pub(crate) fn settle<T, E>(
        extensions: &Extensions,
        request: &mut Request,
        settle: impl FnOnce(&mut Request, Option<&IdempotencyKey>) -> Result<(T, Option<IdempotencyKey>), E>,
    ) -> Result<T, E> {
        let Some(call) = extensions.get::<Self>().and_then(|call| call.0.upgrade()) else {
            return settle(request, None).map(|(settled, _)| settled);
        };
        let mut passes = call.lock().unwrap_or_else(PoisonError::into_inner);
        let earlier = passes.iter().find(|pass| pass.sends(request)).map(|pass| &pass.key);
        let is_first = earlier.is_none();
        let (settled, key) = settle(request, earlier)?;
        if let Some(key) = key.filter(|_| is_first) {
            // A stream cannot be kept, and is told apart by nothing but where it goes.
            let request = request.try_clone().unwrap_or_else(|| Request::new(request.method().clone(), request.url().clone()));
            passes.push(Pass { request, key });
        }
        Ok(settled)
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
    fn handle<'s, 'e, 'n, 'f>(
        &'s self,
        request: Request,
        extensions: &'e mut Extensions,
        next: Next<'n>,
    ) -> BoxFuture<'f, reqwest_middleware::Result<Response>>
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

#[cfg(test)]
mod tests {
    use std::{convert::Infallible, sync::Barrier, thread};

    use reqwest::Method;

    use super::*;

    /// The key that a pass goes out with: that of an earlier one, or its own.
    fn pass(extensions: &Extensions, url: &str) -> IdempotencyKey {
        let mut order = Request::new(Method::POST, url.parse().unwrap());
        let settled = Call::settle(extensions, &mut order, |_, earlier| {
            let key = earlier.cloned().unwrap_or_else(IdempotencyKey::random);
            // Lets a second pass in, if there is a way.
            (0..20).for_each(|_| thread::yield_now());
            Ok::<_, Infallible>((key.clone(), Some(key)))
        });
        settled.unwrap()
    }

    #[test]
    fn passes_that_start_at_once_have_one_key() {
        for _ in 0..200 {
            let opened = Opened::new();
            let both = Barrier::new(2);
            let start = || {
                both.wait();
                pass(&opened.extensions, "http://api.example/orders")
            };
            let (one, other) = thread::scope(|threads| {
                let one = threads.spawn(start);
                (start(), one.join().unwrap())
            });
            assert_eq!(one, other);
            assert_ne!(one, pass(&opened.extensions, "http://api.example/refunds"), "another operation");
        }
    }
}
