//! Waits and vetoes of vendors: each field speaks only where it is asked for, and in its turn.

use std::time::{Duration, SystemTime};

use http::{HeaderMap, header::AGE};
use reqwest_safe_retry::{
    hints::HintSources,
    policy::{Hint, InvalidHint, ServerAdvice},
};

use super::lines;

const MILLISECONDS: [&str; 3] = ["retry-after-ms", "x-ms-retry-after-ms", "x-amz-retry-after"];
const QUOTAS: [&str; 7] = [
    "ratelimit",
    "ratelimit-reset",
    "x-ratelimit-reset",
    "x-rate-limit-reset",
    "ratelimit-remaining",
    "x-ratelimit-remaining",
    "x-rate-limit-remaining",
];
const VETOES: [&str; 2] = ["x-should-retry", "stripe-should-retry"];

/// Input: header lines, and `now` for the arrival.
pub fn check(data: &[u8]) {
    let headers = lines::headers(data);
    let received = lines::received(&headers);
    assert_eq!(HintSources::STANDARD.wait(&headers, received), Hint::parse(&headers, received));
    assert_eq!(HintSources::STANDARD.advice(&headers), None);
    each_in_its_turn(&headers, received);
    a_stored_answer_says_nothing_of_quotas(&headers, received);
    forbidding_goes_before_allowing(&headers);
}

fn each_in_its_turn(headers: &HeaderMap, received: SystemTime) {
    let rest = lines::without(headers, &["retry-after"]);
    let alone = |sources: HintSources| match sources.wait(&rest, received) {
        Some(Ok(wait)) => Some(wait),
        None => None,
        Some(Err(InvalidHint { .. })) => panic!("only Retry-After can be unreadable: {headers:?}"),
    };
    let first: Option<Result<Duration, InvalidHint>> = alone(HintSources::STANDARD.with_milliseconds())
        .map(Ok)
        .or_else(|| Hint::parse(headers, received))
        .or_else(|| alone(HintSources::STANDARD.with_rate_limit()).map(Ok))
        .or_else(|| alone(HintSources::STANDARD.with_rate_limit_reset()).map(Ok));
    assert_eq!(HintSources::ALL.wait(headers, received), first, "{headers:?}");
}

fn a_stored_answer_says_nothing_of_quotas(headers: &HeaderMap, received: SystemTime) {
    if headers.contains_key(AGE) {
        let without = lines::without(headers, &QUOTAS);
        assert_eq!(HintSources::ALL.wait(headers, received), HintSources::ALL.wait(&without, received), "{headers:?}");
    }
    let exact = lines::without(headers, &MILLISECONDS);
    let sources = HintSources::STANDARD.with_milliseconds();
    assert_eq!(sources.wait(&exact, received), Hint::parse(&exact, received));
}

fn forbidding_goes_before_allowing(headers: &HeaderMap) {
    let sources = HintSources::ALL;
    let all = sources.advice(headers);
    for field in VETOES {
        assert!(sources.advice(&lines::without(headers, &[field])) <= all, "a field less forbids more: {headers:?}");
    }
    let said = |word: &[u8]| VETOES.iter().flat_map(|field| headers.get_all(*field)).any(|line| line.as_bytes().trim_ascii() == word);
    assert_eq!(all == Some(ServerAdvice::Forbid), said(b"false"), "{headers:?}");
}
