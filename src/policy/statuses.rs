//! The statuses after which trying again can help, as a set that fits into a `const`.

use std::fmt;

use http::StatusCode;

/// The statuses after which trying again can help. Every other status is a final answer.
///
/// # Default
/// 408, 425, 429, 500, 502, 503, 504 ([`RetryStatuses::DEFAULT`]). 501, 505 and the rest of 5xx
/// will not heal by repeating.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
#[doc(alias("retryable status", "status codes"))]
pub struct RetryStatuses([u64; Self::WORDS]);

impl RetryStatuses {
    const FIRST: u16 = 100;
    const WORDS: usize = 15; // 100..=999, what `StatusCode` can hold

    /// No status at all: every answer is final.
    pub const NONE: Self = Self([0; Self::WORDS]);

    /// 429 and 503: the two statuses that mean "too much".
    pub const THROTTLING: Self = Self::NONE.with(StatusCode::TOO_MANY_REQUESTS).with(StatusCode::SERVICE_UNAVAILABLE);

    /// 429, 503 and 529, which several vendors answer when they are overloaded.
    pub(super) const TOO_MUCH: Self = Self::THROTTLING.with_code(529);

    /// 408, 425, 429, 502, 503, 504: what a proxy, a limiter or the server's front answers before
    /// the operation has run.
    pub(super) const BEFORE_RUNNING: Self = Self::NONE
        .with(StatusCode::REQUEST_TIMEOUT)
        .with(StatusCode::TOO_EARLY)
        .with(StatusCode::TOO_MANY_REQUESTS)
        .with(StatusCode::BAD_GATEWAY)
        .with(StatusCode::SERVICE_UNAVAILABLE)
        .with(StatusCode::GATEWAY_TIMEOUT);

    /// Adds one status.
    #[must_use]
    pub const fn with(self, status: StatusCode) -> Self {
        self.with_code(status.as_u16())
    }

    const fn with_code(mut self, code: u16) -> Self {
        let (word, bit) = Self::place(code);
        self.0[word] |= bit;
        self
    }

    /// Removes one status.
    #[must_use]
    pub const fn without(mut self, status: StatusCode) -> Self {
        let (word, bit) = Self::place(status.as_u16());
        self.0[word] &= !bit;
        self
    }

    /// Whether trying again after this status can help.
    #[must_use]
    pub const fn contains(&self, status: StatusCode) -> bool {
        let (word, bit) = Self::place(status.as_u16());
        self.0[word] & bit != 0
    }

    /// The statuses of the set, ascending.
    pub fn iter(&self) -> impl Iterator<Item = StatusCode> + '_ {
        (Self::FIRST..1000).filter_map(|code| StatusCode::from_u16(code).ok()).filter(|status| self.contains(*status))
    }

    const fn place(code: u16) -> (usize, u64) {
        let index = code.saturating_sub(Self::FIRST) as usize;
        let word = index / 64;
        // A status is 100..=999 by construction, so the index fits; the fold keeps this total even
        // if that ever changes.
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
