//! wiremock and httpmock: servers of other people's tests.

use reqwest_safe_retry::RetryReport;

use crate::support::{alone, bounded, keyed_write, sent};

#[tokio::test]
async fn wiremock_sees_each_attempt_with_the_same_key() {
    use wiremock::{
        Mock, MockServer, ResponseTemplate,
        matchers::{header_exists, method, path},
    };

    let server = MockServer::start().await;
    let orders = || Mock::given(method("POST")).and(path("/orders")).and(header_exists("idempotency-key"));
    orders().respond_with(ResponseTemplate::new(503)).up_to_n_times(1).expect(1).mount(&server).await;
    orders().respond_with(ResponseTemplate::new(201)).expect(1).mount(&server).await;
    let (answer, _) = sent(alone().post(format!("{}/orders", server.uri())).with_extension(keyed_write())).await;
    assert_eq!(RetryReport::of(&answer.unwrap()).unwrap().attempts().len(), 2);
    let requests = server.received_requests().await.unwrap();
    assert_eq!(requests[0].headers["idempotency-key"], requests[1].headers["idempotency-key"]);
}

/// httpmock answers one mock always alike, so what changes from attempt to attempt is counted.
#[tokio::test]
async fn httpmock_counts_each_attempt() {
    let server = bounded(httpmock::MockServer::start_async()).await;
    let menu = server.mock_async(|when, then| {
        when.method("GET").path("/menu");
        then.status(503).header("retry-after", "0");
    });
    let menu = menu.await;
    let (answer, _) = sent(alone().get(server.url("/menu"))).await;
    assert_eq!(RetryReport::of(&answer.unwrap()).unwrap().attempts().len(), 3);
    menu.assert_calls_async(3).await;
}
