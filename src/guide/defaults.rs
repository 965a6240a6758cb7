//! What are the defaults, and why each?
//!
//! Every number stands once in the code, in [`policy::defaults`](crate::policy::defaults). A test
//! compares this table with it.
//!
//! # How often, how fast
//!
//! | default | value | why |
//! |---|---|---|
//! | [ATTEMPTS] | 3 | one resend heals most short faults, the second most of the rest; more multiply the load of an outage |
//! | [BACKOFF] | 100 ms doubling, at most 20 s | one round trip of patience first |
//! | [THROTTLE_BACKOFF] | 1 s doubling, at most 20 s | after 429, 503, 529, a verdict that says "overloaded" and a key in use: a server that says "too much" needs more than a blink |
//! | [KEY_IN_USE_WAITS] | 10 | beside the attempts: patience for a minute or two, and each only asks whether the first copy is done |
//! | [JITTER] | Full | fewest calls and shortest time under contention (AWS, "Exponential Backoff And Jitter") |
//! | [WINDOW] | 30 s | without a deadline, no resend starts later; an attempt in flight is never cut, so slow downloads keep working |
//! | [LEAST_ATTEMPT] | 10 ms | an attempt with less time before the deadline is hopeless, and costs the server all the same |
//! | [STATUSES] | 408 425 429 500 502 503 504 | they pass by themselves; 501 and 505 do not |
//!
//! # Waits that a server asks for
//!
//! | default | value | why |
//! |---|---|---|
//! | [HINT_SPREAD] | Jittered | a crowd that was told "30" must not come back as one wave |
//! | [HINT_SPREAD_DIVISOR] | 4 | a wait is spread over a quarter of itself: this flattens the wave, and adds little |
//! | [UNREADABLE_HINT] | Stop | the server asked to be left alone; any guess may be too early |
//! | [CREDIBLE_SKEW] | 300 s | clocks that differ by more are broken, or a cache made the answer old; then the longer wait counts |
//! | [MOST_SHARED_WAIT] | 3600 s | rate limits go up to an hour; more is a mistake too often to hold everybody back for it |
//! | [MOST_HEARD] | 300 s | bounds what a mistake of one process can do to all |
//!
//! # What all resends of an origin may cost
//!
//! | default | value | why |
//! |---|---|---|
//! | [BUDGET_PERCENT] | 20 | percent of the operations: heals everyday faults, and adds too little load to keep a collapsed server down |
//! | [BUDGET_RESERVE] | 10 | a client that has just started can resend |
//! | [BUDGET_REFILL_PER_SECOND] | 1 | serves a client below 5 operations a second in full |
//! | [BUDGET_MEMORY] | 10 s | what is saved in it is enough for a fault of one second |
//! | [ADAPTIVE_PERCENT] | 200 | of an adaptive budget: nothing is refused while the server accepts half of the requests (SRE book, K = 2) |
//! | [ADAPTIVE_WINDOW] | 120 s | as in the SRE book |
//!
//! # Keys and probes
//!
//! | default | value | why |
//! |---|---|---|
//! | [KEY_LENGTH] | 1..=255 | the most that Stripe takes, and hardly a server takes less |
//! | [GUARDED_KEYS] | 10000 | about 1.4 MB when full, nothing before |
//! | [SETTLING] | 5 s | a probe that looks earlier may miss what will still appear |
//! | [LAST_LOOK_DIVISOR] | 10 | a tenth of the time is kept for one last question |
//!
//! # Bodies of answers
//!
//! | default | value | why |
//! |---|---|---|
//! | [DRAIN_MOST] | 65536 | bytes of a failed answer that are read to give its connection or stream back; more costs more than a new connection |
//! | [DRAIN_LONGEST] | 50 ms | about what a new connection costs with TLS |
//! | [BODY_GRACE] | 2097152 | bytes that had arrived by the deadline are still handed over: what an HTTP/2 window holds |
//! | [LEAST_FRAME] | 64 | bytes that a frame counts at least, so that empty frames without end come to an end |
//!
//! # What is shown
//!
//! | default | value | why |
//! |---|---|---|
//! | [SHOWN_HOST] | 255 | bytes of a host in logs, reports, errors and labels: no name that can be looked up is longer |
//! | [SHOWN_METHOD] | 32 | bytes of a method there: the longest that IANA lists has 17 |
//!
//! # What is remembered
//!
//! | default | value | why |
//! |---|---|---|
//! | [SCOPES] | 1024 | budgets, and as many cool-downs: more origins than a client talks to at once |
//! | [ADVICE] | 1024 | pairs of advice and origin, each logged once |
//! | [KEPT_ALIVE] | 256 | origins whose `Keep-Alive` timeout is remembered |
//! | [YOUNG_BUDGET] | 10 s | a client that is dropped earlier was built for a single request |
//! | [MANY_BUDGETS] | 64 | of those make an advice: more than a program has upstreams |
//!
//! # Settings that are no numbers
//!
//! | setting | default | why |
//! |---|---|---|
//! | requests that nothing marks | [`ByMethod`](crate::Unmarked::ByMethod) | reads and idempotent methods get resends at once; other writes are sent again only when they cannot have been processed |
//! | deadline | none | the plugin must not break a slow download of a client that it is added to: set one |
//! | attempt limit | none | the same: set one, or nothing follows an attempt that hangs |
//! | fields that ask for a wait | `Retry-After` alone | the other fields mean different things to different servers |
//! | shared cool-down | none | a wait is often meant for one tenant or one account only |
//! | headers of attempts | none | no standard names them |
//! | redirects of the paved client | as in reqwest, counted | following is the client's decision; a payment API wants them off |
//! | reqwest's own resends, paved client | off | they happen below this crate, without budget and report |
//!
//! # Change them
//!
//! ```
//! use std::time::Duration;
//!
//! use reqwest_safe_retry::{BudgetLimits, RetryBudget, RetryPolicy, SafeRetry, policy::Backoff};
//!
//! const PATIENT: RetryPolicy = RetryPolicy::DEFAULT
//!     .with_attempts(5)
//!     .with_backoff(Backoff::doubling(Duration::from_millis(500), Duration::from_secs(60)));
//!
//! let retry = SafeRetry::new()
//!     .with_policy(PATIENT) // of the client; an endpoint or a request can have its own
//!     .with_budget(RetryBudget::new(BudgetLimits::percent(10)))
//!     .with_deadline(Duration::from_secs(60))
//!     .with_attempt_limit(Duration::from_secs(10));
//! println!("{}", PATIENT.explain()); // what it would do, as a table
//! # let _ = retry;
//! ```
//!
//! [`RetryPolicy::ARTICLE`](crate::RetryPolicy::ARTICLE) is the policy of the article that this
//! crate grew from: 429 and 503 only, 4 attempts, 100 ms doubling to 2 s for every signal, the wait
//! exactly as sent, no least attempt and no window.
//!
//! [ATTEMPTS]: crate::policy::defaults::ATTEMPTS
//! [BACKOFF]: crate::policy::defaults::BACKOFF
//! [THROTTLE_BACKOFF]: crate::policy::defaults::THROTTLE_BACKOFF
//! [KEY_IN_USE_WAITS]: crate::policy::defaults::KEY_IN_USE_WAITS
//! [JITTER]: crate::policy::defaults::JITTER
//! [WINDOW]: crate::policy::defaults::WINDOW
//! [LEAST_ATTEMPT]: crate::policy::defaults::LEAST_ATTEMPT
//! [STATUSES]: crate::policy::defaults::STATUSES
//! [HINT_SPREAD]: crate::policy::defaults::HINT_SPREAD
//! [HINT_SPREAD_DIVISOR]: crate::policy::defaults::HINT_SPREAD_DIVISOR
//! [UNREADABLE_HINT]: crate::policy::defaults::UNREADABLE_HINT
//! [CREDIBLE_SKEW]: crate::policy::defaults::CREDIBLE_SKEW
//! [MOST_SHARED_WAIT]: crate::policy::defaults::MOST_SHARED_WAIT
//! [MOST_HEARD]: crate::policy::defaults::MOST_HEARD
//! [BUDGET_PERCENT]: crate::policy::defaults::BUDGET_PERCENT
//! [BUDGET_RESERVE]: crate::policy::defaults::BUDGET_RESERVE
//! [BUDGET_REFILL_PER_SECOND]: crate::policy::defaults::BUDGET_REFILL_PER_SECOND
//! [BUDGET_MEMORY]: crate::policy::defaults::BUDGET_MEMORY
//! [ADAPTIVE_PERCENT]: crate::policy::defaults::ADAPTIVE_PERCENT
//! [ADAPTIVE_WINDOW]: crate::policy::defaults::ADAPTIVE_WINDOW
//! [KEY_LENGTH]: crate::policy::defaults::KEY_LENGTH
//! [GUARDED_KEYS]: crate::policy::defaults::GUARDED_KEYS
//! [SETTLING]: crate::policy::defaults::SETTLING
//! [LAST_LOOK_DIVISOR]: crate::policy::defaults::LAST_LOOK_DIVISOR
//! [DRAIN_MOST]: crate::policy::defaults::DRAIN_MOST
//! [DRAIN_LONGEST]: crate::policy::defaults::DRAIN_LONGEST
//! [BODY_GRACE]: crate::policy::defaults::BODY_GRACE
//! [LEAST_FRAME]: crate::policy::defaults::LEAST_FRAME
//! [SHOWN_HOST]: crate::policy::defaults::SHOWN_HOST
//! [SHOWN_METHOD]: crate::policy::defaults::SHOWN_METHOD
//! [SCOPES]: crate::policy::defaults::SCOPES
//! [KEPT_ALIVE]: crate::policy::defaults::KEPT_ALIVE
//! [ADVICE]: crate::policy::defaults::ADVICE
//! [MANY_BUDGETS]: crate::policy::defaults::MANY_BUDGETS
//! [YOUNG_BUDGET]: crate::policy::defaults::YOUNG_BUDGET
