//! The header fields in which well-known APIs take a key, whatever a contract says.

use http::{HeaderMap, HeaderName};

const FIELDS: [HeaderName; 6] = [
    HeaderName::from_static("idempotency-key"),
    HeaderName::from_static("x-idempotency-key"),
    HeaderName::from_static("cko-idempotency-key"),
    HeaderName::from_static("paypal-request-id"),
    HeaderName::from_static("repeatability-request-id"),
    HeaderName::from_static("repeatability-first-sent"),
];

/// Whether a request carries a key that somebody wrote by hand.
pub(crate) fn carries_a_key(headers: &HeaderMap) -> bool {
    FIELDS.iter().any(|field| headers.contains_key(field))
}

/// Whether this field is one of them.
pub(crate) fn is_one(name: &HeaderName) -> bool {
    FIELDS.contains(name)
}
