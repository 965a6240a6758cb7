//! Every number that this crate chose, once, with its reason.
//!
//! Here stands what could as well be another number. What a specification or a format fixes stands
//! where it is read, and what a vendor promises with the vendor's contract. Settings of the client
//! and of endpoints that are no numbers are documented where they are set.

use std::{num::NonZeroUsize, ops::RangeInclusive, time::Duration};

use http::StatusCode;

use super::{Backoff, HintSpread, Jitter, RetryStatuses, UnreadableHint};

// ===== how often, how fast =====

/// 3 sends in all. One resend heals most short faults, the second most of the rest; more multiply
/// the load of an outage (SRE book, AWS SDKs).
pub const ATTEMPTS: u32 = 3;

/// 100 ms doubling, at most 20 s: one round trip of patience first; the cap is that of the AWS
/// SDKs.
pub const BACKOFF: Backoff = Backoff::doubling(Duration::from_millis(100), Duration::from_secs(20));

/// 1 s doubling, at most 20 s, after 429, 503, 529, a verdict that says "overloaded" and a key in
/// use: a server that says "too much" needs more than a blink.
pub const THROTTLE_BACKOFF: Backoff = Backoff::doubling(Duration::from_secs(1), Duration::from_secs(20));

/// 10 waits for a copy of a keyed write that is still being processed, beside the attempts: with
/// the throttle backoff that is patience for a minute or two, and each of them only asks whether
/// the first copy is done.
pub const KEY_IN_USE_WAITS: u32 = 10;

/// Full: fewest calls and shortest time under contention (AWS, "Exponential Backoff And Jitter").
pub const JITTER: Jitter = Jitter::Full;

/// 30 s: without any deadline, the last resend starts at most this long after the first attempt
/// did. Attempts in flight are not cut.
pub const WINDOW: Duration = Duration::from_secs(30);

/// 10 ms: an attempt with less time before the deadline is hopeless on any network, and costs the
/// server all the same.
pub const LEAST_ATTEMPT: Duration = Duration::from_millis(10);

/// 408 425 429 500 502 503 504: statuses that pass by themselves.
pub const STATUSES: RetryStatuses = RetryStatuses::NONE
    .with(StatusCode::REQUEST_TIMEOUT)
    .with(StatusCode::TOO_EARLY)
    .with(StatusCode::TOO_MANY_REQUESTS)
    .with(StatusCode::INTERNAL_SERVER_ERROR)
    .with(StatusCode::BAD_GATEWAY)
    .with(StatusCode::SERVICE_UNAVAILABLE)
    .with(StatusCode::GATEWAY_TIMEOUT);

// ===== waits that a server asks for =====

/// Jittered: a crowd that was told "30" must not come back as one wave.
pub const HINT_SPREAD: HintSpread = HintSpread::Jittered;

/// A quarter of the wait (divided by 4): it is spread over this, or over the backoff where that is
/// longer. Enough to flatten a wave, and hardly longer than what was asked for. A wait that is
/// shared is spread over as much.
pub const HINT_SPREAD_DIVISOR: u32 = 4;

/// Stop: an unreadable wait is still a wish to be left alone.
pub const UNREADABLE_HINT: UnreadableHint = UnreadableHint::Stop;

/// 5 minutes: where the server's clock and ours differ by more, one of them is broken rather than
/// inexact (Kerberos draws the line there as well), or a cache made the answer old. The same holds
/// for a first use of a key that lies in the future.
pub const CREDIBLE_SKEW: Duration = Duration::from_secs(5 * 60);

/// 1 h: the longest that what a server asked of one operation holds back the others. Rate limits go
/// up to an hour; more is a mistake too often to hold a whole client back for it. The operation
/// that was told keeps to what it was told.
pub const MOST_SHARED_WAIT: Duration = Duration::from_secs(60 * 60);

/// 300 s: the longest that what another process was told holds this one back. Whoever can write to
/// what the processes share can stop all of them for as long, and no longer; a wait that is in
/// truth longer is told again by the first who asks the server then.
pub const MOST_HEARD: Duration = Duration::from_secs(300);

// ===== what all resends of an origin may cost =====

/// 20 % of the operations: the upper end of what Finagle, gRPC and Brooker's simulations agree on.
/// It heals faults that hit some requests, and adds too little load to keep a collapsed server
/// down.
pub const BUDGET_PERCENT: u16 = 20;

/// 10 resends that no operation pays for: a client that has just started can try again.
pub const BUDGET_RESERVE: u32 = 10;

/// 1 a second refills the reserve: it serves any client below 5 operations a second in full.
pub const BUDGET_REFILL_PER_SECOND: u32 = 1;

/// 10 s, as in Finagle and tower: what is saved in it is enough for a blip of one second.
pub const BUDGET_MEMORY: Duration = Duration::from_secs(10);

/// 200 %, the K = 2 of the SRE book: nothing is refused while the server accepts at least half of
/// the requests.
pub const ADAPTIVE_PERCENT: u16 = 200;

/// Two minutes, as in the SRE book.
pub const ADAPTIVE_WINDOW: Duration = Duration::from_secs(120);

// ===== keys =====

/// 1 to 255 characters: the most that Stripe takes, and hardly a server takes less.
pub const KEY_LENGTH: RangeInclusive<usize> = 1..=255;

/// 10 000 keys whose content is compared (about 1.4 MB when full, nothing before). Who uses more of
/// them within one lifetime has the server's check.
pub const GUARDED_KEYS: NonZeroUsize = NonZeroUsize::MIN.saturating_add(9_999);

// ===== probes =====

/// 5 s: most systems that accept a write show it to a reader within seconds; a probe that looks
/// earlier may miss what will still appear.
pub const SETTLING: Duration = Duration::from_secs(5);

/// A tenth of the time (divided by 10) is kept for the last look of a write that can be asked
/// about: enough for one question, and hardly missed by the attempts.
pub const LAST_LOOK_DIVISOR: u32 = 10;

// ===== bodies of answers =====

/// 64 KiB of a failed answer are read to give its connection back: more costs more than a new
/// connection, and hardly any error page is longer.
pub const DRAIN_MOST: u64 = 64 * 1024;

/// 50 ms, about what a new connection costs with TLS. Bodies of errors come with their heads, or
/// hardly later.
pub const DRAIN_LONGEST: Duration = Duration::from_millis(50);

/// 2 MiB: what had arrived by the deadline is still handed over, and no more than an HTTP/2 stream
/// window can have been waiting. The rest must have come later, as from a server that never stops.
pub const BODY_GRACE: u64 = 2 * 1024 * 1024;

/// 64 bytes: what a frame counts at least, so that empty ones without end come to an end too.
pub const LEAST_FRAME: u64 = 64;

// ===== what is shown =====

/// 255 bytes of a host: no name that can be looked up is longer (RFC 1035 §2.3.4).
pub const SHOWN_HOST: usize = 255;

/// 32 bytes of a method: the longest that IANA lists has 17.
pub const SHOWN_METHOD: usize = 32;

// ===== what is remembered =====

/// 1024 budgets, and as many cool-downs: more than a client talks to at once, and some hundred KiB
/// when a stranger chooses the hosts.
pub const SCOPES: usize = 1024;

/// 1024 pairs of advice and origin, each of which is logged once: a program that has more faults
/// than that reads none of them.
pub const ADVICE: usize = 1024;

/// 256 origins whose idle timeout is remembered, to tell what a lost write may come from: more than
/// a client writes to.
pub const KEPT_ALIVE: usize = 256;

/// 10 s: longer than a request takes for which a client is built and dropped, far shorter than a
/// program lives that builds its clients once.
pub const YOUNG_BUDGET: Duration = Duration::from_secs(10);

/// 64 budgets dropped young: more than a program has upstreams, reached within a second or so by
/// one that builds a client for each request.
pub const MANY_BUDGETS: u64 = 64;

// ===== the same under the names of their types =====

impl Jitter {
    /// [`defaults::JITTER`](JITTER).
    pub const DEFAULT: Self = JITTER;
}

impl RetryStatuses {
    /// [`defaults::STATUSES`](STATUSES): each can pass by itself ([RFC 9110 §15], [RFC 6585 §4],
    /// [RFC 8470 §5.2]).
    ///
    /// [RFC 9110 §15]: https://www.rfc-editor.org/rfc/rfc9110#section-15
    /// [RFC 6585 §4]: https://www.rfc-editor.org/rfc/rfc6585#section-4
    /// [RFC 8470 §5.2]: https://www.rfc-editor.org/rfc/rfc8470#section-5.2
    pub const DEFAULT: Self = STATUSES;
}
