//! Four sentences that a client has to be able to say before it goes into production.

use std::{collections::BTreeMap, iter};

use futures_util::future::join_all;
use reqwest_safe_retry::{
    Deadline, Endpoint, KeyContract, Outcome, RetryError, RetryErrorExt as _, RetryPolicy, StopReason,
    policy::{Backoff, Draw, Jitter},
    testing::{Draws, Scripted, Step},
};
use tokio::time::{Duration, Instant, sleep};

use crate::support::scripted::{LATER, URL, client, end, hasty, millis, seconds, steady};

#[tokio::test(start_paused = true)]
async fn a_429_is_followed_by_the_wait_that_retry_after_asks_for() {
    let draws = [Draws::constant(Draw::LEAST), Draws::constant(Draw::HALF), Draws::constant(Draw::GREATEST), Draws::seeded(1)];
    for draws in draws {
        let peer = Scripted::new([Step::status(429).with_header("retry-after", "2").after(millis(300)), Step::ok("done")]);
        let ended = end(client(steady().with_draws(draws), &peer).get(URL)).await;
        assert_eq!(ended.result.unwrap().text().await.unwrap(), "done");
        peer.assert_sends(2);
        let pause = peer.pauses()[0];
        assert!((seconds(2)..seconds(4)).contains(&pause), "{pause:?} after the head of the 429");
    }
}

/// Every client fails in the same instant; how many come back in each tenth of `span`, which begins
/// `after` the failure?
async fn tenths_of_a_crowd(refusal: Step, after: Duration, span: Duration) -> [usize; 10] {
    const CROWD: usize = 1_000;
    let peer = Scripted::new(iter::repeat_n(refusal, CROWD).chain([Step::ok("done")]));
    let client = client(steady().with_draws(Draws::seeded(503)), &peer);
    let began = Instant::now();
    let answers = join_all((0..CROWD).map(|_| client.get(URL).send())).await;
    assert!(answers.into_iter().all(|answer| answer.unwrap().status() == 200));
    peer.assert_sends(2 * CROWD);

    let mut tenths = [0; 10];
    let mut moments = BTreeMap::<_, usize>::new();
    for resend in &peer.requests()[CROWD..] {
        // Nobody comes back before the hint.
        let since = (resend.arrived() - began).checked_sub(after).unwrap();
        tenths[usize::try_from(since.as_micros() * 10 / span.as_micros()).unwrap().min(9)] += 1;
        *moments.entry(since.as_millis()).or_default() += 1;
        assert!(since <= span + millis(1), "{since:?}");
    }
    assert!(moments.values().all(|together| *together <= 10), "at most one in a hundred comes in the same millisecond");
    tenths
}

#[tokio::test(start_paused = true)]
async fn a_503_does_not_synchronise_a_thousand_clients() {
    let tenths = tenths_of_a_crowd(Step::status(503), Duration::ZERO, seconds(1)).await;
    assert!(tenths.iter().all(|share| (50..=150).contains(share)), "{tenths:?}");
}

#[tokio::test(start_paused = true)]
async fn a_hint_that_a_thousand_clients_were_given_does_not_synchronise_them() {
    let busy = Step::status(503).with_header("retry-after", "20");
    let tenths = tenths_of_a_crowd(busy, seconds(20), seconds(5)).await;
    assert!(tenths.iter().all(|share| (50..=150).contains(share)), "{tenths:?}");
}

/// Whoever's clock it was: the plugin's attempt limit, its deadline, or the client's
/// own timeout.
#[tokio::test(start_paused = true)]
async fn a_timed_out_post_creates_no_duplicate_without_protection() {
    let clocks = [
        (Step::hangs(), steady().with_attempt_limit(millis(200))),
        (Step::hangs(), steady().with_deadline(millis(200))),
        (Step::times_out(), steady()),
        (Step::status(201).after(millis(400)), steady().with_attempt_limit(millis(200))),
    ];
    for (step, retry) in clocks {
        for endpoint in [None, Some(Endpoint::unprotected_write())] {
            let peer = Scripted::new([step.clone()]);
            let mut request = client(retry.clone(), &peer).post(URL).body("one coffee");
            if let Some(endpoint) = endpoint.clone() {
                request = request.with_extension(endpoint);
            }
            let ended = end(request).await;
            sleep(LATER).await;
            peer.assert_writes(1);
            peer.assert_sends(1);
            assert!(ended.error().timed_out());
            assert_eq!(ended.report.outcome(), Outcome::Unknown);
            assert_eq!(ended.report.stop(), StopReason::MayHaveHappened);
            if endpoint.is_some() {
                assert!(matches!(ended.error().safe_retry(), Some(RetryError::OutcomeUnknown(_))));
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_timed_out_post_with_a_key_is_sent_again_under_the_same_key() {
    let peer = Scripted::new([Step::hangs(), Step::status(201)]);
    let payment = Endpoint::keyed_write(KeyContract::STRIPE).with_attempt_limit(millis(200));
    let ended = end(client(steady(), &peer).post(URL).body("one coffee").with_extension(payment)).await;
    assert_eq!(ended.status(), 201);
    peer.assert_sends(2);
    let keys: Vec<_> = peer.requests().iter().map(|sent| sent.header("idempotency-key").unwrap().to_owned()).collect();
    assert_eq!(keys[0], keys[1]);
}

#[tokio::test(start_paused = true)]
async fn an_exhausted_deadline_ends_the_loop() {
    let backoff = Backoff::doubling(millis(100), seconds(1)).with_jitter(Jitter::Equal);
    let endless = RetryPolicy::DEFAULT.with_attempts(10_000).with_backoff(backoff).with_throttle_backoff(backoff);
    for step in [Step::status(503), Step::status(503).after(millis(70)), Step::fails(), Step::hangs(), Step::refused()] {
        for retry in [steady(), hasty()] {
            let peer = Scripted::new([step.clone()]);
            let retry = retry.with_policy(endless);
            let ended = end(client(retry, &peer).get(URL).with_extension(Deadline::after(seconds(2)))).await;
            assert!(ended.took <= seconds(2), "{step:?}: {:?}", ended.took);
            assert_eq!(ended.report.stop(), StopReason::DeadlineTooNear, "{step:?}");
            let sends = peer.sends();
            sleep(LATER).await;
            peer.assert_sends(sends);
        }
    }
}
