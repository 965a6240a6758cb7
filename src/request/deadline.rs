//! One instant by which an operation has ended: fixed once, then only compared.
//!
//! A limit per attempt cannot bound an operation, because every resend starts it anew. So
//! everything here is absolute and on the monotonic clock: passing a [`Deadline`] down never makes
//! it longer. This module knows neither attempts nor requests.

use std::{
    cmp::Ordering,
    fmt,
    panic::{AssertUnwindSafe, resume_unwind},
    time::Duration,
};

use futures_util::FutureExt as _;
use task_local_extensions::{Extensions, get_local_item, with_extensions};

use crate::platform::Instant;

/// About 30 years: what lies further ahead is no deadline. Timers add a little to the instants they
/// get, which must not overflow.
pub(crate) const HORIZON: Duration = Duration::from_secs(30 * 365 * 24 * 60 * 60);

/// One absolute instant on the monotonic clock by which an operation has ended, the body of its
/// answer included.
///
/// As a request extension it bounds that operation alone; [`scope`](Self::scope) bounds all
/// operations of a piece of work. Deadlines are ordered by time, [`NONE`](Self::NONE) last, so the
/// earlier of two is their minimum.
///
/// Time asleep does not count: where the monotonic clock stands still while a laptop's lid is
/// closed or a virtual machine is paused, as on Linux, an operation may be sent after its deadline
/// by the wall clock. Nothing here changes that; only the age of a key is also measured on the wall
/// clock, so that no resend relies on a key that the server has forgotten meanwhile.
///
/// # Default
/// [`NONE`](Self::NONE).
///
/// # Examples
/// ```
/// use reqwest_safe_retry::Deadline;
/// use std::time::Duration;
///
/// let deadline = Deadline::after(Duration::from_secs(5));
/// assert!(deadline.time_left() <= Duration::from_secs(5));
/// assert_eq!(Deadline::after(Duration::MAX), Deadline::NONE);
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
#[must_use]
#[doc(alias("timeout", "time limit"))]
pub struct Deadline(Option<Instant>);

impl Deadline {
    /// No deadline: later than every other one.
    pub const NONE: Self = Self(None);

    /// The instant that lies `limit` ahead of now. Saturates: [`Duration::MAX`], and any limit
    /// beyond about 30 years, is [`NONE`](Self::NONE).
    pub fn after(limit: Duration) -> Self {
        Self::from(Instant::now(), limit)
    }

    /// The given instant; one that lies more than about 30 years ahead is [`NONE`](Self::NONE).
    pub fn at(instant: Instant) -> Self {
        let ahead = instant.saturating_duration_since(Instant::now());
        Self((ahead <= HORIZON).then_some(instant))
    }

    /// The time from now to the deadline: zero when it has passed, [`Duration::MAX`] when there is
    /// none.
    #[must_use]
    pub fn time_left(self) -> Duration {
        self.0.map_or(Duration::MAX, |instant| instant.saturating_duration_since(Instant::now()))
    }

    /// Runs `work` and caps by this deadline every operation that starts inside: none of them gets
    /// more time than this leaves, whatever its own deadline says. Nested scopes: the earlier
    /// deadline wins. `work` itself is not stopped.
    ///
    /// The scope belongs to the task: it reaches through `join!`, `select!` and timeouts, but not
    /// into `tokio::spawn`, `spawn_blocking` or other threads. Open another one there.
    ///
    /// It lives in the map of [`task_local_extensions`], and those maps do not nest: only the
    /// innermost is seen. So an application's own `with_extensions` inside hides the scope, unless
    /// its map carries the `Deadline` on, and the scope hides what an application's map around it
    /// holds.
    ///
    /// # Panics
    /// Only when `work` does; the scope ends all the same, and nothing of it leaks into another
    /// task.
    ///
    /// # Cancellation
    /// Dropping the future drops `work`; nothing of the scope stays behind. Destructors that run
    /// then are outside the scope.
    ///
    /// # Examples
    /// ```
    /// # async fn charge() {}
    /// # async fn notify() {}
    /// # async fn checkout() {
    /// use reqwest_safe_retry::Deadline;
    /// use std::time::Duration;
    ///
    /// // One deadline for both calls and all their attempts.
    /// Deadline::after(Duration::from_secs(5)).scope(async { charge().await; notify().await; }).await
    /// # }
    /// ```
    pub async fn scope<F: Future>(self, work: F) -> F::Output {
        let capped = self.earlier(Self::of_scope());
        // The library swaps its map in and out around each poll and forgets to swap back when the
        // poll unwinds: the panic has to be stopped inside and let go outside, or unrelated tasks
        // of this thread would inherit the deadline.
        let (_, ended) = with_extensions(Extensions::new().with(capped), AssertUnwindSafe(work).catch_unwind()).await;
        ended.unwrap_or_else(|panic| resume_unwind(panic))
    }

    /// The deadline of the scope around the caller; read it once, at the start of an operation.
    #[inline]
    pub(crate) fn of_scope() -> Self {
        // Ready at once: there is nothing in it to wait for.
        get_local_item().now_or_never().flatten().unwrap_or(Self::NONE)
    }

    /// As [`after`](Self::after), where the time is known.
    #[inline]
    pub(crate) fn from(now: Instant, limit: Duration) -> Self {
        Self(now.checked_add(limit).filter(|_| limit <= HORIZON))
    }

    /// Whether it has passed at this time.
    #[inline]
    pub(crate) fn has_passed(self, now: Instant) -> bool {
        self.0.is_some_and(|instant| instant <= now)
    }

    /// The instant itself, for timers.
    pub(crate) const fn instant(self) -> Option<Instant> {
        self.0
    }

    /// The earlier of the two.
    #[inline]
    pub(crate) fn earlier(self, other: Self) -> Self {
        self.min(other)
    }
}

impl Default for Deadline {
    fn default() -> Self {
        Self::NONE
    }
}

impl Ord for Deadline {
    fn cmp(&self, other: &Self) -> Ordering {
        match (self.0, other.0) {
            (Some(this), Some(other)) => this.cmp(&other),
            (Some(_), None) => Ordering::Less,
            (None, Some(_)) => Ordering::Greater,
            (None, None) => Ordering::Equal,
        }
    }
}

impl PartialOrd for Deadline {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// Shows the time left: the instant itself means nothing to a reader.
impl fmt::Debug for Deadline {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(_) => write!(f, "Deadline({:?} left)", self.time_left()),
            None => f.write_str("Deadline(none)"),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::future::pending;

    use tokio::time::{advance, sleep, timeout};

    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    async fn seen() -> Duration {
        Deadline::of_scope().time_left()
    }

    #[tokio::test(start_paused = true)]
    async fn time_left_shrinks_to_zero_and_stays_there() {
        let deadline = Deadline::after(2 * SECOND);
        assert_eq!(deadline.time_left(), 2 * SECOND);
        assert_eq!(deadline.instant(), Some(Instant::now() + 2 * SECOND));
        advance(SECOND).await;
        assert_eq!(deadline.time_left(), SECOND);
        advance(5 * SECOND).await;
        assert_eq!(deadline.time_left(), Duration::ZERO);
    }

    #[tokio::test(start_paused = true)]
    async fn no_limit_is_too_long_to_be_given() {
        assert_eq!(Deadline::after(Duration::MAX), Deadline::NONE);
        assert_eq!(Deadline::NONE.time_left(), Duration::MAX);
        assert_eq!(Deadline::after(Duration::ZERO).time_left(), Duration::ZERO);
        for doublings in 0..64 {
            let limit = Duration::from_secs(1 << doublings);
            let deadline = Deadline::after(limit);
            assert!(deadline.time_left() == limit || deadline == Deadline::NONE, "{limit:?}");
            if let Some(instant) = deadline.instant() {
                // Polled once: a timer that far ahead neither panics nor fires.
                assert!(tokio::time::timeout_at(instant, pending::<()>()).now_or_never().is_none(), "{limit:?}");
            }
        }
        let farthest = Instant::now() + Duration::from_secs(1 << 62);
        assert_eq!(Deadline::at(farthest), Deadline::NONE);
    }

    #[tokio::test(start_paused = true)]
    async fn what_lies_thirty_years_ahead_is_a_deadline_and_what_lies_beyond_is_none() {
        let thirty_years = 30 * 365 * Duration::from_secs(24 * 60 * 60);
        assert_eq!(Deadline::after(thirty_years).time_left(), thirty_years);
        assert_eq!(Deadline::after(thirty_years + Duration::from_nanos(1)), Deadline::NONE);
    }

    #[tokio::test(start_paused = true)]
    async fn the_earlier_of_two_is_their_minimum_and_none_is_last() {
        let (soon, late) = (Deadline::after(SECOND), Deadline::after(2 * SECOND));
        assert_eq!(soon.earlier(late), soon);
        assert_eq!(late.earlier(soon), soon);
        assert_eq!(Deadline::NONE.earlier(soon), soon);
        assert_eq!(soon.earlier(Deadline::NONE), soon);
        assert_eq!(Deadline::NONE.earlier(Deadline::NONE), Deadline::NONE);
        assert!(soon < late && late < Deadline::NONE);
    }

    #[tokio::test(start_paused = true)]
    async fn debug_shows_the_time_left_and_nothing_else() {
        assert_eq!(format!("{:?}", Deadline::after(SECOND)), "Deadline(1s left)");
        assert_eq!(format!("{:?}", Deadline::NONE), "Deadline(none)");
    }

    #[tokio::test(start_paused = true)]
    async fn a_scope_is_seen_inside_and_nowhere_else() {
        assert_eq!(seen().await, Duration::MAX);
        let answer = Deadline::after(SECOND)
            .scope(async {
                sleep(SECOND / 4).await;
                seen().await
            })
            .await;
        assert_eq!(answer, SECOND * 3 / 4);
        assert_eq!(seen().await, Duration::MAX);
    }

    #[tokio::test(start_paused = true)]
    async fn of_nested_scopes_the_earlier_wins_and_the_outer_comes_back() {
        for (outer, inner) in [(1, 2), (2, 1)] {
            Deadline::after(outer * SECOND)
                .scope(async {
                    assert_eq!(Deadline::after(inner * SECOND).scope(seen()).await, SECOND);
                    assert_eq!(Deadline::NONE.scope(seen()).await, outer * SECOND);
                    assert_eq!(seen().await, outer * SECOND);
                })
                .await;
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_scope_reaches_through_combinators_but_not_into_spawned_tasks() {
        Deadline::after(SECOND)
            .scope(async {
                assert_eq!(tokio::join!(seen(), seen()), (SECOND, SECOND));
                assert_eq!(timeout(SECOND / 2, seen()).await, Ok(SECOND));
                assert_eq!(tokio::spawn(seen()).await.unwrap(), Duration::MAX);
            })
            .await;
    }

    #[tokio::test(start_paused = true)]
    async fn an_application_map_inside_hides_the_scope_unless_it_carries_the_deadline_on() {
        let deadline = Deadline::after(SECOND);
        deadline
            .scope(async {
                assert_eq!(with_extensions(Extensions::new().with("theirs"), seen()).await.1, Duration::MAX);
                assert_eq!(with_extensions(Extensions::new().with(deadline), seen()).await.1, SECOND);
                assert_eq!(seen().await, SECOND);
            })
            .await;
    }

    #[tokio::test(start_paused = true)]
    async fn the_scope_hides_an_application_map_around_it_and_gives_it_back() {
        with_extensions(Extensions::new().with("theirs"), async {
            Deadline::after(SECOND).scope(async { assert_eq!(get_local_item::<&str>().await, None) }).await;
            assert_eq!(get_local_item::<&str>().await, Some("theirs"));
        })
        .await;
    }

    #[tokio::test(start_paused = true)]
    async fn a_panic_inside_reaches_the_caller_and_leaks_no_deadline() {
        let outer = Deadline::after(2 * SECOND).scope(async {
            let panicking = Deadline::after(SECOND).scope(async { panic!("theirs") });
            let panic = AssertUnwindSafe(panicking).catch_unwind().await.unwrap_err();
            assert_eq!(panic.downcast_ref(), Some(&"theirs"));
            seen().await
        });
        assert_eq!(outer.await, 2 * SECOND, "the outer scope keeps its own deadline");
        assert_eq!(seen().await, Duration::MAX);
        assert_eq!(tokio::spawn(seen()).await.unwrap(), Duration::MAX, "no other task of this thread inherits it");
    }

    #[tokio::test(start_paused = true)]
    async fn a_cancelled_scope_leaves_nothing_behind() {
        assert!(timeout(SECOND, Deadline::after(2 * SECOND).scope(pending::<()>())).await.is_err());
        assert_eq!(seen().await, Duration::MAX);
    }
}
