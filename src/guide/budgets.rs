//! How do I keep my load off a server that is down?
//!
//! A server stalls. Thousands of clients send again at once, and what heals one client keeps the
//! server down for all. Backoff and jitter move that load; they do not lower it. A budget does.
//!
//! ```
//! use reqwest::header::HeaderName;
//! use reqwest_safe_retry::{AttemptHeaders, BudgetLimits, Cooldown, HoldsBack, RetryBudget, SafeRetry, presets};
//!
//! fn calm() -> SafeRetry {
//!     SafeRetry::new() // give clones of a budget or a cool-down to several clients, and they share it
//!         .with_budget(RetryBudget::new(BudgetLimits::percent(10).with_reserve(5, 1)))
//!         .with_shared_cooldown(Cooldown::new().holding_back(HoldsBack::FirstSendsToo))
//!         .with_hints(presets::OPENAI_HINTS)
//!         .with_attempt_headers(AttemptHeaders::new().with_number(HeaderName::from_static("x-retry-attempt")))
//! }
//! # let _ = calm();
//! ```
//!
//! # Budget: on by default
//!
//! In a total outage an origin gets at most a fifth more requests, plus the reserve, plus one a
//! second. A spent budget ends the operation at once with
//! [`BudgetSpent`](crate::StopReason::BudgetSpent); it never waits.
//!
//! * **Sharing.** The budget belongs to all that share a [`RetryBudget`](crate::RetryBudget).
//!   Clones of one `SafeRetry` do, two `SafeRetry::new()` do not. To share one, make it first, `let
//!   budget = RetryBudget::default()`, and give each client a clone:
//!   `.with_budget(budget.clone())`. Never make a `SafeRetry` for each request: its reserve would
//!   be new each time.
//! * **Sizing.** A budget is for faults that hit some requests. Where two of three requests fail,
//!   it refuses most resends, and that is its purpose. A batch job that is the server's only client
//!   and rather takes long may say `BudgetLimits::UNLIMITED` and slow down by its backoff.
//! * **A fleet.** Shares add up, but reserves multiply: a thousand processes have a thousand of
//!   them. [`BudgetLimits::FLEET`](crate::BudgetLimits::FLEET) has none; its page has the figures.
//! * **Tenants.** [`scoped_by`](crate::RetryBudget::scoped_by) keeps one balance per tenant.
//! * **By what the server accepts.** [`RetryBudget::adaptive`](crate::RetryBudget::adaptive).
//!
//! # Waits: `Retry-After`, and more
//!
//! `Retry-After` is obeyed in both forms, on every status that is sent again. The wait counts from
//! the arrival of the head. It is never shortened, and it is spread upwards so that a crowd does
//! not come back as one wave. A wait that does not fit the deadline returns at once, with the
//! answer; the report's [`hint`](crate::RetryReport::hint) is a good moment to try again by hand. A
//! wait that cannot be read stops the operation.
//!
//! A *redirect* with `Retry-After` is the exception: see [connections](super::connections).
//!
//! Waits in the body or in other fields: [`waits_read_by`](crate::Endpoint::waits_read_by), with
//! [`presets::google_retry_delay`](crate::presets::google_retry_delay) and
//! [`presets::retry_after_in_body`](crate::presets::retry_after_in_body) (Discord, Telegram). An
//! answer that says "too much" in its own way gets the longer backoff by
//! [`Verdict::Overloaded`](crate::Verdict::Overloaded).
//!
//! Vendors have fields of their own: `retry-after-ms`, `RateLimit`, reset fields, and vetoes such
//! as `Stripe-Should-Retry`. [`with_hints`](crate::SafeRetry::with_hints) reads them, per client or
//! endpoint. "Do not retry" stops; "retry" protects no write. [`presets`](crate::presets) knows
//! GitHub, Stripe, OpenAI, Anthropic, Azure, Shopify and Twilio.
//!
//! # Shared cool-down: opt-in
//!
//! What one operation is told to wait holds back the resends and probes of all in its scope, and
//! they come back spread over a quarter of the wait. With
//! [`FirstSendsToo`](crate::HoldsBack::FirstSendsToo) new operations wait within their deadline, or
//! fail at once with [`CoolingDown`](crate::RetryError::CoolingDown) and the time. A wait belongs
//! to the origin that asked for it, also after a redirect. It is shared for an hour at most, and a
//! person can [`lift`](crate::Cooldown::lift) it.
//!
//! Among processes: the crate `reqwest-safe-retry-redis` shares waits through Redis or Valkey.
//! Without the store each process knows what it learned itself; no request waits for it.
//! [`relayed`](crate::Cooldown::relayed) and [`hear`](crate::Cooldown::hear) are the seam for any
//! other store. Budgets are not shared.
//!
//! # Attempt headers: opt-in
//!
//! [`AttemptHeaders`](crate::AttemptHeaders) writes the number of the attempt and the time left, so
//! that an upstream can drop what nobody waits for any more.
//!
//! # What a storm looks like
//!
//! 3 000 simulated clients in 50 instances start 600 operations a second. A server that can answer
//! 1 000 requests a second stalls for 30 s. The clients obey the real `RetryPolicy` and pay from
//! the real `TokenBucket`, on virtual time. Three attempts triple the load. The server is busy with
//! requests that nobody waits for any more, so it stays down long after the outage is over. With a
//! budget it is back after 5 s, with a shared cool-down after 3 s, and everyday failures are still
//! healed.
//!
//! <style>.docblock svg { max-width: 100%; height: auto; }</style>
//!
//! Requests a second that reach the server, for six kinds of client:
//!
#![doc = include_str!("../../docs/storm-load.svg")]
//!
//! Answers in time a second, for the same six:
//!
#![doc = include_str!("../../docs/storm-goodput.svg")]
//!
//! `cargo run --release --example storm -- --out docs` draws them, and the others in `docs`: of
//! failures, of contention, of a fleet. It also reproduces the published simulations of AWS
//! ("Exponential Backoff And Jitter") and Marc Brooker (token buckets, metastable failure), and
//! fails when a number leaves its tolerance; `tests/it/tables/storm.rs` does the same with fewer
//! runs.
