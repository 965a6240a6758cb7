//! Scheme, host and port: what a budget is kept for, and all of a URL that may be logged.

use std::fmt;

use reqwest::Url;

/// Scheme, host and port of a URL ([RFC 6454]). Nothing else of a URL ever reaches a log, an error
/// or a report.
///
/// [RFC 6454]: https://www.rfc-editor.org/rfc/rfc6454
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Origin {
    scheme: String,
    host: String,
    port: Option<u16>,
}

impl Origin {
    /// The origin of a URL. A URL without a host has an empty one.
    #[must_use]
    pub fn of(url: &Url) -> Self {
        Self { scheme: url.scheme().to_owned(), host: url.host_str().unwrap_or_default().to_owned(), port: url.port_or_known_default() }
    }

    /// The scheme, lower case.
    #[must_use]
    pub fn scheme(&self) -> &str {
        &self.scheme
    }

    /// The host name or address.
    #[must_use]
    pub fn host(&self) -> &str {
        &self.host
    }

    /// The port, given or implied by the scheme.
    #[must_use]
    pub const fn port(&self) -> Option<u16> {
        self.port
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}://{}", self.scheme, self.host)?;
        self.port.map_or(Ok(()), |port| write!(f, ":{port}"))
    }
}
