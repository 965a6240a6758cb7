//! What is logged where nobody in the whole process listens below INFO: a process of its own, since
//! whether somebody listens is asked of all subscribers at once.

#![cfg(all(feature = "testing", feature = "tracing"))]
#![allow(clippy::unwrap_used, reason = "what fails here fails its test")]

#[path = "traced/capture.rs"]
mod capture;

use std::{sync::LazyLock, time::Duration};

use reqwest_middleware::{ClientBuilder, ClientWithMiddleware};
use reqwest_safe_retry::{
    Endpoint, KeyContract, SafeRetry, SendWitness,
    testing::{Scripted, Step},
};
use tracing::Level;
use tracing_subscriber::filter::LevelFilter;

use capture::Capture;

const URL: &str = "https://api.test/v1/orders?token=1";

fn client(plugin: SafeRetry, peer: &Scripted) -> ClientWithMiddleware {
    // Never reached, so one for all.
    static TRANSPORT: LazyLock<reqwest::Client> = LazyLock::new(reqwest::Client::new);
    ClientBuilder::new(TRANSPORT.clone()).with(plugin).with(SendWitness::redirects_off()).with(peer.clone()).build()
}

#[tokio::test(start_paused = true)]
async fn at_info_an_operation_that_goes_well_makes_no_span_and_any_other_one_has_it() {
    for marked in [None, Some(Endpoint::keyed_write(KeyContract::STRIPE))] {
        let plugin = || marked.clone().map_or_else(SafeRetry::new, |endpoint| SafeRetry::new().with_default_write(endpoint));
        let send = async |plugin: SafeRetry, peer: Scripted| match marked {
            None => drop(client(plugin, &peer).get(URL).send().await),
            Some(_) => drop(client(plugin, &peer).post(URL).send().await),
        };
        let (log, _guard) = Capture::start_at(LevelFilter::INFO);
        send(plugin(), Scripted::answering(200)).await;
        assert_eq!((log.levels(), log.spans().len()), (vec![], 0));
        send(plugin(), Scripted::new([Step::status(503), Step::ok("done")])).await;
        assert_eq!(log.levels(), [("resend", Level::INFO)]);
        let spans = log.spans();
        let seen = spans.iter().map(|span| (span.field("http.response.status_code"), span.field("http.request.resend_count")));
        assert_eq!(seen.collect::<Vec<_>>(), [(Some("200"), Some("1"))], "one span, closed with what came out");
    }
}

#[tokio::test(start_paused = true)]
async fn at_info_a_warning_stands_in_the_span_of_its_operation() {
    let (log, _guard) = Capture::start_at(LevelFilter::INFO);
    let post = |peer: Scripted| client(SafeRetry::new(), &peer).post(URL).body("one coffee").send();
    post(Scripted::new([Step::fails()])).await.unwrap_err();
    assert!(tokio::time::timeout(Duration::from_secs(1), post(Scripted::new([Step::hangs()]))).await.is_err());
    assert_eq!(log.levels(), [("end", Level::WARN), ("abandoned", Level::WARN)]);
    let spans = log.spans();
    let failed: Vec<_> = spans.iter().map(|span| span.field("otel.status_code")).collect();
    assert_eq!(failed, [Some("ERROR"), Some("ERROR")]);
}
