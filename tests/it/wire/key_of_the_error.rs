//! Trying again by hand means reusing the key of the error; it must then be as old as it is, and
//! its first result as unknown as it was.

use std::{
    net::Ipv4Addr,
    time::{Duration, SystemTime},
};

use reqwest_middleware::ClientWithMiddleware;
use reqwest_safe_retry::{
    Endpoint, IdempotencyKey, KeyContract, Outcome, ReportSlot, RetryError, RetryPolicy, SafeRetry,
    testing::{Fault, FaultServer},
};

fn client() -> ClientWithMiddleware {
    let retry = SafeRetry::new().with_policy(RetryPolicy::DEFAULT.with_attempts(1));
    retry.client(reqwest::Client::builder().no_proxy()).redirects_off().build().unwrap()
}

fn endpoint() -> Endpoint {
    Endpoint::keyed_write(KeyContract::ietf(Duration::from_secs(60)))
}

async fn key_of_the_error(url: String, endpoint: Endpoint) -> IdempotencyKey {
    let error = client().post(url).body("one coffee").with_extension(endpoint).send().await.unwrap_err();
    RetryError::find(&error).unwrap().key().unwrap().clone()
}

#[tokio::test]
async fn a_key_that_the_server_may_have_seen_says_when_it_was_first_used() {
    let server = FaultServer::start([Fault::close_after_request()]).await;
    let before = SystemTime::now();
    let key = key_of_the_error(server.url("/orders").into(), endpoint()).await;
    let first_use = key.first_use().unwrap();
    assert!(before <= first_use && first_use <= SystemTime::now());
    server.assert_writes(1);
}

#[tokio::test]
async fn a_key_that_no_server_has_seen_is_as_good_as_new() {
    // Bound, not listening: the port is taken, and whoever calls is refused.
    let socket = tokio::net::TcpSocket::new_v4().unwrap();
    socket.bind((Ipv4Addr::LOCALHOST, 0).into()).unwrap();
    let key = key_of_the_error(format!("http://{}/orders", socket.local_addr().unwrap()), endpoint()).await;
    assert_eq!(key.first_use(), None);
}

#[tokio::test]
async fn a_later_operation_with_it_knows_that_the_first_one_may_have_happened() {
    let server = FaultServer::start([Fault::close_after_request(), Fault::status(404)]).await;
    let key = key_of_the_error(server.url("/orders").into(), endpoint()).await;

    let slot = ReportSlot::new();
    let again = client().post(server.url("/orders")).body("one coffee").with_extension(endpoint()).with_extension(key);
    again.with_extension(slot.clone()).send().await.unwrap();
    assert_eq!(slot.take().unwrap().outcome(), Outcome::AnsweredAfterUnknown);
}
