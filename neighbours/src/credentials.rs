//! A middleware that refreshes credentials after a 401 and sends once more.

use std::sync::atomic::{AtomicUsize, Ordering};

use http::{Extensions, HeaderValue, StatusCode, header::AUTHORIZATION};
use reqwest::{Request, Response};
use reqwest_middleware::{ClientBuilder, Middleware, Next, Result};
use reqwest_safe_retry::{
    Advice, SendWitness, async_trait,
    testing::{Fault, FaultServer},
};

use crate::support::{inside, keyed_write, outside, plain, quick, sent};

/// Numbers its tokens. The first is refused.
#[derive(Default)]
struct Refreshing {
    refreshed: AtomicUsize,
}

impl Refreshing {
    fn sign(&self, request: &mut Request) {
        let token = format!("token {}", self.refreshed.load(Ordering::Relaxed));
        request.headers_mut().insert(AUTHORIZATION, HeaderValue::from_str(&token).unwrap());
    }
}

#[async_trait]
impl Middleware for Refreshing {
    async fn handle(&self, mut request: Request, extensions: &mut Extensions, next: Next<'_>) -> Result<Response> {
        let mut again = request.try_clone().unwrap();
        self.sign(&mut request);
        let answer = next.clone().run(request, extensions).await?;
        if answer.status() != StatusCode::UNAUTHORIZED {
            return Ok(answer);
        }
        self.refreshed.fetch_add(1, Ordering::Relaxed);
        self.sign(&mut again);
        next.run(again, extensions).await
    }
}

/// A server that has forgotten the first token, and whose answer to the second is lost once.
async fn server() -> FaultServer {
    FaultServer::start([Fault::status(401), Fault::close_after_request(), Fault::ok("done")]).await
}

fn keys(server: &FaultServer) -> Vec<String> {
    server.requests().iter().map(|request| request.header("idempotency-key").unwrap().to_owned()).collect()
}

fn tokens(server: &FaultServer) -> Vec<String> {
    server.requests().iter().map(|request| request.header("authorization").unwrap().to_owned()).collect()
}

#[tokio::test]
async fn outside_a_refreshed_write_is_one_operation_with_one_key() {
    let server = server().await;
    let order = outside(Refreshing::default()).post(server.url("/orders")).with_extension(keyed_write());
    let (answer, report) = sent(order).await;
    assert_eq!(answer.unwrap().status(), 200);
    let keys = keys(&server);
    assert!(keys.iter().all(|key| *key == keys[0]));
    assert_eq!(tokens(&server), ["token 0", "token 1", "token 1"]);
    let report = report.unwrap();
    assert_eq!((report.attempts().len(), report.advice()), (2, &[][..]), "the report is that of the second pass");
}

/// An existing client has no outermost marker, so each pass is an operation of its own.
#[tokio::test]
async fn outside_of_an_existing_client_a_refreshed_write_gets_a_second_key() {
    let server = server().await;
    let bare = plain().redirect(reqwest::redirect::Policy::none()).build().unwrap();
    let client = ClientBuilder::new(bare).with(Refreshing::default()).with(quick()).with(SendWitness::redirects_off()).build();
    sent(client.post(server.url("/orders")).with_extension(keyed_write())).await.0.unwrap();
    let keys = keys(&server);
    assert!(keys[0] != keys[1] && keys[1] == keys[2]);
}

#[tokio::test]
async fn inside_each_attempt_is_signed_anew_and_the_refresh_is_told_as_a_send_too_many() {
    let server = server().await;
    let order = inside(Refreshing::default()).post(server.url("/orders")).with_extension(keyed_write());
    let (answer, report) = sent(order).await;
    assert_eq!(answer.unwrap().status(), 200);
    let keys = keys(&server);
    assert!(keys.iter().all(|key| *key == keys[0]));
    assert_eq!(tokens(&server), ["token 0", "token 1", "token 1"]);
    let report = report.unwrap();
    assert_eq!(report.attempts().iter().map(|attempt| attempt.sends()).collect::<Vec<_>>(), [2, 1]);
    assert_eq!(report.advice(), [Advice::SentMoreOften]);
}
