//! Headers that tell the upstream which attempt this is and how much time it has, so that it can
//! shed work that nobody waits for.

use std::time::Duration;

use http::{HeaderMap, HeaderName, HeaderValue};

/// Which headers each attempt carries for the upstream's sake. None by default.
///
/// There is no standard header for either fact on plain HTTP, so the names are the user's:
/// `x-retry-attempt` and `x-envoy-expected-rq-timeout-ms`, for example.
///
/// # Examples
/// ```
/// use reqwest::header::HeaderName;
/// use reqwest_safe_retry::{AttemptHeaders, TimeLeftFormat};
///
/// let headers = AttemptHeaders::new()
///     .with_number(HeaderName::from_static("x-retry-attempt"))
///     .with_time_left(HeaderName::from_static("x-envoy-expected-rq-timeout-ms"), TimeLeftFormat::Milliseconds);
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[must_use]
#[doc(alias = "grpc-timeout")]
pub struct AttemptHeaders {
    number: Option<HeaderName>,
    time_left: Option<(HeaderName, TimeLeftFormat)>,
}

/// How the time left is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum TimeLeftFormat {
    /// Whole milliseconds, rounded down: `1500`.
    Milliseconds,
    /// As gRPC writes timeouts, at most eight digits and a unit: `1500m`.
    Grpc,
}

impl AttemptHeaders {
    /// No headers.
    pub fn new() -> Self {
        Self::default()
    }

    /// Writes the attempt's number; the first send is 1.
    pub fn with_number(self, header: HeaderName) -> Self {
        Self { number: Some(header), ..self }
    }

    /// Writes the time that the attempt has: what is left before the operation's deadline, or the
    /// attempt limit where that is shorter. It falls from attempt to attempt, and is never below
    /// one millisecond, since servers read 0 as "no limit". It is absent where nothing limits the
    /// attempt.
    pub fn with_time_left(self, header: HeaderName, format: TimeLeftFormat) -> Self {
        Self { time_left: Some((header, format)), ..self }
    }

    /// Writes the headers of one attempt over whatever stands there, but never over those in
    /// `kept`: a key that changes is none. `time_left` is [`Duration::MAX`] where nothing limits
    /// the attempt; `last` is what the attempt before this one was told, in milliseconds.
    pub(crate) fn write(&self, headers: &mut HeaderMap, kept: &[HeaderName], number: u32, time_left: Duration, last: &mut Option<u64>) {
        if let Some(name) = self.number.as_ref().filter(|name| !kept.contains(name)) {
            headers.insert(name, HeaderValue::from(number));
        }
        let timed = |(name, _): &&(HeaderName, TimeLeftFormat)| time_left < Duration::MAX && !kept.contains(name);
        let Some((name, format)) = self.time_left.as_ref().filter(timed) else { return };
        let now = u64::try_from(time_left.as_millis()).unwrap_or(u64::MAX);
        let told = last.map_or(now, |last| now.min(last.saturating_sub(1))).max(1);
        *last = Some(told);
        headers.insert(name, format.write(told));
    }
}

impl TimeLeftFormat {
    fn write(self, milliseconds: u64) -> HeaderValue {
        const MOST: u64 = 99_999_999; // eight digits, gRPC over HTTP/2 "Timeout"
        match self {
            Self::Milliseconds => HeaderValue::from(milliseconds),
            Self::Grpc => {
                let (value, unit) = if milliseconds <= MOST { (milliseconds, 'm') } else { ((milliseconds / 1000).min(MOST), 'S') };
                HeaderValue::try_from(format!("{value}{unit}")).unwrap_or_else(|_| HeaderValue::from_static("1m"))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NUMBER: HeaderName = HeaderName::from_static("x-retry-attempt");
    const LEFT: HeaderName = HeaderName::from_static("x-time-left");

    fn told(format: TimeLeftFormat, times: &[Duration]) -> Vec<Option<String>> {
        let wanted = AttemptHeaders::new().with_number(NUMBER).with_time_left(LEFT, format);
        let (mut last, mut headers) = (None, HeaderMap::new());
        times
            .iter()
            .zip(1_u32..)
            .map(|(time, number)| {
                wanted.write(&mut headers, &[], number, *time, &mut last);
                assert_eq!(headers.get(NUMBER).unwrap(), &number.to_string());
                headers.get(LEFT).map(|value| value.to_str().unwrap().to_owned())
            })
            .collect()
    }

    #[test]
    fn the_time_left_falls_even_where_no_time_passed_and_is_never_zero() {
        let ms = Duration::from_millis;
        let texts = told(TimeLeftFormat::Milliseconds, &[ms(1500), ms(1500), ms(900), Duration::ZERO, Duration::ZERO]);
        assert_eq!(texts, ["1500", "1499", "900", "1", "1"].map(|text| Some(text.to_owned())));
    }

    #[test]
    fn a_key_is_never_written_over() {
        let wanted = AttemptHeaders::new().with_number(NUMBER).with_time_left(LEFT, TimeLeftFormat::Milliseconds);
        let mut headers = HeaderMap::from_iter([(NUMBER, HeaderValue::from_static("key")), (LEFT, HeaderValue::from_static("date"))]);
        wanted.write(&mut headers, &[NUMBER, LEFT], 1, Duration::from_secs(1), &mut None);
        assert_eq!((&headers[NUMBER], &headers[LEFT]), (&HeaderValue::from_static("key"), &HeaderValue::from_static("date")));
    }

    #[test]
    fn grpc_timeouts_have_at_most_eight_digits() {
        let times = [Duration::from_secs(10_000_000), Duration::from_millis(99_999_999), Duration::from_secs(1)];
        assert_eq!(told(TimeLeftFormat::Grpc, &times), ["10000000S", "99999999m", "1000m"].map(|text| Some(text.to_owned())));
    }

    #[test]
    fn without_a_deadline_there_is_no_time_to_tell() {
        assert_eq!(told(TimeLeftFormat::Milliseconds, &[Duration::MAX]), [None]);
    }
}
