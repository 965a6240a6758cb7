//! `Retry-After` and the clock it is measured by: never earlier than asked, whatever the bytes.

use std::time::{Duration, SystemTime};

use http::{
    HeaderMap, HeaderValue,
    header::{AGE, DATE, RETRY_AFTER},
};
use reqwest_safe_retry::policy::{Hint, InvalidHint};

use super::lines;

type Wait = Option<Result<Duration, InvalidHint>>;

/// Input: header lines (`retry-after`, `date`, `age`, and `now` for the arrival).
pub fn check(data: &[u8]) {
    let headers = lines::headers(data);
    let received = lines::received(&headers);
    let wait = Hint::parse(&headers, received);
    assert_eq!(wait.is_some(), headers.contains_key(RETRY_AFTER), "an answer that asks for nothing asks for no wait");

    let values: Vec<HeaderValue> = headers.get_all(RETRY_AFTER).iter().cloned().collect();
    for value in &values {
        alone(value, received);
    }
    order_and_merging_change_nothing(&headers, &values, received, wait);
    no_line_makes_the_wait_shorter(&headers, &values, received, wait);
    no_server_clock_makes_an_earlier_resend_by_more_than_the_skew(&headers, received, wait);
}

/// One value, by our own clock: against the standard library's numbers and `httpdate`'s dates.
fn alone(value: &HeaderValue, received: SystemTime) {
    let ours = Hint::parse(&HeaderMap::from_iter([(RETRY_AFTER, value.clone())]), received);
    let Ok(text) = value.to_str() else { return };
    let text = text.trim_matches(|c: char| c.is_ascii_whitespace());
    if !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit()) {
        let seconds = text.parse().map_or(Duration::MAX, Duration::from_secs);
        // Saturating digit by digit ends with the longest nanoseconds, too.
        let Some(Ok(wait)) = ours else { panic!("digits are unreadable: {text:?}") };
        assert!(wait == seconds || (seconds == Duration::MAX && wait > Duration::from_secs(u64::MAX - 1)), "{text:?}: {wait:?}");
    }
    if let Ok(instant) = httpdate::parse_http_date(text) {
        let theirs = instant.duration_since(received).unwrap_or(Duration::ZERO);
        match ours {
            Some(Ok(wait)) if wait == theirs => {}
            // `httpdate` has a fixed century for two-digit years, RFC 9110 a moving one.
            Some(Ok(wait)) if text.contains('-') => assert!(wait <= Duration::from_secs(51 * 31_622_400), "{text:?}: {wait:?}"),
            // It also takes other characters between the parts of a date, which the grammar does not.
            Some(Err(_)) if httpdate::fmt_http_date(instant) != text => {}
            other => panic!("{text:?}: {other:?}, where httpdate waits {theirs:?}"),
        }
    }
}

fn order_and_merging_change_nothing(headers: &HeaderMap, values: &[HeaderValue], received: SystemTime, wait: Wait) {
    let backwards = with_values(headers, values.iter().rev().cloned());
    assert_eq!(Hint::parse(&backwards, received), wait, "the order of lines changes the wait: {headers:?}");
    if let Some(Ok(_)) = wait {
        let merged = values.iter().map(HeaderValue::as_bytes).collect::<Vec<_>>().join(&b", "[..]);
        let merged = with_values(headers, HeaderValue::from_bytes(&merged));
        assert_eq!(Hint::parse(&merged, received), wait, "a proxy that merges lines changes the wait: {headers:?}");
    }
}

fn no_line_makes_the_wait_shorter(headers: &HeaderMap, values: &[HeaderValue], received: SystemTime, wait: Wait) {
    for end in 1..values.len() {
        let fewer = Hint::parse(&with_values(headers, values[..end].iter().cloned()), received);
        match (fewer, wait) {
            (Some(Ok(fewer)), Some(Ok(wait))) => assert!(fewer <= wait, "{headers:?}"),
            (Some(Err(_)), Some(Ok(_))) => panic!("a line makes another one readable: {headers:?}"),
            (_, Some(Err(_)) | None) | (None, Some(Ok(_))) => {}
        }
    }
}

/// A server's clock that is credibly wrong may bring a date forward by the credible skew, and no
/// further: beyond it the longer of both waits counts.
fn no_server_clock_makes_an_earlier_resend_by_more_than_the_skew(headers: &HeaderMap, received: SystemTime, wait: Wait) {
    const CREDIBLE_SKEW: Duration = Duration::from_secs(5 * 60);
    let by_our_clock = Hint::parse(&lines::without(headers, &[DATE.as_str(), AGE.as_str()]), received);
    if let (Some(Ok(wait)), Some(Ok(by_our_clock))) = (wait, by_our_clock) {
        assert!(wait.saturating_add(CREDIBLE_SKEW) >= by_our_clock, "{headers:?}: {wait:?} instead of {by_our_clock:?}");
    }
}

fn with_values(headers: &HeaderMap, values: impl IntoIterator<Item = HeaderValue>) -> HeaderMap {
    let mut others = lines::without(headers, &[RETRY_AFTER.as_str()]);
    others.extend(values.into_iter().map(|value| (RETRY_AFTER, value)));
    others
}
