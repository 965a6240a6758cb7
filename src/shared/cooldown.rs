//! What one operation was told to wait, for the others to respect.
//!
//! A `Retry-After` is said to one request and meant for everybody in the scope of the limit. With a shared cool-down, the first who hears
//! it holds back the others, who would only be told the same, each at the price of a request.

use std::{fmt, sync::Arc, time::Duration};

use reqwest::Request;
use tokio::time::Instant;

use crate::shared::scope::{ScopeKey, Scopes, Scoping};

/// Until when each origin asked to be left alone. A handle: clones share what they know, also across clients.
///
/// A cool-down is never shortened: the latest instant asked for wins. The 1024 scopes used last are remembered; one that was
/// forgotten holds nobody back but the operations that were told to wait themselves.
///
/// # Examples
/// ```
/// use reqwest_safe_retry::{Cooldown, ScopeKey};
/// use std::time::Duration;
/// use tokio::time::Instant;
///
/// let cooldown = Cooldown::new();
/// let scope = ScopeKey::of("search API");
/// let now = Instant::now();
/// let until = now + Duration::from_secs(30);
/// cooldown.note(scope, until);
/// cooldown.note(scope, now); // somebody else was told less
/// assert_eq!(cooldown.release(scope, now), Some(until));
/// assert_eq!(cooldown.release(scope, until), None);
/// ```
#[derive(Clone)]
pub struct Cooldown {
    scopes: Arc<Scopes<Instant>>,
    scoping: Scoping,
    holds_back: HoldsBack,
}

/// What a shared cool-down holds back.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum HoldsBack {
    /// Resends and probes only: a new operation may find the server well again.
    Resends,
    /// New operations too. Whoever waits comes back with everybody else who waited: with long deadlines that is a crowd of its own, which
    /// only the server's capacity or short deadlines bound. They wait within their deadline, or fail at once with
    /// [`RetryError::CoolingDown`](crate::RetryError::CoolingDown), which carries the time.
    FirstSendsToo,
}

impl Cooldown {
    /// Nobody has been asked to wait yet. One scope per origin.
    #[must_use]
    pub fn new() -> Self {
        Self { scopes: Arc::new(Scopes::new()), scoping: Scoping::default(), holds_back: HoldsBack::Resends }
    }

    /// Replaces the scope of a wait: not the origin, but what this function says of each operation's first request, for example
    /// origin and tenant where each tenant has a limit of its own. What is known stays shared with all clones of this handle.
    #[must_use]
    pub fn scoped_by(self, scope: impl Fn(&Request) -> ScopeKey + Send + Sync + 'static) -> Self {
        Self { scoping: Scoping::by(scope), ..self }
    }

    /// The scope of a request.
    #[must_use]
    pub fn scope(&self, request: &Request) -> ScopeKey {
        self.scoping.key(request)
    }

    /// Holds the scope back until then, or longer where somebody has already asked for longer.
    pub fn note(&self, scope: ScopeKey, until: Instant) {
        self.scopes.enter(
            scope,
            || until,
            |mut idle| idle.next().map(|(key, _)| *key),
            |known| known.map(|known| *known = until.max(*known)),
        );
    }

    /// The instant before which nothing may be resent in this scope; `None` when it has passed.
    #[must_use]
    pub fn release(&self, scope: ScopeKey, now: Instant) -> Option<Instant> {
        self.scopes.find(scope, |until| *until).filter(|until| *until > now)
    }

    /// Lets a scope go, whatever was asked for it: for a person who knows better than a server that asked for a century.
    ///
    /// Operations that wait already wait on.
    pub fn lift(&self, scope: ScopeKey) {
        self.scopes.forget(scope);
    }

    /// Sets what is held back.
    ///
    /// # Default
    /// [`HoldsBack::Resends`].
    #[must_use]
    pub fn holding_back(self, holds_back: HoldsBack) -> Self {
        Self { holds_back, ..self }
    }

    /// The place of one operation.
    pub(crate) fn place(&self, request: &Request) -> CooldownPlace<'_> {
        CooldownPlace { cooldown: self, scope: self.scope(request) }
    }
}

/// One operation's view of the cool-down it falls under.
#[derive(Clone, Copy)]
pub(crate) struct CooldownPlace<'a> {
    cooldown: &'a Cooldown,
    scope: ScopeKey,
}

impl CooldownPlace<'_> {
    /// Tells the others what this operation was told.
    pub(crate) fn note(self, until: Instant) {
        self.cooldown.note(self.scope, until);
    }

    /// How long sends of this kind are held back yet.
    pub(crate) fn wait(self, sends: HoldsBack, now: Instant) -> Option<Duration> {
        match (sends, self.cooldown.holds_back) {
            (HoldsBack::FirstSendsToo, HoldsBack::Resends) => None,
            (HoldsBack::Resends, _) | (HoldsBack::FirstSendsToo, HoldsBack::FirstSendsToo) => {
                self.cooldown.release(self.scope, now).map(|until| until.saturating_duration_since(now))
            }
        }
    }
}

impl Default for Cooldown {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for Cooldown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cooldown").field("scopes", &self.scopes.len()).finish()
    }
}

#[cfg(test)]
mod tests {
    use reqwest::Method;

    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn a_cool_down_is_never_shortened() {
        let (cooldown, scope, now) = (Cooldown::new(), ScopeKey::of("a"), Instant::now());
        for (asked, kept) in [(5, 5), (3, 5), (9, 9), (0, 9)] {
            cooldown.note(scope, now + SECOND * asked);
            assert_eq!(cooldown.release(scope, now), Some(now + SECOND * kept), "after {asked}");
        }
    }

    #[test]
    fn a_person_can_lift_a_cool_down_and_no_other() {
        let (cooldown, lifted, other, now) = (Cooldown::new(), ScopeKey::of("a"), ScopeKey::of("b"), Instant::now());
        cooldown.note(lifted, now + 1_000_000 * SECOND);
        cooldown.note(other, now + SECOND);
        cooldown.lift(lifted);
        assert_eq!((cooldown.release(lifted, now), cooldown.release(other, now)), (None, Some(now + SECOND)));
    }

    #[test]
    fn a_cool_down_ends_when_it_was_asked_to() {
        let (cooldown, scope, now) = (Cooldown::new(), ScopeKey::of("a"), Instant::now());
        assert_eq!(cooldown.release(scope, now), None, "nobody asked");
        cooldown.note(scope, now + SECOND);
        assert_eq!(cooldown.release(scope, now + SECOND - Duration::from_nanos(1)), Some(now + SECOND));
        assert_eq!(cooldown.release(scope, now + SECOND), None);
    }

    #[test]
    fn scopes_do_not_hold_each_other_back_and_clones_do() {
        let (cooldown, now) = (Cooldown::new(), Instant::now());
        let scope = |url: &str| cooldown.scope(&Request::new(Method::GET, url.parse().unwrap()));
        cooldown.note(scope("https://one.example/a"), now + SECOND);
        assert_eq!(cooldown.clone().release(scope("https://one.example/b?c"), now), Some(now + SECOND));
        assert_eq!(cooldown.release(scope("https://other.example/a"), now), None);
    }

    #[test]
    fn the_scope_of_the_user_replaces_the_origin() {
        let cooldown = Cooldown::new().scoped_by(|request| ScopeKey::of(request.method()));
        let scope = |url: &str| cooldown.scope(&Request::new(Method::GET, url.parse().unwrap()));
        assert_eq!(scope("https://one.example/"), scope("https://other.example/"));
    }

    #[test]
    fn a_flood_of_scopes_is_not_remembered_but_one_in_use_is() {
        let (cooldown, held, now) = (Cooldown::new(), ScopeKey::of("in use"), Instant::now());
        cooldown.note(held, now + SECOND);
        for stranger in 0..10_000_u32 {
            cooldown.note(ScopeKey::of(&stranger), now + SECOND);
            assert!(cooldown.release(held, now).is_some());
        }
        assert_eq!(format!("{cooldown:?}"), "Cooldown { scopes: 1024 }");
    }
}
