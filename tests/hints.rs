//! The wait that a server asks for: rows asserted by standards and by other projects' tests, named faults, and properties.

#![expect(clippy::unwrap_used, reason = "what fails here fails the run")]

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use http::{HeaderMap, HeaderName, HeaderValue};
use proptest::prelude::*;
use reqwest_safe_retry::policy::{Hint, InvalidHint};
use serde_json::Value;

// ===== rows =====

#[test]
fn every_row_of_the_grammar_is_read_as_rfc_9110_says_and_fractions_round_up() {
    let rows = data(include_str!("data/retry_after_differential.json"));
    for row in rows["rows"].as_array().unwrap() {
        let value = row["value"].as_str().unwrap();
        let reading = &row["rfc9110_reading"];
        let expected = match reading["kind"].as_str().unwrap() {
            "delay" => seconds(reading["seconds"].as_u64().unwrap()),
            "delay_saturated" => Some(Ok(Duration::MAX)),
            // The one wanted difference: the grammar has no fractions.
            "invalid" if value == "1.5" => Some(Ok(Duration::from_millis(1500))),
            "invalid" => unreadable(),
            kind => panic!("{value:?}: unknown kind {kind}"),
        };
        assert_eq!(retry_after(value, at(rows["now_epoch"].as_u64().unwrap())), expected, "{value:?}");
    }
}

#[test]
fn every_date_of_the_three_forms_denotes_the_instant_that_others_assert() {
    for case in data(include_str!("data/http_date_cases.json"))["cases"].as_array().unwrap() {
        let value = case["value"].as_str().unwrap();
        // Seen from the epoch the wait is the instant itself; only a two-digit year needs to know the time.
        let received = case["now"].as_str().map_or(at(946_684_800), timestamp);
        let expected = match value {
            "Sun, 07 Nov 1994 08:48:37 GMT" => Some(784_198_117), // a weekday that does not match is no reason to come back early
            "Sun Nov 10 08:00:00 1000" => Some(0),                // long past
            _ => case.get("strict_rfc9110").unwrap_or(&case["expect"]).as_u64(),
        };
        let wait = expected.map(|epoch| Ok(at(epoch).duration_since(received).unwrap_or_default()));
        assert_eq!(retry_after(value, received), wait.or_else(unreadable), "{value:?}");
        if !value.contains('-') {
            assert_eq!(retry_after(value, UNIX_EPOCH), expected.map_or_else(unreadable, seconds), "{value:?} from the epoch");
        }
    }
}

#[test]
fn rows_of_other_projects_agree_wherever_they_are_no_policy() {
    for case in data(include_str!("data/retry_after_cases.json"))["cases"].as_array().unwrap() {
        let id = case["id"].as_str().unwrap();
        let received = case["now"].as_str().map_or(at(1_700_000_000), timestamp);
        let headers = case_headers(case, received);
        if !headers.contains_key("retry-after") {
            assert_eq!(Hint::parse(&headers, received), None, "{id}: other fields are not read unasked");
            continue;
        }
        let wait = case["expect"]["seconds"].as_u64().map(Duration::from_secs);
        let expected = match (id, case["expect"]["kind"].as_str().unwrap()) {
            // Lenient there, strict here: unreadable is never a zero wait.
            ("urllib3-10" | "axios-03", _) => unreadable(),
            // Capped there; here the wait stays what the server asked, and one that does not fit stops.
            ("urllib3-15", _) => seconds(21_601),
            ("linkerd-03", _) => seconds(3600),
            // The first line there, the longest wait here.
            ("go-05", _) => seconds(3),
            // Fractions are read.
            ("urllib3-06", _) => seconds(1),
            // A Unix time there, by configuration.
            ("envoy-06" | "envoy-07", _) => seconds(case["headers"]["retry-after"][0].as_str().unwrap().parse().unwrap()),
            // Reading switched off, or zero and past ignored there; what to do with it is the policy's matter here.
            ("undici-03", _) => seconds(60),
            ("openai-02" | "openai-09" | "openai-10", _) => seconds(0),
            // Over the cap there, so not used; here it is passed on whole.
            ("openai-14", _) => seconds(121),
            ("anthropic-09", _) => seconds(61),
            ("openai-15" | "anthropic-10", _) => Some(Ok(Duration::MAX)),
            ("got-04", _) => seconds(2),
            (_, "delay") => wait.map(Ok),
            (_, "instant") => Some(Ok(at(case["expect"]["epoch"].as_u64().unwrap()).duration_since(received).unwrap_or_default())),
            (_, "none" | "invalid") => unreadable(),
            (_, kind) => panic!("{id}: unknown kind {kind}"),
        };
        assert_eq!(Hint::parse(&headers, received), expected, "{id}");
    }
}

#[test]
#[cfg(feature = "middleware")]
fn rows_of_vendor_fields_agree_once_these_are_read() {
    use reqwest_safe_retry::HintSources;

    for case in data(include_str!("data/retry_after_cases.json"))["cases"].as_array().unwrap() {
        let id = case["id"].as_str().unwrap();
        let received = case["now"].as_str().map_or(at(1_700_000_000), timestamp);
        let headers = case_headers(case, received);
        let standard_only = headers.len() == headers.get_all("retry-after").iter().count();
        let expected = match (id, case["expect"]["seconds"].as_u64()) {
            _ if standard_only => Hint::parse(&headers, received),
            // Not read at all.
            ("ky-11" | "linkerd-12" | "linkerd-13" | "linkerd-15", _) => None,
            // An unreadable Retry-After does not fall through.
            ("ky-10", _) => unreadable(),
            // Over the cap there; here passed on whole.
            ("openai-22", _) => Some(Ok(Duration::from_millis(120_001))),
            // When, not whether.
            ("aws_cls-04", _) => seconds(5),
            (_, Some(wait)) => seconds(wait),
            (_, None) => panic!("{id}: what is expected?"),
        };
        assert_eq!(HintSources::ALL.wait(&headers, received), expected, "{id}");
    }
}

// ===== named faults =====

#[test]
fn a_wait_too_large_for_any_clock_saturates_and_never_turns_short() {
    assert_eq!(now_after("9223372036"), seconds(9_223_372_036));
    assert_eq!(now_after("9223372037"), seconds(9_223_372_037));
    assert_eq!(now_after("18446744073709551615"), seconds(u64::MAX));
    assert_eq!(now_after("18446744073709551615.9999999999"), Some(Ok(Duration::MAX)));
    assert_eq!(now_after("18446744073709551616"), Some(Ok(Duration::MAX)));
    assert_eq!(now_after(&"9".repeat(400)), Some(Ok(Duration::MAX)));
    assert_eq!(now_after(&"0".repeat(400)), seconds(0));
}

#[test]
fn a_unix_time_is_taken_at_its_word_as_seconds() {
    assert_eq!(now_after("1746136938"), seconds(1_746_136_938));
}

#[test]
fn a_date_in_the_past_asks_for_no_wait() {
    let headers = headers(&[("date", "Tue, 14 Nov 2023 22:13:20 GMT"), ("retry-after", "Tue, 14 Nov 2023 22:13:15 GMT")]);
    assert_eq!(Hint::parse(&headers, at(1_700_000_000)), seconds(0));
}

#[test]
fn a_date_is_no_number_and_keeps_its_wait() {
    let headers = headers(&[("date", "Tue, 14 Nov 2023 22:13:20 GMT"), ("retry-after", "Tue, 14 Nov 2023 22:15:20 GMT")]);
    assert_eq!(Hint::parse(&headers, at(1_700_000_000)), seconds(120));
}

#[test]
fn a_malformed_wait_is_unreadable_and_never_zero() {
    for value in [
        "soon", "1m0s", "", " ", "\t", "-5", "+5", "0x10", "1e3", "NaN", "inf", "120junk", "１２", "1_000", "1 0", "\"10\"", "10;", ".5",
        "5.", ".", "1.5.2", "1.+5", "1. 5", "1,5", "--", "10s",
    ] {
        assert_eq!(now_after(value), unreadable(), "{value:?}");
    }
    let mut headers = HeaderMap::new();
    headers.insert("retry-after", HeaderValue::from_bytes(b"1\xff").unwrap());
    assert_eq!(Hint::parse(&headers, at(1_700_000_000)), unreadable());
}

/// B12.
#[test]
fn a_fraction_of_a_second_is_waited_out() {
    assert_eq!(now_after("1.5"), Some(Ok(Duration::from_millis(1500))));
    assert_eq!(now_after("2.0"), seconds(2));
    assert_eq!(now_after("0.493"), Some(Ok(Duration::from_millis(493))));
    assert_eq!(now_after("299.997"), Some(Ok(Duration::from_millis(299_997))));
    assert_eq!(now_after("0.123456789"), Some(Ok(Duration::from_nanos(123_456_789))));
    assert_eq!(now_after("0.1234567890000"), Some(Ok(Duration::from_nanos(123_456_789))));
    assert_eq!(now_after("0.1234567890001"), Some(Ok(Duration::from_nanos(123_456_790))));
    assert_eq!(now_after("0.9999999999"), seconds(1));
}

#[test]
fn seconds_are_seconds_and_dates_are_seconds_too() {
    assert_eq!(now_after("2"), Some(Ok(Duration::from_millis(2000))));
    assert_eq!(now_after("Tue, 14 Nov 2023 22:13:25 GMT"), Some(Ok(Duration::from_millis(5000))));
}

#[test]
fn a_millisecond_field_is_not_read_unasked() {
    let headers = headers(&[("retry-after-ms", "1500"), ("retry-after", "1")]);
    assert_eq!(Hint::parse(&headers, at(1_700_000_000)), seconds(1));
}

#[test]
fn the_three_forms_of_one_instant_give_one_wait() {
    for form in ["Tue, 14 Nov 2023 22:13:40 GMT", "Tuesday, 14-Nov-23 22:13:40 GMT", "Tue Nov 14 22:13:40 2023"] {
        assert_eq!(now_after(form), seconds(20), "{form}");
    }
}

#[test]
fn a_two_digit_year_is_at_most_fifty_years_ahead_to_the_second() {
    assert_eq!(now_after("Tuesday, 14-Nov-73 22:13:20 GMT"), seconds(3_277_923_200 - 1_700_000_000));
    assert_eq!(now_after("Tuesday, 14-Nov-73 22:13:21 GMT"), seconds(0));
    // Across the century, both ways.
    let new_years_eve = timestamp("1999-12-31T23:59:58Z");
    assert_eq!(retry_after("Saturday, 01-Jan-00 00:00:03 GMT", new_years_eve), seconds(5));
    assert_eq!(retry_after("Friday, 31-Dec-99 23:59:59 GMT", new_years_eve), seconds(1));
    assert_eq!(retry_after("Friday, 31-Dec-99 23:59:59 GMT", timestamp("2000-01-01T00:00:00Z")), seconds(0));
    // 29 February has no counterpart fifty years earlier.
    assert_eq!(retry_after("Saturday, 29-Feb-76 12:00:00 GMT", timestamp("2025-06-01T00:00:00Z")), seconds(0));
    assert!(
        retry_after("Saturday, 29-Feb-76 12:00:00 GMT", timestamp("2026-06-01T00:00:00Z")).unwrap().unwrap()
            > Duration::from_secs(1_500_000_000)
    );
}

#[test]
fn a_leap_second_is_the_second_after_it() {
    let before = timestamp("2016-12-31T23:59:58Z");
    for form in ["Sat, 31 Dec 2016 23:59:60 GMT", "Saturday, 31-Dec-16 23:59:60 GMT", "Sat Dec 31 23:59:60 2016"] {
        assert_eq!(retry_after(form, before), seconds(2), "{form}");
    }
    assert_eq!(retry_after("Sat, 31 Dec 2016 23:59:61 GMT", before), unreadable());
}

#[test]
fn a_date_in_a_wrong_letter_case_or_shape_is_unreadable() {
    for value in [
        "tue, 14 Nov 2023 22:13:40 GMT",
        "Tue, 14 nov 2023 22:13:40 GMT",
        "Tue, 14 NOV 2023 22:13:40 GMT",
        "Tue, 14 Nov 2023 22:13:40 gmt",
        "TUESDAY, 14-Nov-23 22:13:40 GMT",
        "Tuesday, 14 Nov 2023 22:13:40 GMT",
        "Tue, 14-Nov-23 22:13:40 GMT",
        "Tue, 14-Nov-2023 22:13:40 GMT",
        "Tuesday, 14-Nov-2023 22:13:40 GMT",
        "Tuesday Nov 14 22:13:40 2023",
        "Tue,14 Nov 2023 22:13:40 GMT",
        "Tue,  14 Nov 2023 22:13:40 GMT",
        "Tue, 14 Nov 2023 22:13:40GMT",
        "Tue, 14 Nov 2023 22:13:40 GMT GMT",
        "Tue Nov 4 22:13:40 2023",
        "Tue Nov 14 22:13:40 2023 GMT",
        "Tue, 00 Nov 2023 22:13:40 GMT",
        "Tue,  4 Nov 2023 22:13:40 GMT",
        "Thu, 30 Feb 2024 22:13:40 GMT",
        "Tue Feb 31 22:13:40 2023",
        "Wed, 29 Feb 2023 00:00:00 GMT",
        "Tue, 14 Nov 2023 24:00:00 GMT",
        "Tue, 14 Nov 2023 22:60:00 GMT",
        "Tue, 14 Nov 2023 22:13 GMT",
        "Tue, 1４ Nov 2023 22:13:40 GMT",
    ] {
        assert_eq!(now_after(value), unreadable(), "{value:?}");
    }
}

#[test]
fn a_date_is_measured_by_the_servers_own_clock() {
    // The server's clock is five minutes behind ours, then five minutes ahead: thirty seconds are thirty seconds.
    for (date, until) in [
        ("Tue, 14 Nov 2023 22:08:20 GMT", "Tue, 14 Nov 2023 22:08:50 GMT"),
        ("Tuesday, 14-Nov-23 22:18:20 GMT", "Tue Nov 14 22:18:50 2023"),
    ] {
        let headers = headers(&[("date", date), ("retry-after", until)]);
        assert_eq!(Hint::parse(&headers, at(1_700_000_000)), seconds(30), "{date}");
    }
}

#[test]
fn an_answer_out_of_a_cache_is_as_old_as_its_age_says() {
    let cached = |age: &str| {
        let until = ("retry-after", "Tue, 14 Nov 2023 22:14:20 GMT");
        Hint::parse(&headers(&[("date", "Tue, 14 Nov 2023 22:12:20 GMT"), ("age", age), until]), at(1_700_000_000))
    };
    assert_eq!(cached("60"), seconds(60));
    assert_eq!(cached(" 60\t"), seconds(60));
    // Unreadable: as if there were none, which waits longer.
    assert_eq!(cached("-60"), seconds(120));
    assert_eq!(cached("1.5"), seconds(120));
    // Absurd: the longer of both waits.
    assert_eq!(cached("31536000"), seconds(60));
    assert_eq!(cached(&"9".repeat(100)), seconds(60));
}

#[test]
fn when_one_clock_must_be_broken_the_longer_wait_counts() {
    let wait = |date, until| Hint::parse(&headers(&[("date", date), ("retry-after", until)]), at(1_700_000_000));
    assert_eq!(wait("Sun, 06 Nov 1994 08:49:37 GMT", "Sun, 06 Nov 1994 08:50:37 GMT"), seconds(60));
    assert_eq!(wait("Fri, 14 Nov 2031 22:13:20 GMT", "Tue, 14 Nov 2023 22:14:20 GMT"), seconds(60));
    assert_eq!(wait("Thu, 01 Jan 1970 00:00:00 GMT", "Tue, 14 Nov 2023 22:14:20 GMT"), seconds(1_700_000_060));
}

#[test]
fn an_unreadable_date_leaves_our_own_clock() {
    let headers = headers(&[("date", "now"), ("age", "60"), ("retry-after", "Tue, 14 Nov 2023 22:14:20 GMT")]);
    assert_eq!(Hint::parse(&headers, at(1_700_000_000)), seconds(60));
}

#[test]
fn of_several_lines_the_latest_counts_and_an_unreadable_one_spoils_all() {
    let lines =
        |values: &[&str]| Hint::parse(&headers(&values.iter().map(|value| ("retry-after", *value)).collect::<Vec<_>>()), at(1_700_000_000));
    assert_eq!(lines(&[]), None);
    assert_eq!(lines(&["7", "7"]), seconds(7));
    assert_eq!(lines(&["2", "3", "1"]), seconds(3));
    assert_eq!(lines(&["2", "Tue, 14 Nov 2023 22:13:40 GMT"]), seconds(20));
    assert_eq!(lines(&["2", "soon"]), unreadable());
    assert_eq!(lines(&["soon", "2"]), unreadable());
    assert_eq!(lines(&["soon", "soon"]), unreadable());
}

// ===== properties =====

proptest! {
    #[test]
    fn whatever_arrives_is_read_without_panic(values in prop::collection::vec(field_value(), 0..3), date in field_value(), age in field_value(), clock: i64) {
        let mut headers = HeaderMap::from_iter([(http::header::DATE, date), (http::header::AGE, age)]);
        for value in values {
            headers.append("retry-after", value);
        }
        let _ = Hint::parse(&headers, anywhere(clock));
    }

    #[test]
    fn whatever_looks_like_a_date_is_read_without_panic(
        value in "(Sun|Mon|Sunday|Monday|x)(, | )[0-9 A-Za-z-]{0,12}[ -][0-9]{0,5} [0-9]{0,2}:[0-9]{2}:[0-9]{2}( GMT| [0-9]{4})",
        clock: i64,
    ) {
        let _ = retry_after(&value, anywhere(clock));
    }

    #[test]
    fn only_digits_with_at_most_one_inner_point_are_a_number(value in "[0-9.+eExX_ -]{0,12}") {
        let text = value.trim_matches(' ');
        let parts: Vec<_> = text.split('.').collect();
        let number = parts.len() <= 2 && parts.iter().all(|part| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit()));
        prop_assert_eq!(now_after(&value).unwrap().is_ok(), number);
    }

    #[test]
    fn a_number_is_never_read_shorter_than_written(whole: u64, fraction in "[0-9]{1,25}") {
        let wait = now_after(&format!("{whole}.{fraction}")).unwrap().unwrap();
        let digits: u128 = format!("{fraction:0<25}").parse().unwrap();
        let written = u128::from(whole) * 1_000_000_000 + digits.div_ceil(10u128.pow(16));
        prop_assert_eq!(wait.as_nanos(), written.min(Duration::MAX.as_nanos()));
        prop_assert_eq!(now_after(&whole.to_string()), seconds(whole));
    }

    #[test]
    fn every_instant_survives_being_written_in_each_form(epoch in 0..253_402_300_800u64, early in 0..1_500_000_000u64) {
        let instant = at(epoch);
        let received = at(epoch.saturating_sub(early));
        let wait = Some(Ok(instant.duration_since(received).unwrap()));
        let fixdate = httpdate::fmt_http_date(instant);
        prop_assert_eq!(retry_after(&fixdate, received), wait, "{}", &fixdate);
        for form in [asctime(&fixdate), rfc850(&fixdate)] {
            prop_assert_eq!(retry_after(&form, received), wait, "{}", form);
        }
    }

    #[test]
    fn any_weekday_will_do(epoch in 0..253_402_300_800u64, weekday in "Mon|Tue|Wed|Thu|Fri|Sat|Sun") {
        let fixdate = httpdate::fmt_http_date(at(epoch));
        prop_assert_eq!(retry_after(&format!("{weekday}{}", &fixdate[3..]), UNIX_EPOCH), seconds(epoch));
    }

    #[test]
    fn the_longest_of_several_lines_counts_whatever_their_order(waits in prop::collection::vec(any::<u64>(), 1..5)) {
        let mut headers = HeaderMap::new();
        for wait in &waits {
            headers.append("retry-after", HeaderValue::from(*wait));
        }
        prop_assert_eq!(Hint::parse(&headers, UNIX_EPOCH), seconds(*waits.iter().max().unwrap()));
    }
}

// ===== helpers =====

type Read = Option<Result<Duration, InvalidHint>>;

/// `InvalidHint` is opaque, so one is made by asking.
fn unreadable() -> Read {
    let hint = Hint::parse(&headers(&[("retry-after", "?")]), UNIX_EPOCH);
    assert!(matches!(hint, Some(Err(_))));
    hint
}

fn seconds(seconds: u64) -> Read {
    Some(Ok(Duration::from_secs(seconds)))
}

fn at(epoch: u64) -> SystemTime {
    UNIX_EPOCH + Duration::from_secs(epoch)
}

/// Any time that this platform can hold, before the epoch too.
fn anywhere(epoch: i64) -> SystemTime {
    let distance = Duration::from_secs(epoch.unsigned_abs());
    let instant = if epoch < 0 { UNIX_EPOCH.checked_sub(distance) } else { UNIX_EPOCH.checked_add(distance) };
    instant.unwrap_or(UNIX_EPOCH)
}

/// Any bytes that a header line can carry.
fn field_value() -> impl Strategy<Value = HeaderValue> {
    prop::collection::vec(any::<u8>(), 0..40).prop_filter_map("not a field value", |bytes| {
        let bytes: Vec<u8> = bytes.into_iter().map(|byte| if byte < 32 || byte == 127 { b'\t' } else { byte }).collect();
        HeaderValue::from_bytes(&bytes).ok()
    })
}

fn now_after(value: &str) -> Read {
    retry_after(value, at(1_700_000_000))
}

fn retry_after(value: &str, received: SystemTime) -> Read {
    Hint::parse(&headers(&[("retry-after", value)]), received)
}

fn headers(lines: &[(&str, &str)]) -> HeaderMap {
    let mut headers = HeaderMap::new();
    for (name, value) in lines {
        headers.append(HeaderName::try_from(*name).unwrap(), HeaderValue::from_bytes(value.as_bytes()).unwrap());
    }
    headers
}

fn data(json: &str) -> Value {
    serde_json::from_str(json).unwrap()
}

fn case_headers(case: &Value, received: SystemTime) -> HeaderMap {
    let ten_seconds_ago = httpdate::fmt_http_date(received - Duration::from_secs(10));
    let mut lines = Vec::new();
    for (name, values) in case["headers"].as_object().unwrap() {
        for value in values.as_array().unwrap() {
            lines.push((name.as_str(), value.as_str().unwrap().replace("<now-10s as IMF-fixdate>", &ten_seconds_ago)));
        }
    }
    headers(&lines.iter().map(|(name, value)| (*name, value.as_str())).collect::<Vec<_>>())
}

/// `2026-12-01T00:00:00Z`, by counting the days.
fn timestamp(text: &str) -> SystemTime {
    let numbers: Vec<u64> = text.split(['-', 'T', ':', 'Z']).filter_map(|number| number.parse().ok()).collect();
    let [year, month, day, hour, minute, second] = numbers[..] else { panic!("{text:?}") };
    let leap = |year: u64| u64::from(year % 4 == 0 && (year % 100 != 0 || year % 400 == 0));
    let lengths = [31, 28 + leap(year), 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
    let days = (1970..year).map(|year| 365 + leap(year)).sum::<u64>() + lengths[..month as usize - 1].iter().sum::<u64>() + day - 1;
    at(((days * 24 + hour) * 60 + minute) * 60 + second)
}

/// `Sun Nov  6 08:49:37 1994`
fn asctime(fixdate: &str) -> String {
    let day: u8 = fixdate[5..7].parse().unwrap();
    format!("{} {} {day:2} {} {}", &fixdate[..3], &fixdate[8..11], &fixdate[17..25], &fixdate[12..16])
}

/// `Sunday, 06-Nov-94 08:49:37 GMT`
fn rfc850(fixdate: &str) -> String {
    let weekday = match &fixdate[..3] {
        "Tue" => "Tuesday",
        "Wed" => "Wednesday",
        "Thu" => "Thursday",
        "Sat" => "Saturday",
        short => &format!("{short}day"),
    };
    format!("{weekday}, {}-{}-{} {} GMT", &fixdate[5..7], &fixdate[8..11], &fixdate[14..16], &fixdate[17..25])
}
