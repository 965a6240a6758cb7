//! The stories. Each sets up its own shop, makes one call, and claims what must have come of it.

use std::{sync::Arc, time::Duration};

use anyhow::Result;
use http::HeaderName;
use reqwest::{Client, StatusCode};
use reqwest_middleware::ClientWithMiddleware;
use reqwest_safe_retry::{
    Endpoint, Evidence, KeyContract, Observer, Outcome, RetryError, RetryErrorExt as _, RetryPolicy, SafeRetry, StopReason,
    policy::{Backoff, Decision, ResendReason},
    report::Decided,
};

use crate::{
    orders::Tally,
    story::{Ending, Told},
    upstream::{Mood, Upstream},
};

const SECOND: Duration = Duration::from_secs(1);
/// An answer that needs no waiting comes well within this, on a busy machine too.
const AT_ONCE: Duration = SECOND;

/// The defaults, but for shorter pauses after 429 and 503 (200 ms instead of 1 s): a tour should
/// not be spent waiting.
const POLICY: RetryPolicy = RetryPolicy::DEFAULT.with_throttle_backoff(Backoff::doubling(Duration::from_millis(200), SECOND));

/// What the shop promises for a key: the IETF draft, remembered for a day, replays marked.
const CONTRACT: KeyContract =
    KeyContract::ietf(Duration::from_secs(24 * 60 * 60)).with_replay_marker(HeaderName::from_static("idempotent-replayed"));

/// The paved client. Redirects are off, as they should be where money moves: every kind of evidence
/// counts then.
fn client(retry: SafeRetry) -> reqwest::Result<ClientWithMiddleware> {
    retry.with_policy(POLICY).client(Client::builder().no_proxy()).redirects_off().build()
}

pub(crate) async fn short_outage() -> Result<Ending> {
    let shop = Upstream::start([Mood::Busy, Mood::Busy, Mood::Serve])?;
    let menu = client(SafeRetry::new().with_deadline(5 * SECOND))?.get(shop.url("/menu"));
    let ending = Ending::new(Told::by(menu).await?, &shop, "A read changes nothing, so it was sent until it was answered.")?;
    Ok(ending
        .claim("status", Told::status, Some(StatusCode::OK))
        .claim("outcome", |told| told.report.outcome(), Outcome::Answered)
        .claim("reasons", reasons, vec![ResendReason::EffectRepeatable; 2])
        .within("took", |told| told.took, Duration::ZERO..2 * SECOND)
        .holds(Tally { orders: 0, posts: 0, gets: 3, keys: 0 }))
}

pub(crate) async fn told_to_wait() -> Result<Ending> {
    let shop = Upstream::start([Mood::TooManySeconds(1), Mood::TooManyUntil(1), Mood::Serve])?;
    let menu = client(SafeRetry::new().with_deadline(6 * SECOND))?.get(shop.url("/menu"));
    let ending = Ending::new(Told::by(menu).await?, &shop, "Both forms of the hint were kept; a little later each, never earlier.")?;
    let closest = shop.orders().closest_arrivals()?;
    Ok(ending
        .claim("status", Told::status, Some(StatusCode::OK))
        .claim(
            "hints",
            |told| told.report.attempts().iter().map(|attempt| attempt.hint()).collect(),
            vec![Some(SECOND), Some(SECOND), None],
        )
        .within("shortest gap the server saw", |_| closest, SECOND..3 * SECOND)
        .holds(Tally { orders: 0, posts: 0, gets: 3, keys: 0 }))
}

pub(crate) async fn lost_answer() -> Result<Ending> {
    let shop = Upstream::start([Mood::LoseAnswer])?;
    let endpoint = Endpoint::unprotected_write().named("orders").with_deadline(5 * SECOND);
    let order = client(SafeRetry::new())?.post(shop.url("/orders")).body("one coffee").with_extension(endpoint);
    let ending = Ending::new(
        Told::by(order).await?,
        &shop,
        "Nobody here can know, and the error says so. A second POST would have been a second coffee.",
    )?;
    Ok(ending
        .claim("error is OutcomeUnknown", |told| matches!(told.error(), Some(RetryError::OutcomeUnknown(_))), true)
        .claim("outcome", |told| told.report.outcome(), Outcome::Unknown)
        .claim("stop", |told| told.report.stop(), StopReason::MayHaveHappened)
        .within("took", |told| told.took, Duration::ZERO..AT_ONCE)
        .holds(Tally { orders: 1, posts: 1, gets: 0, keys: 0 }))
}

pub(crate) async fn lost_answer_with_a_key() -> Result<Ending> {
    let shop = Upstream::start([Mood::LoseAnswer, Mood::Serve])?;
    let endpoint = Endpoint::keyed_write(CONTRACT).named("orders").with_deadline(5 * SECOND);
    let order = client(SafeRetry::new())?.post(shop.url("/orders")).body("one coffee").with_extension(endpoint);
    let ending = Ending::new(
        Told::by(order).await?,
        &shop,
        "Two POSTs, one key, one coffee: the second copy was answered with the first one's order.",
    )?;
    Ok(ending
        .claim("status", Told::status, Some(StatusCode::CREATED))
        .claim("outcome", |told| told.report.outcome(), Outcome::Answered)
        .claim("reasons", reasons, vec![ResendReason::KeyDeduplicates])
        .claim("the answer is a replay", |told| told.report.replayed(), true)
        .within("took", |told| told.took, Duration::ZERO..2 * SECOND)
        .holds(Tally { orders: 1, posts: 2, gets: 0, keys: 1 }))
}

pub(crate) async fn refused_connection() -> Result<Ending> {
    let shop = Arc::new(Upstream::closed([Mood::Serve])?);
    let opening = SafeRetry::new().with_deadline(5 * SECOND).with_observer(OpensAfterTheFirst(Arc::clone(&shop)));
    let order = client(opening)?.post(shop.url("/orders")).body("one coffee");
    let ending = Ending::new(Told::by(order).await?, &shop, "Not even a key was needed: what never arrived cannot have happened.")?;
    Ok(ending
        .claim("status", Told::status, Some(StatusCode::CREATED))
        .claim("outcome", |told| told.report.outcome(), Outcome::Answered)
        .claim("evidence", |told| told.report.attempts().first().map(|attempt| attempt.evidence()), Some(Evidence::Unprocessed))
        .claim("reasons", reasons, vec![ResendReason::ProvenUnprocessed])
        .within("took", |told| told.took, Duration::ZERO..2 * SECOND)
        .holds(Tally { orders: 1, posts: 1, gets: 0, keys: 0 }))
}

/// Opens the shop as soon as a resend is decided: after the first attempt, before the second.
struct OpensAfterTheFirst(Arc<Upstream>);

impl Observer for OpensAfterTheFirst {
    fn decided(&self, decided: &Decided<'_>) {
        if matches!(decided.decision(), Decision::Resend(_)) {
            // If it does not open, the second attempt is refused too, and the story says so.
            let _ = self.0.open();
        }
    }
}

pub(crate) async fn hint_beyond_the_deadline() -> Result<Ending> {
    let shop = Upstream::start([Mood::TooManySeconds(60)])?;
    let menu = client(SafeRetry::new().with_deadline(5 * SECOND))?.get(shop.url("/menu"));
    let ending =
        Ending::new(Told::by(menu).await?, &shop, "Back at once with the 429 and its hint: no early knock, no sleep for nothing.")?;
    Ok(ending
        .claim("status", Told::status, Some(StatusCode::TOO_MANY_REQUESTS))
        .claim("stop", |told| told.report.stop(), StopReason::DeadlineTooNear)
        .claim("hint for the caller", |told| told.report.hint(), Some(60 * SECOND))
        .within("took", |told| told.took, Duration::ZERO..AT_ONCE)
        .holds(Tally { orders: 0, posts: 0, gets: 1, keys: 0 }))
}

pub(crate) async fn hanging_server() -> Result<Ending> {
    const ATTEMPT: Duration = Duration::from_millis(500);
    const WHOLE: Duration = Duration::from_millis(900);
    let shop = Upstream::start([Mood::Hang, Mood::Hang, Mood::Hang])?;
    let menu = client(SafeRetry::new().with_attempt_limit(ATTEMPT).with_deadline(WHOLE))?.get(shop.url("/menu"));
    let ending = Ending::new(
        Told::by(menu).await?,
        &shop,
        "900 ms were promised, 900 ms it took: the second attempt got what was left, not 500 ms anew.",
    )?;
    Ok(ending
        .claim("error is DeadlineExceeded", |told| matches!(told.error(), Some(RetryError::DeadlineExceeded(_))), true)
        .claim("the error says that time ran out", |told| told.result.as_ref().is_err_and(|error| error.timed_out()), true)
        .within("took", |told| told.took, WHOLE..WHOLE + AT_ONCE)
        .within("second attempt", |told| told.report.attempts().last().map_or(Duration::MAX, |last| last.took()), Duration::ZERO..ATTEMPT)
        .holds(Tally { orders: 0, posts: 0, gets: 2, keys: 0 }))
}

fn reasons(told: &Told) -> Vec<ResendReason> {
    told.report.attempts().iter().filter_map(|attempt| attempt.resend()).collect()
}
