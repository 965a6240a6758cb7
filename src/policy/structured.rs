//! RFC 9651 String items, written and read: as much of structured fields as a key needs.
//!
//! The readers take what is left of a field and give back what is left after them.

/// Writes a String (§4.1.6) of printable ASCII, which every key is.
pub(super) fn serialise(text: &str) -> String {
    let mut field = String::with_capacity(text.len() + 2);
    field.push('"');
    for character in text.chars() {
        if matches!(character, '"' | '\\') {
            field.push('\\');
        }
        field.push(character);
    }
    field.push('"');
    field
}

/// Reads a field that is one String item (§4.2). Parameters are read strictly and dropped.
pub(super) fn parse(field: &[u8]) -> Option<String> {
    let (text, rest) = item(after_spaces(field), |_, _| ())?;
    after_spaces(rest).is_empty().then_some(text)
}

/// Reads a String item (§4.2.3) and hands on the name and the bare item of each parameter, as they
/// were written; a parameter without a bare item has an empty one.
pub(crate) fn item<'a>(field: &'a [u8], mut parameter: impl FnMut(&'a [u8], &'a [u8])) -> Option<(String, &'a [u8])> {
    let (text, mut rest) = string(field)?;
    // §4.2.3.2
    while let [b';', named @ ..] = rest {
        let named = after_spaces(named);
        let behind = parameter_name(named)?;
        let (value, after) = match behind {
            [b'=', value @ ..] => (value, bare_item(value)?),
            _ => (behind, behind),
        };
        parameter(up_to(behind, named), up_to(after, value));
        rest = after;
    }
    Some((text, rest))
}

/// What a reader has taken of a field, by what it has left.
fn up_to<'a>(rest: &[u8], field: &'a [u8]) -> &'a [u8] {
    field.get(..field.len() - rest.len()).unwrap_or_default()
}

/// §4.2.5
fn string(field: &[u8]) -> Option<(String, &[u8])> {
    let mut rest = field.strip_prefix(b"\"")?;
    let mut text = String::new();
    loop {
        let (character, after) = match rest {
            [b'"', after @ ..] => return Some((text, after)),
            [b'\\', escaped @ (b'"' | b'\\'), after @ ..] => (escaped, after),
            [b'\\', ..] => return None,
            [plain @ b' '..=b'~', after @ ..] => (plain, after),
            _ => return None,
        };
        text.push(char::from(*character));
        rest = after;
    }
}

/// §4.2.3.3
fn parameter_name(field: &[u8]) -> Option<&[u8]> {
    match field {
        [b'a'..=b'z' | b'*', rest @ ..] => {
            Some(after_all(rest, |byte| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'_' | b'-' | b'.' | b'*')))
        }
        _ => None,
    }
}

/// §4.2.3.1
fn bare_item(field: &[u8]) -> Option<&[u8]> {
    match field {
        [b'"', ..] => string(field).map(|(_, rest)| rest),
        [b'-' | b'0'..=b'9', ..] => number(field),
        [b'?', b'0' | b'1', rest @ ..] => Some(rest),
        [b'@', rest @ ..] => integer(rest),
        [b':', rest @ ..] => byte_sequence(rest),
        [b'%', rest @ ..] => display_string(rest),
        [b'A'..=b'Z' | b'a'..=b'z' | b'*', rest @ ..] => {
            Some(after_all(rest, |byte| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~:/".contains(&byte)))
        }
        _ => None,
    }
}

/// An Integer of at most 15 digits, or a Decimal of at most 12 before and 3 after the point
/// (§4.2.4).
fn number(field: &[u8]) -> Option<&[u8]> {
    let (whole, rest) = digits(field.strip_prefix(b"-").unwrap_or(field));
    let Some(fraction) = rest.strip_prefix(b".") else {
        return integer(field);
    };
    let (fraction, rest) = digits(fraction);
    ((1..=12).contains(&whole) && (1..=3).contains(&fraction)).then_some(rest)
}

fn integer(field: &[u8]) -> Option<&[u8]> {
    let (whole, rest) = digits(field.strip_prefix(b"-").unwrap_or(field));
    ((1..=15).contains(&whole) && !rest.starts_with(b".")).then_some(rest)
}

/// Base64, padded as far as it likes, then a colon: a reader makes up for what is missing (§4.2.7).
fn byte_sequence(field: &[u8]) -> Option<&[u8]> {
    let padding = after_all(field, |byte| byte.is_ascii_alphanumeric() || b"+/".contains(&byte));
    let rest = after_all(padding, |byte| byte == b'=');
    let (digits, padding) = (field.len() - padding.len(), padding.len() - rest.len());
    let whole = digits % 4 != 1 && padding <= (4 - digits % 4) % 4;
    let rest = rest.strip_prefix(b":")?;
    whole.then_some(rest)
}

/// §4.2.10
fn display_string(field: &[u8]) -> Option<&[u8]> {
    let mut rest = field.strip_prefix(b"\"")?;
    let mut text = Vec::new();
    loop {
        let (byte, after) = match rest {
            [b'"', after @ ..] => return std::str::from_utf8(&text).is_ok().then_some(after),
            [b'%', high, low, after @ ..] => (hex(*high)? << 4 | hex(*low)?, after),
            [b'%', ..] => return None,
            [plain @ b' '..=b'~', after @ ..] => (*plain, after),
            _ => return None,
        };
        text.push(byte);
        rest = after;
    }
}

/// Lower case only (§4.2.10).
const fn hex(digit: u8) -> Option<u8> {
    match digit {
        b'0'..=b'9' => Some(digit - b'0'),
        b'a'..=b'f' => Some(digit - b'a' + 10),
        _ => None,
    }
}

fn digits(field: &[u8]) -> (usize, &[u8]) {
    let rest = after_all(field, |byte| byte.is_ascii_digit());
    (field.len() - rest.len(), rest)
}

pub(crate) fn after_spaces(field: &[u8]) -> &[u8] {
    after_all(field, |byte| byte == b' ')
}

fn after_all(field: &[u8], belongs: impl Fn(u8) -> bool) -> &[u8] {
    let end = field.iter().position(|byte| !belongs(*byte)).unwrap_or(field.len());
    field.get(end..).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::parse;

    #[test]
    fn parameters_are_read_strictly_and_dropped() {
        let accepted = [
            "",
            ";a",
            "; a",
            ";a=1",
            ";a=-15.125",
            ";a=\"x\\\"y\"",
            ";a=tok/en:1",
            ";a=:aGk=:",
            ";a=:aGk:",
            ";a=:Gk==:",
            ";a=:Gk=:",
            ";a=:Gk:",
            ";a=::",
            ";a=?0;b=?1",
            ";a=@-1",
            ";*k.1_-=*t",
            ";a=%\"f%c3%bc\"",
            "  ",
            ";a ",
        ];
        for parameters in accepted {
            assert_eq!(parse(format!("\"key\"{parameters}").as_bytes()).as_deref(), Some("key"), "{parameters}");
        }
        let refused = [
            ";",
            ";A",
            ";1",
            ";a=",
            ";a=1.",
            ";a=1.1234",
            ";a=1234567890123456",
            ";a=1234567890123.1",
            ";a=-",
            ";a=?2",
            ";a=:aGk=",
            ";a=:=:",
            ";a=:aGkx=:",
            ";a=:aGkxx:",
            ";a=:aGk==:",
            ";a=:aG=k:",
            ";a=@1.5",
            ";a=\"x",
            ";a=%\"%C3%BC\"",
            ";a=%\"%ff\"",
            ";a=%\"%f",
            ";a =1",
            " ;a",
            ",\"other\"",
            " x",
            "\t",
        ];
        for parameters in refused {
            assert_eq!(parse(format!("\"key\"{parameters}").as_bytes()), None, "{parameters}");
        }
    }
}
