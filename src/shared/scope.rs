//! What is kept per origin, or per scope of the user's: found without allocating, bounded, behind
//! one short lock.

use std::{
    cell::RefCell,
    fmt,
    hash::{BuildHasher, BuildHasherDefault, Hash, Hasher},
    iter::Rev,
    sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError},
};

use lru::LruCache;
use reqwest::{Request, Url};
use url::Position;

use crate::platform::RandomState;
use crate::policy::defaults;
use crate::request::origin::Origin;

/// Seeded once per process: keys mean the same to every budget and cool-down, and nobody outside
/// can choose two that collide.
static SEED: LazyLock<RandomState> = LazyLock::new(RandomState::new);

/// Whose budget or cool-down a request falls under. Requests with equal keys share it.
///
/// It keeps 64 bits of a hash and nothing of what was hashed, so a tenant's name or an API token
/// may be part of it without ever being held or printed. Means nothing outside of this process.
///
/// # Examples
/// ```
/// use reqwest_safe_retry::ScopeKey;
///
/// let url = "https://api.example/orders/7".parse()?;
/// assert_eq!(ScopeKey::origin(&url), ScopeKey::origin(&"https://api.example:443/health".parse()?));
/// assert_ne!(ScopeKey::of(&("api", "tenant 1")), ScopeKey::of(&("api", "tenant 2")));
/// # Ok::<_, Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct ScopeKey(u64);

impl ScopeKey {
    /// The key of a URL's scheme, host and port.
    #[must_use]
    #[inline]
    pub fn origin(url: &Url) -> Self {
        // Where there is no thread-local any more, it is hashed.
        LAST.try_with(|last| last.try_borrow_mut().map(|mut last| last.key_of(url)).ok())
            .ok()
            .flatten()
            .unwrap_or_else(|| Self::hashed_origin(url))
    }

    /// A parsed URL does not spell out its scheme's own port, so its text tells origins apart. Of a
    /// text in two pieces, less has to be hashed than of three values.
    fn hashed_origin(url: &Url) -> Self {
        let mut hasher = SEED.build_hasher();
        hasher.write(url.scheme().as_bytes());
        hasher.write(b":");
        hasher.write(url[Position::BeforeHost..Position::AfterPort].as_bytes());
        Self(hasher.finish())
    }

    /// The key of anything that can be hashed, for example `&(ScopeKey::origin(url), tenant)`.
    #[must_use]
    pub fn of(parts: &(impl Hash + ?Sized)) -> Self {
        Self(SEED.hash_one(parts))
    }
}

/// No name in the DNS is longer.
const LONGEST_HOST: usize = 253;

thread_local! {
    /// Most requests of a thread go where the one before went, and comparing costs a fifth of
    /// hashing.
    static LAST: RefCell<LastOrigin> = const { RefCell::new(LastOrigin::NONE) };
}

/// The origin that was asked about last, without the credentials that a URL may hold.
struct LastOrigin {
    scheme: String,
    /// Empty where nothing is kept: only the host of a scheme without hosts is.
    host: String,
    port: Option<u16>,
    key: ScopeKey,
}

impl LastOrigin {
    const NONE: Self = Self { scheme: String::new(), host: String::new(), port: None, key: ScopeKey(0) };

    #[inline]
    fn key_of(&mut self, url: &Url) -> ScopeKey {
        let (scheme, host, port) = (url.scheme(), url.host_str().unwrap_or_default(), url.port());
        if host.is_empty() || self.port != port || self.host != host || self.scheme != scheme {
            self.key = ScopeKey::hashed_origin(url);
            self.host.clear();
            // Not a text of any length.
            if host.len() <= LONGEST_HOST && scheme.len() <= LONGEST_HOST {
                self.scheme.clear();
                self.scheme.push_str(scheme);
                self.host.push_str(host);
                self.port = port;
            }
        }
        self.key
    }
}

/// A key is a hash already, under a seed that nobody outside knows.
#[derive(Default)]
pub(crate) struct Hashed(u64);

impl Hasher for Hashed {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write_u64(&mut self, key: u64) {
        self.0 = key;
    }

    /// Keys are numbers; anything else is only made one.
    fn write(&mut self, bytes: &[u8]) {
        self.0 = SEED.hash_one((self.0, bytes));
    }
}

impl fmt::Debug for ScopeKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ScopeKey(..)")
    }
}

/// How requests are told apart.
#[derive(Clone, Default)]
pub(crate) enum Scoping {
    #[default]
    ByOrigin,
    By(Arc<ScopeOf>),
    NamedBy(Arc<NameOf>),
}

pub(crate) type ScopeOf = dyn Fn(&Request) -> ScopeKey + Send + Sync;
pub(crate) type NameOf = dyn Fn(&Request) -> String + Send + Sync;

impl Scoping {
    #[inline]
    pub(crate) fn scope(&self, request: &Request) -> Scope {
        let origin = ScopeKey::origin(request.url());
        match self {
            Self::ByOrigin => Scope { key: origin, origin, name: None },
            Self::By(scope) => Scope { key: scope(request), origin, name: None },
            Self::NamedBy(name) => {
                let name = name(request);
                Scope { key: ScopeKey::of(name.as_str()), origin, name: Some(name) }
            }
        }
    }

    /// The scope that other processes call by this name.
    pub(crate) fn scope_named(&self, name: &str) -> Option<ScopeKey> {
        match self {
            Self::ByOrigin => Url::parse(name).ok().filter(Url::has_host).map(|url| ScopeKey::origin(&url)),
            Self::By(_) => None,
            Self::NamedBy(_) => Some(ScopeKey::of(name)),
        }
    }

    /// What other processes call the scope of what a server at this URL said; `None` where it has
    /// no name.
    pub(crate) fn name(&self, scope: &Scope, url: &Url) -> Option<String> {
        match self {
            Self::ByOrigin => Some(Origin::of(url).to_string()),
            Self::By(_) => None,
            Self::NamedBy(_) => scope.name.clone(),
        }
    }
}

/// What a request falls under.
pub(crate) struct Scope {
    pub(crate) key: ScopeKey,
    origin: ScopeKey,
    /// What a function of the user's calls it.
    name: Option<String>,
}

impl Scope {
    /// What the request falls under at a server that may not be the one it was first sent to. Of
    /// other servers, only those that are told apart by origin are known: a function of the user's
    /// has not seen the request that a redirect made.
    pub(crate) fn at(&self, url: &Url) -> Option<ScopeKey> {
        let origin = ScopeKey::origin(url);
        if origin == self.origin { Some(self.key) } else { (self.key == self.origin).then_some(origin) }
    }
}

/// The scopes and their values, those used longest ago first.
pub(crate) type IdleFirst<'a, V> = Rev<lru::Iter<'a, ScopeKey, V>>;

/// One value per scope, for a bounded number of scopes. Whoever fills it says what may be forgotten
/// for a newcomer.
pub(crate) struct Scopes<V>(Mutex<Values<V>>);

type Values<V> = LruCache<ScopeKey, V, BuildHasherDefault<Hashed>>;

impl<V> Scopes<V> {
    pub(crate) fn new() -> Self {
        // Bounded in `enter`; a bound given here would be allocated here.
        Self(Mutex::new(LruCache::unbounded_with_hasher(BuildHasherDefault::default())))
    }

    /// Works on the value of a scope, made fresh if there is none. The work is short: others wait.
    ///
    /// Once all places are taken, `room` names the scope that a newcomer replaces. It sees all of
    /// them, those used longest ago first. Where it names none, the newcomer gets no place, and the
    /// work no value.
    pub(crate) fn enter<R>(
        &self,
        key: ScopeKey,
        fresh: impl FnOnce() -> V,
        room: impl FnOnce(IdleFirst<'_, V>) -> Option<ScopeKey>,
        work: impl FnOnce(Option<&mut V>) -> R,
    ) -> R {
        let mut scopes = self.lock();
        if scopes.peek_mru().is_some_and(|(last, _)| *last == key) {
            // It stays where it is in the order, so nothing is written but its value: other threads
            // have less to wait for.
            return work(scopes.peek_mut(&key));
        }
        if scopes.len() >= defaults::SCOPES && !scopes.contains(&key) {
            match room(scopes.iter().rev()) {
                Some(replaced) => scopes.pop(&replaced),
                None => return work(None),
            };
        }
        work(Some(scopes.get_or_insert_mut(key, fresh)))
    }

    /// Whether a newcomer would get a place.
    pub(crate) fn has_room(&self, room: impl FnOnce(IdleFirst<'_, V>) -> Option<ScopeKey>) -> bool {
        let scopes = self.lock();
        scopes.len() < defaults::SCOPES || room(scopes.iter().rev()).is_some()
    }

    /// Works on the value of a scope, if there is one. Looking does not count as use.
    pub(crate) fn peek<R>(&self, key: ScopeKey, work: impl FnOnce(&mut V) -> R) -> Option<R> {
        self.lock().peek_mut(&key).map(work)
    }

    /// Forgets a scope.
    pub(crate) fn forget(&self, key: ScopeKey) {
        self.lock().pop(&key);
    }

    pub(crate) fn len(&self) -> usize {
        self.lock().len()
    }

    /// A panic elsewhere leaves numbers behind that are at worst one step old: no reason to panic
    /// here as well.
    fn lock(&self) -> MutexGuard<'_, Values<V>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn origins_differ_by_scheme_host_and_port_only() {
        let key = |url: &str| ScopeKey::origin(&url.parse().unwrap());
        let one = key("https://api.example/a");
        for same in ["https://api.example:443/b?c#d", "https://user:secret@API.example/"] {
            assert_eq!(one, key(same), "{same}");
        }
        for other in ["http://api.example/a", "https://api.example:8443/a", "https://api2.example/a"] {
            assert_ne!(one, key(other), "{other}");
        }
    }

    #[test]
    fn a_redirect_leads_to_the_scope_of_its_origin_and_no_users_function_is_asked_about_it() {
        let request = Request::new(reqwest::Method::GET, "https://one.example/a".parse().unwrap());
        let (same, other) = ("https://one.example/b".parse().unwrap(), "https://other.example/".parse().unwrap());
        let by_origin = Scoping::default().scope(&request);
        assert_eq!((by_origin.at(&same), by_origin.at(&other)), (Some(ScopeKey::origin(&same)), Some(ScopeKey::origin(&other))));
        let by_tenant = Scoping::By(Arc::new(|_| ScopeKey::of("tenant"))).scope(&request);
        assert_eq!((by_tenant.at(&same), by_tenant.at(&other)), (Some(ScopeKey::of("tenant")), None));
    }

    #[test]
    fn an_origin_is_named_so_that_another_process_finds_it_again() {
        let scoping = Scoping::default();
        for url in ["https://api.example/a?b", "http://[::1]:8080/", "https://user:secret@API.example:443/"] {
            let request = Request::new(reqwest::Method::GET, url.parse().unwrap());
            let scope = scoping.scope(&request);
            let name = scoping.name(&scope, request.url()).unwrap();
            assert_eq!(scoping.scope_named(&name), Some(scope.key), "{name}");
        }
        for nonsense in ["", "api.example", "data:,", "https://", "\0"] {
            assert_eq!(scoping.scope_named(nonsense), None, "{nonsense:?}");
        }
    }

    #[test]
    fn at_a_full_table_a_newcomer_takes_the_place_that_it_is_given_or_none() {
        let scopes = Scopes::new();
        let enter = |n: usize, room: fn(IdleFirst<'_, usize>) -> Option<ScopeKey>| {
            scopes.enter(ScopeKey::of(&n), || n, room, |value| value.copied())
        };
        (0..defaults::SCOPES).for_each(|n| assert_eq!(enter(n, |_| panic!("there is room")), Some(n)));
        assert_eq!(enter(0, |_| panic!("it has its place")), Some(0));
        assert_eq!(enter(usize::MAX, |_| None), None);
        assert_eq!(enter(usize::MAX, |mut idle| idle.next().map(|(key, _)| *key)), Some(usize::MAX));
        assert_eq!(scopes.len(), defaults::SCOPES);
        assert_eq!(scopes.peek(ScopeKey::of(&0_usize), |value| *value), Some(0), "used again since");
        assert_eq!(scopes.peek(ScopeKey::of(&1_usize), |value| *value), None, "used longest ago");
    }

    #[test]
    fn a_panic_under_the_lock_does_not_spread() {
        let scopes = Scopes::new();
        let enter = |work: fn(Option<&mut u32>) -> Option<u32>| scopes.enter(ScopeKey::of("a"), || 1, |_| None, work);
        let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| enter(|_| panic!("on purpose"))));
        assert!(panicked.is_err());
        assert_eq!(enter(|value| value.copied()), Some(1));
    }
}
