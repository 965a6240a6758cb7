//! One deadline for a piece of work that makes several calls: the second call gets what the first
//! one left, and no attempt gets more.
//!
//! Sloppy: the server takes 400 ms for everything, reads a request with one call and closes each
//! connection.

use std::{io, time::Duration};

use reqwest_middleware::ClientWithMiddleware;
use reqwest_safe_retry::{Deadline, RetryErrorExt as _, SafeRetry};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

const OK: &str = "HTTP/1.1 200 OK\r\ncontent-length: 0\r\nconnection: close\r\n\r\n";

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let shop = slow_shop(Duration::from_millis(400)).await?;
    let client = SafeRetry::new().client(reqwest::Client::builder().no_proxy()).redirects_off().build()?;

    // As the handler of a request would, that has promised its own caller an answer within 600 ms.
    let deadline = Deadline::after(Duration::from_millis(600));
    match deadline.scope(menu_and_price(&client, &shop)).await {
        Ok(()) => println!("both, with {:?} left", deadline.time_left()),
        Err(error) if error.timed_out() => println!("out of time: {error}"),
        Err(error) => return Err(error.into()),
    }
    Ok(())
}

/// Knows nothing of the deadline, and keeps it all the same.
async fn menu_and_price(client: &ClientWithMiddleware, shop: &str) -> reqwest_middleware::Result<()> {
    println!("menu: {}", client.get(format!("{shop}/menu")).send().await?.status());
    println!("price: {}", client.get(format!("{shop}/price")).send().await?.status());
    Ok(())
}

/// Answers everything with 200, this late.
async fn slow_shop(late: Duration) -> io::Result<String> {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
    let url = format!("http://{}", listener.local_addr()?);
    tokio::spawn(async move {
        while let Ok((mut peer, _)) = listener.accept().await {
            peer.read_buf(&mut Vec::with_capacity(4096)).await?;
            tokio::time::sleep(late).await;
            peer.write_all(OK.as_bytes()).await?;
        }
        io::Result::Ok(())
    });
    Ok(url)
}
