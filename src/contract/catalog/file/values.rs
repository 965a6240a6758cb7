//! Single values as people write them in a file: methods, headers, statuses, durations.

use std::{fmt, time::Duration};

use http::{HeaderName, Method, StatusCode};
use serde::{
    Deserialize, Deserializer,
    de::{self, SeqAccess, Visitor},
};

/// Adds a fact to terms, if the file states it.
pub(super) fn given<T, F>(terms: T, fact: Option<F>, state: impl FnOnce(T, F) -> T) -> T {
    match fact {
        Some(fact) => state(terms, fact),
        None => terms,
    }
}

/// One method or several.
pub(super) struct Methods {
    pub(super) first: Method,
    pub(super) others: Vec<Method>,
}

impl<'de> Deserialize<'de> for Methods {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct OneOrMany;
        impl<'de> Visitor<'de> for OneOrMany {
            type Value = Methods;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a method in capitals, such as \"POST\", or a list of them")
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<Methods, E> {
                Ok(Methods { first: method(text, &self)?, others: Vec::new() })
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Methods, A::Error> {
                let first: String = list.next_element()?.ok_or_else(|| de::Error::invalid_length(0, &self))?;
                let mut methods = Methods { first: method(&first, &self)?, others: Vec::new() };
                while let Some(next) = list.next_element::<String>()? {
                    methods.others.push(method(&next, &self)?);
                }
                Ok(methods)
            }
        }

        /// Methods are case-sensitive (RFC 9110 §9.1): `post` is not POST, and would silently match
        /// nothing.
        fn method<E: de::Error>(text: &str, expected: &OneOrMany) -> Result<Method, E> {
            let invalid = || E::invalid_value(de::Unexpected::Str(text), expected);
            if text.bytes().any(|byte| byte.is_ascii_lowercase()) {
                return Err(invalid());
            }
            Method::from_bytes(text.as_bytes()).map_err(|_| invalid())
        }

        deserializer.deserialize_any(OneOrMany)
    }
}

pub(super) struct Header(pub(super) HeaderName);

impl<'de> Deserialize<'de> for Header {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        let invalid = |_| de::Error::invalid_value(de::Unexpected::Str(&text), &"the name of a header");
        HeaderName::from_bytes(text.as_bytes()).map(Self).map_err(invalid)
    }
}

pub(super) struct Status(pub(super) StatusCode);

impl<'de> Deserialize<'de> for Status {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let number = u16::deserialize(deserializer)?;
        let invalid = |_| de::Error::invalid_value(de::Unexpected::Unsigned(number.into()), &"a status from 100 to 999");
        StatusCode::from_u16(number).map(Self).map_err(invalid)
    }
}

/// A duration as people write it.
pub(super) struct Limit(pub(super) Duration);

impl<'de> Deserialize<'de> for Limit {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Written;
        impl Visitor<'_> for Written {
            type Value = Limit;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a duration such as \"500ms\", \"1m 30s\" or \"24h\", or whole seconds")
            }

            fn visit_u64<E: de::Error>(self, seconds: u64) -> Result<Limit, E> {
                Ok(Limit(Duration::from_secs(seconds)))
            }

            fn visit_i64<E: de::Error>(self, seconds: i64) -> Result<Limit, E> {
                let seconds = u64::try_from(seconds).map_err(|_| E::invalid_value(de::Unexpected::Signed(seconds), &self))?;
                self.visit_u64(seconds)
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<Limit, E> {
                duration(text).map(Limit).ok_or_else(|| E::invalid_value(de::Unexpected::Str(text), &self))
            }
        }
        deserializer.deserialize_any(Written)
    }
}

/// Numbers with units, added up: `1m 30s`.
fn duration(text: &str) -> Option<Duration> {
    let mut rest = text.trim();
    let mut sum = Duration::ZERO;
    loop {
        let (count, tail) = rest.split_at(rest.find(|c: char| !c.is_ascii_digit())?);
        let tail = tail.trim_start();
        let (unit, after) = tail.split_at(tail.find(|c: char| !c.is_ascii_lowercase()).unwrap_or(tail.len()));
        let count: u64 = count.parse().ok()?;
        let seconds = |each: u64| count.checked_mul(each).map(Duration::from_secs);
        sum = sum.checked_add(match unit {
            "ms" => Some(Duration::from_millis(count)),
            "s" => seconds(1),
            "m" | "min" => seconds(60),
            "h" => seconds(60 * 60),
            "d" => seconds(24 * 60 * 60),
            _ => None,
        }?)?;
        rest = after.trim_start();
        if rest.is_empty() {
            return Some(sum);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::duration;

    #[test]
    fn durations_are_read_as_people_write_them() {
        let read = [("500ms", 500), ("0s", 0), ("2 s", 2_000), ("1m 30s", 90_000), ("1h30min", 5_400_000), (" 7d ", 604_800_000)];
        for (text, millis) in read {
            assert_eq!(duration(text), Some(Duration::from_millis(millis)), "{text:?}");
        }
        for text in ["", "s", "5", "-1s", "1.5s", "1 fortnight", "1s,", "1S", "99999999999999999999s", "999999999999999999d", "é", "1é"] {
            assert_eq!(duration(text), None, "{text:?}");
        }
    }
}
