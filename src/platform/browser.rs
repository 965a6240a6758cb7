//! What a page gives: its timers, its clocks and its chance. Futures stay on its one thread.

use std::{
    hash::{BuildHasher, DefaultHasher, Hasher},
    pin::{Pin, pin},
    sync::LazyLock,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use futures_util::future::{Either, select};
use uuid::Uuid;
use wasmtimer::{std as page, tokio::sleep};

use crate::policy;

pub(crate) use wasmtimer::std::Instant;

/// A future of which nothing is known but what comes out of it.
pub(crate) type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + 'a>>;

/// Everything: what a page holds stays where it is.
pub(crate) trait MaybeSend {}

impl<T: ?Sized> MaybeSend for T {}

/// A page's timers count milliseconds up to 2^31 and take what is longer for no time at all.
const LONGEST_TIMER: Duration = Duration::from_secs(24 * 60 * 60);

/// Waits until then.
pub(crate) async fn sleep_until(until: Instant) {
    loop {
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return;
        }
        sleep(left.min(LONGEST_TIMER)).await;
    }
}

/// Time was up first.
pub(crate) struct Elapsed;

/// Drops the work when it has not ended by then.
pub(crate) async fn timeout_at<F: Future>(until: Instant, work: F) -> Result<F::Output, Elapsed> {
    match select(pin!(work), pin!(sleep_until(until))).await {
        Either::Left((result, _)) => Ok(result),
        Either::Right(_) => Err(Elapsed),
    }
}

/// The moment as the engine takes it, which knows no clock.
pub(crate) fn engine_time(now: Instant) -> policy::Instant {
    static BEGINNING: LazyLock<Instant> = LazyLock::new(Instant::now);
    policy::Instant::after(now.saturating_duration_since(*BEGINNING))
}

/// The time of day. Nothing is measured by it but what other machines say about it.
///
/// It is the standard library's type, whose own `now` panics in a page.
pub(crate) fn wall_clock() -> SystemTime {
    let since = page::SystemTime::now().duration_since(page::UNIX_EPOCH).unwrap_or_default();
    UNIX_EPOCH.checked_add(since).unwrap_or(UNIX_EPOCH)
}

/// As the standard library's, whose keys are addresses here and thus the same in every page.
#[derive(Clone)]
pub(crate) struct RandomState(u64, u64);

impl RandomState {
    pub(crate) fn new() -> Self {
        let (one, other) = Uuid::new_v4().as_u64_pair();
        Self(one, other)
    }
}

impl BuildHasher for RandomState {
    type Hasher = DefaultHasher;

    fn build_hasher(&self) -> DefaultHasher {
        let mut hasher = DefaultHasher::new();
        hasher.write_u64(self.0);
        hasher.write_u64(self.1);
        hasher
    }
}
