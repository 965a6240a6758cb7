//! The budget where it is spent: through the public builder, with its defaults, by real operations.

use std::{collections::BTreeSet, time::Duration};

use reqwest_middleware::{ClientWithMiddleware, RequestBuilder};
use reqwest_safe_retry::{
    BudgetLimits, Cooldown, Endpoint, KeyContract, Outcome, RetryBudget, RetryErrorExt as _, SafeRetry, ScopeKey, StopReason,
    policy::{AdaptiveLimits, Draw},
    testing::{Draws, Scripted, Step},
};
use tokio::time::{Instant, advance, sleep, timeout};

use crate::support::scripted::{Says, ScriptedProbe, URL, client, end, hasty, millis, seconds, steady};

/// Two tokens, and none to earn.
const TWO: BudgetLimits = BudgetLimits::percent(0).with_reserve(2, 0);

const OPERATIONS: usize = 10_000;

/// Steps in a fixed pattern of which some fail: 37 and 100 have no common factor.
fn failing(percent: usize, failure: &Step) -> Scripted {
    Scripted::new((0..3 * OPERATIONS).map(|send| if send * 37 % 100 < percent { failure.clone() } else { Step::status(200) }))
}

/// The bound that the defaults promise: a fifth of the operations, the reserve, and a token for
/// each second.
fn assert_bounded(peer: &Scripted, operations: usize, began: Instant, what: &str) {
    let most = operations * 12 / 10 + 10 + usize::try_from(began.elapsed().as_secs()).unwrap() + 1;
    assert!(peer.sends() <= most, "{} sends, at most {most}: {what}", peer.sends());
}

fn balance(budget: &RetryBudget) -> u64 {
    budget.balance(&URL.parse().unwrap())
}

/// How often a request is sent, and why it ended.
async fn sends(peer: &Scripted, request: RequestBuilder) -> (usize, StopReason) {
    let before = peer.sends();
    let stop = end(request).await.report.stop();
    (peer.sends() - before, stop)
}

// ===== outages =====

#[tokio::test(start_paused = true)]
async fn a_dead_peer_gets_a_fifth_more_from_operations_in_sequence() {
    for (failure, operations) in [(Step::status(500), OPERATIONS), (Step::status(503), 500), (Step::fails(), 60), (Step::refused(), 60)] {
        let peer = Scripted::new([failure.clone()]);
        let (client, began) = (client(SafeRetry::new(), &peer), Instant::now());
        for _ in 0..operations {
            let _ = client.get(URL).send().await;
        }
        assert_bounded(&peer, operations, began, &format!("{failure:?}"));
        assert!(peer.sends() > operations * 11 / 10, "{} sends: who may resend does", peer.sends());
    }
}

/// 500 callers do not add up to more than one.
#[tokio::test(start_paused = true)]
async fn a_crowd_of_tasks_keeps_to_the_same_bound_however_many_fail() {
    for percent in [100, 50, 30, 10] {
        let peer = failing(percent, &Step::status(500));
        let (client, began) = (client(SafeRetry::new(), &peer), Instant::now());
        let tasks: Vec<_> = (0..500)
            .map(|_| {
                let client = client.clone();
                tokio::spawn(async move {
                    for _ in 0..20 {
                        let _ = client.get(URL).send().await;
                    }
                })
            })
            .collect();
        for task in tasks {
            task.await.unwrap();
        }
        assert_bounded(&peer, OPERATIONS, began, &format!("{percent} % fail"));
        assert!(peer.sends() > OPERATIONS + 500, "{} sends when {percent} % fail: who may resend does", peer.sends());
    }
}

// ===== spent =====

#[tokio::test(start_paused = true)]
async fn a_spent_budget_ends_an_operation_at_once_and_says_so() {
    let none = || steady().with_budget(RetryBudget::new(BudgetLimits::percent(0).with_reserve(0, 0)));
    for failure in [Step::status(503).with_header("retry-after", "5"), Step::fails(), Step::refused()] {
        let peer = Scripted::new([failure.clone()]);
        let ended = end(client(none(), &peer).get(URL)).await;
        assert_eq!((ended.report.stop(), ended.took, peer.sends()), (StopReason::BudgetSpent, Duration::ZERO, 1), "{failure:?}");
        assert_eq!(ended.result.is_ok(), matches!(ended.report.attempts()[0].status(), Some(status) if status == 503), "{failure:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_probe_is_paid_for_and_the_last_look_is_free() {
    let budget = RetryBudget::new(TWO);
    let probe = ScriptedProbe::new([Says::InProgress]);
    let endpoint = Endpoint::probed_write(probe.clone());
    let peer = Scripted::new([Step::fails()]);
    let ended = end(client(hasty().with_budget(budget.clone()), &peer).post(URL).with_extension(endpoint)).await;
    assert_eq!((ended.report.stop(), ended.report.outcome()), (StopReason::BudgetSpent, Outcome::Unknown));
    assert_eq!((probe.times(), peer.sends(), balance(&budget)), (3, 1, 0));
}

#[tokio::test(start_paused = true)]
async fn an_operation_without_a_resend_costs_nothing() {
    let budget = RetryBudget::new(TWO);
    let client = client(steady().with_budget(budget.clone()), &Scripted::answering(500));
    let _ = end(client.post(URL)).await; // unprotected
    let _ = end(client.get(URL).with_extension(Endpoint::never_resend())).await;
    assert_eq!(balance(&budget), 2);
}

// ===== given back =====

#[tokio::test(start_paused = true)]
async fn a_caller_who_leaves_during_the_pause_gives_the_token_back() {
    let budget = RetryBudget::new(TWO);
    let peer = Scripted::new([Step::status(503).with_header("retry-after", "10")]);
    let client = client(steady().with_budget(budget.clone()), &peer);
    let mut leaving = Box::pin(client.get(URL).send());
    assert!(timeout(seconds(5), &mut leaving).await.is_err());
    assert_eq!(balance(&budget), 1, "taken when the resend is decided");
    drop(leaving);
    assert_eq!((balance(&budget), peer.sends()), (2, 1), "given back, since it was never sent");
}

/// A client whose pause of half a second is long enough for somebody else to be told to wait.
async fn told_meanwhile(retry: SafeRetry, wait: Duration, request: impl FnOnce(&ClientWithMiddleware) -> RequestBuilder) -> StopReason {
    let cooldown = Cooldown::new();
    let peer = Scripted::answering(503);
    let client = client(retry.with_shared_cooldown(cooldown.clone()), &peer);
    let operation = tokio::spawn(end(request(&client)));
    sleep(millis(100)).await;
    cooldown.note(ScopeKey::origin(&URL.parse().unwrap()), Instant::now() + wait);
    let ended = operation.await.unwrap();
    peer.assert_sends(1);
    assert_eq!(ended.error().safe_retry().unwrap().status().unwrap(), 503, "given back before the pause");
    ended.report.stop()
}

#[tokio::test(start_paused = true)]
async fn an_operation_whose_time_is_up_after_the_pause_gives_the_token_back() {
    let budget = RetryBudget::new(TWO);
    let retry = || steady().with_budget(budget.clone());
    let stop = told_meanwhile(retry().with_deadline(seconds(2)), seconds(60), |client| client.get(URL)).await;
    assert_eq!((stop, balance(&budget)), (StopReason::DeadlineTooNear, 2));
    let stop = told_meanwhile(retry(), seconds(60), |client| client.get(URL)).await;
    assert_eq!((stop, balance(&budget)), (StopReason::WindowClosed, 2));
}

#[tokio::test(start_paused = true)]
async fn an_operation_whose_key_lapses_during_the_pause_gives_the_token_back() {
    let budget = RetryBudget::new(TWO);
    let endpoint = Endpoint::keyed_write(KeyContract::ietf(seconds(10)));
    let stop = told_meanwhile(steady().with_budget(budget.clone()), seconds(20), |client| client.post(URL).with_extension(endpoint)).await;
    assert_eq!((stop, balance(&budget)), (StopReason::KeyExpired, 2));
}

// ===== recovery =====

#[tokio::test(start_paused = true)]
async fn a_drained_budget_comes_back_with_time_and_with_operations() {
    async fn drain(client: &ClientWithMiddleware) {
        while end(client.get(URL).header("x-fails", "yes")).await.report.stop() != StopReason::BudgetSpent {}
    }
    let budget = RetryBudget::default();
    let peer = Scripted::new([Step::status(500)]);
    let sick = client(hasty().with_budget(budget.clone()), &peer);
    let well = client(hasty().with_budget(budget.clone()), &Scripted::answering(200));

    drain(&sick).await;
    assert_eq!(balance(&budget), 0);
    advance(seconds(60)).await;
    assert_eq!(sends(&peer, sick.get(URL)).await, (3, StopReason::AttemptsSpent), "after a quiet minute");

    drain(&sick).await;
    let began = Instant::now();
    for _ in 0..1_000 {
        assert_eq!(well.get(URL).send().await.unwrap().status(), 200);
    }
    assert_eq!(began.elapsed(), Duration::ZERO);
    assert!((200..=201).contains(&balance(&budget)), "{}", balance(&budget));
    assert_eq!(sends(&peer, sick.get(URL)).await, (3, StopReason::AttemptsSpent), "after a thousand successes");
}

#[tokio::test(start_paused = true)]
async fn a_client_that_sends_once_a_minute_may_always_resend() {
    let peer = Scripted::answering(500);
    let client = client(hasty().with_budget(RetryBudget::default()), &peer);
    for _ in 0..100 {
        assert_eq!(sends(&peer, client.get(URL)).await, (3, StopReason::AttemptsSpent));
        sleep(seconds(60)).await;
    }
}

// ===== whose budget =====

#[tokio::test(start_paused = true)]
async fn clients_that_share_a_handle_share_its_balance_and_others_do_not() {
    let budget = RetryBudget::new(TWO);
    let peer = Scripted::answering(500);
    let (one, other) = (client(hasty().with_budget(budget.clone()), &peer), client(hasty().with_budget(budget), &peer));
    assert_eq!(sends(&peer, one.get(URL)).await, (3, StopReason::AttemptsSpent));
    assert_eq!(sends(&peer, other.get(URL)).await, (1, StopReason::BudgetSpent));
    let alone = client(hasty().with_budget(RetryBudget::new(TWO)), &peer);
    assert_eq!(sends(&peer, alone.get(URL)).await, (3, StopReason::AttemptsSpent));
}

#[tokio::test(start_paused = true)]
async fn clones_of_a_plugin_share_its_budget_and_two_new_ones_do_not() {
    let drained = |retry: SafeRetry| async move {
        let peer = Scripted::answering(500);
        for _ in 0..20 {
            let _ = client(retry.clone(), &peer).get(URL).send().await;
        }
        peer.sends()
    };
    let retry = SafeRetry::new().with_draws(Draws::constant(Draw::LEAST));
    assert_eq!(drained(retry.clone()).await, 20 + 10 + 4, "the reserve, and a fifth");
    assert_eq!(drained(retry).await, 20 + 4);
    assert_eq!(drained(SafeRetry::new().with_draws(Draws::constant(Draw::LEAST))).await, 20 + 10 + 4);
}

#[tokio::test(start_paused = true)]
async fn an_outage_of_one_origin_leaves_the_others_their_resends() {
    let peer = Scripted::answering(500);
    let client = client(hasty().with_budget(RetryBudget::new(TWO)), &peer);
    assert_eq!(sends(&peer, client.get("http://one.test/a")).await, (3, StopReason::AttemptsSpent));
    assert_eq!(sends(&peer, client.get("http://one.test/b?c")).await, (1, StopReason::BudgetSpent));
    for other in ["http://other.test/", "http://one.test:8080/", "https://one.test/"] {
        assert_eq!(sends(&peer, client.get(other)).await, (3, StopReason::AttemptsSpent), "{other}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_key_of_the_user_says_who_shares_a_balance() {
    let tenant = |request: &reqwest::Request| ScopeKey::of(&request.headers().get("x-tenant"));
    let peer = Scripted::answering(500);
    let client = client(hasty().with_budget(RetryBudget::new(TWO).scoped_by(tenant)), &peer);
    let of = |tenant: &str, url: &str| client.get(url).header("x-tenant", tenant);
    assert_eq!(sends(&peer, of("red", "http://one.test/")).await, (3, StopReason::AttemptsSpent));
    assert_eq!(sends(&peer, of("red", "http://other.test/")).await, (1, StopReason::BudgetSpent));
    assert_eq!(sends(&peer, of("blue", "http://one.test/")).await, (3, StopReason::AttemptsSpent));
}

// ===== adaptive =====

#[tokio::test(start_paused = true)]
async fn an_adaptive_budget_closes_in_an_outage_and_opens_when_it_is_over() {
    const OUTAGE: usize = 1_000;
    let steps = std::iter::repeat_n(Step::status(500), 1_200).chain([Step::status(200)]);
    let (sick, well) = (Scripted::new(steps), Scripted::answering(200));
    let budget = RetryBudget::adaptive(AdaptiveLimits::DEFAULT);
    let client = |peer| client(steady().with_budget(budget.clone()).with_draws(Draws::seeded(7)), peer);
    for _ in 0..OUTAGE {
        let _ = client(&sick).get(URL).send().await;
    }
    assert!((OUTAGE..OUTAGE + 20).contains(&sick.sends()), "{} sends", sick.sends());
    for _ in 0..3 * OUTAGE {
        assert_eq!(client(&well).get(URL).send().await.unwrap().status(), 200);
    }
    assert!(balance(&budget) > 0, "half of what was asked was accepted again");
    assert_eq!(sends(&sick, client(&sick).get(URL)).await, (3, StopReason::AttemptsSpent));
}

// ===== threads =====

#[tokio::test(flavor = "multi_thread", worker_threads = 64)]
async fn threads_that_spend_at_once_spend_what_was_earned_and_no_more() {
    const TASKS: usize = 64;
    const EACH: usize = 50;
    let limits = BudgetLimits::percent(10).with_reserve(TASKS as u32, 0).with_memory(Duration::MAX);
    let budget = RetryBudget::new(limits);
    let peer = Scripted::answering(500);
    let client = client(hasty().with_budget(budget.clone()), &peer);
    let tasks: Vec<_> = (0..TASKS)
        .map(|_| {
            let client = client.clone();
            tokio::spawn(async move {
                let mut stops = Vec::new();
                for _ in 0..EACH {
                    stops.push(end(client.get(URL)).await.report.stop());
                }
                stops
            })
        })
        .collect();
    let mut stops = Vec::new();
    for task in tasks {
        stops.extend(task.await.unwrap());
    }
    let resends = peer.sends() - TASKS * EACH;
    assert_eq!(resends as u64 + balance(&budget), (TASKS * EACH / 10 + TASKS) as u64);
    let told: BTreeSet<_> = stops.iter().map(|stop| format!("{stop:?}")).collect();
    assert!(told.iter().all(|stop| stop == "BudgetSpent" || stop == "AttemptsSpent"), "{told:?}");
}
