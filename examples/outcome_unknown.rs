//! A POST whose answer is lost, without any key: the error says that nobody knows, and the caller
//! looks instead of sending again.
//!
//! Sloppy: the server reads a request with one call and knows its answers by heart, and the order
//! is found by a path that the client chose.

use std::{io, time::Duration};

use reqwest_safe_retry::{Endpoint, RetryError, SafeRetry};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

const LOST: &str = "";
const FOUND: &str = "HTTP/1.1 200 OK\r\ncontent-length: 10\r\nconnection: close\r\n\r\none coffee";

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let shop = shop([LOST, FOUND]).await?;
    let client = SafeRetry::new().client(reqwest::Client::builder().no_proxy()).redirects_off().build()?;
    let endpoint = Endpoint::unprotected_write().named("orders").with_deadline(Duration::from_secs(5));

    let sent = client.post(format!("{shop}/orders")).body("no. 2041: one coffee").with_extension(endpoint).send().await;
    match sent {
        Ok(answer) => println!("{}", answer.status()),
        Err(error) => match RetryError::find(&error) {
            // It may have happened, so it must not be sent again. Ask; reading is always allowed.
            Some(unknown @ RetryError::OutcomeUnknown(_)) => {
                println!("{unknown}");
                let order = client.get(format!("{shop}/orders/2041")).send().await?;
                println!("looked it up: {} {:?}", order.status(), order.text().await?);
            }
            // It cannot have happened: a later try is safe.
            Some(RetryError::Unprocessed(_)) => println!("not ordered, try again later"),
            _ => return Err(error.into()),
        },
    }
    Ok(())
}

/// Answers one connection after the other with these.
async fn shop<const N: usize>(answers: [&'static str; N]) -> io::Result<String> {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
    let url = format!("http://{}", listener.local_addr()?);
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
