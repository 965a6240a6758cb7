//! One spelling for paths that mean the same (RFC 3986 §6.2.2), for templates and requests alike.

use std::{borrow::Cow, fmt::Write as _};

/// The one spelling of a path: unreserved characters as they are, everything else that a path may
/// not hold percent-encoded, with capitals.
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
    /// Every request of a client with a catalogue asks for every byte of its path.
    static ANSWERS: [bool; 256] = {
        let mut answers = [false; 256];
        let mut byte = 0;
        while byte < answers.len() {
            answers[byte] = is_unreserved(byte as u8) || matches!(byte as u8, b'/' | b'!' | b'$' | b'&'..=b',' | b';' | b'=' | b':' | b'@');
            byte += 1;
        }
        answers
    };
    ANSWERS[usize::from(byte)]
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use reqwest::Url;

    use super::{canonical, encode};

    proptest! {
        #[test]
        fn a_path_has_one_spelling_and_keeps_its_meaning(path in "(/([a-z%{}A-F0-9~é: ]|\\PC){0,8}){1,4}") {
            let spelled = canonical(&path).into_owned();
            prop_assert_eq!(canonical(&spelled), spelled.as_str());
            let Ok(url) = Url::parse("http://localhost") else { unreachable!() };
            let mut url = url;
            url.set_path(&path);
            // What a URL makes of a path has the same spelling as the path, but for dots and
            // backslashes, which lead elsewhere.
            if !path.contains(['.', '\\']) && !path.to_ascii_lowercase().contains("%2e") && !path.contains(['?', '#']) {
                prop_assert_eq!(canonical(url.path()), spelled.as_str());
            }
        }

        #[test]
        fn an_encoded_value_holds_nothing_that_a_url_reads(value in "\\PC{0,12}") {
            prop_assert!(!encode(&value).contains(|c: char| !c.is_ascii_alphanumeric() && !"-._~%".contains(c)));
        }
    }
}
