//! One spelling for paths that mean the same (RFC 3986 §6.2.2), for templates and requests alike.

use std::{borrow::Cow, fmt::Write as _};

/// The one spelling of a path: unreserved characters as they are, everything else that a path may not hold percent-encoded, with capitals.
pub(crate) fn canonical(path: &str) -> Cow<'_, str> {
    if path.bytes().all(stands_for_itself) {
        return Cow::Borrowed(path);
    }
    let mut spelled = String::with_capacity(path.len());
    let mut rest = path.as_bytes();
    while let Some((&byte, after)) = rest.split_first() {
        rest = match escape(rest) {
            Some((escaped, after)) => {
                push(&mut spelled, escaped, is_unreserved(escaped));
                after
            }
            None => {
                push(&mut spelled, byte, stands_for_itself(byte) || byte == b'%');
                after
            }
        };
    }
    Cow::Owned(spelled)
}

/// A template with its literal parts in their one spelling. `None`: it is no absolute path, or its braces do not match.
pub(crate) fn canonical_template(template: &str) -> Option<String> {
    if !template.starts_with('/') || template.contains(['?', '#']) {
        return None;
    }
    let mut spelled = String::with_capacity(template.len());
    let mut rest = template;
    while let Some(brace) = rest.find(['{', '}']) {
        let (literal, tail) = rest.split_at(brace);
        spelled.push_str(&canonical(literal));
        rest = if let Some(after) = tail.strip_prefix("{{") {
            spelled.push_str("%7B");
            after
        } else if let Some(after) = tail.strip_prefix("}}") {
            spelled.push_str("%7D");
            after
        } else {
            let (name, after) = tail.strip_prefix('{')?.split_once('}')?;
            let _ = write!(spelled, "{{{name}}}"); // writing to a string cannot fail
            after
        };
    }
    spelled.push_str(&canonical(rest));
    Some(spelled)
}

/// Spells a value so that it stands for itself in any part of a URL.
pub(crate) fn encode(value: &str) -> String {
    let mut spelled = String::with_capacity(value.len());
    for byte in value.bytes() {
        push(&mut spelled, byte, is_unreserved(byte));
    }
    spelled
}

/// Spells a piece of a path so that it stands for itself in a query too.
pub(crate) fn encode_path_value(value: &str) -> String {
    let mut spelled = String::with_capacity(value.len());
    for byte in value.bytes() {
        push(&mut spelled, byte, is_unreserved(byte) || byte == b'%');
    }
    spelled
}

fn push(spelled: &mut String, byte: u8, plain: bool) {
    if plain {
        spelled.push(char::from(byte));
    } else {
        let _ = write!(spelled, "%{byte:02X}"); // writing to a string cannot fail
    }
}

/// Reads `%41`.
fn escape(text: &[u8]) -> Option<(u8, &[u8])> {
    let [b'%', high, low, after @ ..] = text else { return None };
    Some((hex(*high)? << 4 | hex(*low)?, after))
}

const fn hex(digit: u8) -> Option<u8> {
    match digit {
        b'0'..=b'9' => Some(digit - b'0'),
        b'a'..=b'f' => Some(digit - b'a' + 10),
        b'A'..=b'F' => Some(digit - b'A' + 10),
        _ => None,
    }
}

/// RFC 3986 §2.3.
const fn is_unreserved(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'~')
}

/// What a path may hold as it is (RFC 3986 §3.3).
fn stands_for_itself(byte: u8) -> bool {
    is_unreserved(byte) || b"/!$&'()*+,;=:@".contains(&byte)
}
