//! The middleware between the crate and the client: it notes what goes out and what comes back, and
//! tells the server which is which.

use std::sync::Arc;

use http::{Extensions, HeaderMap, HeaderName, HeaderValue};
use reqwest::{Request, Response};
use reqwest_middleware::{Middleware, Next, Result};
use tokio::time::Instant;

use crate::{
    holds::Holds,
    journal::{Journal, Kind},
    purses::Purse,
};

/// The operation's name: the crate's correlation id, which questions carry, too.
pub(crate) const OPERATION: HeaderName = HeaderName::from_static("x-request-id");
/// The number of the send within its operation, and when it began.
pub(crate) const SEND: HeaderName = HeaderName::from_static("x-send");
pub(crate) const BEGAN: HeaderName = HeaderName::from_static("x-began");

/// The operation that a request belongs to.
pub(crate) fn operation_of(headers: &HeaderMap) -> Option<u64> {
    u64::from_str_radix(headers.get(OPERATION)?.to_str().ok()?, 16).ok()
}

/// One client's.
pub(crate) struct Tap {
    pub(crate) journal: Arc<Journal>,
    pub(crate) purse: Arc<Purse>,
    pub(crate) holds: Option<Arc<Holds>>,
}

#[async_trait::async_trait]
impl Middleware for Tap {
    async fn handle(&self, mut request: Request, extensions: &mut Extensions, next: Next<'_>) -> Result<Response> {
        let Some(operation) = operation_of(request.headers()) else { return next.run(request, extensions).await };
        let began = Instant::now();
        let kind = if request.url().path().starts_with("/status/") { Kind::Probe } else { Kind::Attempt };
        let Some((send, before)) = self.journal.send(operation, kind, began) else { return next.run(request, extensions).await };

        let breaches = [self.purse.pays(kind, &before, began), self.holds.as_ref().and_then(|holds| holds.allow(kind, &before, began))];
        breaches.into_iter().flatten().for_each(|breach| self.journal.breach(operation, breach));

        request.headers_mut().insert(SEND, HeaderValue::from(send));
        request.headers_mut().insert(BEGAN, HeaderValue::from(self.journal.micros(began)));
        let result = next.run(request, extensions).await;
        if let Ok(response) = &result {
            self.journal.answered(operation, send, response.status());
            if let (Some(holds), Some((at, asked))) = (&self.holds, self.journal.said_to(operation, send)) {
                holds.told(kind, response.status(), at, asked, self.journal.plan(operation));
            }
        }
        result
    }
}
