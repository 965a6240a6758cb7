//! A key that comes back with other content is refused before it is sent.
//!
//! Only for contracts that ask for it ([`KeyContract::with_reuse_guard`]). It sees what one client
//! sends and remembers a bounded number of keys, so it finds mistakes early and is no substitute
//! for the server's own check. Nothing is kept in clear: keys and contents are hashes under secrets
//! of this guard.

use std::{
    fmt,
    hash::{BuildHasher, Hash},
    num::NonZeroUsize,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use lru::LruCache;
use reqwest::{Request, Url};

use crate::{
    platform::{Instant, RandomState},
    policy::{Evidence, IdempotencyKey, KeyContract, UniqueWithin, defaults},
    shared::scope::{ScopeKey, Scoping},
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
    /// Whether anything may have left under the key; the operations that still may send hold it
    /// too.
    left: Arc<AtomicBool>,
}

/// What a request asks for. Headers may differ between attempts, and who sends it is the server's
/// business.
#[derive(Clone, Copy)]
struct Content {
    line: Print,
    /// `None` for a stream, which cannot be read ahead: it is taken for the same body as any other.
    body: Option<BodyPrint>,
}

/// Length and a keyed hash. Every byte is read for it, so it is 64 bits and not twice as many: two
/// bodies that share it are taken for one, which is what no guard at all would do.
type BodyPrint = (usize, u64);

/// Where a key has to be unique, and the guard that looks.
#[derive(Clone, Copy)]
pub(crate) struct GuardedKey<'a> {
    guard: &'a ReuseGuard,
    slot: Print,
    remembered_for: Duration,
}

/// An operation that may be sent under a guarded key.
pub(crate) struct GuardedUse<'a> {
    key: GuardedKey<'a>,
    content: Content,
    /// Absent for a key that nobody else can know yet.
    left: Option<Arc<AtomicBool>>,
}

/// Who can know a key.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum KnownTo {
    Caller,
    /// It was made for this operation, and nobody was told.
    ThisOperation,
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

    /// The key of an operation, where its contract guards it. `endpoint` is the endpoint's name,
    /// empty when it has none: then method and path stand for it.
    pub(crate) fn key(
        &self,
        contract: &KeyContract,
        key: &IdempotencyKey,
        accounts: &Scoping,
        request: &Request,
        endpoint: &str,
    ) -> Option<GuardedKey<'_>> {
        contract.guards_reuse().then(|| GuardedKey {
            guard: self,
            slot: self.slot(contract, key, accounts.scope(request).key, request, endpoint),
            remembered_for: contract.remembered_for(),
        })
    }

    /// Where the key has to be unique.
    fn slot(&self, contract: &KeyContract, key: &IdempotencyKey, account: ScopeKey, request: &Request, endpoint: &str) -> Print {
        let place = (contract.header(), account, key);
        match contract.unique_within() {
            UniqueWithin::Account => self.print(&place),
            UniqueWithin::Endpoint if endpoint.is_empty() => self.print(&(place, request.method(), request.url().path())),
            UniqueWithin::Endpoint => self.print(&(place, endpoint)),
        }
    }

    fn content(&self, request: &Request) -> Content {
        let bytes = request.body().map_or(Some([].as_slice()), reqwest::Body::as_bytes);
        let [secret, _] = &self.secrets;
        Content {
            line: self.print(&(request.method(), without_fragment(request.url()))),
            body: bytes.map(|bytes| (bytes.len(), secret.hash_one(bytes))),
        }
    }

    fn print<T: Hash + ?Sized>(&self, value: &T) -> Print {
        self.secrets.each_ref().map(|secret| secret.hash_one(value))
    }

    fn uses(&self) -> MutexGuard<'_, LruCache<Print, Use>> {
        self.uses.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<'a> GuardedKey<'a> {
    /// Lets an operation pass that is about to be sent. From now on its key means its content,
    /// until the operation has ended and nothing of it [can have left](GuardedUse::ended).
    ///
    /// A key that only this operation knows needs no place in the memory.
    ///
    /// # Errors
    /// [`Reused`]: the key was used with another method, URL or body while it is remembered.
    pub(crate) fn admit(self, request: &Request, known_to: KnownTo, now: Instant) -> Result<GuardedUse<'a>, Reused> {
        let content = self.guard.content(request);
        let left = match known_to {
            KnownTo::ThisOperation => None,
            KnownTo::Caller => Some(self.bind(content, now)?),
        };
        Ok(GuardedUse { key: self, content, left })
    }

    fn bind(&self, content: Content, now: Instant) -> Result<Arc<AtomicBool>, Reused> {
        let mut uses = self.guard.uses();
        if let Some(earlier) = uses.get_mut(&self.slot).filter(|earlier| !earlier.is_forgotten(now)) {
            earlier.content.agree(content)?;
            return Ok(Arc::clone(&earlier.left));
        }
        let left = Arc::new(AtomicBool::new(false));
        uses.put(self.slot, Use { content, since: now, remembered_for: self.remembered_for, left: Arc::clone(&left) });
        Ok(left)
    }
}

impl GuardedUse<'_> {
    /// Looks at what a factory made for a later attempt.
    ///
    /// # Errors
    /// [`Reused`]: it is another request.
    pub(crate) fn sends_again(&mut self, request: &Request) -> Result<(), Reused> {
        self.content.agree(self.key.guard.content(request))
    }

    /// The caller is told a key that may have left: from now on it can come back.
    pub(crate) fn handed_out(&mut self, now: Instant) {
        // Nobody else knew it, so nobody can have used it for something else.
        if let (None, Ok(left)) = (&self.left, self.key.bind(self.content, now)) {
            left.store(true, Ordering::Relaxed);
        }
    }

    /// The operation is over, and this is the worst that is known of its attempts. A key under
    /// which no operation can have been processed is free again.
    pub(crate) fn ended(&mut self, evidence: Evidence) {
        let Some(left) = self.left.take() else { return };
        let mut uses = self.key.guard.uses();
        match evidence {
            Evidence::Unknown => left.store(true, Ordering::Relaxed),
            Evidence::Unprocessed => {
                // The memory holds one, this operation the other; one more would be another's.
                let is_ours = uses.peek(&self.key.slot).is_some_and(|kept| Arc::ptr_eq(&kept.left, &left));
                if is_ours && Arc::strong_count(&left) == 2 && !left.load(Ordering::Relaxed) {
                    uses.pop(&self.key.slot);
                }
            }
        }
        // Counted by others, so it goes before the lock does.
        drop(left);
        drop(uses);
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

    /// Sends an operation that may have left.
    fn admit(
        guard: &ReuseGuard,
        contract: &KeyContract,
        key: &IdempotencyKey,
        request: &Request,
        endpoint: &str,
        now: Instant,
    ) -> Result<(), Reused> {
        send(guard, contract, key, request, endpoint, now, Evidence::Unknown)
    }

    fn send(
        guard: &ReuseGuard,
        contract: &KeyContract,
        key: &IdempotencyKey,
        request: &Request,
        endpoint: &str,
        now: Instant,
        evidence: Evidence,
    ) -> Result<(), Reused> {
        let Some(guarded) = guard.key(contract, key, &Scoping::default(), request, endpoint) else { return Ok(()) };
        guarded.admit(request, KnownTo::Caller, now).map(|mut admitted| admitted.ended(evidence))
    }

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
            assert_eq!(admit(&guard, &GUARDED, &key(), &order(), "", now), Ok(()));
            assert_eq!(admit(&guard, &GUARDED, &key(), &request, "", now), expected, "{what}");
        }
    }

    #[test]
    fn another_key_or_another_header_is_another_operation() {
        let guard = ReuseGuard::new();
        let now = Instant::now();
        let pears = post("https://api.example/orders?dry=no", "pears");
        let elsewhere = KeyContract::new(HeaderName::from_static("x-key"), KeyFormat::Bare, HOUR).with_reuse_guard();

        assert_eq!(admit(&guard, &GUARDED, &key(), &order(), "", now), Ok(()));
        assert_eq!(admit(&guard, &GUARDED, &IdempotencyKey::parse("order-2042").unwrap(), &pears, "", now), Ok(()));
        assert_eq!(admit(&guard, &elsewhere, &key(), &pears, "", now), Ok(()));
    }

    #[test]
    fn without_the_guard_nothing_is_refused() {
        let guard = ReuseGuard::new();
        let contract = KeyContract::ietf(HOUR);
        let now = Instant::now();

        assert_eq!(admit(&guard, &contract, &key(), &order(), "", now), Ok(()));
        assert_eq!(admit(&guard, &contract, &key(), &post("https://api.example/", "pears"), "", now), Ok(()));
    }

    #[test]
    fn a_key_is_free_again_when_the_server_has_forgotten_it() {
        let guard = ReuseGuard::new();
        let first = Instant::now();
        let pears = post("https://api.example/orders?dry=no", "pears");

        assert_eq!(admit(&guard, &GUARDED, &key(), &order(), "", first), Ok(()));
        assert_eq!(admit(&guard, &GUARDED, &key(), &order(), "", first + HOUR / 2), Ok(()), "a resend does not prolong the memory");
        assert_eq!(admit(&guard, &GUARDED, &key(), &pears, "", first + HOUR - Duration::from_nanos(1)), Err(Reused));
        assert_eq!(admit(&guard, &GUARDED, &key(), &pears, "", first + HOUR), Ok(()));
        assert_eq!(admit(&guard, &GUARDED, &key(), &order(), "", first + HOUR), Err(Reused), "from now on it means the other content");
    }

    #[test]
    fn a_key_that_is_never_forgotten_stays_taken() {
        let guard = ReuseGuard::new();
        let now = Instant::now();
        let contract = KeyContract::ietf(Duration::MAX).with_reuse_guard();

        assert_eq!(admit(&guard, &contract, &key(), &order(), "", now), Ok(()));
        assert_eq!(admit(&guard, &contract, &key(), &post("https://api.example/", ""), "", now + 10_000 * HOUR), Err(Reused));
    }

    #[test]
    fn within_an_endpoint_the_key_means_one_thing_and_elsewhere_another() {
        let contract = GUARDED.with_uniqueness(UniqueWithin::Endpoint);
        let now = Instant::now();
        let refund = post("https://api.example/refunds", "apples");
        let pears = post("https://api.example/orders?dry=no", "pears");

        let unnamed = ReuseGuard::new();
        assert_eq!(admit(&unnamed, &contract, &key(), &order(), "", now), Ok(()));
        assert_eq!(admit(&unnamed, &contract, &key(), &refund, "", now), Ok(()));
        assert_eq!(admit(&unnamed, &contract, &key(), &pears, "", now), Err(Reused));

        let named = ReuseGuard::new();
        assert_eq!(admit(&named, &contract, &key(), &order(), "pay", now), Ok(()));
        assert_eq!(admit(&named, &contract, &key(), &refund, "refund", now), Ok(()));
        assert_eq!(admit(&named, &contract, &key(), &refund, "pay", now), Err(Reused));
    }

    #[test]
    fn the_first_readable_body_after_a_stream_counts() {
        let guard = ReuseGuard::new();
        let now = Instant::now();

        assert_eq!(admit(&guard, &GUARDED, &key(), &streamed(), "", now), Ok(()));
        assert_eq!(admit(&guard, &GUARDED, &key(), &order(), "", now), Ok(()));
        assert_eq!(admit(&guard, &GUARDED, &key(), &post("https://api.example/orders?dry=no", "pears"), "", now), Err(Reused));
    }

    #[test]
    fn the_memory_is_bounded() {
        let guard = ReuseGuard::remembering(NonZeroUsize::MIN.saturating_add(1));
        let now = Instant::now();
        for number in 0..100 {
            let key = IdempotencyKey::parse(&format!("order-{number}")).unwrap();
            assert_eq!(admit(&guard, &GUARDED, &key, &order(), "", now), Ok(()));
        }
        assert_eq!(guard.uses.lock().unwrap().len(), 2);
        assert_eq!(ReuseGuard::new().uses.lock().unwrap().cap().get(), 10_000);
    }

    #[test]
    fn made_keys_take_no_place_until_one_is_handed_out() {
        let guard = ReuseGuard::remembering(NonZeroUsize::MIN.saturating_add(1));
        let now = Instant::now();
        let pears = post("https://api.example/orders?dry=no", "pears");
        assert_eq!(admit(&guard, &GUARDED, &key(), &order(), "", now), Ok(()));
        let mut handed_out = None;
        for number in 0..100 {
            let made = IdempotencyKey::random();
            let used = guard.key(&GUARDED, &made, &Scoping::default(), &order(), "").unwrap();
            let mut used = used.admit(&order(), KnownTo::ThisOperation, now).unwrap();
            if number == 50 {
                used.handed_out(now);
                handed_out = Some(made);
            }
            used.ended(Evidence::Unknown);
        }
        for known in [key(), handed_out.unwrap()] {
            assert_eq!(admit(&guard, &GUARDED, &known, &pears, "", now), Err(Reused));
        }
    }

    #[test]
    fn a_key_is_free_again_when_the_last_operation_that_might_send_it_has_sent_nothing() {
        let now = Instant::now();
        let pears = post("https://api.example/orders?dry=no", "pears");
        for (other, freed) in [(Evidence::Unprocessed, Ok(())), (Evidence::Unknown, Err(Reused))] {
            let guard = ReuseGuard::new();
            let guarded = guard.key(&GUARDED, &key(), &Scoping::default(), &order(), "").unwrap();
            let mut one = guarded.admit(&order(), KnownTo::Caller, now).unwrap();
            let mut two = guarded.admit(&order(), KnownTo::Caller, now).unwrap();
            two.ended(other);
            assert_eq!(admit(&guard, &GUARDED, &key(), &pears, "", now), Err(Reused), "one may still send it");
            one.ended(Evidence::Unprocessed);
            assert_eq!(admit(&guard, &GUARDED, &key(), &pears, "", now), freed);
        }
    }

    #[test]
    fn an_earlier_use_outlives_a_later_one_that_sent_nothing() {
        let guard = ReuseGuard::new();
        let now = Instant::now();
        let pears = post("https://api.example/orders?dry=no", "pears");
        assert_eq!(admit(&guard, &GUARDED, &key(), &order(), "", now), Ok(()));
        assert_eq!(send(&guard, &GUARDED, &key(), &order(), "", now, Evidence::Unprocessed), Ok(()));
        assert_eq!(admit(&guard, &GUARDED, &key(), &pears, "", now), Err(Reused));
        // Forgotten, and taken again by another operation: the one before has no say in that.
        let guarded = guard.key(&GUARDED, &key(), &Scoping::default(), &order(), "").unwrap();
        let mut late = guarded.admit(&order(), KnownTo::Caller, now + HOUR).unwrap();
        let mut next = guarded.admit(&pears, KnownTo::Caller, now + 2 * HOUR).unwrap();
        late.ended(Evidence::Unprocessed);
        assert_eq!(admit(&guard, &GUARDED, &key(), &order(), "", now + 2 * HOUR), Err(Reused));
        next.ended(Evidence::Unknown);
    }

    #[test]
    fn nothing_is_shown() {
        let guard = ReuseGuard::new();
        admit(&guard, &GUARDED, &key(), &order(), "", Instant::now()).unwrap();
        assert_eq!(format!("{guard:?}"), "ReuseGuard { .. }");
    }
}
