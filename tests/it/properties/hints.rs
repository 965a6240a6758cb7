//! What holds for whatever a server writes where a wait belongs.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use http::{HeaderMap, HeaderValue};
use proptest::prelude::*;
use reqwest_safe_retry::policy::Hint;

use crate::support::hints::{at, now_after, retry_after, seconds};

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
