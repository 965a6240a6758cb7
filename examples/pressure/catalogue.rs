//! A catalogue of very many rows: to build it, and to find each of them once.

use std::time::Instant;

use anyhow::{Result, ensure};
use reqwest_middleware::ClientBuilder;
use reqwest_safe_retry::{Endpoint, EndpointCatalog, ReportSlot, Row, SafeRetry};

use crate::{
    peer::AtOnce,
    scene::{Found, mebibytes, memory, runtime},
};

const ROWS: u64 = 100_000;

pub(crate) fn run() -> Result<Found> {
    let (before, start) = (memory("VmRSS:"), Instant::now());
    let row = |n| Row::post(format!("/v1/things-{}/{{id}}/part-{}", n / 100, n % 100), Endpoint::unprotected_write().named("part"));
    let catalog = EndpointCatalog::new().with_rows("https://api.example", (0..ROWS).map(row))?;
    let (built, holds) = (start.elapsed(), memory("VmRSS:").zip(before).map(|(now, before)| now.saturating_sub(before)));
    let holds = holds.map_or_else(|| "?".to_owned(), mebibytes);

    let retry = SafeRetry::new().with_catalog(catalog);
    let done = || http::Response::new("done");
    let client = ClientBuilder::new(reqwest::Client::new()).with(retry).with(AtOnce(done)).build();
    let start = Instant::now();
    runtime()?.block_on(async {
        for n in 0..ROWS {
            let slot = ReportSlot::new();
            let url = format!("https://api.example/v1/things-{}/7/part-{}", n / 100, n % 100);
            client.post(url).with_extension(slot.clone()).send().await?;
            ensure!(slot.take().is_some_and(|report| report.endpoint() == Some("part")), "row {n} was not found");
        }
        Ok(())
    })?;
    let each = start.elapsed().as_secs_f64() * 1e6 / ROWS as f64;
    let said = format!("built in {:.0} ms, {holds}; every row found, {each:.1} µs for a whole operation", built.as_secs_f64() * 1e3);
    Ok(Found { many: ROWS, said })
}
