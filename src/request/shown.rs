//! How much of a name is shown. A host or a method can be as long as a request may be, and a
//! stranger may choose it; no line, report, error or label grows with it.

use std::{borrow::Cow, fmt};

use http::Method;
use reqwest::Url;

use crate::policy::defaults;

/// The first bytes of a text, with a mark where some are missing.
fn cut(text: &str, most: usize) -> Cow<'_, str> {
    if text.len() <= most {
        return Cow::Borrowed(text);
    }
    let end = (0..=most).rev().find(|end| text.is_char_boundary(*end)).unwrap_or_default();
    Cow::Owned(format!("{}…", text.get(..end).unwrap_or_default()))
}

/// A URL's scheme as it is shown.
pub(crate) fn scheme(url: &Url) -> Cow<'_, str> {
    cut(url.scheme(), defaults::SHOWN_METHOD)
}

/// A URL's host as it is shown.
pub(crate) fn host(url: &Url) -> Option<Cow<'_, str>> {
    url.host_str().map(|host| cut(host, defaults::SHOWN_HOST))
}

/// A method as it is shown.
pub(crate) fn method(method: &Method) -> Cow<'_, str> {
    cut(method.as_str(), defaults::SHOWN_METHOD)
}

/// A method that is whole for who asks for it and cut where it is printed.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct ShownMethod(pub(crate) Method);

impl fmt::Display for ShownMethod {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&method(&self.0))
    }
}

impl fmt::Debug for ShownMethod {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_cut_between_two_characters_and_says_so() {
        for (text, shown) in [("", ""), ("abc", "abc"), ("abcd", "abc…"), ("äöü", "ä…"), ("🦀🦀", "…")] {
            assert_eq!(cut(text, 3), shown);
        }
    }

    #[test]
    fn a_method_is_shown_up_to_32_bytes() {
        let of = |length| ShownMethod(Method::from_bytes("M".repeat(length).as_bytes()).unwrap());
        assert_eq!(of(32).to_string(), "M".repeat(32));
        assert_eq!(format!("{0} {0:?}", of(33)), format!("{0}… {0}…", "M".repeat(32)));
    }
}
