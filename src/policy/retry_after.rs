//! Reading the wait that a server asks for. Pure: the clock is an argument, nothing is allocated,
//! and no input panics.
//!
//! The one rule behind every choice in here: *never earlier than asked*. Fractions round up,
//! overflow saturates, of several waits the longest counts, and what cannot be read is
//! [`InvalidHint`] for the policy to judge, never a zero wait. Whether anything is sent again at
//! all is not decided here: a hint says when, not whether.
//!
//! The calendar is `httpdate`'s. This module writes each date in the one form that `httpdate` reads
//! as RFC 9110 wants it, because by itself it refuses leap seconds and wrong weekdays, fixes the
//! century of two-digit years, and knows no year before 1970.

use std::{
    io::Write as _,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use http::{
    HeaderMap,
    header::{AGE, DATE, RETRY_AFTER},
};

use super::defaults;

/// Reads the wait that a server asks for.
#[derive(Debug)]
#[non_exhaustive]
pub struct Hint;

impl Hint {
    /// The wait of `Retry-After` in all its forms ([RFC 9110 §10.2.3]), counted from `received`,
    /// the arrival of the response head.
    ///
    /// * Seconds: digits. A fraction (`1.5`) is read as well, although the grammar has none, and
    ///   rounded up to the next nanosecond; reading it can only wait longer than dropping it. A
    ///   number that is too large saturates to [`Duration::MAX`], which fits no deadline.
    /// * A date in any of the three forms ([RFC 9110 §5.6.7]): measured against the response's own
    ///   `Date`, plus its `Age`, so that a clock that is slightly wrong does not matter; against
    ///   `received` when there is no readable `Date`. When the two are more than five minutes
    ///   apart, one clock is broken or the answer is an old one, nobody knows which, and the longer
    ///   of both waits counts. So it does where there are several `Date` or `Age` lines. A date in
    ///   the past is a wait of zero. A two-digit year is at most 50 years ahead of `received`. Leap
    ///   seconds and wrong weekdays are accepted, wrong letter case is not.
    /// * Several lines, also when a proxy merged them into one (`120, 30`): the longest wait;
    ///   unreadable when one of them is, since that one may have asked for more.
    ///
    /// `None` when the server asked for nothing.
    ///
    /// # Errors
    /// [`InvalidHint`] when the field is there but cannot be read;
    /// [`UnreadableHint`](super::UnreadableHint) says what follows.
    ///
    /// # Examples
    /// ```
    /// use reqwest_safe_retry::policy::Hint;
    /// use std::time::{Duration, SystemTime};
    ///
    /// let mut headers = http::HeaderMap::new();
    /// headers.insert("date", "Sun, 06 Nov 1994 08:49:37 GMT".parse()?);
    /// headers.insert("retry-after", "Sunday, 06-Nov-94 08:50:07 GMT".parse()?);
    /// assert_eq!(Hint::parse(&headers, SystemTime::now()), Some(Ok(Duration::from_secs(30))));
    ///
    /// headers.insert("retry-after", "soon".parse()?);
    /// assert!(matches!(Hint::parse(&headers, SystemTime::now()), Some(Err(_))));
    /// # Ok::<(), http::header::InvalidHeaderValue>(())
    /// ```
    ///
    /// [RFC 9110 §10.2.3]: https://www.rfc-editor.org/rfc/rfc9110#section-10.2.3
    /// [RFC 9110 §5.6.7]: https://www.rfc-editor.org/rfc/rfc9110#section-5.6.7
    pub fn parse(headers: &HeaderMap, received: SystemTime) -> Option<Result<Duration, InvalidHint>> {
        let read = |text: &[u8]| decimal(text, SECOND).or_else(|| wait_until(text, headers, received));
        let lines = headers.get_all(RETRY_AFTER).iter();
        lines.map(|line| longest_of(line.as_bytes(), read).ok_or(InvalidHint)).reduce(|longest, line| Ok(longest?.max(line?)))
    }
}

/// The server asked to wait, but not readably.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct InvalidHint;

impl std::fmt::Display for InvalidHint {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("the server's wait cannot be read")
    }
}

impl std::error::Error for InvalidHint {}

pub(crate) const SECOND: Duration = Duration::from_secs(1);

/// The longest of the values that a field line holds: one, or several that were merged with commas
/// (RFC 9110 §5.3). A date has a comma of its own. `None` when one of them cannot be read.
pub(crate) fn longest_of(line: &[u8], read: impl Fn(&[u8]) -> Option<Duration>) -> Option<Duration> {
    let (mut longest, mut rest) = (None, line);
    loop {
        let commas = rest.iter().enumerate().filter(|(_, byte)| **byte == b',').map(|(place, _)| place);
        let mut ends = commas.take(2).chain([rest.len()]);
        let (wait, end) = ends.find_map(|end| Some((read(rest[..end].trim_ascii())?, end)))?;
        longest = longest.max(Some(wait));
        match rest.get(end + 1..) {
            Some(next) => rest = next,
            None => return longest,
        }
    }
}

/// `1*DIGIT [ "." 1*DIGIT ]` of some unit, rounded up to whole nanoseconds, saturating.
pub(crate) fn decimal(text: &[u8], unit: Duration) -> Option<Duration> {
    let Some(point) = text.iter().position(|&byte| byte == b'.') else { return integer(text, unit) };
    let (whole, fraction) = (integer(&text[..point], unit)?, &text[point + 1..]);
    if fraction.is_empty() {
        return None;
    }
    let (mut wait, mut place, mut rest) = (whole, unit, Duration::ZERO);
    for &byte in fraction {
        let digit = digit(byte)?;
        place /= 10;
        if place.is_zero() && digit > 0 {
            rest = Duration::from_nanos(1);
        }
        wait = wait.saturating_add(place * digit);
    }
    Some(wait.saturating_add(rest))
}

/// `1*DIGIT` of some unit, saturating. By hand, since `str::parse` takes a sign and fails on
/// overflow.
fn integer(text: &[u8], unit: Duration) -> Option<Duration> {
    if text.is_empty() {
        return None;
    }
    text.iter().try_fold(Duration::ZERO, |wait, &byte| Some(wait.saturating_mul(10).saturating_add(unit * digit(byte)?)))
}

fn digit(byte: u8) -> Option<u32> {
    byte.is_ascii_digit().then(|| u32::from(byte - b'0'))
}

fn wait_until(text: &[u8], headers: &HeaderMap, received: SystemTime) -> Option<Duration> {
    let instant = http_date(text, received)?;
    Some(instant.duration_since(server_time(headers, received)).unwrap_or(Duration::ZERO))
}

/// The server's own time at the arrival of its answer: `Date`, made older by a cache for `Age`
/// (RFC 9110 §6.6.1, RFC 9111 §5.1). In doubt the earlier time, which makes the longer wait.
pub(crate) fn server_time(headers: &HeaderMap, received: SystemTime) -> SystemTime {
    let ages = headers.get_all(AGE).iter().map(|age| integer(age.as_bytes().trim_ascii(), SECOND).unwrap_or(Duration::ZERO));
    let age = ages.min().unwrap_or(Duration::ZERO);
    let dates = headers.get_all(DATE).iter().filter_map(|date| http_date(date.as_bytes().trim_ascii(), received));
    let Some(told) = dates.min().and_then(|date| date.checked_add(age)) else { return received };
    let skew = told.duration_since(received).unwrap_or_else(|behind| behind.duration());
    if skew <= defaults::CREDIBLE_SKEW { told } else { told.min(received) }
}

/// An HTTP-date in any of its three forms (RFC 9110 §5.6.7).
fn http_date(text: &[u8], received: SystemTime) -> Option<SystemTime> {
    let (weekday, rest) = text.split_at(text.iter().position(|byte| !byte.is_ascii_alphabetic())?);
    let weekday = |names: [&[u8]; 7]| names.iter().position(|name| *name == weekday);
    match *rest {
        // IMF-fixdate: Sun, 06 Nov 1994 08:49:37 GMT
        [b',', b' ', d, e, b' ', m, o, n, b' ', y, z, u, v, b' ', ref time @ .., b' ', b'G', b'M', b'T'] => {
            Written { weekday: weekday(SHORT)?, day: [d, e], month: [m, o, n], time }.in_year(year(&[y, z, u, v])?)
        }
        // RFC 850: Sunday, 06-Nov-94 08:49:37 GMT
        [b',', b' ', d, e, b'-', m, o, n, b'-', y, z, b' ', ref time @ .., b' ', b'G', b'M', b'T'] => {
            Written { weekday: weekday(LONG)?, day: [d, e], month: [m, o, n], time }.in_century_of(received, year(&[y, z])?)
        }
        // asctime: Sun Nov  6 08:49:37 1994
        [b' ', m, o, n, b' ', d, e, b' ', ref time @ .., b' ', y, z, u, v] => {
            let day = [if d == b' ' { b'0' } else { d }, e];
            Written { weekday: weekday(SHORT)?, day, month: [m, o, n], time }.in_year(year(&[y, z, u, v])?)
        }
        _ => None,
    }
}

const SHORT: [&[u8]; 7] = [b"Mon", b"Tue", b"Wed", b"Thu", b"Fri", b"Sat", b"Sun"];
const LONG: [&[u8]; 7] = [b"Monday", b"Tuesday", b"Wednesday", b"Thursday", b"Friday", b"Saturday", b"Sunday"];

/// At most four digits.
fn year(digits: &[u8]) -> Option<u16> {
    digits.iter().try_fold(0, |year, byte| byte.is_ascii_digit().then(|| year * 10 + u16::from(byte - b'0')))
}

/// A date as written, its year apart.
struct Written<'a> {
    weekday: usize,
    day: [u8; 2],
    month: [u8; 3],
    time: &'a [u8],
}

impl Written<'_> {
    /// The instant, if there is such a day and time; years before 1970 give the epoch, past in any
    /// case.
    fn in_year(&self, year: u16) -> Option<SystemTime> {
        if year < 1970 {
            // The calendar repeats every 400 years.
            return self.in_year(2000 + year % 400).map(|_| UNIX_EPOCH);
        }
        let mut text = *b"Sun, 06 Nov 1994 08:49:37 GMT";
        text[5..7].copy_from_slice(&self.day);
        text[8..11].copy_from_slice(&self.month);
        write!(&mut text[12..16], "{year:04}").ok()?;
        text[17..25].copy_from_slice(&<[u8; 8]>::try_from(self.time).ok()?);
        let leap = if text[22..25] == *b":60" { SECOND } else { Duration::ZERO };
        if !leap.is_zero() {
            text[23..25].copy_from_slice(b"59");
        }
        // httpdate insists on the true weekday, RFC 9110 does not: offer it every one, the written
        // one first.
        let instant = SHORT.iter().cycle().skip(self.weekday).take(SHORT.len()).find_map(|weekday| {
            text[..3].copy_from_slice(weekday);
            httpdate::parse_http_date(std::str::from_utf8(&text).ok()?).ok()
        });
        instant?.checked_add(leap)
    }

    /// The instant in the latest year with these last two digits that is not more than 50 years
    /// ahead (RFC 9110 §5.6.7).
    fn in_century_of(&self, received: SystemTime, two_digits: u16) -> Option<SystemTime> {
        const MEAN_YEAR: u64 = 31_556_952;
        let since_epoch = received.duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO);
        // By the mean year, so possibly one off around New Year: hence 51.
        let latest = u16::try_from(1970 + since_epoch.as_secs() / MEAN_YEAR + 51).ok()?;
        let year = latest - (latest - two_digits) % 100;
        // 29 February has no counterpart 50 years earlier.
        let fifty_before = self.in_year(year - 50).or_else(|| Self { day: *b"28", ..*self }.in_year(year - 50));
        self.in_year(if fifty_before? > received { year - 100 } else { year })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fraction_rounds_up_in_every_unit() {
        let millisecond = Duration::from_millis(1);
        assert_eq!(decimal(b"1500", millisecond), Some(Duration::from_millis(1500)));
        assert_eq!(decimal(b"0.000001", millisecond), Some(Duration::from_nanos(1)));
        assert_eq!(decimal(b"0.0000011", millisecond), Some(Duration::from_nanos(2)));
        assert_eq!(decimal(b"1.00000000001", SECOND), Some(Duration::new(1, 1)));
    }

    #[test]
    fn an_age_has_no_fraction() {
        assert_eq!(integer(b"1", SECOND), Some(SECOND));
        assert_eq!(integer(b"1.5", SECOND), None);
        assert_eq!(integer(b"", SECOND), None);
    }

    /// 14 November 2023, 22:13:20 GMT.
    const NOW: u64 = 1_700_000_000;

    fn wait(lines: &[(http::HeaderName, &str)]) -> Option<Result<Duration, InvalidHint>> {
        let headers = lines.iter().fold(HeaderMap::new(), |mut headers, (name, value)| {
            headers.append(name, http::HeaderValue::try_from(*value).unwrap());
            headers
        });
        Hint::parse(&headers, UNIX_EPOCH + Duration::from_secs(NOW))
    }

    fn seconds(seconds: u64) -> Option<Result<Duration, InvalidHint>> {
        Some(Ok(Duration::from_secs(seconds)))
    }

    #[test]
    fn a_date_of_a_server_whose_clock_is_hours_off_makes_the_longer_wait() {
        let in_ten_minutes = (RETRY_AFTER, "Tue, 14 Nov 2023 22:23:20 GMT");
        let rows = [
            (vec![(DATE, "Wed, 15 Nov 2023 21:13:20 GMT")], 600, "23 hours ahead"),
            (vec![(DATE, "Tue, 14 Nov 2023 22:13:20 GMT"), (AGE, "80000")], 600, "an age that the date does not show"),
            (vec![(DATE, "Tue, 14 Nov 2023 21:13:20 GMT")], 4200, "an hour behind"),
            (vec![(DATE, "Tue, 14 Nov 2023 22:15:20 GMT")], 480, "two minutes ahead: the server's own clock counts"),
        ];
        for (lines, expected, name) in rows {
            assert_eq!(wait(&[lines, vec![in_ten_minutes.clone()]].concat()), seconds(expected), "{name}");
        }
    }

    #[test]
    fn of_two_dates_or_ages_the_longer_wait_counts_in_either_order() {
        let until = (RETRY_AFTER, "Tue, 14 Nov 2023 22:13:50 GMT");
        let dates = [(DATE, "Tue, 14 Nov 2023 22:13:40 GMT"), (DATE, "Tue, 14 Nov 2023 22:13:20 GMT")];
        let ages = [(AGE, "20"), (AGE, "0")];
        for [one, two] in [[0, 1], [1, 0]] {
            assert_eq!(wait(&[dates[one].clone(), dates[two].clone(), until.clone()]), seconds(30));
            assert_eq!(wait(&[dates[1].clone(), ages[one].clone(), ages[two].clone(), until.clone()]), seconds(30));
        }
    }

    #[test]
    fn waits_that_a_proxy_merged_are_read_as_lines_of_their_own() {
        let date = "Tue, 14 Nov 2023 22:14:20 GMT";
        for (value, expected) in [
            ("120, 120", seconds(120)),
            ("30,120", seconds(120)),
            (&format!("{date}, 30"), seconds(60)),
            (&format!("120 , {date}"), seconds(120)),
            (&format!("{date}, {date}"), seconds(60)),
            ("120,", Some(Err(InvalidHint))),
            ("120, soon", Some(Err(InvalidHint))),
            (", 120", Some(Err(InvalidHint))),
        ] {
            assert_eq!(wait(&[(RETRY_AFTER, value)]), expected, "{value}");
        }
    }

    #[test]
    fn a_year_before_the_epoch_is_past_if_it_has_such_a_day() {
        assert_eq!(http_date(b"Mon, 01 Jan 0001 00:00:00 GMT", SystemTime::now()), Some(UNIX_EPOCH));
        assert_eq!(http_date(b"Thu Feb 29 00:00:00 1968", UNIX_EPOCH), Some(UNIX_EPOCH));
        assert_eq!(http_date(b"Thu Feb 29 00:00:00 1900", UNIX_EPOCH), None);
    }

    #[test]
    fn no_clock_is_too_far_off_to_read_a_two_digit_year() {
        let [late, early] = [UNIX_EPOCH.checked_add(SECOND * u32::MAX * 1000), UNIX_EPOCH.checked_sub(SECOND * u32::MAX)];
        for clock in [late, early].into_iter().flatten() {
            let _ = http_date(b"Tuesday, 29-Feb-00 22:13:40 GMT", clock);
        }
    }
}
