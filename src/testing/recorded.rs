//! One request as the peer saw it.

use std::fmt;

use http::{HeaderMap, Method};
use reqwest::Url;
use tokio::time::Instant;

/// A request as a scripted peer received it.
///
/// Its `Debug` prints no URL, no header value and no body: a test's output ends up in logs, too.
#[derive(Clone)]
pub struct Recorded {
    pub(super) method: Method,
    pub(super) url: Url,
    pub(super) headers: HeaderMap,
    pub(super) body: Vec<u8>,
    pub(super) raw: Vec<u8>,
    pub(super) extent: Extent,
    pub(super) arrived: Instant,
    pub(super) connection: usize,
}

/// How much of a request has arrived.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Extent {
    /// Something is missing: no server can have acted on it.
    Partial,
    /// Everything up to the last byte of the body.
    Complete,
}

impl Recorded {
    /// The request's method.
    #[must_use]
    pub const fn method(&self) -> &Method {
        &self.method
    }

    /// The effective URL of the request ([RFC 9110 §7.1]): for an HTTP/1 server its own origin and
    /// the request target, for a proxy the target itself, for a CONNECT the authority.
    ///
    /// [RFC 9110 §7.1]: https://www.rfc-editor.org/rfc/rfc9110#section-7.1
    #[must_use]
    pub const fn url(&self) -> &Url {
        &self.url
    }

    /// The path of the URL, without the query.
    #[must_use]
    pub fn path(&self) -> &str {
        self.url.path()
    }

    /// The query of the URL, without the question mark.
    #[must_use]
    pub fn query(&self) -> Option<&str> {
        self.url.query()
    }

    /// All headers.
    #[must_use]
    pub const fn headers(&self) -> &HeaderMap {
        &self.headers
    }

    /// The first value of a header, if it is there and readable as text.
    #[must_use]
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).and_then(|value| value.to_str().ok())
    }

    /// The body without its framing, as much of it as was read.
    #[must_use]
    pub fn body(&self) -> &[u8] {
        &self.body
    }

    /// Head and body exactly as they came off the wire, framing included. Empty where there is no
    /// HTTP/1 wire: for `Scripted` and HTTP/2.
    #[must_use]
    pub fn raw(&self) -> &[u8] {
        &self.raw
    }

    /// Whether the peer received all of it, up to the last byte of the body: only then can a server
    /// have acted on it.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        self.extent == Extent::Complete
    }

    /// Whether the method may change something on the server: every method that [RFC 9110 §9.2.1]
    /// does not call safe, save CONNECT, which asks a proxy for a tunnel.
    ///
    /// [RFC 9110 §9.2.1]: https://www.rfc-editor.org/rfc/rfc9110#section-9.2.1
    #[must_use]
    pub fn is_write(&self) -> bool {
        !self.method.is_safe() && self.method != Method::CONNECT
    }

    /// When the head had arrived.
    #[must_use]
    pub const fn arrived(&self) -> Instant {
        self.arrived
    }

    /// The number of the connection that carried it: the first one accepted is 1. For `Scripted` it
    /// is 0.
    #[must_use]
    pub const fn connection(&self) -> usize {
        self.connection
    }
}

impl fmt::Debug for Recorded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Recorded")
            .field("method", &self.method)
            .field("headers", &self.headers.len())
            .field("body", &format_args!("{} B", self.body.len()))
            .field("extent", &self.extent)
            .field("connection", &self.connection)
            .finish_non_exhaustive()
    }
}
