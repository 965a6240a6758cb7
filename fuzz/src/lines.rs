//! The head of an answer as text, one `name: value` on each line, so that a seed can be read.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use http::{HeaderMap, HeaderName, HeaderValue};

/// The lines that are header lines. Others say nothing.
pub(crate) fn headers(data: &[u8]) -> HeaderMap {
    let mut headers = HeaderMap::new();
    for line in data.split(|byte| *byte == b'\n').take(64) {
        if let Some((name, value)) = header(line) {
            headers.append(name, value);
        }
    }
    headers
}

fn header(line: &[u8]) -> Option<(HeaderName, HeaderValue)> {
    let colon = line.iter().position(|byte| *byte == b':')?;
    let name = HeaderName::from_bytes(&line[..colon]).ok()?;
    let value = HeaderValue::from_bytes(line[colon + 1..].trim_ascii()).ok()?;
    Some((name, value))
}

/// When the head arrived: the `now` line, in seconds since 1970, at most the year 10000. Without one
/// it is 14 November 2023.
pub(crate) fn received(headers: &HeaderMap) -> SystemTime {
    let told = headers.get("now").and_then(|now| now.to_str().ok()).and_then(|now| now.parse().ok());
    UNIX_EPOCH + Duration::from_secs(told.unwrap_or(1_700_000_000_u64).min(253_402_300_800))
}

/// The same head without some of its fields.
pub(crate) fn without(headers: &HeaderMap, fields: &[&str]) -> HeaderMap {
    let mut fewer = headers.clone();
    for field in fields {
        fewer.remove(*field);
    }
    fewer
}
