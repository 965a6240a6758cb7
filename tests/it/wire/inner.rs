//! Inner middlewares that answer, resend, sign and fail in their own ways: what the witness sees
//! counts, and nothing that they make up proves anything.

use std::time::SystemTime;

use http::{Extensions, HeaderValue, StatusCode};
use reqwest::{Request, Response};
use reqwest_middleware::{ClientBuilder, ClientWithMiddleware, Middleware, Next, Result};
use reqwest_safe_retry::{
    Advice, Endpoint, IdempotencyKey, KeyContract, Outcome, ReportSlot, RetryError, RetryErrorExt as _, RetryReport, SafeRetry,
    SendWitness, SentBefore, StatusUrl, StopReason,
    testing::{Fault, FaultServer, Scripted},
};

use crate::support::wire::{QUICK, bounded, plain};

type Sent<'a> = futures_util::future::BoxFuture<'a, Result<Response>>;

/// An inner middleware made of a function.
struct Inner(for<'a> fn(Request, &'a mut Extensions, Next<'a>) -> Sent<'a>);

#[async_trait::async_trait]
impl Middleware for Inner {
    async fn handle(&self, request: Request, extensions: &mut Extensions, next: Next<'_>) -> Result<Response> {
        (self.0)(request, extensions, next).await
    }
}

fn paved(inner: Inner) -> ClientWithMiddleware {
    SafeRetry::new().with_policy(QUICK).client(plain()).redirects_off().with(inner).build().unwrap()
}

async fn post(client: &ClientWithMiddleware, server: &FaultServer, endpoint: Option<Endpoint>) -> (Result<Response>, RetryReport) {
    let slot = ReportSlot::new();
    let mut request = client.post(server.url("/orders")).body("one coffee").with_extension(slot.clone());
    if let Some(endpoint) = endpoint {
        request = request.with_extension(endpoint);
    }
    let result = bounded(request.send()).await;
    (result, slot.take().unwrap())
}

fn rebuilt<'a>(request: Request, extensions: &'a mut Extensions, next: Next<'a>) -> Sent<'a> {
    Box::pin(async move {
        let status = next.run(request, extensions).await?.status();
        Ok(http::Response::builder().status(status).body("built anew").unwrap().into())
    })
}

fn raised<'a>(request: Request, extensions: &'a mut Extensions, next: Next<'a>) -> Sent<'a> {
    Box::pin(async move { Ok(next.run(request, extensions).await?.error_for_status()?) })
}

fn opaque<'a>(request: Request, extensions: &'a mut Extensions, next: Next<'a>) -> Sent<'a> {
    Box::pin(async move {
        let answer = next.run(request, extensions).await;
        let told = answer.and_then(|answer| Ok(answer.error_for_status()?));
        told.map_err(|_| reqwest_middleware::Error::middleware(std::io::Error::other("something went wrong")))
    })
}

fn other_key<'a>(mut request: Request, extensions: &'a mut Extensions, next: Next<'a>) -> Sent<'a> {
    request.headers_mut().insert("idempotency-key", HeaderValue::from_static("sdk-0"));
    next.run(request, extensions)
}

fn resends<'a>(request: Request, extensions: &'a mut Extensions, next: Next<'a>) -> Sent<'a> {
    Box::pin(async move {
        let again = request.try_clone().unwrap();
        drop(next.clone().run(request, extensions).await);
        next.run(again, extensions).await
    })
}

/// The first server processes the POST and sends it on; the second one refuses. An answer that was
/// built by hand has no address and no URL, and proves nothing.
#[tokio::test]
async fn a_refusal_that_was_built_by_hand_proves_nothing() {
    let second = FaultServer::start([Fault::status(425)]).await;
    let first = FaultServer::start([Fault::status(303).with_header("location", second.url("/").as_str())]).await;
    let bare = plain().redirect(reqwest::redirect::Policy::default()).build().unwrap();
    let client = ClientBuilder::new(bare).with(SafeRetry::new().with_policy(QUICK)).with(Inner(rebuilt)).build();
    let (_, report) = post(&client, &first, None).await;
    assert_eq!(report.attempts().len(), 1);
    first.assert_writes(1);
}

/// Of an error that an inner middleware made of an answer, the answer counts: its status, its wait,
/// and what it means for a key. Error and report never disagree.
#[tokio::test]
async fn an_answer_that_was_made_an_error_means_what_it_would_have_meant() {
    for (name, inner) in [("raised", Inner(raised)), ("opaque", Inner(opaque))] {
        let client = paved(inner);
        for status in [400, 401, 402, 403, 404, 409, 410, 412, 422, 425, 429, 500, 501, 502, 503, 504, 529] {
            let plain_answer = SafeRetry::new().with_policy(QUICK).client(plain()).redirects_off().build().unwrap();
            for keyed in [true, false] {
                let endpoint = || if keyed { Endpoint::keyed_write(KeyContract::STRIPE) } else { Endpoint::unprotected_write() };
                let server = || FaultServer::start([Fault::status(status)]);
                let (with, without) = (server().await, server().await);
                let (result, report) = post(&client, &with, Some(endpoint())).await;
                let (_, expected) = post(&plain_answer, &without, Some(endpoint())).await;
                let facts = |report: &RetryReport| (report.stop(), report.outcome(), report.evidence(), report.attempts().len());
                assert_eq!(facts(&report), facts(&expected), "{name} {status} {keyed}");
                with.assert_writes(without.requests().len());
                let error = result.unwrap_err();
                if report.stop() == StopReason::AnswerIsFinal {
                    assert!(error.safe_retry().is_none(), "the inner error goes up as it is: {name} {status}");
                }
            }
        }
    }
}

#[tokio::test]
async fn a_wait_is_kept_although_an_inner_middleware_made_an_error_of_it() {
    for inner in [Inner(raised), Inner(opaque)] {
        let server = FaultServer::start([Fault::status(503).with_retry_after(86_400), Fault::ok("done")]).await;
        let (_, report) = post(&paved(inner), &server, Some(Endpoint::keyed_write(KeyContract::STRIPE))).await;
        assert_eq!(report.stop(), StopReason::WindowClosed);
        server.assert_writes(1);
    }
}

/// A cache that turns errors of the transport into its own hides nothing from the witness.
#[tokio::test]
async fn a_failure_below_an_opaque_error_is_resent_like_any_other() {
    let server = FaultServer::start([Fault::close_after_request(), Fault::ok("done")]).await;
    let answer = bounded(paved(Inner(opaque)).get(server.url("/menu")).send()).await.unwrap();
    assert_eq!(answer.status(), 200);
    server.assert_requests(2);
}

/// A key that an inner middleware writes over protects nothing.
#[tokio::test]
async fn a_key_that_was_replaced_below_is_not_relied_on() {
    let server = FaultServer::start([Fault::close_after_request(), Fault::ok("done")]).await;
    let (result, report) = post(&paved(Inner(other_key)), &server, Some(Endpoint::keyed_write(KeyContract::STRIPE))).await;
    result.unwrap_err();
    assert_eq!((report.outcome(), report.advice()), (Outcome::Unknown, &[Advice::KeyReplaced][..]));
    server.assert_writes(1);
}

/// What an inner middleware sends on its own is counted and told.
#[tokio::test]
async fn sends_of_an_inner_middleware_are_counted() {
    let server = FaultServer::start([Fault::status(503)]).await;
    let (_, report) = post(&paved(Inner(resends)), &server, Some(Endpoint::keyed_write(KeyContract::STRIPE))).await;
    assert_eq!(report.attempts()[0].sends(), 2);
    assert!(report.advice().contains(&Advice::SentMoreOften));
    assert!(server.requests().len() <= 4, "the policy counts them: {}", server.requests().len());
}

/// Another origin does not know the key, so a resend that relies on it may not end up there.
#[tokio::test]
async fn a_resend_under_a_key_follows_no_redirect_to_another_origin() {
    let elsewhere = FaultServer::start([Fault::ok("done")]).await;
    let away = Fault::status(307).with_header("location", elsewhere.url("/orders").as_str());
    let server = FaultServer::start([Fault::close_after_request(), away]).await;
    let client = SafeRetry::new().with_policy(QUICK).client(plain()).build().unwrap();
    let (result, report) = post(&client, &server, Some(Endpoint::keyed_write(KeyContract::STRIPE))).await;
    assert_eq!(result.unwrap().status(), 307);
    assert_eq!(report.attempts().len(), 2);
    elsewhere.assert_requests(0);

    // The first send may be a second copy of what an earlier process sent.
    let server = FaultServer::start([Fault::status(307).with_header("location", elsewhere.url("/orders").as_str())]).await;
    let order = client.post(server.url("/orders")).body("one coffee").with_extension(Endpoint::keyed_write(KeyContract::STRIPE));
    let order = order.with_extension(IdempotencyKey::random()).with_extension(SentBefore::since(SystemTime::now()));
    assert_eq!(bounded(order.send()).await.unwrap().status(), 307);
    elsewhere.assert_requests(0);
}

/// A GET that says it is another method is no read.
#[tokio::test]
async fn a_get_that_overrides_its_method_is_not_resent() {
    for field in ["x-http-method-override", "x-http-method", "x-method-override"] {
        let server = FaultServer::start([Fault::close_after_request(), Fault::ok("done")]).await;
        let client = ClientBuilder::new(plain().build().unwrap())
            .with(SafeRetry::new().with_policy(QUICK))
            .with(SendWitness::default_redirects())
            .build();
        bounded(client.get(server.url("/orders/1")).header(field, "PATCH").send()).await.unwrap_err();
        server.assert_requests(1);
    }
}

/// An outer middleware that sends a request again when its answer says so.
struct Again;

#[async_trait::async_trait]
impl Middleware for Again {
    async fn handle(&self, request: Request, extensions: &mut Extensions, next: Next<'_>) -> Result<Response> {
        let again = request.try_clone().unwrap();
        match next.clone().run(request, extensions).await {
            Ok(answer) if answer.status() != StatusCode::UNAUTHORIZED => Ok(answer),
            Ok(_) | Err(_) => next.run(again, extensions).await,
        }
    }
}

fn keys(server: &FaultServer) -> Vec<String> {
    server.requests().iter().map(|request| request.header("idempotency-key").unwrap().to_owned()).collect()
}

/// One call of the client is one operation: a middleware outside of the plugin makes no second key.
#[tokio::test]
async fn a_request_that_an_outer_middleware_sends_again_keeps_its_key() {
    let server = FaultServer::start([Fault::close_after_request(), Fault::status(401), Fault::ok("done")]).await;
    let client = SafeRetry::new().with_policy(QUICK).client(plain()).redirects_off().with_outside(Again).build().unwrap();
    let (result, _) = post(&client, &server, Some(Endpoint::keyed_write(KeyContract::STRIPE))).await;
    assert_eq!(result.unwrap().status(), 200);
    let keys = keys(&server);
    assert!(keys.len() == 3 && keys.iter().all(|key| *key == keys[0]), "{} sends", keys.len());
}

/// What a first pass did not send, because the key that it made is not the one of then, no later
/// pass sends either.
#[tokio::test]
async fn a_key_made_after_an_earlier_process_may_have_sent_it_is_relied_on_in_no_pass() {
    let server = FaultServer::start([Fault::ok("done")]).await;
    let client = SafeRetry::new().with_policy(QUICK).client(plain()).redirects_off().with_outside(Again).build().unwrap();
    let order = client.post(server.url("/orders")).body("one coffee").with_extension(Endpoint::keyed_write(KeyContract::STRIPE));
    let error = bounded(order.with_extension(SentBefore::since(SystemTime::now())).send()).await.unwrap_err();
    assert!(matches!(error.safe_retry(), Some(RetryError::OutcomeUnknown(_))));
    server.assert_requests(0);
}

/// A key never outlives its call in extensions that a caller uses again, not even a call that was
/// given up.
#[tokio::test]
async fn two_orders_through_the_same_extensions_have_two_keys() {
    let server = FaultServer::start([Fault::ok("done"), Fault::hang(), Fault::ok("done")]).await;
    let client = SafeRetry::new().with_policy(QUICK).client(plain()).redirects_off().build().unwrap();
    let mut extensions = Extensions::new();
    extensions.insert(Endpoint::keyed_write(KeyContract::STRIPE));
    for given_up in [false, true, false] {
        let request = client.post(server.url("/orders")).body("one coffee").build().unwrap();
        let mut sending = Box::pin(client.execute_with_extensions(request, &mut extensions));
        if given_up {
            tokio::select! {
                _ = &mut sending => panic!("nobody answers"),
                () = bounded(server.until_requests(2)) => {}
            }
        } else {
            bounded(sending).await.unwrap();
        }
    }
    let keys: std::collections::BTreeSet<String> = keys(&server).into_iter().collect();
    assert_eq!(keys.len(), 3);
}

/// An outer middleware that sends a second order through the same call.
struct Batch;

#[async_trait::async_trait]
impl Middleware for Batch {
    async fn handle(&self, request: Request, extensions: &mut Extensions, next: Next<'_>) -> Result<Response> {
        let mut second = request.try_clone().unwrap();
        *second.body_mut() = Some("two teas".into());
        let again = request.try_clone().unwrap();
        next.clone().run(request, extensions).await?;
        next.clone().run(second, extensions).await?;
        next.run(again, extensions).await
    }
}

#[tokio::test]
async fn another_order_within_a_call_has_a_key_of_its_own() {
    let server = FaultServer::start([Fault::ok("done")]).await;
    let client = SafeRetry::new().with_policy(QUICK).client(plain()).redirects_off().with_outside(Batch).build().unwrap();
    post(&client, &server, Some(Endpoint::keyed_write(KeyContract::STRIPE))).await.0.unwrap();
    let [first, second, again] = &keys(&server)[..] else { panic!("three sends") };
    assert!(first != second && first == again);
}

/// The wait stood in an answer that an inner middleware built anew without it.
#[tokio::test]
async fn a_wait_is_kept_although_an_inner_middleware_built_the_answer_anew() {
    let server = FaultServer::start([Fault::status(503).with_retry_after(86_400), Fault::ok("done")]).await;
    let (_, report) = post(&paved(Inner(rebuilt)), &server, Some(Endpoint::keyed_write(KeyContract::STRIPE))).await;
    assert_eq!((report.stop(), report.hint()), (StopReason::WindowClosed, Some(std::time::Duration::from_secs(86_400))));
    server.assert_writes(1);
}

#[tokio::test]
async fn a_key_that_was_written_by_hand_and_no_contract_speaks_of_is_told() {
    let server = FaultServer::start([Fault::close_after_request()]).await;
    let client = SafeRetry::new().with_policy(QUICK).client(plain()).redirects_off().build().unwrap();
    let slot = ReportSlot::new();
    let request = client.post(server.url("/orders")).header("idempotency-key", "by-hand").body("one coffee");
    bounded(request.with_extension(slot.clone()).send()).await.unwrap_err();
    assert_eq!(slot.take().unwrap().advice(), [Advice::KeyWithoutContract]);
    server.assert_writes(1);
}

/// A probe's credentials stay at home, and no origin is told where a redirect came from.
#[tokio::test]
async fn a_question_follows_no_redirect_to_another_origin_and_sends_no_referer() {
    let elsewhere = FaultServer::start([Fault::ok("done")]).await;
    let away = Fault::status(302).with_header("location", elsewhere.url("/status").as_str());
    let to_itself = Fault::status(302).with_header("location", "/moved");
    for (answer, outcome) in [(away, Outcome::Unknown), (to_itself, Outcome::Reconciled)] {
        let server = FaultServer::start([Fault::close_after_request(), answer, Fault::ok("done")]).await;
        let probe = StatusUrl::by_path("/orders", "/status").unwrap();
        let client = SafeRetry::new().with_policy(QUICK).client(plain()).build().unwrap();
        let (_, report) = post(&client, &server, Some(Endpoint::probed_write(probe))).await;
        assert_eq!(report.outcome(), outcome);
        assert!(server.requests().iter().all(|request| request.header("referer").is_none()));
        server.assert_writes(1);
    }
    elsewhere.assert_requests(0);
}

/// What a server writes may be anything, also the key it was sent.
#[cfg(feature = "testing-h2")]
#[tokio::test]
async fn no_error_of_ours_prints_what_a_server_wrote() {
    use reqwest_safe_retry::testing::{H2Fault, H2Reason};

    let away = H2Fault::go_away_below(H2Reason::ENHANCE_YOUR_CALM).with_debug_data("SECRET");
    let server = FaultServer::start_h2([away]).await;
    let client = SafeRetry::new().with_policy(QUICK).client(plain().http2_prior_knowledge()).redirects_off().build().unwrap();
    let error = post(&client, &server, Some(Endpoint::unprotected_write())).await.0.unwrap_err();
    let transport = error.transport_error().expect("it is reached all the same");
    assert!(format!("{transport:?}").contains("SECRET"), "the server's words did arrive");
    let reqwest_middleware::Error::Middleware(ours) = &error else { panic!("{error}") };
    let chain: Vec<String> = ours.chain().map(ToString::to_string).collect();
    let printed = format!("{error} {error:?} {ours:#} {ours:?} {chain:?}");
    assert!(!printed.contains("SECRET"), "{printed}");
    assert!(printed.contains("GOAWAY"), "{printed}");
}

fn waits<'a>(request: Request, extensions: &'a mut Extensions, next: Next<'a>) -> Sent<'a> {
    Box::pin(async move {
        std::future::pending::<()>().await;
        next.run(request, extensions).await
    })
}

fn hides<'a>(request: Request, _: &'a mut Extensions, next: Next<'a>) -> Sent<'a> {
    Box::pin(async move { next.run(request, &mut Extensions::new()).await })
}

/// A deadline that ends the wait for a permit ends a write that was never sent, and the paved road
/// knows it. Where a send can have passed unwitnessed, nobody knows.
#[tokio::test]
async fn what_never_reached_the_witness_of_the_paved_road_was_not_sent() {
    let soon = || SafeRetry::new().with_policy(QUICK).with_deadline(std::time::Duration::from_millis(200));
    let existing =
        |inner| ClientBuilder::new(plain().build().unwrap()).with(soon()).with(Inner(inner)).with(SendWitness::default_redirects()).build();
    let paved = |inner| soon().client(plain()).with(Inner(inner)).build().unwrap();
    for (client, outcome, received) in [
        (paved(waits), Outcome::Unprocessed, 0),
        (existing(waits), Outcome::Unknown, 0),
        (paved(hides), Outcome::Unknown, 1),
        (existing(hides), Outcome::Unknown, 1),
    ] {
        let server = FaultServer::start([Fault::hang()]).await;
        let (result, report) = post(&client, &server, Some(Endpoint::unprotected_write())).await;
        assert_eq!(report.outcome(), outcome);
        let unknown = matches!(RetryError::find(&result.unwrap_err()).unwrap(), RetryError::OutcomeUnknown(_));
        assert_eq!(unknown, outcome == Outcome::Unknown);
        assert_eq!(server.requests().len(), received);
    }
}

/// An attempt limit that ends it lets another attempt begin.
#[tokio::test]
async fn an_attempt_that_was_never_sent_is_followed_by_one_that_is() {
    let server = FaultServer::start([Fault::ok("done")]).await;
    let retry = SafeRetry::new().with_policy(QUICK).with_attempt_limit(std::time::Duration::from_millis(100));
    let client = retry.client(plain()).with(WaitsOnce::default()).build().unwrap();
    let (result, report) = post(&client, &server, Some(Endpoint::unprotected_write())).await;
    assert_eq!(result.unwrap().status(), StatusCode::OK);
    assert_eq!(report.attempts().len(), 2);
    server.assert_requests(1);
}

#[derive(Default)]
struct WaitsOnce(std::sync::atomic::AtomicBool);

#[async_trait::async_trait]
impl Middleware for WaitsOnce {
    async fn handle(&self, request: Request, extensions: &mut Extensions, next: Next<'_>) -> Result<Response> {
        if !self.0.swap(true, std::sync::atomic::Ordering::SeqCst) {
            std::future::pending::<()>().await;
        }
        next.run(request, extensions).await
    }
}

/// Sends a request for a token, by a client of its own and with the extensions it was given, and
/// then the operation's again. The last of these requests for a token is given up.
struct Refreshes {
    tokens: ClientWithMiddleware,
    server: reqwest::Url,
}

#[async_trait::async_trait]
impl Middleware for Refreshes {
    async fn handle(&self, request: Request, extensions: &mut Extensions, next: Next<'_>) -> Result<Response> {
        for path in ["/token", "/silent"] {
            let again = request.try_clone().unwrap();
            let token = Request::new(reqwest::Method::GET, self.server.join(path).unwrap());
            let asked = self.tokens.execute_with_extensions(token, extensions);
            let given_up = tokio::time::timeout(std::time::Duration::from_millis(100), asked).await.is_err();
            assert_eq!(given_up, path == "/silent");
            next.clone().run(again, extensions).await?;
        }
        next.run(request, extensions).await
    }
}

/// A call within a call gives the extensions back as it found them, also when it is dropped.
#[tokio::test]
async fn a_call_of_another_client_within_a_call_leaves_its_key_alone() {
    let paved = || SafeRetry::new().with_policy(QUICK).client(plain()).redirects_off();
    let answer =
        |request: &reqwest_safe_retry::testing::Recorded, _| if request.path() == "/silent" { Fault::hang() } else { Fault::ok("") };
    let server = FaultServer::with(answer).await;
    let tokens = paved().with_outside(Inner(passes)).build().unwrap();
    let client = paved().with_outside(Refreshes { tokens, server: server.url("/") }).build().unwrap();
    let order = client.post(server.url("/orders")).body("one coffee").with_extension(Endpoint::keyed_write(KeyContract::STRIPE));
    bounded(order.send()).await.unwrap();
    let requests = server.requests();
    let keys: Vec<_> =
        requests.iter().filter(|request| request.path() == "/orders").map(|request| request.header("idempotency-key")).collect();
    assert!(keys.len() == 3 && keys[0].is_some() && keys.iter().all(|key| *key == keys[0]), "{} keys", keys.len());
}

fn passes<'a>(request: Request, extensions: &'a mut Extensions, next: Next<'a>) -> Sent<'a> {
    next.run(request, extensions)
}

fn clears<'a>(request: Request, extensions: &'a mut Extensions, next: Next<'a>) -> Sent<'a> {
    Box::pin(async move {
        let answer = next.run(request, extensions).await;
        extensions.clear();
        answer
    })
}

/// Whatever an inner middleware does to its extensions, the call is the operation's.
#[tokio::test]
async fn a_key_survives_an_inner_middleware_that_clears_the_extensions() {
    for (first, is_watched) in
        [(Fault::ok(""), false), (Fault::ok(""), true), (Fault::status(401), false), (Fault::close_after_request(), true)]
    {
        let server = FaultServer::start([first, Fault::status(401), Fault::ok("done")]).await;
        let retry = SafeRetry::new().with_policy(QUICK).with_default_write(Endpoint::keyed_write(KeyContract::STRIPE));
        let client = retry.client(plain()).redirects_off().with_outside(Batches).with(Inner(clears)).build().unwrap();
        let mut order = client.post(server.url("/orders")).body("one coffee");
        if is_watched {
            order = order.with_extension(ReportSlot::new());
        }
        let _ = bounded(order.send()).await;
        let keys: std::collections::BTreeSet<String> = keys(&server).into_iter().collect();
        assert_eq!(keys.len(), 1);
    }
}

/// Sends twice whatever comes back.
struct Batches;

#[async_trait::async_trait]
impl Middleware for Batches {
    async fn handle(&self, request: Request, extensions: &mut Extensions, next: Next<'_>) -> Result<Response> {
        let again = request.try_clone().unwrap();
        let _ = next.clone().run(request, extensions).await;
        next.run(again, extensions).await
    }
}

/// Sends past the witness, and if that fails once more to another server, before its eyes.
struct FailsOver(reqwest::Url);

#[async_trait::async_trait]
impl Middleware for FailsOver {
    async fn handle(&self, request: Request, extensions: &mut Extensions, next: Next<'_>) -> Result<Response> {
        let mut second = request.try_clone().unwrap();
        *second.url_mut() = self.0.clone();
        match next.clone().run(request, &mut Extensions::new()).await {
            Ok(answer) => Ok(answer),
            Err(_) => next.run(second, extensions).await,
        }
    }
}

/// One send that nobody witnessed may have arrived, whatever is proven of the others.
#[tokio::test]
async fn a_send_past_the_witness_takes_the_proof_of_those_before_its_eyes() {
    let early = FaultServer::start([Fault::status(425)]).await;
    for (second, limit) in
        [("http://127.0.0.1:1/".parse().unwrap(), None), (early.url("/"), None), ("http://127.0.0.1:1/".parse().unwrap(), Some(5))]
    {
        let primary = FaultServer::start([Fault::close_after_request()]).await;
        let mut retry = SafeRetry::new().with_policy(QUICK);
        if let Some(seconds) = limit {
            retry = retry.with_attempt_limit(std::time::Duration::from_secs(seconds));
        }
        let client = retry.client(plain()).redirects_off().with(FailsOver(second)).build().unwrap();
        let (_, report) = post(&client, &primary, Some(Endpoint::unprotected_write())).await;
        assert_eq!(report.outcome(), Outcome::Unknown);
        primary.assert_writes(1);
    }
}

/// Keeps the extensions of the first attempt, and sends all others with those.
#[derive(Default)]
struct Keeps(std::sync::Mutex<Option<Extensions>>);

#[async_trait::async_trait]
impl Middleware for Keeps {
    async fn handle(&self, request: Request, extensions: &mut Extensions, next: Next<'_>) -> Result<Response> {
        let kept = self.0.lock().unwrap().clone();
        match kept {
            Some(mut kept) => next.run(request, &mut kept).await,
            None => {
                *self.0.lock().unwrap() = Some(extensions.clone());
                next.run(request, extensions).await
            }
        }
    }
}

/// What is sent with the extensions of an attempt that has ended, or was dropped, is unwitnessed.
#[tokio::test]
async fn the_extensions_of_an_ended_attempt_prove_nothing_about_another() {
    for is_dropped in [false, true] {
        let server =
            FaultServer::with(move |request, _| if request.is_write() || is_dropped { Fault::hang() } else { Fault::ok("") }).await;
        let retry = SafeRetry::new().with_policy(QUICK).with_attempt_limit(std::time::Duration::from_millis(150));
        let client = retry.client(plain()).redirects_off().with(Keeps::default()).build().unwrap();
        let first = client.get(server.url("/menu")).send();
        if is_dropped {
            assert!(tokio::time::timeout(std::time::Duration::from_millis(50), first).await.is_err());
        } else {
            bounded(first).await.unwrap();
        }
        let (_, report) = post(&client, &server, Some(Endpoint::unprotected_write())).await;
        assert_eq!(report.outcome(), Outcome::Unknown);
        server.assert_writes(1);
    }
}

/// Asks the same client for something that it leaves alone, before each send.
#[derive(Clone, Default)]
struct AsksFirst(std::sync::Arc<std::sync::OnceLock<(ClientWithMiddleware, reqwest::Url)>>);

#[async_trait::async_trait]
impl Middleware for AsksFirst {
    async fn handle(&self, request: Request, extensions: &mut Extensions, next: Next<'_>) -> Result<Response> {
        if request.method() == reqwest::Method::POST {
            let (client, menu) = self.0.get().unwrap();
            client.get(menu.clone()).send().await?;
        }
        next.run(request, extensions).await
    }
}

/// A client that is strictly opt-in has other requests on their way all the time.
#[tokio::test]
async fn requests_that_are_left_alone_take_no_proof_from_others() {
    let server = FaultServer::start([Fault::ok("")]).await;
    let asks = AsksFirst::default();
    let retry = SafeRetry::new().with_policy(QUICK).with_unmarked(reqwest_safe_retry::Unmarked::Untouched);
    let client = retry.client(plain()).redirects_off().with(asks.clone()).build().unwrap();
    let _ = asks.0.set((client.clone(), server.url("/menu")));
    let order = client.post("http://127.0.0.1:1/orders").body("one coffee").with_extension(Endpoint::unprotected_write());
    let error = bounded(order.send()).await.unwrap_err();
    assert!(matches!(error.safe_retry(), Some(RetryError::Unprocessed(_))), "{error}");
    server.assert_requests(3);
}

/// What the caller's own functions take of the time is gone before anything is sent.
#[tokio::test]
async fn a_function_that_uses_up_the_time_leaves_none_to_send_in() {
    let peer = Scripted::answering(200);
    #[expect(clippy::disallowed_methods, reason = "a function that blocks is what is tried")]
    let slow = reqwest_safe_retry::RetryBudget::default().scoped_by(|_| {
        std::thread::sleep(std::time::Duration::from_millis(60));
        reqwest_safe_retry::ScopeKey::of("shop")
    });
    let retry = SafeRetry::new().with_policy(QUICK).with_budget(slow).with_deadline(std::time::Duration::from_millis(20));
    let client = retry.client(plain()).redirects_off().with(peer.clone()).build().unwrap();
    let error = bounded(client.post("http://peer.test/orders").body("one coffee").send()).await.unwrap_err();
    assert!(error.timed_out() && error.evidence() == reqwest_safe_retry::Evidence::Unprocessed, "{error}");
    peer.assert_sends(0);
}

/// Takes the slot off and hands on before anything is polled.
struct Sheds;

impl Middleware for Sheds {
    fn handle<'s, 'e, 'n, 'f>(&'s self, request: Request, extensions: &'e mut Extensions, next: Next<'n>) -> Sent<'f>
    where
        Self: 'f,
        's: 'f,
        'e: 'f,
        'n: 'f,
    {
        extensions.clear();
        next.run(request, extensions)
    }
}

#[tokio::test]
async fn a_send_that_passes_the_witness_at_once_is_noticed_as_well() {
    for endpoint in [None, Some(Endpoint::unprotected_write())] {
        let server = FaultServer::start([Fault::hang()]).await;
        let retry = SafeRetry::new().with_policy(QUICK).with_attempt_limit(std::time::Duration::from_millis(100));
        let client = retry.client(plain()).redirects_off().with(Sheds).build().unwrap();
        let mut order = client.post(server.url("/orders")).body("one coffee");
        if let Some(endpoint) = endpoint {
            order = order.with_extension(endpoint);
        }
        assert!(bounded(order.send()).await.unwrap_err().timed_out());
        server.assert_writes(1);
    }
}
