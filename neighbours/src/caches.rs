//! http-cache-reqwest: outside a cache saves whole operations; inside it answers attempts.

use http::StatusCode;
use http_cache_reqwest::{Cache, CacheMode, HttpCache, HttpCacheOptions, MokaManager};
use reqwest_safe_retry::{
    RetryErrorExt as _, RetryReport, StopReason,
    testing::{Fault, FaultServer},
};

use crate::support::{alone, inside, keyed_write, outside, sent};

fn cache() -> Cache<MokaManager> {
    Cache(HttpCache { mode: CacheMode::Default, manager: MokaManager::default(), options: HttpCacheOptions::default() })
}

fn fresh(body: &'static str) -> Fault {
    Fault::ok(body).with_header("cache-control", "max-age=600")
}

#[tokio::test]
async fn outside_what_is_in_the_cache_is_no_operation() {
    let server = FaultServer::start([Fault::status(503), fresh("menu")]).await;
    let client = outside(cache());
    let (_, report) = sent(client.get(server.url("/menu"))).await;
    assert_eq!(report.unwrap().attempts().len(), 2);
    let (answer, report) = sent(client.get(server.url("/menu"))).await;
    assert_eq!(answer.unwrap().text().await.unwrap(), "menu");
    assert!(report.is_none(), "nothing was sent");
    server.assert_requests(2);
}

/// A cache builds the answer anew. The slot tells what the answer no longer does.
#[tokio::test]
async fn outside_the_report_of_a_read_is_in_the_slot_alone() {
    let server = FaultServer::start([Fault::status(503), fresh("menu")]).await;
    let (answer, report) = sent(outside(cache()).get(server.url("/menu"))).await;
    assert!(RetryReport::of(&answer.unwrap()).is_none());
    assert_eq!(report.unwrap().attempts().len(), 2);
}

/// The cache makes a text of the error of a read, with the URL in it, so nobody can ask it anything.
#[tokio::test]
async fn outside_the_error_of_a_read_becomes_a_text_with_its_url() {
    let server = FaultServer::start([Fault::close_after_request()]).await;
    let url = server.url("/menu?token=secret");
    let (answer, report) = sent(outside(cache()).get(url.clone())).await;
    let error = answer.unwrap_err();
    assert!(error.safe_retry().is_none() && error.transport_error().is_none());
    assert!(format!("{error:?}").contains("token=secret"));
    assert_eq!(report.unwrap().stop(), StopReason::AttemptsSpent);

    let (answer, _) = sent(alone().get(url)).await;
    assert!(answer.unwrap_err().transport_error().is_some(), "without the cache it can be asked");
}

#[tokio::test]
async fn outside_a_write_keeps_its_typed_error_and_its_report() {
    let server = FaultServer::start([Fault::close_after_request()]).await;
    let (answer, _) = sent(outside(cache()).post(server.url("/orders")).with_extension(keyed_write())).await;
    assert_eq!(answer.unwrap_err().safe_retry().unwrap().report().unwrap().attempts().len(), 3);
    server.assert_writes(3);
}

/// The witness stands below the cache and sees what the cache makes a text of.
#[tokio::test]
async fn inside_a_failure_below_the_cache_is_sent_again() {
    let server = FaultServer::start([Fault::close_after_request(), fresh("menu")]).await;
    let (answer, report) = sent(inside(cache()).get(server.url("/menu"))).await;
    let answer = answer.unwrap();
    assert_eq!(RetryReport::of(&answer).unwrap().attempts().len(), 2);
    assert_eq!(answer.text().await.unwrap(), "menu");
    assert_eq!(report.unwrap().attempts().len(), 2);
    server.assert_requests(2);
}

/// What the cache answers is an attempt: it is in the report and counts for the budget.
#[tokio::test]
async fn inside_what_is_in_the_cache_is_an_operation_of_one_attempt() {
    let server = FaultServer::start([fresh("menu")]).await;
    let client = inside(cache());
    for _ in 0..2 {
        let (answer, report) = sent(client.get(server.url("/menu"))).await;
        assert_eq!(answer.unwrap().status(), StatusCode::OK);
        assert_eq!(report.unwrap().attempts().len(), 1);
    }
    server.assert_requests(1);
}

/// The cache reads the body and makes a text of what broke it off, after a head that was final.
#[tokio::test]
async fn inside_a_body_that_breaks_off_is_the_caches_own_error_and_not_asked_for_again() {
    let server = FaultServer::start([fresh("menu").with_body_cut_at(2), fresh("menu")]).await;
    let (answer, report) = sent(inside(cache()).get(server.url("/menu"))).await;
    assert!(answer.unwrap_err().transport_error().is_none());
    assert_eq!(report.unwrap().stop(), StopReason::AnswerIsFinal);
    server.assert_requests(1);
}
