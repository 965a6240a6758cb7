//! The limits a client already has keep working, and the errors it hands out stay what they were.

use std::{error::Error as StdError, time::Duration};

use futures_util::future::join_all;
use reqwest::{Method, Response, StatusCode};
use reqwest_middleware::{Error, RequestBuilder, Result};
use reqwest_safe_retry::{
    Cause, Endpoint, Evidence, Outcome, ReportSlot, RetryError, RetryErrorExt, RetryPolicy, RetryReport, SafeRetry, StopReason,
    report::TimeLimit,
    testing::{Fault, FaultServer},
};

use crate::support::wire::{Dead, QUICK, Road, bounded, marked, plain};

const SHORT: Duration = Duration::from_millis(250);
const LONG: Duration = Duration::from_secs(5);

fn retry() -> SafeRetry {
    SafeRetry::new().with_policy(QUICK)
}

async fn send(request: RequestBuilder) -> (Result<Response>, RetryReport) {
    let slot = ReportSlot::new();
    let result = bounded(request.with_extension(slot.clone()).send()).await;
    (result, slot.take().unwrap())
}

fn causes(report: &RetryReport) -> Vec<Cause> {
    report.attempts().iter().map(|attempt| attempt.cause()).collect()
}

// ===== timeouts =====

#[tokio::test]
async fn the_clients_own_timeout_ends_an_attempt_and_the_larger_deadline_the_operation() {
    join_all(Road::ALL.map(|road| async move {
        let server = FaultServer::start([Fault::hang(), Fault::ok("done")]).await;
        let client = road.client_of(retry().with_deadline(LONG), plain().timeout(3 * SHORT));
        let (result, report) = send(client.get(server.url("/"))).await;
        assert_eq!(result.unwrap().status(), StatusCode::OK);
        assert_eq!(causes(&report), [Cause::TimedOut(TimeLimit::Client), Cause::Status]);
        assert!(report.attempts()[0].took() >= 3 * SHORT && report.attempts()[0].took() < LONG);
        server.assert_requests(2);
    }))
    .await;
}

#[tokio::test]
async fn a_requests_own_timeout_is_kept_by_every_attempt_and_beats_the_clients() {
    join_all(Road::ALL.map(|road| async move {
        let server = FaultServer::start([Fault::hang()]).await;
        let client = road.client_of(retry().with_deadline(LONG), plain().timeout(2 * LONG));
        let (result, report) = send(client.get(server.url("/")).timeout(SHORT)).await;
        assert!(matches!(&result, Err(Error::Reqwest(error)) if error.is_timeout()), "{result:?}");
        assert_eq!(causes(&report), [Cause::TimedOut(TimeLimit::Client); 3]);
        assert!(report.attempts().iter().all(|attempt| attempt.took() >= SHORT && attempt.took() < LONG));
        assert_eq!(report.stop(), StopReason::AttemptsSpent);
        server.assert_requests(3);
    }))
    .await;
}

#[tokio::test]
async fn the_shorter_of_the_clients_and_our_own_limit_counts() {
    join_all(Road::ALL.map(|road| async move {
        let server = FaultServer::start([Fault::hang(), Fault::ok("done")]).await;
        let client = road.client_of(retry().with_attempt_limit(3 * SHORT).with_deadline(LONG), plain().timeout(2 * LONG));
        let (result, report) = send(client.get(server.url("/")).timeout(LONG)).await;
        assert_eq!(result.unwrap().status(), StatusCode::OK);
        assert_eq!(causes(&report), [Cause::TimedOut(TimeLimit::Attempt), Cause::Status]);
        server.assert_requests(2);
    }))
    .await;
}

#[tokio::test]
async fn without_any_limit_a_slow_answer_is_waited_for() {
    let server = FaultServer::start([Fault::ok("done").after(3 * SHORT)]).await;
    // Not even the window, within which resends may start, cuts an attempt.
    let policy = QUICK.with_window(SHORT);
    let cells = Road::ALL.into_iter().flat_map(|road| [Method::GET, Method::POST].map(|method| (road, method)));
    let slow = cells.map(|(road, method)| send(road.client(policy).request(method, server.url("/"))));
    for (result, _) in join_all(slow).await {
        assert_eq!(result.unwrap().text().await.unwrap(), "done");
    }
    server.assert_requests(12);
}

#[tokio::test]
async fn slow_is_not_failed_for_a_write() {
    let endpoints = [None, Some(Endpoint::unprotected_write())];
    join_all(Road::ALL.into_iter().flat_map(|road| endpoints.clone().map(|endpoint| (road, endpoint))).map(
        |(road, endpoint)| async move {
            let server = FaultServer::start([Fault::status(201).after(3 * SHORT)]).await;
            let client = road.client_of(retry().with_attempt_limit(SHORT), plain());
            let (result, report) = send(marked(client.post(server.url("/orders")).body("one ticket"), endpoint.as_ref())).await;
            let error = result.unwrap_err();
            assert!(error.timed_out(), "{error:?}");
            match (&endpoint, error.safe_retry().unwrap()) {
                (None, RetryError::AttemptTimedOut(_)) | (Some(_), RetryError::OutcomeUnknown(_)) => {}
                (_, other) => panic!("{road:?}: {other:?}"),
            }
            assert_eq!((report.outcome(), report.stop()), (Outcome::Unknown, StopReason::MayHaveHappened));
            server.assert_writes(1);
        },
    ))
    .await;
}

/// A timeout in the body is a timeout, and the head has come all the same.
#[tokio::test]
async fn the_clients_timeout_in_a_body_is_told_with_the_status_that_came() {
    let cells = Road::ALL.into_iter().flat_map(|road| [201, 503].map(|status| (road, status)));
    // Building a client takes long, and the others' time would be running.
    let cells = cells.map(|(road, status)| (road, status, road.client_of(retry(), plain().timeout(2 * SHORT)))).collect::<Vec<_>>();
    join_all(cells.into_iter().map(|(road, status, client)| async move {
        let server = FaultServer::start([Fault::status(status).with_body("one ticket").with_body_stalled_at(3)]).await;
        let endpoint = Endpoint::unprotected_write().reading_body(1000);
        let (result, report) = send(client.post(server.url("/orders")).body("one ticket").with_extension(endpoint)).await;
        let error = result.unwrap_err();
        assert!(error.timed_out(), "{road:?}: {error:?}");
        assert!(error.transport_error().unwrap().is_timeout() && !error.transport_error().unwrap().is_connect());
        match (status, error.safe_retry().unwrap()) {
            (201, RetryError::BodyLost(_)) | (503, RetryError::OutcomeUnknown(_)) => {}
            (_, other) => panic!("{road:?}: {other:?}"),
        }
        assert_eq!(error.safe_retry().unwrap().status().unwrap(), status);
        let [attempt] = report.attempts() else { panic!("one attempt") };
        assert_eq!((attempt.cause(), attempt.evidence()), (Cause::TimedOut(TimeLimit::Client), Evidence::Unknown));
        server.assert_writes(1);
    }))
    .await;
}

#[tokio::test]
async fn a_wait_that_does_not_fit_the_deadline_returns_the_answer_at_once() {
    for road in Road::ALL {
        let server = FaultServer::start([Fault::status(429).with_retry_after(60).with_body("slow down")]).await;
        let client = road.client_of(SafeRetry::new().with_policy(RetryPolicy::DEFAULT).with_deadline(2 * LONG), plain());
        let (result, report) = send(client.get(server.url("/"))).await;
        let response = result.unwrap();
        assert_eq!((response.status(), response.headers()["retry-after"].to_str().unwrap()), (StatusCode::TOO_MANY_REQUESTS, "60"));
        assert_eq!(RetryReport::of(&response).unwrap().stop(), StopReason::DeadlineTooNear);
        assert_eq!(bounded(response.text()).await.unwrap(), "slow down");
        assert_eq!((report.hint(), report.attempts().len()), (Some(Duration::from_secs(60)), 1));
        assert!(report.took() < LONG, "{:?}", report.took());
        server.assert_requests(1);
    }
}

// ===== errors =====

const SECRETS: &str = "/orders/s3cret-path?api_key=s3cret-query";

/// The error, and everything below it, as it could get into a log.
fn printed(error: &(dyn StdError + 'static)) -> String {
    std::iter::successors(Some(error), |error| (*error).source()).map(|error| format!("{error} {error:?} {error:#?}\n")).collect()
}

#[tokio::test]
async fn an_unmarked_request_keeps_the_transports_error_with_all_its_predicates() {
    let dead = Dead::new();
    for (road, attempts) in Road::ALL.into_iter().flat_map(|road| [1, 3].map(|attempts| (road, attempts))) {
        let client = road.client(QUICK.with_attempts(attempts));
        for request in [client.get(dead.url(SECRETS)), client.post(dead.url(SECRETS)).body("one coffee")] {
            let (result, _) = send(request).await;
            let error = result.unwrap_err();
            assert!(error.is_connect() && error.is_request() && !error.is_timeout() && error.status().is_none(), "{error:?}");
            assert_eq!(error.url().unwrap().as_str(), dead.url(SECRETS));
            assert!(error.transport_error().unwrap().is_connect());
            let clean = printed(&error.without_url());
            assert!(!clean.contains("s3cret"), "{clean}");
        }
    }
}

#[tokio::test]
async fn a_marked_writes_error_holds_the_transports_and_prints_no_secret() {
    let dead = Dead::new();
    let server = FaultServer::start([Fault::close_after_request()]).await;
    let url = |base: &str| base.replace("http://", "http://user:s3cret-password@");
    for road in Road::ALL {
        for target in [url(&dead.url(SECRETS)), url(server.url(SECRETS).as_str())] {
            let request = road.client(QUICK).post(&target).header("authorization", "Bearer s3cret-token").body("s3cret-body");
            let (result, report) = send(request.with_extension(Endpoint::unprotected_write())).await;
            let error = result.unwrap_err();
            let Error::Middleware(ours) = &error else { panic!("{error:?}") };
            assert!(ours.chain().any(|cause| cause.is::<reqwest::Error>()), "{error:?}");
            assert!(ours.downcast_ref::<RetryError>().unwrap().source().unwrap().is::<reqwest::Error>());
            assert!(std::iter::successors(error.source(), |error| (*error).source()).any(|cause| cause.is::<reqwest::Error>()));
            assert_eq!(error.transport_error().unwrap().is_connect(), target.contains(&dead.address().to_string()));
            assert_eq!(error.evidence(), report.evidence());
            let all = printed(&error) + &format!("{report:?}");
            assert!(!all.contains("s3cret"), "{all}");
        }
    }
}

#[tokio::test]
async fn a_plain_error_carries_no_proof_and_the_slot_does() {
    let dead = Dead::new();
    let (result, report) = send(Road::Paved.client(QUICK).post(dead.url("/orders"))).await;
    let error = result.unwrap_err();
    assert!(matches!(error, Error::Reqwest(_)));
    assert_eq!((error.evidence(), report.evidence()), (Evidence::Unknown, Evidence::Unprocessed));
}

#[tokio::test]
async fn two_of_us_in_one_stack_send_no_more_than_one() {
    for fault in [Fault::status(503), Fault::reset_after_request()] {
        let server = FaultServer::start([fault]).await;
        let client = Road::Unwitnessed.client_with(retry(), plain(), retry());
        let (_, report) = send(client.get(server.url("/"))).await;
        assert_eq!(report.attempts().len(), 3);
        server.assert_requests(3);
    }
}
