//! What operations do to the world, and what protects it from doing it twice.

use std::time::Duration;

use http::{HeaderName, Method, StatusCode};
use reqwest_safe_retry::{Endpoint, KeyContract, StatusUrl, errors::InvalidStatusUrl};

use crate::limits::{BRIEF_PROMISE, LONG_MEMORY, SETTLING};

/// The kinds of operations. Each has a path of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Class {
    Read,
    Put,
    /// Under a key that is remembered for an hour.
    Keyed,
    /// Under a key that is soon forgotten.
    Brief,
    /// The same, with a probe for afterwards.
    BriefProbed,
    Probed,
    Unprotected,
    /// Its 503 says that nothing was done, and the client knows.
    Trusting,
    Never,
    /// A POST that nothing marks.
    Unmarked,
}

/// How often an operation may act.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Protection {
    /// As often as it likes.
    Repeatable,
    /// Once, and a second copy would be recognised: what counts is what the database holds.
    Recognised,
    /// Once, and a second copy would act: what counts is every request head that the server did not
    /// refuse.
    None,
}

/// The refusal that the class `trusting` trusts.
pub(crate) const TRUSTED: StatusCode = StatusCode::SERVICE_UNAVAILABLE;

pub(crate) const REPLAYED: HeaderName = HeaderName::from_static("idempotent-replayed");

/// Longer than every body of the upstream.
const MOST_BODY: usize = 4096;

impl Class {
    pub(crate) const ALL: [Self; 10] = [
        Self::Read,
        Self::Put,
        Self::Keyed,
        Self::Brief,
        Self::BriefProbed,
        Self::Probed,
        Self::Unprotected,
        Self::Trusting,
        Self::Never,
        Self::Unmarked,
    ];

    /// In paths and tables.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Put => "put",
            Self::Keyed => "keyed",
            Self::Brief => "brief",
            Self::BriefProbed => "brief-probed",
            Self::Probed => "probed",
            Self::Unprotected => "unprotected",
            Self::Trusting => "trusting",
            Self::Never => "never",
            Self::Unmarked => "unmarked",
        }
    }

    pub(crate) fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|class| class.name() == name)
    }

    pub(crate) const fn method(self) -> Method {
        match self {
            Self::Read => Method::GET,
            Self::Put => Method::PUT,
            Self::Keyed
            | Self::Brief
            | Self::BriefProbed
            | Self::Probed
            | Self::Unprotected
            | Self::Trusting
            | Self::Never
            | Self::Unmarked => Method::POST,
        }
    }

    pub(crate) const fn protection(self) -> Protection {
        match self {
            Self::Read | Self::Put => Protection::Repeatable,
            Self::Keyed | Self::Brief | Self::BriefProbed | Self::Probed => Protection::Recognised,
            Self::Unprotected | Self::Trusting | Self::Never | Self::Unmarked => Protection::None,
        }
    }

    pub(crate) const fn is_write(self) -> bool {
        !matches!(self, Self::Read)
    }

    pub(crate) const fn is_keyed(self) -> bool {
        matches!(self, Self::Keyed | Self::Brief | Self::BriefProbed)
    }

    /// How long the server really remembers a key of this class.
    pub(crate) const fn memory(self) -> Duration {
        match self {
            Self::Brief | Self::BriefProbed => crate::limits::BRIEF_MEMORY,
            Self::Read | Self::Put | Self::Keyed | Self::Probed | Self::Unprotected | Self::Trusting | Self::Never | Self::Unmarked => {
                LONG_MEMORY
            }
        }
    }

    /// What the caller states. The class `unmarked` states nothing.
    pub(crate) fn endpoint(self) -> Result<Option<Endpoint>, InvalidStatusUrl> {
        let contract = |remembered_for| KeyContract::ietf(remembered_for).with_replay_marker(REPLAYED);
        let probe = || StatusUrl::by_path("/{class}/{operation}", "/status/{operation}");
        let endpoint = match self {
            Self::Read => Endpoint::read(),
            Self::Put => Endpoint::idempotent_write().reading_body(MOST_BODY),
            Self::Keyed => Endpoint::keyed_write(contract(LONG_MEMORY)).reading_body(MOST_BODY),
            Self::Brief => Endpoint::keyed_write(contract(BRIEF_PROMISE)),
            Self::BriefProbed => Endpoint::keyed_write(contract(BRIEF_PROMISE)).probed_by(probe()?).settling(SETTLING),
            Self::Probed => Endpoint::probed_write(probe()?).settling(SETTLING).reading_body(MOST_BODY),
            Self::Unprotected => Endpoint::unprotected_write(),
            Self::Trusting => Endpoint::unprotected_write().trusting_refusal(TRUSTED),
            Self::Never => Endpoint::never_resend(),
            Self::Unmarked => return Ok(None),
        };
        Ok(Some(endpoint.named(self.name())))
    }

    /// Whether a shared cool-down hears of a wait at once: a body that is read first delays it.
    pub(crate) const fn tells_waits_at_once(self) -> bool {
        !matches!(self, Self::Put | Self::Keyed | Self::Probed)
    }
}
