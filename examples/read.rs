//! A read that survives a short outage: what one line of set-up gives to requests that nothing
//! marks, and who tells you about it.
//!
//! Sloppy: the server reads a request with one call and closes each connection. `cargo run
//! --example tour` has a real one.

use std::{io, time::Duration};

use reqwest_safe_retry::{RetryErrorExt as _, RetryReport, SafeRetry};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

const BUSY: &str = "HTTP/1.1 503 Service Unavailable\r\ncontent-length: 0\r\nconnection: close\r\n\r\n";
const MENU: &str = "HTTP/1.1 200 OK\r\ncontent-length: 11\r\nconnection: close\r\n\r\ncoffee, tea";

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let url = shop([BUSY, MENU]).await?;

    // One deadline for the whole operation, the body of the answer included. Not one for each
    // attempt.
    let retry = SafeRetry::new().with_deadline(Duration::from_secs(5));
    let client = retry.client(reqwest::Client::builder().no_proxy()).redirects_off().build()?;

    let answer = match client.get(url).send().await {
        Ok(answer) => answer,
        // A read that nothing marks keeps its `reqwest::Error`; only our own limits have errors of
        // our own. This sees both.
        Err(error) if error.timed_out() => anyhow::bail!("no answer in time: {error}"),
        Err(error) => return Err(error.into()),
    };
    // Read the report before `error_for_status()`, which drops it. None: the first attempt brought
    // a final answer.
    if let Some(report) = RetryReport::of(&answer) {
        println!("{} attempts in {:?}", report.attempts().len(), report.took());
    }
    println!("{}: {}", answer.status(), answer.text().await?);
    Ok(())
}

/// Answers one connection after the other with these.
async fn shop<const N: usize>(answers: [&'static str; N]) -> io::Result<String> {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
    let url = format!("http://{}/menu", listener.local_addr()?);
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
