//! Waits that servers write into the JSON of an answer's body instead of a header.
//!
//! The body is searched for a member's name and not parsed: bodies are cut, nested and spelled in
//! many ways, and of all that only one number matters.

use std::time::Duration;

use crate::policy::{SECOND, decimal};

/// The longest of the waits that stand under this name: seconds as a number (`12.5`, `"12.5"`) or
/// as Protocol Buffers spell a duration (`"12.5s"`).
pub(crate) fn longest_under(name: &str, body: &[u8]) -> Option<Duration> {
    let quoted = [b"\"", name.as_bytes(), b"\""].concat();
    let ends = (0..body.len().saturating_sub(quoted.len())).filter(|&start| body[start..].starts_with(&quoted));
    ends.filter_map(|start| seconds(&body[start + quoted.len()..])).max()
}

fn seconds(after_name: &[u8]) -> Option<Duration> {
    let value = after_name.trim_ascii_start().strip_prefix(b":")?.trim_ascii_start();
    let (number, after) = match value.strip_prefix(b"\"") {
        Some(quoted) => {
            let text = &quoted[..quoted.iter().position(|&byte| byte == b'"')?];
            (text.strip_suffix(b"s").unwrap_or(text), None)
        }
        None => {
            let end = value.iter().position(|byte| !byte.is_ascii_digit() && *byte != b'.').unwrap_or(value.len());
            (&value[..end], value.get(end))
        }
    };
    // A number in another notation, such as `1e3`, is none that may be cut short.
    let is_whole = after.is_none_or(|byte| matches!(byte, b',' | b'}' | b']') || byte.is_ascii_whitespace());
    is_whole.then(|| decimal(number, SECOND)).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wait_is_found_by_its_name_in_every_spelling() {
        let millis = |wait| Some(Duration::from_millis(wait));
        for (body, wait) in [
            (r#"{"error":{"details":[{"@type":"type.googleapis.com/google.rpc.RetryInfo","retryDelay":"12s"}]}}"#, millis(12_000)),
            (r#"{"retryDelay" : "0.250s"}"#, millis(250)),
            (r#"{"retryDelay":12.5}"#, millis(12_500)),
            (r#"{"retryDelay": 3 }"#, millis(3_000)),
            (r#"{"retryDelay":"3"}"#, millis(3_000)),
            (r#"[{"retryDelay":"1s"},{"retryDelay":"7s"},{"retryDelay":"soon"}]"#, millis(7_000)),
            (r#"{"retryDelay":99999999999999999999999}"#, Some(Duration::MAX)),
            (r#"{"retryDelay":1e3}"#, None),
            (r#"{"retryDelay":-1}"#, None),
            (r#"{"retryDelay":null}"#, None),
            (r#"{"retryDelay":{"seconds":12}}"#, None),
            (r#"{"theretryDelay":"12s"}"#, None),
            (r#"{"retryDelay"#, None),
            (r#"{"retryDelay""#, None),
            (r#"{"retryDelay":"12"#, None),
            ("", None),
        ] {
            assert_eq!(longest_under("retryDelay", body.as_bytes()), wait, "{body}");
        }
    }
}
