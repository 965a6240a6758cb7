//! What one attempt came back with, and what that proves: two different questions, kept apart so that no status is taken for a proof.

use std::fmt;

use http::StatusCode;

/// What one attempt, or the probe after it, came back with: the fact a decision starts from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub enum Signal {
    /// The server answered; the policy's [`RetryStatuses`] decide what the status means.
    Answered(#[cfg_attr(feature = "serde", serde(with = "super::trace::status"))] StatusCode),
    /// The server answered, and the endpoint (a verdict, a replay marker, a second 425) says that this is the result.
    Final(#[cfg_attr(feature = "serde", serde(with = "super::trace::status"))] StatusCode),
    /// The server answered, and the endpoint says that trying again can help, whatever the policy's statuses.
    Resendable(#[cfg_attr(feature = "serde", serde(with = "super::trace::status"))] StatusCode),
    /// The server says that the first copy of this keyed write is still being processed.
    KeyInUse,
    /// No answer: the transport failed or a limit ended the attempt.
    Failed,
    /// No answer, and repeating cannot help: bad URL, untrusted certificate, too many redirects, an inner middleware's own error.
    Broken,
    /// The head of a final answer arrived, its body did not. Under a retryable status the signal is [`Signal::Answered`].
    BodyLost(#[cfg_attr(feature = "serde", serde(with = "super::trace::status"))] StatusCode),
    /// The server asks not to be sent this again.
    Forbidden,
    /// The status probe found no trace of the operation, long enough after the last attempt to count.
    ProbedAbsent,
}

impl Signal {
    /// Whether the server says "too much" rather than "something broke": 429 (RFC 6585 §4), 503 (RFC 9110 §15.6.4) and a key in use.
    #[must_use]
    pub fn is_throttle(self) -> bool {
        match self {
            Self::KeyInUse => true,
            Self::Answered(status) | Self::Resendable(status) => {
                matches!(status, StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE)
            }
            Self::Final(_) | Self::Failed | Self::Broken | Self::BodyLost(_) | Self::Forbidden | Self::ProbedAbsent => false,
        }
    }

    /// The status this signal carries, if the server answered with one that the signal keeps.
    #[must_use]
    pub const fn status(self) -> Option<StatusCode> {
        match self {
            Self::Answered(status) | Self::Final(status) | Self::Resendable(status) | Self::BodyLost(status) => Some(status),
            Self::KeyInUse | Self::Failed | Self::Broken | Self::Forbidden | Self::ProbedAbsent => None,
        }
    }
}

/// What is proven about whether the server may have acted.
///
/// Ordered from proof to ignorance: the evidence of an operation is the [`max`](Ord::max) of its attempts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[expect(clippy::exhaustive_enums, reason = "proven or not: a third value would be a guess")]
pub enum Evidence {
    /// The server cannot have acted: nothing complete reached it, or the protocol says that it refused to process.
    Unprocessed,
    /// Nobody on this side can know.
    Unknown,
}

impl Evidence {
    /// What an answer's status proves by definition.
    ///
    /// Only 425 Too Early says "not processed" (RFC 8470 §5.2). 408, 429 and every 5xx may come after the effect.
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

/// The statuses after which trying again can help. Every other status is a final answer.
///
/// # Default
/// 408, 425, 429, 500, 502, 503, 504 ([`RetryStatuses::DEFAULT`]). 501, 505 and the rest of 5xx will not heal by repeating.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct RetryStatuses([u64; Self::WORDS]);

impl RetryStatuses {
    const FIRST: u16 = 100;
    const WORDS: usize = 15; // 100..=999, what `StatusCode` can hold

    /// No status at all: every answer is final.
    pub const NONE: Self = Self([0; Self::WORDS]);

    /// 408 425 429 500 502 503 504: each can pass by itself (RFC 9110 §15, RFC 6585 §4, RFC 8470 §5.2).
    pub const DEFAULT: Self = Self::NONE
        .with(StatusCode::REQUEST_TIMEOUT)
        .with(StatusCode::TOO_EARLY)
        .with(StatusCode::TOO_MANY_REQUESTS)
        .with(StatusCode::INTERNAL_SERVER_ERROR)
        .with(StatusCode::BAD_GATEWAY)
        .with(StatusCode::SERVICE_UNAVAILABLE)
        .with(StatusCode::GATEWAY_TIMEOUT);

    /// 429 and 503: the two statuses that mean "too much".
    pub const THROTTLING: Self = Self::NONE.with(StatusCode::TOO_MANY_REQUESTS).with(StatusCode::SERVICE_UNAVAILABLE);

    /// Adds one status.
    #[must_use]
    pub const fn with(mut self, status: StatusCode) -> Self {
        let (word, bit) = Self::place(status);
        self.0[word] |= bit;
        self
    }

    /// Removes one status.
    #[must_use]
    pub const fn without(mut self, status: StatusCode) -> Self {
        let (word, bit) = Self::place(status);
        self.0[word] &= !bit;
        self
    }

    /// Whether trying again after this status can help.
    #[must_use]
    pub const fn contains(&self, status: StatusCode) -> bool {
        let (word, bit) = Self::place(status);
        self.0[word] & bit != 0
    }

    /// The statuses of the set, ascending.
    pub fn iter(&self) -> impl Iterator<Item = StatusCode> + '_ {
        (Self::FIRST..1000).filter_map(|code| StatusCode::from_u16(code).ok()).filter(|status| self.contains(*status))
    }

    const fn place(status: StatusCode) -> (usize, u64) {
        let index = status.as_u16().saturating_sub(Self::FIRST) as usize;
        let word = index / 64;
        // A status is 100..=999 by construction, so the index fits; the fold keeps this total even if that ever changes.
        (if word < Self::WORDS { word } else { Self::WORDS - 1 }, 1 << (index % 64))
    }
}

impl Default for RetryStatuses {
    fn default() -> Self {
        Self::DEFAULT
    }
}

impl FromIterator<StatusCode> for RetryStatuses {
    fn from_iter<I: IntoIterator<Item = StatusCode>>(statuses: I) -> Self {
        statuses.into_iter().fold(Self::NONE, Self::with)
    }
}

impl fmt::Debug for RetryStatuses {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.iter().map(|status| status.as_u16())).finish()
    }
}
