//! Every default number of the policy, once, with its reason.

use std::time::Duration;

use super::{Backoff, HintSpread, RetryStatuses, UnreadableHint};

/// 3 sends in all. One resend heals most short faults, the second most of the rest; more multiply
/// the load of an outage (SRE book, AWS SDKs).
pub const ATTEMPTS: u32 = 3;

/// 100 ms doubling, at most 20 s, full jitter: one round trip of patience first; the cap is that of
/// the AWS SDKs.
pub const BACKOFF: Backoff = Backoff::doubling(Duration::from_millis(100), Duration::from_secs(20));

/// 1 s doubling, at most 20 s, full jitter, after 429, 503 and a key in use: a server that says
/// "too much" needs more than a blink.
pub const THROTTLE_BACKOFF: Backoff = Backoff::doubling(Duration::from_secs(1), Duration::from_secs(20));

/// 30 s: without any deadline, the last resend starts at most this long after the first attempt
/// did. Attempts in flight are not cut.
pub const WINDOW: Duration = Duration::from_secs(30);

/// 10 ms: an attempt with less time before the deadline is hopeless on any network, and costs the
/// server all the same.
pub const LEAST_ATTEMPT: Duration = Duration::from_millis(10);

/// 408 425 429 500 502 503 504: statuses that pass by themselves.
pub const STATUSES: RetryStatuses = RetryStatuses::DEFAULT;

/// Jittered: a crowd that was told "30" must not come back as one wave.
pub const HINT_SPREAD: HintSpread = HintSpread::Jittered;

/// Stop: an unreadable wait is still a wish to be left alone.
pub const UNREADABLE_HINT: UnreadableHint = UnreadableHint::Stop;

/// 1 h: the longest that what a server asked of one operation holds back the others. Rate limits go
/// up to an hour; more is a mistake too often to hold a whole client back for it. The operation
/// that was told keeps to what it was told.
pub const MOST_SHARED_WAIT: Duration = Duration::from_secs(60 * 60);

/// 300 s: the longest that what another process was told holds this one back. Whoever can write to
/// what the processes share can stop all of them for as long, and no longer; a wait that is in
/// truth longer is told again by the first who asks the server then.
pub const MOST_HEARD: Duration = Duration::from_secs(300);
