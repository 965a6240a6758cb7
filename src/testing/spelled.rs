//! What a test spells as numbers and text, read; a slip of the pen panics where the test made it.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use http::{HeaderName, HeaderValue, StatusCode};

/// The last second of the year 9999, behind which no date of HTTP lies.
const LAST: Duration = Duration::from_secs(253_402_300_799);

#[track_caller]
pub(super) fn status(code: u16) -> StatusCode {
    let Ok(status) = StatusCode::from_u16(code) else { panic!("{code} is not an HTTP status") };
    status
}

#[track_caller]
pub(super) fn header(name: &str, value: &str) -> (HeaderName, HeaderValue) {
    let (Ok(name), Ok(value)) = (HeaderName::try_from(name), HeaderValue::try_from(value)) else {
        panic!("the header `{name}` is malformed")
    };
    (name, value)
}

/// An IMF-fixdate, rounded up to a second; the nearest that there is.
pub(super) fn date(time: SystemTime) -> String {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    let whole = Duration::from_secs(since.as_secs().saturating_add(u64::from(since.subsec_nanos() > 0)));
    httpdate::fmt_http_date(UNIX_EPOCH + whole.min(LAST))
}

#[test]
fn a_date_is_never_earlier_than_meant() {
    for (time, date) in [
        (UNIX_EPOCH, "Thu, 01 Jan 1970 00:00:00 GMT"),
        (UNIX_EPOCH - Duration::from_secs(1), "Thu, 01 Jan 1970 00:00:00 GMT"),
        (UNIX_EPOCH + Duration::from_nanos(1), "Thu, 01 Jan 1970 00:00:01 GMT"),
        (UNIX_EPOCH + 2 * LAST, "Fri, 31 Dec 9999 23:59:59 GMT"),
    ] {
        assert_eq!(self::date(time), date);
    }
}
