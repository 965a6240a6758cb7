//! Header fields with which a request says that it is another method than its own.

use http::{HeaderMap, HeaderName};

const FIELDS: [HeaderName; 3] = [
    HeaderName::from_static("x-http-method-override"),
    HeaderName::from_static("x-http-method"),
    HeaderName::from_static("x-method-override"),
];

/// Whether a server may take the request for one of another method. A GET that says so is no read.
pub(crate) fn is_there(headers: &HeaderMap) -> bool {
    !headers.is_empty() && FIELDS.iter().any(|field| headers.contains_key(field))
}

/// Whether this field overrides the method.
pub(crate) fn is_one(name: &HeaderName) -> bool {
    FIELDS.contains(name)
}
