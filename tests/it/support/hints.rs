//! Hints as a test reads them: one header, one moment, one wait.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use http::{HeaderMap, HeaderName, HeaderValue};
use reqwest_safe_retry::policy::{Hint, InvalidHint};

pub(crate) type Read = Option<Result<Duration, InvalidHint>>;

/// `InvalidHint` is opaque, so one is made by asking.
pub(crate) fn unreadable() -> Read {
    let hint = Hint::parse(&headers(&[("retry-after", "?")]), UNIX_EPOCH);
    assert!(matches!(hint, Some(Err(_))));
    hint
}

pub(crate) fn seconds(seconds: u64) -> Read {
    Some(Ok(Duration::from_secs(seconds)))
}

pub(crate) fn at(epoch: u64) -> SystemTime {
    UNIX_EPOCH + Duration::from_secs(epoch)
}

pub(crate) fn now_after(value: &str) -> Read {
    retry_after(value, at(1_700_000_000))
}

pub(crate) fn retry_after(value: &str, received: SystemTime) -> Read {
    Hint::parse(&headers(&[("retry-after", value)]), received)
}

pub(crate) fn headers(lines: &[(&str, &str)]) -> HeaderMap {
    let mut headers = HeaderMap::new();
    for (name, value) in lines {
        headers.append(HeaderName::try_from(*name).unwrap(), HeaderValue::from_bytes(value.as_bytes()).unwrap());
    }
    headers
}
