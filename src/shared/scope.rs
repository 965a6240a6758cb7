//! What is kept per origin, or per key of the user's: found without allocating, bounded, behind one short lock.

use std::{
    fmt,
    hash::{BuildHasher, Hash, RandomState},
    sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError},
};

use lru::LruCache;
use reqwest::{Request, Url};

use crate::policy::defaults;

/// Seeded once per process: keys mean the same to every budget and cool-down, and nobody outside can choose two that collide.
static SEED: LazyLock<RandomState> = LazyLock::new(RandomState::new);

/// Whose budget or cool-down a request falls under. Requests with equal keys share it.
///
/// It keeps 64 bits of a hash and nothing of what was hashed, so a tenant's name or an API token may be part of it without ever being
/// held or printed. Means nothing outside of this process.
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
    pub fn origin(url: &Url) -> Self {
        Self::of(&(url.scheme(), url.host_str(), url.port_or_known_default()))
    }

    /// The key of anything that can be hashed, for example `&(ScopeKey::origin(url), tenant)`.
    #[must_use]
    pub fn of(parts: &(impl Hash + ?Sized)) -> Self {
        Self(SEED.hash_one(parts))
    }
}

impl fmt::Debug for ScopeKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ScopeKey(..)")
    }
}

/// How requests are told apart: by origin, unless the user has a function for it.
#[derive(Clone, Default)]
pub(crate) struct Scoping(Option<Arc<KeyOf>>);

type KeyOf = dyn Fn(&Request) -> ScopeKey + Send + Sync;

impl Scoping {
    pub(crate) fn by(key: impl Fn(&Request) -> ScopeKey + Send + Sync + 'static) -> Self {
        Self(Some(Arc::new(key)))
    }

    pub(crate) fn key(&self, request: &Request) -> ScopeKey {
        self.0.as_ref().map_or_else(|| ScopeKey::origin(request.url()), |key| key(request))
    }
}

/// One value per scope, for the scopes used last.
pub(crate) struct Scopes<V>(Mutex<LruCache<ScopeKey, V>>);

impl<V> Scopes<V> {
    pub(crate) fn new() -> Self {
        Self(Mutex::new(LruCache::unbounded())) // bounded in `enter`; a bound given here would be allocated here
    }

    /// Works on the value of a scope, made fresh if there is none; the scope used longest ago makes room for it. The work is short: others wait.
    pub(crate) fn enter<R>(&self, key: ScopeKey, fresh: impl FnOnce() -> V, work: impl FnOnce(&mut V) -> R) -> R {
        let mut scopes = self.lock();
        let result = work(scopes.get_or_insert_mut(key, fresh));
        if scopes.len() > defaults::SCOPES {
            scopes.pop_lru();
        }
        result
    }

    /// Works on the value of a scope, if there is one.
    pub(crate) fn find<R>(&self, key: ScopeKey, work: impl FnOnce(&mut V) -> R) -> Option<R> {
        self.lock().get_mut(&key).map(work)
    }

    /// As [`find`](Self::find), but looking does not count as use.
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

    /// A panic elsewhere leaves numbers behind that are at worst one step old: no reason to panic here as well.
    fn lock(&self) -> MutexGuard<'_, LruCache<ScopeKey, V>> {
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
    fn the_scope_used_longest_ago_makes_room() {
        let scopes = Scopes::new();
        let enter = |n: usize| scopes.enter(ScopeKey::of(&n), || n, |value| *value);
        (0..defaults::SCOPES).for_each(|n| assert_eq!(enter(n), n));
        enter(0);
        enter(usize::MAX);
        assert_eq!(scopes.len(), defaults::SCOPES);
        assert_eq!(scopes.peek(ScopeKey::of(&0_usize), |value| *value), Some(0));
        assert_eq!(scopes.peek(ScopeKey::of(&1_usize), |value| *value), None);
    }

    #[test]
    fn a_panic_under_the_lock_does_not_spread() {
        let scopes = Scopes::new();
        let key = ScopeKey::of("a");
        let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| scopes.enter(key, || 1, |_| panic!("on purpose"))));
        assert!(panicked.is_err());
        assert_eq!(scopes.enter(key, || 2, |value| *value), 1);
    }
}
