//! How long a send is held back by what another operation was told.

use std::time::Duration;

use super::{Draw, RetryPolicy, StopReason, defaults};

/// A wait that another operation was told, and how it meets the operation that it holds back.
///
/// [`SharedWait::new`] is complete at birth; the `with_…` methods replace single facts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct SharedWait {
    /// How much of the wait is left.
    pub left: Duration,
    /// How long it was when the server asked for it.
    pub told: Duration,
    /// Time since the operation started.
    pub elapsed: Duration,
    /// Time until the deadline; [`Duration::MAX`] when there is none.
    pub time_left: Duration,
    /// The random draw for the spread.
    pub draw: Draw,
}

impl SharedWait {
    /// A wait that meets an operation which has just started: no deadline, [`Draw::HALF`].
    #[must_use]
    pub const fn new(left: Duration, told: Duration) -> Self {
        Self { left, told, elapsed: Duration::ZERO, time_left: Duration::MAX, draw: Draw::HALF }
    }

    /// Replaces the time since the operation started.
    #[must_use]
    pub const fn with_elapsed(mut self, elapsed: Duration) -> Self {
        self.elapsed = elapsed;
        self
    }

    /// Replaces the time until the deadline.
    #[must_use]
    pub const fn with_time_left(mut self, time_left: Duration) -> Self {
        self.time_left = time_left;
        self
    }

    /// Replaces the random draw.
    #[must_use]
    pub const fn with_draw(mut self, draw: Draw) -> Self {
        self.draw = draw;
        self
    }
}

impl RetryPolicy {
    /// How long a send that a shared wait holds back has to wait: what is left, and a random part
    /// of a spread, so that not all who were held back come at once.
    ///
    /// The spread is a quarter of the wait *as it was told*. A quarter of what is left would be
    /// nothing for those who come last, and they would all return together. Over a quarter of the
    /// wait, whoever was held back returns at four times the usual rate, beside those who start
    /// then. After short waits, the spread is the first throttle backoff.
    ///
    /// # Errors
    /// The limit before which the wait would not end: [`StopReason::DeadlineTooNear`] or
    /// [`StopReason::WindowClosed`].
    pub fn hold_back(&self, wait: &SharedWait) -> Result<Duration, StopReason> {
        let room = self.room(wait.elapsed, wait.time_left)?;
        let spread =
            (wait.told / defaults::HINT_SPREAD_DIVISOR).max(self.throttle_backoff.bound(1)).min(room.longest.saturating_sub(wait.left));
        let pause = wait.left.saturating_add(wait.draw.of(spread));
        if room.holds(pause) { Ok(pause) } else { Err(room.limit) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn held_back(wait: SharedWait) -> Result<Duration, StopReason> {
        RetryPolicy::DEFAULT.hold_back(&wait)
    }

    #[test]
    fn the_spread_is_a_quarter_of_the_wait_as_told_and_no_less_than_the_first_throttle_backoff() {
        for (left, told, most) in [(20, 20, 25), (1, 20, 6), (2, 2, 3), (1, 0, 2)] {
            let wait = SharedWait::new(SECOND * left, SECOND * told);
            assert_eq!(held_back(wait.with_draw(Draw::LEAST)), Ok(SECOND * left), "{left} of {told}");
            let longest = held_back(wait.with_draw(Draw::GREATEST)).unwrap();
            assert!((SECOND * most).abs_diff(longest) < SECOND / 1_000, "{left} of {told}: {longest:?}");
        }
    }

    #[test]
    fn the_spread_takes_no_more_than_what_still_fits() {
        let wait = SharedWait::new(SECOND * 28, SECOND * 28);
        assert!(held_back(wait.with_draw(Draw::GREATEST)).unwrap() <= SECOND * 30);
        let within = |time_left| held_back(wait.with_draw(Draw::GREATEST).with_time_left(time_left));
        assert!(within(SECOND * 29).unwrap() < SECOND * 29);
        assert_eq!(within(SECOND * 28), Err(StopReason::DeadlineTooNear));
        assert_eq!(held_back(wait.with_elapsed(SECOND * 3)), Err(StopReason::WindowClosed));
    }

    #[test]
    fn no_wait_is_too_long_to_be_judged() {
        for policy in [RetryPolicy::DEFAULT, RetryPolicy::ARTICLE] {
            assert_eq!(policy.hold_back(&SharedWait::new(Duration::MAX, Duration::MAX)), Err(StopReason::WindowClosed));
        }
    }
}
