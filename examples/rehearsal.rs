//! A bad day, rehearsed on a client of your own: `cargo test --features testing --example
//! rehearsal`, or `run` it.
//!
//! Sloppy: the client under test is three lines, and lives in the same file as its tests.

use std::time::Duration;

use reqwest_middleware::{ClientWithMiddleware, Error};
use reqwest_safe_retry::{
    Endpoint, KeyContract, RetryError, SafeRetry,
    testing::{Fault, FaultServer},
};

/// The code under test.
async fn order(client: &ClientWithMiddleware, orders: reqwest::Url, endpoint: Endpoint) -> Result<String, Error> {
    let answer = client.post(orders).body("one coffee").with_extension(endpoint).send().await?;
    Ok(answer.error_for_status()?.text().await?)
}

fn client() -> reqwest::Result<ClientWithMiddleware> {
    let retry = SafeRetry::new().with_deadline(Duration::from_secs(5)).with_attempt_limit(Duration::from_millis(300));
    retry.client(reqwest::Client::builder().no_proxy()).redirects_off().build()
}

#[cfg_attr(test, tokio::test)]
async fn an_order_without_a_key_is_sent_once_when_the_server_hangs() -> anyhow::Result<()> {
    let shop = FaultServer::start([Fault::hang()]).await;
    let ordered = order(&client()?, shop.url("/orders"), Endpoint::unprotected_write()).await;
    let unknown = ordered.is_err_and(|error| matches!(RetryError::find(&error), Some(RetryError::OutcomeUnknown(_))));
    anyhow::ensure!(unknown, "the caller must learn that it may have happened");
    shop.assert_writes(1);
    Ok(())
}

#[cfg_attr(test, tokio::test)]
async fn an_order_with_a_key_survives_a_lost_answer_under_one_key() -> anyhow::Result<()> {
    let shop = FaultServer::start([Fault::close_after_request(), Fault::ok("order 2041")]).await;
    let endpoint = Endpoint::keyed_write(KeyContract::STRIPE);
    anyhow::ensure!(order(&client()?, shop.url("/orders"), endpoint).await? == "order 2041");
    shop.assert_writes(2);
    let keys: Vec<_> = shop.requests().iter().map(|request| request.header("idempotency-key").map(str::to_owned)).collect();
    anyhow::ensure!(keys[0].is_some() && keys[0] == keys[1], "both copies must carry the same key");
    Ok(())
}

#[cfg(not(test))]
#[tokio::main]
async fn main() -> anyhow::Result<()> {
    an_order_without_a_key_is_sent_once_when_the_server_hangs().await?;
    an_order_with_a_key_survives_a_lost_answer_under_one_key().await?;
    println!("rehearsed: one POST without a key, two under one key");
    Ok(())
}
