//! How do I move a program here, and what will it do differently?
//!
//! `cargo run --features testing --example migrate` runs an old program and the new one against the
//! same misbehaving server. Both may send again three times:
//!
//! | what happens | reqwest-retry 0.9 sends | this crate sends | why |
//! |---|---|---|---|
//! | a read, 503 once, then 200 | 2 | 2 | |
//! | a read, 500 | 4 | 4 | |
//! | a read, 501 or 522 | 4 | 1 | not in the default statuses, and no report: the answer is final |
//! | a write, its answer is lost | 4 | 1 | it may have been processed |
//! | a write, 503 | 4 | 1 | the same |
//! | a write with a key that you wrote into a header, its answer is lost | 4 | 1 | no contract says that the server honours it |
//! | the same, with [`Endpoint::keyed_write`](crate::Endpoint::keyed_write) | 4 | 4 | the key makes it act once |
//!
//! # From reqwest-retry
//!
//! | old | new |
//! |---|---|
//! | `RetryTransientMiddleware::new_with_policy(policy)` | [`SafeRetry::new()`](crate::SafeRetry::new)`.with_policy(policy)`, and [`client(builder)`](crate::SafeRetry::client), or a [`SendWitness`](crate::SendWitness) as the last middleware |
//! | its place among the middlewares | the same; [`order`](super::order) says where the others go |
//! | `build_with_max_retries(3)` | [`with_attempts(4)`](crate::RetryPolicy::with_attempts): the first send counts |
//! | `retry_bounds(first, longest)` | [`Backoff::doubling(first, longest)`](crate::policy::Backoff::doubling), in `with_backoff` **and** in `with_throttle_backoff` (429 and 503) |
//! | `base(2)` | that is doubling; there is no `base(3)`: choose a longer first pause |
//! | `jitter(Jitter::Full)` | the default; [`Jitter::Equal`](crate::policy::Jitter::Equal) and `None` are in `Backoff::with_jitter` |
//! | `build_with_total_retry_duration(limit)` | window, attempts *and* budget, as below |
//! | a `RetryableStrategy` that looks at statuses | [`with_statuses`](crate::RetryPolicy::with_statuses), or [`classified_by`](crate::Endpoint::classified_by) on an endpoint |
//! | its `Retryable::Fatal` for a status | [`RetryStatuses::without`](crate::policy::RetryStatuses::without) for the client, [`Verdict::Final`](crate::Verdict::Final) from an endpoint's classifier |
//! | `DefaultRetryableStrategy`: 408, 429, all 5xx | the default statuses: 408, 425, 429, 500, 502, 503, 504 |
//! | a `RetryableStrategy` that looks at errors | no counterpart: an error is judged by what it proves. State the effect with an [`Endpoint`](crate::Endpoint) |
//! | `Error::Middleware(WithRetries)` | a read keeps its `reqwest::Error`, and so does a write that nothing marks; a marked write gets a [`RetryError`](crate::RetryError) |
//! | `client.post(..)`, unmarked | sent once; [`with_default_write`](crate::SafeRetry::with_default_write)`(Endpoint::unprotected_write())` marks all, and a lost answer is an `OutcomeUnknown` |
//! | streaming bodies are refused | they are sent once; a [`ReplayBody`](crate::ReplayBody) makes them repeatable |
//!
//! A write that you mark as keyed is sent again after a 500, too, whatever the old strategy said of
//! writes. If the server must not see it again then, say so:
//! `classified_by(|answer| (answer.status() == 500).then_some(Verdict::Final))`.
//!
//! A total duration was the only limit. Here attempts and budget are limits, too, so all three are
//! set. Without `UNLIMITED` the program stops earlier, with
//! [`StopReason::BudgetSpent`](crate::StopReason::BudgetSpent):
//!
//! ```
//! use reqwest_safe_retry::{BudgetLimits, RetryBudget, RetryPolicy, SafeRetry, policy::Backoff};
//! use std::time::Duration;
//!
//! // Old: ExponentialBackoff::builder().retry_bounds(1 s, 60 s).build_with_total_retry_duration(1 h)
//! let backoff = Backoff::doubling(Duration::from_secs(1), Duration::from_secs(60));
//! let policy = RetryPolicy::DEFAULT
//!     .with_backoff(backoff)
//!     .with_throttle_backoff(backoff)
//!     .with_attempts(u32::MAX)
//!     .with_window(Duration::from_secs(3600));
//! let retry = SafeRetry::new()
//!     .with_policy(policy)
//!     .with_budget(RetryBudget::new(BudgetLimits::UNLIMITED))
//!     .with_attempt_limit(Duration::from_secs(30)); // the window cuts nothing, and a hang would last
//! ```
//!
//! More statuses for the whole client, as the old program had them:
//!
//! ```
//! use reqwest::StatusCode;
//! use reqwest_safe_retry::{RetryPolicy, SafeRetry, policy::RetryStatuses};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let statuses = RetryStatuses::DEFAULT.with(StatusCode::NOT_IMPLEMENTED).with(StatusCode::from_u16(522)?);
//! let retry = SafeRetry::new().with_policy(RetryPolicy::DEFAULT.with_statuses(statuses));
//! # Ok(())
//! # }
//! ```
//!
//! A classifier for all reads of an origin is one row of a catalogue. The row also states the
//! effect, so keep it to reads:
//!
//! ```
//! use reqwest_safe_retry::{Endpoint, EndpointCatalog, Row, SafeRetry, Verdict, errors::CatalogError};
//!
//! fn retry() -> Result<SafeRetry, CatalogError> {
//!     let read = Endpoint::read().classified_by(|answer| answer.headers().contains_key("x-try-later").then_some(Verdict::Resendable));
//!     Ok(SafeRetry::new().with_catalog(EndpointCatalog::new().with_row("https://api.example", Row::get("/{*rest}", read))?))
//! }
//! # retry()?;
//! # Ok::<(), CatalogError>(())
//! ```
//!
//! # The budget
//!
//! Fifty reads, of which two in three sends fail, with up to four sends each:
//!
//! | program | sends | good answers |
//! |---|---|---|
//! | reqwest-retry | 150 | 50 |
//! | this crate | 69 | 23 |
//! | this crate, `BudgetLimits::percent(200)` or `UNLIMITED` | 150 | 50 |
//!
//! In front of a service that many programs share, 23 is right: a server that fails two in three
//! sends is overloaded, and three times the load keeps it there. For a batch that has the server to
//! itself, size the budget by the share of sends that you expect to fail: with a share of *f*, each
//! operation takes *f / (1 − f)* resends on average, so two in three need `percent(200)`.
//!
//! # From `reqwest::retry`
//!
//! | old | new |
//! |---|---|
//! | `retry::for_host(host).classify_fn(..)` | an [`EndpointCatalog`](crate::EndpointCatalog) row for the origin; the method decides where there is none |
//! | `max_retries_per_request(2)` | `with_attempts(3)` |
//! | `max_extra_load(0.2)` | [`BudgetLimits::percent(20)`](crate::BudgetLimits::percent), the default, per origin |
//! | no pause | backoff, and `Retry-After` is obeyed |
//!
//! Leave it off: the paved road sets `retry::never()`. A resend below this crate is unseen.
//!
//! # From tower's retry
//!
//! A `Policy` that clones requests and looks at results becomes a
//! [`RetryPolicy`](crate::RetryPolicy) and an endpoint; a `TpsBudget` becomes
//! [`BudgetLimits`](crate::BudgetLimits). Requests of a `Service` carry no extensions
//! ([`order`](super::order)). Remove the `RetryLayer`: around this client its sends multiply.
//!
//! # From backoff, backon, again and loops by hand
//!
//! Remove the loop around the call; what it counted goes into the policy. What changes:
//!
//! * The limit of the loop becomes a [`Deadline`](crate::Deadline) over attempts, pauses and body.
//! * A closure that makes the request anew makes its key anew. A key belongs to the operation: here
//!   it is made once.
//! * For another try *after* this crate has ended, by a job that runs later, use the key of the
//!   error ([`RetryError::key`](crate::RetryError::key)), or
//!   [`IdempotencyKey::derived`](crate::IdempotencyKey::derived) from what the operation is.
//! * A loop that is not about HTTP can ask the engine alone
//!   ([`RetryPolicy::decide`](crate::RetryPolicy::decide)).
