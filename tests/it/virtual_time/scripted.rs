//! Each step of `Scripted`, under a paused clock.

use std::{error::Error, time::Duration};

use futures_util::FutureExt;
use reqwest_middleware::{ClientBuilder, ClientWithMiddleware};
use reqwest_safe_retry::testing::{Scripted, Step};
use tokio::time::Instant;

fn client(peer: &Scripted) -> ClientWithMiddleware {
    ClientBuilder::new(reqwest::Client::new()).with(peer.clone()).build()
}

async fn post(peer: &Scripted) -> reqwest_middleware::Result<reqwest::Response> {
    client(peer).post("http://peer.test/orders?id=1").header("x-test", "1").body("one coffee").send().await
}

async fn transport_error(peer: &Scripted) -> reqwest::Error {
    match post(peer).await {
        Err(reqwest_middleware::Error::Reqwest(error)) => error,
        other => panic!("expected a transport error, got {other:?}"),
    }
}

/// The first error of a type in the chain.
fn find<E: Error + 'static>(error: &reqwest::Error) -> Option<&E> {
    std::iter::successors(error.source(), |error| (*error).source()).find_map(|error| error.downcast_ref())
}

#[tokio::test(start_paused = true)]
async fn an_answer_comes_after_its_delay_and_the_last_step_repeats() {
    let peer = Scripted::new([Step::status(503).with_header("retry-after", "2").after(Duration::from_secs(3)), Step::ok("done")]);
    let began = Instant::now();
    let first = post(&peer).await.unwrap();
    assert_eq!(began.elapsed(), Duration::from_secs(3));
    assert_eq!(first.headers()["retry-after"], "2");
    assert_eq!((first.status().as_u16(), first.content_length()), (503, Some(0)));
    assert_eq!(first.url().as_str(), "http://peer.test/orders?id=1");
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(post(&peer).await.unwrap().text().await.unwrap(), "done");
    assert_eq!(post(&peer).await.unwrap().text().await.unwrap(), "done");
    peer.assert_sends(3);
    peer.assert_writes(3);
    peer.assert_pauses([Duration::from_secs(1), Duration::ZERO]);
    let request = &peer.requests()[0];
    assert_eq!((request.body(), request.header("x-test"), request.path()), (&b"one coffee"[..], Some("1"), "/orders"));
}

#[tokio::test(start_paused = true)]
async fn a_failure_is_the_error_of_a_connection_that_closed_and_takes_no_time() {
    let peer = Scripted::new([Step::fails()]);
    let began = Instant::now();
    let error = transport_error(&peer).await;
    assert_eq!(began.elapsed(), Duration::ZERO);
    assert!(error.is_request() && !error.is_connect() && !error.is_timeout());
    assert!(find::<hyper_util::client::legacy::Error>(&error).unwrap().connect_info().is_some());
    assert!(find::<hyper::Error>(&error).unwrap().is_incomplete_message());
    assert_eq!(error.url().unwrap().as_str(), "http://peer.test/orders?id=1");
    peer.assert_writes(1);
}

#[tokio::test(start_paused = true)]
async fn a_refusal_proves_that_nothing_was_sent_and_touches_no_body() {
    let peer = Scripted::new([Step::refused()]);
    let began = Instant::now();
    let error = transport_error(&peer).await;
    assert_eq!(began.elapsed(), Duration::ZERO);
    assert!(error.is_connect());
    assert!(find::<hyper_util::client::legacy::Error>(&error).unwrap().connect_info().is_none());
    peer.assert_sends(1);
    peer.assert_writes(0);
    assert!(peer.requests()[0].body().is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_timeout_and_a_broken_request_are_the_errors_of_reqwest() {
    let began = Instant::now();
    let timeout = transport_error(&Scripted::new([Step::times_out()])).await;
    assert!(timeout.is_timeout() && timeout.is_request() && !timeout.is_connect());
    assert!(transport_error(&Scripted::new([Step::broken()])).await.is_builder());
    assert_eq!(began.elapsed(), Duration::ZERO);
}

#[tokio::test(start_paused = true)]
async fn a_hang_takes_the_request_and_a_hang_while_connecting_does_not() {
    for (step, writes) in [(Step::hangs(), 1), (Step::hangs_connecting(), 0)] {
        let peer = Scripted::new([step]);
        let waited = tokio::time::timeout(Duration::from_secs(3600), post(&peer)).await;
        assert!(waited.is_err());
        peer.assert_sends(1);
        peer.assert_writes(writes);
    }
}

#[tokio::test(start_paused = true)]
async fn a_pause_begins_where_the_send_ended_even_if_a_limit_ended_it() {
    let peer = Scripted::new([Step::hangs(), Step::ok("done")]);
    assert!(tokio::time::timeout(Duration::from_secs(5), post(&peer)).await.is_err());
    tokio::time::sleep(Duration::from_secs(2)).await;
    post(&peer).await.unwrap();
    peer.assert_pauses([Duration::from_secs(2)]);
}

#[tokio::test(start_paused = true)]
async fn a_cut_body_fails_and_a_stalled_body_waits() {
    let peer = Scripted::new([Step::status(200).with_cut_body("begin"), Step::status(200).with_stalled_body("begin")]);
    let mut cut = post(&peer).await.unwrap();
    assert_eq!(cut.chunk().await.unwrap().unwrap(), "begin");
    assert!(cut.chunk().await.is_err());
    let mut stalled = post(&peer).await.unwrap();
    assert_eq!(stalled.chunk().await.unwrap().unwrap(), "begin");
    assert!(stalled.chunk().now_or_never().is_none());
}

#[tokio::test(start_paused = true)]
async fn an_answer_to_head_announces_a_length_and_has_no_body() {
    let peer = Scripted::new([Step::ok("12345").with_version(http::Version::HTTP_2)]);
    let response = client(&peer).head("http://peer.test/").send().await.unwrap();
    assert_eq!((response.version(), &response.headers()["content-length"]), (http::Version::HTTP_2, &"5".parse().unwrap()));
    assert!(response.bytes().await.unwrap().is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_request_body_that_fails_leaves_the_request_incomplete() {
    let peer = Scripted::answering(200);
    let parts = [Ok("begin"), Err(std::io::Error::other("the disk is gone"))];
    let body = reqwest::Body::wrap_stream(futures_util::stream::iter(parts));
    assert!(client(&peer).post("http://peer.test/").body(body).send().await.is_err());
    peer.assert_sends(1);
    peer.assert_writes(0);
    assert_eq!(peer.requests()[0].body(), b"begin");
}

#[tokio::test]
async fn what_a_peer_prints_holds_no_secret() {
    let peer = Scripted::new([Step::ok("secret-body").with_header("x-key", "secret-header")]);
    let request = client(&peer).post("http://peer.test/secret-path?secret-query").bearer_auth("secret-token").body("secret-request");
    request.send().await.unwrap();
    let printed = format!("{peer:?} {:?}", peer.requests());
    assert!(!printed.contains("secret"), "{printed}");
    let complaint = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| peer.assert_sends(2))).unwrap_err();
    let complaint = complaint.downcast_ref::<String>().unwrap();
    assert!(complaint.contains("expected 2 sends, saw 1") && !complaint.contains("secret"), "{complaint}");
}
