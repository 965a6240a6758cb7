//! Header fields with which a request says that it is another method than its own.

use http::{HeaderMap, HeaderName};

const FIELDS: [&str; 3] = ["x-http-method-override", "x-http-method", "x-method-override"];

/// Whether a server may take the request for one of another method. A GET that says so is no read.
pub(crate) fn is_there(headers: &HeaderMap) -> bool {
    // Most names have another length, and hashing these three costs what looking at forty does.
    headers.keys().any(is_one)
}

/// Whether this field overrides the method.
pub(crate) fn is_one(name: &HeaderName) -> bool {
    FIELDS.contains(&name.as_str())
}
