//! Scheme, host and port: what a budget is kept for, and all of a URL that may be logged.

use std::fmt;

use reqwest::Url;

use super::shown;

/// Scheme, host and port of a URL ([RFC 6454]). Nothing else of a URL ever reaches a log, an error
/// or a report.
///
/// It is made to be shown: what is longer than a name can be, a host of more than
/// [`SHOWN_HOST`](crate::policy::defaults::SHOWN_HOST) bytes and a scheme of more than
/// [`SHOWN_METHOD`](crate::policy::defaults::SHOWN_METHOD), is cut there and ends in `…`.
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
        Self {
            scheme: shown::scheme(url).into_owned(),
            host: shown::host(url).unwrap_or_default().into_owned(),
            port: url.port_or_known_default(),
        }
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

/// Whether two URLs have one origin. Compared in full: two long hosts may be shown alike.
pub(crate) fn is_same(one: &Url, other: &Url) -> bool {
    whole(one) == whole(other)
}

/// A URL's scheme, host and port as they are.
pub(crate) fn whole(url: &Url) -> (&str, Option<&str>, Option<u16>) {
    (url.scheme(), url.host_str(), url.port_or_known_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(host: usize) -> Url {
        format!("http://{}/", "a".repeat(host)).parse().unwrap()
    }

    #[test]
    fn a_host_is_shown_up_to_255_bytes_and_compared_in_full() {
        assert_eq!(Origin::of(&at(255)).host(), "a".repeat(255));
        let longer = Origin::of(&at(256));
        assert_eq!(longer.host(), format!("{}…", "a".repeat(255)));
        assert_eq!(longer.to_string(), format!("http://{}…:80", "a".repeat(255)));
        assert!(is_same(&at(60_000), &at(60_000)) && !is_same(&at(60_000), &at(60_001)));
    }

    #[test]
    fn a_scheme_is_shown_up_to_32_bytes() {
        let strange = format!("{}://host", "a".repeat(33)).parse().unwrap();
        assert_eq!(Origin::of(&strange).scheme(), format!("{}…", "a".repeat(32)));
    }
}
