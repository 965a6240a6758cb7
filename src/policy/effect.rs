//! What sending a request again does to the world: the first question, and one that only the caller
//! can answer for certain. The method answers it for requests that say nothing.

use std::time::Duration;

use http::Method;

use super::every_variant;

/// What sending the operation again does to the world.
///
/// The method gives the effect of a request that nothing else describes ([`Effect::of_method`], RFC
/// 9110 §9.2); an endpoint may know better, because a POST can be harmless to repeat and a GET can
/// be forbidden to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub enum Effect {
    /// Nothing changes: safe methods ([RFC 9110 §9.2.1]).
    ///
    /// [RFC 9110 §9.2.1]: https://www.rfc-editor.org/rfc/rfc9110#section-9.2.1
    Read,
    /// Applying it twice leaves the same state as applying it once ([RFC 9110 §9.2.2]).
    ///
    /// [RFC 9110 §9.2.2]: https://www.rfc-editor.org/rfc/rfc9110#section-9.2.2
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
    /// It goes by the columns "safe" and "idempotent" of the [registry of HTTP methods]: GET, HEAD,
    /// OPTIONS, TRACE, PROPFIND, REPORT, SEARCH, QUERY and PRI read; PUT, DELETE and the other
    /// idempotent ones are idempotent writes; everything else, methods unknown to us included, is
    /// an unprotected write ([RFC 9110 §9.2]).
    ///
    /// [registry of HTTP methods]: https://www.iana.org/assignments/http-methods/http-methods.xhtml
    /// [RFC 9110 §9.2]: https://www.rfc-editor.org/rfc/rfc9110#section-9.2
    #[must_use]
    pub fn of_method(method: &Method) -> Self {
        match method.as_str() {
            "GET" | "HEAD" | "OPTIONS" | "TRACE" | "PRI" | "PROPFIND" | "QUERY" | "REPORT" | "SEARCH" => Self::Read,
            "PUT" | "DELETE" | "ACL" | "BASELINE-CONTROL" | "BIND" | "CHECKIN" | "CHECKOUT" | "COPY" | "LABEL" | "LINK" | "MERGE"
            | "MKACTIVITY" | "MKCALENDAR" | "MKCOL" | "MKREDIRECTREF" | "MKWORKSPACE" | "MOVE" | "ORDERPATCH" | "PROPPATCH" | "REBIND"
            | "UNBIND" | "UNCHECKOUT" | "UNLINK" | "UNLOCK" | "UPDATE" | "UPDATEREDIRECTREF" | "VERSION-CONTROL" => Self::IdempotentWrite,
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
    ///
    /// ```
    /// use reqwest_safe_retry::policy::{Effect, Lapsed};
    /// use std::time::Duration;
    ///
    /// let day = Duration::from_secs(86_400);
    /// let keyed = Effect::KeyedWrite { remembered_for: day, lapsed: Lapsed::Stop };
    /// assert!(keyed.allows_resends() && !Effect::NeverResend.allows_resends());
    /// assert!(keyed.key_has_lapsed(day + Duration::from_secs(1)));
    /// assert_eq!(keyed.without_key(), Effect::UnprotectedWrite);
    /// assert_eq!(Effect::of_method(&http::Method::PUT), Effect::IdempotentWrite);
    /// ```
    #[must_use]
    pub const fn allows_resends(self) -> bool {
        match self {
            Self::Read | Self::IdempotentWrite | Self::KeyedWrite { .. } | Self::ProbedWrite | Self::UnprotectedWrite => true,
            Self::NeverResend => false,
        }
    }

    /// Whether the operation may be sent again although nobody knows what became of it, at once or
    /// once a probe has found nothing.
    #[cfg(feature = "middleware")]
    pub(crate) const fn outlives_an_unknown(self) -> bool {
        match self {
            Self::Read | Self::IdempotentWrite | Self::KeyedWrite { .. } | Self::ProbedWrite => true,
            Self::UnprotectedWrite | Self::NeverResend => false,
        }
    }

    /// Whether the answer of a probe can decide about a resend.
    #[cfg(feature = "middleware")]
    pub(crate) const fn is_asked_about(self) -> bool {
        match self {
            Self::KeyedWrite { .. } | Self::ProbedWrite => true,
            Self::Read | Self::IdempotentWrite | Self::UnprotectedWrite | Self::NeverResend => false,
        }
    }

    /// The same operation without its key: what is left of its protection once the key cannot be
    /// relied on.
    #[must_use]
    pub const fn without_key(self) -> Self {
        match self {
            Self::KeyedWrite { lapsed: Lapsed::Probe, .. } => Self::ProbedWrite,
            Self::KeyedWrite { lapsed: Lapsed::Stop, .. } => Self::UnprotectedWrite,
            Self::Read | Self::IdempotentWrite | Self::ProbedWrite | Self::UnprotectedWrite | Self::NeverResend => self,
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
    /// Stop with [`StopReason::KeyExpired`](super::StopReason::KeyExpired): a resend would be a new
    /// operation.
    Stop,
    /// Ask the endpoint's status probe.
    Probe,
}

/// One of each, for tables: name, effect, age of the key.
pub(super) const SAMPLES: [(&str, Effect, Duration); 8] = every_variant!(Effect {
    Read => ("Read", Effect::Read, Duration::ZERO),
    IdempotentWrite => ("IdempotentWrite", Effect::IdempotentWrite, Duration::ZERO),
    KeyedWrite => ("KeyedWrite", KEYED, Duration::ZERO),
    KeyedWrite => ("KeyedWrite, key lapsed", KEYED, REMEMBERED_FOR),
    KeyedWrite => ("KeyedWrite, key lapsed, probed", KEYED_AND_PROBED, REMEMBERED_FOR),
    ProbedWrite => ("ProbedWrite", Effect::ProbedWrite, Duration::ZERO),
    UnprotectedWrite => ("UnprotectedWrite", Effect::UnprotectedWrite, Duration::ZERO),
    NeverResend => ("NeverResend", Effect::NeverResend, Duration::ZERO),
});

const KEYED: Effect = Effect::KeyedWrite { remembered_for: REMEMBERED_FOR, lapsed: Lapsed::Stop };
const KEYED_AND_PROBED: Effect = Effect::KeyedWrite { remembered_for: REMEMBERED_FOR, lapsed: Lapsed::Probe };

/// How long the sample contract remembers a key.
const REMEMBERED_FOR: Duration = Duration::from_secs(24 * 60 * 60);

#[cfg(test)]
mod tests {
    use super::*;

    /// The registry of HTTP methods as IANA lists it: method, safe, idempotent.
    const REGISTRY: &str = "ACL no yes, BASELINE-CONTROL no yes, BIND no yes, CHECKIN no yes, CHECKOUT no yes, CONNECT no no, \
        COPY no yes, DELETE no yes, GET yes yes, HEAD yes yes, LABEL no yes, LINK no yes, LOCK no no, MERGE no yes, \
        MKACTIVITY no yes, MKCALENDAR no yes, MKCOL no yes, MKREDIRECTREF no yes, MKWORKSPACE no yes, MOVE no yes, \
        OPTIONS yes yes, ORDERPATCH no yes, PATCH no no, POST no no, PRI yes yes, PROPFIND yes yes, PROPPATCH no yes, \
        PUT no yes, QUERY yes yes, REBIND no yes, REPORT yes yes, SEARCH yes yes, TRACE yes yes, UNBIND no yes, \
        UNCHECKOUT no yes, UNLINK no yes, UNLOCK no yes, UPDATE no yes, UPDATEREDIRECTREF no yes, VERSION-CONTROL no yes";

    #[test]
    fn every_registered_method_has_the_effect_that_its_columns_promise() {
        for row in REGISTRY.split(", ") {
            let [method, safe, idempotent] = row.split(' ').collect::<Vec<_>>()[..] else { panic!("{row}") };
            let expected = match (safe, idempotent) {
                ("yes", _) => Effect::Read,
                (_, "yes") => Effect::IdempotentWrite,
                _ => Effect::UnprotectedWrite,
            };
            assert_eq!(Effect::of_method(&method.parse().unwrap()), expected, "{method}");
        }
    }

    #[test]
    fn a_method_of_no_registry_or_another_case_promises_nothing() {
        for method in ["PURGE", "get", "Delete"] {
            assert_eq!(Effect::of_method(&method.parse().unwrap()), Effect::UnprotectedWrite, "{method}");
        }
    }
}
