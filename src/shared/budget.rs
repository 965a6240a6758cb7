//! How many resends a client may spend on each origin, shared by everybody who holds the handle.
//!
//! The arithmetic is in [`policy`](crate::policy), per scope; this file knows who pays and from
//! where. A resend is paid for when it is decided, so that a crowd of waiting operations cannot all
//! have been promised the same token, and given back if it is never sent.

use std::{
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use reqwest::{Request, Url};

use crate::{
    platform::{Instant, engine_time},
    policy::{AdaptiveLimits, AdaptiveThrottle, BudgetLimits, Draw, Token, TokenBucket},
    shared::lifetime::Lifetime,
    shared::scope::{IdleFirst, ScopeKey, Scopes, Scoping},
};

/// How many resends may be spent, per origin. A handle: clones share one balance, also across
/// clients.
///
/// When the budget of an origin is spent, an operation that would have been resent returns at once
/// with [`StopReason::BudgetSpent`](crate::policy::StopReason::BudgetSpent); it never waits for the
/// budget.
///
/// At most 1024 origins are remembered, so naming millions of hosts costs no memory. Only an origin
/// whose reserve is full is forgotten for a new one, so nobody gets a reserve twice. While no
/// reserve is full, all further origins share one more balance. However many origins fail, the
/// bound of [`BudgetLimits`] thus holds for each remembered one, and for all the others together.
///
/// # Default
/// [`BudgetLimits::DEFAULT`].
///
/// # Examples
/// ```
/// use reqwest_safe_retry::{RetryBudget, policy::BudgetLimits};
///
/// let budget = RetryBudget::new(BudgetLimits::percent(10).with_reserve(5, 1));
/// assert_eq!(budget.balance(&"https://api.example/".parse()?), 5);
/// # Ok::<_, Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
#[doc(alias("retry storm", "circuit breaker", "token bucket"))]
pub struct RetryBudget {
    ledgers: Arc<Ledgers>,
    scoping: Scoping,
}

impl RetryBudget {
    /// A budget in which operations earn resends.
    #[must_use]
    pub fn new(limits: BudgetLimits) -> Self {
        Self::open(Limits::Earned(limits))
    }

    /// A budget that grants every resend while the server accepts most requests, and refuses them
    /// by chance the more it does not; see [`AdaptiveThrottle`].
    ///
    /// It needs traffic to judge by: a client that has just started is refused about every other
    /// resend.
    #[must_use]
    pub fn adaptive(limits: AdaptiveLimits) -> Self {
        Self::open(Limits::Adaptive(limits))
    }

    /// Replaces what one balance is kept for: not the origin, but what this function says of each
    /// operation's first request. Balances stay shared with all clones of this handle. The function
    /// runs once per operation and outside of any lock.
    ///
    /// # Examples
    /// ```
    /// use reqwest_safe_retry::{RetryBudget, ScopeKey};
    ///
    /// let per_tenant = RetryBudget::default()
    ///     .scoped_by(|request| ScopeKey::of(&(ScopeKey::origin(request.url()), request.headers().get("x-tenant"))));
    /// ```
    #[must_use]
    pub fn scoped_by(self, scope: impl Fn(&Request) -> ScopeKey + Send + Sync + 'static) -> Self {
        Self { scoping: Scoping::By(Arc::new(scope)), ..self }
    }

    /// How many whole resends are left for the origin of a URL; of an adaptive budget, how many are
    /// sure to be granted.
    #[must_use]
    pub fn balance(&self, url: &Url) -> u64 {
        self.balance_of(ScopeKey::origin(url))
    }

    /// As [`balance`](Self::balance), for a scope as [`scoped_by`](Self::scoped_by) makes them.
    ///
    /// ```
    /// use reqwest_safe_retry::{RetryBudget, ScopeKey};
    ///
    /// let budget = RetryBudget::default().scoped_by(|_| ScopeKey::of("shop"));
    /// assert!(budget.balance_of(ScopeKey::of("shop")) > 0);
    /// ```
    #[must_use]
    pub fn balance_of(&self, scope: ScopeKey) -> u64 {
        self.ledgers.balance(scope, Instant::now())
    }

    /// The account that pays for one operation.
    #[inline]
    pub(crate) fn account(&self, request: &Request) -> BudgetAccount<'_> {
        BudgetAccount { ledgers: &self.ledgers, scope: self.scoping.scope(request).key }
    }

    /// Whether the budget is young, and many others of this process ended young: then it bounds one
    /// client among many, and all of them together nothing.
    #[inline]
    pub(crate) fn is_one_of_many(&self) -> bool {
        self.ledgers.lifetime.is_one_of_many()
    }

    fn open(limits: Limits) -> Self {
        let ledgers = Ledgers { limits, scopes: Scopes::new(), newcomers: Mutex::new(None), lifetime: Lifetime::begin() };
        Self { ledgers: Arc::new(ledgers), scoping: Scoping::default() }
    }
}

impl Default for RetryBudget {
    fn default() -> Self {
        Self::new(BudgetLimits::DEFAULT)
    }
}

impl fmt::Debug for RetryBudget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RetryBudget").field("origins", &self.ledgers.scopes.len()).finish()
    }
}

/// The account of one operation: made without allocating, cheap to copy.
#[derive(Clone, Copy)]
pub(crate) struct BudgetAccount<'a> {
    ledgers: &'a Arc<Ledgers>,
    scope: ScopeKey,
}

impl BudgetAccount<'_> {
    /// Once per operation, before its first send.
    #[inline]
    pub(crate) fn deposit(self, now: Instant) {
        self.ledgers.with(self.scope, now, |_, ledger| ledger.deposit(now));
    }

    /// After an answer that no resend could improve. Only an adaptive budget listens.
    #[inline]
    pub(crate) fn accepted(self) {
        match self.ledgers.limits {
            Limits::Earned(_) => {}
            Limits::Adaptive(_) => {
                let now = Instant::now();
                self.ledgers.with(self.scope, now, |_, ledger| ledger.accepted(now));
            }
        }
    }

    /// Pays for one resend or probe, when it is decided. Only an adaptive budget looks at the draw.
    pub(crate) fn withdraw(self, now: Instant, draw: Draw) -> Option<Withdrawal> {
        let (payer, token) = self.ledgers.with(self.scope, now, |payer, ledger| Some((payer, ledger.withdraw(now, draw)?)))?;
        Some(Withdrawal { ledgers: Arc::clone(self.ledgers), payer, token: Some(token) })
    }

    /// Whether the budget is young, and many others of this process ended young: then it bounds one
    /// client among many, and all of them together nothing.
    pub(crate) fn is_one_of_many(self) -> bool {
        self.ledgers.lifetime.is_one_of_many()
    }

    /// How many whole resends are left, for the log.
    #[cfg_attr(not(any(test, feature = "tracing", feature = "metrics")), expect(dead_code, reason = "only telemetry asks"))]
    pub(crate) fn left(self, now: Instant) -> u64 {
        self.ledgers.balance(self.scope, now)
    }
}

/// A resend that is paid for and not yet sent. Dropping it gives the token back: a cancelled pause
/// costs nothing.
#[must_use = "dropped, the token goes back"]
pub(crate) struct Withdrawal {
    ledgers: Arc<Ledgers>,
    payer: Payer,
    token: Option<Token>,
}

impl Withdrawal {
    /// The resend is on its way.
    pub(crate) fn spend(mut self) {
        self.token = None;
    }
}

impl Drop for Withdrawal {
    fn drop(&mut self) {
        if let Some(token) = self.token.take() {
            self.ledgers.give_back(self.payer, token);
        }
    }
}

/// Whose balance paid.
#[derive(Clone, Copy)]
enum Payer {
    Scope(ScopeKey),
    Newcomers,
}

/// The balances of all scopes.
struct Ledgers {
    limits: Limits,
    scopes: Scopes<Ledger>,
    /// The balance of all who come while no scope can be forgotten.
    newcomers: Mutex<Option<Ledger>>,
    lifetime: Lifetime,
}

impl Drop for Ledgers {
    fn drop(&mut self) {
        // A default that another budget replaced bounded nobody.
        if self.scopes.len() > 0 {
            self.lifetime.end();
        }
    }
}

impl Ledgers {
    #[inline]
    fn with<R>(&self, scope: ScopeKey, now: Instant, work: impl FnOnce(Payer, &mut Ledger) -> R) -> R {
        let open = || Ledger::open(self.limits, now);
        self.scopes.enter(scope, open, forgettable(now), |ledger| match ledger {
            Some(ledger) => work(Payer::Scope(scope), ledger),
            None => work(Payer::Newcomers, self.newcomers().get_or_insert_with(open)),
        })
    }

    fn give_back(&self, payer: Payer, token: Token) {
        match payer {
            // A scope forgotten meanwhile has forgotten this token, too.
            Payer::Scope(scope) => self.scopes.peek(scope, |ledger| ledger.give_back(token)),
            Payer::Newcomers => self.newcomers().as_mut().map(|ledger| ledger.give_back(token)),
        };
    }

    fn balance(&self, scope: ScopeKey, now: Instant) -> u64 {
        self.scopes.peek(scope, |ledger| ledger.balance(now)).unwrap_or_else(|| {
            let newcomers = if self.scopes.has_room(forgettable(now)) { None } else { self.newcomers().clone() };
            newcomers.unwrap_or_else(|| Ledger::open(self.limits, now)).balance(now)
        })
    }

    fn newcomers(&self) -> MutexGuard<'_, Option<Ledger>> {
        self.newcomers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Finds the scope used longest ago that loses nothing by being forgotten.
fn forgettable(now: Instant) -> impl FnOnce(IdleFirst<'_, Ledger>) -> Option<ScopeKey> {
    move |mut scopes| scopes.find(|(_, ledger)| ledger.is_full(now)).map(|(scope, _)| *scope)
}

#[derive(Clone, Copy)]
enum Limits {
    Earned(BudgetLimits),
    Adaptive(AdaptiveLimits),
}

/// The balance of one scope.
#[derive(Clone)]
enum Ledger {
    Bucket(TokenBucket),
    Throttle(AdaptiveThrottle),
}

impl Ledger {
    fn open(limits: Limits, now: Instant) -> Self {
        match limits {
            Limits::Earned(limits) => Self::Bucket(TokenBucket::new(limits, engine_time(now))),
            Limits::Adaptive(limits) => Self::Throttle(AdaptiveThrottle::new(limits, engine_time(now))),
        }
    }

    fn deposit(&mut self, now: Instant) {
        match self {
            Self::Bucket(bucket) => bucket.deposit(engine_time(now)),
            Self::Throttle(throttle) => throttle.requested(engine_time(now)),
        }
    }

    fn accepted(&mut self, now: Instant) {
        match self {
            Self::Bucket(_) => {}
            Self::Throttle(throttle) => throttle.accepted(engine_time(now)),
        }
    }

    fn withdraw(&mut self, now: Instant, draw: Draw) -> Option<Token> {
        match self {
            Self::Bucket(bucket) => bucket.withdraw(engine_time(now)),
            Self::Throttle(throttle) => throttle.withdraw(engine_time(now), draw),
        }
    }

    fn give_back(&mut self, token: Token) {
        match self {
            Self::Bucket(bucket) => bucket.give_back(token),
            Self::Throttle(throttle) => throttle.give_back(token),
        }
    }

    fn balance(&self, now: Instant) -> u64 {
        match self {
            Self::Bucket(bucket) => bucket.balance(engine_time(now)),
            Self::Throttle(throttle) => throttle.balance(engine_time(now)),
        }
    }

    fn is_full(&self, now: Instant) -> bool {
        match self {
            Self::Bucket(bucket) => bucket.is_full(engine_time(now)),
            Self::Throttle(throttle) => throttle.is_full(engine_time(now)),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Barrier;
    use std::sync::atomic::{AtomicU64, Ordering};
    use std::thread;
    use std::time::Duration;

    use reqwest::Method;

    use super::*;
    use crate::policy::defaults;
    use crate::shared::orders::every_order;

    const FEW: BudgetLimits = BudgetLimits::percent(0).with_reserve(2, 0);

    fn get(url: &str) -> Request {
        Request::new(Method::GET, url.parse().unwrap())
    }

    fn spends(account: BudgetAccount<'_>, now: Instant) -> bool {
        account.withdraw(now, Draw::LEAST).map(Withdrawal::spend).is_some()
    }

    #[test]
    fn each_origin_has_its_own_balance_and_clones_share_it() {
        let budget = RetryBudget::new(FEW);
        let now = Instant::now();
        let (one, other) = (get("https://one.example/a"), get("https://other.example/a"));
        assert!(spends(budget.account(&one), now));
        assert!(spends(budget.clone().account(&get("https://one.example/b?c")), now));
        assert!(!spends(budget.account(&one), now));
        assert_eq!((budget.balance(one.url()), budget.balance(other.url())), (0, 2));
    }

    #[test]
    fn the_scope_of_the_user_replaces_the_origin() {
        let budget = RetryBudget::new(FEW).scoped_by(|request| ScopeKey::of(request.method()));
        let now = Instant::now();
        assert!(spends(budget.account(&get("https://one.example/")), now));
        assert!(spends(budget.account(&get("https://other.example/")), now));
        assert!(!spends(budget.account(&get("https://third.example/")), now));
        assert_eq!(budget.balance_of(ScopeKey::of(&Method::GET)), 0);
        assert_eq!(budget.balance_of(ScopeKey::of(&Method::PUT)), 2);
    }

    #[test]
    fn a_resend_that_was_never_sent_costs_nothing() {
        let budget = RetryBudget::new(FEW);
        let request = get("https://one.example/");
        let (account, now) = (budget.account(&request), Instant::now());
        let withdrawal = account.withdraw(now, Draw::LEAST).unwrap();
        assert_eq!(account.left(now), 1, "taken when decided");
        drop(withdrawal);
        assert_eq!(account.left(now), 2, "given back");
        account.withdraw(now, Draw::LEAST).unwrap().spend();
        assert_eq!(account.left(now), 1, "spent");
    }

    #[test]
    fn a_cancelled_resend_outlives_the_budget_handle() {
        let budget = RetryBudget::new(FEW);
        let withdrawal = budget.account(&get("https://one.example/")).withdraw(Instant::now(), Draw::LEAST);
        drop(budget);
        drop(withdrawal);
    }

    #[tokio::test(start_paused = true)]
    async fn a_drained_budget_comes_back_after_a_quiet_minute() {
        let budget = RetryBudget::default();
        let request = get("https://one.example/");
        let account = budget.account(&request);
        while spends(account, Instant::now()) {}
        assert_eq!(budget.balance(request.url()), 0);
        tokio::time::advance(Duration::from_secs(60)).await;
        assert_eq!(budget.balance(request.url()), 10);
    }

    #[test]
    fn looking_at_a_balance_remembers_nothing() {
        let budget = RetryBudget::default();
        assert_eq!(budget.balance(&"https://one.example/".parse().unwrap()), 10);
        assert_eq!(format!("{budget:?}"), "RetryBudget { origins: 0 }");
    }

    #[test]
    fn a_flood_of_hosts_is_not_remembered() {
        let budget = RetryBudget::default();
        let now = Instant::now();
        for host in 0..200_000_u32 {
            BudgetAccount { ledgers: &budget.ledgers, scope: ScopeKey::of(&host) }.deposit(now);
        }
        assert_eq!(budget.ledgers.scopes.len(), defaults::SCOPES);
        assert_eq!(format!("{budget:?}"), "RetryBudget { origins: 1024 }");
    }

    /// Operations on so many origins in turn, `rounds` times each, that may resend as often as they
    /// are granted, up to twice.
    fn resends_of_dead_origins(budget: &RetryBudget, origins: u32, rounds: u32, now: Instant) -> Vec<u32> {
        let mut resends = vec![0; origins as usize];
        for _ in 0..rounds {
            for (origin, resends) in resends.iter_mut().enumerate() {
                let account = BudgetAccount { ledgers: &budget.ledgers, scope: ScopeKey::of(&origin) };
                account.deposit(now);
                *resends += (0..2).take_while(|_| spends(account, now)).count() as u32;
            }
        }
        resends
    }

    #[test]
    fn however_many_origins_fail_they_get_a_fifth_more_and_no_reserve_twice() {
        const ROUNDS: u32 = 20;
        for origins in [1_023, 1_024, 1_025, 1_029, 1_500] {
            let resends = resends_of_dead_origins(&RetryBudget::default(), origins, ROUNDS, Instant::now());
            let reserves = origins.min(1_024 + 1) * 10;
            let (sum, most) = (resends.iter().sum::<u32>(), origins * ROUNDS / 5 + reserves);
            assert!(sum <= most, "{origins} origins: {sum} resends, at most {most}");
            assert!(resends[..1_000].iter().all(|&own| own == ROUNDS / 5 + 10), "{origins} origins: the first come keep their own balance");
        }
    }

    #[test]
    fn an_origin_that_is_forgotten_returns_with_no_more_than_it_had() {
        let (budget, now) = (RetryBudget::new(BudgetLimits::percent(0).with_reserve(2, 0)), Instant::now());
        let account = |host: u32| BudgetAccount { ledgers: &budget.ledgers, scope: ScopeKey::of(&host) };
        while spends(account(0), now) {}
        (1..5_000).for_each(|host| account(host).deposit(now));
        assert!(!spends(account(0), now), "spent is spent");
        assert_eq!(account(4_999).left(now), 2, "who has spent nothing makes room");
    }

    #[test]
    fn newcomers_at_a_full_table_take_the_places_of_those_who_have_spent_nothing() {
        let (budget, now) = (RetryBudget::new(BudgetLimits::percent(0).with_reserve(1, 0)), Instant::now());
        let account = |host: u32| BudgetAccount { ledgers: &budget.ledgers, scope: ScopeKey::of(&host) };
        (0..1_024).for_each(|host| account(host).deposit(now));
        assert!((2_000..2_010).all(|host| spends(account(host), now)), "each has a reserve of its own");
    }

    #[test]
    fn what_a_newcomer_at_a_full_table_gives_back_goes_where_it_came_from() {
        let (budget, now) = (RetryBudget::new(BudgetLimits::percent(0).with_reserve(1, 0)), Instant::now());
        let account = |host: u32| BudgetAccount { ledgers: &budget.ledgers, scope: ScopeKey::of(&host) };
        (0..1_024).for_each(|host| assert!(spends(account(host), now)));
        let shared = account(2_000).withdraw(now, Draw::LEAST).unwrap();
        assert!(!spends(account(3_000), now), "newcomers share one balance");
        drop(shared);
        assert!(spends(account(3_000), now), "and what one of them gives back");
    }

    #[test]
    fn an_adaptive_budget_listens_to_answers() {
        let budget = RetryBudget::adaptive(AdaptiveLimits::DEFAULT);
        let request = get("https://one.example/");
        let (account, now) = (budget.account(&request), Instant::now());
        account.deposit(now);
        assert!(account.withdraw(now, Draw::LEAST).is_none(), "nothing was accepted yet");
        (0..10).for_each(|_| account.accepted());
        assert_eq!(account.left(now), 20 - 2 + 1);
        drop(account.withdraw(now, Draw::LEAST).unwrap());
        assert_eq!(account.left(now), 19, "given back");
    }

    #[test]
    fn no_update_is_lost_among_many_threads() {
        const THREADS: u64 = 64;
        const ROUNDS: u64 = 500;
        let budget = RetryBudget::new(BudgetLimits::percent(50).with_reserve(100, 0).with_memory(Duration::MAX));
        let request = get("https://one.example/");
        let (start, now, spent) = (Barrier::new(THREADS as usize), Instant::now(), AtomicU64::new(0));
        thread::scope(|scope| {
            for _ in 0..THREADS {
                scope.spawn(|| {
                    start.wait();
                    for round in 0..ROUNDS {
                        let account = budget.account(&request);
                        account.deposit(now);
                        match account.withdraw(now, Draw::LEAST) {
                            Some(withdrawal) if round % 3 == 0 => drop(withdrawal),
                            Some(withdrawal) => {
                                withdrawal.spend();
                                spent.fetch_add(1, Ordering::Relaxed);
                            }
                            None => {}
                        }
                    }
                });
            }
        });
        let earned = THREADS * ROUNDS / 2 + 100;
        assert_eq!(spent.into_inner() + budget.account(&request).left(now), earned);
    }

    #[derive(Clone, Copy)]
    enum Turn {
        Deposit,
        Withdraw(usize),
        Spend(usize),
        Cancel(usize),
        /// So many strangers come that every scope which may be forgotten is.
        Flood,
    }

    /// What was earned is spent, left, or forgotten, whoever comes first; never more.
    fn no_order_mints_a_resend(threads: &[&[Turn]]) {
        every_order(threads, |order| {
            let budget = RetryBudget::new(BudgetLimits::percent(100).with_reserve(1, 0).with_memory(Duration::MAX));
            let (request, now) = (get("https://one.example/"), Instant::now());
            let account = budget.account(&request);
            let mut withdrawals = [None, None, None];
            let (mut earned, mut spent) = (1, 0);
            for turn in order {
                match *turn {
                    Turn::Deposit => {
                        account.deposit(now);
                        earned += 1;
                    }
                    Turn::Withdraw(whose) => withdrawals[whose] = account.withdraw(now, Draw::LEAST),
                    Turn::Spend(whose) => spent += withdrawals[whose].take().into_iter().map(Withdrawal::spend).count() as u64,
                    Turn::Cancel(whose) => drop(withdrawals[whose].take()),
                    Turn::Flood => (0..2_000_u32).for_each(|host| {
                        let stranger = BudgetAccount { ledgers: &budget.ledgers, scope: ScopeKey::of(&host) };
                        drop(stranger.withdraw(now, Draw::LEAST));
                    }),
                }
            }
            let flooded = order.iter().any(|turn| matches!(turn, Turn::Flood));
            let left = account.left(now);
            assert!(spent + left <= earned, "{spent} spent and {left} left of {earned}");
            assert!(flooded || spent + left == earned, "{spent} spent and {left} left of {earned}");
        });
    }

    #[test]
    fn no_order_of_spending_and_cancelling_mints_or_loses_a_resend() {
        use Turn::{Cancel, Deposit, Spend, Withdraw};
        no_order_mints_a_resend(&[&[Deposit, Withdraw(0), Spend(0)], &[Deposit, Withdraw(1), Cancel(1)], &[Withdraw(2), Spend(2)]]);
    }

    #[test]
    fn no_order_of_being_forgotten_mints_a_resend() {
        use Turn::{Cancel, Deposit, Flood, Spend, Withdraw};
        no_order_mints_a_resend(&[&[Deposit, Withdraw(0), Cancel(0)], &[Withdraw(1), Spend(1)], &[Flood]]);
    }

    #[test]
    fn a_budget_can_be_shared_between_threads() {
        fn shared<T: Send + Sync + 'static>() {}
        shared::<RetryBudget>();
        shared::<Withdrawal>();
    }
}
