//! The wait that a server asks for: rows asserted by standards and by other projects' tests, and
//! named faults.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use http::{HeaderMap, HeaderValue};
use reqwest_safe_retry::policy::Hint;
use serde_json::Value;

use crate::support::hints::{at, headers, now_after, retry_after, seconds, unreadable};

// ===== rows =====

#[test]
fn every_row_of_the_grammar_is_read_as_rfc_9110_says_and_fractions_round_up() {
    let rows = data(include_str!("../../data/retry_after_differential.json"));
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
    for case in data(include_str!("../../data/http_date_cases.json"))["cases"].as_array().unwrap() {
        let value = case["value"].as_str().unwrap();
        // Seen from the epoch the wait is the instant itself; only a two-digit year needs to know
        // the time.
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
    for case in data(include_str!("../../data/retry_after_cases.json"))["cases"].as_array().unwrap() {
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
            // Capped there; here the wait stays what the server asked, and one that does not fit
            // stops.
            ("urllib3-15", _) => seconds(21_601),
            ("linkerd-03", _) => seconds(3600),
            // The first line there, the longest wait here.
            ("go-05", _) => seconds(3),
            // Fractions are read.
            ("urllib3-06", _) => seconds(1),
            // A Unix time there, by configuration.
            ("envoy-06" | "envoy-07", _) => seconds(case["headers"]["retry-after"][0].as_str().unwrap().parse().unwrap()),
            // Reading switched off, or zero and past ignored there; what to do with it is the
            // policy's matter here.
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
    use reqwest_safe_retry::hints::HintSources;

    for case in data(include_str!("../../data/retry_after_cases.json"))["cases"].as_array().unwrap() {
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
        "5.", ".", "1.5.2", "1.+5", "1. 5", "--", "10s",
    ] {
        assert_eq!(now_after(value), unreadable(), "{value:?}");
    }
    let mut headers = HeaderMap::new();
    headers.insert("retry-after", HeaderValue::from_bytes(b"1\xff").unwrap());
    assert_eq!(Hint::parse(&headers, at(1_700_000_000)), unreadable());
}

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
    // The server's clock is five minutes behind ours, then five minutes ahead: thirty seconds are
    // thirty seconds.
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

// ===== helpers =====

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
