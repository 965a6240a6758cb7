//! How do I use the engine without HTTP?
//!
//! [`policy`](crate::policy) decides, and knows neither client nor runtime: no clock, no chance, no
//! I/O. Whatever repeats work can ask it: a queue consumer, a gRPC client, a job in another
//! language's process that calls yours. Alone it needs `http` and `httpdate`, nothing else:
//!
//! ```toml
//! [dependencies]
//! reqwest-safe-retry = { version = "0.1", default-features = false }
//! ```
//!
//! You give it a [`Situation`]: what a second run does to the world, what came back, what is
//! proven, how much time is left, a random draw. You get a [`Decision`]. Obey it:
//!
//! ```
//! use std::time::{Duration, Instant};
//!
//! use reqwest_safe_retry::policy::{BudgetLimits, Decision, Draw, Effect, Evidence, RetryPolicy, Signal, Situation, TokenBucket};
//!
//! const POLICY: RetryPolicy = RetryPolicy::DEFAULT; // a const: many services can share it
//!
//! /// Runs one message until it is done, or returns why not. The message may be handled twice.
//! fn handle(bucket: &mut TokenBucket, deadline: Instant, mut run: impl FnMut() -> Result<(), ()>) -> Result<(), String> {
//!     let started = Instant::now();
//!     bucket.deposit(started);
//!     for sends in 1.. {
//!         if run().is_ok() {
//!             return Ok(());
//!         }
//!         let now = Instant::now();
//!         let situation = Situation::new(Effect::IdempotentWrite, Signal::Failed, Evidence::Unknown)
//!             .with_sends(sends)
//!             .with_elapsed(now - started)
//!             .with_time_left(deadline.saturating_duration_since(now))
//!             .with_draw(Draw::new(draw()));
//!         let permit = match POLICY.decide(&situation) {
//!             Decision::Resend(permit) => permit,
//!             Decision::Stop(reason) => return Err(reason.to_string()),
//!             Decision::Return | Decision::Probe(_) => return Err("not for a failure of this effect".into()),
//!         };
//!         let Some(_token) = bucket.withdraw(now) else { return Err("the budget is spent".into()) };
//!         std::thread::sleep(permit.pause());
//!     }
//!     Ok(())
//! }
//! # fn draw() -> u64 { 7 } // from your source of chance
//!
//! let mut bucket = TokenBucket::new(BudgetLimits::DEFAULT, Instant::now());
//! let mut failures = 2;
//! let handled = handle(&mut bucket, Instant::now() + Duration::from_secs(5), || {
//!     failures -= 1;
//!     if failures >= 0 { Err(()) } else { Ok(()) }
//! });
//! assert_eq!(handled, Ok(()));
//! ```
//!
//! # What else is in it
//!
//! * [`RetryPolicy::read`](crate::RetryPolicy::read): what an answer means.
//!   [`Outcome::of`](crate::Outcome::of): what is known in the end.
//! * [`Hint::parse`](crate::policy::Hint::parse): `Retry-After` in all its forms, with the clock as
//!   an argument.
//! * [`KeyContract`](crate::KeyContract) and [`IdempotencyKey::parse`]: keys as values.
//! * [`TokenBucket`](crate::policy::TokenBucket),
//!   [`AdaptiveThrottle`](crate::policy::AdaptiveThrottle),
//!   [`SharedWait`](crate::policy::SharedWait): the arithmetic of budgets and shared waits.
//! * [`RetryPolicy::explain`](crate::RetryPolicy::explain): what a policy would do, as a table.
//!
//! # What it promises
//!
//! * The same situation gives the same decision. With the feature `serde`, situations and decisions
//!   can be written down and replayed, for a bug report or to try another policy on last week.
//! * There are three tables, each one `match` without a catch-all arm; `docs/tables.md` prints
//!   them.
//! * A [`ResendPermit`](crate::policy::ResendPermit) comes from `decide` alone. Take it as the
//!   argument of whatever sends, and the compiler sees to it that nothing is sent without one.
//! * `decide` allocates nothing.
//!
//! Never earlier than [`pause`](crate::policy::ResendPermit::pause) says: the server's wait is in
//! it. After the pause, ask [`still_worth_sending`](crate::RetryPolicy::still_worth_sending) and
//! [`still_holds`](crate::policy::ResendPermit::still_holds): it may have taken longer than
//! planned.
//!
//! [`Decision`]: crate::policy::Decision
//! [`IdempotencyKey::parse`]: crate::IdempotencyKey::parse
//! [`Situation`]: crate::policy::Situation
