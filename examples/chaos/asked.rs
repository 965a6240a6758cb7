//! What a server asks when it says "not now": in every form that servers use, true, lying and
//! absurd.

use std::time::{Duration, SystemTime};

use http::{
    HeaderMap, HeaderName, HeaderValue,
    header::{AGE, DATE, RETRY_AFTER},
};

use crate::chance::Chance;

/// What an answer asked for, as its server means it. The judge holds the client to this, however it
/// was spelled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Asked {
    Nothing,
    /// Not before this much time has passed.
    Wait(Duration),
    /// Something that nobody can read.
    Unreadable,
}

const MILLISECONDS: HeaderName = HeaderName::from_static("retry-after-ms");
const DAY: Duration = Duration::from_secs(24 * 60 * 60);
/// What a wall clock may be slewed against the monotonic one while somebody waits, and the fraction
/// of a second that a date leaves out.
const SLEW: Duration = Duration::from_millis(5);

#[derive(Clone, Copy)]
enum Form {
    None,
    /// Seconds with a fraction, as no grammar has them and some servers send them.
    Fraction,
    Second,
    Milliseconds,
    TwoLines,
    /// Two lines, merged by a proxy.
    MergedLines,
    Date,
    /// The server's clock is off, and so are both of its dates.
    JumpedClock,
    /// Only the `Date` is off: a proxy wrote it.
    JumpedDate,
    /// An answer that a cache says is old, with a time that was set now.
    Aged,
    PastDate,
    Zero,
    Absurd(&'static str),
    Unreadable(&'static str),
}

/// Draws what is asked, and spells it.
pub(crate) fn draw(chance: &mut Chance, headers: &mut HeaderMap) -> Asked {
    let form = chance.weighted(&[
        (30, Form::None),
        (20, Form::Fraction),
        (8, Form::Second),
        (8, Form::Milliseconds),
        (5, Form::TwoLines),
        (2, Form::MergedLines),
        (5, Form::Date),
        (3, Form::JumpedClock),
        (3, Form::JumpedDate),
        (2, Form::Aged),
        (2, Form::PastDate),
        (2, Form::Zero),
        (1, Form::Absurd("86400")),
        (1, Form::Absurd("99999999999999999999")),
        (1, Form::Unreadable("soon")),
        (1, Form::Unreadable("-1")),
        (1, Form::Unreadable("1e3")),
        (1, Form::Unreadable("")),
    ]);
    let short = chance.millis(50, 400);
    let now = SystemTime::now();
    // Far enough off that nobody could take it for a clock that is a little wrong.
    let off = chance.between(Duration::from_secs(60 * 60), DAY * 2);
    let jumped = if chance.happens(50) { now + off } else { now - off };
    let date = |at: SystemTime| httpdate::fmt_http_date(at);
    let seconds = |wait: Duration| format!("{:.3}", wait.as_secs_f64());
    let mut say = |name: HeaderName, value: String| {
        if let Ok(value) = HeaderValue::try_from(value) {
            headers.append(name, value);
        }
    };
    match form {
        Form::None => Asked::Nothing,
        Form::Fraction => {
            say(RETRY_AFTER, seconds(short));
            Asked::Wait(whole_millis(short))
        }
        Form::Second => {
            say(RETRY_AFTER, "1".to_owned());
            Asked::Wait(Duration::from_secs(1))
        }
        Form::Milliseconds => {
            say(MILLISECONDS, short.as_millis().to_string());
            say(RETRY_AFTER, "1".to_owned());
            Asked::Wait(whole_millis(short))
        }
        Form::TwoLines => {
            say(RETRY_AFTER, "0.01".to_owned());
            say(RETRY_AFTER, seconds(short));
            Asked::Wait(whole_millis(short))
        }
        Form::MergedLines => {
            say(RETRY_AFTER, format!("0.01, {}", seconds(short)));
            Asked::Wait(whole_millis(short))
        }
        Form::Date => {
            say(DATE, date(now));
            say(RETRY_AFTER, date(now + Duration::from_secs(1)));
            Asked::Wait(Duration::from_secs(1))
        }
        Form::JumpedClock => {
            say(DATE, date(jumped));
            say(RETRY_AFTER, date(jumped + Duration::from_secs(1)));
            Asked::Wait(Duration::from_secs(1))
        }
        Form::JumpedDate => {
            say(DATE, date(jumped));
            say(RETRY_AFTER, date(now + Duration::from_secs(2)));
            Asked::Wait(until(now, now + Duration::from_secs(2)))
        }
        Form::Aged => {
            say(DATE, date(now));
            say(AGE, "80000".to_owned());
            say(RETRY_AFTER, date(now + Duration::from_secs(2)));
            Asked::Wait(until(now, now + Duration::from_secs(2)))
        }
        Form::PastDate => {
            say(RETRY_AFTER, date(now - off));
            Asked::Wait(Duration::ZERO)
        }
        Form::Zero => {
            say(RETRY_AFTER, "0".to_owned());
            Asked::Wait(Duration::ZERO)
        }
        Form::Absurd(text) => {
            say(RETRY_AFTER, text.to_owned());
            Asked::Wait(DAY)
        }
        Form::Unreadable(text) => {
            say(RETRY_AFTER, text.to_owned());
            Asked::Unreadable
        }
    }
}

/// What is said has no finer unit.
fn whole_millis(wait: Duration) -> Duration {
    Duration::from_millis(u64::try_from(wait.as_millis()).unwrap_or(u64::MAX))
}

/// The wait until an instant that was said as a date, so in whole seconds.
fn until(now: SystemTime, said: SystemTime) -> Duration {
    let whole = said.duration_since(SystemTime::UNIX_EPOCH).map_or(Duration::ZERO, |since| Duration::from_secs(since.as_secs()));
    (SystemTime::UNIX_EPOCH + whole).duration_since(now).unwrap_or_default().saturating_sub(SLEW)
}
