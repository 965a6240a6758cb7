//! Idempotency keys: what is accepted survives the wire, and quoted ones are read as RFC 9651 says.

use std::time::Duration;

use http::{HeaderMap, HeaderName, HeaderValue};
use reqwest_safe_retry::policy::{IdempotencyKey, KeyContract, KeyFormat};
use sfv::{BareItem, Item, Parser};

const HEADER: HeaderName = HeaderName::from_static("idempotency-key");
const BARE: KeyContract = KeyContract::new(HEADER, KeyFormat::Bare, Duration::from_secs(60));
const QUOTED: KeyContract = KeyContract::new(HEADER, KeyFormat::Quoted, Duration::from_secs(60));

/// Input: a key, and the same bytes as the value of a key's header.
pub fn check(data: &[u8]) {
    if let Ok(text) = std::str::from_utf8(data) {
        a_key_survives_the_wire(text);
    }
    if let Ok(value) = HeaderValue::from_bytes(data) {
        a_quoted_key_is_what_another_reader_reads(&value);
        a_bare_key_is_the_value_itself(&value);
    }
}

fn a_key_survives_the_wire(text: &str) {
    let printable = text.bytes().all(|byte| (b' '..=b'~').contains(&byte));
    let sound = (1..=255).contains(&text.len()) && printable && !text.starts_with(' ') && !text.ends_with(' ') && !text.contains(", ");
    let parsed = IdempotencyKey::parse(text);
    assert_eq!(parsed.is_ok(), sound, "{text:?}");
    let key = match parsed {
        Ok(key) => key,
        Err(invalid) => {
            // What is said depends on the rule alone, so it cannot repeat the key.
            let same_rule = match text {
                _ if text.is_empty() || text.len() > 255 => "",
                _ if printable && text.trim() == text => "a, b",
                _ => "\u{fc}",
            };
            return assert_eq!(IdempotencyKey::parse(same_rule), Err(invalid));
        }
    };
    for contract in [BARE, QUOTED] {
        let value = contract.encode(&key).unwrap_or_else(|error| panic!("{text:?} cannot be spelled: {error}"));
        assert!(value.is_sensitive());
        assert_eq!(contract.read(&value).as_ref(), Ok(&key), "{value:?}");
        let headers = HeaderMap::from_iter([(contract.header().clone(), value)]);
        assert_eq!(contract.find(&headers), Some(Ok(key.clone())));
    }
    assert_eq!(BARE.encode(&key).ok().as_ref().map(HeaderValue::as_bytes), Some(text.as_bytes()));
    assert_eq!(format!("{key:?}"), "IdempotencyKey(..)");
}

fn a_quoted_key_is_what_another_reader_reads(value: &HeaderValue) {
    let theirs = match Parser::new(value.as_bytes()).parse::<Item>() {
        Ok(Item { bare_item: BareItem::String(text), .. }) => IdempotencyKey::parse(text.as_str()).ok(),
        Ok(_) | Err(_) => None,
    };
    assert_eq!(QUOTED.read(value).ok(), theirs, "{value:?}");
}

fn a_bare_key_is_the_value_itself(value: &HeaderValue) {
    if let Ok(key) = BARE.read(value) {
        assert_eq!(key.as_str().as_bytes(), value.as_bytes());
    }
}
