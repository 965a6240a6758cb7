//! Refusing resends by chance while a server refuses work: Google's client-side throttling ("Site
//! Reliability Engineering", chapter "Handling Overload"), in integers, time and chance passed in.
//!
//! Over a sliding window it counts what the client wanted to send and what the server accepted. As
//! long as the server accepts its share, every resend is granted; beyond that, one is refused with
//! the probability `max(0, (requests − K · accepts) / (requests + 1))`, which grows smoothly
//! towards certainty in an outage. It keeps no reserve: a client that has seen nothing but its
//! first failure is refused every other time.

use std::time::Duration;

use super::{Draw, bucket::Token, defaults, instant::Instant, window::Window};

/// When resends begin to be refused, and over which stretch of time.
///
/// # Default
/// [`AdaptiveLimits::DEFAULT`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[must_use]
pub struct AdaptiveLimits {
    percent: u16,
    window: Duration,
}

impl AdaptiveLimits {
    /// K = 2 over two minutes, as in the book: nothing is refused while the server accepts at least
    /// half of the requests.
    pub const DEFAULT: Self = Self { percent: defaults::ADAPTIVE_PERCENT, window: defaults::ADAPTIVE_WINDOW };

    /// Resends begin to be refused when the requests exceed so many percent of those accepted: 100
    /// · K, over the window of [`DEFAULT`](Self::DEFAULT). Less is stricter.
    pub const fn percent(percent: u16) -> Self {
        Self { percent, ..Self::DEFAULT }
    }

    /// Replaces the stretch of time that is looked at, forgotten to the tenth of it. Shorter reacts
    /// faster, to an outage as to a mishap.
    pub const fn with_window(self, window: Duration) -> Self {
        Self { window, ..self }
    }

    /// 100 · K.
    ///
    /// ```
    /// use reqwest_safe_retry::policy::AdaptiveLimits;
    ///
    /// // Twice as many requests as accepted ones are sent.
    /// assert_eq!(AdaptiveLimits::percent(200).requests_percent(), 200);
    /// ```
    #[must_use]
    pub const fn requests_percent(&self) -> u16 {
        self.percent
    }

    /// The stretch of time that is looked at.
    #[must_use]
    pub const fn window(&self) -> Duration {
        self.window
    }
}

impl Default for AdaptiveLimits {
    fn default() -> Self {
        Self::DEFAULT
    }
}

/// The throttle of one origin. Pure: clock and chance are arguments.
///
/// # Examples
/// ```
/// use reqwest_safe_retry::policy::{AdaptiveLimits, AdaptiveThrottle, Draw};
/// use std::time::Instant;
///
/// let now = Instant::now();
/// let mut throttle = AdaptiveThrottle::new(AdaptiveLimits::DEFAULT, now);
/// throttle.requested(now); // failed: one request, none accepted
/// // So a resend is refused with probability 1/2.
/// assert!(throttle.withdraw(now, Draw::HALF).is_some());
/// ```
#[derive(Debug, Clone)]
pub struct AdaptiveThrottle {
    limits: AdaptiveLimits,
    tallies: Window<Tally>,
}

/// Saturating: thousands of millions in a tenth of the window say all there is to say.
#[derive(Debug, Clone, Copy, Default)]
struct Tally {
    requests: u32,
    accepts: u32,
}

impl AdaptiveThrottle {
    /// A throttle that has seen nothing.
    #[must_use]
    pub fn new(limits: AdaptiveLimits, now: Instant) -> Self {
        Self { limits, tallies: Window::new(limits.window, now) }
    }

    /// Counts the first send of an operation. Resends are counted by [`withdraw`](Self::withdraw).
    pub fn requested(&mut self, now: Instant) {
        self.tallies.advance(now);
        let tally = self.tallies.current();
        tally.requests = tally.requests.saturating_add(1);
    }

    /// Counts an answer that shows a working server: one after which trying again would be
    /// pointless, whether it was a success or not.
    pub fn accepted(&mut self, now: Instant) {
        self.tallies.advance(now);
        let tally = self.tallies.current();
        tally.accepts = tally.accepts.saturating_add(1);
    }

    /// Grants a resend or refuses it. Both count as a request, as in the book: what is refused was
    /// wanted all the same.
    pub fn withdraw(&mut self, now: Instant, draw: Draw) -> Option<Token> {
        self.tallies.advance(now);
        let granted = !self.refuses(draw);
        self.requested(now);
        granted.then(|| Token { reserve: 0, slice: Some(self.tallies.slice()) })
    }

    /// Takes back the count of a resend that was granted and not sent.
    pub fn give_back(&mut self, token: Token) {
        if let Some(tally) = token.slice.and_then(|slice| self.tallies.remembered(slice)) {
            tally.requests = tally.requests.saturating_sub(1);
        }
    }

    /// How many resends would be granted whatever the draw, if nothing else happened. Zero says "by
    /// chance", not "none".
    #[must_use]
    pub fn balance(&self, now: Instant) -> u64 {
        let mut then = self.clone();
        then.tallies.advance(now);
        let (requests, covered) = then.hundredths();
        covered.checked_sub(requests).map_or(0, |room| room / 100 + 1)
    }

    /// Whether a new throttle, which has seen nothing, would grant no more than this one.
    ///
    /// ```
    /// use reqwest_safe_retry::policy::{AdaptiveLimits, AdaptiveThrottle};
    /// use std::time::Instant;
    ///
    /// let now = Instant::now();
    /// let mut throttle = AdaptiveThrottle::new(AdaptiveLimits::DEFAULT, now);
    /// assert!(throttle.is_full(now));
    /// throttle.requested(now); // and nothing was accepted
    /// assert!(!throttle.is_full(now));
    /// ```
    #[must_use]
    pub fn is_full(&self, now: Instant) -> bool {
        self.balance(now) > 0
    }

    /// `draw < (requests − K · accepts) / (requests + 1)`, strictly: a probability of zero refuses
    /// no draw.
    fn refuses(&self, draw: Draw) -> bool {
        let (requests, covered) = self.hundredths();
        // A draw takes its share of durations. Rounding down loses nothing here: ⌊x⌋ < n exactly
        // where x < n, for a whole n.
        draw.of(Duration::from_nanos(requests + 100)) < Duration::from_nanos(requests.saturating_sub(covered))
    }

    /// `requests` and `K · accepts`, in hundredths. Ten counts of 32 bits times 16 bits fit easily.
    fn hundredths(&self) -> (u64, u64) {
        self.tallies.iter().fold((0, 0), |(requests, covered), tally| {
            (requests + u64::from(tally.requests) * 100, covered + u64::from(tally.accepts) * u64::from(self.limits.percent))
        })
    }
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "an instant to count from; nothing here lets time pass")]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn throttle(requests: u32, accepts: u32, now: Instant) -> AdaptiveThrottle {
        let mut throttle = AdaptiveThrottle::new(AdaptiveLimits::DEFAULT, now);
        *throttle.tallies.current() = Tally { requests, accepts };
        throttle
    }

    #[test]
    fn a_probability_of_zero_refuses_no_draw() {
        let now = Instant::now();
        for (requests, accepts) in [(0, 0), (1, 1), (2, 1), (100, 50), (u32::MAX, u32::MAX)] {
            assert!(throttle(requests, accepts, now).withdraw(now, Draw::LEAST).is_some(), "{requests} requests, {accepts} accepted");
        }
    }

    #[test]
    fn an_outage_refuses_nearly_everything_and_a_recovery_nothing() {
        let start = Instant::now();
        let mut throttle = throttle(999, 0, start);
        let refused_below = Draw::new(u64::MAX / 1000 * 998);
        assert!(throttle.withdraw(start, refused_below).is_none());
        assert!(throttle.withdraw(start, Draw::GREATEST).is_some(), "never quite certain");
        let later = start + Duration::from_secs(120);
        assert!(throttle.withdraw(later, Draw::LEAST).is_some(), "forgotten");
    }

    #[test]
    fn a_throttle_that_has_refused_is_not_full() {
        let now = Instant::now();
        for (requests, accepts, full) in [(0, 0, true), (2, 1, true), (3, 1, false), (1, 0, false)] {
            assert_eq!(throttle(requests, accepts, now).is_full(now), full, "{requests} requests, {accepts} accepted");
        }
    }

    #[test]
    fn a_resend_not_sent_is_not_counted() {
        let now = Instant::now();
        let mut throttle = throttle(2, 1, now);
        let token = throttle.withdraw(now, Draw::LEAST).unwrap();
        throttle.give_back(token);
        assert_eq!(throttle.balance(now), 1);
    }

    proptest! {
        #[test]
        fn the_balance_is_what_the_least_draw_grants(requests in 0..500_u32, accepts in 0..500_u32) {
            let now = Instant::now();
            let mut throttle = throttle(requests, accepts, now);
            let sure = throttle.balance(now);
            let granted = std::iter::from_fn(|| throttle.withdraw(now, Draw::LEAST)).count() as u64;
            prop_assert_eq!(sure, granted);
        }

        #[test]
        fn the_refusals_follow_the_formula(requests: u32, accepts: u32, bits: u64) {
            let excess = u128::from(requests).saturating_sub(2 * u128::from(accepts));
            let refused = u128::from(bits) * (u128::from(requests) + 1) < excess << 64;
            prop_assert_eq!(throttle(requests, accepts, Instant::now()).refuses(Draw::new(bits)), refused);
        }

        #[test]
        fn no_input_panics(percent: u16, window: Duration, forth in 0..u64::from(u32::MAX), bits: u64) {
            let now = Instant::now();
            let mut throttle = AdaptiveThrottle::new(AdaptiveLimits::percent(percent).with_window(window), now);
            for now in [now + Duration::from_secs(forth), now] {
                *throttle.tallies.current() = Tally { requests: u32::MAX, accepts: u32::MAX };
                throttle.requested(now);
                throttle.accepted(now);
                if let Some(token) = throttle.withdraw(now, Draw::new(bits)) {
                    throttle.give_back(token);
                }
                let _ = throttle.balance(now);
            }
        }
    }
}
