//! The idle timeout that a server of HTTP/1 names.

use std::time::Duration;

use http::{HeaderMap, HeaderName};

const KEEP_ALIVE: HeaderName = HeaderName::from_static("keep-alive");

/// `Keep-Alive: timeout=5, max=100`: for how many seconds the server keeps a connection that nobody
/// uses ([RFC 2068 §19.7.1.1](https://www.rfc-editor.org/rfc/rfc2068#section-19.7.1.1)). What
/// cannot be read says nothing.
#[inline]
pub(crate) fn idle_timeout(headers: &HeaderMap) -> Option<Duration> {
    let field = headers.get(KEEP_ALIVE)?.to_str().ok()?;
    let mut parameters = field.split(',').filter_map(|parameter| parameter.split_once('='));
    let (_, seconds) = parameters.find(|(name, _)| name.trim().eq_ignore_ascii_case("timeout"))?;
    seconds.trim().parse().ok().map(Duration::from_secs)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_timeout_is_found_among_the_parameters_and_nonsense_says_nothing() {
        let read = |value: &[u8]| {
            let value = http::HeaderValue::from_bytes(value).unwrap();
            idle_timeout(&HeaderMap::from_iter([(KEEP_ALIVE, value)]))
        };
        for (field, seconds) in [("timeout=5", 5), ("max=100, Timeout = 72", 72), ("timeout=0", 0)] {
            assert_eq!(read(field.as_bytes()), Some(Duration::from_secs(seconds)), "{field}");
        }
        for nonsense in [&b""[..], b"timeout", b"timeout=-5", b"timeout=5s", b"timeout=99999999999999999999", b"\xff=5", b"5"] {
            assert_eq!(read(nonsense), None);
        }
        assert_eq!(idle_timeout(&HeaderMap::new()), None);
    }
}
