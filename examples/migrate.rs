//! A program that used reqwest-retry, and the same program with this crate, against the same
//! misbehaving peer: how often each sent, and how many answers were good.
//!
//! The page `guide::migrating` tells why the numbers differ.

use std::time::Duration;

use http::{HeaderName, HeaderValue, Method};
use reqwest_middleware::{ClientBuilder, ClientWithMiddleware};
use reqwest_retry::{RetryTransientMiddleware, policies::ExponentialBackoff};
use reqwest_safe_retry::{
    BudgetLimits, Endpoint, KeyContract, RetryBudget, RetryPolicy, SafeRetry,
    policy::Backoff,
    testing::{Fault, FaultServer},
};

const FIRST: Duration = Duration::from_millis(1);
const LONGEST: Duration = Duration::from_millis(4);
const KEY: HeaderName = HeaderName::from_static("idempotency-key");

fn old() -> reqwest::Result<ClientWithMiddleware> {
    let policy = ExponentialBackoff::builder().retry_bounds(FIRST, LONGEST).build_with_max_retries(3);
    let client = reqwest::Client::builder().no_proxy().redirect(reqwest::redirect::Policy::none()).build()?;
    Ok(ClientBuilder::new(client).with(RetryTransientMiddleware::new_with_policy(policy)).build())
}

fn new(budget: BudgetLimits) -> reqwest::Result<ClientWithMiddleware> {
    let backoff = Backoff::doubling(FIRST, LONGEST);
    let policy = RetryPolicy::DEFAULT.with_attempts(4).with_backoff(backoff).with_throttle_backoff(backoff); // three resends
    SafeRetry::new()
        .with_policy(policy)
        .with_budget(RetryBudget::new(budget))
        .client(reqwest::Client::builder().no_proxy())
        .redirects_off()
        .build()
}

/// What a peer does to one request of the program.
struct Story {
    told: &'static str,
    method: Method,
    /// A key that the program writes by hand, as it did before.
    key: Option<&'static str>,
    /// What the new program says of the endpoint.
    endpoint: Option<Endpoint>,
    faults: Vec<Fault>,
}

impl Story {
    fn of(told: &'static str, method: Method, faults: impl Into<Vec<Fault>>) -> Self {
        Self { told, method, key: None, endpoint: None, faults: faults.into() }
    }

    /// How many requests arrive when the program makes its call.
    async fn sends(&self, client: &ClientWithMiddleware) -> usize {
        let server = FaultServer::start(self.faults.clone()).await;
        let mut request = client.request(self.method.clone(), server.url("/orders"));
        if let Some(key) = self.key {
            request = request.header(KEY, HeaderValue::from_static(key));
        }
        if let Some(endpoint) = &self.endpoint {
            request = request.with_extension(endpoint.clone());
        }
        drop(request.send().await);
        server.requests().len()
    }
}

fn stories() -> Vec<Story> {
    let lost = Fault::close_after_request;
    let keyed = || Some(Endpoint::keyed_write(KeyContract::STRIPE));
    vec![
        Story::of("a read, 503 once", Method::GET, [Fault::status(503), Fault::ok("menu")]),
        Story::of("a read, 500", Method::GET, [Fault::status(500)]),
        Story::of("a read, 501", Method::GET, [Fault::status(501)]),
        Story::of("a read, 522", Method::GET, [Fault::status(522)]),
        Story::of("a write, answer lost", Method::POST, [lost()]),
        Story::of("a write, 503", Method::POST, [Fault::status(503)]),
        Story { key: Some("order-2041"), ..Story::of("a write with a key by hand, answer lost", Method::POST, [lost()]) },
        Story { key: Some("order-2041"), endpoint: keyed(), ..Story::of("the same, marked as a keyed write", Method::POST, [lost()]) },
    ]
}

/// Fifty reads of a batch, of which two in three fail: requests that arrived, and good answers.
async fn batch(client: &ClientWithMiddleware) -> (usize, usize) {
    let server = FaultServer::with(|_, number| if number % 3 == 0 { Fault::ok("menu") } else { Fault::status(503) }).await;
    let mut good = 0;
    for _ in 0..50 {
        let answer = client.get(server.url("/menu")).send().await;
        good += usize::from(answer.is_ok_and(|answer| answer.status().is_success()));
    }
    (server.requests().len(), good)
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> reqwest::Result<()> {
    println!("{:42} {:>13} {:>10}", "what happens", "reqwest-retry", "this crate");
    let (old, new_client) = (old()?, new(BudgetLimits::DEFAULT)?);
    for story in stories() {
        println!("{:42} {:>13} {:>10}", story.told, story.sends(&old).await, story.sends(&new(BudgetLimits::DEFAULT)?).await);
    }
    println!("\nfifty reads, two in three sends fail");
    for (program, client) in [
        ("reqwest-retry", old),
        ("this crate, default budget", new_client),
        ("this crate, 200 % of operations", new(BudgetLimits::percent(200))?),
        ("this crate, no budget", new(BudgetLimits::UNLIMITED)?),
    ] {
        let (sends, good) = batch(&client).await;
        println!("{program:42} {sends:>5} sends, {good} good");
    }
    Ok(())
}

#[cfg(test)]
#[tokio::test]
async fn the_guide_s_numbers_are_those_of_the_two_programs() -> reqwest::Result<()> {
    let mut sends = Vec::new();
    for story in stories() {
        sends.push((story.sends(&old()?).await, story.sends(&new(BudgetLimits::DEFAULT)?).await));
    }
    assert_eq!(sends, [(2, 2), (4, 4), (4, 1), (4, 1), (4, 1), (4, 1), (4, 1), (4, 4)]);
    assert_eq!(batch(&old()?).await, (150, 50));
    assert_eq!(batch(&new(BudgetLimits::UNLIMITED)?).await, (150, 50));
    assert_eq!(batch(&new(BudgetLimits::percent(200))?).await, (150, 50));
    let (capped, good) = batch(&new(BudgetLimits::DEFAULT)?).await;
    assert!(capped < 100 && good < 50, "{capped} sends, {good} good");
    Ok(())
}
