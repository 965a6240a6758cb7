//! Connections: a failed answer gives its own back before the pause, as far as that is cheap, and the final answer is left alone.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test's helper may panic as the test itself may")]

#[allow(dead_code, reason = "each test file uses some of it")]
mod support;

use std::{pin::pin, time::Duration};

use futures_util::future::{Either, select};
use reqwest::{Response, StatusCode};
use reqwest_middleware::{ClientWithMiddleware, Result};
use reqwest_safe_retry::{
    BudgetLimits, RetryBudget, RetryErrorExt, RetryPolicy, RetryReport, SafeRetry,
    testing::{Fault, FaultServer, H2Fault},
};
use support::{QUICK, Road, bounded, pausing, plain, within};

const KIB: usize = 1024;

/// Longer than draining may take.
const PAUSE: Duration = Duration::from_millis(60);

async fn get(client: &ClientWithMiddleware, server: &FaultServer) -> Result<Response> {
    bounded(client.get(server.url("/orders")).send()).await
}

/// Has these overloads answered one GET before it succeeds, and counts the connections that took.
async fn connections(overload: Fault, pause: Duration) -> usize {
    let server = FaultServer::start([overload.clone(), overload.clone(), overload, Fault::ok("done")]).await;
    let response = get(&Road::Paved.client(pausing(pause).with_attempts(4)), &server).await.unwrap();
    assert_eq!(response.status(), StatusCode::OK);
    assert_eq!(RetryReport::of(&response).unwrap().attempts().len(), 4);
    server.assert_requests(4);
    server.connections()
}

fn overload(bytes: usize) -> Fault {
    Fault::status(503).with_body(vec![b'.'; bytes])
}

/// B79 (a).
#[tokio::test]
async fn a_failed_answer_gives_its_connection_to_the_next_attempt() {
    for bytes in [0, KIB, 16 * KIB, 64 * KIB] {
        for fault in [overload(bytes), overload(bytes).chunked(), overload(bytes).with_body_after(Duration::from_millis(3))] {
            // A busy machine may take longer than draining may; what is dropped unread would cost a connection each time.
            let mut counts = Vec::new();
            while counts.len() < 5 && counts.last() != Some(&1) {
                counts.push(connections(fault.clone(), PAUSE).await);
            }
            assert_eq!(counts.last(), Some(&1), "{fault:?} of {bytes} bytes: {counts:?}");
        }
    }
}

#[tokio::test]
async fn many_failed_answers_in_a_row_take_one_connection() {
    const OVERLOADS: usize = 40;
    let policy = pausing(Duration::from_millis(25)).with_attempts(41).with_window(Duration::MAX);
    // A busy machine may take longer than the pause to read an answer to its end.
    let mut counts = Vec::new();
    while counts.len() < 5 && counts.last() != Some(&1) {
        let slow = overload(KIB).with_body_after(Duration::from_millis(1)); // dropped unread, it would cost its connection
        let server = FaultServer::start(std::iter::repeat_n(slow, OVERLOADS).chain([Fault::ok("done")])).await;
        let retry = SafeRetry::new().with_policy(policy).with_budget(RetryBudget::new(BudgetLimits::UNLIMITED));
        let response = get(&Road::Paved.client_of(retry, plain()), &server).await.unwrap();
        assert_eq!(response.text().await.unwrap(), "done");
        server.assert_requests(OVERLOADS + 1);
        counts.push(server.connections());
    }
    assert_eq!(counts.last(), Some(&1), "{counts:?}");
}

#[tokio::test]
async fn an_answer_too_long_to_be_drained_gives_its_connection_up() {
    assert_eq!(connections(overload(64 * KIB + 1), PAUSE).await, 4);
    assert_eq!(connections(overload(1024 * KIB).chunked(), PAUSE).await, 4);
}

/// B79 (b).
#[tokio::test]
async fn many_failed_answers_with_bodies_do_no_harm_to_a_shared_connection() {
    const OVERLOADS: usize = 2000;
    let overloads = vec![H2Fault::status(503).with_body(vec![b'.'; 16 * KIB]); OVERLOADS];
    let server = FaultServer::start_h2(overloads.into_iter().chain([H2Fault::ok("done")])).await;
    let policy = pausing(Duration::ZERO).with_attempts(2001).with_window(Duration::MAX);
    let retry = SafeRetry::new().with_policy(policy).with_budget(RetryBudget::new(BudgetLimits::UNLIMITED));
    let client = Road::Paved.client_of(retry, plain().http2_prior_knowledge());
    let response = within(Duration::from_secs(60), client.get(server.url("/orders")).send()).await.unwrap();
    assert_eq!(response.text().await.unwrap(), "done");
    server.assert_requests(OVERLOADS + 1);
    server.assert_connections(1);
}

/// B79 (c).
#[tokio::test]
async fn an_answer_that_never_ends_costs_no_more_than_its_limit() {
    let trickle = Fault::trickle(503, Duration::from_millis(5));
    let server = FaultServer::start([trickle, Fault::ok("done")]).await;
    let response = get(&Road::Paved.client(pausing(PAUSE)), &server).await.unwrap();
    assert_eq!(response.status(), StatusCode::OK);
    let report = RetryReport::of(&response).unwrap();
    // Far from what it would take to trickle 64 KiB; draining happens within the pause.
    assert!(report.took() < 10 * PAUSE, "{:?}", report.took());
    server.until_closed(1).await;
    server.assert_connections(2);
}

#[tokio::test]
async fn answers_that_never_end_do_not_outlast_the_deadline() {
    const DEADLINE: Duration = Duration::from_millis(150);
    let server = FaultServer::start([Fault::trickle(503, Duration::from_millis(5))]).await;
    let policy = pausing(PAUSE).with_attempts(100);
    let client = Road::Paved.client_of(SafeRetry::new().with_policy(policy).with_deadline(DEADLINE), plain());
    let started = tokio::time::Instant::now();
    match get(&client, &server).await {
        Ok(response) => assert!(bounded(response.bytes()).await.unwrap_err().is_timeout()),
        Err(error) => assert!(error.timed_out()),
    }
    assert!(started.elapsed() < 10 * DEADLINE, "{:?}", started.elapsed());
    // A busy machine may not get to the second one in that time.
    assert!((1..=4).contains(&server.requests().len()), "{}", server.requests().len());
}

#[tokio::test]
async fn the_final_answer_is_left_to_the_caller() {
    for bytes in [KIB, 64 * KIB, 1024 * KIB] {
        let server = FaultServer::start([overload(bytes).with_header("x-reason", "SlowDown")]).await;
        let response = get(&Road::Paved.client(QUICK), &server).await.unwrap();
        assert_eq!(
            (response.status(), &response.headers()["x-reason"]),
            (StatusCode::SERVICE_UNAVAILABLE, &"SlowDown".try_into().unwrap())
        );
        assert_eq!(RetryReport::of(&response).unwrap().attempts().len(), 3);
        assert_eq!(bounded(response.bytes()).await.unwrap(), vec![b'.'; bytes]);
        server.assert_requests(3);
    }
}

#[tokio::test]
async fn the_final_answer_is_handed_over_before_its_body_has_come() {
    let server = FaultServer::start([overload(KIB).with_body_stalled_at(3)]).await;
    let mut response = get(&Road::Paved.client(QUICK.with_attempts(1)), &server).await.unwrap();
    assert_eq!(bounded(response.chunk()).await.unwrap().unwrap(), "...");
}

/// An operation that will pause for seconds after this answer.
async fn waiting(fault: Fault) -> (FaultServer, impl Future<Output = Result<Response>>) {
    let server = FaultServer::start([fault.with_retry_after(5)]).await;
    let request = Road::Paved.client(RetryPolicy::DEFAULT).get(server.url("/orders"));
    (server, request.send())
}

#[tokio::test]
async fn a_connection_that_is_not_given_back_ends_before_the_pause_does() {
    for fault in [overload(1024 * KIB), overload(KIB).with_body_stalled_at(3), Fault::trickle(503, Duration::from_millis(5))] {
        let (server, operation) = waiting(fault).await;
        let closed = bounded(server.until_closed(1));
        match select(pin!(operation), pin!(closed)).await {
            Either::Left((result, _)) => panic!("it did not pause: {result:?}"),
            Either::Right(((), _)) => server.assert_requests(1),
        }
    }
}

#[tokio::test]
async fn a_connection_that_is_given_back_serves_others_during_the_pause() {
    let server = FaultServer::start([overload(64 * KIB).with_retry_after(5), Fault::ok("done")]).await;
    let client = Road::Paved.client(RetryPolicy::DEFAULT);
    let operation = get(&client, &server);
    // Each of these is answered at once; as soon as the drained connection is free, one of them gets it.
    let others = bounded(async {
        server.until_complete(1).await;
        loop {
            let response = client.get(server.url("/others")).header("connection", "close").send().await.unwrap();
            drop(response.bytes().await.unwrap());
            if server.requests().last().unwrap().connection() == 1 {
                break;
            }
        }
    });
    match select(pin!(operation), pin!(others)).await {
        Either::Left((result, _)) => panic!("it did not pause: {result:?}"),
        Either::Right(((), _)) => {}
    }
}
