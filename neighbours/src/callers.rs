//! Who calls: an axum handler with a deadline of its caller, `timeout` and `select!`.

use std::{future::IntoFuture as _, time::Duration};

use axum::{
    Router,
    extract::State,
    http::{HeaderMap, StatusCode},
    routing::post,
};
use http::HeaderName;
use reqwest_middleware::ClientWithMiddleware;
use reqwest_safe_retry::{
    AttemptHeaders, Deadline, Outcome, ReportSlot, RetryErrorExt as _, StopReason, TimeLeftFormat,
    testing::{Fault, FaultServer},
};
use tokio::net::TcpListener;

use crate::support::{alone, bounded, keyed_write, plain, quick};

const TIME_LEFT: HeaderName = HeaderName::from_static("x-time-left-ms");

#[derive(Clone)]
struct Shop {
    client: ClientWithMiddleware,
    upstream: reqwest::Url,
}

/// What the caller of this service still has, or nothing where it does not say.
fn time_left(headers: &HeaderMap) -> Option<Deadline> {
    let left = headers.get(TIME_LEFT)?.to_str().ok()?.parse().ok()?;
    Some(Deadline::after(Duration::from_millis(left)))
}

/// Orders at the upstream within the time that the caller has.
async fn order(State(shop): State<Shop>, headers: HeaderMap) -> StatusCode {
    let deadline = time_left(&headers).unwrap_or(Deadline::NONE);
    let ordering = shop.client.post(shop.upstream.clone()).with_extension(keyed_write()).send();
    match deadline.scope(ordering).await {
        Ok(answer) => answer.status(),
        Err(error) if error.timed_out() => StatusCode::GATEWAY_TIMEOUT,
        Err(_) => StatusCode::BAD_GATEWAY,
    }
}

/// An axum service in front of this upstream.
async fn service(upstream: &FaultServer) -> String {
    let told = AttemptHeaders::new().with_time_left(TIME_LEFT, TimeLeftFormat::Milliseconds);
    let client = quick().with_attempt_headers(told).client(plain()).redirects_off().build().unwrap();
    let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let url = format!("http://{}/orders", listener.local_addr().unwrap());
    let shop = Shop { client, upstream: upstream.url("/orders") };
    tokio::spawn(axum::serve(listener, Router::new().route("/orders", post(order)).with_state(shop)).into_future());
    url
}

#[tokio::test]
async fn an_axum_handler_passes_its_callers_deadline_on() {
    let upstream = FaultServer::start([Fault::status(503), Fault::status(201)]).await;
    let service = service(&upstream).await;
    let answer = bounded(plain().build().unwrap().post(service).header(TIME_LEFT, "5000").send()).await.unwrap();
    assert_eq!(answer.status(), 201);
    let left: Vec<u64> = upstream.requests().iter().map(|request| request.header(TIME_LEFT.as_str()).unwrap().parse().unwrap()).collect();
    assert!(left.len() == 2 && left[0] <= 5000 && left[1] <= left[0] && left[1] > 0, "{left:?}");
}

#[tokio::test]
async fn an_axum_handler_waits_no_longer_than_its_caller() {
    let upstream = FaultServer::start([Fault::hang()]).await;
    let service = service(&upstream).await;
    let answer = bounded(plain().build().unwrap().post(service).header(TIME_LEFT, "50").send()).await.unwrap();
    assert_eq!(answer.status(), 504);
    upstream.assert_writes(1);
}

/// axum drops a handler whose caller hangs up, and with it the operation: nothing is sent later.
#[tokio::test]
async fn an_axum_handler_whose_caller_hangs_up_sends_nothing_more() {
    let upstream = FaultServer::start([Fault::hang(), Fault::ok("done")]).await;
    let service = service(&upstream).await;
    let caller = plain().build().unwrap();
    tokio::select! {
        _ = caller.post(service).send() => panic!("nobody answers"),
        () = upstream.until_complete(1) => {}
    }
    bounded(upstream.until_closed(1)).await;
    upstream.assert_requests(1);
}

#[tokio::test]
async fn a_timeout_around_a_call_fills_the_slot() {
    let server = FaultServer::start([Fault::hang()]).await;
    let slot = ReportSlot::new();
    let ordering = alone().post(server.url("/orders")).with_extension(keyed_write()).with_extension(slot.clone()).send();
    tokio::time::timeout(Duration::from_millis(100), ordering).await.unwrap_err();
    let report = slot.take().unwrap();
    assert_eq!((report.stop(), report.outcome()), (StopReason::Cancelled, Outcome::Unknown));
    server.assert_writes(1);
}

#[tokio::test]
async fn a_branch_of_select_that_loses_fills_the_slot_and_sends_nothing_more() {
    let server = FaultServer::start([Fault::hang(), Fault::ok("done")]).await;
    let slot = ReportSlot::new();
    tokio::select! {
        _ = alone().post(server.url("/orders")).with_extension(keyed_write()).with_extension(slot.clone()).send() => panic!("nobody answers"),
        () = server.until_complete(1) => {}
    }
    let report = slot.take().unwrap();
    assert_eq!((report.stop(), report.outcome()), (StopReason::Cancelled, Outcome::Unknown));
    bounded(server.until_closed(1)).await;
    server.assert_requests(1);
}
