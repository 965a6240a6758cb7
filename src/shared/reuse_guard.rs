//! A key that comes back with other content is refused before it is sent.
//!
//! Only for contracts that ask for it ([`KeyContract::with_reuse_guard`]). It sees what one client
//! sends and remembers a bounded number of keys, so it finds mistakes early and is no substitute
//! for the server's own check. Nothing is kept in clear: keys and contents are 128-bit hashes under
//! secrets of this guard.

use std::{
    fmt,
    hash::{BuildHasher, Hash, RandomState},
    num::NonZeroUsize,
    sync::{Mutex, PoisonError},
    time::Duration,
};

use lru::LruCache;
use reqwest::{Request, Url};
use tokio::time::Instant;

use crate::{
    policy::{IdempotencyKey, KeyContract, UniqueWithin, defaults},
    request::origin,
};

/// What each key was used for, for the keys used last.
pub(crate) struct ReuseGuard {
    secrets: [RandomState; 2],
    uses: Mutex<LruCache<Print, Use>>,
}

/// The key was used for something else and is still remembered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Reused;

/// A keyed 128-bit hash.
type Print = [u64; 2];

struct Use {
    content: Content,
    since: Instant,
    remembered_for: Duration,
}

/// What a request asks for. Headers may differ between attempts, and who sends it is the server's
/// business.
#[derive(Clone, Copy)]
struct Content {
    line: Print,
    /// `None` for a stream, which cannot be read ahead: it is taken for the same body as any other.
    body: Option<Print>,
}

impl ReuseGuard {
    pub(crate) fn new() -> Self {
        Self::remembering(defaults::GUARDED_KEYS)
    }

    fn remembering(keys: NonZeroUsize) -> Self {
        let mut uses = LruCache::unbounded(); // `LruCache::new` would allocate for all keys at once
        uses.resize(keys);
        Self { secrets: [RandomState::new(), RandomState::new()], uses: Mutex::new(uses) }
    }

    /// Lets a request pass, and remembers what its key is used for. `endpoint` is the endpoint's
    /// name, empty when it has none: then method and path stand for it.
    ///
    /// An account is taken to be an origin. A client that serves several accounts of one origin
    /// needs keys that differ between them.
    ///
    /// # Errors
    /// [`Reused`] when the contract guards its keys, and this one was used with another method, URL
    /// or body, within what the contract says keys are unique in, while it is remembered.
    pub(crate) fn admit(
        &self,
        contract: &KeyContract,
        key: &IdempotencyKey,
        request: &Request,
        endpoint: &str,
        now: Instant,
    ) -> Result<(), Reused> {
        if !contract.guards_reuse() {
            return Ok(());
        }
        let slot = self.slot(contract, key, request, endpoint);
        let content = self.content(request);
        let mut uses = self.uses.lock().unwrap_or_else(PoisonError::into_inner);
        match uses.get_mut(&slot) {
            Some(earlier) if !earlier.is_forgotten(now) => earlier.content.agree(content),
            Some(_) | None => {
                uses.put(slot, Use { content, since: now, remembered_for: contract.remembered_for() });
                Ok(())
            }
        }
    }

    /// Where the key has to be unique.
    fn slot(&self, contract: &KeyContract, key: &IdempotencyKey, request: &Request, endpoint: &str) -> Print {
        let place = (contract.header(), origin::whole(request.url()), key);
        match contract.unique_within() {
            UniqueWithin::Account => self.print(&place),
            UniqueWithin::Endpoint if endpoint.is_empty() => self.print(&(place, request.method(), request.url().path())),
            UniqueWithin::Endpoint => self.print(&(place, endpoint)),
        }
    }

    fn content(&self, request: &Request) -> Content {
        let body = request.body().map_or(Some([].as_slice()), reqwest::Body::as_bytes);
        Content { line: self.print(&(request.method(), without_fragment(request.url()))), body: body.map(|bytes| self.print(bytes)) }
    }

    fn print<T: Hash + ?Sized>(&self, value: &T) -> Print {
        self.secrets.each_ref().map(|secret| secret.hash_one(value))
    }
}

impl Use {
    fn is_forgotten(&self, now: Instant) -> bool {
        now.saturating_duration_since(self.since) >= self.remembered_for
    }
}

impl Content {
    /// A stream that comes first leaves the body open; the first bytes that can be read settle it.
    fn agree(&mut self, other: Self) -> Result<(), Reused> {
        let same_body = self.body.zip(other.body).is_none_or(|(this, that)| this == that);
        if self.line != other.line || !same_body {
            return Err(Reused);
        }
        self.body = self.body.or(other.body);
        Ok(())
    }
}

impl fmt::Debug for ReuseGuard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ReuseGuard").finish_non_exhaustive()
    }
}

/// A fragment is never sent (RFC 9110 §7.1).
fn without_fragment(url: &Url) -> &str {
    url.as_str().split_once('#').map_or(url.as_str(), |(sent, _)| sent)
}

#[cfg(test)]
mod tests {
    use http::HeaderName;
    use reqwest::{Body, Method};

    use super::*;
    use crate::policy::KeyFormat;

    const HOUR: Duration = Duration::from_secs(60 * 60);
    const GUARDED: KeyContract = KeyContract::ietf(HOUR).with_reuse_guard();

    fn key() -> IdempotencyKey {
        IdempotencyKey::parse("order-2041").unwrap()
    }

    fn post(url: &str, body: &'static str) -> Request {
        let mut request = Request::new(Method::POST, url.parse().unwrap());
        *request.body_mut() = Some(Body::from(body));
        request
    }

    fn order() -> Request {
        post("https://api.example/orders?dry=no", "apples")
    }

    fn streamed() -> Request {
        let mut request = order();
        let bytes = futures_util::stream::once(async { Ok::<_, std::io::Error>("pears") });
        *request.body_mut() = Some(Body::wrap_stream(bytes));
        request
    }

    #[test]
    fn the_same_key_with_other_content_is_refused() {
        let same = post("https://api.example/orders?dry=no#top", "apples");
        let mut other_method = order();
        *other_method.method_mut() = Method::PATCH;
        let mut without_body = order();
        *without_body.body_mut() = None;
        let rows = [
            ("another fragment", same, Ok(())),
            ("another method", other_method, Err(Reused)),
            ("another path", post("https://api.example/refunds?dry=no", "apples"), Err(Reused)),
            ("another query", post("https://api.example/orders?dry=yes", "apples"), Err(Reused)),
            ("another body", post("https://api.example/orders?dry=no", "pears"), Err(Reused)),
            ("no body", without_body, Err(Reused)),
            ("a stream, which nobody can compare", streamed(), Ok(())),
            ("another server", post("https://other.example/orders?dry=no", "pears"), Ok(())),
        ];
        let now = Instant::now();
        for (what, request, expected) in rows {
            let guard = ReuseGuard::new();
            assert_eq!(guard.admit(&GUARDED, &key(), &order(), "", now), Ok(()));
            assert_eq!(guard.admit(&GUARDED, &key(), &request, "", now), expected, "{what}");
        }
    }

    #[test]
    fn another_key_or_another_header_is_another_operation() {
        let guard = ReuseGuard::new();
        let now = Instant::now();
        let pears = post("https://api.example/orders?dry=no", "pears");
        let elsewhere = KeyContract::new(HeaderName::from_static("x-key"), KeyFormat::Bare, HOUR).with_reuse_guard();

        assert_eq!(guard.admit(&GUARDED, &key(), &order(), "", now), Ok(()));
        assert_eq!(guard.admit(&GUARDED, &IdempotencyKey::parse("order-2042").unwrap(), &pears, "", now), Ok(()));
        assert_eq!(guard.admit(&elsewhere, &key(), &pears, "", now), Ok(()));
    }

    #[test]
    fn without_the_guard_nothing_is_refused() {
        let guard = ReuseGuard::new();
        let contract = KeyContract::ietf(HOUR);
        let now = Instant::now();

        assert_eq!(guard.admit(&contract, &key(), &order(), "", now), Ok(()));
        assert_eq!(guard.admit(&contract, &key(), &post("https://api.example/", "pears"), "", now), Ok(()));
    }

    #[test]
    fn a_key_is_free_again_when_the_server_has_forgotten_it() {
        let guard = ReuseGuard::new();
        let first = Instant::now();
        let pears = post("https://api.example/orders?dry=no", "pears");

        assert_eq!(guard.admit(&GUARDED, &key(), &order(), "", first), Ok(()));
        assert_eq!(guard.admit(&GUARDED, &key(), &order(), "", first + HOUR / 2), Ok(()), "a resend does not prolong the memory");
        assert_eq!(guard.admit(&GUARDED, &key(), &pears, "", first + HOUR - Duration::from_nanos(1)), Err(Reused));
        assert_eq!(guard.admit(&GUARDED, &key(), &pears, "", first + HOUR), Ok(()));
        assert_eq!(guard.admit(&GUARDED, &key(), &order(), "", first + HOUR), Err(Reused), "from now on it means the other content");
    }

    #[test]
    fn a_key_that_is_never_forgotten_stays_taken() {
        let guard = ReuseGuard::new();
        let now = Instant::now();
        let contract = KeyContract::ietf(Duration::MAX).with_reuse_guard();

        assert_eq!(guard.admit(&contract, &key(), &order(), "", now), Ok(()));
        assert_eq!(guard.admit(&contract, &key(), &post("https://api.example/", ""), "", now + 10_000 * HOUR), Err(Reused));
    }

    #[test]
    fn within_an_endpoint_the_key_means_one_thing_and_elsewhere_another() {
        let contract = GUARDED.with_uniqueness(UniqueWithin::Endpoint);
        let now = Instant::now();
        let refund = post("https://api.example/refunds", "apples");
        let pears = post("https://api.example/orders?dry=no", "pears");

        let unnamed = ReuseGuard::new();
        assert_eq!(unnamed.admit(&contract, &key(), &order(), "", now), Ok(()));
        assert_eq!(unnamed.admit(&contract, &key(), &refund, "", now), Ok(()));
        assert_eq!(unnamed.admit(&contract, &key(), &pears, "", now), Err(Reused));

        let named = ReuseGuard::new();
        assert_eq!(named.admit(&contract, &key(), &order(), "pay", now), Ok(()));
        assert_eq!(named.admit(&contract, &key(), &refund, "refund", now), Ok(()));
        assert_eq!(named.admit(&contract, &key(), &refund, "pay", now), Err(Reused));
    }

    #[test]
    fn the_first_readable_body_after_a_stream_counts() {
        let guard = ReuseGuard::new();
        let now = Instant::now();

        assert_eq!(guard.admit(&GUARDED, &key(), &streamed(), "", now), Ok(()));
        assert_eq!(guard.admit(&GUARDED, &key(), &order(), "", now), Ok(()));
        assert_eq!(guard.admit(&GUARDED, &key(), &post("https://api.example/orders?dry=no", "pears"), "", now), Err(Reused));
    }

    #[test]
    fn the_memory_is_bounded() {
        let guard = ReuseGuard::remembering(NonZeroUsize::MIN.saturating_add(1));
        let now = Instant::now();
        for number in 0..100 {
            let key = IdempotencyKey::parse(&format!("order-{number}")).unwrap();
            assert_eq!(guard.admit(&GUARDED, &key, &order(), "", now), Ok(()));
        }
        assert_eq!(guard.uses.lock().unwrap().len(), 2);
        assert_eq!(ReuseGuard::new().uses.lock().unwrap().cap().get(), 10_000);
    }

    #[test]
    fn nothing_is_shown() {
        let guard = ReuseGuard::new();
        guard.admit(&GUARDED, &key(), &order(), "", Instant::now()).unwrap();
        assert_eq!(format!("{guard:?}"), "ReuseGuard { .. }");
    }
}
