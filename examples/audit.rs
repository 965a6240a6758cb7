//! Prints what a catalogue promises, and what is missing in it: `cargo run --example audit`.

use std::time::Duration;

use http::{Method, StatusCode};
use reqwest_safe_retry::{Endpoint, EndpointCatalog, KeyContract, Row, SafeRetry, StatusUrl};

const SECOND: Duration = Duration::from_secs(1);

fn catalog() -> Result<EndpointCatalog, Box<dyn std::error::Error>> {
    let shipment = StatusUrl::by_path("/orders/{order}/shipment", "/orders/{order}/shipment")?;
    let payments = [
        Row::post("/v1/charges", Endpoint::keyed_write(KeyContract::STRIPE).owned_by("payments").with_deadline(20 * SECOND)),
        Row::get("/v1/charges/{id}", Endpoint::read()),
    ];
    let warehouse = [
        Row::post("/orders/{order}/shipment", Endpoint::probed_write(shipment).owned_by("warehouse").with_deadline(60 * SECOND)),
        Row::put("/orders/{order}/note", Endpoint::idempotent_write().owned_by("warehouse")).or(Method::PATCH),
        // Nobody can tell whether the mail went out, so it is sent again only when it cannot have
        // gone.
        Row::post("/mails", Endpoint::unprotected_write().trusting_refusal(StatusCode::SERVICE_UNAVAILABLE)),
    ];
    let catalog = EndpointCatalog::new().with_rows("https://api.stripe.com", payments)?;
    Ok(catalog.with_rows("https://warehouse.example", warehouse)?)
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let retry = SafeRetry::new().with_deadline(10 * SECOND).with_attempt_limit(3 * SECOND);
    println!("{}", catalog()?.audit_for(&retry));
    Ok(())
}
