//! An operation that its caller drops leaves what is known about it.

use std::sync::{Arc, Mutex};

use reqwest_middleware::ClientBuilder;
use reqwest_safe_retry::{
    Endpoint, Evidence, KeyContract, Observer, Outcome, ReportSlot, RetryReport, SafeRetry, StopReason,
    report::Decided,
    testing::{Scripted, Step},
};
use tokio::time::timeout;

use crate::support::scripted::{URL, seconds};

#[derive(Clone, Default)]
struct Ends(Arc<Mutex<Vec<RetryReport>>>);

impl Observer for Ends {
    fn decided(&self, _: &Decided<'_>) {}

    fn ended(&self, report: &RetryReport) {
        self.0.lock().unwrap().push(report.clone());
    }
}

/// What slot and observer were told of a POST that was given up after a second.
async fn given_up(endpoint: Endpoint, step: Step) -> RetryReport {
    let (slot, ends) = (ReportSlot::new(), Ends::default());
    let retry = SafeRetry::new().with_observer(ends.clone());
    let client = ClientBuilder::new(reqwest::Client::new()).with(retry).with(Scripted::new([step])).build();
    let request = client.post(URL).body("one coffee").with_extension(endpoint).with_extension(slot.clone());
    timeout(seconds(1), request.send()).await.unwrap_err();
    let told = slot.take().unwrap();
    let [end] = &ends.0.lock().unwrap()[..] else { panic!("told once") };
    assert_eq!((end.stop(), end.outcome(), end.key()), (told.stop(), told.outcome(), told.key()));
    told
}

#[tokio::test(start_paused = true)]
async fn a_write_that_is_given_up_on_its_way_is_unknown_and_keeps_its_key() {
    let report = given_up(Endpoint::keyed_write(KeyContract::STRIPE), Step::hangs()).await;
    assert_eq!((report.stop(), report.outcome()), (StopReason::Cancelled, Outcome::Unknown));
    let key = report.key().expect("whoever tries again needs it");
    assert!(key.first_use().is_some(), "the server may have seen it");
}

#[tokio::test(start_paused = true)]
async fn a_write_that_is_given_up_in_a_pause_is_as_unknown_as_its_attempts() {
    let busy = Step::status(503).with_header("retry-after", "20");
    let report = given_up(Endpoint::keyed_write(KeyContract::STRIPE), busy).await;
    assert_eq!((report.stop(), report.outcome(), report.attempts().len()), (StopReason::Cancelled, Outcome::Unknown, 1));
    let refused = Step::status(503).with_header("retry-after", "20");
    let report = given_up(Endpoint::unprotected_write().trusting_refusal(http::StatusCode::SERVICE_UNAVAILABLE), refused).await;
    assert_eq!((report.outcome(), report.evidence()), (Outcome::Unprocessed, Evidence::Unprocessed));
}
