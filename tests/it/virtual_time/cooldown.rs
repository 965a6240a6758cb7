//! What one operation was told to wait, respected by the others.

use std::{
    collections::BTreeSet,
    sync::{Arc, Mutex},
    time::Duration,
};

use reqwest_middleware::ClientWithMiddleware;
use reqwest_safe_retry::{
    BudgetLimits, Cooldown, Endpoint, HoldsBack, KeyContract, Observer, Outcome, RetryBudget, RetryError, RetryErrorExt as _, RetryReport,
    SafeRetry, ScopeKey, StopReason, Unmarked,
    hints::HintSources,
    policy::defaults::MOST_SHARED_WAIT,
    report::Decided,
    testing::{Draws, Scripted, Step},
};
use tokio::{
    task::JoinHandle,
    time::{Instant, sleep},
};

use crate::support::scripted::{Ended, LATER, Says, ScriptedProbe, URL, client, end, hasty, millis, seconds, steady};

fn scope() -> ScopeKey {
    ScopeKey::origin(&URL.parse().unwrap())
}

/// Holds the peer of these tests back for so long.
fn cool_down(cooldown: &Cooldown, wait: Duration) {
    cooldown.note(scope(), Instant::now() + wait);
}

/// How long it is held back yet.
fn held_back(cooldown: &Cooldown) -> Option<Duration> {
    cooldown.release(scope(), Instant::now()).map(|until| until - Instant::now())
}

fn get(client: &ClientWithMiddleware) -> JoinHandle<Ended> {
    tokio::spawn(end(client.get(URL)))
}

/// When each send arrived.
fn arrivals(peer: &Scripted, began: Instant) -> Vec<Duration> {
    peer.requests().iter().map(|request| request.arrived() - began).collect()
}

// ===== resends =====

#[tokio::test(start_paused = true)]
async fn a_wait_that_one_operation_was_told_holds_back_the_resends_of_another() {
    let peer = Scripted::new([Step::status(429).with_header("retry-after", "10"), Step::fails(), Step::status(200)]);
    let client = client(hasty().with_shared_cooldown(Cooldown::new()), &peer);
    let began = Instant::now();
    let told = get(&client);
    sleep(seconds(1)).await;
    let other = get(&client);
    assert_eq!((told.await.unwrap().status(), other.await.unwrap().status()), (200, 200));
    assert_eq!(arrivals(&peer, began), [0, 1, 10, 10].map(seconds));
}

#[tokio::test(start_paused = true)]
async fn a_crowd_comes_back_spread_and_nobody_before_the_longest_wait_that_anybody_was_told() {
    const CROWD: usize = 100;
    // Those who decided before anybody was told have to look again when their own pause is over.
    let steps = std::iter::repeat_n(Step::status(503), CROWD - 2)
        .chain([Step::status(503).with_header("retry-after", "3"), Step::status(503).with_header("retry-after", "10")])
        .chain([Step::status(200)]);
    let peer = Scripted::new(steps);
    let unlimited = RetryBudget::new(BudgetLimits::UNLIMITED);
    let retry = SafeRetry::new().with_budget(unlimited).with_draws(Draws::seeded(7)).with_shared_cooldown(Cooldown::new());
    let (client, began) = (client(retry, &peer), Instant::now());
    let crowd: Vec<_> = (0..CROWD).map(|_| get(&client)).collect();
    for operation in crowd {
        assert_eq!(operation.await.unwrap().status(), 200);
    }
    let resends = arrivals(&peer, began).split_off(CROWD);
    assert_eq!(resends.len(), CROWD);
    assert!(resends.iter().all(|instant| (seconds(10)..seconds(13)).contains(instant)), "{resends:?}");
    let instants: BTreeSet<_> = resends.iter().collect();
    assert!(instants.len() > CROWD * 9 / 10, "{} instants", instants.len());
}

#[tokio::test(start_paused = true)]
async fn a_longer_wait_told_during_a_pause_is_respected() {
    let cooldown = Cooldown::new();
    let peer = Scripted::new([Step::status(503).with_header("retry-after", "2"), Step::status(200)]);
    let client = client(hasty().with_shared_cooldown(cooldown.clone()), &peer);
    let (operation, began) = (get(&client), Instant::now());
    sleep(seconds(1)).await;
    cool_down(&cooldown, seconds(4));
    sleep(seconds(3)).await;
    cool_down(&cooldown, seconds(5)); // and again while it waits that out
    assert_eq!(operation.await.unwrap().status(), 200);
    assert_eq!(arrivals(&peer, began), [0, 9].map(seconds));
}

#[tokio::test(start_paused = true)]
async fn a_shared_wait_that_does_not_fit_ends_a_resend_without_a_pause() {
    let cooldown = Cooldown::new();
    cool_down(&cooldown, seconds(60));
    for (step, ok) in [(Step::status(500), true), (Step::fails(), false)] {
        let peer = Scripted::new([step]);
        let ended = end(client(steady().with_shared_cooldown(cooldown.clone()).with_deadline(seconds(20)), &peer).get(URL)).await;
        assert_eq!((ended.report.stop(), ended.took, peer.sends()), (StopReason::DeadlineTooNear, Duration::ZERO, 1));
        assert_eq!(ended.result.is_ok(), ok, "the answer, or the transport's error");
    }
}

#[tokio::test(start_paused = true)]
async fn probes_are_held_back_like_resends() {
    let cooldown = Cooldown::new();
    let probe = ScriptedProbe::new([Says::Applied]);
    let peer = Scripted::new([Step::fails()]);
    let client = client(hasty().with_shared_cooldown(cooldown.clone()), &peer);
    cool_down(&cooldown, seconds(7));
    let began = Instant::now();
    let ended = end(client.post(URL).with_extension(Endpoint::probed_write(probe.clone()))).await;
    assert_eq!((ended.status(), ended.report.outcome()), (201, Outcome::Reconciled));
    assert_eq!(probe.asked(), [began + seconds(7)]);
}

#[tokio::test(start_paused = true)]
async fn first_sends_go_out_at_once_unless_they_are_held_back_too() {
    let cooldown = Cooldown::new();
    cool_down(&cooldown, seconds(5));
    let peer = Scripted::answering(200);
    let ended = end(client(steady().with_shared_cooldown(cooldown), &peer).get(URL)).await;
    assert_eq!((ended.status(), ended.took), (200, Duration::ZERO));
}

// ===== first sends =====

fn strict() -> (Cooldown, SafeRetry) {
    let cooldown = Cooldown::new().holding_back(HoldsBack::FirstSendsToo);
    (cooldown.clone(), hasty().with_shared_cooldown(cooldown))
}

#[tokio::test(start_paused = true)]
async fn a_new_operation_waits_within_its_deadline() {
    let (cooldown, retry) = strict();
    cool_down(&cooldown, seconds(5));
    let (peer, began) = (Scripted::answering(200), Instant::now());
    let client = client(retry.with_deadline(seconds(20)), &peer);
    let ended = end(client.post(URL).with_extension(Endpoint::never_resend())).await;
    assert_eq!((ended.status(), ended.took), (200, seconds(5)));
    assert_eq!(arrivals(&peer, began), [seconds(5)]);
}

#[tokio::test(start_paused = true)]
async fn new_operations_that_were_held_back_come_spread() {
    let cooldown = Cooldown::new().holding_back(HoldsBack::FirstSendsToo);
    cool_down(&cooldown, seconds(8));
    let peer = Scripted::answering(200);
    let client = client(SafeRetry::new().with_draws(Draws::seeded(7)).with_shared_cooldown(cooldown), &peer);
    let began = Instant::now();
    let crowd: Vec<_> = (0..50).map(|_| get(&client)).collect();
    for operation in crowd {
        assert_eq!(operation.await.unwrap().status(), 200);
    }
    let instants: BTreeSet<_> = arrivals(&peer, began).into_iter().collect();
    assert!(instants.iter().all(|instant| (seconds(8)..seconds(10)).contains(instant)), "{instants:?}");
    assert!(instants.len() > 45, "{} instants", instants.len());
}

/// Arrivals at a steady rate while a wait holds all of them back: how many sends there are in each
/// tenth of a second from its end until usual times.
async fn return_of_a_crowd(wait: Duration, each_tenth: usize) -> Vec<usize> {
    const LATE: usize = 100;
    let cooldown = Cooldown::new().holding_back(HoldsBack::FirstSendsToo);
    cool_down(&cooldown, wait);
    let peer = Scripted::answering(200);
    let client = client(steady().with_draws(Draws::seeded(7)).with_deadline(LATER).with_shared_cooldown(cooldown), &peer);
    let began = Instant::now();
    let mut crowd = Vec::new();
    for _ in 0..wait.as_millis() as usize / 100 + LATE {
        crowd.extend((0..each_tenth).map(|_| get(&client)));
        sleep(millis(100)).await;
    }
    for operation in crowd {
        assert_eq!(operation.await.unwrap().status(), 200);
    }
    let mut tenths = vec![0; LATE];
    for arrival in arrivals(&peer, began) {
        tenths[(arrival - wait).as_millis() as usize / 100] += 1; // nobody comes earlier
    }
    tenths
}

#[tokio::test(start_paused = true)]
async fn however_late_they_come_those_who_were_held_back_return_at_five_times_the_usual_rate() {
    for (wait, each_tenth) in [(seconds(30), 10), (seconds(5), 40)] {
        let tenths = return_of_a_crowd(wait, each_tenth).await;
        let spread = tenths.split_at(wait.as_millis() as usize / 400).0;
        let (sum, most) = (spread.iter().sum::<usize>(), *spread.iter().max().unwrap());
        let usual = each_tenth * spread.len();
        assert!((usual * 9 / 2..=usual * 11 / 2).contains(&sum), "{wait:?}: {sum} in {} s, usually {usual}", spread.len() / 10);
        assert!(most <= 8 * each_tenth, "{wait:?}: {most} in a tenth of a second, usually {each_tenth}");
    }
}

#[tokio::test(start_paused = true)]
async fn resends_that_were_held_back_return_spread_however_late_their_operations_failed() {
    const EACH_TENTH: usize = 10;
    let (cooldown, wait) = (Cooldown::new(), seconds(30));
    cool_down(&cooldown, wait);
    let operations = EACH_TENTH * 300;
    let peer = Scripted::new(std::iter::repeat_n(Step::status(500), operations).chain([Step::status(200)]));
    let client = client(steady().with_draws(Draws::seeded(7)).with_deadline(LATER).with_shared_cooldown(cooldown), &peer);
    let (began, mut crowd) = (Instant::now(), Vec::new());
    for _ in 0..300 {
        crowd.extend((0..EACH_TENTH).map(|_| get(&client)));
        sleep(millis(100)).await;
    }
    for operation in crowd {
        assert_eq!(operation.await.unwrap().status(), 200);
    }
    let mut tenths = [0; 80];
    for resend in arrivals(&peer, began).split_off(operations) {
        tenths[(resend - wait).as_millis() as usize / 100] += 1;
    }
    let most = *tenths.iter().max().unwrap();
    assert!(most <= 7 * EACH_TENTH, "{most} in a tenth of a second, on average {}", operations / 75);
}

#[tokio::test(start_paused = true)]
async fn after_a_short_wait_they_return_within_the_first_throttle_backoff() {
    let tenths = return_of_a_crowd(millis(100), 50).await;
    assert!(tenths.iter().take(10).all(|&sends| sends < 50 + 50 / 4), "{tenths:?}");
}

#[derive(Clone, Default)]
struct Ends(Arc<Mutex<Vec<RetryReport>>>);

impl Observer for Ends {
    fn decided(&self, _: &Decided<'_>) {}

    fn ended(&self, report: &RetryReport) {
        self.0.lock().unwrap().push(report.clone());
    }
}

#[tokio::test(start_paused = true)]
async fn a_new_operation_that_cannot_wait_fails_at_once_and_says_how_long_it_would_have_to() {
    let (cooldown, retry) = strict();
    cool_down(&cooldown, seconds(60));
    let (ends, budget) = (Ends::default(), RetryBudget::new(BudgetLimits::percent(100).with_reserve(0, 0)));
    let retry = retry.with_observer(ends.clone()).with_budget(budget.clone());
    for (retry, stop) in [(retry.clone().with_deadline(seconds(20)), StopReason::DeadlineTooNear), (retry, StopReason::WindowClosed)] {
        let peer = Scripted::answering(200);
        let request = client(retry, &peer).post(URL).with_extension(Endpoint::keyed_write(KeyContract::STRIPE));
        let ended = end(request).await;
        let error = ended.error().safe_retry().unwrap();
        assert!(matches!(error, RetryError::CoolingDown(_)), "{error:?}");
        assert!(error.key().is_some() && error.status().is_none());
        for report in [&ended.report, error.report().unwrap(), &ends.0.lock().unwrap().pop().unwrap()] {
            assert_eq!((report.hint(), report.stop(), report.outcome()), (Some(seconds(60)), stop, Outcome::Unprocessed));
            assert!(report.attempts().is_empty() && !report.key_was_sent());
        }
        assert_eq!((ended.took, peer.sends()), (Duration::ZERO, 0));
    }
    assert_eq!(budget.balance(&URL.parse().unwrap()), 0, "who sends nothing earns nothing");
}

#[tokio::test(start_paused = true)]
async fn a_wait_of_centuries_makes_new_operations_fail_for_an_hour_instead_of_hang() {
    for wait in ["1746136938", "18446744073709551615", "99999999999999999999999999"] {
        let (_, retry) = strict();
        let peer = Scripted::new([Step::status(429).with_header("retry-after", wait), Step::status(200)]);
        let client = client(retry, &peer);
        assert_eq!(end(client.get(URL)).await.status(), 429);
        let ended = end(client.get(URL)).await;
        assert!(matches!(ended.error().safe_retry(), Some(RetryError::CoolingDown(_))), "{wait}");
        assert_eq!(ended.report.hint(), Some(MOST_SHARED_WAIT), "{wait}");
        assert_eq!((ended.took, peer.sends()), (Duration::ZERO, 1), "{wait}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_request_that_is_left_alone_is_not_held_back() {
    let (cooldown, retry) = strict();
    cool_down(&cooldown, seconds(60));
    let peer = Scripted::answering(200);
    let client = client(retry.with_unmarked(Unmarked::Untouched), &peer);
    assert_eq!(end(client.get(URL)).await.took, Duration::ZERO);
    assert!(end(client.get(URL).with_extension(Endpoint::read())).await.result.is_err());
}

// ===== scopes =====

#[tokio::test(start_paused = true)]
async fn a_wait_of_one_origin_holds_nobody_else_back() {
    let (cooldown, retry) = strict();
    cool_down(&cooldown, seconds(60));
    let client = client(retry, &Scripted::answering(200));
    for other in ["http://other.test/orders", "https://peer.test/orders", "http://peer.test:8080/orders"] {
        assert_eq!(end(client.get(other)).await.took, Duration::ZERO, "{other}");
    }
    assert!(end(client.get("http://peer.test:80/else?where")).await.result.is_err());
}

#[tokio::test(start_paused = true)]
async fn a_scope_of_the_user_says_who_shares_a_wait() {
    let tenant = |request: &reqwest::Request| ScopeKey::of(&request.headers().get("x-tenant"));
    let cooldown = Cooldown::new().scoped_by(tenant).holding_back(HoldsBack::FirstSendsToo);
    let peer = Scripted::new([Step::status(429).with_header("retry-after", "60"), Step::status(200)]);
    let client = client(hasty().with_shared_cooldown(cooldown), &peer);
    let of = |tenant: &str, url: &str| end(client.get(url).header("x-tenant", tenant));
    assert_eq!(of("red", "http://one.test/").await.status(), 429);
    assert!(of("red", "http://other.test/").await.result.is_err());
    assert_eq!(of("blue", "http://one.test/").await.status(), 200);
}

#[tokio::test(start_paused = true)]
async fn clients_that_share_a_handle_hold_each_other_back() {
    let (cooldown, retry) = strict();
    let told = client(retry, &Scripted::new([Step::status(503).with_header("retry-after", "60")]));
    let peer = Scripted::answering(200);
    let other = client(steady().with_shared_cooldown(cooldown), &peer);
    assert_eq!(end(told.get(URL)).await.status(), 503);
    assert!(end(other.get(URL)).await.result.is_err());
    peer.assert_sends(0);
}

// ===== whose wait concerns everybody =====

#[tokio::test(start_paused = true)]
async fn a_wait_for_a_key_in_use_or_beside_a_final_answer_concerns_nobody_else() {
    let keyed = || Some(Endpoint::keyed_write(KeyContract::STRIPE));
    for (status, endpoint) in [(409, keyed()), (404, None), (201, None), (202, None), (301, None), (304, None), (501, None)] {
        let cooldown = Cooldown::new();
        let peer = Scripted::new([Step::status(status).with_header("retry-after", "60")]);
        let request = client(hasty().with_shared_cooldown(cooldown.clone()), &peer).post(URL);
        let request = match endpoint {
            Some(endpoint) => request.with_extension(endpoint),
            None => request,
        };
        assert_eq!(end(request).await.status(), status);
        assert_eq!(held_back(&cooldown), None, "{status}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_wait_concerns_everybody_even_if_whoever_was_told_does_not_come_back() {
    let vetoed = || Endpoint::read().with_hints(HintSources::STANDARD.with_vetoes());
    for endpoint in [Endpoint::unprotected_write(), Endpoint::never_resend(), vetoed()] {
        let cooldown = Cooldown::new();
        let peer = Scripted::new([Step::status(503).with_header("retry-after", "60").with_header("x-should-retry", "false")]);
        let retry = hasty().with_shared_cooldown(cooldown.clone());
        assert_eq!(end(client(retry, &peer).post(URL).with_extension(endpoint.clone())).await.status(), 503);
        assert_eq!((held_back(&cooldown), peer.sends()), (Some(seconds(60)), 1), "{endpoint:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_shared_wait_is_never_shortened_by_a_later_answer() {
    let cooldown = Cooldown::new();
    let steps = ["20", "5"].map(|wait| Step::status(503).with_header("retry-after", wait));
    let client = client(hasty().with_shared_cooldown(cooldown.clone()), &Scripted::new(steps.into_iter().chain([Step::status(200)])));
    for _ in 0..3 {
        let _ = end(client.post(URL)).await;
        sleep(millis(500)).await;
    }
    assert_eq!(held_back(&cooldown), Some(seconds(20) - 3 * millis(500)));
}
