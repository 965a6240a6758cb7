//! One refused operation for each of very many origins: what is remembered of them stays small.

use anyhow::{Result, ensure};
use reqwest_middleware::ClientBuilder;
use reqwest_safe_retry::{Cooldown, Endpoint, SafeRetry};

use crate::{
    peer::AtOnce,
    scene::{Found, mebibytes, memory, runtime},
};

const ORIGINS: u64 = 1_000_000;
/// Of memory that may come after the first tenth, in KiB.
const GROWTH: u64 = 16 * 1024;

pub(crate) fn run() -> Result<Found> {
    let busy = || {
        let mut answer = http::Response::new("busy");
        *answer.status_mut() = http::StatusCode::SERVICE_UNAVAILABLE;
        answer.headers_mut().insert("retry-after", http::HeaderValue::from_static("3600"));
        answer
    };
    let retry = SafeRetry::new().with_shared_cooldown(Cooldown::new());
    let client = ClientBuilder::new(reqwest::Client::new()).with(retry).with(AtOnce(busy)).build();
    runtime()?.block_on(async {
        let mut settled = None;
        for n in 0..ORIGINS {
            if n == ORIGINS / 10 {
                settled = memory("VmRSS:");
            }
            let request = client.post(format!("https://origin-{n}.example/")).with_extension(Endpoint::unprotected_write());
            ensure!(request.send().await.is_ok_and(|answer| answer.status() == http::StatusCode::SERVICE_UNAVAILABLE), "origin {n}");
        }
        let grown = settled.zip(memory("VmRSS:")).map(|(settled, now)| now.saturating_sub(settled));
        ensure!(grown.is_none_or(|grown| grown < GROWTH), "{grown:?} KiB after the first tenth");
        let grown = grown.map_or_else(|| "?".to_owned(), mebibytes);
        Ok(Found { many: ORIGINS, said: format!("each told to wait an hour; {grown} more memory after the first tenth") })
    })
}
