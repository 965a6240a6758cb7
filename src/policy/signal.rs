//! What one attempt came back with, and what that proves: two different questions, kept apart so
//! that no status is taken for a proof.

use std::fmt;

use http::StatusCode;

use super::RetryStatuses;

/// What one attempt, or the probe after it, came back with: the fact a decision starts from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub enum Signal {
    /// The server answered; the policy's [`RetryStatuses`] decide what the status means.
    Answered(#[cfg_attr(feature = "serde", serde(with = "super::trace::status"))] StatusCode),
    /// The server answered, and the endpoint (a verdict, a replay marker, a second 425) says that
    /// this is the result.
    Final(#[cfg_attr(feature = "serde", serde(with = "super::trace::status"))] StatusCode),
    /// The server answered, and the endpoint says that trying again can help, whatever the policy's
    /// statuses.
    Resendable(#[cfg_attr(feature = "serde", serde(with = "super::trace::status"))] StatusCode),
    /// The server answered, and the endpoint says that it has too much to do: as
    /// [`Signal::Resendable`], after the longer backoff.
    Overloaded(#[cfg_attr(feature = "serde", serde(with = "super::trace::status"))] StatusCode),
    /// The server says that the first copy of this keyed write is still being processed.
    KeyInUse,
    /// No answer: the transport failed or a limit ended the attempt.
    Failed,
    /// No answer, and repeating cannot help: bad URL, untrusted certificate, too many redirects, an
    /// inner middleware's own error.
    Broken,
    /// The head of a final answer arrived, its body did not. Under a retryable status the signal is
    /// [`Signal::Answered`].
    BodyLost(#[cfg_attr(feature = "serde", serde(with = "super::trace::status"))] StatusCode),
    /// The server asks not to be sent this again.
    Forbidden,
    /// The status probe found no trace of the operation, long enough after the last attempt to
    /// count.
    ProbedAbsent,
    /// Nothing was sent yet, and the caller says that an earlier process may have sent it.
    SentBefore,
}

impl Signal {
    /// Whether the server says "too much" rather than "something broke": 429
    /// ([RFC 6585 §4](https://www.rfc-editor.org/rfc/rfc6585#section-4)), 503
    /// ([RFC 9110 §15.6.4](https://www.rfc-editor.org/rfc/rfc9110#section-15.6.4)), 529 (Anthropic,
    /// Shopify, Qualys), an endpoint's [`Overloaded`](Self::Overloaded) and a key in use.
    ///
    /// ```
    /// use http::StatusCode;
    /// use reqwest_safe_retry::policy::{Evidence, Signal};
    ///
    /// assert!(Signal::Answered(StatusCode::TOO_MANY_REQUESTS).is_throttle());
    /// assert!(!Signal::Answered(StatusCode::BAD_GATEWAY).is_throttle());
    /// // Both may have acted; only "too early" says that nothing did.
    /// assert_eq!(Evidence::of_status(StatusCode::TOO_MANY_REQUESTS), Evidence::Unknown);
    /// assert_eq!(Evidence::of_status(StatusCode::TOO_EARLY), Evidence::Unprocessed);
    /// ```
    #[must_use]
    pub const fn is_throttle(self) -> bool {
        match self {
            Self::KeyInUse | Self::Overloaded(_) => true,
            Self::Answered(status) | Self::Resendable(status) => RetryStatuses::TOO_MUCH.contains(status),
            Self::Final(_) | Self::Failed | Self::Broken | Self::BodyLost(_) | Self::Forbidden | Self::ProbedAbsent | Self::SentBefore => {
                false
            }
        }
    }

    /// The status this signal carries, if the server answered with one that the signal keeps.
    #[must_use]
    pub const fn status(self) -> Option<StatusCode> {
        match self {
            Self::Answered(status) | Self::Final(status) | Self::Resendable(status) | Self::Overloaded(status) | Self::BodyLost(status) => {
                Some(status)
            }
            Self::KeyInUse | Self::Failed | Self::Broken | Self::Forbidden | Self::ProbedAbsent | Self::SentBefore => None,
        }
    }
}

/// What is proven about whether the server may have acted.
///
/// Ordered from proof to ignorance: the evidence of an operation is the [`max`](Ord::max) of its
/// attempts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[expect(clippy::exhaustive_enums, reason = "proven or not: a third value would be a guess")]
pub enum Evidence {
    /// The server cannot have acted: nothing complete reached it, or the protocol says that it
    /// refused to process.
    Unprocessed,
    /// Nobody on this side can know.
    Unknown,
}

impl Evidence {
    /// What an answer's status proves by definition.
    ///
    /// Only 425 Too Early says "not processed" ([RFC 8470 §5.2]). 408, 429 and every 5xx may come
    /// after the effect.
    ///
    /// [RFC 8470 §5.2]: https://www.rfc-editor.org/rfc/rfc8470#section-5.2
    #[must_use]
    pub fn of_status(status: StatusCode) -> Self {
        if status == StatusCode::TOO_EARLY { Self::Unprocessed } else { Self::Unknown }
    }
}

impl fmt::Display for Evidence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Unprocessed => "not processed",
            Self::Unknown => "unknown",
        })
    }
}
