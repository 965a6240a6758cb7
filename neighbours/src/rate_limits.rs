//! reqwest-ratelimit: a limit of requests counts sends inside, and operations outside.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use reqwest_ratelimit::RateLimiter;
use reqwest_safe_retry::{
    Deadline, Outcome, RetryErrorExt as _,
    testing::{Fault, FaultServer},
};

use crate::support::{inside, outside, sent};

/// Gives a permit at once, and counts.
#[derive(Clone, Default)]
struct Permits(Arc<AtomicUsize>);

impl RateLimiter for Permits {
    async fn acquire_permit(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

/// Gives no permit within a test.
struct NoPermits;

impl RateLimiter for NoPermits {
    async fn acquire_permit(&self) {
        std::future::pending().await
    }
}

#[tokio::test]
async fn inside_each_attempt_takes_a_permit() {
    let (server, permits) = (FaultServer::start([Fault::status(503), Fault::ok("menu")]).await, Permits::default());
    sent(inside(reqwest_ratelimit::all(permits.clone())).get(server.url("/menu"))).await.0.unwrap();
    server.assert_requests(2);
    assert_eq!(permits.0.load(Ordering::Relaxed), 2);
}

#[tokio::test]
async fn outside_resends_pass_the_limit_uncounted() {
    let (server, permits) = (FaultServer::start([Fault::status(503), Fault::ok("menu")]).await, Permits::default());
    sent(outside(reqwest_ratelimit::all(permits.clone())).get(server.url("/menu"))).await.0.unwrap();
    server.assert_requests(2);
    assert_eq!(permits.0.load(Ordering::Relaxed), 1);
}

/// Waiting for a permit is time of the attempt. Nothing came to the witness of the paved road, so a
/// write that the deadline ends there was not sent.
#[tokio::test]
async fn inside_the_deadline_ends_the_wait_for_a_permit_and_a_write_was_not_sent() {
    let server = FaultServer::start([]).await;
    let order = inside(reqwest_ratelimit::all(NoPermits)).post(server.url("/orders"));
    let (result, report) = sent(order.with_extension(Deadline::after(Duration::from_millis(50)))).await;
    assert!(result.unwrap_err().timed_out());
    let report = report.unwrap();
    assert_eq!((report.attempts().len(), report.outcome()), (1, Outcome::Unprocessed));
    server.assert_requests(0);
}

/// The deadline of an operation begins with the operation, behind the limit.
#[tokio::test]
async fn outside_no_deadline_ends_the_wait_for_a_permit() {
    let server = FaultServer::start([]).await;
    let order = outside(reqwest_ratelimit::all(NoPermits)).post(server.url("/orders"));
    let waiting = sent(order.with_extension(Deadline::after(Duration::from_millis(10))));
    tokio::time::timeout(Duration::from_millis(200), waiting).await.unwrap_err();
    server.assert_requests(0);
}
