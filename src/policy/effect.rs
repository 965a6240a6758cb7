//! What sending a request again does to the world: the first question, and one that only the caller can answer for certain. The method
//! answers it for requests that say nothing.

use std::time::Duration;

use http::Method;

/// What sending the operation again does to the world.
///
/// The method gives the effect of a request that nothing else describes ([`Effect::of_method`], RFC 9110 §9.2); an endpoint may know
/// better, because a POST can be harmless to repeat and a GET can be forbidden to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub enum Effect {
    /// Nothing changes: safe methods (RFC 9110 §9.2.1).
    Read,
    /// Applying it twice leaves the same state as applying it once (RFC 9110 §9.2.2).
    IdempotentWrite,
    /// The server recognises a second copy by its key, for as long as it remembers the key.
    KeyedWrite {
        /// How long after the first send the server still recognises the key.
        remembered_for: Duration,
        /// What to do about an unknown result once the key may be forgotten.
        lapsed: Lapsed,
    },
    /// A second copy would act twice, but a status endpoint can tell whether the first one did.
    ProbedWrite,
    /// A second copy would act twice, and nobody can tell whether the first one did.
    UnprotectedWrite,
    /// The caller forbids any resend, even one that is proven harmless.
    NeverResend,
}

impl Effect {
    /// The effect that the method alone promises.
    ///
    /// GET, HEAD, OPTIONS and TRACE read; PUT and DELETE are idempotent; everything else, methods unknown to us included, is an
    /// unprotected write (RFC 9110 §9.2.1, §9.2.2).
    #[must_use]
    pub fn of_method(method: &Method) -> Self {
        match *method {
            Method::GET | Method::HEAD | Method::OPTIONS | Method::TRACE => Self::Read,
            Method::PUT | Method::DELETE => Self::IdempotentWrite,
            _ => Self::UnprotectedWrite,
        }
    }

    /// Whether the operation changes anything when it is sent once.
    #[must_use]
    pub const fn is_write(self) -> bool {
        match self {
            Self::Read => false,
            Self::IdempotentWrite | Self::KeyedWrite { .. } | Self::ProbedWrite | Self::UnprotectedWrite | Self::NeverResend => true,
        }
    }

    /// Whether there is anything after which the operation may be sent again.
    #[must_use]
    pub const fn allows_resends(self) -> bool {
        match self {
            Self::Read | Self::IdempotentWrite | Self::KeyedWrite { .. } | Self::ProbedWrite | Self::UnprotectedWrite => true,
            Self::NeverResend => false,
        }
    }

    /// Whether the server may have forgotten a key of this age. An effect without a key has none to
    /// forget.
    #[must_use]
    pub fn key_has_lapsed(self, key_age: Duration) -> bool {
        match self {
            Self::KeyedWrite { remembered_for, .. } => key_age >= remembered_for,
            Self::Read | Self::IdempotentWrite | Self::ProbedWrite | Self::UnprotectedWrite | Self::NeverResend => false,
        }
    }
}

/// What becomes of a keyed write whose key the server may have forgotten.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[expect(clippy::exhaustive_enums, reason = "either there is a way to ask or there is none")]
pub enum Lapsed {
    /// Stop with [`StopReason::KeyExpired`](super::StopReason::KeyExpired): a resend would be a new operation.
    Stop,
    /// Ask the endpoint's status probe.
    Probe,
}
