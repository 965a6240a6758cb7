//! How many resends may be spent: a token bucket in integers, time passed in.
//!
//! The number of attempts bounds what one operation may cost; it does not bound what a thousand of
//! them cost together. With three attempts, an outage triples the load of exactly the server that
//! has too much of it, and backoff only moves that load in time. A budget bounds the whole: a
//! resend is paid for by operations, and a small reserve, refilled by time, serves clients too
//! quiet to earn one.
//!
//! The arithmetic is that of Finagle's `RetryBudget`, in millionths of a resend: an operation
//! deposits its share, a resend costs 1 000 000, nothing is ever rounded. What is saved is bounded
//! in time rather than in number, since any fixed number is too small for a busy client and too
//! large for a quiet one: a deposit is forgotten after [`BudgetLimits::memory`], so an outage meets
//! at most the share of the operations just before it, however long the quiet before was.

use std::time::Duration;

use super::{defaults, instant::Instant, window::Window};

/// The price of one resend, in the unit of the bucket.
const RESEND: u64 = 1_000_000;

/// How many resends a client may spend, per origin.
///
/// From any moment on, no more than `share · operations + reserve + refill · seconds` resends are
/// granted, where the operations are counted from one [`memory`](Self::memory) earlier. Under the
/// defaults, a server that fails from the start thus meets at most 1.2 times the operations, plus
/// 10, plus one a second; one that fails after a long success, also a fifth of the operations of
/// the 10 s before.
///
/// # Default
/// [`BudgetLimits::DEFAULT`].
///
/// # Examples
/// ```
/// use reqwest_safe_retry::policy::BudgetLimits;
///
/// const CAREFUL: BudgetLimits = BudgetLimits::percent(10).with_reserve(5, 1);
/// assert_eq!(CAREFUL.share(), 100_000); // millionths of a resend for each operation
/// assert_eq!(BudgetLimits::percent(20), BudgetLimits::DEFAULT);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[must_use]
pub struct BudgetLimits {
    share: u32,
    reserve: u32,
    refill: u32,
    memory: Duration,
}

impl BudgetLimits {
    /// 20 % and a reserve of 10 resends refilled by one a second; deposits are remembered for 10 s.
    /// The reasons stand in [`defaults`].
    pub const DEFAULT: Self = Self {
        share: millionths(defaults::BUDGET_PERCENT),
        reserve: defaults::BUDGET_RESERVE,
        refill: defaults::BUDGET_REFILL_PER_SECOND,
        memory: defaults::BUDGET_MEMORY,
    };

    /// 20 % and no reserve, for many processes that call the same server.
    ///
    /// Shares add up: 20 % of the operations of each process are 20 % of all. Reserves multiply: a
    /// thousand processes have a thousand of them. This is what the simulator in `examples/storm`
    /// finds for 40 operations a second in all, spread over N processes: requests for an operation
    /// while everything fails, and the share of everyday failures (1 % of all attempts) that
    /// resends heal.
    ///
    /// | N | operations/s each | `DEFAULT` | `FLEET` | `FLEET`, memory of 60 s | one budget for all |
    /// |---|---|---|---|---|---|
    /// | 1 | 40 | 1.23, 100 % | 1.20, 100 % | 1.20, 100 % | 1.23, 100 % |
    /// | 20 | 2 | 1.76, 100 % | 1.20, 100 % | 1.20, 100 % | 1.23, 100 % |
    /// | 100 | 0.4 | 2.99, 100 % | 1.14, 52 % | 1.18, 99 % | 1.23, 100 % |
    /// | 1000 | 0.04 | 3.00, 100 % | 1.00, 0 % | 1.04, 16 % | 1.23, 100 % |
    ///
    /// A process without a reserve has to have earned a resend before it needs one. Below one
    /// operation every two seconds it seldom has; [`with_memory`](Self::with_memory) lets it save
    /// for a minute, which is enough from one operation every ten seconds on. The price is that a
    /// busy fleet may throw the share of a minute at a server that has just failed. The last column
    /// is the best that a budget on a shared store could reach, if asking it cost nothing.
    pub const FLEET: Self = Self::DEFAULT.with_reserve(0, 0);

    /// More than any client can send: the most of everything, over four thousand million resends at
    /// once and again every second.
    pub const UNLIMITED: Self = Self::per_million(u32::MAX).with_reserve(u32::MAX, u32::MAX);

    /// So many resends for a hundred operations, with the reserve and the memory of
    /// [`DEFAULT`](Self::DEFAULT). Above 100, an operation may pay for more than one.
    pub const fn percent(percent: u16) -> Self {
        Self::per_million(millionths(percent))
    }

    /// So many resends for a million operations, with the reserve and the memory of
    /// [`DEFAULT`](Self::DEFAULT).
    ///
    /// ```
    /// use reqwest_safe_retry::policy::BudgetLimits;
    ///
    /// assert_eq!(BudgetLimits::per_million(50_000).share(), BudgetLimits::percent(5).share());
    /// ```
    pub const fn per_million(share: u32) -> Self {
        Self { share, ..Self::DEFAULT }
    }

    /// Replaces the reserve: so many resends that no operation has to pay for, refilled by so many
    /// a second, never above `tokens`.
    ///
    /// Without tokens there is nothing to refill: `with_reserve(0, n)` is no reserve. Together with
    /// a share of zero, nothing is ever resent.
    pub const fn with_reserve(self, tokens: u32, per_second: u32) -> Self {
        Self { reserve: tokens, refill: per_second, ..self }
    }

    /// Replaces how long a deposit can be spent: from 1 s to 60 s (as in Finagle), the nearer of
    /// them otherwise; forgotten to the tenth of it.
    ///
    /// Longer heals longer blips, shorter leaves less to throw at a server that has just failed.
    pub const fn with_memory(self, memory: Duration) -> Self {
        const LEAST: Duration = Duration::from_secs(1);
        const MOST: Duration = Duration::from_secs(60);
        let memory = match memory.as_secs() {
            0 => LEAST,
            1..60 => memory,
            60.. => MOST,
        };
        Self { memory, ..self }
    }

    /// What one operation deposits, in millionths of a resend.
    #[must_use]
    pub const fn share(&self) -> u32 {
        self.share
    }

    /// How many resends no operation has to pay for.
    #[must_use]
    pub const fn reserve(&self) -> u32 {
        self.reserve
    }

    /// How many resends a second refill the reserve.
    #[must_use]
    pub const fn refill_per_second(&self) -> u32 {
        self.refill
    }

    /// How long a deposit can be spent.
    #[must_use]
    pub const fn memory(&self) -> Duration {
        self.memory
    }

    /// The reserve when it is full.
    const fn full(&self) -> u64 {
        self.reserve as u64 * RESEND // below 2^52
    }
}

impl Default for BudgetLimits {
    fn default() -> Self {
        Self::DEFAULT
    }
}

const fn millionths(percent: u16) -> u32 {
    percent as u32 * 10_000 // at most 655 350 000
}

/// The balance of one origin. Pure: the clock is an argument, and may jump either way without
/// minting a token.
///
/// # Examples
/// ```
/// use reqwest_safe_retry::policy::{BudgetLimits, Token, TokenBucket};
/// use std::time::Instant;
///
/// let now = Instant::now();
/// let mut bucket = TokenBucket::new(BudgetLimits::percent(50).with_reserve(0, 0), now);
/// assert!(bucket.withdraw(now).is_none());
/// bucket.deposit(now);
/// bucket.deposit(now);
/// assert_eq!(bucket.balance(now), 1);
/// let token: Token = bucket.withdraw(now).expect("two operations have paid for it");
/// bucket.give_back(token); // the resend was not sent after all
/// assert_eq!(bucket.balance(now), 1);
/// ```
#[derive(Debug, Clone)]
pub struct TokenBucket {
    limits: BudgetLimits,
    reserve: u64,
    deposits: Window<u64>,
}

impl TokenBucket {
    /// A bucket with a full reserve.
    #[must_use]
    pub fn new(limits: BudgetLimits, now: Instant) -> Self {
        Self { limits, reserve: limits.full(), deposits: Window::new(limits.memory, now) }
    }

    /// Deposits the share of one operation.
    #[inline]
    pub fn deposit(&mut self, now: Instant) {
        self.advance(now);
        let saved = self.deposits.current();
        *saved = saved.saturating_add(u64::from(self.limits.share));
    }

    /// Takes one resend, if the balance covers it: first from the deposits that would be forgotten
    /// first, then from the reserve.
    pub fn withdraw(&mut self, now: Instant) -> Option<Token> {
        self.advance(now);
        if self.millionths() < RESEND {
            return None;
        }
        let (mut owed, mut oldest) = (RESEND, None);
        for (slice, saved) in self.deposits.oldest_first() {
            let paid = owed.min(*saved);
            *saved -= paid;
            owed -= paid;
            oldest = oldest.or((paid > 0).then_some(slice));
        }
        self.reserve = self.reserve.saturating_sub(owed); // never saturates: the balance covers it
        Some(Token { reserve: owed, slice: oldest })
    }

    /// Puts a token back that was not spent. The reserve does not overflow by it, and deposits
    /// forgotten meanwhile stay forgotten.
    pub fn give_back(&mut self, token: Token) {
        self.reserve = self.reserve.saturating_add(token.reserve).min(self.limits.full());
        if let Some(saved) = token.slice.and_then(|slice| self.deposits.remembered(slice)) {
            *saved = saved.saturating_add(RESEND.saturating_sub(token.reserve));
        }
    }

    /// How many whole resends are left.
    #[must_use]
    pub fn balance(&self, now: Instant) -> u64 {
        let mut then = self.clone();
        then.advance(now);
        then.millionths() / RESEND
    }

    /// Whether the reserve is full. Who opens a new bucket in the place of a full one has gained
    /// nothing.
    ///
    /// ```
    /// use reqwest_safe_retry::policy::{BudgetLimits, TokenBucket};
    /// use std::time::Instant;
    ///
    /// let now = Instant::now();
    /// let mut bucket = TokenBucket::new(BudgetLimits::DEFAULT, now);
    /// assert!(bucket.is_full(now));
    /// let token = bucket.withdraw(now);
    /// assert!(token.is_some() && !bucket.is_full(now));
    /// ```
    #[must_use]
    pub fn is_full(&self, now: Instant) -> bool {
        self.refilled(self.deposits.since(now)) == self.limits.full()
    }

    fn millionths(&self) -> u64 {
        self.deposits.iter().fold(self.reserve, u64::saturating_add)
    }

    fn advance(&mut self, now: Instant) {
        let passed = self.deposits.advance(now);
        self.reserve = self.refilled(passed);
    }

    /// The reserve after so many microseconds. One resend a second is one millionth of it a
    /// microsecond.
    const fn refilled(&self, passed: u64) -> u64 {
        let (refilled, full) = (self.reserve.saturating_add(passed.saturating_mul(self.limits.refill as u64)), self.limits.full());
        if refilled < full { refilled } else { full }
    }
}

/// One resend, taken and not yet spent: drop it to spend it, or give it back to where it came from.
#[derive(Debug, PartialEq, Eq)]
#[must_use = "a dropped token is a spent one"]
pub struct Token {
    /// How much of it came from the reserve.
    pub(super) reserve: u64,
    /// The oldest slice that the rest came from, so that no deposit lives longer for having been
    /// taken and given back.
    pub(super) slice: Option<u64>,
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "an instant to count from; nothing here lets time pass")]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn spend(bucket: &mut TokenBucket, now: Instant) -> bool {
        bucket.withdraw(now).is_some()
    }

    fn spend_all(bucket: &mut TokenBucket, now: Instant) -> u64 {
        std::iter::from_fn(|| bucket.withdraw(now)).count() as u64
    }

    #[test]
    fn the_default_is_what_the_design_says() {
        let limits = BudgetLimits::DEFAULT;
        assert_eq!((limits.share(), limits.reserve(), limits.refill_per_second()), (200_000, 10, 1));
        assert_eq!(limits, BudgetLimits::percent(20).with_reserve(10, 1));
        assert_eq!(limits, BudgetLimits::default());
    }

    #[test]
    fn the_memory_is_kept_between_its_bounds() {
        for (asked, kept) in
            [(0, 1_000), (999, 1_000), (1_000, 1_000), (1_500, 1_500), (59_999, 59_999), (60_000, 60_000), (60_001, 60_000)]
        {
            let limits = BudgetLimits::DEFAULT.with_memory(Duration::from_millis(asked));
            assert_eq!(limits.memory(), Duration::from_millis(kept), "{asked} ms");
        }
        assert_eq!(BudgetLimits::DEFAULT.with_memory(Duration::MAX).memory(), Duration::from_secs(60));
    }

    #[test]
    fn without_share_and_reserve_nothing_is_ever_resent() {
        let now = Instant::now();
        let mut bucket = TokenBucket::new(BudgetLimits::percent(0).with_reserve(0, u32::MAX), now);
        (0..1_000).for_each(|_| bucket.deposit(now));
        assert!(!spend(&mut bucket, now + Duration::from_secs(3600)));
    }

    #[test]
    fn without_limits_no_client_runs_dry() {
        let now = Instant::now();
        let mut bucket = TokenBucket::new(BudgetLimits::UNLIMITED, now);
        (0..10_000).for_each(|_| assert!(spend(&mut bucket, now)));
        assert!(bucket.balance(now) > 4_000_000_000);
    }

    #[test]
    fn a_drained_reserve_comes_back_with_time_and_not_beyond_its_size() {
        let start = Instant::now();
        let mut bucket = TokenBucket::new(BudgetLimits::percent(0).with_reserve(10, 1), start);
        assert_eq!(spend_all(&mut bucket, start), 10);
        for (seconds, granted) in [(0, 0), (1, 1), (1, 0), (4, 3), (3604, 10)] {
            assert_eq!(spend_all(&mut bucket, start + Duration::from_secs(seconds)), granted, "after {seconds} s");
        }
    }

    #[test]
    fn a_reserve_is_refilled_as_fast_as_it_says() {
        let (limits, start) = (BudgetLimits::percent(0).with_reserve(10, 3), Instant::now());
        assert_eq!((limits.reserve(), limits.refill_per_second()), (10, 3));
        let mut bucket = TokenBucket::new(limits, start);
        assert_eq!(spend_all(&mut bucket, start), 10);
        assert_eq!(spend_all(&mut bucket, start + Duration::from_secs(2)), 6);
    }

    #[test]
    fn a_refill_does_not_lose_the_time_between_two_looks() {
        let start = Instant::now();
        let mut bucket = TokenBucket::new(BudgetLimits::percent(0).with_reserve(1, 1), start);
        assert!(spend(&mut bucket, start));
        for look in 1..10_000 {
            bucket.deposit(start + Duration::from_nanos(700 * look));
        }
        assert!(!spend(&mut bucket, start + Duration::from_micros(999_999)));
        assert!(spend(&mut bucket, start + Duration::from_secs(1)));
    }

    #[test]
    fn a_drained_budget_comes_back_with_operations_alone() {
        let now = Instant::now();
        let mut bucket = TokenBucket::new(BudgetLimits::DEFAULT, now);
        spend_all(&mut bucket, now);
        (0..1_000).for_each(|_| bucket.deposit(now));
        assert_eq!(spend_all(&mut bucket, now), 200);
    }

    #[test]
    fn a_long_success_saves_no_more_than_its_last_stretch() {
        let start = Instant::now();
        let mut bucket = TokenBucket::new(BudgetLimits::DEFAULT, start);
        let mut now = start;
        for _ in 0..100_000 {
            now += Duration::from_millis(10); // 100 operations a second
            bucket.deposit(now);
        }
        let saved = bucket.balance(now);
        assert!((10 + 180..=10 + 200).contains(&saved), "{saved} after {:?}", now - start);
    }

    #[test]
    fn a_bucket_is_full_while_its_reserve_is_whatever_was_deposited() {
        let start = Instant::now();
        let mut bucket = TokenBucket::new(BudgetLimits::percent(100).with_reserve(2, 1), start);
        bucket.deposit(start);
        assert!(spend(&mut bucket, start) && bucket.is_full(start), "an operation paid");
        assert!(spend(&mut bucket, start) && !bucket.is_full(start), "the reserve paid");
        bucket.deposit(start);
        assert!(!bucket.is_full(start + Duration::from_micros(999_999)));
        assert!(bucket.is_full(start + Duration::from_secs(1)));
    }

    #[test]
    fn time_running_backwards_mints_nothing() {
        let start = Instant::now();
        let later = start + Duration::from_secs(100);
        let mut bucket = TokenBucket::new(BudgetLimits::percent(0).with_reserve(10, 1), later);
        assert_eq!(spend_all(&mut bucket, later), 10);
        assert_eq!(spend_all(&mut bucket, later + Duration::from_secs(1)), 1);
        for now in [start, later, start, later + Duration::from_secs(1)] {
            assert_eq!(bucket.balance(now), 0);
            assert!(!spend(&mut bucket, now));
        }
    }

    #[test]
    fn a_token_given_back_late_does_not_overflow_the_reserve() {
        let start = Instant::now();
        let mut bucket = TokenBucket::new(BudgetLimits::percent(0).with_reserve(2, 1), start);
        let token = bucket.withdraw(start).unwrap();
        let later = start + Duration::from_secs(5);
        assert_eq!(bucket.balance(later), 2);
        bucket.deposit(later);
        bucket.give_back(token);
        assert_eq!(bucket.balance(later), 2);
    }

    #[test]
    fn a_token_given_back_after_its_memory_stays_forgotten() {
        let start = Instant::now();
        let limits = BudgetLimits::percent(100).with_reserve(0, 0).with_memory(Duration::from_secs(1));
        let mut bucket = TokenBucket::new(limits, start);
        bucket.deposit(start);
        let token = bucket.withdraw(start).unwrap();
        bucket.give_back(token);
        assert_eq!(bucket.balance(start), 1);
        let token = bucket.withdraw(start).unwrap();
        bucket.give_back(token);
        assert_eq!(bucket.balance(start + Duration::from_secs(1)), 0);
    }

    #[test]
    fn a_token_goes_back_to_the_deposit_that_paid_and_not_to_an_older_one_that_was_spent() {
        let start = Instant::now();
        let limits = BudgetLimits::percent(100).with_reserve(0, 0).with_memory(Duration::from_secs(1));
        let mut bucket = TokenBucket::new(limits, start);
        bucket.deposit(start);
        assert!(spend(&mut bucket, start));
        let later = start + Duration::from_millis(500);
        bucket.deposit(later);
        let token = bucket.withdraw(later).unwrap();
        bucket.give_back(token);
        assert_eq!(bucket.balance(start + Duration::from_millis(1_200)), 1);
    }

    #[derive(Debug, Clone, Copy)]
    enum Step {
        Deposit,
        Withdraw,
        GiveBack,
    }

    proptest! {
        #[test]
        fn no_more_is_spent_than_was_put_in(
            share in prop_oneof![0..3_000_000_u32, Just(u32::MAX)],
            reserve in prop_oneof![0..20_u32, Just(u32::MAX)],
            refill in prop_oneof![0..20_u32, Just(u32::MAX)],
            memory in 0..70_u64,
            steps in prop::collection::vec(
                (prop_oneof![Just(Step::Deposit), Just(Step::Withdraw), Just(Step::Withdraw), Just(Step::GiveBack)], prop_oneof![0..50_u64, 0..100_000_u64]),
                0..400,
            ),
        ) {
            let limits = BudgetLimits::per_million(share).with_reserve(reserve, refill).with_memory(Duration::from_secs(memory));
            let born = Instant::now();
            let mut bucket = TokenBucket::new(limits, born + Duration::from_millis(20));
            let (mut held, mut deposits, mut spent, mut latest) = (Vec::new(), Vec::new(), 0_u128, 20_u64);
            for (step, millis) in steps {
                // Instants come in any order, some before birth.
                let now = born + Duration::from_millis(millis);
                latest = latest.max(millis);
                bucket.advance(now);
                match step {
                    Step::Deposit => {
                        bucket.deposit(now);
                        deposits.push(latest);
                    }
                    Step::Withdraw => {
                        let covered = bucket.balance(now) > 0;
                        let token = bucket.withdraw(now);
                        prop_assert_eq!(token.is_some(), covered);
                        spent += token.is_some() as u128;
                        held.extend(token);
                    }
                    Step::GiveBack => {
                        if let Some(token) = held.pop() {
                            bucket.give_back(token);
                            spent -= 1;
                        }
                    }
                }
                let refilled = u128::from(refill) * u128::from(latest - 20) * 1_000;
                let worth = |deposits: usize| u128::from(share) * deposits as u128 + u128::from(limits.full());
                let left = u128::from(bucket.millionths());
                prop_assert!(spent * u128::from(RESEND) + left <= worth(deposits.len()) + refilled);
                let remembered = deposits.iter().filter(|&&at| u128::from(latest - at) < limits.memory().as_millis()).count();
                prop_assert!(left <= worth(remembered));
            }
        }

        #[test]
        fn no_input_panics(share: u32, reserve: u32, refill: u32, memory: Duration, forth in 0..u64::from(u32::MAX)) {
            let now = Instant::now();
            let mut bucket = TokenBucket::new(BudgetLimits::per_million(share).with_reserve(reserve, refill).with_memory(memory), now);
            for now in [now + Duration::from_secs(forth), now, now + Duration::from_secs(u64::from(u32::MAX))] {
                bucket.deposit(now);
                if let Some(token) = bucket.withdraw(now) {
                    bucket.give_back(token);
                }
                let _ = bucket.balance(now);
            }
        }
    }
}
