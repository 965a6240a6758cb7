//! What outlives a process: that an operation may have been sent before this one began.
//!
//! A process that is killed in the middle of a write leaves a row in its database and no answer.
//! The one that finds the row knows nothing about the first send but when it was about to happen,
//! and that is enough to keep it from being a second one.

use std::time::SystemTime;

/// Says that an earlier process may have sent this operation: after a crash, a restart, or a task
/// that was handed on.
///
/// A request extension. The operation then begins as it would go on after an attempt whose answer
/// was lost: nothing goes out until the policy has decided about it
/// ([`Signal::SentBefore`](crate::policy::Signal::SentBefore)).
///
/// * Reads and idempotent writes are sent.
/// * A keyed write is sent under its key, which has to be the one of then: keep it in the same row,
///   or derive it. `since` counts as its first use; where the key says itself when it was [first
///   used](crate::IdempotencyKey::first_used), the earlier of the two wins. If the server may have
///   forgotten the key, the endpoint's probe is asked, and without one the operation ends with
///   [`KeyExpired`](crate::Misuse::KeyExpired). A key that has to be *made* is not the key of then
///   and protects nothing.
/// * A write with a probe is asked about first. That it is *absent* counts once the endpoint's
///   [settling time](crate::Endpoint::settling) has passed since the start of *this* operation: the
///   earlier process may have sent until its end, which nobody wrote down.
/// * Everything else ends as [`OutcomeUnknown`](crate::RetryError::OutcomeUnknown), and nothing is
///   sent.
///
/// All attempts are still to be had. The first send pays nothing from the
/// [budget](crate::RetryBudget), nor does a question before it: a process that has just started has
/// earned nothing yet. The [report](crate::RetryReport::sent_before) tells what was decided.
///
/// Write the time down *before* the first send, in the transaction that decides to send.
///
/// # Default
/// Without it nothing was sent before, unless a key says when it was first used.
///
/// # Examples
/// ```no_run
/// # use reqwest_middleware::{ClientWithMiddleware, Result};
/// use reqwest_safe_retry::{Endpoint, IdempotencyKey, KeyContract, SentBefore};
/// use std::time::SystemTime;
///
/// struct Row { key: IdempotencyKey, sent_at: Option<SystemTime> }
///
/// # async fn run(client: ClientWithMiddleware, row: Row) -> Result<()> {
/// let mut order = client.post("https://api.example/orders").body("1 coffee")
///     .with_extension(Endpoint::keyed_write(KeyContract::STRIPE))
///     .with_extension(row.key);
/// if let Some(sent_at) = row.sent_at {
///     order = order.with_extension(SentBefore::since(sent_at));
/// }
/// order.send().await?;
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[must_use]
pub struct SentBefore {
    since: SystemTime,
}

impl SentBefore {
    /// The operation may have been sent at any time from `since` on.
    ///
    /// A time in the future is that of another clock. Up to [5
    /// minutes](crate::policy::defaults::CREDIBLE_SKEW) ahead it counts as now; a key whose first
    /// use lies further ahead has an age that nobody knows, and counts as forgotten.
    pub const fn since(since: SystemTime) -> Self {
        Self { since }
    }

    /// The first use of the key that the operation was sent under.
    pub(crate) fn first_use(self, of_the_key: Option<SystemTime>) -> SystemTime {
        of_the_key.map_or(self.since, |first_use| first_use.min(self.since))
    }
}
