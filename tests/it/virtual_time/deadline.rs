//! One deadline over the whole operation: every promise about time, in virtual time.

use std::{sync::Arc, time::Duration};

use http::Extensions;
use proptest::prelude::*;
use reqwest::{Request, Response};
use reqwest_middleware::{Middleware, Next, Result};
use reqwest_safe_retry::{
    BudgetLimits, Cause, Deadline, Endpoint, Outcome, ReplayBody, ReportSlot, RetryBudget, RetryError, RetryErrorExt as _, RetryPolicy,
    RetryReport, StopReason,
    errors::BodyDeadlineExceeded,
    policy::{Backoff, Draw, HintSpread, Jitter, UnreadableHint},
    report::TimeLimit,
    testing::{Draws, Scripted, Step},
};
use tokio::time::{Instant, sleep, sleep_until, timeout};

use crate::support::scripted::{Ended, LATER, URL, builder, client, end, hasty, millis, seconds, steady};

/// How long each attempt lasted, as the report tells it.
fn lasted(ended: &Ended) -> Vec<Duration> {
    ended.report.attempts().iter().map(|attempt| attempt.took()).collect()
}

fn limits(ended: &Ended) -> Vec<Cause> {
    ended.report.attempts().iter().map(|attempt| attempt.cause()).collect()
}

const BY_ATTEMPT: Cause = Cause::TimedOut(TimeLimit::Attempt);
const BY_DEADLINE: Cause = Cause::TimedOut(TimeLimit::Deadline);

/// In real time: a factory is no future, so only the thread can sleep.
#[tokio::test]
async fn a_factory_that_takes_all_the_time_left_leads_to_no_send() {
    let slow = || {
        ReplayBody::from_fn(|| {
            #[expect(clippy::disallowed_methods, reason = "a factory that holds its thread is what this is about")]
            std::thread::sleep(millis(150));
            Ok("late".into())
        })
    };
    let peer = Scripted::answering(200);
    let ended = end(client(steady(), &peer).post(URL).with_extension(slow()).with_extension(Deadline::after(millis(100)))).await;
    assert!(matches!(ended.error().safe_retry(), Some(RetryError::DeadlineExceeded(_))));
    peer.assert_sends(0);

    let peer = Scripted::new([Step::refused(), Step::status(200)]);
    let request = client(hasty(), &peer).put(URL).body("first").with_extension(slow()).with_extension(Deadline::after(millis(100)));
    assert_eq!(end(request).await.report.stop(), StopReason::DeadlineTooNear);
    peer.assert_sends(1);
}

/// Waits for its turn until an instant, as behind a permit.
struct Until(Instant);

#[async_trait::async_trait]
impl Middleware for Until {
    async fn handle(&self, request: Request, extensions: &mut Extensions, next: Next<'_>) -> Result<Response> {
        sleep_until(self.0).await;
        next.run(request, extensions).await
    }
}

/// A process that was stopped wakes up for its turn and for the deadline in the same moment.
#[tokio::test(start_paused = true)]
async fn what_gets_its_turn_with_the_deadline_is_not_sent_any_more() {
    for asks_for_a_report in [false, true] {
        let (peer, turn) = (Scripted::answering(200), Instant::now() + seconds(1));
        let client = steady().client(reqwest::Client::builder()).with(Until(turn)).with(peer.clone()).build().unwrap();
        let mut request = client.post(URL).with_extension(Endpoint::unprotected_write()).with_extension(Deadline::at(turn));
        if asks_for_a_report {
            request = request.with_extension(ReportSlot::new());
        }
        let error = request.send().await.unwrap_err();
        assert!(matches!(error.safe_retry(), Some(RetryError::Unprocessed(_))), "{error:?}");
        peer.assert_sends(0);
    }
}

/// The same of an answer that comes with the deadline: it is one.
#[tokio::test(start_paused = true)]
async fn an_answer_that_comes_with_the_deadline_is_taken() {
    let peer = Scripted::new([Step::ok("done").after(seconds(1))]);
    let client = steady().client(reqwest::Client::builder()).with(peer.clone()).build().unwrap();
    let ended = end(client.post(URL).with_extension(Endpoint::unprotected_write()).with_extension(Deadline::after(seconds(1)))).await;
    assert_eq!(ended.status(), 200);
}

// ===== attempts =====

/// The limit is never given anew.
#[tokio::test(start_paused = true)]
async fn each_attempt_gets_the_shorter_of_its_limit_and_the_time_left() {
    let peer = Scripted::new([Step::hangs()]);
    let retry = hasty().with_policy(RetryPolicy::DEFAULT.with_attempts(5)).with_deadline(seconds(1)).with_attempt_limit(millis(400));
    let ended = end(client(retry, &peer).get(URL)).await;
    assert_eq!(ended.took, seconds(1));
    assert_eq!(lasted(&ended), [millis(400), millis(400), millis(200)]);
    assert_eq!(limits(&ended), [BY_ATTEMPT, BY_ATTEMPT, BY_DEADLINE]);
    peer.assert_sends(3);
}

/// The deadline does cut an attempt in flight, and the error names the limit.
#[tokio::test(start_paused = true)]
async fn the_last_attempt_is_cut_at_the_deadline() {
    for (step, attempts) in [(Step::hangs(), 1), (Step::ok("late").after(seconds(3)), 1), (Step::hangs_connecting(), 1)] {
        let peer = Scripted::new([step]);
        let ended = end(client(steady(), &peer).get(URL).with_extension(Deadline::after(seconds(2)))).await;
        assert_eq!(ended.took, seconds(2));
        assert!(matches!(ended.error().safe_retry(), Some(RetryError::DeadlineExceeded(_))));
        assert_eq!((ended.report.attempts().len(), ended.report.stop()), (attempts, StopReason::DeadlineTooNear));
        assert_eq!((ended.report.took(), ended.report.time_left()), (seconds(2), Duration::ZERO));
    }
}

#[tokio::test(start_paused = true)]
async fn an_attempt_limit_alone_ends_attempts_and_not_the_operation() {
    let peer = Scripted::new([Step::hangs(), Step::hangs(), Step::ok("done").after(millis(399))]);
    let ended = end(client(hasty().with_attempt_limit(millis(400)), &peer).get(URL)).await;
    assert_eq!(ended.status(), 200);
    assert_eq!(lasted(&ended), [millis(400), millis(400), millis(399)]);
    assert_eq!(ended.report.time_left(), Duration::MAX);
}

// ===== nothing left =====

#[tokio::test(start_paused = true)]
async fn with_no_time_left_nothing_is_sent() {
    for request in [
        client(steady(), &Scripted::new([])).get(URL).with_extension(Deadline::after(Duration::ZERO)),
        client(steady().with_deadline(Duration::ZERO), &Scripted::new([])).post(URL),
        client(steady(), &Scripted::new([])).post(URL).with_extension(Endpoint::unprotected_write().with_deadline(Duration::ZERO)),
    ] {
        let ended = end(request).await;
        assert!(matches!(ended.error().safe_retry(), Some(RetryError::DeadlineExceeded(_))));
        assert!(ended.error().timed_out());
        assert_eq!(ended.took, Duration::ZERO);
        assert_eq!((ended.report.outcome(), ended.report.stop()), (Outcome::Unprocessed, StopReason::DeadlineTooNear));
        assert!(ended.report.attempts().is_empty());
    }
    let peer = Scripted::answering(200);
    let client = client(steady(), &peer);
    sleep(seconds(1)).await;
    let past = Deadline::at(Instant::now() - millis(1));
    assert!(end(client.get(URL).with_extension(past)).await.result.is_err());
    peer.assert_sends(0);
}

#[tokio::test(start_paused = true)]
async fn the_first_attempt_goes_out_whenever_any_time_is_left() {
    let peer = Scripted::answering(200);
    let hopeless = RetryPolicy::DEFAULT.with_least_attempt(seconds(10));
    let ended = end(client(steady().with_policy(hopeless), &peer).get(URL).with_extension(Deadline::after(millis(1)))).await;
    assert_eq!(ended.status(), 200);
}

// ===== hints =====

/// Neither slept through nor shortened.
#[tokio::test(start_paused = true)]
async fn a_hint_longer_than_the_time_left_returns_at_once_with_the_answer_and_the_hint() {
    for (hint, wait) in
        [("60", seconds(60)), ("10", seconds(10)), ("1746136938", seconds(1_746_136_938)), ("99999999999999999999999", Duration::MAX)]
    {
        for spread in [HintSpread::Jittered, HintSpread::Exact] {
            let peer = Scripted::new([Step::status(429).with_header("retry-after", hint).with_body("slow down"), Step::ok("done")]);
            let retry = steady().with_policy(RetryPolicy::DEFAULT.with_hint_spread(spread));
            let ended = end(client(retry, &peer).get(URL).with_extension(Deadline::after(seconds(10)))).await;
            assert_eq!(ended.took, Duration::ZERO);
            assert_eq!((ended.report.stop(), ended.report.hint()), (StopReason::DeadlineTooNear, Some(wait)));
            assert_eq!(RetryReport::of(ended.response()).unwrap().hint(), Some(wait));
            assert_eq!(ended.status(), 429);
            assert_eq!(ended.result.unwrap().text().await.unwrap(), "slow down");
            sleep(LATER).await;
            peer.assert_sends(1);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn without_a_deadline_a_hint_longer_than_the_window_returns_at_once() {
    let peer = Scripted::new([Step::status(503).with_header("retry-after", "31"), Step::ok("done")]);
    let ended = end(client(steady(), &peer).get(URL)).await;
    assert_eq!((ended.status(), ended.took, ended.report.stop()), (503, Duration::ZERO, StopReason::WindowClosed));
}

/// The article's policy has no window, and a timer holds some thirty years.
#[tokio::test(start_paused = true)]
async fn a_hint_that_no_timer_can_hold_stops_instead_of_hurrying() {
    for hint in ["950000000", "10000000000", "9223372036", "9223372037", "18446744073709551615", "18446744073709551616"] {
        let peer = Scripted::new([Step::status(503).with_header("retry-after", hint).with_body("busy"), Step::ok("done")]);
        let ended = end(client(steady().with_policy(RetryPolicy::ARTICLE), &peer).get(URL)).await;
        assert_eq!((ended.status(), ended.took, ended.report.stop()), (503, Duration::ZERO, StopReason::WindowClosed), "{hint}");
        assert_eq!(ended.result.unwrap().text().await.unwrap(), "busy");
        peer.assert_sends(1);
    }
}

#[tokio::test(start_paused = true)]
async fn a_hint_that_fits_is_waited_for_in_full_and_spread_only_upwards() {
    for (draw, spread, wanted) in [
        (Draw::LEAST, HintSpread::Jittered, millis(4_000)),
        (Draw::HALF, HintSpread::Jittered, millis(4_500)),
        (Draw::HALF, HintSpread::Exact, millis(4_000)),
    ] {
        let peer = Scripted::new([Step::status(503).with_header("retry-after", "4"), Step::ok("done")]);
        let retry = steady().with_draws(Draws::constant(draw)).with_policy(RetryPolicy::DEFAULT.with_hint_spread(spread));
        assert_eq!(end(client(retry, &peer).get(URL)).await.status(), 200);
        peer.assert_pauses([wanted]);
    }
}

#[tokio::test(start_paused = true)]
async fn an_unreadable_hint_stops_or_falls_back_on_the_backoff_and_never_hurries() {
    for hint in ["soon", "1m0s", "", "-5", "+5", "0x10", "1e3", "NaN", "120junk"] {
        let busy = || Step::status(429).with_header("retry-after", hint).with_body("slow down");
        let peer = Scripted::new([busy(), Step::ok("done")]);
        let ended = end(client(steady(), &peer).get(URL)).await;
        assert_eq!((ended.status(), ended.report.stop(), peer.sends()), (429, StopReason::UnreadableHint, 1), "{hint:?}");
        assert_eq!(ended.result.unwrap().text().await.unwrap(), "slow down");

        let peer = Scripted::new([busy(), Step::ok("done")]);
        let lenient = RetryPolicy::DEFAULT.with_unreadable_hint(UnreadableHint::UseBackoff);
        assert_eq!(end(client(steady().with_policy(lenient), &peer).get(URL)).await.status(), 200);
        peer.assert_pauses([millis(500)]);
    }
}

/// The three date forms against the server's own clock.
#[tokio::test(start_paused = true)]
async fn a_date_is_a_wait_by_the_servers_own_clock() {
    for date in ["Sun, 06 Nov 1994 08:49:47 GMT", "Sunday, 06-Nov-94 08:49:47 GMT", "Sun Nov  6 08:49:47 1994"] {
        let busy = Step::status(503).with_header("date", "Sun, 06 Nov 1994 08:49:37 GMT").with_header("retry-after", date);
        let peer = Scripted::new([busy, Step::ok("done")]);
        let exact = RetryPolicy::DEFAULT.with_hint_spread(HintSpread::Exact);
        let ended = end(client(steady().with_policy(exact), &peer).get(URL)).await;
        // A clock more than a day off is not believed alone: the longer of both waits counts, and
        // 1994 is long past.
        assert_eq!(ended.status(), 200, "{date}");
        peer.assert_pauses([seconds(10)]);
    }
}

/// A date in the past asks for nothing; the backoff is kept.
#[tokio::test(start_paused = true)]
async fn a_hint_of_nothing_leaves_the_backoff() {
    for hint in ["0", "0.0", "Sun, 06 Nov 1994 08:49:37 GMT"] {
        let peer = Scripted::new([Step::status(503).with_header("retry-after", hint), Step::ok("done")]);
        assert_eq!(end(client(steady(), &peer).get(URL)).await.status(), 200);
        peer.assert_pauses([millis(500)]);
    }
}

// ===== pauses =====

#[tokio::test(start_paused = true)]
async fn backoff_doubles_up_to_its_cap() {
    let backoff = Backoff::doubling(millis(100), millis(800)).with_jitter(Jitter::None);
    for step in [Step::fails(), Step::status(500)] {
        let peer = Scripted::new([step]);
        let policy = RetryPolicy::DEFAULT.with_attempts(6).with_backoff(backoff);
        let _ = end(client(steady().with_policy(policy), &peer).get(URL)).await;
        peer.assert_pauses([100, 200, 400, 800, 800].map(millis));
    }
}

#[tokio::test(start_paused = true)]
async fn a_server_that_says_too_much_gets_longer_pauses() {
    for status in [429, 503] {
        let peer = Scripted::answering(status);
        let _ = end(client(steady(), &peer).get(URL)).await;
        peer.assert_pauses([millis(500), seconds(1)]);
    }
    for step in [Step::status(500), Step::status(502), Step::status(504), Step::status(408), Step::fails(), Step::refused()] {
        let peer = Scripted::new([step]);
        let _ = end(client(steady(), &peer).get(URL)).await;
        peer.assert_pauses([millis(50), millis(100)]);
    }
}

/// Draining a body that trickles, or reading it inside the attempt, happens inside the pause.
#[tokio::test(start_paused = true)]
async fn a_pause_counts_from_the_arrival_of_the_head() {
    let backoff = Backoff::doubling(seconds(1), seconds(1)).with_jitter(Jitter::None);
    let policy = RetryPolicy::DEFAULT.with_backoff(backoff).with_throttle_backoff(backoff);
    let peer = Scripted::new([Step::status(503).after(millis(300)).with_stalled_body("begin"), Step::ok("done")]);
    let ended = end(client(steady().with_policy(policy), &peer).get(URL)).await;
    peer.assert_pauses([seconds(1)]);
    assert_eq!((ended.status(), ended.took), (200, millis(1_300)));
}

/// However short the pause: the drain that happens inside it ends with it.
#[tokio::test(start_paused = true)]
async fn giving_a_connection_back_lengthens_no_pause() {
    let peer = Scripted::new([Step::status(503).with_stalled_body("begin"), Step::ok("done")]);
    assert_eq!(end(client(hasty(), &peer).get(URL)).await.status(), 200);
    peer.assert_pauses([Duration::ZERO]);
}

#[tokio::test(start_paused = true)]
async fn a_pause_that_leaves_no_time_for_a_useful_attempt_is_not_slept() {
    let backoff = Backoff::doubling(millis(500), millis(500)).with_jitter(Jitter::None);
    let policy = RetryPolicy::DEFAULT.with_backoff(backoff).with_least_attempt(millis(100));
    for (limit, sends) in [(millis(600), 1), (millis(601), 2)] {
        let peer = Scripted::new([Step::status(500), Step::ok("done")]);
        let ended = end(client(steady().with_policy(policy), &peer).get(URL).with_extension(Deadline::after(limit))).await;
        assert_eq!(peer.sends(), sends, "{limit:?}");
        if sends == 1 {
            assert_eq!((ended.took, ended.report.stop()), (Duration::ZERO, StopReason::DeadlineTooNear));
        }
    }
}

/// The machine slept through the pause, say: the answer is gone by then, its status is not, and the
/// token goes back.
#[tokio::test(start_paused = true)]
async fn time_is_read_again_after_the_pause() {
    let peer = Scripted::new([Step::status(503), Step::ok("done")]);
    let budget = RetryBudget::new(BudgetLimits::percent(0).with_reserve(5, 0));
    let client = client(steady().with_budget(budget.clone()), &peer);
    let request = end(client.get(URL).with_extension(Deadline::after(seconds(2))));
    let request = tokio::spawn(request);
    peer.until_sends(1).await;
    tokio::task::yield_now().await;
    tokio::time::advance(seconds(2)).await;
    let ended = request.await.unwrap();
    let error = ended.error().safe_retry().unwrap();
    assert!(matches!(error, RetryError::DeadlineExceeded(_)));
    assert_eq!(error.status().unwrap(), 503);
    assert_eq!(ended.report.attempts()[0].pause(), None, "nothing was sent after it");
    assert_eq!(ended.report.attempts()[0].resend(), None);
    assert_eq!(budget.balance(&URL.parse().unwrap()), 5);
    peer.assert_sends(1);
}

// ===== the window =====

#[tokio::test(start_paused = true)]
async fn without_a_deadline_a_slow_attempt_is_never_cut() {
    let peer = Scripted::new([Step::ok("patience").after(seconds(3_600))]);
    let ended = end(client(steady(), &peer).get(URL)).await;
    assert_eq!((ended.status(), ended.took), (200, seconds(3_600)));
}

#[tokio::test(start_paused = true)]
async fn without_a_deadline_no_attempt_starts_after_the_window() {
    for (slow, sends) in [(seconds(29), 2), (seconds(30), 1), (seconds(31), 1)] {
        let peer = Scripted::new([Step::fails().after(slow), Step::ok("done").after(seconds(90))]);
        let ended = end(client(steady(), &peer).get(URL)).await;
        assert_eq!(peer.sends(), sends, "{slow:?}");
        if sends == 1 {
            assert_eq!(ended.report.stop(), StopReason::WindowClosed);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn with_a_deadline_the_window_does_not_count() {
    let peer = Scripted::new([Step::fails().after(seconds(100)), Step::ok("done")]);
    let ended = end(client(steady().with_deadline(seconds(200)), &peer).get(URL)).await;
    assert_eq!(ended.status(), 200);
}

// ===== the body =====

#[tokio::test(start_paused = true)]
async fn the_body_of_the_final_answer_stands_under_the_deadline() {
    let peer = Scripted::new([Step::status(503), Step::status(200).with_stalled_body("begin")]);
    let began = Instant::now();
    let response = client(steady().with_deadline(seconds(2)), &peer).get(URL).send().await.unwrap();
    assert_eq!(response.url().as_str(), URL);
    let lost = timeout(LATER, response.bytes()).await.unwrap().unwrap_err();
    assert_eq!(began.elapsed(), seconds(2));
    let chain = std::iter::successors(Some(&lost as &dyn std::error::Error), |error| error.source());
    assert!(
        chain.filter_map(|error| error.downcast_ref::<std::io::Error>()).any(|error| error.get_ref().unwrap().is::<BodyDeadlineExceeded>())
    );
}

#[tokio::test(start_paused = true)]
async fn the_deadline_ends_at_the_head_where_the_endpoint_says_so() {
    let download = Endpoint::read().with_deadline(seconds(2)).deadline_to_head();
    let peer = Scripted::new([Step::status(200).with_stalled_body("begin")]);
    let response = client(steady(), &peer).get(URL).with_extension(download.clone()).send().await.unwrap();
    assert!(timeout(LATER, response.bytes()).await.is_err());

    let peer = Scripted::new([Step::hangs()]);
    let ended = end(client(steady(), &peer).get(URL).with_extension(download)).await;
    assert_eq!(ended.took, seconds(2), "the head itself has its deadline");
}

#[tokio::test(start_paused = true)]
async fn an_attempt_limit_ends_at_the_head() {
    let peer = Scripted::new([Step::status(200).with_stalled_body("begin")]);
    let response = client(steady().with_attempt_limit(seconds(1)), &peer).get(URL).send().await.unwrap();
    assert!(timeout(LATER, response.bytes()).await.is_err());
}

#[tokio::test(start_paused = true)]
async fn a_body_read_inside_the_attempt_stands_under_its_limit_and_is_asked_for_again() {
    let peer = Scripted::new([Step::status(200).with_stalled_body("begin"), Step::ok("whole")]);
    let page = Endpoint::read().with_attempt_limit(seconds(1)).reading_body(1024);
    let ended = end(client(steady(), &peer).get(URL).with_extension(page)).await;
    assert_eq!(limits(&ended), [BY_ATTEMPT, Cause::Status]);
    assert_eq!(ended.result.unwrap().text().await.unwrap(), "whole");
    peer.assert_sends(2);
}

// ===== the client's own clocks =====

/// A timeout of reqwest is a failed attempt like any other.
#[tokio::test(start_paused = true)]
async fn a_timeout_of_the_client_itself_is_resent_within_the_deadline() {
    let peer = Scripted::new([Step::times_out().after(seconds(1)), Step::ok("done")]);
    let ended = end(client(steady().with_deadline(seconds(5)), &peer).get(URL)).await;
    assert_eq!(ended.status(), 200);
    assert_eq!(limits(&ended), [Cause::TimedOut(TimeLimit::Client), Cause::Status]);
}

#[tokio::test(start_paused = true)]
async fn the_callers_own_timeout_of_a_request_stays_on_every_attempt() {
    let seen = Arc::new(std::sync::Mutex::new(Vec::new()));
    struct Timeouts(Arc<std::sync::Mutex<Vec<Option<Duration>>>>);
    #[async_trait::async_trait]
    impl Middleware for Timeouts {
        async fn handle(&self, request: Request, extensions: &mut Extensions, next: Next<'_>) -> Result<Response> {
            self.0.lock().unwrap().push(request.timeout().copied());
            next.run(request, extensions).await
        }
    }
    let peer = Scripted::answering(503);
    let client = builder().with(steady().with_deadline(seconds(60))).with(Timeouts(seen.clone())).with(peer).build();
    let _ = end(client.get(URL).timeout(seconds(7))).await;
    assert_eq!(*seen.lock().unwrap(), [Some(seconds(7)); 3]);
}

// ===== outside =====

/// On the monotonic clock; `tests/layering` names the only three places that read the other
/// one.
#[tokio::test(start_paused = true)]
async fn the_deadline_is_fixed_before_the_first_attempt_and_counts_what_was_waited_before() {
    let peer = Scripted::new([Step::hangs()]);
    let deadline = Deadline::after(seconds(5));
    sleep(seconds(3)).await;
    let ended = end(client(steady(), &peer).get(URL).with_extension(deadline)).await;
    assert_eq!(ended.took, seconds(2));
}

#[tokio::test(start_paused = true)]
async fn the_report_tells_when_each_attempt_began_and_what_was_left() {
    let peer = Scripted::new([Step::fails().after(millis(300)), Step::status(503).after(millis(100)), Step::ok("done")]);
    let ended = end(client(steady().with_deadline(seconds(10)), &peer).get(URL)).await;
    let told: Vec<_> = ended.report.attempts().iter().map(|one| (one.started(), one.took(), one.time_left(), one.pause())).collect();
    assert_eq!(
        told,
        [
            (millis(0), millis(300), millis(9_700), Some(millis(50))),
            (millis(350), millis(100), millis(9_550), Some(seconds(1))),
            (millis(1_450), millis(0), millis(8_550), None),
        ]
    );
    assert_eq!((ended.report.took(), ended.report.time_left()), (millis(1_450), millis(8_550)));
}

// ===== whatever happens =====

fn any_step() -> impl Strategy<Value = Step> {
    let end = prop_oneof![
        (prop_oneof![Just(200_u16), Just(429), Just(500), Just(503), Just(404)], prop::option::of(0..20_u32)).prop_map(|(status, hint)| {
            let step = Step::status(status);
            hint.map_or(step.clone(), |hint| step.with_header("retry-after", &hint.to_string()))
        }),
        Just(Step::hangs()),
        Just(Step::hangs_connecting()),
        Just(Step::status(503).with_stalled_body("begin")),
    ];
    (end, 0..4_000_u64).prop_map(|(step, delay)| step.after(millis(delay)))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn no_operation_outlives_its_deadline_and_no_resend_comes_before_its_hint(
        steps in prop::collection::vec(any_step(), 1..8),
        attempts in 1..12_u32,
        limit in 1..20_000_u64,
        attempt_limit in prop::option::of(1..5_000_u64),
        draw in any::<u64>(),
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build().unwrap();
        runtime.block_on(async move {
            let peer = Scripted::new(steps);
            let mut retry = steady().with_draws(Draws::seeded(draw)).with_policy(RetryPolicy::DEFAULT.with_attempts(attempts));
            if let Some(limit) = attempt_limit {
                retry = retry.with_attempt_limit(millis(limit));
            }
            let ended = end(client(retry, &peer).get(URL).with_extension(Deadline::after(millis(limit)))).await;
            assert!(ended.took <= millis(limit), "{:?}", ended.took);
            assert!(peer.sends() <= attempts as usize);
            let records = ended.report.attempts();
            assert_eq!(records.len(), peer.sends());
            for (record, pause) in records.iter().zip(peer.pauses()) {
                assert!(pause >= record.hint().unwrap_or_default());
                assert!(record.resend().is_some());
            }
        });
    }
}
