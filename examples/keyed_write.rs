//! A POST under an idempotency key: sent again with the same key, and when even that is not enough,
//! tried again by hand with the key of the error.
//!
//! Sloppy: the server reads a request with one call and believes every key. What a server owes a
//! key is in `examples/tour/orders.rs`.

use std::{io, time::Duration};

use reqwest_safe_retry::{Endpoint, KeyContract, RetryError, SafeRetry};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

const LOST: &str = "";
const CREATED: &str = "HTTP/1.1 201 Created\r\ncontent-length: 10\r\nconnection: close\r\n\r\norder 2041";

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let orders = shop([LOST, LOST, LOST, CREATED]).await?;

    // The contract is a promise of the server: read its documentation before you write one. Every
    // POST gets a key of its own.
    let contract = KeyContract::ietf(Duration::from_secs(24 * 60 * 60));
    let endpoint = Endpoint::keyed_write(contract).named("orders").with_deadline(Duration::from_secs(5));
    let retry = SafeRetry::new().with_default_write(endpoint);
    let client = retry.client(reqwest::Client::builder().no_proxy()).redirects_off().build()?;
    let order = || client.post(&orders).body("one coffee");

    let mut sent = order().send().await;
    if let Err(error) = &sent {
        println!("{error}");
        // Three answers were lost. The order may exist, so only the same key makes another try
        // harmless: a new one is a new coffee.
        if let Some(key) = RetryError::find(error).and_then(RetryError::key).cloned() {
            sent = order().with_extension(key).send().await;
        }
    }
    let answer = sent?;
    println!("{}: {}", answer.status(), answer.text().await?);
    Ok(())
}

/// Answers one connection after the other with these.
async fn shop<const N: usize>(answers: [&'static str; N]) -> io::Result<String> {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
    let url = format!("http://{}/orders", listener.local_addr()?);
    tokio::spawn(async move {
        for answer in answers {
            let (mut peer, _) = listener.accept().await?;
            peer.read_buf(&mut Vec::with_capacity(4096)).await?;
            peer.write_all(answer.as_bytes()).await?;
        }
        io::Result::Ok(())
    });
    Ok(url)
}
