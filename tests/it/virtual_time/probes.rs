//! Asking instead of sending again.

use std::sync::{Arc, Mutex};

use futures_util::future::join;
use http::{Extensions, HeaderMap, StatusCode};
use reqwest::{Request, Response, Url};
use reqwest_middleware::{ClientWithMiddleware, Middleware, Next, RequestBuilder, Result};
use reqwest_safe_retry::{
    BudgetLimits, Endpoint, Evidence, IdempotencyKey, KeyContract, Operation, Outcome, ProbeVerdict, ReplayBody, RetryBudget, RetryError,
    RetryErrorExt as _, RetryPolicy, RetryReport, SendWitness, StatusProbe, StopReason, Verdict,
    policy::{KeyFormat, ResendReason},
    report::Found,
    testing::{Scripted, Step},
};
use tokio::time::{Duration, Instant, sleep, timeout};

use crate::support::scripted::{Ended, LATER, Says, ScriptedProbe, URL, builder, client, end, hasty, millis, seconds, steady};

fn post(client: &ClientWithMiddleware, endpoint: Endpoint) -> RequestBuilder {
    client.post(URL).body("one coffee").with_extension(endpoint)
}

/// A write whose status endpoint settles at once.
fn order(probe: &ScriptedProbe) -> Endpoint {
    Endpoint::probed_write(probe.clone()).settling(Duration::ZERO)
}

fn found(ended: &Ended) -> Vec<Found> {
    ended.report.probes().iter().map(|probe| probe.found()).collect()
}

fn assert_unknown(ended: &Ended) {
    assert_eq!(ended.report.outcome(), Outcome::Unknown);
    if let Err(error) = &ended.result {
        assert!(matches!(error.safe_retry(), Some(RetryError::OutcomeUnknown(_))), "{error:?}");
    }
}

// ===== what the verdicts lead to =====

/// 500, "operation timed out": it may have been applied.
#[tokio::test(start_paused = true)]
async fn an_operation_that_was_applied_is_answered_by_its_probe_and_not_sent_again() {
    for step in [Step::fails(), Step::status(500).with_body("OperationTimedOut"), Step::status(503), Step::times_out()] {
        let (peer, probe) = (Scripted::new([step]), ScriptedProbe::new([Says::Applied]));
        let ended = end(post(&client(steady(), &peer), order(&probe))).await;
        assert_eq!(ended.status(), 201);
        let report = RetryReport::of(ended.response()).unwrap();
        assert_eq!((report.outcome(), report.stop()), (Outcome::Reconciled, StopReason::AnswerIsFinal));
        assert_eq!(found(&ended), [Found::Applied]);
        assert_eq!(ended.result.unwrap().text().await.unwrap(), "found");
        peer.assert_writes(1);
    }
}

#[tokio::test(start_paused = true)]
async fn an_operation_that_left_no_trace_is_sent_again_without_a_further_pause() {
    let (peer, probe) = (Scripted::new([Step::fails(), Step::status(201)]), ScriptedProbe::new([Says::Absent]));
    let ended = end(post(&client(steady(), &peer), order(&probe))).await;
    assert_eq!((ended.status(), ended.report.outcome()), (201, Outcome::Answered));
    assert_eq!(ended.report.attempts()[0].resend(), Some(ResendReason::ProbeFoundNothing));
    peer.assert_pauses([millis(50)]); // the probe's
}

/// What the attempts before it left open is settled: a final failure after it is proven, too.
#[tokio::test(start_paused = true)]
async fn no_trace_clears_the_evidence_of_the_attempts_before_it() {
    let (peer, probe) = (Scripted::new([Step::fails(), Step::refused()]), ScriptedProbe::new([Says::Absent]));
    let ended = end(post(&client(steady(), &peer), order(&probe))).await;
    assert!(matches!(ended.error().safe_retry(), Some(RetryError::Unprocessed(_))));
    assert_eq!((ended.report.outcome(), ended.report.evidence()), (Outcome::Unprocessed, Evidence::Unprocessed));
    assert_eq!(ended.report.attempts().last().unwrap().number(), 3);

    let (peer, probe) = (Scripted::new([Step::fails(), Step::status(409)]), ScriptedProbe::new([Says::Absent]));
    let ended = end(post(&client(steady(), &peer), order(&probe))).await;
    assert_eq!(ended.report.outcome(), Outcome::Answered, "no success of ours that a 409 could echo");
}

#[tokio::test(start_paused = true)]
async fn an_operation_in_progress_is_asked_about_again_after_a_longer_pause() {
    let peer = Scripted::new([Step::fails()]);
    let probe = ScriptedProbe::new([Says::InProgress, Says::InProgress, Says::Applied]);
    let began = Instant::now();
    let ended = end(post(&client(steady(), &peer), order(&probe))).await;
    assert_eq!(ended.report.outcome(), Outcome::Reconciled);
    let asked: Vec<_> = probe.asked().iter().map(|asked| *asked - began).collect();
    assert_eq!(asked, [50, 150, 350].map(millis));
    let told: Vec<_> = ended.report.probes().iter().map(|probe| (probe.after_attempt(), probe.started())).collect();
    assert_eq!(told, [(1, millis(50)), (1, millis(150)), (1, millis(350))]);
    peer.assert_sends(1);
}

#[tokio::test(start_paused = true)]
async fn a_probe_that_cannot_tell_ends_the_operation_as_unknown_and_is_not_asked_again() {
    for words in [vec![Says::Undecided], vec![Says::InProgress, Says::Undecided]] {
        for step in [Step::fails(), Step::status(503), Step::hangs()] {
            let (peer, probe) = (Scripted::new([step]), ScriptedProbe::new(words.clone()));
            let endpoint = order(&probe).with_deadline(seconds(20)).with_attempt_limit(seconds(1));
            let ended = end(post(&client(steady(), &peer), endpoint)).await;
            assert_unknown(&ended);
            assert_eq!(ended.report.stop(), StopReason::ProbeUndecided);
            assert!(
                ended.error().transport_error().is_some()
                    || ended.error().safe_retry().unwrap().status().is_some()
                    || ended.error().timed_out()
            );
            assert!(ended.took <= seconds(20));
            sleep(LATER).await;
            assert_eq!(probe.times(), words.len());
            peer.assert_writes(1);
        }
    }
}

// ===== when it is asked =====

#[tokio::test(start_paused = true)]
async fn the_first_question_comes_after_the_pause_and_never_before_the_hint() {
    let (peer, probe) = (Scripted::new([Step::status(503).with_header("retry-after", "4")]), ScriptedProbe::new([Says::Applied]));
    let began = Instant::now();
    let ended = end(post(&client(hasty(), &peer), order(&probe))).await;
    assert_eq!(ended.report.outcome(), Outcome::Reconciled);
    assert_eq!(probe.asked()[0] - began, seconds(4));
    assert_eq!(ended.report.attempts()[0].pause(), Some(seconds(4)));
}

#[tokio::test(start_paused = true)]
async fn no_trace_before_the_endpoint_has_settled_means_in_progress() {
    let (peer, probe) = (Scripted::new([Step::fails(), Step::status(201)]), ScriptedProbe::new([Says::Absent]));
    let began = Instant::now();
    let endpoint = Endpoint::probed_write(probe.clone());
    let ended = end(post(&client(hasty(), &peer), endpoint)).await;
    assert_eq!(ended.status(), 201);
    assert_eq!(found(&ended), [Found::InProgress, Found::Absent]);
    let asked: Vec<_> = probe.asked().iter().map(|asked| *asked - began).collect();
    assert_eq!(asked, [seconds(0), seconds(5)], "then not before it has settled");
    peer.assert_pauses([seconds(5)]);
}

/// Settling counts from the end of the attempt, not from its start.
#[tokio::test(start_paused = true)]
async fn settling_counts_from_the_end_of_the_last_attempt() {
    let (peer, probe) = (Scripted::new([Step::fails().after(seconds(9)), Step::status(201)]), ScriptedProbe::new([Says::Absent]));
    let endpoint = Endpoint::probed_write(probe.clone()).settling(seconds(2));
    let ended = end(post(&client(hasty(), &peer), endpoint)).await;
    assert_eq!(found(&ended), [Found::InProgress, Found::Absent]);
    peer.assert_pauses([seconds(2)]);
}

#[tokio::test(start_paused = true)]
async fn what_is_proven_or_final_is_not_asked_about() {
    for (first, sends) in
        [(Step::refused(), 2), (Step::status(425), 2), (Step::status(400), 1), (Step::status(201), 1), (Step::status(409), 1)]
    {
        let (peer, probe) = (Scripted::new([first.clone(), Step::status(201)]), ScriptedProbe::new([Says::Applied]));
        let ended = end(post(&client(steady(), &peer), order(&probe))).await;
        assert!(ended.result.is_ok());
        assert_eq!((peer.sends(), probe.times()), (sends, 0), "{first:?}");
    }
    let (peer, probe) = (Scripted::new([Step::refused()]), ScriptedProbe::new([Says::Applied]));
    let ended = end(post(&client(steady(), &peer), order(&probe))).await;
    assert!(matches!(ended.error().safe_retry(), Some(RetryError::Unprocessed(_))));
    assert_eq!(probe.times(), 0);
}

// ===== how often, and who pays =====

/// Between attempts; the last look is on top of them.
#[tokio::test(start_paused = true)]
async fn there_are_at_most_as_many_probes_as_attempts_and_one_last_look() {
    for attempts in 1..5 {
        let (peer, probe) = (Scripted::new([Step::fails()]), ScriptedProbe::new([Says::InProgress]));
        let endpoint = order(&probe).with_policy(RetryPolicy::DEFAULT.with_attempts(attempts).with_window(LATER));
        let ended = end(post(&client(steady(), &peer), endpoint)).await;
        assert_unknown(&ended);
        assert_eq!(ended.report.stop(), StopReason::AttemptsSpent);
        let between = if attempts == 1 { 0 } else { attempts as usize };
        assert_eq!(probe.times(), between + 1, "{attempts}");
        peer.assert_sends(1);
    }
}

#[tokio::test(start_paused = true)]
async fn a_probe_is_no_send() {
    let peer = Scripted::new([Step::fails(), Step::fails(), Step::status(201)]);
    let probe = ScriptedProbe::new([Says::InProgress, Says::Absent, Says::Absent]);
    let ended = end(post(&client(steady(), &peer), order(&probe))).await;
    assert_eq!((ended.status(), ended.report.attempts().len(), ended.report.probes().len()), (201, 3, 3));
}

#[tokio::test(start_paused = true)]
async fn every_probe_between_attempts_pays_a_token_and_the_last_look_is_free() {
    let budget = RetryBudget::new(BudgetLimits::percent(0).with_reserve(2, 0));
    let (peer, probe) = (Scripted::new([Step::fails()]), ScriptedProbe::new([Says::InProgress, Says::InProgress, Says::Applied]));
    let client = client(steady().with_budget(budget.clone()), &peer);
    let ended = end(post(&client, order(&probe))).await;
    assert_eq!(ended.report.outcome(), Outcome::Reconciled);
    assert_eq!((probe.times(), budget.balance(&URL.parse().unwrap())), (3, 0));
    peer.assert_sends(1);
}

/// A probe and the resend that follows it are two tokens.
#[tokio::test(start_paused = true)]
async fn a_resend_after_a_probe_pays_as_well() {
    let budget = RetryBudget::new(BudgetLimits::percent(0).with_reserve(5, 0));
    let (peer, probe) = (Scripted::new([Step::fails(), Step::status(201)]), ScriptedProbe::new([Says::Absent]));
    let _ = end(post(&client(steady().with_budget(budget.clone()), &peer), order(&probe))).await;
    assert_eq!(budget.balance(&URL.parse().unwrap()), 3);
}

// ===== the last look =====

#[tokio::test(start_paused = true)]
async fn one_attempt_and_then_a_look_works() {
    let once = |says, settling| {
        let probe = ScriptedProbe::new([says]);
        let endpoint = Endpoint::probed_write(probe.clone()).settling(settling).with_policy(RetryPolicy::DEFAULT.with_attempts(1));
        (probe, endpoint)
    };
    for (step, answered) in [(Step::fails(), false), (Step::status(503), true), (Step::status(500), true)] {
        for (says, settling, outcome) in [
            (Says::Applied, seconds(5), Outcome::Reconciled),
            (Says::Absent, Duration::ZERO, Outcome::Unprocessed),
            (Says::Absent, seconds(5), Outcome::Unknown),
            (Says::InProgress, Duration::ZERO, Outcome::Unknown),
            (Says::Undecided, Duration::ZERO, Outcome::Unknown),
            (Says::Hangs, Duration::ZERO, Outcome::Unknown),
        ] {
            let (peer, (probe, endpoint)) = (Scripted::new([step.clone()]), once(says, settling));
            let ended = end(post(&client(steady(), &peer), endpoint)).await;
            assert_eq!(ended.report.outcome(), outcome, "{step:?} {says:?}");
            assert_eq!((probe.times(), peer.sends()), (1, 1));
            match (&ended.result, outcome) {
                (Ok(response), Outcome::Reconciled) => assert_eq!(response.status(), 201),
                (Ok(_), _) => assert!(answered, "the answer is handed back with what is known"),
                (Err(error), Outcome::Unprocessed) => assert!(matches!(error.safe_retry(), Some(RetryError::Unprocessed(_)))),
                (Err(error), _) => assert!(matches!(error.safe_retry(), Some(RetryError::OutcomeUnknown(_)))),
            }
        }
    }
}

/// Nobody is asked before a wait is over that somebody asked for, and a wait that cannot be read
/// may be a long one.
#[tokio::test(start_paused = true)]
async fn a_last_look_that_would_come_earlier_than_asked_is_not_taken() {
    for (reason, wait, limit) in [
        (StopReason::DeadlineTooNear, "60", seconds(10)),
        (StopReason::WindowClosed, "60", Duration::MAX),
        (StopReason::UnreadableHint, "soon", seconds(10)),
    ] {
        let (peer, probe) = (Scripted::new([Step::status(503).with_header("retry-after", wait)]), ScriptedProbe::new([Says::Absent]));
        let ended = end(post(&client(steady(), &peer), order(&probe).with_deadline(limit))).await;
        assert_eq!((ended.report.stop(), ended.report.outcome()), (reason, Outcome::Unknown));
        assert_eq!((probe.times(), peer.sends()), (0, 1), "{reason:?}");
    }
}

/// A status page that is silent takes no more than the limit of an attempt, and may be asked again.
#[tokio::test(start_paused = true)]
async fn a_question_that_runs_into_the_attempt_limit_is_asked_again() {
    let (peer, probe) = (Scripted::new([Step::fails()]), ScriptedProbe::new([Says::Hangs, Says::Applied]));
    let endpoint = order(&probe).with_deadline(seconds(20)).with_attempt_limit(seconds(1));
    let ended = end(post(&client(steady(), &peer), endpoint)).await;
    assert_eq!(ended.report.outcome(), Outcome::Reconciled);
    assert!(ended.report.took() < seconds(3));
    assert_eq!((probe.times(), peer.sends()), (2, 1));
}

/// Attempts, deadline, budget, key, body, a server that forbids.
#[tokio::test(start_paused = true)]
async fn whatever_stops_an_unknown_write_the_probe_is_asked_once_more() {
    let policy = RetryPolicy::DEFAULT;
    let stream = || reqwest::Body::wrap_stream(futures_util::stream::iter([Ok::<_, std::io::Error>("one coffee")]));
    let lapsed = KeyContract::new(KeyContract::STRIPE.header().clone(), KeyFormat::Bare, seconds(5));
    let write = || Endpoint::probed_write(ScriptedProbe::new([Says::Applied]));
    type Change = Box<dyn Fn(Endpoint) -> Endpoint>;
    let cases: Vec<(StopReason, Step, Change)> = vec![
        (StopReason::AttemptsSpent, Step::fails(), Box::new(move |order| order.with_policy(policy.with_attempts(1)))),
        (StopReason::DeadlineTooNear, Step::hangs(), Box::new(|order| order.with_deadline(seconds(10)))),
        (StopReason::ServerForbade, Step::status(500), Box::new(|order| order.classified_by(|_| Some(Verdict::Forbidden)))),
    ];
    for (reason, step, change) in cases {
        for (says, stop, outcome) in [
            (Says::Applied, StopReason::AnswerIsFinal, Outcome::Reconciled),
            (Says::Absent, reason, Outcome::Unprocessed),
            (Says::InProgress, reason, Outcome::Unknown),
        ] {
            let (peer, probe) = (Scripted::new([step.clone()]), ScriptedProbe::new([says]));
            let ended = end(post(&client(steady(), &peer), change(order(&probe)))).await;
            assert_eq!((ended.report.stop(), ended.report.outcome()), (stop, outcome), "{reason:?} {says:?}");
            assert_eq!((probe.times(), peer.sends()), (1, 1), "{reason:?} {says:?}");
        }
    }
    // The budget.
    let none = RetryBudget::new(BudgetLimits::percent(0).with_reserve(0, 0));
    let ended = end(post(&client(steady().with_budget(none), &Scripted::new([Step::fails()])), write())).await;
    assert_eq!(ended.report.outcome(), Outcome::Reconciled);
    // The body of an idempotent write, which would otherwise be sent again.
    let endpoint = Endpoint::idempotent_write().probed_by(ScriptedProbe::new([Says::Applied]));
    let request = client(steady(), &Scripted::new([Step::fails()])).put(URL).body(stream()).with_extension(endpoint);
    assert_eq!(end(request).await.report.outcome(), Outcome::Reconciled);
    // A factory that fails for the second attempt.
    let left = std::sync::atomic::AtomicBool::new(true);
    let once = ReplayBody::from_fn(move || {
        if left.swap(false, std::sync::atomic::Ordering::SeqCst) { Ok("one coffee".into()) } else { Err(std::io::Error::other("gone")) }
    });
    let endpoint = Endpoint::idempotent_write().probed_by(ScriptedProbe::new([Says::Applied]));
    let request = client(steady(), &Scripted::new([Step::fails()])).put(URL).with_extension(once).with_extension(endpoint);
    assert_eq!(end(request).await.report.outcome(), Outcome::Reconciled);
    // The key: asked between attempts.
    let endpoint = Endpoint::keyed_write(lapsed).probed_by(ScriptedProbe::new([Says::Applied]));
    let peer = Scripted::new([Step::fails().after(seconds(6))]);
    let ended = end(post(&client(steady(), &peer), endpoint)).await;
    assert_eq!((ended.report.outcome(), peer.sends()), (Outcome::Reconciled, 1));
}

#[tokio::test(start_paused = true)]
async fn a_tenth_of_the_deadline_is_kept_for_the_last_look() {
    let (peer, probe) = (Scripted::new([Step::hangs()]), ScriptedProbe::new([Says::Hangs]));
    let began = Instant::now();
    let ended = end(post(&client(steady(), &peer), order(&probe).with_deadline(seconds(10)))).await;
    assert_unknown(&ended);
    assert_eq!(ended.report.attempts()[0].took(), seconds(9));
    assert_eq!((probe.asked()[0] - began, ended.took), (seconds(9), seconds(10)));
    assert_eq!(found(&ended), [Found::Undecided]);
    assert!(ended.error().timed_out());

    // Nobody else gives a tenth away.
    for endpoint in [Endpoint::unprotected_write(), Endpoint::read().probed_by(ScriptedProbe::new([Says::Absent]))] {
        let ended = end(post(&client(steady(), &Scripted::new([Step::hangs()])), endpoint.with_deadline(seconds(10)))).await;
        assert_eq!(ended.report.attempts()[0].took(), seconds(10));
        assert!(ended.report.probes().is_empty());
    }
}

#[tokio::test(start_paused = true)]
async fn without_a_deadline_the_last_look_has_a_tenth_of_the_window() {
    let (peer, probe) = (Scripted::new([Step::fails()]), ScriptedProbe::new([Says::Hangs]));
    let endpoint = order(&probe).with_policy(RetryPolicy::DEFAULT.with_attempts(1).with_window(seconds(50)));
    let ended = end(post(&client(steady(), &peer), endpoint)).await;
    assert_eq!(ended.took, seconds(5));
    assert_unknown(&ended);
}

/// The machine slept through the attempt, say, and the tenth with it.
#[tokio::test(start_paused = true)]
async fn after_the_deadline_nobody_is_asked_any_more() {
    struct Sleeps;
    #[async_trait::async_trait]
    impl Middleware for Sleeps {
        async fn handle(&self, request: Request, extensions: &mut Extensions, next: Next<'_>) -> Result<Response> {
            join(next.run(request, extensions), tokio::time::advance(seconds(11))).await.0
        }
    }
    for step in [Step::fails(), Step::hangs(), Step::status(503)] {
        let (peer, probe) = (Scripted::new([step]), ScriptedProbe::new([Says::Applied]));
        let client = builder().with(steady()).with(SendWitness::redirects_off()).with(Sleeps).with(peer.clone()).build();
        let ended = end(post(&client, order(&probe).with_deadline(seconds(10)))).await;
        assert_unknown(&ended);
        assert!(ended.report.probes().is_empty());
        assert_eq!(probe.times(), 0);
    }
}

// ===== any write may have one =====

#[tokio::test(start_paused = true)]
async fn a_keyed_write_is_sent_again_while_its_key_is_remembered_and_asked_about_afterwards() {
    let contract = KeyContract::new(KeyContract::STRIPE.header().clone(), KeyFormat::Bare, seconds(5));
    let probe = ScriptedProbe::new([Says::Absent]);
    let endpoint = Endpoint::keyed_write(contract).probed_by(probe.clone()).settling(Duration::ZERO);
    let peer = Scripted::new([Step::fails(), Step::fails().after(seconds(6)), Step::status(201)]);
    let ended = end(post(&client(steady(), &peer), endpoint)).await;
    assert_eq!(ended.status(), 201);
    let reasons: Vec<_> = ended.report.attempts().iter().map(|attempt| attempt.resend()).collect();
    assert_eq!(reasons, [Some(ResendReason::KeyDeduplicates), Some(ResendReason::ProbeFoundNothing), None]);
    assert_eq!(probe.times(), 1);
}

/// Nothing of ours is there that a 409 could echo, however many unknown attempts came before.
#[tokio::test(start_paused = true)]
async fn no_trace_settles_the_resends_of_a_keyed_write_as_well() {
    let contract = KeyContract::new(KeyContract::STRIPE.header().clone(), KeyFormat::Bare, seconds(5));
    let endpoint = Endpoint::keyed_write(contract).probed_by(ScriptedProbe::new([Says::Absent])).settling(Duration::ZERO);
    let peer = Scripted::new([Step::fails(), Step::fails().after(seconds(6)), Step::status(409)]);
    let ended = end(post(&client(steady(), &peer), endpoint)).await;
    assert_eq!((ended.status(), ended.report.attempts().len(), ended.report.outcome()), (409, 3, Outcome::Answered));
}

#[tokio::test(start_paused = true)]
async fn a_write_that_must_never_be_resent_can_still_be_asked_about() {
    for (says, outcome) in [(Says::Applied, Outcome::Reconciled), (Says::Absent, Outcome::Unprocessed)] {
        let (peer, probe) = (Scripted::new([Step::fails()]), ScriptedProbe::new([says]));
        let endpoint = Endpoint::never_resend().probed_by(probe.clone()).settling(Duration::ZERO);
        let ended = end(post(&client(steady(), &peer), endpoint)).await;
        assert_eq!((ended.report.outcome(), probe.times(), peer.sends()), (outcome, 1, 1));
    }
}

// ===== what a probe sees and sends =====

type Check = Arc<dyn Fn(&Operation<'_>) + Send + Sync>;

/// Looks at the operation, then asks a URL: 200 means applied, 404 absent.
struct Asks {
    url: &'static str,
    check: Check,
}

impl Asks {
    fn at(url: &'static str) -> Self {
        Self { url, check: Arc::new(|_| {}) }
    }
}

#[async_trait::async_trait]
impl StatusProbe for Asks {
    async fn look_up(&self, operation: &Operation<'_>) -> ProbeVerdict {
        (self.check)(operation);
        let request = operation.get(Url::parse(self.url).unwrap());
        match operation.send(request).await {
            Ok(response) if response.status() == StatusCode::OK => ProbeVerdict::Applied(response),
            Ok(response) if response.status() == StatusCode::NOT_FOUND => ProbeVerdict::Absent,
            Ok(_) | Err(_) => ProbeVerdict::Undecided,
        }
    }
}

fn with_credentials(client: &ClientWithMiddleware, endpoint: Endpoint) -> RequestBuilder {
    let request = post(client, endpoint).header("authorization", "Bearer token").header("cookie", "session=1").header("x-tenant", "7");
    request.header("content-type", "text/plain").header("if-none-match", "*").header("expect", "100-continue")
}

#[tokio::test(start_paused = true)]
async fn a_question_carries_the_operations_credentials_to_its_own_origin_and_nowhere_else() {
    let same = ["http://peer.test/status/1", "http://peer.test:80/orders?id=1", "http://PEER.test/"];
    let other =
        ["http://other.test/status/1", "https://peer.test/status/1", "http://peer.test:8080/status/1", "http://peer.test.evil.test/"];
    for (urls, credentials) in [(&same[..], true), (&other[..], false)] {
        for &url in urls {
            let peer = Scripted::new([Step::fails(), Step::ok("done")]);
            let endpoint = Endpoint::keyed_write(KeyContract::new(KeyContract::STRIPE.header().clone(), KeyFormat::Bare, millis(1)));
            let key = IdempotencyKey::parse("order-2041").unwrap();
            let request = with_credentials(&client(steady(), &peer), endpoint.probed_by(Asks::at(url))).with_extension(key);
            assert_eq!(end(request).await.report.outcome(), Outcome::Reconciled);
            let question = &peer.requests()[1];
            assert_eq!(question.method(), http::Method::GET);
            for name in ["authorization", "cookie", "x-tenant"] {
                assert_eq!(question.header(name).is_some(), credentials, "{name} to {url}");
            }
            for name in ["idempotency-key", "content-type", "content-length", "if-none-match", "expect"] {
                assert_eq!(question.header(name), None, "{name} to {url}");
            }
            assert!(question.body().is_empty());
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_question_goes_through_the_inner_middlewares_and_is_sent_once() {
    #[derive(Clone, Default)]
    struct Signer(Arc<Mutex<Vec<http::Method>>>);
    #[async_trait::async_trait]
    impl Middleware for Signer {
        async fn handle(&self, request: Request, extensions: &mut Extensions, next: Next<'_>) -> Result<Response> {
            self.0.lock().unwrap().push(request.method().clone());
            next.run(request, extensions).await
        }
    }
    let signer = Signer::default();
    let peer = Scripted::new([Step::fails(), Step::status(503)]);
    // A second plugin inside would send the question again.
    let client = builder().with(steady()).with(signer.clone()).with(steady()).with(SendWitness::redirects_off()).with(peer.clone()).build();
    let ended = end(post(&client, Endpoint::probed_write(Asks::at("http://peer.test/status/1")))).await;
    assert_eq!(ended.report.stop(), StopReason::ProbeUndecided);
    assert_eq!(*signer.0.lock().unwrap(), [http::Method::POST, http::Method::GET]);
    peer.assert_sends(2);
}

/// Transport failures, statuses that say nothing, an answer that does not come.
#[tokio::test(start_paused = true)]
async fn a_question_that_fails_never_leads_to_a_second_write() {
    for answer in [Step::fails(), Step::refused(), Step::status(500), Step::hangs(), Step::broken()] {
        let peer = Scripted::new([Step::fails(), answer.clone()]);
        let endpoint = Endpoint::probed_write(Asks::at("http://peer.test/status/1")).with_deadline(seconds(10));
        let ended = end(post(&client(steady(), &peer), endpoint)).await;
        assert_unknown(&ended);
        assert!(ended.took <= seconds(10));
        sleep(LATER).await;
        peer.assert_writes(1);
        peer.assert_sends(2);
    }
}

#[tokio::test(start_paused = true)]
async fn a_probe_knows_the_operation_it_is_asked_about() {
    #[derive(Clone)]
    struct Order(u32);
    let checked = Arc::new(Mutex::new(0));
    let counter = Arc::clone(&checked);
    let check: Check = Arc::new(move |operation: &Operation<'_>| {
        assert_eq!((operation.method(), operation.url().as_str()), (&http::Method::POST, URL));
        assert_eq!(operation.body(), Some(&b"one coffee"[..]));
        assert_eq!(operation.key().unwrap().as_str(), "order-2041");
        assert_eq!(operation.headers()["idempotency-key"], "order-2041");
        assert_eq!(operation.extensions().get::<Order>().unwrap().0, 2041);
        let attempts = operation.attempts();
        assert_eq!((attempts.len(), attempts[0].number(), attempts[0].evidence()), (1, 1, Evidence::Unknown));
        assert_eq!(operation.time_left(), seconds(20) - millis(2_050));
        let printed = format!("{operation:?}");
        assert!(!printed.contains("2041") && !printed.contains("orders") && !printed.contains("coffee"), "{printed}");
        *counter.lock().unwrap() += 1;
    });
    let probe = Asks { url: "http://peer.test/status/1", check };
    let contract = KeyContract::new(KeyContract::STRIPE.header().clone(), KeyFormat::Bare, seconds(2));
    let endpoint = Endpoint::keyed_write(contract).probed_by(probe).with_deadline(seconds(20));
    let peer = Scripted::new([Step::fails().after(seconds(2)), Step::ok("done")]);
    let request = post(&client(steady(), &peer), endpoint).with_extension(Order(2041));
    let ended = end(request.with_extension(IdempotencyKey::parse("order-2041").unwrap())).await;
    assert_eq!(ended.report.outcome(), Outcome::Reconciled);
    assert_eq!(*checked.lock().unwrap(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_probe_of_an_operation_without_deadline_has_what_is_left_of_the_window() {
    let check: Check = Arc::new(|operation: &Operation<'_>| {
        assert_eq!((operation.time_left(), operation.key(), operation.body()), (seconds(30) - millis(50), None, Some(&b"one coffee"[..])));
    });
    let endpoint = Endpoint::probed_write(Asks { url: "http://peer.test/status/1", check });
    let peer = Scripted::new([Step::fails(), Step::ok("done")]);
    assert_eq!(end(post(&client(steady(), &peer), endpoint)).await.report.outcome(), Outcome::Reconciled);
}

#[tokio::test(start_paused = true)]
async fn the_probes_answer_stands_under_the_deadline_like_any_other() {
    let endpoint = Endpoint::probed_write(Asks::at("http://peer.test/status/1")).with_deadline(seconds(4));
    let peer = Scripted::new([Step::fails(), Step::status(200).with_stalled_body("begin")]);
    let began = Instant::now();
    let response = post(&client(steady(), &peer), endpoint).send().await.unwrap();
    assert!(timeout(LATER, response.bytes()).await.unwrap().is_err());
    assert_eq!(began.elapsed(), seconds(4));
}

/// A probe may answer with a response of its own making.
#[tokio::test(start_paused = true)]
async fn an_answer_of_the_probes_own_keeps_its_headers() {
    struct Made;
    #[async_trait::async_trait]
    impl StatusProbe for Made {
        async fn look_up(&self, _: &Operation<'_>) -> ProbeVerdict {
            ProbeVerdict::Applied(http::Response::builder().status(402).header("x-declined", "1").body("declined").unwrap().into())
        }
    }
    let ended = end(post(&client(steady(), &Scripted::new([Step::fails()])), Endpoint::probed_write(Made))).await;
    let headers: &HeaderMap = ended.response().headers();
    assert_eq!((ended.status(), &headers["x-declined"]), (402, &"1".parse().unwrap()));
    assert_eq!(ended.report.outcome(), Outcome::Reconciled);
}
