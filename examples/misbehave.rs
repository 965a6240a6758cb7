//! A server that has a bad day, for a client in any language: `cargo run --example misbehave
//! --features testing -- --port 8080`.
//!
//! Point curl or your own program at it. It says what it does to the next request and what that
//! request was, and when it is stopped (Ctrl-C) how many writes came and how many of them would
//! have acted twice. `--seed` chooses another day, `--key` the header of the idempotency key.
//! Silence lasts until the client gives up: `curl --max-time 1`.

use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use reqwest_safe_retry::testing::{Fault, FaultServer, Recorded};
use tokio::{signal::ctrl_c, time::timeout};

struct Options {
    port: u16,
    seed: u64,
    key: String,
}

impl Options {
    fn read() -> Result<Self> {
        let mut options = Self { port: 8080, seed: 7, key: "idempotency-key".to_owned() };
        let mut arguments = std::env::args().skip(1);
        while let Some(argument) = arguments.next() {
            let mut value = || arguments.next().with_context(|| format!("{argument} wants a value"));
            match argument.as_str() {
                "--port" => options.port = value()?.parse().context("--port wants a number")?,
                "--seed" => options.seed = value()?.parse().context("--seed wants a number")?,
                "--key" => options.key = value()?,
                _ => bail!("unknown argument {argument}; known are --port N, --seed N and --key HEADER"),
            }
        }
        Ok(options)
    }
}

#[tokio::main]
async fn main() -> Result<()> {
    let options = Options::read()?;
    let day = Fault::bad_day(options.seed).inspect(|fault| println!("next: {fault}"));
    let server = FaultServer::start_at(options.port, day).await.context("the port cannot be listened on")?;
    println!("a bad day at {} (seed {}); Ctrl-C ends it", server.url("/"), options.seed);
    tokio::select! {
        () = watch(&server, &options.key) => {}
        stopped = ctrl_c() => stopped?,
    }
    println!("\n{} requests, {} complete writes", server.requests().len(), server.writes());
    println!("{} writes that would have acted once too often (header {})", server.duplicates(&options.key), options.key);
    Ok(())
}

/// Prints each request when it has arrived.
async fn watch(server: &FaultServer, key: &str) {
    let mut seen = 0;
    loop {
        // Short waits: a longer one gives up with a panic, as a test wants it.
        if timeout(Duration::from_secs(1), server.until_requests(seen + 1)).await.is_ok() {
            for request in server.requests().iter().skip(seen) {
                seen += 1;
                println!("{}", line(seen, request, key));
            }
        }
    }
}

/// The request without its query and without its key.
fn line(number: usize, request: &Recorded, key: &str) -> String {
    let keyed = if request.header(key).is_some() { ", with a key" } else { "" };
    format!("{number:>4}   {} {}{keyed}", request.method(), request.path())
}
