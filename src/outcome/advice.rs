//! What was noticed about how an operation was sent, and should be mended in the program.

use std::fmt;

/// Something that weakens the protection of an operation, or hides what happens to it.
///
/// It stands in the report ([`RetryReport::advice`](crate::RetryReport::advice)), and a log line at
/// WARN with the target `reqwest_safe_retry::advice` tells it once for each origin. What is meant
/// as it is can be silenced: [`SafeRetry::without_advice`](crate::SafeRetry::without_advice).
///
/// # Examples
/// A test of your own client that fails when there is something to mend:
/// ```no_run
/// # async fn run(client: reqwest_middleware::ClientWithMiddleware) -> reqwest_middleware::Result<()> {
/// use reqwest_safe_retry::ReportSlot;
///
/// let slot = ReportSlot::new();
/// let order = client.post("https://api.example/orders").body("1 coffee");
/// order.with_extension(slot.clone()).send().await?;
/// for advice in slot.take().iter().flat_map(|report| report.advice()) {
///     panic!("{advice}");
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub enum Advice {
    /// An inner middleware replaced the idempotency key or took it away, so the key protects
    /// nothing, and no resend relied on it any more. Let one of the two make the key.
    KeyReplaced,
    /// A redirect led to another origin, which does not know the key, so no resend relied on it any
    /// more. Turn redirects off, or call the other origin.
    KeyLeftHome,
    /// An inner middleware sent the request more often than the report has attempts. Remove it: its
    /// sends know no deadline, no budget and no protection.
    SentMoreOften,
    /// The request carries an idempotency key in a header, but nothing says that the server honours
    /// it, so no resend relied on it. State it with
    /// [`Endpoint::keyed_write`](crate::Endpoint::keyed_write).
    KeyWithoutContract,
    /// A resend would have followed, but the body was a stream, and a stream can be sent only once
    /// ([`StopReason::BodyConsumed`](crate::StopReason::BodyConsumed)). Give the request a
    /// [`ReplayBody`](crate::ReplayBody) or a [`ReplayRequest`](crate::ReplayRequest).
    StreamWithoutFactory,
    /// The deadline of the endpoint or the client is not longer than the limit of one attempt: an
    /// attempt that hangs takes all of it, and no resend can follow. A deadline that a request or a
    /// scope brings is not judged: what the caller has left may well be short.
    DeadlineWithinAttempt,
    /// The deadline of the endpoint or the client is not longer than the
    /// [settling time](crate::Endpoint::settling): the probe's *absent* never counts, and the
    /// operation ends as unknown.
    DeadlineWithinSettling,
    /// A write was lost at once, on a connection that the server may have closed because nobody
    /// used it: it has said in `Keep-Alive` how long it keeps one. Most such writes never ran, and
    /// nobody can prove it. Have the client close first: set
    /// [`pool_idle_timeout`](reqwest::ClientBuilder::pool_idle_timeout) below the server's.
    IdleConnection,
    /// Many clients of this process were dropped soon after their first request, each with a budget
    /// of its own, so the budgets bound nothing: most likely a client is built for each request.
    /// Build it once and clone it, or give all of them one [`RetryBudget`](crate::RetryBudget).
    /// It stands in no report: a young client's request makes it known, once for the process.
    BudgetNotShared,
}

impl fmt::Display for Advice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::KeyReplaced => {
                "an inner middleware replaced the idempotency key, so it protects nothing: let one of the two make it (guide::keys)"
            }
            Self::KeyLeftHome => {
                "a redirect led to another origin, which does not know the idempotency key: turn redirects off (guide::keys)"
            }
            Self::SentMoreOften => {
                "an inner middleware sent the request more often than this crate knows: remove its resends (guide::order)"
            }
            Self::KeyWithoutContract => {
                "an idempotency key was sent that no contract speaks of, so nothing relies on it: state Endpoint::keyed_write (guide::keys)"
            }
            Self::StreamWithoutFactory => {
                "the body is a stream, so it was not sent again: give the request a ReplayBody or a ReplayRequest"
            }
            Self::DeadlineWithinAttempt => {
                "the deadline is not longer than the attempt limit, so no resend can follow a hang: shorten the limit (guide::deadlines)"
            }
            Self::DeadlineWithinSettling => {
                "the deadline is not longer than the settling time, so the probe's absent never counts: lengthen it (guide::probes)"
            }
            Self::IdleConnection => {
                "a write was lost as the server closed a connection, perhaps an idle one: set pool_idle_timeout below its Keep-Alive timeout (guide::connections)"
            }
            Self::BudgetNotShared => {
                "many clients were built and dropped, each with a budget of its own: build one and clone it (guide::budgets)"
            }
        })
    }
}
