//! The presets against what the servers' documentation says (`tests/data/`).

use std::time::{Duration, UNIX_EPOCH};

use http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use reqwest_safe_retry::{
    policy::{Coverage, IdempotencyKey, KeyAnswer, KeyContract, KeyFormat, Replays, ServerAdvice},
    presets,
};
use serde_json::Value;

const HOUR: Duration = Duration::from_secs(60 * 60);
const LIFETIME: Duration = HOUR; // where the server publishes its own

/// Rows without a firm lifetime, or with the key in the body, have no preset.
const WITHOUT_PRESET: [&str; 2] = ["Solidgate", "PayPal / RazorPay / OpenBanking UK / Chargebee / Google payments / Square"];

fn preset(server: &str) -> Option<KeyContract> {
    Some(match server {
        "IETF draft-07 (2025-10-15)" => KeyContract::ietf(LIFETIME),
        "Stripe API v1" => presets::STRIPE_V1,
        "Stripe API v2" => presets::STRIPE_V2,
        "TrueLayer Payments v3" => presets::TRUELAYER,
        "Checkout.com" => presets::CHECKOUT_COM,
        "Whop" => presets::WHOP,
        "Fullstory v2" => presets::FULLSTORY,
        "Azure (OASIS)" => presets::AZURE_COMMUNICATION,
        _ => return None,
    })
}

fn rows(data: &str) -> Vec<Value> {
    serde_json::from_str::<Value>(data).unwrap()["rows"].as_array().unwrap().clone()
}

/// The first number in a fact such as "409; not saved, retry ok" or 422.
fn status(fact: &Value) -> Option<StatusCode> {
    let number = fact.as_u64().or_else(|| fact.as_str()?.split(|c: char| !c.is_ascii_digit()).find(|run| run.len() == 3)?.parse().ok())?;
    StatusCode::from_u16(u16::try_from(number).ok()?).ok()
}

/// "6 h", "30 days", "5 min (ACS)", "pruned after at least 24 h, ...".
fn lifetime(fact: &str) -> Option<Duration> {
    let words: Vec<&str> = fact.split([' ', ',']).collect();
    words.windows(2).find_map(|pair| {
        let count: u32 = pair[0].parse().ok()?;
        let unit = match pair[1] {
            "min" => Duration::from_secs(60),
            "h" => HOUR,
            "days" => 24 * HOUR,
            _ => return None,
        };
        Some(count * unit)
    })
}

#[test]
fn every_preset_says_what_the_documentation_says() {
    for row in rows(include_str!("../../data/idempotency_contracts.json")) {
        let server = row["server"].as_str().unwrap();
        let Some(contract) = preset(server) else {
            assert!(WITHOUT_PRESET.contains(&server), "{server} has no preset");
            continue;
        };
        let header = row["header"].as_str().unwrap().split(" + ").next().unwrap();
        assert_eq!(contract.header().as_str(), header.to_ascii_lowercase(), "{server}");

        let quoted = row["format"].as_str().is_some_and(|format| format.contains("quoted"));
        assert_eq!(contract.format(), if quoted { KeyFormat::Quoted } else { KeyFormat::Bare }, "{server}");

        let remembered_for = row["ttl"].as_str().and_then(lifetime);
        let published = if server == "Fullstory v2" { 24 * HOUR } else { LIFETIME };
        assert_eq!(contract.remembered_for(), remembered_for.unwrap_or(published), "{server}");

        if let Some(status) = status(&row["in_progress"]) {
            assert_eq!(contract.in_progress(), Some(status), "{server}");
        }
        if let Some(status) = status(&row["reuse_other_payload"]) {
            assert_eq!(contract.mismatch(), Some(status), "{server}");
        }
        let marker = row["replay_marker"].as_str().and_then(|marker| marker.split(':').next()).map(str::to_ascii_lowercase);
        assert_eq!(contract.replay_marker().map(HeaderName::as_str), marker.as_deref(), "{server}");

        let replayed_500 = match row["replays"].as_str() {
            Some(fact) if fact.contains("incl. 500") || fact.contains("success or error") => Coverage::Replayed,
            Some(fact) if fact.contains("only 2xx") || fact.contains("re-executed") || fact.contains("5xx run again") => {
                Coverage::RunsAgain
            }
            Some(_) | None if server == "Azure (OASIS)" => Coverage::RunsAgain, // the rows of its own file
            Some(_) | None => Coverage::Unstated,
        };
        assert_eq!(contract.replays().covers(StatusCode::INTERNAL_SERVER_ERROR), replayed_500, "{server}");
    }
}

/// The data has no row to read them from (PayPal shares one with others, Adyen has none), so what
/// their pages say stands here.
#[test]
fn paypal_and_adyen_are_as_their_own_pages_say() {
    let paypal = "paypal-request-id";
    for (server, contract, header, hours, in_progress) in [
        ("PayPal Orders v2", presets::PAYPAL_ORDERS, paypal, 6, None),
        ("PayPal Payments v2", presets::PAYPAL_PAYMENTS, paypal, 45 * 24, None),
        ("Adyen", presets::ADYEN, "idempotency-key", 7 * 24, Some(StatusCode::CONFLICT)),
    ] {
        assert_eq!(contract.header(), header, "{server}");
        assert_eq!(contract.format(), KeyFormat::Bare, "{server}");
        assert_eq!(contract.remembered_for(), hours * HOUR, "{server}");
        assert_eq!(contract.in_progress(), in_progress, "{server}");
    }
}

#[test]
fn oasis_answers_are_read_as_its_table_says() {
    let data = include_str!("../../data/oasis_repeatable_requests.json");
    let contract = presets::AZURE_COMMUNICATION;
    let window = serde_json::from_str::<Value>(data).unwrap()["tracked_window_s"].as_u64().unwrap();
    assert_eq!(contract.remembered_for(), Duration::from_secs(window));

    for row in rows(data) {
        let Some(status) = status(&row["status"]) else { continue };
        let expected = match status {
            StatusCode::CONFLICT => Some(KeyAnswer::InUse),
            StatusCode::BAD_REQUEST => Some(KeyAnswer::Mismatch),
            _ => None, // 412: final by itself
        };
        assert_eq!(contract.answer(status, &HeaderMap::new()), expected, "{row}");
    }
    assert_eq!(contract.replays().covers(StatusCode::CREATED), Coverage::Replayed);
    assert_eq!(contract.replays().covers(StatusCode::NOT_FOUND), Coverage::Replayed);
    assert_eq!(contract.replays().covers(StatusCode::BAD_GATEWAY), Coverage::RunsAgain);
}

#[test]
fn oasis_tells_the_time_of_the_first_send_on_every_attempt() {
    let (name, value) = presets::AZURE_COMMUNICATION.first_sent(UNIX_EPOCH + Duration::from_millis(784_111_777_999)).unwrap();
    assert_eq!(name, "repeatability-first-sent");
    assert_eq!(value, "Sun, 06 Nov 1994 08:49:37 GMT");
    assert_eq!(presets::STRIPE_V1.first_sent(UNIX_EPOCH), None);
}

#[test]
fn a_key_of_our_own_making_suits_every_preset() {
    let contracts = [
        KeyContract::ietf(LIFETIME),
        presets::STRIPE_V1,
        presets::STRIPE_V2,
        presets::AZURE_COMMUNICATION,
        presets::PAYPAL_ORDERS,
        presets::PAYPAL_PAYMENTS,
        presets::ADYEN,
        presets::CHECKOUT_COM,
        presets::TRUELAYER,
        presets::WHOP,
        presets::FULLSTORY,
    ];
    for contract in contracts {
        let key = IdempotencyKey::random();
        assert_eq!(contract.read(&contract.encode(&key).unwrap()), Ok(key), "{contract:?}");
    }
}

#[test]
fn a_key_longer_than_the_server_takes_is_refused() {
    let key = IdempotencyKey::parse(&"k".repeat(109)).unwrap();
    assert!(presets::ADYEN.encode(&key).is_err());
    assert!(presets::PAYPAL_ORDERS.encode(&key).is_err());
    assert!(presets::AZURE_COMMUNICATION.encode(&key).is_err());
    assert!(presets::STRIPE_V1.encode(&key).is_ok());
}

#[test]
fn stripe_marks_its_replays_and_they_are_final_whatever_their_status() {
    let mut headers = HeaderMap::new();
    headers.insert("idempotent-replayed", HeaderValue::from_static("true"));
    assert_eq!(presets::STRIPE_V1.answer(StatusCode::INTERNAL_SERVER_ERROR, &headers), Some(KeyAnswer::Replayed));
    assert_eq!(presets::STRIPE_V1.answer(StatusCode::INTERNAL_SERVER_ERROR, &HeaderMap::new()), None);
    assert_eq!(presets::STRIPE_V2.replays(), Replays::Successes);
}

/// The waits and vetoes of each server's answers, as its own client reads them.
#[test]
fn hint_presets_read_what_the_servers_clients_read() {
    let said = |lines: &[(&'static str, &str)]| {
        let lines = lines.iter().map(|(name, value)| (HeaderName::from_static(name), HeaderValue::from_str(value).unwrap()));
        lines.collect::<HeaderMap>()
    };
    let exact = said(&[("retry-after-ms", "1500"), ("retry-after", "1"), ("x-should-retry", "false"), ("stripe-should-retry", "false")]);
    let (millis, seconds) = (Some(Ok(Duration::from_millis(1500))), Some(Ok(Duration::from_secs(1))));
    let veto = Some(ServerAdvice::Forbid);
    for (server, hints, wait, veto) in [
        ("OpenAI", presets::OPENAI_HINTS, millis, veto),
        ("Anthropic", presets::ANTHROPIC_HINTS, millis, veto),
        ("Azure", presets::AZURE_HINTS, millis, None),
        ("Stripe", presets::STRIPE_HINTS, seconds, veto),
        ("Shopify", presets::SHOPIFY_HINTS, seconds, None),
    ] {
        assert_eq!((hints.wait(&exact, UNIX_EPOCH), hints.advice(&exact)), (wait, veto), "{server}");
    }
    let cosmos = said(&[("x-ms-retry-after-ms", "100")]);
    assert_eq!(presets::AZURE_HINTS.wait(&cosmos, UNIX_EPOCH), Some(Ok(Duration::from_millis(100))));
    let fraction = said(&[("retry-after", "2.0")]);
    assert_eq!(presets::SHOPIFY_HINTS.wait(&fraction, UNIX_EPOCH), Some(Ok(Duration::from_secs(2))));
}
