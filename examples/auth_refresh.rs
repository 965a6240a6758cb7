//! A token that has run out: who signs, who fetches a fresh token, and why no order is placed
//! twice.
//!
//! Further in, a signer writes the token on every attempt and drops it when it sees a 401; the
//! endpoint says that this status is worth one more attempt. Further out, a refresh sends the whole
//! call again; the paved road keeps both passes one operation under one key.

use std::sync::{Arc, Mutex, PoisonError};

use http::{Extensions, HeaderValue, StatusCode, header::AUTHORIZATION};
use reqwest::{Request, Response};
use reqwest_middleware::{Middleware, Next, Result};
use reqwest_safe_retry::{
    Endpoint, KeyContract, SafeRetry,
    testing::{Fault, FaultServer},
};

/// The token in use. Clones share it.
#[derive(Clone, Default)]
struct Tokens(Arc<Mutex<Option<HeaderValue>>>);

impl Tokens {
    /// The first token has run out already; a fresh one is good.
    fn current(&self) -> HeaderValue {
        let mut token = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        token.get_or_insert(HeaderValue::from_static("Bearer stale")).clone()
    }

    fn refresh(&self) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(HeaderValue::from_static("Bearer fresh"));
    }
}

/// Further in: signs each attempt. It never sends again by itself.
struct Signer(Tokens);

#[async_trait::async_trait]
impl Middleware for Signer {
    async fn handle(&self, mut request: Request, extensions: &mut Extensions, next: Next<'_>) -> Result<Response> {
        request.headers_mut().insert(AUTHORIZATION, self.0.current());
        let answer = next.run(request, extensions).await?;
        if answer.status() == StatusCode::UNAUTHORIZED {
            self.0.refresh();
        }
        Ok(answer)
    }
}

/// Further out: sends the call once more after a 401. A body that cannot be cloned is not sent
/// again.
struct Refresh(Tokens);

#[async_trait::async_trait]
impl Middleware for Refresh {
    async fn handle(&self, request: Request, extensions: &mut Extensions, next: Next<'_>) -> Result<Response> {
        let again = request.try_clone();
        let answer = next.clone().run(request, extensions).await?;
        match again {
            Some(again) if answer.status() == StatusCode::UNAUTHORIZED => {
                self.0.refresh();
                next.run(again, extensions).await
            }
            _ => Ok(answer),
        }
    }
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let paved = || SafeRetry::new().client(reqwest::Client::builder().no_proxy()).redirects_off();
    let signed = |tokens: &Tokens| Signer(tokens.clone());

    // Inside: nothing protects this order, and the server says with its 401 that it did not act.
    let shop = FaultServer::start([Fault::status(401), Fault::ok("order 1")]).await;
    let tokens = Tokens::default();
    let client = paved().with(signed(&tokens)).build()?;
    let order = Endpoint::unprotected_write().refreshed_after(StatusCode::UNAUTHORIZED);
    let answer = client.post(shop.url("/orders")).body("1 coffee").with_extension(order).send().await?;
    told("inside", &answer, &shop);

    // Outside: the first answer is lost, the resend finds the token run out, the refresh follows.
    let shop = FaultServer::start([Fault::close_after_request(), Fault::status(401), Fault::ok("order 2")]).await;
    let tokens = Tokens::default();
    let client = paved().with_outside(Refresh(tokens.clone())).with(signed(&tokens)).build()?;
    let order = Endpoint::keyed_write(KeyContract::STRIPE);
    let answer = client.post(shop.url("/orders")).body("1 tea").with_extension(order).send().await?;
    told("outside", &answer, &shop);
    Ok(())
}

/// Says what the server received: how many requests, under how many keys.
fn told(place: &str, answer: &Response, shop: &FaultServer) {
    let requests = shop.requests();
    let mut keys: Vec<_> = requests.iter().map(|request| request.header("idempotency-key")).collect();
    keys.dedup();
    let fresh = requests.iter().filter(|request| request.header("authorization") == Some("Bearer fresh")).count();
    println!(
        "{place}: {}, {} requests, {fresh} with a fresh token, {} key",
        answer.status(),
        requests.len(),
        keys.iter().flatten().count()
    );
}
