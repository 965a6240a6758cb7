//! What a page would do, for `test.mjs` to call. Each function tells in words what came out.

#![cfg(target_arch = "wasm32")]

use std::{
    sync::{Arc, Mutex},
    time::{Duration, UNIX_EPOCH},
};

use reqwest_middleware::{ClientBuilder, ClientWithMiddleware, RequestBuilder};
use reqwest_safe_retry::{
    Cooldown, Deadline, Endpoint, HoldsBack, IdempotencyKey, KeyContract, ReportSlot, RetryErrorExt, RetryPolicy, SafeRetry, StatusUrl,
};
use wasm_bindgen::prelude::wasm_bindgen;

const PAGE: &str = "http://shop.test/orders";

fn plugin() -> SafeRetry {
    SafeRetry::new().with_deadline(Duration::from_secs(5))
}

fn with(plugin: SafeRetry) -> ClientWithMiddleware {
    ClientBuilder::new(reqwest::Client::new()).with(plugin).build()
}

fn client() -> ClientWithMiddleware {
    with(plugin())
}

/// The status or the error, the number of attempts, and what is known.
async fn told(request: RequestBuilder) -> String {
    let slot = ReportSlot::new();
    let result = request.with_extension(slot.clone()).send().await;
    let result = match &result {
        Ok(answer) => answer.status().as_u16().to_string(),
        Err(error) => format!("{:?}{}", error.evidence(), if error.timed_out() { ", timed out" } else { "" }),
    };
    let report = slot.take().map_or_else(String::new, |report| {
        format!("{} attempts, {:?}, {:?}, {} advice", report.attempts().len(), report.stop(), report.outcome(), report.advice().len())
    });
    format!("{result}: {report}")
}

#[wasm_bindgen]
pub async fn read() -> String {
    told(client().get(PAGE)).await
}

#[wasm_bindgen]
pub async fn unprotected_write() -> String {
    told(client().post(PAGE).body("1 coffee").with_extension(Endpoint::unprotected_write())).await
}

#[wasm_bindgen]
pub async fn keyed_write() -> String {
    told(client().post(PAGE).body("1 coffee").with_extension(Endpoint::keyed_write(KeyContract::STRIPE))).await
}

/// A key that was first used this many hours ago, by the clock of the page.
#[wasm_bindgen]
pub async fn write_under_a_key_from(hours: u32, now: f64) -> String {
    let first_use = UNIX_EPOCH + Duration::from_millis(now as u64) - Duration::from_secs(3600) * hours;
    let Ok(key) = IdempotencyKey::parse("order-2041") else { return String::new() };
    let write = client().post(PAGE).body("1 coffee").with_extension(Endpoint::keyed_write(KeyContract::STRIPE));
    told(write.with_extension(key.first_used(first_use))).await
}

#[wasm_bindgen]
pub async fn probed_write() -> String {
    let Ok(probe) = StatusUrl::by_path("/orders", "/orders/latest") else { return String::new() };
    told(client().post(PAGE).body("1 coffee").with_extension(Endpoint::probed_write(probe))).await
}

#[wasm_bindgen]
pub async fn read_within(millis: u32) -> String {
    told(client().get(PAGE).with_extension(Deadline::after(Duration::from_millis(millis.into())))).await
}

#[wasm_bindgen]
pub async fn read_in_a_scope(millis: u32) -> String {
    Deadline::after(Duration::from_millis(millis.into())).scope(read()).await
}

/// What became of the body, once the head is there.
#[wasm_bindgen]
pub async fn body_within(millis: u32) -> String {
    let deadline = Deadline::after(Duration::from_millis(millis.into()));
    match client().get(PAGE).with_extension(deadline).send().await {
        Ok(answer) => answer.text().await.unwrap_or_else(|_| "cut".to_owned()),
        Err(_) => "no head".to_owned(),
    }
}

/// What a classifier sees that asks for the body, and what is left for the caller.
#[wasm_bindgen]
pub async fn body_of_the_attempt() -> String {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let sees = Arc::clone(&seen);
    let endpoint = Endpoint::read().reading_body(1000).classified_by(move |answer| {
        let by = if answer.body().is_some() { "its body" } else { "its head alone" };
        sees.lock().ok()?.push(format!("{} by {by}", answer.status().as_u16()));
        None
    });
    let text = match client().get(PAGE).with_extension(endpoint).send().await {
        Ok(answer) => answer.text().await.unwrap_or_else(|_| "cut".to_owned()),
        Err(_) => "no head".to_owned(),
    };
    let seen = seen.lock().map_or_else(|_| String::new(), |seen| seen.join(", "));
    format!("{seen}: {text}")
}

/// Two reads, of which the first may have been asked to wait.
#[wasm_bindgen]
pub async fn two_reads_that_share_waits() -> String {
    let once = RetryPolicy::DEFAULT.with_attempts(1);
    let client = with(plugin().with_policy(once).with_shared_cooldown(Cooldown::new().holding_back(HoldsBack::FirstSendsToo)));
    let first = told(client.get(PAGE)).await;
    format!("{first}; {}", told(client.get(PAGE)).await)
}

/// One client, many reads: its budget is theirs.
#[wasm_bindgen]
pub async fn reads(number: u32) -> u32 {
    let client = client();
    let mut sent = 0;
    for _ in 0..number {
        let slot = ReportSlot::new();
        let _ = client.get(PAGE).with_extension(slot.clone()).send().await;
        sent += slot.take().map_or(0, |report| u32::try_from(report.attempts().len()).unwrap_or(u32::MAX));
    }
    sent
}

/// A key's fingerprint is keyed with a secret of the page.
#[wasm_bindgen]
pub fn fingerprint() -> String {
    IdempotencyKey::parse("order-2041").map_or_else(|_| String::new(), |key| key.fingerprint().to_string())
}
