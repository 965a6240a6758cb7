//! What the caller gets: every cell of the results table, and what its error says.
//!
//! Columns: a request that nothing marks or a marked read; a marked write of which every attempt is
//! proven unprocessed; a marked write of which something is unknown.

use std::{error::Error as StdError, io};

use http::{Method, StatusCode};
use reqwest::{Request, Response};
use reqwest_middleware::{ClientWithMiddleware, Error, Middleware, Next, RequestBuilder, Result};
use reqwest_safe_retry::{
    Cause, Deadline, Endpoint, Evidence, IdempotencyKey, KeyContract, Misuse, Outcome, ReplayBody, ReplayRequest, ReportSlot, RetryError,
    RetryErrorExt as _, RetryReport, SafeRetry, SendWitness, StopReason,
    policy::KeySource,
    testing::{Scripted, Step},
};

use crate::support::scripted::{Ended, URL, builder, client, end, seconds, steady};

/// Everything in it is a secret.
const SECRETS: &str = "http://SECRET-user:SECRET-password@peer.test/SECRET-path?token=SECRET-query";

fn ours(ended: &Ended) -> &RetryError {
    ended.error().safe_retry().unwrap()
}

/// All that a logger could print of an error.
fn printed(error: &Error) -> String {
    let chain: Vec<_> = std::iter::successors(Some(error as &dyn StdError), |error| (*error).source()).collect();
    chain.iter().map(|error| format!("{error} {error:?} {error:#?}")).collect()
}

/// An error of ours: it is found, tells its report, and prints nothing of the request.
fn assert_ours(ended: &Ended) {
    let error = ours(ended);
    let report = error.report().unwrap();
    assert_eq!(report.attempts(), ended.report.attempts());
    assert_eq!(
        (report.stop(), report.outcome(), report.evidence()),
        (ended.report.stop(), ended.report.outcome(), ended.report.evidence())
    );
    assert_eq!(ended.error().evidence(), report.evidence());
    let printed = printed(ended.error());
    assert!(!printed.contains("SECRET"), "{printed}");
}

/// The reqwest error stands right behind ours, without its URL, and is found however one looks for
/// it.
fn assert_transport_behind(ended: &Ended) {
    let behind = ours(ended).source().unwrap().downcast_ref::<reqwest::Error>().unwrap();
    assert!(behind.url().is_none());
    assert!(std::ptr::eq(behind, ended.error().transport_error().unwrap()));
    let Error::Middleware(error) = ended.error() else { panic!("ours travels as a middleware error") };
    assert!(error.chain().any(|layer| layer.is::<reqwest::Error>()));
}

async fn sent(step: Step, request: impl FnOnce(&ClientWithMiddleware) -> RequestBuilder) -> Ended {
    sent_by(steady(), step, request).await
}

async fn sent_by(retry: SafeRetry, step: Step, request: impl FnOnce(&ClientWithMiddleware) -> RequestBuilder) -> Ended {
    end(request(&client(retry, &Scripted::new([step])))).await
}

/// A request that nothing marks, and the marked read.
fn unmarked_or_read() -> [fn(&ClientWithMiddleware) -> RequestBuilder; 4] {
    [
        |client| client.get(SECRETS),
        |client| client.post(SECRETS).body("SECRET-body"),
        |client| client.put(SECRETS).body("SECRET-body"),
        |client| client.post(SECRETS).body("SECRET-body").with_extension(Endpoint::read()),
    ]
}

fn marked_write(client: &ClientWithMiddleware) -> RequestBuilder {
    let request = client.post(SECRETS).header("authorization", "Bearer SECRET-token").body("SECRET-body");
    request.with_extension(Endpoint::unprotected_write().named("create order"))
}

fn keyed_write(client: &ClientWithMiddleware) -> RequestBuilder {
    let key = IdempotencyKey::parse("SECRET-key").unwrap();
    client.post(SECRETS).body("SECRET-body").with_extension(Endpoint::keyed_write(KeyContract::STRIPE)).with_extension(key)
}

fn marked_writes() -> [fn(&ClientWithMiddleware) -> RequestBuilder; 2] {
    [marked_write, keyed_write]
}

// ===== an answer =====

#[tokio::test(start_paused = true)]
async fn an_answer_is_handed_back_unread_whatever_its_status_and_its_report_with_it() {
    for status in [500, 503, 504, 429, 408] {
        for request in unmarked_or_read() {
            let ended = sent(Step::status(status).with_body("SlowDown"), request).await;
            let shown = RetryReport::of(ended.response()).unwrap();
            assert_eq!((shown.attempts().len(), shown.stop()), (ended.report.attempts().len(), ended.report.stop()));
            assert_eq!(shown.attempts().last().unwrap().status().unwrap(), status);
            assert_eq!(ended.status(), status);
            assert_eq!(ended.result.unwrap().text().await.unwrap(), "SlowDown");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn an_answer_to_a_refused_write_is_handed_back_as_not_processed() {
    let ended = sent(Step::status(503).with_body("SlowDown"), |client| {
        let trusted = Endpoint::unprotected_write().trusting_refusal(StatusCode::SERVICE_UNAVAILABLE);
        client.post(URL).with_extension(trusted)
    })
    .await;
    assert_eq!((ended.report.outcome(), ended.report.stop()), (Outcome::Unprocessed, StopReason::AttemptsSpent));
    assert_eq!(ended.report.attempts().len(), 3);
    assert_eq!(ended.result.unwrap().text().await.unwrap(), "SlowDown");
}

/// "504" is an answer, and says nothing about the write.
#[tokio::test(start_paused = true)]
async fn an_answer_after_which_nobody_knows_is_handed_back_as_unknown() {
    for status in [500, 502, 503, 504, 429, 408] {
        for request in [marked_write, |client: &ClientWithMiddleware| client.post(URL).body("one coffee")] {
            let ended = sent(Step::status(status), request).await;
            assert_eq!(ended.status(), status);
            assert_eq!((ended.report.outcome(), ended.report.stop()), (Outcome::Unknown, StopReason::MayHaveHappened));
            assert_eq!(RetryReport::of(ended.response()).unwrap().outcome(), Outcome::Unknown);
        }
        let ended = sent(Step::status(status), keyed_write).await;
        assert_eq!((ended.report.outcome(), ended.report.stop()), (Outcome::Unknown, StopReason::AttemptsSpent));
    }
}

#[tokio::test(start_paused = true)]
async fn one_attempt_with_a_final_answer_has_nothing_to_tell_but_to_a_slot() {
    for status in [200, 201, 301, 400, 401, 404, 410, 501] {
        for request in [marked_write, keyed_write, |client: &ClientWithMiddleware| client.get(URL)] {
            let ended = sent(Step::status(status), request).await;
            assert!(RetryReport::of(ended.response()).is_none(), "{status}");
            let report = &ended.report;
            assert_eq!(
                (report.attempts().len(), report.stop(), report.outcome()),
                (1, StopReason::AnswerIsFinal, Outcome::Answered),
                "{status}"
            );
        }
    }
}

#[tokio::test(start_paused = true)]
async fn an_answer_after_resends_tells_of_all_of_them() {
    let peer = Scripted::new([Step::refused(), Step::status(500), Step::ok("done")]);
    let ended = end(client(steady(), &peer).put(URL)).await;
    let report = RetryReport::of(ended.response()).unwrap();
    let causes: Vec<_> = report.attempts().iter().map(|attempt| (attempt.number(), attempt.cause(), attempt.evidence())).collect();
    assert_eq!(
        causes,
        [(1, Cause::Connect, Evidence::Unprocessed), (2, Cause::Status, Evidence::Unknown), (3, Cause::Status, Evidence::Unknown)]
    );
    assert_eq!((report.stop(), report.outcome()), (StopReason::AnswerIsFinal, Outcome::Answered));
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_may_echo_our_own_success_is_flagged_and_not_explained_away() {
    for (method, endpoint) in [(Method::DELETE, None), (Method::PUT, None), (Method::POST, Some(Endpoint::idempotent_write()))] {
        for status in [404, 409, 410, 412] {
            for (first, outcome) in [
                (Step::fails(), Outcome::AnsweredAfterUnknown),
                (Step::status(500), Outcome::AnsweredAfterUnknown),
                (Step::refused(), Outcome::Answered),
                (Step::status(425), Outcome::Answered),
            ] {
                let peer = Scripted::new([first.clone(), Step::status(status)]);
                let mut request = client(steady(), &peer).request(method.clone(), URL);
                if let Some(endpoint) = endpoint.clone() {
                    request = request.with_extension(endpoint);
                }
                let ended = end(request).await;
                assert_eq!(ended.status(), status);
                assert_eq!(ended.report.outcome(), outcome, "{method} {first:?} {status}");
                assert_eq!(ended.report.stop(), StopReason::AnswerIsFinal);
            }
        }
        for status in [200, 204, 400, 403, 422] {
            let peer = Scripted::new([Step::fails(), Step::status(status)]);
            let ended = end(client(steady(), &peer).request(Method::DELETE, URL)).await;
            assert_eq!(ended.report.outcome(), Outcome::Answered, "{status}");
        }
    }
    let peer = Scripted::new([Step::fails(), Step::status(404)]);
    let read = end(client(steady(), &peer).get(URL)).await;
    assert_eq!(read.report.outcome(), Outcome::Answered, "a read has no success that it could echo");
}

// ===== a transport error =====

/// With and without resends, all predicates, the URL, and nothing wrapped.
#[tokio::test(start_paused = true)]
async fn the_transports_error_of_what_nothing_marks_or_only_reads_is_unchanged() {
    for request in unmarked_or_read() {
        for attempts in [1, 3] {
            let policy = reqwest_safe_retry::RetryPolicy::DEFAULT.with_attempts(attempts);
            for (step, connect, timeout, builder) in [
                (Step::fails(), false, false, false),
                (Step::refused(), true, false, false),
                (Step::times_out(), false, true, false),
                (Step::broken(), false, false, true),
            ] {
                let ended = sent_by(steady().with_policy(policy), step.clone(), request).await;
                let error = ended.error();
                assert!(matches!(error, Error::Reqwest(_)), "{step:?}");
                assert_eq!((error.is_connect(), error.is_timeout(), error.is_builder()), (connect, timeout, builder), "{step:?}");
                assert_eq!(error.url().unwrap().host_str(), Some("peer.test"));
                assert!(error.safe_retry().is_none());
                assert!(error.transport_error().is_some());
                assert_eq!(error.timed_out(), timeout);
                assert_eq!(error.evidence(), Evidence::Unknown, "it carries no proof; the slot does");
                assert!(!ended.report.attempts().is_empty());
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_transport_error_of_a_marked_write_that_never_left_says_unprocessed() {
    for request in marked_writes() {
        let ended = sent(Step::refused(), request).await;
        assert!(matches!(ours(&ended), RetryError::Unprocessed(_)));
        assert_eq!((ended.report.outcome(), ended.report.evidence()), (Outcome::Unprocessed, Evidence::Unprocessed));
        assert_ours(&ended);
        assert_transport_behind(&ended);
        assert!(ended.error().transport_error().unwrap().is_connect());
        assert!(!ended.error().timed_out());
    }
}

#[tokio::test(start_paused = true)]
async fn a_transport_error_of_a_marked_write_after_which_nobody_knows_says_so() {
    for request in marked_writes() {
        for (step, timed_out) in [(Step::fails(), false), (Step::times_out(), true)] {
            let ended = sent(step, request).await;
            assert!(matches!(ours(&ended), RetryError::OutcomeUnknown(_)));
            assert_eq!((ended.report.outcome(), ended.report.evidence()), (Outcome::Unknown, Evidence::Unknown));
            assert_ours(&ended);
            assert_transport_behind(&ended);
            assert_eq!(ended.error().timed_out(), timed_out);
        }
    }
}

/// Evidence is sticky: one unknown attempt is enough.
#[tokio::test(start_paused = true)]
async fn one_unknown_attempt_makes_the_whole_write_unknown() {
    let peer = Scripted::new([Step::refused(), Step::fails(), Step::refused()]);
    let ended = end(marked_write(&client(steady(), &peer))).await;
    assert!(matches!(ours(&ended), RetryError::OutcomeUnknown(_)));
    peer.assert_sends(2);
    let peer = Scripted::new([Step::fails(), Step::refused()]);
    let ended = end(keyed_write(&client(steady(), &peer))).await;
    assert!(matches!(ours(&ended), RetryError::OutcomeUnknown(_)));
    peer.assert_sends(3);
}

// ===== our attempt limit =====

#[tokio::test(start_paused = true)]
async fn an_attempt_limit_of_what_nothing_marks_or_only_reads_says_attempt_timed_out() {
    for request in unmarked_or_read() {
        let ended = sent_by(steady().with_attempt_limit(seconds(1)), Step::hangs(), request).await;
        assert!(matches!(ours(&ended), RetryError::AttemptTimedOut(_)));
        assert!(ours(&ended).source().is_none() && ended.error().transport_error().is_none());
        assert!(ended.error().timed_out());
        assert_ours(&ended);
    }
}

#[tokio::test(start_paused = true)]
async fn an_attempt_limit_of_a_marked_write_that_never_left_says_unprocessed() {
    let ended = sent_by(steady().with_attempt_limit(seconds(1)), Step::hangs_connecting(), marked_write).await;
    assert!(matches!(ours(&ended), RetryError::Unprocessed(_)));
    assert_eq!(ended.report.attempts().len(), 3);
    assert!(ended.error().timed_out());
    assert_ours(&ended);
}

#[tokio::test(start_paused = true)]
async fn an_attempt_limit_of_a_marked_write_after_which_nobody_knows_says_so() {
    for request in marked_writes() {
        let ended = sent_by(steady().with_attempt_limit(seconds(1)), Step::hangs(), request).await;
        assert!(matches!(ours(&ended), RetryError::OutcomeUnknown(_)));
        assert!(ended.error().timed_out());
        assert_ours(&ended);
    }
}

// ===== our deadline =====

#[tokio::test(start_paused = true)]
async fn a_deadline_before_anything_was_sent_says_deadline_exceeded_to_everybody() {
    for request in unmarked_or_read().into_iter().chain(marked_writes()) {
        let ended =
            sent_by(steady(), Step::status(200), |client| request(client).with_extension(Deadline::after(std::time::Duration::ZERO))).await;
        assert!(matches!(ours(&ended), RetryError::DeadlineExceeded(_)));
        assert!(ended.error().timed_out());
        assert_eq!(ended.report.outcome(), Outcome::Unprocessed);
        assert!(!ended.report.key_was_sent());
        assert_ours(&ended);
    }
}

#[tokio::test(start_paused = true)]
async fn a_deadline_of_what_nothing_marks_or_only_reads_says_deadline_exceeded() {
    let retry = || steady().with_deadline(seconds(1));
    let [get, post, put, read] = unmarked_or_read();
    for (request, step) in [(get, Step::hangs()), (read, Step::hangs()), (post, Step::hangs_connecting())] {
        let ended = sent_by(retry(), step, request).await;
        assert!(matches!(ours(&ended), RetryError::DeadlineExceeded(_)));
        assert!(ended.error().timed_out());
        assert_ours(&ended);
    }
    // Nothing marks them, but something may have been written.
    for request in [post, put] {
        let ended = sent_by(retry(), Step::hangs(), request).await;
        assert!(matches!(ours(&ended), RetryError::OutcomeUnknown(_)));
        assert!(ended.error().timed_out());
        assert_ours(&ended);
    }
}

#[tokio::test(start_paused = true)]
async fn a_deadline_of_a_marked_write_that_never_left_says_unprocessed() {
    let ended = sent_by(steady().with_deadline(seconds(1)), Step::hangs_connecting(), marked_write).await;
    assert!(matches!(ours(&ended), RetryError::Unprocessed(_)));
    assert!(ended.error().timed_out());
    assert_ours(&ended);
}

#[tokio::test(start_paused = true)]
async fn a_deadline_of_a_marked_write_after_which_nobody_knows_says_so() {
    for request in marked_writes() {
        let ended = sent_by(steady().with_deadline(seconds(1)), Step::hangs(), request).await;
        assert!(matches!(ours(&ended), RetryError::OutcomeUnknown(_)));
        assert!(ended.error().timed_out());
        assert_ours(&ended);
    }
}

// ===== an inner middleware's own error =====

struct Refuses;

#[derive(Debug, thiserror::Error)]
#[error("no signature today")]
struct NoSignature;

#[async_trait::async_trait]
impl Middleware for Refuses {
    async fn handle(&self, _: Request, _: &mut http::Extensions, _: Next<'_>) -> Result<Response> {
        Err(Error::Middleware(anyhow::Error::new(NoSignature)))
    }
}

#[tokio::test(start_paused = true)]
async fn an_inner_middlewares_own_error_is_unchanged_and_not_asked_for_again() {
    for request in unmarked_or_read().into_iter().chain(marked_writes()) {
        let peer = Scripted::answering(200);
        let client = builder().with(steady()).with(Refuses).with(SendWitness::redirects_off()).with(peer.clone()).build();
        let ended = end(request(&client)).await;
        let Error::Middleware(error) = ended.error() else { panic!("{:?}", ended.error()) };
        assert!(error.is::<NoSignature>());
        assert!(ended.error().safe_retry().is_none() && ended.error().transport_error().is_none() && !ended.error().timed_out());
        assert_eq!((ended.report.stop(), ended.report.attempts().len()), (StopReason::Broken, 1));
        assert_eq!(ended.report.attempts()[0].cause(), Cause::Middleware);
        peer.assert_sends(0);
    }
}

// ===== the replay factory fails =====

fn failing_after(good: usize) -> ReplayBody {
    let left = std::sync::atomic::AtomicUsize::new(good);
    ReplayBody::from_fn(move || {
        let make = left.fetch_update(std::sync::atomic::Ordering::SeqCst, std::sync::atomic::Ordering::SeqCst, |left| left.checked_sub(1));
        make.map(|_| "one coffee".into()).map_err(|_| io::Error::other("the disk is gone"))
    })
}

#[tokio::test(start_paused = true)]
async fn a_factory_that_fails_for_the_first_attempt_is_misuse() {
    for endpoint in [None, Some(Endpoint::read()), Some(Endpoint::unprotected_write()), Some(Endpoint::keyed_write(KeyContract::STRIPE))] {
        let peer = Scripted::answering(200);
        let mut request = client(steady(), &peer).post(URL).with_extension(failing_after(0));
        if let Some(endpoint) = endpoint {
            request = request.with_extension(endpoint);
        }
        let ended = end(request).await;
        assert!(matches!(ours(&ended), RetryError::Misused(Misuse::FactoryFailed(_))));
        let mut chain = std::iter::successors(Some(ours(&ended) as &dyn StdError), |error| (*error).source());
        assert!(chain.any(|error| error.is::<io::Error>()));
        assert_eq!((ended.report.stop(), ended.report.attempts().len()), (StopReason::Misused, 0));
        assert_eq!(ended.error().evidence(), Evidence::Unprocessed);
        peer.assert_sends(0);
    }
}

#[tokio::test(start_paused = true)]
async fn a_factory_that_fails_later_is_judged_by_what_is_known() {
    let endpoints = || [None, Some(Endpoint::idempotent_write()), Some(Endpoint::keyed_write(KeyContract::STRIPE))];
    for endpoint in endpoints() {
        for (step, unknown) in [(Step::refused(), false), (Step::fails(), true), (Step::status(500), true)] {
            let peer = Scripted::new([step.clone()]);
            let mut request = client(steady(), &peer).put(URL).with_extension(failing_after(1));
            if let Some(endpoint) = endpoint.clone() {
                request = request.with_extension(endpoint);
            }
            let ended = end(request).await;
            match ours(&ended) {
                RetryError::OutcomeUnknown(_) => assert!(unknown, "{step:?}"),
                RetryError::Unprocessed(_) => assert!(!unknown, "{step:?}"),
                other => panic!("{other:?}"),
            }
            assert_eq!(ended.report.stop(), StopReason::BodyConsumed);
            assert_ours(&ended);
            peer.assert_sends(1);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_factory_for_another_operation_is_misuse() {
    let peer = Scripted::answering(200);
    let transport = reqwest::Client::new();
    let other = ReplayRequest::from_fn(move || transport.post("http://peer.test/elsewhere").body("one coffee").build());
    let ended = end(client(steady(), &peer).post(URL).with_extension(other)).await;
    assert!(matches!(ours(&ended), RetryError::Misused(Misuse::FactoryFailed(_))));
    assert!(ended.error().to_string().contains("made a request for another method or URL"), "{}", ended.error());
    peer.assert_sends(0);
}

/// As one that signs the query anew does. The caller reads the message, and not its sources.
#[tokio::test(start_paused = true)]
async fn an_error_says_what_the_factory_made_instead() {
    fn made(url: &str, body: Option<&'static str>) -> Request {
        let mut request = Request::new(Method::POST, url.parse().unwrap());
        *request.body_mut() = body.map(Into::into);
        request
    }
    let another = || made("http://peer.test/orders?signature=S3CRET", Some("one coffee"));
    let without_body = || made(URL, None);
    for (said, make) in [
        ("the replay factory made a request for another method or URL", another as fn() -> Request),
        ("the replay factory made a request without a body", without_body),
    ] {
        let peer = Scripted::new([Step::fails()]);
        let factory = ReplayRequest::from_fn(move || Ok::<_, io::Error>(make()));
        let keyed = Endpoint::keyed_write(KeyContract::STRIPE);
        let ended = end(client(steady(), &peer).post(URL).body("one coffee").with_extension(keyed).with_extension(factory)).await;
        assert!(matches!(ours(&ended), RetryError::OutcomeUnknown(_)));
        let message = ended.error().to_string();
        assert!(message.contains(said) && !message.contains("S3CRET"), "{message}");
        peer.assert_writes(1);
    }
}

// ===== the body is lost =====

#[tokio::test(start_paused = true)]
async fn a_lost_body_of_a_read_is_the_transports_own_error() {
    let ended =
        sent(Step::status(200).with_cut_body("begin"), |client| client.get(SECRETS).with_extension(Endpoint::read().reading_body(1024)))
            .await;
    let Error::Reqwest(error) = ended.error() else { panic!("{:?}", ended.error()) };
    assert!(error.is_body() || error.is_decode());
    assert_eq!((ended.report.attempts().len(), ended.report.attempts()[0].cause()), (3, Cause::BodyLost));
}

#[tokio::test(start_paused = true)]
async fn a_body_that_a_limit_cut_says_which() {
    let page = || Endpoint::read().reading_body(1024);
    let stalled = || Step::status(200).with_stalled_body("begin");
    let ended = sent(stalled(), |client| client.get(SECRETS).with_extension(page().with_attempt_limit(seconds(1)))).await;
    assert!(matches!(ours(&ended), RetryError::AttemptTimedOut(_)));
    assert_ours(&ended);
    let ended = sent(stalled(), |client| client.get(SECRETS).with_extension(page().with_deadline(seconds(1)))).await;
    assert!(matches!(ours(&ended), RetryError::DeadlineExceeded(_)));
    assert_ours(&ended);
}

#[tokio::test(start_paused = true)]
async fn a_lost_body_of_a_write_with_a_final_status_tells_that_status() {
    for (body, timed_out) in [(Step::status(201).with_cut_body("begin"), false), (Step::status(201).with_stalled_body("begin"), true)] {
        let ended = sent(body, |client| {
            client.post(SECRETS).with_extension(Endpoint::unprotected_write().with_attempt_limit(seconds(1)).reading_body(1024))
        })
        .await;
        assert!(matches!(ours(&ended), RetryError::BodyLost(_)));
        assert_eq!(ours(&ended).status().unwrap(), 201);
        assert_eq!(ended.error().timed_out(), timed_out);
        assert_eq!((ended.report.outcome(), ended.report.attempts().len()), (Outcome::Answered, 1));
        assert_ours(&ended);
        if !timed_out {
            assert_transport_behind(&ended);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_lost_body_of_a_write_without_a_final_status_says_unknown() {
    let ended = sent(Step::status(500).with_cut_body("begin"), |client| {
        client.post(SECRETS).with_extension(Endpoint::unprotected_write().reading_body(1024))
    })
    .await;
    assert!(matches!(ours(&ended), RetryError::OutcomeUnknown(_)));
    assert_eq!(ours(&ended).status().unwrap(), 500);
    assert_ours(&ended);
    assert_transport_behind(&ended);
}

// ===== an answer given back, then time is up =====

/// The clock jumps over the deadline during the pause.
async fn time_up_in_the_pause(step: Step, request: fn(&ClientWithMiddleware) -> RequestBuilder) -> Ended {
    let peer = Scripted::new([step]);
    let request = request(&client(steady().with_deadline(seconds(5)), &peer));
    let ended = tokio::spawn(end(request));
    peer.until_sends(1).await;
    tokio::task::yield_now().await;
    tokio::time::advance(seconds(6)).await;
    peer.assert_sends(1);
    ended.await.unwrap()
}

#[tokio::test(start_paused = true)]
async fn time_up_after_an_answer_was_given_back_says_deadline_exceeded_with_its_status() {
    let [get, _, put, read] = unmarked_or_read();
    for request in [get, put, read] {
        let ended = time_up_in_the_pause(Step::status(503), request).await;
        assert!(matches!(ours(&ended), RetryError::DeadlineExceeded(_)));
        assert_eq!(ours(&ended).status().unwrap(), 503);
        assert!(ended.error().timed_out());
        assert_ours(&ended);
    }
}

#[tokio::test(start_paused = true)]
async fn time_up_after_a_refusal_was_given_back_says_unprocessed() {
    let ended = time_up_in_the_pause(Step::status(503), |client| {
        let trusted = Endpoint::unprotected_write().trusting_refusal(StatusCode::SERVICE_UNAVAILABLE);
        client.post(SECRETS).with_extension(trusted)
    })
    .await;
    assert!(matches!(ours(&ended), RetryError::Unprocessed(_)));
    assert_eq!(ours(&ended).status().unwrap(), 503);
    assert!(ended.error().timed_out());
    assert_ours(&ended);
}

#[tokio::test(start_paused = true)]
async fn time_up_after_an_answer_to_a_write_was_given_back_says_unknown_with_its_status() {
    let ended = time_up_in_the_pause(Step::status(503), keyed_write).await;
    assert!(matches!(ours(&ended), RetryError::OutcomeUnknown(_)));
    assert_eq!(ours(&ended).status().unwrap(), 503);
    assert!(ended.error().timed_out());
    assert_ours(&ended);
}

// ===== wrong use =====

#[tokio::test(start_paused = true)]
async fn wrong_use_is_told_before_anything_is_sent_and_leaves_a_report_without_attempts() {
    let must = KeyContract::STRIPE.with_source(KeySource::CallerMust);
    let key = || IdempotencyKey::parse("SECRET-key").unwrap();
    type Build = Box<dyn Fn(&ClientWithMiddleware) -> RequestBuilder>;
    let wrong: Vec<Build> = vec![
        Box::new(move |client| client.post(SECRETS).with_extension(Endpoint::keyed_write(must.clone()))),
        Box::new(|client| {
            client.post(SECRETS).header("idempotency-key", "SECRET key ").with_extension(Endpoint::keyed_write(KeyContract::STRIPE))
        }),
        Box::new(|client| {
            let twice = client.post(SECRETS).header("idempotency-key", "SECRET-1").header("idempotency-key", "SECRET-2");
            twice.with_extension(Endpoint::keyed_write(KeyContract::STRIPE))
        }),
        Box::new(move |client| client.post(SECRETS).with_extension(key())),
        Box::new(move |client| client.get(SECRETS).with_extension(Endpoint::read()).with_extension(key())),
    ];
    for request in wrong {
        let peer = Scripted::answering(200);
        let ended = end(request(&client(steady(), &peer))).await;
        assert!(matches!(ours(&ended), RetryError::Misused(_)));
        assert!(ours(&ended).report().is_none() && ours(&ended).key().is_none() && ours(&ended).status().is_none());
        assert_eq!((ended.report.stop(), ended.report.outcome()), (StopReason::Misused, Outcome::Unprocessed));
        assert!(ended.report.attempts().is_empty() && !ended.report.key_was_sent());
        assert!(!ended.error().timed_out());
        assert!(!printed(ended.error()).contains("SECRET"));
        peer.assert_sends(0);
    }
}

// ===== what errors carry =====

#[tokio::test(start_paused = true)]
async fn an_error_carries_the_key_that_was_sent() {
    let ended = sent(Step::fails(), keyed_write).await;
    assert_eq!(ours(&ended).key().unwrap().as_str(), "SECRET-key");
    assert!(ended.report.key_was_sent());

    let peer = Scripted::new([Step::fails()]);
    let generated = end(client(steady(), &peer).post(URL).with_extension(Endpoint::keyed_write(KeyContract::STRIPE))).await;
    assert_eq!(peer.requests()[0].header("idempotency-key"), Some(ours(&generated).key().unwrap().as_str()));
    assert!(ours(&sent(Step::fails(), marked_write).await).key().is_none());

    let quoted = Endpoint::keyed_write(KeyContract::ietf(seconds(60)));
    let written = sent(Step::fails(), |client| client.post(URL).header("idempotency-key", "\"order-2041\"").with_extension(quoted)).await;
    assert_eq!(ours(&written).key().unwrap().as_str(), "order-2041", "also one that the caller wrote into the header");
}

#[tokio::test(start_paused = true)]
async fn an_error_names_method_and_origin_and_its_endpoint() {
    let ended = sent(Step::fails(), marked_write).await;
    let report = ours(&ended).report().unwrap();
    assert_eq!((report.method().as_str(), report.origin().to_string().as_str()), ("POST", "http://peer.test:80"));
    assert_eq!(report.endpoint(), Some("create order"));
    let text = ended.error().to_string();
    assert!(text.contains("POST http://peer.test:80") && text.contains("outcome unknown"), "{text}");
}

/// Also where a middleware outside adds its own words.
#[tokio::test(start_paused = true)]
async fn an_error_is_found_behind_the_context_of_an_outer_middleware() {
    struct Context;
    #[async_trait::async_trait]
    impl Middleware for Context {
        async fn handle(&self, request: Request, extensions: &mut http::Extensions, next: Next<'_>) -> Result<Response> {
            let result = next.run(request, extensions).await;
            result.map_err(|error| Error::Middleware(anyhow::Error::new(error).context("while ordering coffee")))
        }
    }
    for layers in [1, 3] {
        for step in [Step::fails(), Step::times_out()] {
            let outside = (0..layers).fold(builder(), |builder, _| builder.with(Context));
            let client = outside.with(steady()).with(SendWitness::redirects_off()).with(Scripted::new([step])).build();
            let write = marked_write(&client).send().await.unwrap_err();
            assert!(matches!(write.safe_retry(), Some(RetryError::OutcomeUnknown(_))));
            assert_eq!(write.evidence(), Evidence::Unknown);
            let read = client.get(URL).send().await.unwrap_err();
            assert!(read.safe_retry().is_none());
            assert_eq!(read.timed_out(), read.transport_error().unwrap().is_timeout());
            assert_eq!(write.timed_out(), read.timed_out());
        }
    }
}

#[test]
fn an_error_can_go_wherever_errors_go() {
    fn anywhere<E: StdError + Send + Sync + 'static>() {}
    anywhere::<RetryError>();
}

#[tokio::test(start_paused = true)]
async fn what_is_proven_is_in_the_error_and_in_the_slot() {
    let unprocessed = sent(Step::refused(), marked_write).await;
    assert_eq!((unprocessed.error().evidence(), unprocessed.report.evidence()), (Evidence::Unprocessed, Evidence::Unprocessed));
    let plain = sent(Step::refused(), |client| client.post(URL)).await;
    assert_eq!((plain.error().evidence(), plain.report.evidence()), (Evidence::Unknown, Evidence::Unprocessed));
    assert_eq!(plain.report.outcome(), Outcome::Unprocessed);
}

#[tokio::test(start_paused = true)]
async fn a_slot_is_empty_until_the_end_and_after_it_was_taken() {
    let slot = ReportSlot::new();
    let peer = Scripted::new([Step::ok("done").after(seconds(1))]);
    let sending = client(steady(), &peer).get(URL).with_extension(slot.clone()).send();
    let sending = tokio::spawn(sending);
    peer.until_sends(1).await;
    assert!(slot.take().is_none());
    sending.await.unwrap().unwrap();
    assert!(slot.take().is_some());
    assert!(slot.take().is_none());
}
