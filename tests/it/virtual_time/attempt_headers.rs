//! What each attempt tells the upstream about itself.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use http::{Extensions, HeaderName};
use reqwest::{Request, Response};
use reqwest_middleware::{ClientWithMiddleware, Middleware, Next, RequestBuilder, Result};
use reqwest_safe_retry::{
    AttemptHeaders, Deadline, Endpoint, RetryPolicy, SafeRetry, SendWitness, TimeLeftFormat, Unmarked,
    testing::{Scripted, Step},
};

use crate::support::scripted::{URL, builder, client, hasty, seconds, steady};

const NUMBER: &str = "x-retry-attempt";
const LEFT: &str = "x-envoy-expected-rq-timeout-ms";

fn telling(retry: SafeRetry, format: TimeLeftFormat) -> SafeRetry {
    let headers = AttemptHeaders::new().with_number(HeaderName::from_static(NUMBER));
    retry.with_attempt_headers(headers.with_time_left(HeaderName::from_static(LEFT), format))
}

/// What arrives of one header while every attempt fails.
async fn told(retry: SafeRetry, header: &str, request: impl FnOnce(&ClientWithMiddleware) -> RequestBuilder) -> Vec<Option<String>> {
    let peer = Scripted::answering(500);
    let _ = request(&client(retry, &peer)).send().await;
    peer.requests().iter().map(|request| request.header(header).map(str::to_owned)).collect()
}

fn texts<const N: usize>(texts: [&str; N]) -> Vec<Option<String>> {
    texts.iter().map(|text| Some((*text).to_owned())).collect()
}

#[tokio::test(start_paused = true)]
async fn every_attempt_tells_its_number_and_only_the_newest() {
    let retry = || telling(steady(), TimeLeftFormat::Milliseconds);
    assert_eq!(told(retry(), NUMBER, |client| client.get(URL)).await, texts(["1", "2", "3"]));
    assert_eq!(told(retry(), NUMBER, |client| client.get(URL).header(NUMBER, "7")).await, texts(["1", "2", "3"]), "written over");
    let peer = Scripted::answering(500);
    let _ = client(retry(), &peer).get(URL).send().await;
    assert!(peer.requests().iter().all(|request| request.headers().get_all(NUMBER).iter().count() == 1));
}

#[tokio::test(start_paused = true)]
async fn the_time_left_falls_with_the_clock_and_even_without_it() {
    let paused = telling(steady().with_deadline(seconds(2)), TimeLeftFormat::Milliseconds);
    assert_eq!(told(paused, LEFT, |client| client.get(URL)).await, texts(["2000", "1950", "1850"]), "after 50 ms, after 100 ms");
    let at_once = telling(hasty().with_deadline(seconds(2)), TimeLeftFormat::Milliseconds);
    assert_eq!(told(at_once, LEFT, |client| client.get(URL)).await, texts(["2000", "1999", "1998"]));
}

#[tokio::test(start_paused = true)]
async fn the_time_left_is_that_of_the_deadline_that_counts() {
    let retry = || telling(hasty(), TimeLeftFormat::Milliseconds).with_policy(RetryPolicy::DEFAULT.with_attempts(1));
    let own = |client: &ClientWithMiddleware| client.get(URL).with_extension(Deadline::after(seconds(3)));
    assert_eq!(told(retry().with_deadline(seconds(9)), LEFT, own).await, texts(["3000"]));
    let endpoint = |client: &ClientWithMiddleware| client.get(URL).with_extension(Endpoint::read().with_deadline(seconds(4)));
    assert_eq!(told(retry().with_deadline(seconds(9)), LEFT, endpoint).await, texts(["4000"]));
    assert_eq!(Deadline::after(seconds(1)).scope(told(retry(), LEFT, |client| client.get(URL))).await, texts(["1000"]));
}

#[tokio::test(start_paused = true)]
async fn without_a_deadline_there_is_no_time_to_tell() {
    let retry = || telling(steady(), TimeLeftFormat::Milliseconds);
    assert_eq!(told(retry(), LEFT, |client| client.get(URL)).await, [None, None, None]);
    let lifted = |client: &ClientWithMiddleware| client.get(URL).with_extension(Endpoint::read().with_deadline(Duration::MAX));
    assert_eq!(told(retry().with_deadline(seconds(9)), LEFT, lifted).await, [None, None, None]);
}

#[tokio::test(start_paused = true)]
async fn the_time_left_can_be_written_as_grpc_does() {
    let retry = || telling(steady(), TimeLeftFormat::Grpc);
    assert_eq!(told(retry().with_deadline(seconds(2)), LEFT, |client| client.get(URL)).await, texts(["2000m", "1950m", "1850m"]));
    let days = told(retry().with_deadline(seconds(2_000_000)), LEFT, |client| client.get(URL)).await;
    assert_eq!(days, texts(["2000000S", "1999999S", "1999999S"]), "rounded down");
}

#[tokio::test(start_paused = true)]
async fn nothing_is_told_unasked_nor_of_a_request_that_is_left_alone() {
    for header in [NUMBER, LEFT] {
        assert_eq!(told(steady().with_deadline(seconds(2)), header, |client| client.get(URL)).await, [None, None, None]);
        let untouched = telling(steady(), TimeLeftFormat::Milliseconds).with_unmarked(Unmarked::Untouched);
        assert_eq!(told(untouched, header, |client| client.get(URL)).await, [None]);
    }
}

#[derive(Clone, Default)]
struct Signer(Arc<Mutex<Vec<String>>>);

#[async_trait::async_trait]
impl Middleware for Signer {
    async fn handle(&self, request: Request, extensions: &mut Extensions, next: Next<'_>) -> Result<Response> {
        let told = [NUMBER, LEFT].map(|name| request.headers()[name].to_str().unwrap().to_owned());
        self.0.lock().unwrap().push(told.join(" "));
        next.run(request, extensions).await
    }
}

#[tokio::test(start_paused = true)]
async fn an_inner_middleware_sees_what_will_be_sent_and_can_sign_it() {
    let (signer, peer) = (Signer::default(), Scripted::new([Step::fails()]));
    let retry = telling(steady().with_deadline(seconds(2)), TimeLeftFormat::Milliseconds);
    let client = builder().with(retry).with(signer.clone()).with(SendWitness::redirects_off()).with(peer.clone()).build();
    client.get(URL).send().await.unwrap_err();
    assert_eq!(*signer.0.lock().unwrap(), ["1 2000", "2 1950", "3 1850"]);
    peer.assert_sends(3);
}
