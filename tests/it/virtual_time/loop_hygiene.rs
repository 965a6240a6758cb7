//! What the loop leaves behind, what it hands on, and what it never does.

use std::{
    future::poll_fn,
    io,
    pin::pin,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    task::Poll,
};

use bytes::Bytes;
use futures_util::{FutureExt as _, stream};
use http::{Extensions, Method, StatusCode};
use reqwest::{Body, Request, Response};
use reqwest_middleware::{ClientWithMiddleware, Middleware, Next, Result};
use reqwest_safe_retry::{
    BudgetLimits, Cause, Endpoint, KeyContract, Outcome, ReplayBody, ReplayRequest, ReportSlot, RetryBudget, RetryError,
    RetryErrorExt as _, RetryPolicy, RetryReport, SafeRetry, SendWitness, StopReason, Verdict,
    policy::{AdaptiveLimits, ResendReason, RetryStatuses, Signal},
    testing::{Scripted, Step},
};
use tokio::time::{Duration, Instant, sleep};

use crate::support::scripted::{Ended, LATER, Says, ScriptedProbe, URL, builder, client, end, hasty, millis, seconds, steady};

// ===== cancellation =====

fn small_budget() -> RetryBudget {
    RetryBudget::new(BudgetLimits::percent(0).with_reserve(5, 0))
}

fn balance(budget: &RetryBudget) -> u64 {
    budget.balance(&URL.parse().unwrap())
}

/// Drops a request so long after it was first polled; then nothing may happen for a day. How often
/// had it been sent?
async fn sends_when_dropped_after(
    life: Duration,
    steps: impl IntoIterator<Item = Step>,
    endpoint: Endpoint,
    budget: &RetryBudget,
) -> usize {
    let (peer, slot) = (Scripted::new(steps), ReportSlot::new());
    let client = client(steady().with_budget(budget.clone()), &peer);
    let request = client.post(URL).body("one coffee").with_extension(endpoint).with_extension(slot.clone());
    assert!(tokio::time::timeout(life, request.send()).await.is_err(), "it was still on its way");
    let sends = peer.sends();
    sleep(LATER).await;
    peer.assert_sends(sends);
    assert_eq!(slot.take().unwrap().stop(), StopReason::Cancelled);
    sends
}

#[tokio::test(start_paused = true)]
async fn a_request_that_is_never_polled_is_never_sent() {
    let (peer, budget) = (Scripted::answering(503), RetryBudget::new(BudgetLimits::percent(100).with_reserve(0, 0)));
    drop(client(steady().with_budget(budget.clone()), &peer).get(URL).send());
    sleep(LATER).await;
    peer.assert_sends(0);
    assert_eq!(balance(&budget), 0, "nothing was deposited for it");
}

#[tokio::test(start_paused = true)]
async fn a_request_that_is_dropped_in_an_attempt_is_not_sent_again() {
    let budget = small_budget();
    for steps in [vec![Step::hangs()], vec![Step::status(503).after(seconds(9))], vec![Step::hangs_connecting()]] {
        assert_eq!(sends_when_dropped_after(seconds(1), steps, Endpoint::idempotent_write(), &budget).await, 1);
    }
    assert_eq!(balance(&budget), 5);
    let second = [Step::fails(), Step::hangs()];
    assert_eq!(sends_when_dropped_after(seconds(1), second, Endpoint::idempotent_write(), &budget).await, 2);
    assert_eq!(balance(&budget), 4, "the second attempt had been sent");
}

#[tokio::test(start_paused = true)]
async fn a_request_that_is_dropped_in_a_pause_is_not_sent_again_and_its_token_goes_back() {
    let budget = small_budget();
    for step in [Step::status(503), Step::status(503).with_stalled_body("begin"), Step::status(429).with_header("retry-after", "20")] {
        for life in [millis(1), millis(20), millis(400)] {
            let steps = [step.clone(), Step::ok("done")];
            assert_eq!(sends_when_dropped_after(life, steps, Endpoint::idempotent_write(), &budget).await, 1);
            assert_eq!(balance(&budget), 5);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_request_that_is_dropped_in_a_probe_is_not_sent_again() {
    let budget = small_budget();
    let probe = ScriptedProbe::new([Says::Hangs]);
    let endpoint = Endpoint::probed_write(probe.clone());
    assert_eq!(sends_when_dropped_after(seconds(1), [Step::fails()], endpoint, &budget).await, 1);
    assert_eq!((probe.times(), balance(&budget)), (1, 4), "the probe had been asked");

    let last_look = Endpoint::probed_write(probe.clone()).with_policy(RetryPolicy::DEFAULT.with_attempts(1));
    assert_eq!(sends_when_dropped_after(seconds(1), [Step::fails()], last_look, &budget).await, 1);
    assert_eq!((probe.times(), balance(&budget)), (2, 4));
}

/// After every single poll, whatever the request was doing.
#[tokio::test(start_paused = true)]
async fn wherever_a_request_is_dropped_nothing_follows() {
    for polls in 0..40 {
        let steps = [Step::fails().after(millis(5)), Step::status(503).with_stalled_body("begin"), Step::fails(), Step::status(503)];
        let (peer, budget) = (Scripted::new(steps), small_budget());
        let probe = ScriptedProbe::new([Says::InProgress, Says::Absent]);
        let endpoint = Endpoint::probed_write(probe.clone()).settling(Duration::ZERO).with_policy(RetryPolicy::DEFAULT.with_attempts(4));
        let sending = client(steady().with_budget(budget.clone()), &peer).post(URL).body("one coffee").with_extension(endpoint).send();
        let ended = {
            let (mut sending, mut left) = (pin!(sending), polls);
            poll_fn(|context| {
                if left == 0 {
                    return Poll::Ready(None);
                }
                left -= 1;
                sending.as_mut().poll(context).map(Some)
            })
            .await
        };
        let (sends, probes) = (peer.sends(), probe.times());
        sleep(LATER).await;
        assert_eq!((peer.sends(), probe.times()), (sends, probes), "{polls}");
        if ended.is_none() {
            let paid = sends.saturating_sub(1) + probes;
            assert_eq!(balance(&budget), 5_u64.saturating_sub(paid as u64), "every token that nothing was sent for is back");
        }
    }
}

// ===== layers =====

#[tokio::test(start_paused = true)]
async fn plugins_in_one_stack_do_not_multiply() {
    for step in [Step::status(503), Step::fails(), Step::refused(), Step::times_out()] {
        let peer = Scripted::new([step.clone()]);
        let client = builder().with(steady()).with(steady()).with(steady()).with(SendWitness::redirects_off()).with(peer.clone()).build();
        let ended = end(client.get(URL)).await;
        assert_eq!((peer.sends(), ended.report.attempts().len()), (3, 3), "{step:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_plugin_inside_neither_hides_proof_nor_shortens_attempts() {
    let peer = Scripted::new([Step::refused(), Step::ok("done").after(seconds(9))]);
    let inner = steady().with_deadline(seconds(1));
    let client = builder().with(steady()).with(inner).with(SendWitness::redirects_off()).with(peer.clone()).build();
    let ended = end(client.post(URL)).await;
    assert_eq!(ended.status(), 200);
    assert_eq!(ended.report.attempts()[0].resend(), Some(ResendReason::ProvenUnprocessed));
}

/// What the extensions of a request held when an attempt began; it leaves its number there.
#[derive(Clone, Default)]
struct Marks {
    seen: Arc<Mutex<Vec<Option<Mark>>>>,
    attempts: Arc<AtomicUsize>,
}

#[derive(Debug, Clone, Copy, PartialEq)]
struct Mark(usize);

#[derive(Debug, Clone, PartialEq)]
struct FromCaller(&'static str);

#[async_trait::async_trait]
impl Middleware for Marks {
    async fn handle(&self, request: Request, extensions: &mut Extensions, next: Next<'_>) -> Result<Response> {
        assert_eq!(extensions.get(), Some(&FromCaller("kept")));
        self.seen.lock().unwrap().push(extensions.get().copied());
        extensions.insert(Mark(self.attempts.fetch_add(1, Ordering::SeqCst) + 1));
        next.run(request, extensions).await
    }
}

#[tokio::test(start_paused = true)]
async fn every_attempt_gets_the_extensions_of_the_caller_and_the_last_ones_are_written_back() {
    let endings: [(Step, usize); 4] = [(Step::ok("done"), 3), (Step::status(503), 3), (Step::fails(), 3), (Step::broken(), 3)];
    for (last, attempts) in endings {
        let (peer, marks) = (Scripted::new([Step::status(503), Step::fails(), last.clone()]), Marks::default());
        let client = builder().with(steady()).with(marks.clone()).with(SendWitness::redirects_off()).with(peer).build();
        let mut extensions = Extensions::new();
        extensions.insert(FromCaller("kept"));
        let _ = client.execute_with_extensions(client.get(URL).build().unwrap(), &mut extensions).await;
        assert_eq!(*marks.seen.lock().unwrap(), vec![None; attempts], "{last:?}: no attempt saw another's");
        assert_eq!(extensions.get(), Some(&Mark(attempts)), "{last:?}");
        assert_eq!(extensions.get(), Some(&FromCaller("kept")));
    }
}

/// Nothing of ours stays behind: the same extensions serve the next request as well.
#[tokio::test(start_paused = true)]
async fn the_extensions_of_one_request_can_serve_the_next() {
    let peer = Scripted::answering(503);
    let client = client(steady(), &peer);
    let mut extensions = Extensions::new();
    for requests in 1..=3 {
        let _ = client.execute_with_extensions(client.get(URL).build().unwrap(), &mut extensions).await;
        peer.assert_sends(3 * requests);
    }
}

// ===== bodies =====

fn stream_of(bytes: &'static str) -> Body {
    Body::wrap_stream(stream::iter([Ok::<_, io::Error>(bytes)]))
}

#[tokio::test(start_paused = true)]
async fn a_streamed_body_is_sent_once_as_without_the_plugin() {
    for endpoint in
        [None, Some(Endpoint::unprotected_write()), Some(Endpoint::keyed_write(KeyContract::STRIPE)), Some(Endpoint::idempotent_write())]
    {
        for status in [200, 201, 404, 501] {
            let peer = Scripted::answering(status);
            let mut request = client(steady(), &peer).put(URL).body(stream_of("one coffee"));
            if let Some(endpoint) = endpoint.clone() {
                request = request.with_extension(endpoint);
            }
            let ended = end(request).await;
            assert_eq!((ended.status(), ended.report.stop()), (status, StopReason::AnswerIsFinal));
            assert_eq!(peer.requests()[0].body(), b"one coffee");
            peer.assert_sends(1);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_streamed_body_that_would_have_been_sent_again_stops_and_says_why() {
    for step in [Step::status(503), Step::fails(), Step::refused()] {
        let peer = Scripted::new([step.clone(), Step::ok("done")]);
        let ended = end(client(steady(), &peer).put(URL).body(stream_of("one coffee"))).await;
        assert_eq!((ended.report.stop(), peer.sends()), (StopReason::BodyConsumed, 1), "{step:?}");
        match ended.result {
            Ok(response) => assert_eq!(response.status(), 503),
            Err(error) => assert!(matches!(error, reqwest_middleware::Error::Reqwest(_))),
        }
    }
    let peer = Scripted::new([Step::fails(), Step::ok("done")]);
    let ended = end(client(steady(), &peer).post(URL).body(stream_of("one coffee"))).await;
    assert_eq!(ended.report.stop(), StopReason::MayHaveHappened, "nothing would have protected it anyway");
}

#[tokio::test(start_paused = true)]
async fn a_factory_of_bodies_supplies_every_attempt_or_the_later_ones() {
    let made = Arc::new(AtomicUsize::new(0));
    let counter = Arc::clone(&made);
    let factory = ReplayBody::from_fn(move || {
        counter.fetch_add(1, Ordering::SeqCst);
        Ok(stream_of("one coffee"))
    });
    for (body, calls) in [(None, 3), (Some(stream_of("one coffee")), 2), (Some("one coffee".into()), 2)] {
        let peer = Scripted::new([Step::fails(), Step::status(503), Step::ok("done")]);
        let mut request = client(steady(), &peer).put(URL).with_extension(factory.clone());
        if let Some(body) = body {
            request = request.body(body);
        }
        assert_eq!(end(request).await.status(), 200);
        assert_eq!(made.swap(0, Ordering::SeqCst), calls);
        assert!(peer.requests().iter().all(|sent| sent.body() == b"one coffee"));
        peer.assert_writes(3);
    }
}

/// A multipart form has another boundary each time, so header and body belong together.
#[tokio::test(start_paused = true)]
async fn a_factory_of_requests_supplies_a_body_and_the_headers_that_describe_it() {
    let transport = reqwest::Client::new();
    let factory = ReplayRequest::from_fn(move || {
        let form = reqwest::multipart::Form::new().text("kind", "coffee");
        transport.put(URL).multipart(form).build()
    });
    let peer = Scripted::new([Step::fails(), Step::status(503), Step::ok("done")]);
    let request = client(steady(), &peer).put(URL).header("x-tenant", "7").with_extension(factory);
    assert_eq!(end(request).await.status(), 200);
    for sent in peer.requests() {
        let boundary = sent.header("content-type").unwrap().split("boundary=").nth(1).unwrap().to_owned();
        assert!(String::from_utf8_lossy(sent.body()).contains(&boundary));
        assert_eq!(sent.header("x-tenant"), Some("7"));
    }
    peer.assert_writes(3);
}

#[tokio::test(start_paused = true)]
async fn every_attempt_sends_every_byte() {
    let body: Vec<u8> = (0..1_000_000_u32).map(|n| (n.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
    let peer = Scripted::new([Step::refused(), Step::fails(), Step::status(503), Step::ok("done")]);
    let retry = steady().with_policy(RetryPolicy::DEFAULT.with_attempts(4));
    assert_eq!(end(client(retry, &peer).put(URL).body(body.clone())).await.status(), 200);
    assert!(peer.requests()[1..].iter().all(|sent| sent.body() == body));
    peer.assert_writes(3);
}

/// Takes the request and lets it go; notes whether that was the last copy of its body.
#[derive(Clone, Default)]
struct LetsGo(Arc<Mutex<Vec<bool>>>);

struct Owner(Arc<AtomicBool>);

impl AsRef<[u8]> for Owner {
    fn as_ref(&self) -> &[u8] {
        b"one coffee"
    }
}

impl Drop for Owner {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

#[derive(Clone)]
struct Gone(Arc<AtomicBool>);

#[async_trait::async_trait]
impl Middleware for LetsGo {
    async fn handle(&self, request: Request, extensions: &mut Extensions, _: Next<'_>) -> Result<Response> {
        drop(request);
        self.0.lock().unwrap().push(extensions.get::<Gone>().unwrap().0.load(Ordering::SeqCst));
        Ok(http::Response::builder().status(503).body("").unwrap().into())
    }
}

#[tokio::test(start_paused = true)]
async fn no_copy_is_made_that_nobody_can_need() {
    async fn last_copies(retry: SafeRetry, endpoint: Option<Endpoint>) -> Vec<bool> {
        let (peer, gone) = (LetsGo::default(), Arc::new(AtomicBool::new(false)));
        let client = builder().with(retry).with(peer.clone()).build();
        let mut request = client.put(URL).body(Bytes::from_owner(Owner(Arc::clone(&gone)))).with_extension(Gone(gone));
        if let Some(endpoint) = endpoint {
            request = request.with_extension(endpoint);
        }
        let _ = request.send().await;
        std::mem::take(&mut *peer.0.lock().unwrap())
    }
    let one = || steady().with_policy(RetryPolicy::DEFAULT.with_attempts(1));
    assert_eq!(last_copies(one(), None).await, [true], "one attempt");
    assert_eq!(last_copies(steady(), Some(Endpoint::never_resend())).await, [true], "no resend");
    assert_eq!(last_copies(steady(), None).await, [false, false, true], "the last attempt takes the last copy");
    let probed = Endpoint::idempotent_write().probed_by(ScriptedProbe::new([Says::InProgress]));
    assert_eq!(last_copies(one(), Some(probed)).await, [false], "a probe may ask for the body");
}

// ===== statuses =====

#[tokio::test(start_paused = true)]
async fn a_status_that_will_not_heal_is_final() {
    for status in [200, 204, 301, 304, 400, 401, 403, 404, 409, 410, 412, 421, 422, 423, 501, 505, 506, 507, 508, 510, 511, 520, 599] {
        for method in [Method::GET, Method::PUT, Method::POST] {
            let peer = Scripted::answering(status);
            let ended = end(client(steady(), &peer).request(method, URL)).await;
            assert_eq!((ended.status(), ended.report.stop(), peer.sends()), (status, StopReason::AnswerIsFinal, 1));
        }
    }
    for status in [408, 425, 429, 500, 502, 503, 504] {
        let peer = Scripted::new([Step::status(status), Step::ok("done")]);
        assert_eq!(end(client(steady(), &peer).get(URL)).await.status(), 200, "{status}");
    }
}

/// A hint says when, never whether.
#[tokio::test(start_paused = true)]
async fn a_hint_makes_no_status_resendable() {
    for status in [200, 201, 202, 301, 304, 404, 501] {
        for method in [Method::GET, Method::PUT, Method::POST] {
            let peer = Scripted::new([Step::status(status).with_header("retry-after", "1")]);
            let ended = end(client(steady(), &peer).request(method, URL)).await;
            assert_eq!((ended.status(), ended.report.stop(), ended.took), (status, StopReason::AnswerIsFinal, Duration::ZERO));
            assert_eq!(ended.report.hint(), Some(seconds(1)));
            sleep(LATER).await;
            peer.assert_sends(1);
        }
    }
}

/// RFC 8470 §5.2.
#[tokio::test(start_paused = true)]
async fn too_early_proves_that_nothing_was_done_and_is_repeated_once() {
    // What is proven of a read is not watched: it may be sent again in any case.
    for (method, reason) in [
        (Method::GET, ResendReason::EffectRepeatable),
        (Method::PUT, ResendReason::ProvenUnprocessed),
        (Method::POST, ResendReason::ProvenUnprocessed),
    ] {
        let peer = Scripted::new([Step::status(425), Step::status(201)]);
        let ended = end(client(steady(), &peer).request(method.clone(), URL)).await;
        assert_eq!((ended.status(), ended.report.attempts()[0].resend()), (201, Some(reason)), "{method}");

        let peer = Scripted::new([Step::status(425), Step::status(425), Step::status(201)]);
        let ended = end(client(steady(), &peer).request(method.clone(), URL)).await;
        assert_eq!((ended.status(), ended.report.stop(), peer.sends()), (425, StopReason::AnswerIsFinal, 2), "{method}");

        let peer = Scripted::new([Step::status(425), Step::refused(), Step::status(425), Step::status(201)]);
        let retry = steady().with_policy(RetryPolicy::DEFAULT.with_attempts(9));
        let ended = end(client(retry, &peer).request(method.clone(), URL)).await;
        assert_eq!((ended.status(), peer.sends()), (425, 3), "also with something else between");
    }
}

#[tokio::test(start_paused = true)]
async fn a_trusted_refusal_is_proof_for_its_endpoint_and_status_only() {
    let trusting = || Endpoint::unprotected_write().trusting_refusal(StatusCode::TOO_MANY_REQUESTS);
    let peer = Scripted::new([Step::status(429), Step::status(201)]);
    let ended = end(client(steady(), &peer).post(URL).with_extension(trusting())).await;
    assert_eq!((ended.status(), ended.report.attempts()[0].resend()), (201, Some(ResendReason::ProvenUnprocessed)));

    for (first, second) in
        [(Step::status(503), Step::status(201)), (Step::status(429), Step::status(503)), (Step::status(429), Step::fails())]
    {
        let peer = Scripted::new([first, second, Step::status(201)]);
        let ended = end(client(steady(), &peer).post(URL).with_extension(trusting())).await;
        assert_eq!((ended.report.stop(), ended.report.outcome()), (StopReason::MayHaveHappened, Outcome::Unknown));
    }
    // Trusted, it still has to be a status after which trying again can help.
    let peer = Scripted::answering(409);
    let refused = Endpoint::unprotected_write().trusting_refusal(StatusCode::CONFLICT);
    assert_eq!(end(client(steady(), &peer).post(URL).with_extension(refused)).await.report.stop(), StopReason::AnswerIsFinal);
    peer.assert_sends(1);
}

/// Who signs further in has seen the 401: the next attempt carries a fresh token, and a second 401
/// says that this does not help.
#[tokio::test(start_paused = true)]
async fn a_status_that_has_the_request_signed_anew_is_worth_one_more_attempt() {
    let refreshed = |endpoint: Endpoint| endpoint.refreshed_after(StatusCode::UNAUTHORIZED);
    let retry = || steady().with_policy(RetryPolicy::DEFAULT.with_attempts(9));
    for (steps, ends, sends) in [
        (vec![Step::status(401), Step::status(201)], 201, 2),
        (vec![Step::status(401), Step::status(401), Step::status(201)], 401, 2),
        (vec![Step::status(401), Step::status(425), Step::status(401), Step::status(201)], 401, 3),
        (vec![Step::status(403), Step::status(201)], 403, 1),
    ] {
        for endpoint in [Endpoint::unprotected_write(), Endpoint::read(), Endpoint::keyed_write(KeyContract::STRIPE)] {
            let peer = Scripted::new(steps.clone());
            let ended = end(client(retry(), &peer).post(URL).with_extension(refreshed(endpoint))).await;
            assert_eq!((ended.status(), peer.sends()), (ends, sends));
            assert_eq!(ended.report.stop(), StopReason::AnswerIsFinal);
        }
    }
    // What was lost before is not made good by a refusal, and what is never resent stays so.
    let peer = Scripted::new([Step::status(401), Step::fails(), Step::status(401)]);
    let ended = end(client(retry(), &peer).post(URL).with_extension(refreshed(Endpoint::unprotected_write()))).await;
    assert_eq!((ended.report.outcome(), peer.sends()), (Outcome::Unknown, 2));
    let peer = Scripted::answering(401);
    let ended = end(client(retry(), &peer).post(URL).with_extension(refreshed(Endpoint::never_resend()))).await;
    assert_eq!((ended.status(), peer.sends()), (401, 1));
    // The endpoint's own verdict is heard first.
    let peer = Scripted::answering(401);
    let judged = refreshed(Endpoint::read()).classified_by(|_| Some(Verdict::Final));
    assert_eq!((end(client(retry(), &peer).get(URL).with_extension(judged)).await.status(), peer.sends()), (401, 1));
}

/// An answer from behind a redirect speaks for the last hop; the first one may have acted.
#[tokio::test(start_paused = true)]
async fn a_refusal_from_elsewhere_proves_nothing() {
    struct Elsewhere;
    #[async_trait::async_trait]
    impl Middleware for Elsewhere {
        async fn handle(&self, _: Request, _: &mut Extensions, _: Next<'_>) -> Result<Response> {
            let answer = http::Response::builder().status(425);
            Ok(reqwest::ResponseBuilderExt::url(answer, "http://elsewhere.test/".parse().unwrap()).body("").unwrap().into())
        }
    }
    let client = builder().with(steady()).with(SendWitness::default_redirects()).with(Elsewhere).build();
    let ended = end(client.post(URL)).await;
    assert_eq!((ended.report.stop(), ended.report.outcome()), (StopReason::MayHaveHappened, Outcome::Unknown));
    let client = builder().with(steady()).with(Elsewhere).build();
    assert_eq!(end(client.post(URL)).await.report.stop(), StopReason::MayHaveHappened);
}

/// The server said something else, and what was made of it is trusted by nobody.
#[tokio::test(start_paused = true)]
async fn a_refusal_made_of_another_answer_proves_nothing() {
    struct Normalising;
    #[async_trait::async_trait]
    impl Middleware for Normalising {
        async fn handle(&self, request: Request, extensions: &mut Extensions, next: Next<'_>) -> Result<Response> {
            next.run(request, extensions).await?;
            Ok(http::Response::builder().status(503).body("").unwrap().into())
        }
    }
    for (answer, sends) in [(503, 3), (500, 1), (201, 1)] {
        let peer = Scripted::answering(answer);
        let client = builder().with(steady()).with(Normalising).with(SendWitness::redirects_off()).with(peer.clone()).build();
        let trusting = Endpoint::unprotected_write().trusting_refusal(StatusCode::SERVICE_UNAVAILABLE);
        assert_eq!(end(client.post(URL).with_extension(trusting)).await.status(), 503);
        assert_eq!(peer.sends(), sends, "{answer}");
    }
}

// ===== verdicts of the endpoint =====

async fn judged(status: u16, endpoint: Endpoint, verdict: Option<Verdict>) -> (usize, Ended) {
    let peer = Scripted::new([Step::status(status)]);
    let ended = end(client(steady(), &peer).post(URL).with_extension(endpoint.classified_by(move |_| verdict))).await;
    (peer.sends(), ended)
}

#[tokio::test(start_paused = true)]
async fn an_endpoints_verdict_beats_the_policys_statuses_and_no_verdict_leaves_them() {
    let keyed = || Endpoint::keyed_write(KeyContract::STRIPE);
    for (status, verdict, sends, stop) in [
        (503, Some(Verdict::Final), 1, StopReason::AnswerIsFinal),
        (200, Some(Verdict::Resendable), 3, StopReason::AttemptsSpent),
        (200, Some(Verdict::Overloaded), 3, StopReason::AttemptsSpent),
        (404, Some(Verdict::KeyInUse), 7, StopReason::WindowClosed),
        (503, Some(Verdict::Forbidden), 1, StopReason::ServerForbade),
        (200, Some(Verdict::Forbidden), 1, StopReason::ServerForbade),
        (409, Some(Verdict::Final), 1, StopReason::AnswerIsFinal),
        (503, None, 3, StopReason::AttemptsSpent),
        (200, None, 1, StopReason::AnswerIsFinal),
        (409, None, 7, StopReason::WindowClosed),
    ] {
        let (sent, ended) = judged(status, keyed(), verdict).await;
        assert_eq!((sent, ended.report.stop()), (sends, stop), "{status} {verdict:?}");
        assert_eq!(ended.status(), status);
    }
}

/// What says "too much" gets the longer backoff, whichever way it says so.
#[tokio::test(start_paused = true)]
async fn an_overload_gets_the_longer_backoff_however_it_is_said() {
    let statuses = RetryStatuses::DEFAULT.with(StatusCode::from_u16(529).unwrap());
    let policy = RetryPolicy::DEFAULT.with_statuses(statuses);
    for (status, verdict, pauses) in [
        (529, None, [500, 1000]),
        (200, Some(Verdict::Overloaded), [500, 1000]),
        (403, Some(Verdict::Overloaded), [500, 1000]),
        (403, Some(Verdict::Resendable), [50, 100]),
    ] {
        let peer = Scripted::answering(status);
        let endpoint = Endpoint::read().classified_by(move |_| verdict).with_policy(policy);
        let _ = end(client(steady(), &peer).get(URL).with_extension(endpoint)).await;
        peer.assert_pauses(pauses.map(millis));
    }
}

/// A server that says its errors with 200, and a caller who looks at the status alone.
#[tokio::test(start_paused = true)]
async fn a_failure_by_verdict_never_comes_out_as_ok_where_failures_are_errors() {
    let judged = |endpoint: Endpoint, verdict| endpoint.failures_are_errors().classified_by(move |_| Some(verdict));
    for verdict in [Verdict::Resendable, Verdict::Overloaded, Verdict::Forbidden] {
        let peer = Scripted::answering(200);
        let ended = end(client(steady(), &peer).get(URL).with_extension(judged(Endpoint::read(), verdict))).await;
        let Some(RetryError::Unsuccessful(failure)) = ended.error().safe_retry() else { panic!("{verdict:?}: {:?}", ended.result) };
        assert_eq!(failure.report().outcome(), ended.report.outcome(), "{verdict:?}");
        assert_eq!(ended.error().safe_retry().and_then(RetryError::status), Some(StatusCode::OK), "{verdict:?}");
        assert!(!ended.error().timed_out());

        for endpoint in [Endpoint::unprotected_write(), Endpoint::keyed_write(KeyContract::STRIPE)] {
            let peer = Scripted::answering(200);
            let ended = end(client(steady(), &peer).post(URL).with_extension(judged(endpoint, verdict))).await;
            assert!(matches!(ended.error().safe_retry(), Some(RetryError::OutcomeUnknown(_))), "{verdict:?}: {:?}", ended.result);
            assert_eq!(ended.report.outcome(), Outcome::Unknown, "{verdict:?}");
        }
        let peer = Scripted::answering(503);
        let trusted = judged(Endpoint::unprotected_write(), verdict).trusting_refusal(StatusCode::SERVICE_UNAVAILABLE);
        let ended = end(client(steady(), &peer).post(URL).with_extension(trusted)).await;
        assert!(matches!(ended.error().safe_retry(), Some(RetryError::Unprocessed(_))), "{verdict:?}: {:?}", ended.result);
    }
    let peer = Scripted::answering(200);
    let ended = end(client(steady(), &peer).get(URL).with_extension(judged(Endpoint::read(), Verdict::Final))).await;
    assert_eq!(ended.status(), 200);
    let peer = Scripted::new([Step::status(200).with_body("busy"), Step::status(200).with_body("done")]);
    let recovers = Endpoint::read().failures_are_errors().reading_body(100);
    let recovers = recovers.classified_by(|answer| answer.body().is_some_and(|body| body == b"busy").then_some(Verdict::Resendable));
    let ended = end(client(steady(), &peer).get(URL).with_extension(recovers)).await;
    assert_eq!((ended.status(), peer.sends()), (200, 2));
}

/// A wish of the server is no protection.
#[tokio::test(start_paused = true)]
async fn no_verdict_protects_an_unprotected_write() {
    for status in [200, 409, 500, 503] {
        for (verdict, stop) in [
            (Verdict::Resendable, StopReason::MayHaveHappened),
            (Verdict::KeyInUse, StopReason::AnswerIsFinal),
            (Verdict::Final, StopReason::AnswerIsFinal),
            (Verdict::Forbidden, StopReason::ServerForbade),
        ] {
            let (sent, ended) = judged(status, Endpoint::unprotected_write(), Some(verdict)).await;
            assert_eq!((sent, ended.report.stop()), (1, stop), "{status} {verdict:?}");
        }
    }
}

/// 403 with an exhausted quota is throttling; a plain 403 is not; a lost connection is still
/// resent.
#[tokio::test(start_paused = true)]
async fn a_verdict_may_depend_on_headers() {
    let quota = || {
        Endpoint::read().classified_by(|answer| {
            let exhausted = answer.headers().get("x-ratelimit-remaining").is_some_and(|left| left == "0");
            (answer.status() == StatusCode::FORBIDDEN && exhausted).then_some(Verdict::Resendable)
        })
    };
    let exhausted = Step::status(403).with_header("x-ratelimit-remaining", "0").with_header("retry-after", "7");
    for (first, sends) in [(exhausted, 2), (Step::status(403), 1), (Step::refused(), 2), (Step::status(503), 2)] {
        let peer = Scripted::new([first.clone(), Step::ok("done")]);
        let ended = end(client(hasty(), &peer).get(URL).with_extension(quota())).await;
        assert_eq!(peer.sends(), sends, "{first:?}");
        if ended.report.hint().is_some() {
            peer.assert_pauses([seconds(7)]);
        }
    }
}

/// And the caller still gets the whole body.
#[tokio::test(start_paused = true)]
async fn a_verdict_may_depend_on_a_body_that_was_read_inside_the_attempt() {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let endpoint = |most: Option<usize>| {
        let seen = Arc::clone(&seen);
        let endpoint = Endpoint::read().classified_by(move |answer| {
            seen.lock().unwrap().push(answer.body().map(<[u8]>::to_vec));
            answer.body().is_some_and(|body| body == b"try again").then_some(Verdict::Resendable)
        });
        most.map_or(endpoint.clone(), |most| endpoint.reading_body(most))
    };
    for (most, sends, body) in [(None, 1, "try again"), (Some(4), 1, "try again"), (Some(9), 2, "done"), (Some(1024), 2, "done")] {
        let peer = Scripted::new([Step::ok("try again"), Step::ok("done")]);
        let ended = end(client(steady(), &peer).get(URL).with_extension(endpoint(most))).await;
        assert_eq!(ended.result.unwrap().text().await.unwrap(), body, "{most:?}");
        peer.assert_sends(sends);
        let seen = std::mem::take(&mut *seen.lock().unwrap());
        assert_eq!(seen[0].is_some(), most.is_some_and(|most| most >= 9));
    }
}

// ===== failures =====

#[tokio::test(start_paused = true)]
async fn what_passes_by_itself_is_sent_again_and_what_does_not_is_not() {
    for (step, cause) in [(Step::fails(), Cause::PeerClosed), (Step::refused(), Cause::Connect)] {
        let peer = Scripted::new([step, Step::ok("done")]);
        let ended = end(client(steady(), &peer).get(URL)).await;
        assert_eq!((ended.status(), ended.report.attempts()[0].cause()), (200, cause));
    }
    let peer = Scripted::new([Step::broken(), Step::ok("done")]);
    let ended = end(client(steady(), &peer).get(URL)).await;
    assert_eq!((ended.report.stop(), ended.report.attempts()[0].signal(), peer.sends()), (StopReason::Broken, Signal::Broken, 1));
}

#[tokio::test(start_paused = true)]
async fn a_write_that_never_left_is_sent_again_whatever_it_is() {
    for method in [Method::POST, Method::PATCH, Method::from_bytes(b"FOO").unwrap()] {
        for body in ["", "one coffee"] {
            let peer = Scripted::new([Step::refused(), Step::refused(), Step::status(201)]);
            assert_eq!(end(client(steady(), &peer).request(method.clone(), URL).body(body)).await.status(), 201);
            let peer = Scripted::new([Step::hangs_connecting(), Step::status(201)]);
            let retry = steady().with_attempt_limit(seconds(1));
            assert_eq!(end(client(retry, &peer).request(method.clone(), URL).body(body)).await.status(), 201);
        }
    }
}

/// Without the witness, less is proven, and less is sent.
#[tokio::test(start_paused = true)]
async fn without_a_witness_nothing_is_proven() {
    let peer = Scripted::new([Step::refused(), Step::status(201)]);
    let client = builder().with(steady()).with(peer.clone()).build();
    let ended = end(client.post(URL).body("one coffee")).await;
    assert_eq!((ended.report.stop(), peer.sends()), (StopReason::MayHaveHappened, 1));
}

/// An inner middleware that turns statuses into errors hides neither status nor meaning.
#[tokio::test(start_paused = true)]
async fn an_answer_that_was_made_an_error_inside_is_still_an_answer() {
    struct ErrorForStatus;
    #[async_trait::async_trait]
    impl Middleware for ErrorForStatus {
        async fn handle(&self, request: Request, extensions: &mut Extensions, next: Next<'_>) -> Result<Response> {
            Ok(next.run(request, extensions).await?.error_for_status()?)
        }
    }
    let stack =
        |peer: &Scripted| builder().with(steady()).with(ErrorForStatus).with(SendWitness::redirects_off()).with(peer.clone()).build();
    let peer = Scripted::new([Step::status(503), Step::ok("done")]);
    assert_eq!(end(stack(&peer).get(URL)).await.status(), 200);
    let peer = Scripted::answering(404);
    let ended = end(stack(&peer).get(URL)).await;
    assert_eq!((ended.error().status().unwrap().as_u16(), peer.sends()), (404, 1));
    let peer = Scripted::answering(503);
    let ended = end(stack(&peer).post(URL).with_extension(Endpoint::unprotected_write())).await;
    assert!(matches!(ended.error().safe_retry(), Some(RetryError::OutcomeUnknown(_))));
    assert_eq!(ended.error().safe_retry().unwrap().status().unwrap(), 503);
}

// ===== the budget =====

/// Through the public builder, with its defaults.
#[tokio::test(start_paused = true)]
async fn in_an_outage_resends_stay_within_the_share_and_the_reserve() {
    const OPERATIONS: usize = 2_000;
    let peer = Scripted::answering(500);
    let client: ClientWithMiddleware = client(SafeRetry::new(), &peer);
    let began = Instant::now();
    for _ in 0..OPERATIONS {
        let _ = client.get(URL).send().await;
    }
    let most = OPERATIONS * 12 / 10 + 10 + usize::try_from(began.elapsed().as_secs()).unwrap() + 1;
    assert!((OPERATIONS * 11 / 10..=most).contains(&peer.sends()), "{} sends", peer.sends());
}

#[tokio::test(start_paused = true)]
async fn a_spent_budget_hands_the_answer_back_unread_and_at_once() {
    let budget = RetryBudget::new(BudgetLimits::percent(0).with_reserve(1, 0));
    let peer = Scripted::new([Step::status(503).with_body("SlowDown")]);
    let ended = end(client(steady().with_budget(budget), &peer).get(URL)).await;
    assert_eq!((ended.report.stop(), peer.sends(), ended.took), (StopReason::BudgetSpent, 2, millis(500)));
    let last = &ended.report.attempts()[1];
    assert_eq!((last.pause(), last.resend()), (None, None), "nothing was sent after it");
    assert_eq!(RetryReport::of(ended.response()).unwrap().attempts().len(), 2);
    assert_eq!(ended.result.unwrap().text().await.unwrap(), "SlowDown");
}

#[tokio::test(start_paused = true)]
async fn an_adaptive_budget_hears_of_every_answer_that_was_accepted() {
    let budget = RetryBudget::adaptive(AdaptiveLimits::DEFAULT);
    let steps = std::iter::repeat_n(Step::status(200), 100).chain([Step::fails(), Step::ok("done")]);
    let peer = Scripted::new(steps);
    // The least draw is refused as soon as any is.
    let draws = reqwest_safe_retry::testing::Draws::constant(reqwest_safe_retry::policy::Draw::LEAST);
    let client = client(steady().with_budget(budget).with_draws(draws), &peer);
    for _ in 0..101 {
        assert_eq!(client.get(URL).send().await.unwrap().status(), 200);
    }
    peer.assert_sends(102);
}

#[tokio::test(start_paused = true)]
async fn a_future_of_a_request_can_be_sent_to_another_thread() {
    fn anywhere<F: Future + Send>(future: F) -> F {
        future
    }
    let peer = Scripted::answering(200);
    let client = client(steady(), &peer);
    assert!(anywhere(client.get(URL).send()).now_or_never().is_some_and(|result| result.is_ok()));
}
