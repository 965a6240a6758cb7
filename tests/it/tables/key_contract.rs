//! Keys: what is accepted, how they are spelled, and what is never shown.

use std::{
    collections::HashSet,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use proptest::prelude::*;
use reqwest_safe_retry::policy::{Coverage, IdempotencyKey, KeyAnswer, KeyContract, KeyFormat, KeySource, Replays, UniqueWithin};
use serde_json::Value;

const DAY: Duration = Duration::from_secs(24 * 60 * 60);
const QUOTED: KeyContract = KeyContract::ietf(DAY);
const BARE: KeyContract = KeyContract::STRIPE;

fn sf_strings() -> Value {
    serde_json::from_str(include_str!("../../data/sf_string_cases.json")).unwrap()
}

fn is_key(text: &str) -> bool {
    let printable = text.bytes().all(|byte| byte.is_ascii_graphic() || byte == b' ');
    (1..=255).contains(&text.len()) && printable && text.trim() == text && !text.contains(", ")
}

/// RFC 9651 accepts some strings that are no keys (empty, with blanks at the ends, longer than
/// 255): those are refused as keys, and for nothing else.
#[test]
fn a_quoted_key_is_read_as_rfc_9651_reads_a_string() {
    for case in sf_strings()["parse"].as_array().unwrap() {
        let lines: Vec<&str> = case["raw"].as_array().unwrap().iter().map(|line| line.as_str().unwrap()).collect();
        let values: Result<Vec<HeaderValue>, _> = lines.iter().map(|line| HeaderValue::from_bytes(line.as_bytes())).collect();
        let Ok(values) = values else {
            assert_eq!(case["must_fail"], true, "only what is no header value cannot be tried: {lines:?}");
            continue;
        };
        let mut headers = HeaderMap::new();
        for value in values {
            headers.append(QUOTED.header(), value);
        }
        let read = QUOTED.find(&headers).unwrap();
        match case["expected"].as_str() {
            Some(text) if lines.len() == 1 && is_key(text) => assert_eq!(read.unwrap().as_str(), text, "{lines:?}"),
            Some(text) if lines.len() == 1 => {
                let refusal = read.unwrap_err().to_string();
                assert!(!refusal.contains("RFC 9651"), "a string, but no key: {text:?}: {refusal}");
            }
            Some(_) => assert_eq!(read.unwrap_err().to_string(), "the request has more than one idempotency key", "{lines:?}"),
            None => assert_eq!(read.unwrap_err().to_string(), "the idempotency key is not a quoted string as in RFC 9651", "{lines:?}"),
        }
    }
}

#[test]
fn what_a_string_cannot_hold_never_becomes_a_key() {
    for case in sf_strings()["serialise_must_fail"].as_array().unwrap() {
        let text = case["value"].as_str().unwrap();
        assert!(IdempotencyKey::parse(text).is_err(), "{text:?}");
        assert!(IdempotencyKey::parse(&format!("key{text}")).is_err(), "{text:?}");
    }
}

#[test]
fn the_quoted_form_is_the_draft_and_the_bare_form_is_what_the_field_sends() {
    let rows = [
        // on the wire          quoted       bare
        (r"abc", None, Some("abc")),
        (r#""abc""#, Some("abc"), Some(r#""abc""#)),
        (r#""abc";a=1"#, Some("abc"), Some(r#""abc";a=1"#)),
        (r#""abc" "#, Some("abc"), None),
        (r#"  "abc""#, Some("abc"), None),
        (r#""abc", "def""#, None, None),
        (r#""a\"b\\c""#, Some(r#"a"b\c"#), Some(r#""a\"b\\c""#)),
        ("", None, None),
        (" ", None, None),
        (r#""""#, None, Some(r#""""#)),
        ("a b", None, Some("a b")),
        ("a, b", None, None),
        ("a\tb", None, None),
    ];
    for (wire, quoted, bare) in rows {
        let value = HeaderValue::from_str(wire).unwrap();
        assert_eq!(QUOTED.read(&value).ok().as_ref().map(IdempotencyKey::as_str), quoted, "quoted: {wire:?}");
        assert_eq!(BARE.read(&value).ok().as_ref().map(IdempotencyKey::as_str), bare, "bare: {wire:?}");
    }
    let not_ascii = HeaderValue::from_bytes("\"clé\"".as_bytes()).unwrap();
    assert!(QUOTED.read(&not_ascii).is_err());
    assert!(BARE.read(&not_ascii).is_err());
    assert!(BARE.read(&HeaderValue::from_bytes(b"\xff\xfe").unwrap()).is_err());
}

#[test]
fn a_key_has_one_to_two_hundred_and_fifty_five_printable_characters_and_no_blank_at_an_end() {
    assert!(IdempotencyKey::parse("!").is_ok());
    assert!(IdempotencyKey::parse(&"~".repeat(255)).is_ok());
    for contract in [BARE, QUOTED] {
        let key = IdempotencyKey::parse("order 2041").unwrap();
        let written = contract.encode(&key).unwrap();
        assert_eq!(contract.read(&written).unwrap(), key, "a blank within survives the wire");
    }
    for text in ["", " ", " a", "a ", "a\n", "\u{7f}", "é", "\u{1f511}", &"k".repeat(256)] {
        assert!(IdempotencyKey::parse(text).is_err(), "{text:?}");
    }
}

#[test]
fn several_keys_in_one_request_are_refused_even_when_they_agree() {
    let mut headers = HeaderMap::new();
    assert!(BARE.find(&headers).is_none());
    headers.append(BARE.header(), HeaderValue::from_static("k-1"));
    assert_eq!(BARE.find(&headers).unwrap().unwrap().as_str(), "k-1");
    headers.append(BARE.header(), HeaderValue::from_static("k-1"));
    assert!(BARE.find(&headers).unwrap().is_err());
}

#[test]
fn a_contract_may_want_longer_or_shorter_keys() {
    let contract = BARE.with_length(3..=5);
    for (text, fits) in [("ab", false), ("abc", true), ("abcde", true), ("abcdef", false)] {
        let key = IdempotencyKey::parse(text).unwrap();
        assert_eq!(contract.encode(&key).is_ok(), fits, "{text}");
        assert_eq!(contract.read(&HeaderValue::from_str(text).unwrap()).is_ok(), fits, "{text}");
    }
    let quoted = QUOTED.with_length(3..=3);
    assert_eq!(quoted.encode(&IdempotencyKey::parse(r#"a"b"#).unwrap()).unwrap(), r#""a\"b""#, "quotes and escapes do not count");
}

#[test]
fn a_key_is_never_shown() {
    let secret = "s3cr3t-k3y";
    let key = IdempotencyKey::parse(secret).unwrap();
    assert!(!format!("{key:?} {:?}", key.clone().first_used(UNIX_EPOCH)).contains(secret));

    let value = BARE.encode(&key).unwrap();
    assert!(value.is_sensitive());
    assert!(QUOTED.encode(&key).unwrap().is_sensitive());

    let refusals = [
        IdempotencyKey::parse(&format!("{secret} ")).unwrap_err(),
        IdempotencyKey::parse(&secret.repeat(26)).unwrap_err(),
        QUOTED.read(&value).unwrap_err(),
        BARE.with_length(1..=2).encode(&key).unwrap_err(),
    ];
    for refusal in refusals {
        assert!(!format!("{refusal} {refusal:?}").contains(secret), "{refusal}");
    }
}

#[test]
fn keys_are_equal_when_their_text_is() {
    let key = IdempotencyKey::parse("k").unwrap();
    let later = key.clone().first_used(UNIX_EPOCH + DAY);
    assert_eq!(key, later);
    assert_eq!(HashSet::from([key.clone(), later.clone()]).len(), 1);
    assert_ne!(key, IdempotencyKey::parse("K").unwrap());
    assert_eq!((key.first_use(), later.first_use()), (None, Some(UNIX_EPOCH + DAY)));
}

#[test]
fn an_answer_is_read_as_the_contract_says_and_not_otherwise() {
    let marked =
        |value: &'static str| HeaderMap::from_iter([(HeaderName::from_static("idempotent-replayed"), HeaderValue::from_static(value))]);
    let silent = KeyContract::new(HeaderName::from_static("x-key"), KeyFormat::Bare, DAY);
    let rows = [
        (BARE, StatusCode::CONFLICT, HeaderMap::new(), Some(KeyAnswer::InUse)),
        (BARE, StatusCode::BAD_REQUEST, HeaderMap::new(), Some(KeyAnswer::Mismatch)),
        (BARE, StatusCode::UNPROCESSABLE_ENTITY, HeaderMap::new(), None),
        (BARE, StatusCode::INTERNAL_SERVER_ERROR, HeaderMap::new(), None),
        (BARE, StatusCode::INTERNAL_SERVER_ERROR, marked("true"), Some(KeyAnswer::Replayed)),
        (BARE, StatusCode::INTERNAL_SERVER_ERROR, marked("false"), None),
        (BARE, StatusCode::CONFLICT, marked("true"), Some(KeyAnswer::Replayed)),
        (QUOTED, StatusCode::CONFLICT, HeaderMap::new(), Some(KeyAnswer::InUse)),
        (QUOTED, StatusCode::UNPROCESSABLE_ENTITY, HeaderMap::new(), Some(KeyAnswer::Mismatch)),
        (QUOTED, StatusCode::BAD_REQUEST, HeaderMap::new(), None),
        (QUOTED, StatusCode::OK, marked("true"), None),
        (silent.clone(), StatusCode::CONFLICT, marked("true"), None),
        (silent, StatusCode::UNPROCESSABLE_ENTITY, HeaderMap::new(), None),
    ];
    for (contract, status, headers, expected) in rows {
        assert_eq!(contract.answer(status, &headers), expected, "{status} {headers:?} {contract:?}");
    }
}

#[test]
fn a_time_that_no_http_date_can_say_becomes_the_nearest() {
    let contract = BARE.with_first_sent_header(HeaderName::from_static("x-first-sent"));
    let said = |at: SystemTime| contract.first_sent(at).unwrap().1;

    assert_eq!(said(UNIX_EPOCH - DAY), "Thu, 01 Jan 1970 00:00:00 GMT");
    assert_eq!(said(UNIX_EPOCH + Duration::from_secs(253_402_300_799)), "Fri, 31 Dec 9999 23:59:59 GMT");
    assert_eq!(said(UNIX_EPOCH + Duration::from_secs(253_402_300_800)), "Fri, 31 Dec 9999 23:59:59 GMT");
    assert_eq!(said(UNIX_EPOCH + Duration::from_secs(1 << 55)), "Fri, 31 Dec 9999 23:59:59 GMT");
}

#[test]
fn every_fact_of_a_contract_can_be_replaced_in_a_const() {
    const CONTRACT: KeyContract = KeyContract::new(HeaderName::from_static("x-key"), KeyFormat::Bare, DAY)
        .with_source(KeySource::CallerMust)
        .with_length(8..=64)
        .with_uniqueness(UniqueWithin::Endpoint)
        .with_reuse_guard()
        .with_replays(Replays::Successes)
        .with_replay_marker(HeaderName::from_static("x-old"))
        .with_replay_marker(HeaderName::from_static("x-replayed"))
        .with_in_progress(StatusCode::LOCKED)
        .with_mismatch(StatusCode::UNPROCESSABLE_ENTITY)
        .with_first_sent_header(HeaderName::from_static("x-first-sent"));

    assert_eq!(CONTRACT.header(), "x-key");
    assert_eq!((CONTRACT.format(), CONTRACT.remembered_for()), (KeyFormat::Bare, DAY));
    assert_eq!((CONTRACT.source(), CONTRACT.unique_within()), (KeySource::CallerMust, UniqueWithin::Endpoint));
    assert_eq!((CONTRACT.length(), CONTRACT.guards_reuse()), (8..=64, true));
    assert_eq!(CONTRACT.replays(), Replays::Successes);
    assert_eq!(CONTRACT.replay_marker().unwrap(), "x-replayed");
    assert_eq!(CONTRACT.in_progress(), Some(StatusCode::LOCKED));
    assert_eq!(CONTRACT.mismatch(), Some(StatusCode::UNPROCESSABLE_ENTITY));
    assert_eq!(CONTRACT.first_sent_header().unwrap(), "x-first-sent");
}

#[test]
fn a_new_contract_promises_nothing_that_was_not_said() {
    let contract = KeyContract::new(HeaderName::from_static("x-key"), KeyFormat::Quoted, DAY);
    assert_eq!((contract.source(), contract.unique_within()), (KeySource::Generate, UniqueWithin::Account));
    assert_eq!((contract.length(), contract.guards_reuse()), (1..=255, false));
    assert_eq!((contract.in_progress(), contract.mismatch()), (None, None));
    assert_eq!((contract.replays(), contract.replay_marker(), contract.first_sent_header()), (Replays::Unstated, None, None));
    assert_eq!(contract.replays().covers(StatusCode::OK), Coverage::Unstated);
}

proptest! {
    #[test]
    fn a_key_survives_the_wire_in_both_spellings(text in "[!-~]{1,255}") {
        let key = IdempotencyKey::parse(&text).unwrap();
        for contract in [QUOTED, BARE] {
            let value = contract.encode(&key).unwrap();
            prop_assert_eq!(contract.read(&value), Ok(key.clone()));
        }
    }

    #[test]
    fn no_header_value_panics_and_whatever_is_read_is_a_key(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
        if let Ok(value) = HeaderValue::from_bytes(&bytes) {
            for contract in [QUOTED, BARE] {
                if let Ok(key) = contract.read(&value) {
                    prop_assert!(is_key(key.as_str()));
                }
            }
        }
    }

    #[test]
    fn a_quoted_value_with_anything_behind_it_never_panics(behind in "[;=a-z0-9\"%:@?. \\\\-]{0,40}") {
        if let Ok(key) = QUOTED.read(&HeaderValue::from_str(&format!("\"key\"{behind}")).unwrap()) {
            prop_assert_eq!(key.as_str(), "key");
        }
    }
}

#[cfg(feature = "middleware")]
mod made {
    use uuid::{Uuid, Variant};

    use super::{HashSet, IdempotencyKey};

    #[test]
    fn a_random_key_is_a_uuid_of_version_four_and_never_the_same() {
        let keys: HashSet<IdempotencyKey> = (0..1_000).map(|_| IdempotencyKey::random()).collect();
        assert_eq!(keys.len(), 1_000);
        for key in keys {
            let uuid = Uuid::parse_str(key.as_str()).unwrap();
            assert_eq!((uuid.get_version_num(), uuid.get_variant()), (4, Variant::RFC4122));
            assert_eq!(uuid.to_string(), key.as_str());
            assert_eq!(IdempotencyKey::parse(key.as_str()), Ok(key));
        }
    }

    #[test]
    fn a_derived_key_is_the_same_in_every_process() {
        let key = IdempotencyKey::derived(Uuid::NAMESPACE_DNS, "www.example.com");
        assert_eq!(key.as_str(), "2ed6657d-e927-568b-95e1-2665a8aea6a2"); // RFC 9562, appendix A.4
        assert_ne!(key, IdempotencyKey::derived(Uuid::NAMESPACE_DNS, "www.example.org"));
        assert_ne!(key, IdempotencyKey::derived(Uuid::NAMESPACE_URL, "www.example.com"));
    }

    #[test]
    fn a_fingerprint_matches_log_lines_and_shows_no_key() {
        let key = IdempotencyKey::derived(Uuid::NAMESPACE_DNS, "www.example.com");
        let shown = key.fingerprint().to_string();
        assert_eq!(key.clone().fingerprint(), key.fingerprint());
        assert_eq!((shown.len(), format!("{:?}", key.fingerprint())), (8, format!("KeyFingerprint(#{shown})")));
        assert_ne!(IdempotencyKey::random().fingerprint(), IdempotencyKey::random().fingerprint());
    }
}

#[test]
fn what_is_replayed_goes_by_what_the_server_says_it_saves() {
    for (replays, status, coverage) in [
        (Replays::Unstated, 200, Coverage::Unstated),
        (Replays::Everything, 500, Coverage::Replayed),
        (Replays::Successes, 201, Coverage::Replayed),
        (Replays::Successes, 404, Coverage::RunsAgain),
        (Replays::Settled, 201, Coverage::Replayed),
        (Replays::Settled, 404, Coverage::Replayed),
        (Replays::Settled, 429, Coverage::RunsAgain),
        (Replays::Settled, 500, Coverage::RunsAgain),
    ] {
        assert_eq!(replays.covers(StatusCode::from_u16(status).unwrap()), coverage, "{replays:?} {status}");
    }
}

#[test]
fn only_an_equal_answer_that_is_saved_and_not_marked_is_a_silent_replay() {
    let saving = KeyContract::ietf(Duration::from_secs(3600)).with_replays(Replays::Everything);
    let marking = saving.clone().with_replay_marker(HeaderName::from_static("idempotent-replayed"));
    let successes = saving.clone().with_replays(Replays::Successes);
    for (contract, earlier, status, is_replay) in [
        (&saving, Some(500), 500, true),
        (&saving, None, 500, false),
        (&saving, Some(500), 501, false),
        (&saving, Some(503), 503, false), // a proxy answers this before anything has run
        (&saving, Some(408), 408, false),
        (&successes, Some(500), 500, false),
        (&marking, Some(500), 500, false),
    ] {
        let code = |status| StatusCode::from_u16(status).unwrap();
        let answer = contract.answer_after(earlier.map(code), code(status), &HeaderMap::new());
        assert_eq!(answer, is_replay.then_some(KeyAnswer::Replayed), "{earlier:?} {status}");
    }
}
