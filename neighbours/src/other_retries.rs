//! reqwest-retry left in by mistake: it sends again what this crate would not.

use std::sync::{Arc, Mutex};

use reqwest_middleware::{ClientWithMiddleware, Error};
use reqwest_retry::{RetryTransientMiddleware, policies::ExponentialBackoff};
use reqwest_safe_retry::{
    Advice, Endpoint, RetryErrorExt as _,
    testing::{Fault, FaultServer},
};
use tracing::{Event, Subscriber};
use tracing_subscriber::{
    layer::{Context, Layer, SubscriberExt as _},
    util::SubscriberInitExt as _,
};

use crate::support::{inside, keyed_write, outside, sent};

/// Three resends without a pause.
fn other() -> RetryTransientMiddleware<ExponentialBackoff> {
    let at_once = std::time::Duration::ZERO;
    RetryTransientMiddleware::new_with_policy(ExponentialBackoff::builder().retry_bounds(at_once, at_once).build_with_max_retries(3))
}

/// Counts the lines of advice.
#[derive(Clone, Default)]
struct Advised(Arc<Mutex<usize>>);

impl<S: Subscriber> Layer<S> for Advised {
    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        if event.metadata().target() == "reqwest_safe_retry::advice" {
            *self.0.lock().unwrap() += 1;
        }
    }
}

async fn order(client: &ClientWithMiddleware, server: &FaultServer) -> (Error, Option<reqwest_safe_retry::RetryReport>) {
    let (result, report) = sent(client.post(server.url("/orders")).with_extension(Endpoint::unprotected_write())).await;
    (result.unwrap_err(), report)
}

#[tokio::test]
async fn inside_its_sends_are_counted_and_warned_of_once_for_each_origin() {
    let advised = Advised::default();
    let _guard = tracing_subscriber::registry().with(advised.clone()).set_default();
    let server = FaultServer::start([Fault::close_after_request()]).await;
    let client = inside(other());
    for round in 1..=2 {
        let (error, report) = order(&client, &server).await;
        let report = report.unwrap();
        assert_eq!((report.attempts().len(), report.attempts()[0].sends()), (1, 4));
        assert_eq!(report.advice(), [Advice::SentMoreOften]);
        assert!(error.safe_retry().is_none(), "its own error comes out, unchanged");
        server.assert_writes(4 * round);
    }
    assert_eq!(*advised.0.lock().unwrap(), 1);
}

/// Each attempt of ours is up to four of its: this crate's policy counts them all.
#[tokio::test]
async fn inside_the_two_do_not_multiply() {
    let server = FaultServer::start([Fault::status(503)]).await;
    let (_, report) = sent(inside(other()).post(server.url("/orders")).with_extension(keyed_write())).await;
    assert_eq!(report.unwrap().attempts().len(), 1);
    server.assert_writes(4);
}

/// Outside, nobody can see that one call of the caller becomes four operations.
#[tokio::test]
async fn outside_a_lost_answer_to_an_unmarked_write_is_four_writes_and_nobody_is_told() {
    let advised = Advised::default();
    let _guard = tracing_subscriber::registry().with(advised.clone()).set_default();
    let server = FaultServer::start([Fault::close_after_request()]).await;
    let (_, report) = sent(outside(other()).post(server.url("/orders"))).await;
    assert_eq!(report.unwrap().attempts().len(), 1, "of the last pass");
    server.assert_writes(4);
    assert_eq!(*advised.0.lock().unwrap(), 0);
}

/// Its strategy takes an error of a middleware for final, and a typed error is one.
#[tokio::test]
async fn outside_a_lost_answer_to_a_marked_write_is_one_write() {
    let server = FaultServer::start([Fault::close_after_request()]).await;
    let (error, _) = order(&outside(other()), &server).await;
    assert!(error.safe_retry().is_none(), "it stands inside of the other's error");
    server.assert_writes(1);
}

/// An answer is no error of ours, so each 503 that we give back is asked for three times more. What
/// keeps a keyed write safe is that all passes have one key.
#[tokio::test]
async fn outside_the_two_multiply_and_a_keyed_write_keeps_its_key() {
    let server = FaultServer::start([Fault::status(503)]).await;
    sent(outside(other()).post(server.url("/orders")).with_extension(keyed_write())).await.0.unwrap();
    let requests = server.requests();
    let key = |at: usize| requests[at].header("idempotency-key").unwrap();
    assert!((1..requests.len()).all(|at| key(at) == key(0)));
    server.assert_writes(12);
}
