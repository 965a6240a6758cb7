//! The `RateLimit` field (draft-ietf-httpapi-ratelimit-headers §4): a list of quotas,
//! `"name";r=remaining;t=seconds`.

use std::time::Duration;

use http::{HeaderMap, HeaderValue};

use crate::policy::structured;

/// Of the quotas that are used up, the longest time until more comes. A malformed field says
/// nothing.
pub(super) fn wait(headers: &HeaderMap) -> Option<Duration> {
    let lines: Vec<_> = headers.get_all("ratelimit").iter().map(HeaderValue::as_bytes).collect();
    let quotas = quotas(&lines.join(&b", "[..]))?;
    quotas.into_iter().filter(|quota| quota.remaining == 0).filter_map(|quota| quota.more_in).max()
}

#[derive(Debug, PartialEq, Eq)]
struct Quota {
    remaining: u64,
    more_in: Option<Duration>,
}

/// RFC 9651 §4.2.1, for a list of String items.
fn quotas(field: &[u8]) -> Option<Vec<Quota>> {
    let mut rest = structured::after_spaces(field);
    let mut quotas = Vec::new();
    while !rest.is_empty() {
        let (quota, after) = Quota::read(rest)?;
        quotas.push(quota);
        rest = match after.trim_ascii_start() {
            [b',', next @ ..] => Some(next.trim_ascii_start()).filter(|next| !next.is_empty())?,
            [] => &[],
            _ => return None,
        };
    }
    Some(quotas)
}

impl Quota {
    /// `None` where the item breaks the field's definition, which makes the whole field malformed.
    fn read(field: &[u8]) -> Option<(Self, &[u8])> {
        let (mut remaining, mut more_in) = (None, None);
        let (_, rest) = structured::item(field, |name, value| match name {
            b"r" => remaining = Some(natural(value)),
            b"t" => more_in = Some(natural(value)),
            _ => {}
        })?;
        let more_in = match more_in {
            Some(seconds) => Some(Duration::from_secs(seconds?)),
            None => None,
        };
        Some((Self { remaining: remaining??, more_in }, rest))
    }
}

/// An Integer that is not negative.
fn natural(bare_item: &[u8]) -> Option<u64> {
    let number: i64 = std::str::from_utf8(bare_item).ok()?.parse().ok()?;
    u64::try_from(number).ok()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use sfv::{BareItem, Item, List, ListEntry, Parser};

    use super::*;

    /// As a reader of all structured fields does it.
    fn read_by_another(field: &str) -> Option<Vec<Quota>> {
        let list: List = Parser::new(field).parse().ok()?;
        let quota = |entry: &ListEntry| {
            let ListEntry::Item(Item { bare_item: BareItem::String(_), params }) = entry else { return None };
            let number = |key| params.get(key).map(|value: &BareItem| u64::try_from(value.as_integer()?).ok());
            let more_in = number("t").map(|seconds| seconds.map(Duration::from_secs));
            Some(Quota { remaining: number("r")??, more_in: if more_in == Some(None) { return None } else { more_in.flatten() } })
        };
        list.iter().map(quota).collect()
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(1024))]
        #[test]
        fn quotas_are_read_as_by_a_reader_of_all_structured_fields(
            field in "[ \t]?(\"[ -~]{0,2}\"( ?; ?(r|r|r|t|p|a\\*)(=(-?[0-9]{1,16}|[0-9]{0,13}\\.[0-9]{0,4}|\\?[01]|[rt*]|:aGk=:|@1|\"x?\"))?){1,3}[ \t]{0,2},?[ \t]{0,2}){0,3}",
            rough in "[\" \t,;=r0-9.:?@%()a\\\\-]{0,12}",
        ) {
            prop_assert_eq!(quotas(field.as_bytes()), read_by_another(&field));
            prop_assert_eq!(quotas(rough.as_bytes()), read_by_another(&rough));
        }
    }
}
