//! Answers whose head holds one field of 64 KiB, in each of the fields that this crate reads.

use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use reqwest_safe_retry::{Endpoint, KeyContract, SafeRetry, hints::HintSources};

use crate::{
    peer::{Answer, serve},
    scene::{Found, runtime},
};

const LENGTH: usize = 64 * 1024;
const ANSWERS: u64 = 1_000;

const FIELDS: [(&str, &str); 6] = [
    ("retry-after", "9"),
    ("retry-after", "Sun, 06 Nov 1994 08:49:37 GMT "),
    ("ratelimit", "\"all\";r=0;t=1, "),
    ("retry-after-ms", "0."),
    ("x-should-retry", "maybe "),
    ("idempotent-replayed", "true "),
];

pub(crate) fn run() -> Result<Found> {
    runtime()?.block_on(async {
        let retry = SafeRetry::new().with_hints(HintSources::ALL).with_deadline(Duration::from_secs(2));
        let client = retry.client(reqwest::Client::builder().no_proxy()).build()?;
        for (name, piece) in FIELDS {
            let value = piece.repeat(LENGTH / piece.len() + 1);
            let begins = format!("HTTP/1.1 400 No\r\n{name}: {}\r\ncontent-length: 4\r\n\r\nbusy", value[..LENGTH].trim_end());
            let port = serve(Answer { begins, trickles: None }).await?;
            for n in 0..ANSWERS {
                let endpoint = if n % 2 == 0 { Endpoint::read() } else { Endpoint::keyed_write(KeyContract::STRIPE) };
                let request = client.post(format!("http://127.0.0.1:{port}/{n}")).with_extension(endpoint);
                let answer = request.send().await.with_context(|| format!("{name}: {piece}"))?;
                ensure!(answer.status() == http::StatusCode::BAD_REQUEST, "{name}: {}", answer.status());
                ensure!(answer.bytes().await?.as_ref() == b"busy", "{name}: its body");
            }
        }
        Ok(Found { many: ANSWERS * FIELDS.len() as u64, said: "answers, each with 64 KiB in one of the fields that are read".to_owned() })
    })
}
