//! Waits and vetoes in fields other than `Retry-After`: vendors' own and drafts. Each is read only
//! where the user asks for it.
//!
//! Like the engine's own [`Hint`] it knows no clock, and it never decides *whether* anything is
//! sent again: a server that says "retry" has not said that the first try did nothing.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use http::{HeaderMap, header::AGE};

use crate::{
    contract::rate_limit,
    policy::{Hint, InvalidHint, SECOND, ServerAdvice, decimal, longest_of, server_time},
};

/// Which fields of an answer are read as a wait or a veto. `Copy`, `const`.
///
/// # Default
/// [`HintSources::STANDARD`]: the other fields mean different things to different servers, so
/// reading them is for whoever knows the server.
///
/// # Examples
/// ```
/// use reqwest_safe_retry::hints::HintSources;
/// use std::time::{Duration, SystemTime};
///
/// const OPENAI: HintSources = HintSources::STANDARD.with_milliseconds().with_vetoes();
///
/// let mut headers = reqwest::header::HeaderMap::new();
/// headers.insert("retry-after", "1".parse()?);
/// headers.insert("retry-after-ms", "1500".parse()?);
/// assert_eq!(OPENAI.wait(&headers, SystemTime::now()), Some(Ok(Duration::from_millis(1500))));
/// let standard = HintSources::STANDARD.wait(&headers, SystemTime::now());
/// assert_eq!(standard, Some(Ok(Duration::from_secs(1))));
/// # Ok::<(), reqwest::header::InvalidHeaderValue>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[must_use]
#[doc(alias("retry after", "rate limit"))]
pub struct HintSources(u8);

impl HintSources {
    /// `Retry-After` alone ([RFC 9110 §10.2.3]).
    ///
    /// [RFC 9110 §10.2.3]: https://www.rfc-editor.org/rfc/rfc9110#section-10.2.3
    pub const STANDARD: Self = Self(0);

    /// Everything this crate can read.
    pub const ALL: Self = Self::STANDARD.with_milliseconds().with_rate_limit().with_rate_limit_reset().with_vetoes();

    const MILLISECONDS: u8 = 1;
    const RATE_LIMIT: u8 = 1 << 1;
    const RATE_LIMIT_RESET: u8 = 1 << 2;
    const ADVICE: u8 = 1 << 3;

    /// Reads `retry-after-ms` (OpenAI, Azure), `x-ms-retry-after-ms` (Azure) and
    /// `x-amz-retry-after` (AWS) too: milliseconds, which may have a fraction. They are exacter
    /// than `Retry-After`, hence go before it.
    pub const fn with_milliseconds(self) -> Self {
        self.with(Self::MILLISECONDS)
    }

    /// Reads `RateLimit` (draft-ietf-httpapi-ratelimit-headers §4) too: of the quotas that are used
    /// up (`r=0`), the longest time until more comes (`t`, seconds). `Retry-After` goes before it
    /// (§6). Ignored on an answer out of a cache (§7.3).
    ///
    /// `RateLimit-Policy` is not read: it describes quotas, but asks for no wait (§3).
    pub const fn with_rate_limit(self) -> Self {
        self.with(Self::RATE_LIMIT)
    }

    /// Reads `RateLimit-Reset`, `X-RateLimit-Reset` and `X-Rate-Limit-Reset` too: seconds, or a
    /// Unix time where the number is 2024 or later as such. Only where the quota is used up, as far
    /// as the matching `…-Remaining` says. The last to be asked, since it is the vaguest.
    ///
    /// ```
    /// use reqwest_safe_retry::hints::HintSources;
    /// use std::time::{Duration, SystemTime};
    ///
    /// let sources = HintSources::STANDARD.with_rate_limit().with_rate_limit_reset();
    /// let mut headers = reqwest::header::HeaderMap::new();
    /// headers.insert("x-ratelimit-remaining", "0".parse()?);
    /// headers.insert("x-ratelimit-reset", "30".parse()?);
    /// let now = SystemTime::now();
    /// assert_eq!(sources.wait(&headers, now), Some(Ok(Duration::from_secs(30))));
    /// headers.insert("ratelimit", r#""minute";r=0;t=20"#.parse()?); // goes before it
    /// assert_eq!(sources.wait(&headers, now), Some(Ok(Duration::from_secs(20))));
    /// # Ok::<(), reqwest::header::InvalidHeaderValue>(())
    /// ```
    pub const fn with_rate_limit_reset(self) -> Self {
        self.with(Self::RATE_LIMIT_RESET)
    }

    /// Reads `x-should-retry` (OpenAI, Anthropic) and `Stripe-Should-Retry` too: see
    /// [`ServerAdvice`].
    pub const fn with_vetoes(self) -> Self {
        self.with(Self::ADVICE)
    }

    const fn with(self, source: u8) -> Self {
        Self(self.0 | source)
    }

    const fn reads(self, source: u8) -> bool {
        self.0 & source != 0
    }

    /// The wait that the server asks for, counted from `received`, the arrival of the response
    /// head.
    ///
    /// The first of these that is there, as far as they are read: milliseconds, `Retry-After`,
    /// `RateLimit`, the reset fields. A malformed field is ignored whole, as if the server had not
    /// sent it; not so `Retry-After`, which is a standard's promise.
    ///
    /// # Errors
    /// [`InvalidHint`] when `Retry-After` is there but cannot be read, and no milliseconds stand in
    /// for it.
    #[must_use]
    pub fn wait(self, headers: &HeaderMap, received: SystemTime) -> Option<Result<Duration, InvalidHint>> {
        let exact = self.reads(Self::MILLISECONDS).then(|| milliseconds(headers)).flatten();
        let quota = |source, read: fn(&HeaderMap, SystemTime) -> Option<Duration>| {
            // A stored answer tells of a quota long past.
            (self.reads(source) && !headers.contains_key(AGE)).then(|| read(headers, received)).flatten()
        };
        exact
            .map(Ok)
            .or_else(|| Hint::parse(headers, received))
            .or_else(|| quota(Self::RATE_LIMIT, |headers, _| rate_limit::wait(headers)).map(Ok))
            .or_else(|| quota(Self::RATE_LIMIT_RESET, rate_limit_reset).map(Ok))
    }

    /// What the server says about sending the request again; `None` when it says nothing, or says
    /// it unreadably.
    #[must_use]
    pub fn advice(self, headers: &HeaderMap) -> Option<ServerAdvice> {
        if !self.reads(Self::ADVICE) {
            return None;
        }
        let lines = ["x-should-retry", "stripe-should-retry"].into_iter().flat_map(|field| headers.get_all(field));
        let said = lines.filter_map(|line| match line.as_bytes().trim_ascii() {
            b"true" => Some(ServerAdvice::Resend),
            b"false" => Some(ServerAdvice::Forbid),
            _ => None,
        });
        said.max()
    }
}

impl Default for HintSources {
    fn default() -> Self {
        Self::STANDARD
    }
}

/// From here on, the first second of 2024, a number of seconds is a Unix time: nobody is told to
/// wait for 54 years.
const FIRST_UNIX_TIME: Duration = Duration::from_secs(1_704_067_200);

fn milliseconds(headers: &HeaderMap) -> Option<Duration> {
    ["retry-after-ms", "x-ms-retry-after-ms", "x-amz-retry-after"]
        .into_iter()
        .filter_map(|field| longest(headers, field, Duration::from_millis(1)))
        .max()
}

/// The longest wait of all lines of a field, if each can be read.
fn longest(headers: &HeaderMap, field: &str, unit: Duration) -> Option<Duration> {
    let lines = headers.get_all(field).iter().map(|line| longest_of(line.as_bytes(), |text| decimal(text, unit)));
    lines.reduce(|longest, line| Some(longest?.max(line?))).flatten()
}

fn rate_limit_reset(headers: &HeaderMap, received: SystemTime) -> Option<Duration> {
    let fields = [
        ("ratelimit-reset", "ratelimit-remaining"),
        ("x-ratelimit-reset", "x-ratelimit-remaining"),
        ("x-rate-limit-reset", "x-rate-limit-remaining"),
    ];
    let used_up = |remaining| !headers.contains_key(remaining) || longest(headers, remaining, SECOND) == Some(Duration::ZERO);
    let resets = fields.into_iter().filter(|(_, remaining)| used_up(*remaining));
    let waits = resets.filter_map(|(reset, _)| longest(headers, reset, SECOND));
    waits.map(|wait| if wait < FIRST_UNIX_TIME { wait } else { until(wait, server_time(headers, received)) }).max()
}

/// The time from `now` to a Unix time: none if it is past, the longest there is if no clock gets
/// there.
fn until(unix_time: Duration, now: SystemTime) -> Duration {
    UNIX_EPOCH.checked_add(unix_time).map_or(Duration::MAX, |instant| instant.duration_since(now).unwrap_or(Duration::ZERO))
}

#[cfg(test)]
mod tests {
    use http::HeaderName;

    use super::*;

    /// 1 January 2026, 00:00:00 GMT.
    const NOW: u64 = 1_767_225_600;

    #[test]
    fn milliseconds_go_before_seconds_where_they_are_asked_for() {
        let both = [("retry-after-ms", "1500"), ("retry-after", "1")];
        assert_eq!(wait(HintSources::STANDARD.with_milliseconds(), &both), millis(1500));
        assert_eq!(wait(HintSources::STANDARD, &both), millis(1000));
        assert_eq!(wait(HintSources::ALL, &[("x-ms-retry-after-ms", " 250\t"), ("retry-after", "soon")]), millis(250));
    }

    #[test]
    fn a_millisecond_is_a_millisecond_and_its_fraction_rounds_up() {
        for field in ["retry-after-ms", "x-ms-retry-after-ms", "x-amz-retry-after"] {
            assert_eq!(wait(HintSources::ALL, &[(field, "250")]), millis(250), "{field}");
            assert_eq!(wait(HintSources::ALL, &[(field, "0.0000001")]), Some(Ok(Duration::from_nanos(1))), "{field}");
            assert_eq!(wait(HintSources::ALL, &[(field, "99999999999999999999999999")]), Some(Ok(Duration::MAX)), "{field}");
            assert_eq!(wait(HintSources::ALL, &[(field, "250"), (field, "300")]), millis(300), "{field}");
            assert_eq!(wait(HintSources::ALL, &[(field, "300, 250")]), millis(300), "{field}");
        }
    }

    #[test]
    fn a_malformed_vendor_field_is_ignored_whole() {
        for value in ["", "-1", "+1", "1e3", "10, soon", "10,", "soon"] {
            assert_eq!(wait(HintSources::ALL, &[("retry-after-ms", value)]), None, "{value:?}");
            assert_eq!(wait(HintSources::ALL, &[("retry-after-ms", "5"), ("retry-after-ms", value)]), None, "{value:?}");
            assert_eq!(wait(HintSources::ALL, &[("retry-after-ms", value), ("retry-after", "2")]), millis(2000), "{value:?}");
            assert_eq!(wait(HintSources::ALL, &[("ratelimit-reset", value)]), None, "{value:?}");
        }
    }

    #[test]
    fn the_quota_that_is_used_up_longest_says_when_to_come_back() {
        let limit = |value| wait(HintSources::STANDARD.with_rate_limit(), &[("ratelimit", value)]);
        assert_eq!(limit(r#""default";r=0;t=30"#), millis(30_000));
        assert_eq!(limit(r#""burst";r=0;t=5, "day";r=0;t=60;pk=:c2g=:, "spare";r=9;t=900"#), millis(60_000));
        assert_eq!(limit(r#""default";r=50;t=30"#), None);
        assert_eq!(limit(r#""default";r=0"#), None);
        assert_eq!(limit(r#""default";t=30;r=0;comment=token"#), millis(30_000));
        let lines = [("ratelimit", r#""burst";r=0;t=5"#), ("ratelimit", r#""day";r=0;t=60"#)];
        assert_eq!(wait(HintSources::ALL, &lines), millis(60_000));
        assert_eq!(wait(HintSources::STANDARD, &lines), None);
    }

    #[test]
    fn a_malformed_rate_limit_is_ignored_whole() {
        for spoilt in [
            r#""x";t=3"#,
            "x;r=0;t=3",
            r#""x";r=-1;t=3"#,
            r#""x";r=0;t=-3"#,
            r#""x";r=0;t=3.5"#,
            r#""x";r=0;t"#,
            r#"("x");r=0;t=3"#,
            "\"x",
            "",
            "ü",
        ] {
            assert_eq!(wait(HintSources::ALL, &[("ratelimit", spoilt)]), None, "{spoilt:?}");
            assert_eq!(wait(HintSources::ALL, &[("ratelimit", r#""good";r=0;t=30"#), ("ratelimit", spoilt)]), None, "{spoilt:?}");
        }
    }

    #[test]
    fn retry_after_goes_before_every_quota_even_when_unreadable() {
        let quotas = [("ratelimit", r#""default";r=0;t=30"#), ("ratelimit-reset", "40")];
        assert_eq!(wait(HintSources::ALL, &[quotas[0], quotas[1], ("retry-after", "1")]), millis(1000));
        assert_eq!(wait(HintSources::ALL, &[quotas[0], quotas[1], ("retry-after", "1e3")]), Some(Err(InvalidHint)));
        assert_eq!(wait(HintSources::ALL, &quotas), millis(30_000));
    }

    #[test]
    fn a_quota_out_of_a_cache_is_ignored() {
        for quota in [("ratelimit", r#""default";r=0;t=30"#), ("ratelimit-reset", "40")] {
            assert!(wait(HintSources::ALL, &[quota]).is_some());
            assert_eq!(wait(HintSources::ALL, &[quota, ("age", "0")]), None);
        }
    }

    #[test]
    fn a_reset_is_seconds_or_a_unix_time_by_its_size() {
        for field in ["ratelimit-reset", "x-ratelimit-reset", "x-rate-limit-reset"] {
            let reset = |value| wait(HintSources::STANDARD.with_rate_limit_reset(), &[(field, value)]);
            assert_eq!(reset("1"), millis(1000));
            assert_eq!(reset("1767225603"), millis(3000));
            assert_eq!(reset("1767225590"), millis(0));
            assert_eq!(reset("1704067199"), Some(Ok(Duration::from_secs(1_704_067_199))));
            assert_eq!(reset("1704067200"), millis(0));
            assert_eq!(reset("99999999999999999999"), Some(Ok(Duration::MAX)));
        }
    }

    #[test]
    fn a_unix_time_is_measured_by_the_servers_own_clock() {
        let lines = [("date", "Wed, 31 Dec 2025 23:59:00 GMT"), ("x-ratelimit-reset", "1767225600")];
        assert_eq!(wait(HintSources::ALL, &lines), millis(60_000));
    }

    #[test]
    fn a_reset_counts_only_once_the_quota_is_used_up() {
        let left = |remaining| wait(HintSources::ALL, &[("x-ratelimit-reset", "5"), ("x-ratelimit-remaining", remaining)]);
        assert_eq!(left("0"), millis(5000));
        assert_eq!(left("1"), None);
        assert_eq!(left("many"), None);
        assert_eq!(wait(HintSources::ALL, &[("x-ratelimit-reset", "5"), ("ratelimit-remaining", "1")]), millis(5000));
    }

    #[test]
    fn a_veto_is_heard_where_it_is_asked_for_and_no_beats_yes() {
        let veto = |lines: &[(&'static str, &str)]| HintSources::STANDARD.with_vetoes().advice(&headers(lines));
        assert_eq!(veto(&[("x-should-retry", "false")]), Some(ServerAdvice::Forbid));
        assert_eq!(veto(&[("stripe-should-retry", "true")]), Some(ServerAdvice::Resend));
        assert_eq!(veto(&[("stripe-should-retry", "true"), ("x-should-retry", "false")]), Some(ServerAdvice::Forbid));
        assert_eq!(veto(&[("x-should-retry", "perhaps")]), None);
        assert_eq!(veto(&[]), None);
        assert_eq!(HintSources::STANDARD.advice(&headers(&[("x-should-retry", "false")])), None);
    }

    fn wait(sources: HintSources, lines: &[(&'static str, &str)]) -> Option<Result<Duration, InvalidHint>> {
        sources.wait(&headers(lines), UNIX_EPOCH + Duration::from_secs(NOW))
    }

    fn millis(milliseconds: u64) -> Option<Result<Duration, InvalidHint>> {
        Some(Ok(Duration::from_millis(milliseconds)))
    }

    fn headers(lines: &[(&'static str, &str)]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for (name, value) in lines {
            headers.append(HeaderName::from_static(name), http::HeaderValue::from_bytes(value.as_bytes()).unwrap());
        }
        headers
    }
}
