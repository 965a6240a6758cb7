//! What is proven is used, and nothing else is: which requests a server gets from clients of each
//! make, on the days that go wrong.

use std::time::Duration;

use futures_util::future::join_all;
use http::Extensions;
use reqwest::{Certificate, ClientBuilder, Method, Request, Response, StatusCode, Url};
use reqwest_middleware::{ClientWithMiddleware, Middleware, Next, Result};
use reqwest_safe_retry::{
    Cause, Cooldown, Endpoint, Evidence, Outcome, ReportSlot, RetryError, RetryErrorExt, RetryReport, SafeRetry, ScopeKey, StopReason,
    Unmarked,
    policy::ResendReason,
    testing::{Fault, FaultServer, H2Fault, H2Reason, Handshake, Recorded, Tls},
};

use crate::support::wire::{Dead, Lookup, Names, ORDERS, QUICK, Road, bounded, keyed_write, marked, plain};

const SHORT: Duration = Duration::from_millis(100);

fn write() -> Endpoint {
    Endpoint::unprotected_write()
}

fn retry() -> SafeRetry {
    SafeRetry::new().with_policy(QUICK)
}

/// What one request came to.
struct Came {
    result: Result<Response>,
    report: RetryReport,
}

impl Came {
    #[track_caller]
    fn assert_answered_after(&self, reasons: &[ResendReason]) {
        assert_eq!(self.result.as_ref().unwrap().status(), StatusCode::OK);
        let resends: Vec<_> = self.report.attempts().iter().filter_map(|attempt| attempt.resend()).collect();
        assert_eq!(resends, reasons);
    }

    #[track_caller]
    fn assert_unknown(&self) {
        let error = self.result.as_ref().unwrap_err();
        assert!(matches!(RetryError::find(error), Some(RetryError::OutcomeUnknown(_))), "{error:?}");
        assert_eq!(self.report.outcome(), Outcome::Unknown);
    }

    #[track_caller]
    fn assert_unprocessed(&self, stop: StopReason) {
        let error = self.result.as_ref().unwrap_err();
        assert!(matches!(RetryError::find(error), Some(RetryError::Unprocessed(_))), "{error:?}");
        assert_eq!((self.report.outcome(), self.report.stop()), (Outcome::Unprocessed, stop));
    }
}

async fn send(request: reqwest_middleware::RequestBuilder) -> Came {
    let slot = ReportSlot::new();
    let result = bounded(request.with_extension(slot.clone()).send()).await;
    Came { result, report: slot.take().unwrap() }
}

/// A POST with a body, marked as an unprotected write.
async fn post(road: Road, builder: ClientBuilder, url: impl reqwest::IntoUrl) -> Came {
    send(road.client_of(retry(), builder).post(url).body("one coffee").with_extension(write())).await
}

/// The POST to a name that leads where these look-ups say.
async fn post_led(road: Road, lookups: impl IntoIterator<Item = Lookup>) -> Came {
    post(road, plain().dns_resolver(Names::leading(lookups)), ORDERS).await
}

const PAVED: [Road; 2] = [Road::Paved, Road::PavedFollowing];

// ===== never connected =====

#[tokio::test]
async fn an_unprotected_write_goes_through_once_the_server_is_up() {
    let dead = Dead::new();
    for (road, endpoint) in PAVED.into_iter().flat_map(|road| [(road, None), (road, Some(write()))]) {
        let server = FaultServer::start([Fault::status(201)]).await;
        let names = Names::leading([Lookup::To(dead.address()), Lookup::To(dead.address()), Lookup::of(&server)]);
        let client = road.client_of(retry(), plain().dns_resolver(names));
        let came = send(marked(client.post(ORDERS).body("one coffee"), endpoint.as_ref())).await;
        assert_eq!(came.result.unwrap().status(), StatusCode::CREATED);
        assert_eq!(came.report.attempts().len(), 3);
        server.assert_writes(1);
    }
}

#[tokio::test]
async fn a_server_that_stays_down_has_processed_nothing() {
    let dead = Dead::new();
    for road in PAVED {
        let came = post(road, plain(), dead.url("/orders")).await;
        came.assert_unprocessed(StopReason::AttemptsSpent);
        assert_eq!(came.report.attempts().len(), 3);
        assert!(came.result.unwrap_err().transport_error().unwrap().is_connect());
    }
}

#[tokio::test]
async fn an_unprotected_write_goes_through_once_its_name_resolves() {
    for road in PAVED {
        let server = FaultServer::start([Fault::ok("done")]).await;
        let came = post_led(road, [Lookup::Fails, Lookup::of(&server)]).await;
        came.assert_answered_after(&[ResendReason::ProvenUnprocessed]);
        server.assert_writes(1);
    }
}

#[tokio::test]
async fn an_unprotected_write_goes_through_once_the_handshake_does() {
    for (road, handshake) in PAVED.into_iter().flat_map(|road| [Handshake::Close, Handshake::Reset].map(|handshake| (road, handshake))) {
        let tls = Tls::new().with_handshakes([handshake, Handshake::Complete]);
        let server = FaultServer::start_tls(&tls, [Fault::ok("done")]).await;
        let came = post(road, trusting(&tls), server.url("/orders")).await;
        came.assert_answered_after(&[ResendReason::ProvenUnprocessed]);
        server.assert_writes(1);
        server.assert_connections(2);
    }
}

#[tokio::test]
async fn an_untrusted_certificate_is_not_tried_again() {
    for (road, method) in PAVED.into_iter().flat_map(|road| [(road, Method::GET), (road, Method::POST)]) {
        let server = FaultServer::start_tls(&Tls::new(), []).await;
        let client = road.client_of(retry(), trusting(&Tls::new()));
        let came = send(client.request(method, server.url("/orders"))).await;
        assert!(matches!(came.result, Err(reqwest_middleware::Error::Reqwest(_))));
        assert_eq!(came.report.stop(), StopReason::Broken);
        assert_eq!(came.report.attempts()[0].cause(), Cause::Certificate);
        server.assert_connections(1);
        server.assert_requests(0);
    }
}

fn trusting(tls: &Tls) -> ClientBuilder {
    plain().tls_certs_only([Certificate::from_pem(tls.root_pem().as_bytes()).unwrap()])
}

#[tokio::test]
async fn a_deadline_that_passes_while_connecting_proves_that_nothing_was_sent() {
    for road in [Road::Paved, Road::Witnessed] {
        let client = road.client_of(retry(), plain().dns_resolver(Names::leading([Lookup::Hangs])));
        let came = send(client.post(ORDERS).body("one coffee").with_extension(write().with_deadline(SHORT))).await;
        came.assert_unprocessed(StopReason::DeadlineTooNear);
        assert!(came.result.unwrap_err().timed_out());
    }
}

#[tokio::test]
async fn an_attempt_limit_that_passes_while_connecting_lets_an_unprotected_write_go_out_again() {
    let server = FaultServer::start([Fault::ok("done")]).await;
    let names = Names::leading([Lookup::Hangs, Lookup::of(&server)]);
    let client = Road::Paved.client_of(retry().with_attempt_limit(3 * SHORT), plain().dns_resolver(names));
    let came = send(client.post(ORDERS).body("one coffee").with_extension(write())).await;
    came.assert_answered_after(&[ResendReason::ProvenUnprocessed]);
    server.assert_writes(1);
}

#[tokio::test]
async fn a_deadline_that_passes_while_connecting_proves_nothing_where_a_body_may_have_been_redirected() {
    let roads = [Road::PavedFollowing, Road::WitnessedFollowing, Road::Unwitnessed, Road::UnwitnessedFollowing];
    join_all(roads.map(|road| async move {
        let hanging = || road.client_of(retry(), plain().dns_resolver(Names::leading([Lookup::Hangs])));
        let with_body = hanging().post(ORDERS).body("one coffee").with_extension(write().with_deadline(SHORT));
        send(with_body).await.assert_unknown();
        // An empty body can be watched all the same, if there is a witness.
        let empty = send(hanging().post(ORDERS).with_extension(write().with_deadline(SHORT))).await;
        let witnessed = matches!(road, Road::PavedFollowing | Road::WitnessedFollowing);
        if witnessed { empty.assert_unprocessed(StopReason::DeadlineTooNear) } else { empty.assert_unknown() }
    }))
    .await;
}

// ===== redirects and inner middlewares =====

#[tokio::test]
async fn a_write_redirected_to_a_dead_host_is_unknown_and_sent_once() {
    let dead = Dead::new();
    for (road, status) in PAVED.into_iter().flat_map(|road| [303, 307].map(|status| (road, status))) {
        let server = FaultServer::start([Fault::status(status).with_header("location", &dead.url("/receipt"))]).await;
        let came = post(road, plain(), server.url("/orders")).await;
        if road.follows() {
            came.assert_unknown();
            assert!(came.result.unwrap_err().transport_error().unwrap().is_connect());
        } else {
            assert_eq!(came.result.unwrap().status(), status);
        }
        server.assert_writes(1);
    }
}

/// Sends once more after a 401, as a middleware that renews a token does.
struct Renewing;

#[async_trait::async_trait]
impl Middleware for Renewing {
    async fn handle(&self, request: Request, extensions: &mut Extensions, next: Next<'_>) -> Result<Response> {
        let again = request.try_clone().unwrap();
        let response = next.clone().run(request, extensions).await?;
        if response.status() == StatusCode::UNAUTHORIZED { next.run(again, extensions).await } else { Ok(response) }
    }
}

#[tokio::test]
async fn an_inner_send_that_reached_the_server_outweighs_a_later_one_that_did_not() {
    let dead = Dead::new();
    for road in Road::ALL {
        let expired = Fault::status(401).with_header("connection", "close").then_closes();
        let server = FaultServer::start([expired, Fault::ok("done")]).await;
        let names = Names::leading([Lookup::of(&server), Lookup::To(dead.address()), Lookup::of(&server)]);
        let client = road.client_with(retry(), plain().dns_resolver(names), Renewing);
        let came = send(client.post(ORDERS).body("one coffee").with_extension(write())).await;
        came.assert_unknown();
        server.assert_writes(1);
    }
}

#[tokio::test]
async fn an_inner_send_that_reached_the_server_outweighs_a_later_refusal() {
    for road in Road::ALL.into_iter().filter(|road| !matches!(road, Road::Unwitnessed | Road::UnwitnessedFollowing)) {
        let server = FaultServer::start([Fault::status(401), Fault::status(425), Fault::ok("done")]).await;
        let client = road.client_with(retry(), plain(), Renewing);
        let came = send(client.post(server.url("/orders")).body("one coffee").with_extension(write())).await;
        assert_eq!(came.result.unwrap().status(), StatusCode::TOO_EARLY);
        assert_eq!((came.report.outcome(), came.report.stop()), (Outcome::Unknown, StopReason::MayHaveHappened));
        server.assert_writes(2);
    }
}

/// A server that processes a POST, leads to a page of this path, and refuses to show that.
async fn refusing_behind_redirect(status: u16, redirect: u16, to: &'static str) -> FaultServer {
    FaultServer::with(
        move |request: &Recorded, _| {
            if request.is_write() { Fault::status(redirect).with_header("location", to) } else { Fault::status(status) }
        },
    )
    .await
}

#[tokio::test]
async fn a_refusal_behind_a_redirect_says_nothing_about_the_write_before_it() {
    // Leading back to the same path is common: the page shows what was posted to it.
    for ((status, redirect), to) in
        [(425, 303), (425, 302), (429, 303)].into_iter().flat_map(|row| ["/receipt", "/orders"].map(|to| (row, to)))
    {
        for road in Road::ALL.into_iter().filter(|road| road.follows()) {
            let server = refusing_behind_redirect(status, redirect, to).await;
            let endpoint = write().trusting_refusal(StatusCode::TOO_MANY_REQUESTS);
            let came = send(road.client(QUICK).post(server.url("/orders")).body("one coffee").with_extension(endpoint)).await;
            assert_eq!(came.result.unwrap().status(), status);
            assert_eq!(came.report.outcome(), Outcome::Unknown, "{road:?}");
            server.assert_writes(1);
        }
    }
}

#[tokio::test]
async fn a_refusal_of_the_write_itself_lets_it_go_out_again_where_redirects_are_seen() {
    let seen = [Road::Paved, Road::PavedFollowing, Road::Witnessed];
    for (road, status) in seen.into_iter().flat_map(|road| [425, 429].map(|status| (road, status))) {
        let server = FaultServer::start([Fault::status(status), Fault::ok("done")]).await;
        let endpoint = write().trusting_refusal(StatusCode::TOO_MANY_REQUESTS);
        let came = send(road.client(QUICK).post(server.url("/orders")).body("one coffee").with_extension(endpoint)).await;
        came.assert_answered_after(&[ResendReason::ProvenUnprocessed]);
        server.assert_writes(2);
    }
}

// ===== HTTP/2 =====

fn http2() -> ClientBuilder {
    plain().http2_prior_knowledge()
}

#[tokio::test]
async fn a_refused_stream_lets_an_unprotected_write_go_out_again() {
    for road in [Road::Paved, Road::PavedFollowing, Road::Witnessed] {
        let server = FaultServer::start_h2([H2Fault::refused_stream(), H2Fault::ok("done")]).await;
        let builder = http2().retry(reqwest::retry::never());
        post(road, builder, server.url("/orders")).await.assert_answered_after(&[ResendReason::ProvenUnprocessed]);
        server.assert_writes(2);
    }
}

#[tokio::test]
async fn a_write_that_is_always_refused_is_sent_as_often_as_the_policy_says() {
    for (road, attempts) in PAVED.into_iter().flat_map(|road| [1, 2, 3].map(|attempts| (road, attempts))) {
        let server = FaultServer::start_h2([H2Fault::refused_stream()]).await;
        let client = road.client_of(SafeRetry::new().with_policy(QUICK.with_attempts(attempts)), http2());
        let came = send(client.post(server.url("/orders")).body("one coffee").with_extension(write())).await;
        came.assert_unprocessed(StopReason::AttemptsSpent);
        server.assert_writes(attempts as usize);
        // reqwest's own resends of an empty one, and of reads, are off as well.
        send(client.post(server.url("/orders"))).await.result.unwrap_err();
        send(client.get(server.url("/orders"))).await.result.unwrap_err();
        server.assert_requests(3 * attempts as usize);
    }
}

/// reqwest resends by itself what an HTTP/2 server refused, up to twice. With a witness it does not.
#[tokio::test]
async fn a_read_that_is_always_refused_is_sent_as_often_as_the_policy_says_wherever_a_witness_stands() {
    for road in Road::ALL {
        let is_seen = !matches!(road, Road::Unwitnessed | Road::UnwitnessedFollowing);
        for attempts in [1, 3, 4] {
            let server = FaultServer::start_h2([H2Fault::refused_stream()]).await;
            let client = road.client_of(SafeRetry::new().with_policy(QUICK.with_attempts(attempts)), http2());
            let came = send(client.get(server.url("/orders"))).await;
            came.result.unwrap_err();
            assert_eq!(came.report.attempts().len(), attempts as usize);
            server.assert_requests(if is_seen { attempts as usize } else { 3 * attempts as usize });
        }
    }
}

/// Its redirects are followed as before.
#[tokio::test]
async fn a_read_is_redirected_as_without_the_witness() {
    for (road, status) in Road::ALL.into_iter().flat_map(|road| [302, 303, 307, 308].map(|status| (road, status))) {
        let server = FaultServer::start([Fault::status(status).with_header("location", "/new"), Fault::ok("done")]).await;
        let came = send(road.client_of(retry(), plain()).get(server.url("/orders"))).await;
        assert_eq!(came.result.unwrap().status().as_u16(), if road.follows() { 200 } else { status }, "{road:?}");
        server.assert_requests(if road.follows() { 2 } else { 1 });
    }
}

#[tokio::test]
async fn a_connection_that_is_going_away_decides_by_its_last_stream_whatever_its_code() {
    for (road, reason) in PAVED
        .into_iter()
        .flat_map(|road| [H2Reason::NO_ERROR, H2Reason::ENHANCE_YOUR_CALM, H2Reason::PROTOCOL_ERROR].map(|reason| (road, reason)))
    {
        let below = FaultServer::start_h2([H2Fault::go_away_below(reason), H2Fault::ok("done")]).await;
        let came = post(road, http2(), below.url("/orders")).await;
        if road == Road::Paved {
            came.assert_answered_after(&[ResendReason::ProvenUnprocessed]);
            below.assert_writes(2);
            below.assert_connections(2);
        } else {
            // Where redirects are followed the body is not watched, so nobody knows that it was
            // read.
            came.assert_unknown();
            below.assert_writes(1);
        }

        let including = FaultServer::start_h2([H2Fault::go_away_including(reason), H2Fault::ok("done")]).await;
        post(road, http2(), including.url("/orders")).await.assert_unknown();
        including.assert_writes(1);
    }
}

#[tokio::test]
async fn a_stream_that_was_reset_for_another_reason_is_not_sent_again() {
    for (road, reason) in PAVED.into_iter().flat_map(|road| {
        [H2Reason::INTERNAL_ERROR, H2Reason::CANCEL, H2Reason::NO_ERROR, H2Reason::ENHANCE_YOUR_CALM].map(|reason| (road, reason))
    }) {
        let server = FaultServer::start_h2([H2Fault::reset_stream(reason), H2Fault::ok("done")]).await;
        post(road, http2(), server.url("/orders")).await.assert_unknown();
        server.assert_writes(1);
    }
}

/// Heads arrive and bodies wait: the head may be enough for a server to act on.
#[tokio::test]
async fn a_body_that_waits_for_a_window_until_our_limit_proves_nothing() {
    let cells: Vec<_> = Road::ALL.into_iter().flat_map(|road| [Limit::Attempt, Limit::Deadline].map(|limit| (road, limit))).collect();
    let clients: Vec<_> = cells.iter().map(|(road, limit)| limit.client_over(*road, retry(), http2())).collect();
    join_all(clients.into_iter().map(|client| async move {
        let server = FaultServer::start_h2([H2Fault::without_window()]).await;
        // The first stream of a connection does not know the window yet.
        bounded(async { client.get(server.url("/")).send().await.unwrap().bytes().await.unwrap() }).await;
        let came = send(client.post(server.url("/orders")).body("one coffee").with_extension(write())).await;
        came.assert_unknown();
        assert!(came.result.as_ref().unwrap_err().timed_out());
        assert_eq!((came.report.evidence(), came.report.attempts().len()), (Evidence::Unknown, 1));
        let seen: Vec<_> = server.requests().iter().map(|request| (request.method().clone(), request.is_complete())).collect();
        assert_eq!(seen, [(Method::GET, true), (Method::POST, false)]);
        server.assert_connections(1);
    }))
    .await;
}

// ===== the keep-alive race =====

/// A server that answers one GET and ends the idle connection just when the next request is written
/// to it.
async fn closing_idle(road: Road, then: Fault) -> (FaultServer, ClientWithMiddleware) {
    let server = FaultServer::start([Fault::ok("ready"), then, Fault::ok("done")]).await;
    let client = road.client(QUICK);
    bounded(async { client.get(server.url("/")).send().await.unwrap().bytes().await.unwrap() }).await;
    (server, client)
}

#[tokio::test]
async fn a_stale_connection_costs_a_read_nothing() {
    for road in Road::ALL {
        for fault in [Fault::close_before_reading(), Fault::reset_before_reading()] {
            let (server, client) = closing_idle(road, fault).await;
            send(client.get(server.url("/orders"))).await.assert_answered_after(&[ResendReason::EffectRepeatable]);
            server.assert_requests(2);
            server.assert_connections(2);
        }
    }
}

#[tokio::test]
async fn a_write_lost_on_a_stale_connection_is_unknown_and_sent_once() {
    for road in Road::ALL {
        for fault in [Fault::close_before_reading(), Fault::reset_before_reading(), Fault::close_mid_request(0)] {
            let (server, client) = closing_idle(road, fault).await;
            let came = send(client.post(server.url("/orders")).body("one coffee").with_extension(write())).await;
            came.assert_unknown();
            assert_eq!(came.report.attempts().len(), 1);
            // The one on the stale connection is the only one.
            server.assert_connections(1);
        }
    }
}

#[tokio::test]
async fn a_keyed_write_lost_on_a_stale_connection_is_recovered_under_its_key() {
    for road in Road::ALL {
        let (server, client) = closing_idle(road, Fault::close_mid_request(0)).await;
        let came = send(client.post(server.url("/orders")).body("one coffee").with_extension(keyed_write())).await;
        came.assert_answered_after(&[ResendReason::KeyDeduplicates]);
        let keys: Vec<_> = server.requests()[1..].iter().map(|request| request.header("idempotency-key").unwrap().to_owned()).collect();
        assert!(matches!(&keys[..], [first, second] if first == second), "{} keys", keys.len());
    }
}

/// Some servers say so before they close an idle connection, and some mean a conflict by it: it is
/// no proof, however quickly it comes.
#[tokio::test]
async fn a_request_timeout_on_a_reused_connection_proves_nothing() {
    for road in Road::ALL {
        let said = || Fault::status(408).then_closes();
        let (server, client) = closing_idle(road, said()).await;
        send(client.get(server.url("/orders"))).await.assert_answered_after(&[ResendReason::EffectRepeatable]);
        server.assert_requests(3);

        for endpoint in [None, Some(write())] {
            let (server, client) = closing_idle(road, said()).await;
            let came = send(marked(client.post(server.url("/orders")).body("one coffee"), endpoint.as_ref())).await;
            assert_eq!(came.result.unwrap().status(), StatusCode::REQUEST_TIMEOUT);
            assert_eq!((came.report.outcome(), came.report.stop()), (Outcome::Unknown, StopReason::MayHaveHappened));
            server.assert_writes(1);
            server.assert_connections(1);
        }
    }
}

// ===== every trigger =====

/// Everything on HTTP/1 that comes after a complete request and may pass by itself, but for
/// silence.
fn triggers() -> Vec<Fault> {
    let statuses = [408, 429, 500, 502, 503, 504].map(Fault::status);
    let broken = [Fault::reset_after_request(), Fault::close_after_request(), Fault::partial_head(), Fault::malformed()];
    statuses.into_iter().chain(broken).collect()
}

/// Who gives up on a silent server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Limit {
    Client,
    Attempt,
    Deadline,
}

impl Limit {
    const ALL: [Self; 3] = [Self::Client, Self::Attempt, Self::Deadline];

    fn client(self, road: Road, retry: SafeRetry) -> ClientWithMiddleware {
        self.client_over(road, retry, plain())
    }

    fn client_over(self, road: Road, retry: SafeRetry, builder: ClientBuilder) -> ClientWithMiddleware {
        // Time enough for a busy machine to get the request there.
        const SILENCE: Duration = Duration::from_millis(500);
        match self {
            Self::Client => road.client_of(retry, builder.timeout(SILENCE)),
            Self::Attempt => road.client_of(retry.with_attempt_limit(SILENCE), builder),
            Self::Deadline => road.client_of(retry.with_deadline(SILENCE), builder),
        }
    }
}

/// Has every trigger meet this request on every road; the server must see it so many times.
async fn under_every_trigger(method: Method, endpoint: Option<Endpoint>, attempts: u32, wanted: impl Fn(Option<Limit>) -> usize) {
    let retry = SafeRetry::new().with_policy(QUICK.with_attempts(attempts));
    let sent = async |client: ClientWithMiddleware, fault: Fault| {
        let server = FaultServer::start([fault]).await;
        send(marked(client.request(method.clone(), server.url("/orders")).body("one coffee"), endpoint.as_ref())).await;
        server.requests().len()
    };
    for (road, fault) in Road::ALL.into_iter().flat_map(|road| triggers().into_iter().map(move |fault| (road, fault))) {
        let seen = sent(road.client_of(retry.clone(), plain()), fault.clone()).await;
        assert_eq!(seen, wanted(None), "{method} {road:?} {fault:?}");
    }
    let cells: Vec<_> = Road::ALL.into_iter().flat_map(|road| Limit::ALL.map(|limit| (road, limit))).collect();
    // Building a client takes long, and the others' time would be running.
    let clients: Vec<_> = cells.iter().map(|(road, limit)| limit.client(*road, retry.clone())).collect();
    let silent = join_all(clients.into_iter().map(|client| sent(client, Fault::hang()))).await;
    for ((road, limit), seen) in cells.into_iter().zip(silent) {
        assert_eq!(seen, wanted(Some(limit)), "{method} {road:?}, silence, limited by {limit:?}");
    }
}

#[tokio::test]
async fn a_method_that_may_not_be_repeated_is_sent_once_whatever_happens() {
    for method in [Method::POST, Method::PATCH, Method::CONNECT, Method::from_bytes(b"FOO").unwrap()] {
        under_every_trigger(method, None, 3, |_| 1).await;
    }
    under_every_trigger(Method::PUT, Some(write()), 3, |_| 1).await;
}

#[tokio::test]
async fn one_attempt_is_one_request_whatever_happens() {
    under_every_trigger(Method::GET, None, 1, |_| 1).await;
    under_every_trigger(Method::PUT, None, 1, |_| 1).await;
    under_every_trigger(Method::POST, Some(keyed_write()), 1, |_| 1).await;
}

#[tokio::test]
async fn endpoints_that_are_never_resent_are_sent_once_whatever_happens() {
    under_every_trigger(Method::GET, Some(Endpoint::never_resend()), 3, |_| 1).await;
}

#[tokio::test]
async fn a_read_is_sent_again_whatever_happens_until_its_time_is_up() {
    under_every_trigger(Method::GET, None, 3, |limit| if limit == Some(Limit::Deadline) { 1 } else { 3 }).await;
}

#[tokio::test]
async fn a_read_that_never_got_a_connection_is_sent_again() {
    let dead = Dead::new();
    for road in Road::ALL {
        for fault in [Fault::reset_on_accept(), Fault::close_on_accept(), Fault::banner()] {
            let server = FaultServer::start([fault, Fault::ok("done")]).await;
            let came = send(road.client(QUICK).get(server.url("/orders"))).await;
            assert_eq!(came.result.unwrap().status(), StatusCode::OK);
            server.assert_requests(1);
        }
        for lookup in [Lookup::To(dead.address()), Lookup::Fails, Lookup::Hangs] {
            let server = FaultServer::start([Fault::ok("done")]).await;
            let builder = plain().dns_resolver(Names::leading([lookup, Lookup::of(&server)])).connect_timeout(2 * SHORT);
            let came = send(road.client_of(retry(), builder).get(ORDERS)).await;
            assert_eq!(came.result.unwrap().status(), StatusCode::OK);
            assert_eq!(came.report.attempts().len(), 2);
            server.assert_requests(1);
        }
    }
}

#[tokio::test]
async fn a_read_is_sent_again_after_what_happens_to_streams_and_encrypted_connections() {
    for road in Road::ALL {
        let faults = [
            H2Fault::reset_stream(H2Reason::INTERNAL_ERROR),
            H2Fault::reset_stream(H2Reason::CANCEL),
            H2Fault::go_away_including(H2Reason::NO_ERROR),
            H2Fault::close(),
            H2Fault::reset(),
            H2Fault::garbage(),
        ];
        for fault in faults {
            let server = FaultServer::start_h2([fault, H2Fault::ok("done")]).await;
            let came = send(road.client_of(retry(), http2()).get(server.url("/orders"))).await;
            came.assert_answered_after(&[ResendReason::EffectRepeatable]);
            server.assert_requests(2);
        }
        let tls = Tls::new();
        // A reset leaves no time for the notice that TLS wants before an end.
        let server = FaultServer::start_tls(&tls, [Fault::reset_after_request(), Fault::ok("done")]).await;
        let came = send(road.client_of(retry(), trusting(&tls)).get(server.url("/orders"))).await;
        came.assert_answered_after(&[ResendReason::EffectRepeatable]);
        server.assert_requests(2);
    }
}

#[tokio::test]
async fn a_write_is_not_sent_again_after_what_happens_to_encrypted_connections() {
    for road in Road::ALL {
        for fault in [Fault::reset_after_request(), Fault::close_after_request()] {
            let tls = Tls::new();
            let server = FaultServer::start_tls(&tls, [fault, Fault::ok("done")]).await;
            let came = post(road, trusting(&tls), server.url("/orders")).await;
            came.assert_unknown();
            assert_eq!(came.report.evidence(), Evidence::Unknown);
            server.assert_writes(1);
        }
    }
}

/// A 303 may lead a POST that was processed back to the page it was sent to, and a Unix socket has
/// no address to tell a network by.
#[cfg(unix)]
#[tokio::test]
async fn a_refusal_from_behind_a_redirect_proves_nothing_on_a_unix_socket_either() {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    for refusal in ["425 Too Early", "503 Not Now"] {
        let path = std::env::temp_dir().join(format!("reqwest-safe-retry-{}-{}.sock", std::process::id(), &refusal[..3]));
        let listener = tokio::net::UnixListener::bind(&path).unwrap();
        let writes = tokio::spawn(async move {
            let (mut wire, _) = listener.accept().await.unwrap();
            let (mut head, mut writes) = (Vec::new(), 0);
            while let Ok(byte) = wire.read_u8().await {
                head.push(byte);
                if head.ends_with(b"\r\n\r\n") {
                    let is_write = head.starts_with(b"POST");
                    writes += usize::from(is_write);
                    let answer = if is_write { "303 See Other\r\nlocation: /orders" } else { refusal };
                    wire.write_all(format!("HTTP/1.1 {answer}\r\ncontent-length: 0\r\n\r\n").as_bytes()).await.unwrap();
                    head.clear();
                }
            }
            writes
        });
        let client = Road::UnwitnessedFollowing.client_of(retry(), plain().unix_socket(path.clone()));
        let trusting = write().trusting_refusal(StatusCode::SERVICE_UNAVAILABLE);
        let came = bounded(send(client.post("http://peer.test/orders").with_extension(trusting))).await;
        assert_eq!((came.report.stop(), came.report.outcome()), (StopReason::MayHaveHappened, Outcome::Unknown), "{refusal}");
        drop((came, client));
        assert_eq!(bounded(writes).await.unwrap(), 1, "{refusal}");
        std::fs::remove_file(path).unwrap();
    }
}

/// reqwest's own resends are the client's affair, where nothing names the request.
#[tokio::test]
async fn what_is_left_alone_keeps_the_resends_of_its_client() {
    let sends = async |unmarked: Option<Unmarked>| {
        let server = FaultServer::start_h2([H2Fault::refused_stream(), H2Fault::ok("done")]).await;
        let builder = plain().http2_prior_knowledge();
        let status = match unmarked {
            Some(unmarked) => {
                let client = Road::Witnessed.client_of(retry().with_unmarked(unmarked), builder);
                client.post(server.url("/orders")).body("one").send().await.unwrap().status()
            }
            None => builder.build().unwrap().post(server.url("/orders")).body("one").send().await.unwrap().status(),
        };
        (status, server.requests().len())
    };
    let plain = bounded(sends(None)).await;
    assert_eq!(plain, (StatusCode::OK, 2));
    assert_eq!(bounded(sends(Some(Unmarked::Untouched))).await, plain);
    assert_eq!(bounded(sends(Some(Unmarked::ByMethod))).await, plain, "counted by us");
}

/// Writes where a service lives, as service discovery does.
struct Finds(Url);

#[async_trait::async_trait]
impl Middleware for Finds {
    async fn handle(&self, mut request: Request, extensions: &mut Extensions, next: Next<'_>) -> Result<Response> {
        *request.url_mut() = self.0.clone();
        next.run(request, extensions).await
    }
}

/// reqwest cannot build `lb:`, but that is not what it was given: the write arrived, and its
/// redirect is what could not be built.
#[tokio::test]
async fn a_scheme_that_an_inner_middleware_wrote_over_proves_nothing() {
    let server = FaultServer::start([Fault::status(302).with_header("location", "ftp://files.invalid/")]).await;
    let client = retry().client(plain()).with(Finds(server.url("/orders"))).build().unwrap();
    let slot = ReportSlot::new();
    let order = client.post("lb://orders/").body("one").with_extension(Endpoint::unprotected_write()).with_extension(slot.clone());
    let error = bounded(order.send()).await.unwrap_err();
    assert!(matches!(RetryError::find(&error), Some(RetryError::OutcomeUnknown(_))), "{error:?}");
    assert_eq!(slot.take().unwrap().evidence(), Evidence::Unknown);
    server.assert_writes(1);
}

#[tokio::test]
async fn the_wait_of_a_redirects_target_holds_back_its_own_origin_and_not_the_first() {
    let target = FaultServer::start([Fault::status(503).with_header("retry-after", "60")]).await;
    let first = FaultServer::start([Fault::status(302).with_header("location", target.url("/orders").as_str())]).await;
    let cooldown = Cooldown::new();
    let client = retry().with_shared_cooldown(cooldown.clone()).client(plain()).build().unwrap();
    let answer = bounded(client.get(first.url("/orders")).with_extension(Endpoint::never_resend()).send()).await.unwrap();
    assert_eq!(answer.status(), StatusCode::SERVICE_UNAVAILABLE);
    let held_back = |server: &FaultServer| cooldown.release(ScopeKey::origin(&server.url("/")), tokio::time::Instant::now()).is_some();
    assert!(held_back(&target) && !held_back(&first));
}
