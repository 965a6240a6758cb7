//! What one operation was told to wait, for the others to respect.
//!
//! A `Retry-After` is said to one request and meant for everybody in the scope of the limit. With a
//! shared cool-down, the first who hears it holds back the others, who would only be told the same,
//! each at the price of a request.

use std::{
    fmt,
    panic::{self, AssertUnwindSafe},
    sync::Arc,
    time::Duration,
};

use reqwest::{Request, Url};

use crate::{
    platform::Instant,
    policy::{
        SharedWait,
        defaults::{MOST_HEARD, MOST_SHARED_WAIT},
    },
    shared::scope::{IdleFirst, Scope, ScopeKey, Scopes, Scoping},
};

/// Until when each origin asked to be left alone. A handle: clones share what they know, also
/// across clients.
///
/// A cool-down is never shortened: the latest instant asked for wins. What a server asks for is
/// shared for at most [`MOST_SHARED_WAIT`]; then somebody may ask it again. At most 1024 scopes are
/// known at once: what is over is forgotten first, then what ends soonest. A wait that is not known
/// holds nobody back but the operations that were told themselves.
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
#[doc(alias("retry after", "rate limit", "too many requests"))]
pub struct Cooldown {
    waits: Arc<Scopes<Wait>>,
    scoping: Scoping,
    holds_back: HoldsBack,
    tell: Option<Arc<Tell>>,
}

type Tell = dyn Fn(&str, Duration) + Send + Sync;

/// What a shared cool-down holds back.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum HoldsBack {
    /// Resends and probes only: a new operation may find the server well again.
    Resends,
    /// New operations too. They wait within their deadline, or fail at once with
    /// [`RetryError::CoolingDown`](crate::RetryError::CoolingDown), which carries the time. Those
    /// who waited come back spread over a quarter of the wait that the server asked for, however
    /// late they came: at five times the usual rate, until all are back.
    FirstSendsToo,
}

impl Cooldown {
    /// Nobody has been asked to wait yet. One scope per origin.
    #[must_use]
    pub fn new() -> Self {
        Self { waits: Arc::new(Scopes::new()), scoping: Scoping::default(), holds_back: HoldsBack::Resends, tell: None }
    }

    /// Replaces the scope of a wait: not the origin, but what this function says of each
    /// operation's first request, for example origin and tenant where each tenant has a limit of
    /// its own. What is known stays shared with all clones of this handle.
    ///
    /// What another origin asks for, after a redirect, is then not shared: the function has not
    /// seen that request.
    #[must_use]
    pub fn scoped_by(self, scope: impl Fn(&Request) -> ScopeKey + Send + Sync + 'static) -> Self {
        Self { scoping: Scoping::By(Arc::new(scope)), ..self }
    }

    /// As [`scoped_by`](Self::scoped_by), with scopes that have names, so that waits can be shared
    /// with other processes. Equal names are one scope, here and there. A name is told in clear: it
    /// must hold no secret.
    ///
    /// ```
    /// use reqwest_safe_retry::Cooldown;
    ///
    /// let cooldown = Cooldown::new()
    ///     .named_by(|request| request.url().host_str().unwrap_or_default().to_owned());
    /// # let _ = cooldown;
    /// ```
    #[must_use]
    pub fn named_by(self, name: impl Fn(&Request) -> String + Send + Sync + 'static) -> Self {
        Self { scoping: Scoping::NamedBy(Arc::new(name)), ..self }
    }

    /// Tells other processes what servers ask for: the scope's name, and how long the wait still
    /// is. They pass it to [`hear`](Self::hear). The name is that of [`named_by`](Self::named_by),
    /// or the origin, `https://api.example:443`; scopes of [`scoped_by`](Self::scoped_by) have no
    /// names, and their waits stay here.
    ///
    /// Only news is told: what the others do not know yet, or what is longer by over an eighth than
    /// what they know. Only what a server *said* is told, never a backoff, a failure or what
    /// [`note`](Self::note) was given: one process in trouble must not stop all.
    ///
    /// The function is called outside of any lock, by the operation that was told to wait. It
    /// should put the news into a queue and return. If it panics, the news is lost and the
    /// operation goes on.
    ///
    /// # Examples
    /// ```
    /// use reqwest_safe_retry::Cooldown;
    /// use std::sync::mpsc;
    ///
    /// let (news, to_send) = mpsc::sync_channel(64);
    /// let cooldown = Cooldown::new().relayed(move |name, wait| {
    ///     let _ = news.try_send((name.to_owned(), wait)); // when nobody sends, it is dropped
    /// });
    /// let received = cooldown.clone();
    /// for (name, wait) in to_send.try_iter() {
    ///     received.hear(&name, wait); // in another process
    /// }
    /// ```
    #[must_use]
    pub fn relayed(self, tell: impl Fn(&str, Duration) + Send + Sync + 'static) -> Self {
        Self { tell: Some(Arc::new(tell)), ..self }
    }

    /// Takes over what another process was told to wait, for at most [`MOST_HEARD`]. It is not told
    /// again. A name that says nothing here is ignored.
    pub fn hear(&self, name: &str, wait: Duration) {
        let (now, told) = (Instant::now(), wait.min(MOST_HEARD));
        if let Some(scope) = self.scoping.scope_named(name) {
            self.hold(scope, now, told, now, |known, until| known.others_know = known.others_know.max(Some(until)));
        }
    }

    /// The scope of a request.
    #[must_use]
    pub fn scope(&self, request: &Request) -> ScopeKey {
        self.scoping.scope(request).key
    }

    /// Holds the scope back until then, or longer where somebody has already asked for longer. An
    /// instant that has passed changes nothing.
    pub fn note(&self, scope: ScopeKey, until: Instant) {
        let now = Instant::now();
        self.hold(scope, now, until.saturating_duration_since(now), now, |_, _| ());
    }

    /// The instant before which nothing may be resent in this scope; `None` when it has passed.
    #[must_use]
    pub fn release(&self, scope: ScopeKey, now: Instant) -> Option<Instant> {
        self.running(scope, now).map(|wait| wait.until)
    }

    /// Lets a scope go, whatever was asked for it: for a person who knows better than a server that
    /// asked for too much.
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

    /// Holds a scope back for what was told then, and does more with what is known of it since.
    /// `None` if nothing is known: the wait is over, or all others are longer.
    fn hold<R>(
        &self,
        scope: ScopeKey,
        then: Instant,
        told: Duration,
        now: Instant,
        more: impl FnOnce(&mut Wait, Instant) -> R,
    ) -> Option<R> {
        let until = then.checked_add(told).filter(|until| *until > now)?;
        let soonest_if_sooner = |idle: IdleFirst<'_, Wait>| {
            let (scope, soonest) = idle.min_by_key(|(_, known)| known.until)?;
            (soonest.until < until).then_some(*scope)
        };
        self.waits.enter(
            scope,
            || Wait::over(now),
            soonest_if_sooner,
            |known| {
                let known = known?;
                known.lengthen(until, told, now);
                Some(more(known, until))
            },
        )
    }

    fn running(&self, scope: ScopeKey, now: Instant) -> Option<Wait> {
        self.waits.peek(scope, |wait| *wait).filter(|wait| wait.runs(now))
    }
}

/// The wait that is known of one scope.
#[derive(Clone, Copy)]
struct Wait {
    until: Instant,
    /// How long it was when it was told. Those who were held back return spread over a share of
    /// this, not of what was left when they came.
    told: Duration,
    /// Until when other processes know that they have to wait.
    others_know: Option<Instant>,
}

impl Wait {
    const fn over(now: Instant) -> Self {
        Self { until: now, told: Duration::ZERO, others_know: None }
    }

    fn runs(self, now: Instant) -> bool {
        self.until > now
    }

    /// A server that counts down tells ever shorter waits for the same instant: the longest of
    /// those that run says how many were held back.
    fn lengthen(&mut self, until: Instant, told: Duration, now: Instant) {
        self.told = if self.runs(now) { self.told.max(told) } else { told };
        self.until = self.until.max(until);
    }

    /// Whether the other processes do not know this yet, or know a wait that is shorter by over an
    /// eighth. From now on they do.
    fn is_news(&mut self, until: Instant, now: Instant) -> bool {
        let left = |until: Instant| until.saturating_duration_since(now);
        let known = self.others_know.map_or(Duration::ZERO, left);
        let news = left(until) > known.saturating_add(known / 8);
        if news {
            self.others_know = Some(until);
        }
        news
    }
}

/// One operation's view of the cool-down it falls under.
pub(crate) struct CooldownPlace<'a> {
    cooldown: &'a Cooldown,
    scope: Scope,
}

impl CooldownPlace<'_> {
    /// Tells the others what a server at this URL told this operation then.
    pub(crate) fn note(&self, by: &Url, then: Instant, told: Duration) {
        let Some(scope) = self.scope.at(by) else { return };
        let (now, told) = (Instant::now(), told.min(MOST_SHARED_WAIT));
        let news = self.cooldown.hold(scope, then, told, now, |known, until| {
            let relayed = self.cooldown.tell.is_some();
            (relayed && known.is_news(until, now)).then(|| until.saturating_duration_since(now))
        });
        if let Some(left) = news.flatten() {
            self.relay(by, left);
        }
    }

    fn relay(&self, by: &Url, left: Duration) {
        if let (Some(tell), Some(name)) = (&self.cooldown.tell, self.cooldown.scoping.name(&self.scope, by)) {
            // A panic of the user's must not end an operation. What it leaves behind is the user's
            // own.
            let _ = panic::catch_unwind(AssertUnwindSafe(|| tell(&name, left)));
        }
    }

    /// How long sends of this kind are held back yet.
    pub(crate) fn wait(&self, sends: HoldsBack, now: Instant) -> Option<SharedWait> {
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
    use std::sync::Mutex;

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

    #[tokio::test(start_paused = true)]
    async fn the_longest_wait_told_says_how_far_they_are_spread_and_what_is_over_says_nothing() {
        let cooldown = Cooldown::new();
        for (after, wait, spread_by) in [(0, 30_u32, 30), (20, 11, 30), (12, 2, 2)] {
            tokio::time::advance(SECOND * after).await;
            says(&cooldown, "https://one.example/", u64::from(wait) * 1_000);
            let place = cooldown.place(&get("https://one.example/")).wait(HoldsBack::Resends, Instant::now()).unwrap();
            assert_eq!(place.told, SECOND * spread_by, "{wait} s, {after} s later");
        }
    }

    type Told = Arc<Mutex<Vec<(String, u64)>>>;

    /// A cool-down, and what it has told to others, in milliseconds.
    fn relayed(cooldown: Cooldown) -> (Cooldown, Told) {
        let told = Told::default();
        let log = Arc::clone(&told);
        (cooldown.relayed(move |name, wait| log.lock().unwrap().push((name.to_owned(), wait.as_millis() as u64))), told)
    }

    fn get(url: &str) -> Request {
        Request::new(Method::GET, url.parse().unwrap())
    }

    fn says(cooldown: &Cooldown, url: &str, millis: u64) {
        let request = get(url);
        cooldown.place(&request).note(request.url(), Instant::now(), Duration::from_millis(millis));
    }

    #[tokio::test(start_paused = true)]
    async fn only_news_is_told_to_other_processes() {
        let (cooldown, told) = relayed(Cooldown::new());
        for (millis, news) in [(8_000, true), (8_000, false), (9_000, false), (9_001, true), (9_500, false), (1_000, false), (0, false)] {
            says(&cooldown, "https://one.example/a?b", millis);
            let told = std::mem::take(&mut *told.lock().unwrap());
            assert_eq!(told, if news { vec![("https://one.example:443".to_owned(), millis)] } else { vec![] }, "{millis} ms");
        }
        tokio::time::advance(10 * SECOND).await;
        says(&cooldown, "https://one.example/", 100);
        says(&cooldown, "https://two.example:8443/", 100);
        assert_eq!(told.lock().unwrap().len(), 2, "what is over is no longer known, and another scope is another matter");
    }

    #[tokio::test(start_paused = true)]
    async fn small_steps_do_not_add_up_unheard() {
        let (cooldown, told) = relayed(Cooldown::new());
        (0..30).for_each(|step| says(&cooldown, "https://one.example/", 8_000 + 500 * step));
        assert!(told.lock().unwrap().len() > 5, "others are never behind by more than an eighth: {:?}", told.lock().unwrap());
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_heard_holds_back_for_a_few_minutes_at_most_and_is_not_told_again() {
        let (cooldown, told) = relayed(Cooldown::new());
        let (scope, now) = (cooldown.scope(&get("https://one.example/")), Instant::now());
        cooldown.hear("https://one.example:443", 8 * SECOND);
        assert_eq!(cooldown.release(scope, now), Some(now + 8 * SECOND));
        says(&cooldown, "https://one.example/", 8_500);
        cooldown.hear("https://one.example:443", Duration::MAX);
        assert_eq!(cooldown.release(scope, now), Some(now + MOST_HEARD));
        says(&cooldown, "https://one.example/", 9_000);
        assert!(told.lock().unwrap().is_empty());
        cooldown.hear("nonsense", SECOND);
        cooldown.hear("https://two.example:443", Duration::ZERO);
        assert_eq!(format!("{cooldown:?}"), "Cooldown { scopes: 1 }");
    }

    #[test]
    fn a_name_of_the_user_is_told_and_understood_and_what_has_no_name_stays_here() {
        let tenant = |request: &Request| request.headers().get("x-tenant").map_or("", |tenant| tenant.to_str().unwrap()).to_owned();
        let (cooldown, told) = relayed(Cooldown::new().named_by(tenant));
        let mut red = get("https://one.example/");
        red.headers_mut().insert("x-tenant", http::HeaderValue::from_static("red"));
        cooldown.place(&red).note(red.url(), Instant::now(), SECOND);
        assert_eq!(told.lock().unwrap().first().unwrap().0, "red");
        let other = Cooldown::new().named_by(tenant);
        other.hear("red", SECOND);
        assert!(other.release(other.scope(&red), Instant::now()).is_some());

        let (unnamed, told) = relayed(Cooldown::new().scoped_by(|_| ScopeKey::of("a")));
        says(&unnamed, "https://one.example/", 1_000);
        unnamed.hear("https://other.example:443", SECOND);
        assert!(told.lock().unwrap().is_empty());
        assert_eq!(format!("{unnamed:?}"), "Cooldown { scopes: 1 }");
    }

    #[test]
    fn what_a_person_notes_is_not_told_and_a_clone_without_a_relay_tells_nobody() {
        let plain = Cooldown::new();
        let (cooldown, told) = relayed(plain.clone());
        cooldown.note(cooldown.scope(&get("https://one.example/")), Instant::now() + SECOND);
        says(&plain, "https://one.example/", 1_000);
        assert!(told.lock().unwrap().is_empty());
        says(&cooldown, "https://one.example/", 1_000);
        assert_eq!(told.lock().unwrap().len(), 1, "the others have not been told yet");
    }

    #[test]
    fn a_relay_that_panics_ends_nothing_and_one_that_looks_finds_no_lock() {
        let cooldown = Cooldown::new();
        let inner = cooldown.clone();
        let panicking = cooldown.relayed(move |name, _| {
            inner.hear(name, SECOND);
            panic!("on purpose");
        });
        says(&panicking, "https://one.example/", 1_000);
        assert!(panicking.release(panicking.scope(&get("https://one.example/")), Instant::now()).is_some());
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
