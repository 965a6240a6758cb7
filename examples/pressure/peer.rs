//! A server that reads a request head and then writes as it is told, and a peer without a network.

use std::{net::Ipv4Addr, time::Duration};

use anyhow::Result;
use http::Extensions;
use reqwest::{Request, Response};
use reqwest_middleware::{Middleware, Next};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
    time::sleep,
};

/// What a connection gets.
#[derive(Clone)]
pub(crate) struct Answer {
    pub(crate) begins: String,
    /// Between the bytes that come after the beginning, until the client has enough. Without it
    /// the answer is whole, and the next request may come.
    pub(crate) trickles: Option<Duration>,
}

/// Serves on a port until the runtime ends.
pub(crate) async fn serve(answer: Answer) -> Result<u16> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
    let port = listener.local_addr()?.port();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            tokio::spawn(talk(stream, answer.clone()));
        }
    });
    Ok(port)
}

/// Until the client goes.
async fn talk(mut stream: TcpStream, answer: Answer) -> std::io::Result<()> {
    let mut head = Vec::new();
    loop {
        while !head.ends_with(b"\r\n\r\n") {
            if stream.read_buf(&mut head).await? == 0 {
                return Ok(());
            }
        }
        head.clear();
        stream.write_all(answer.begins.as_bytes()).await?;
        while let Some(pause) = answer.trickles {
            sleep(pause).await;
            stream.write_all(b"x").await?;
        }
    }
}

/// Answers without a network.
pub(crate) struct AtOnce(pub(crate) fn() -> http::Response<&'static str>);

#[async_trait::async_trait]
impl Middleware for AtOnce {
    async fn handle(&self, _: Request, _: &mut Extensions, _: Next<'_>) -> reqwest_middleware::Result<Response> {
        Ok(Response::from((self.0)()))
    }
}
