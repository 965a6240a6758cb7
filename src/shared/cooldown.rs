//! What one operation was told to wait, for the others to respect.
//!
//! A `Retry-After` is said to one request and meant for everybody in the scope of the limit. With a shared cool-down, the first who hears
//! it holds back the others, who would only be told the same, each at the price of a request.

use std::{fmt, sync::Arc, time::Duration};

use reqwest::{Request, Url};
use tokio::time::Instant;

use crate::{
    policy::{SharedWait, defaults::MOST_SHARED_WAIT},
    shared::scope::{IdleFirst, Scope, ScopeKey, Scopes, Scoping},
};

/// Until when each origin asked to be left alone. A handle: clones share what they know, also across clients.
///
/// A cool-down is never shortened: the latest instant asked for wins. What a server asks for is shared for at most
/// [`MOST_SHARED_WAIT`]; then somebody may ask it again. At most 1024 scopes are known at once: what is over is forgotten first,
/// then what ends soonest. A wait that is not known holds nobody back but the operations that were told themselves.
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
/// cooldown.note(scope, now + Duration::from_secs(1)); // somebody else was told less
/// assert_eq!(cooldown.release(scope, now), Some(until));
/// assert_eq!(cooldown.release(scope, until), None);
/// ```
#[derive(Clone)]
pub struct Cooldown {
    waits: Arc<Scopes<Wait>>,
    scoping: Scoping,
    holds_back: HoldsBack,
}

/// What a shared cool-down holds back.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum HoldsBack {
    /// Resends and probes only: a new operation may find the server well again.
    Resends,
    /// New operations too. They wait within their deadline, or fail at once with
    /// [`RetryError::CoolingDown`](crate::RetryError::CoolingDown), which carries the time. Those who waited come back spread over a
    /// quarter of the wait that the server asked for, however late they came: at five times the usual rate, until all are back.
    FirstSendsToo,
}

impl Cooldown {
    /// Nobody has been asked to wait yet. One scope per origin.
    #[must_use]
    pub fn new() -> Self {
        Self { waits: Arc::new(Scopes::new()), scoping: Scoping::default(), holds_back: HoldsBack::Resends }
    }

    /// Replaces the scope of a wait: not the origin, but what this function says of each operation's first request, for example
    /// origin and tenant where each tenant has a limit of its own. What is known stays shared with all clones of this handle.
    ///
    /// What another origin asks for, after a redirect, is then not shared: the function has not seen that request.
    #[must_use]
    pub fn scoped_by(self, scope: impl Fn(&Request) -> ScopeKey + Send + Sync + 'static) -> Self {
        Self { scoping: Scoping::by(scope), ..self }
    }

    /// The scope of a request.
    #[must_use]
    pub fn scope(&self, request: &Request) -> ScopeKey {
        self.scoping.scope(request).key
    }

    /// Holds the scope back until then, or longer where somebody has already asked for longer. An instant that has passed changes
    /// nothing.
    pub fn note(&self, scope: ScopeKey, until: Instant) {
        let now = Instant::now();
        self.hold(scope, Wait { until, told: until.saturating_duration_since(now) }, now);
    }

    /// The instant before which nothing may be resent in this scope; `None` when it has passed.
    #[must_use]
    pub fn release(&self, scope: ScopeKey, now: Instant) -> Option<Instant> {
        self.running(scope, now).map(|wait| wait.until)
    }

    /// Lets a scope go, whatever was asked for it: for a person who knows better than a server that asked for too much.
    ///
    /// Operations that wait already wait on.
    pub fn lift(&self, scope: ScopeKey) {
        self.waits.forget(scope);
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
        CooldownPlace { cooldown: self, scope: self.scoping.scope(request) }
    }

    fn hold(&self, scope: ScopeKey, wait: Wait, now: Instant) {
        if !wait.runs(now) {
            return;
        }
        let soonest_if_sooner = |idle: IdleFirst<'_, Wait>| {
            let (scope, soonest) = idle.min_by_key(|(_, known)| known.until)?;
            (soonest.until < wait.until).then_some(*scope)
        };
        self.waits.enter(
            scope,
            || wait,
            soonest_if_sooner,
            |known| {
                if let Some(known) = known {
                    *known = known.and(wait, now);
                }
            },
        );
    }

    fn running(&self, scope: ScopeKey, now: Instant) -> Option<Wait> {
        self.waits.peek(scope, |wait| *wait).filter(|wait| wait.runs(now))
    }
}

/// A wait that somebody was told.
#[derive(Clone, Copy)]
struct Wait {
    until: Instant,
    /// How long it was then. Those who were held back return spread over a share of this, not of what was left when they came.
    told: Duration,
}

impl Wait {
    fn runs(self, now: Instant) -> bool {
        self.until > now
    }

    /// What holds after another wait was told as well. A server that counts down tells ever shorter waits for the same instant:
    /// the longest of those that run says how many were held back.
    fn and(self, other: Self, now: Instant) -> Self {
        let told = if self.runs(now) { self.told.max(other.told) } else { other.told };
        Self { until: self.until.max(other.until), told }
    }
}

/// One operation's view of the cool-down it falls under.
#[derive(Clone, Copy)]
pub(crate) struct CooldownPlace<'a> {
    cooldown: &'a Cooldown,
    scope: Scope,
}

impl CooldownPlace<'_> {
    /// Tells the others what this operation was told, then and there.
    pub(crate) fn note(self, by: &Url, then: Instant, told: Duration) {
        let told = told.min(MOST_SHARED_WAIT);
        if let (Some(scope), Some(until)) = (self.scope.at(by), then.checked_add(told)) {
            self.cooldown.hold(scope, Wait { until, told }, then);
        }
    }

    /// How long sends of this kind are held back yet.
    pub(crate) fn wait(self, sends: HoldsBack, now: Instant) -> Option<SharedWait> {
        match (sends, self.cooldown.holds_back) {
            (HoldsBack::FirstSendsToo, HoldsBack::Resends) => None,
            (HoldsBack::Resends, _) | (HoldsBack::FirstSendsToo, HoldsBack::FirstSendsToo) => {
                self.cooldown.running(self.scope.key, now).map(|wait| SharedWait::new(wait.until.saturating_duration_since(now), wait.told))
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
        f.debug_struct("Cooldown").field("scopes", &self.waits.len()).finish()
    }
}

#[cfg(test)]
mod tests {
    use reqwest::Method;

    use super::*;
    use crate::shared::orders::every_order;

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
    fn in_no_order_is_a_wait_forgotten_that_was_told_after_the_last_lift() {
        #[derive(Clone, Copy)]
        enum Turn {
            Note(u32),
            Lift,
        }
        every_order(&[&[Turn::Note(5), Turn::Note(3)], &[Turn::Note(9), Turn::Lift], &[Turn::Note(4)]], |order| {
            let (cooldown, scope, now) = (Cooldown::new(), ScopeKey::of("a"), Instant::now());
            let mut asked = None;
            for turn in order {
                match *turn {
                    Turn::Note(seconds) => {
                        cooldown.note(scope, now + SECOND * seconds);
                        asked = asked.max(Some(now + SECOND * seconds));
                    }
                    Turn::Lift => {
                        cooldown.lift(scope);
                        asked = None;
                    }
                }
                assert_eq!(cooldown.release(scope, now), asked);
            }
        });
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
    fn what_a_server_asks_for_is_shared_for_an_hour_at_most_and_what_a_person_asks_for_is_kept() {
        let (cooldown, now) = (Cooldown::new(), Instant::now());
        let request = Request::new(Method::GET, "https://one.example/a".parse().unwrap());
        cooldown.place(&request).note(request.url(), now, Duration::MAX);
        assert_eq!(cooldown.release(cooldown.scope(&request), now), Some(now + MOST_SHARED_WAIT));
        cooldown.note(cooldown.scope(&request), now + 100_000 * SECOND);
        assert_eq!(cooldown.release(cooldown.scope(&request), now), Some(now + 100_000 * SECOND));
    }

    #[test]
    fn a_wait_belongs_to_the_origin_that_asked_for_it() {
        let (cooldown, now) = (Cooldown::new(), Instant::now());
        let request = Request::new(Method::GET, "https://one.example/a".parse().unwrap());
        let redirected = "https://other.example/b".parse().unwrap();
        cooldown.place(&request).note(&redirected, now, SECOND);
        assert_eq!(cooldown.release(cooldown.scope(&request), now), None);
        assert_eq!(cooldown.release(ScopeKey::origin(&redirected), now), Some(now + SECOND));
    }

    #[test]
    fn the_longest_wait_told_says_how_far_they_are_spread_and_what_is_over_says_nothing() {
        let (cooldown, now) = (Cooldown::new(), Instant::now());
        let request = Request::new(Method::GET, "https://one.example/a".parse().unwrap());
        let told = |then: Instant, wait| {
            cooldown.place(&request).note(request.url(), then, wait);
            cooldown.place(&request).wait(HoldsBack::Resends, then).unwrap().told
        };
        assert_eq!(told(now, 30 * SECOND), 30 * SECOND);
        assert_eq!(told(now + 20 * SECOND, 11 * SECOND), 30 * SECOND, "it counts down");
        assert_eq!(told(now + 31 * SECOND, 2 * SECOND), 2 * SECOND, "a new wait");
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
    fn a_wait_of_nothing_is_not_noted() {
        let cooldown = Cooldown::new();
        cooldown.note(ScopeKey::of("a"), Instant::now());
        assert_eq!(format!("{cooldown:?}"), "Cooldown { scopes: 0 }");
    }

    #[test]
    fn a_flood_of_short_waits_pushes_no_longer_one_out() {
        let (cooldown, held, now) = (Cooldown::new(), ScopeKey::of("held"), Instant::now());
        cooldown.note(held, now + 3600 * SECOND);
        for stranger in 0..10_000_u32 {
            cooldown.note(ScopeKey::of(&stranger), now + SECOND * (stranger % 600 + 1));
        }
        assert_eq!(cooldown.release(held, now), Some(now + 3600 * SECOND));
        assert_eq!(format!("{cooldown:?}"), "Cooldown { scopes: 1024 }");
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_over_makes_room_first_and_then_what_ends_soonest() {
        let (cooldown, now) = (Cooldown::new(), Instant::now());
        let scopes: Vec<_> = (0..1_024_u32).map(|n| (ScopeKey::of(&n), now + SECOND * (n + 1))).collect();
        scopes.iter().rev().for_each(|(scope, until)| cooldown.note(*scope, *until));
        let known = || scopes.iter().filter(|(scope, _)| cooldown.release(*scope, now).is_some()).count();
        tokio::time::advance(2 * SECOND).await;
        for (newcomer, left) in [("a", 1_023), ("b", 1_022), ("c", 1_021)] {
            cooldown.note(ScopeKey::of(newcomer), now + 5_000 * SECOND);
            assert_eq!(known(), left);
        }
        assert_eq!(cooldown.release(scopes[3].0, now), Some(now + 4 * SECOND));
        cooldown.note(ScopeKey::of("ends sooner than all others"), now + 3 * SECOND);
        assert_eq!(known(), 1_021);
    }
}
