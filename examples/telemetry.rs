//! An incident in five calls, as a subscriber and a Prometheus scrape show it.
//! `docs/reading-an-incident.md` reads this log.
//!
//! `cargo run --example telemetry --features testing,metrics`

use std::time::Duration;

use metrics_exporter_prometheus::PrometheusBuilder;
use reqwest_safe_retry::{
    CorrelationId, Deadline, Endpoint, KeyContract, Operation, ProbeVerdict, ReportSlot, SafeRetry, StatusProbe, async_trait,
    policy::Draw,
    testing::{Draws, Fault, FaultServer},
};
use tracing_subscriber::{filter::Targets, layer::SubscriberExt as _, util::SubscriberInitExt as _};

/// Asks the order itself whether it was placed.
struct OrderPage;

#[async_trait]
impl StatusProbe for OrderPage {
    async fn look_up(&self, operation: &Operation<'_>) -> ProbeVerdict {
        let Ok(page) = operation.url().join("/orders/2041") else { return ProbeVerdict::Undecided };
        match operation.send(operation.get(page)).await {
            Ok(response) if response.status().is_success() => ProbeVerdict::Applied(response),
            Ok(response) if response.status() == 404 => ProbeVerdict::Absent,
            Ok(_) | Err(_) => ProbeVerdict::Undecided,
        }
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    // As in any service: the subscriber decides what is shown, RUST_LOG overrides it.
    let shown = std::env::var("RUST_LOG").unwrap_or_else(|_| "warn,reqwest_safe_retry=debug".to_owned());
    let lines = tracing_subscriber::fmt::layer().with_ansi(false);
    tracing_subscriber::registry().with(lines).with(shown.parse::<Targets>()?).init();
    let scrape = PrometheusBuilder::new().install_recorder()?;

    let server = FaultServer::start([
        Fault::status(503).with_retry_after(1), // 1: a read is throttled, then answered
        Fault::ok("catalogue"),
        Fault::close_after_request(), // 2: a payment's answer is lost, its key makes the resend harmless
        Fault::ok("paid"),
        Fault::close_after_request(), // 3: an order's answer is lost, its page shows it
        Fault::ok("order 2041"),
        Fault::close_after_request(), // 4: a mail's answer is lost, and nothing protects it
        Fault::status(503),           // 5: a read meets an outage
    ])
    .await;
    let client = SafeRetry::new()
        .with_draws(Draws::constant(Draw::HALF)) // only so that every run of this example is alike
        .client(reqwest::Client::builder().no_proxy())
        .redirects_off()
        .build()?;

    let catalogue = Endpoint::read().named("catalogue");
    let payments = Endpoint::keyed_write(KeyContract::STRIPE).named("payments");
    let orders = Endpoint::probed_write(OrderPage).named("orders");
    let checkout = CorrelationId::new("checkout-7f3a")?;
    let deadline = Deadline::after(Duration::from_secs(10));
    let calls = [
        client.get(server.url("/catalogue?token=secret")).with_extension(catalogue.clone()),
        client.post(server.url("/payments")).with_extension(payments).body("42 EUR").with_extension(deadline),
        client.post(server.url("/orders")).with_extension(orders).body("one coffee").with_extension(deadline),
        client.post(server.url("/mails")).body("thank you"),
        client.get(server.url("/catalogue?token=secret")).with_extension(catalogue),
    ];
    let slot = ReportSlot::new();
    for call in calls {
        let answer = call.with_extension(checkout.clone()).with_extension(slot.clone()).send().await;
        let report = slot.take().ok_or("every operation is reported")?;
        println!("\n{report}\n  the caller gets {}\n", answer.map_or_else(|error| error.to_string(), |answer| answer.status().to_string()));
    }
    println!("{}", scrape.render());
    Ok(())
}
