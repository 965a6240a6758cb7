//! Clocks that step by up to a century either way: that of the server (`Date`), that of this side
//! when a hint comes, and that of the process that used a key first.

use std::time::{Duration, SystemTime};

use anyhow::{Context as _, Result, ensure};
use http::{HeaderMap, HeaderValue};
use reqwest_middleware::ClientBuilder;
use reqwest_safe_retry::{Endpoint, IdempotencyKey, KeyContract, ReportSlot, SafeRetry, policy::Hint};

use crate::{
    peer::AtOnce,
    scene::{Found, runtime},
};

const HINTS: u64 = 1_000_000;
const KEYS: u64 = 100_000;
const DAY: u64 = 24 * 60 * 60;
const CENTURY: u64 = 100 * 365 * DAY;
/// How long the server remembers a key.
const REMEMBERED: Duration = Duration::from_secs(DAY);
/// What a key's first use may lie ahead of this side's clock.
const AHEAD: Duration = Duration::from_secs(5 * 60);

/// Evenly spread from `span` seconds before now to as many after, the same in every run. Multiples
/// of the golden ratio are spread evenly (Knuth, TAOCP 3, 6.4).
fn stepped(now: SystemTime, span: u64, n: u64) -> Option<SystemTime> {
    let place = n.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 20;
    now.checked_add(Duration::from_secs(place % (2 * span)))?.checked_sub(Duration::from_secs(span))
}

pub(crate) fn run() -> Result<Found> {
    let now = SystemTime::UNIX_EPOCH + Duration::from_secs(6 * CENTURY / 10);
    let mut unreadable = 0;
    for n in 0..HINTS {
        let (here, there) = (stepped(now, CENTURY, 3 * n).context("now")?, stepped(now, CENTURY, 3 * n + 1).context("Date")?);
        let until = stepped(now, CENTURY, 3 * n + 2).context("Retry-After")?;
        let mut head = HeaderMap::new();
        // Before 1970 no date can be written: such a server sends none.
        for (name, at) in [("date", there), ("retry-after", until)] {
            if at > SystemTime::UNIX_EPOCH {
                head.insert(name, HeaderValue::from_str(&httpdate::fmt_http_date(at))?);
            }
        }
        match Hint::parse(&head, here) {
            Some(Ok(wait)) => ensure!(wait <= Duration::from_secs(2 * CENTURY), "{wait:?} for {head:?}"),
            Some(Err(_)) => unreadable += 1,
            None => ensure!(!head.contains_key("retry-after"), "no wait for {head:?}"),
        }
    }
    let kept = keys()?;
    let said = format!(
        "hints, {unreadable} of them unreadable, no panic, none longer than the clocks are apart; of {KEYS} keys that were used before, \
         {kept} are young enough to be sent"
    );
    Ok(Found { many: HINTS, said })
}

/// A key that was first used too long ago, or in a future that no clock explains, is not sent.
fn keys() -> Result<u64> {
    let done = || http::Response::new("done");
    let client = ClientBuilder::new(reqwest::Client::new()).with(SafeRetry::new()).with(AtOnce(done)).build();
    runtime()?.block_on(async {
        let mut kept = 0;
        for n in 0..KEYS {
            let span = if n % 2 == 0 { CENTURY } else { 2 * DAY };
            let first = stepped(SystemTime::now(), span, n).context("first use")?;
            let key = IdempotencyKey::parse("order-17")?.first_used(first);
            let slot = ReportSlot::new();
            let request = client.post("https://api.example/orders").with_extension(Endpoint::keyed_write(KeyContract::ietf(REMEMBERED)));
            let sent = request.with_extension(key).with_extension(slot.clone()).send().await.is_ok();
            let (now, told) = (SystemTime::now(), Duration::from_secs(1));
            let young = now.duration_since(first).map_or_else(|ahead| ahead.duration() <= AHEAD + told, |age| age < REMEMBERED);
            ensure!(young || !sent, "a key was sent that was first used {:?} ago", now.duration_since(first));
            kept += u64::from(sent);
        }
        Ok(kept)
    })
}
