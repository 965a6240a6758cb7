//! What the tests share: quick pauses, clients with a neighbour on either side, and what came of a
//! request.

use std::{sync::Once, time::Duration};

use reqwest_middleware::{ClientWithMiddleware, Middleware, RequestBuilder, Result};
use reqwest_safe_retry::{
    Endpoint, KeyContract, ReportSlot, RetryPolicy, RetryReport, SafeRetry,
    policy::{Backoff, Jitter},
};

const PAUSE: Backoff = Backoff::doubling(Duration::from_millis(1), Duration::from_millis(1)).with_jitter(Jitter::None);

/// The defaults, with pauses of 1 ms.
pub(crate) fn quick() -> SafeRetry {
    somebody_listens();
    SafeRetry::new().with_policy(RetryPolicy::DEFAULT.with_backoff(PAUSE).with_throttle_backoff(PAUSE))
}

/// A subscriber for threads that have none of their own: else what such a thread says first would
/// count as unheard by all.
fn somebody_listens() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| tracing::subscriber::set_global_default(tracing_subscriber::registry()).unwrap());
}

/// No proxy of the environment in the way.
pub(crate) fn plain() -> reqwest::ClientBuilder {
    reqwest::Client::builder().no_proxy()
}

/// The neighbour runs once for each operation.
pub(crate) fn outside(neighbour: impl Middleware) -> ClientWithMiddleware {
    quick().client(plain()).redirects_off().with_outside(neighbour).build().unwrap()
}

/// The neighbour runs once for each attempt.
pub(crate) fn inside(neighbour: impl Middleware) -> ClientWithMiddleware {
    quick().client(plain()).redirects_off().with(neighbour).build().unwrap()
}

/// Nothing but the plugin.
pub(crate) fn alone() -> ClientWithMiddleware {
    quick().client(plain()).redirects_off().build().unwrap()
}

pub(crate) fn keyed_write() -> Endpoint {
    Endpoint::keyed_write(KeyContract::STRIPE).named("orders")
}

/// Fails a test that hangs.
pub(crate) async fn bounded<F: Future>(test: F) -> F::Output {
    tokio::time::timeout(Duration::from_secs(10), test).await.expect("the test does not hang")
}

/// What the caller gets, and what a slot tells of it. A slot without a report: no plugin ran.
pub(crate) async fn sent(request: RequestBuilder) -> (Result<reqwest::Response>, Option<RetryReport>) {
    let slot = ReportSlot::new();
    let result = bounded(request.with_extension(slot.clone()).send()).await;
    (result, slot.take())
}
