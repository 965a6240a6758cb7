//! Each failure of `data/reqwest_error_evidence.json`, for real: what the plugin takes as proven,
//! and what the server saw. A request that was processed is never called unprocessed, and a POST
//! that nothing protects is sent again exactly where it is proven that it was not.

use std::time::Duration;

use futures_util::future::join_all;
use reqwest::ClientBuilder;
use reqwest_middleware::{Error, Result};
use reqwest_safe_retry::{
    Evidence, ReportSlot, RetryErrorExt, RetryReport, SafeRetry,
    policy::{ResendReason, Signal},
    report::AttemptRecord,
    testing::{Fault, FaultServer, H2Fault, H2Reason},
};
use serde_json::Value;

use crate::support::wire::{Dead, Lookup, Names, ORDERS, QUICK, Road, bounded, plain};

const SHORT: Duration = Duration::from_millis(500);

/// The row of this name.
fn row(case: &str) -> Value {
    let vector: Value = serde_json::from_str(include_str!("../../data/reqwest_error_evidence.json")).unwrap();
    vector["rows"].as_array().unwrap().iter().find(|row| row["case"] == case).expect("the row exists").clone()
}

/// A server and a client whose first POST meets the failure, and whose second would succeed.
struct Scene {
    server: FaultServer,
    builder: ClientBuilder,
    url: String,
}

impl Scene {
    async fn http1(fault: Fault) -> Self {
        let server = FaultServer::start([fault, Fault::ok("done")]).await;
        Self { url: server.url("/orders").into(), builder: plain(), server }
    }

    async fn http2(fault: H2Fault) -> Self {
        let server = FaultServer::start_h2([fault, H2Fault::ok("done")]).await;
        Self { url: server.url("/orders").into(), builder: plain().http2_prior_knowledge(), server }
    }

    /// The name leads elsewhere first, then to a server that answers.
    async fn reached_by(first: Lookup, limit: impl FnOnce(ClientBuilder) -> ClientBuilder) -> Self {
        let server = FaultServer::start([Fault::ok("done")]).await;
        let names = Names::leading([first, Lookup::of(&server)]);
        Self { url: ORDERS.into(), builder: limit(plain().dns_resolver(names)), server }
    }
}

/// What the POST came to, with so many attempts allowed.
async fn post(road: Road, scene: Scene, attempts: u32) -> (Result<reqwest::Response>, RetryReport, FaultServer) {
    let client = road.client_of(SafeRetry::new().with_policy(QUICK.with_attempts(attempts)), scene.builder);
    let slot = ReportSlot::new();
    let result = bounded(client.post(scene.url).body("1").with_extension(slot.clone()).send()).await;
    (result, slot.take().unwrap(), scene.server)
}

/// Plays the scene with one attempt and with two, and holds what comes against the row and against
/// what is to be expected on this road.
async fn check<F: Future<Output = Scene>>(case: &str, road: Road, scene: impl Fn() -> F, expected: impl Into<Option<Evidence>>) {
    let row = row(case);
    let truth = row["truth"].as_str().unwrap();
    let at = format!("{case}, {road:?}");

    let (result, report, server) = post(road, scene().await, 1).await;
    let error = result.unwrap_err();
    let transport = error.transport_error().unwrap();
    assert!(matches!(error, Error::Reqwest(_)), "{at}: an unmarked request keeps its error");
    for (predicate, holds) in [
        ("is_connect", transport.is_connect()),
        ("is_timeout", transport.is_timeout()),
        ("is_dns", transport.is_dns()),
        ("is_builder", transport.is_builder()),
    ] {
        assert_eq!(row[predicate].as_bool().unwrap_or(holds), holds, "{at}: {predicate}");
    }
    let evidence = report.attempts()[0].evidence();
    let allowed = truth.starts_with("not sent") || truth.starts_with("not processed");
    assert!(allowed || evidence == Evidence::Unknown, "{at}: {truth}, yet {evidence:?}");
    assert_eq!(expected.into().unwrap_or(evidence), evidence, "{at}");
    // What is refused on a stream of its own has arrived all the same.
    let reached = !allowed || row.get("h2").is_some();
    server.assert_writes(usize::from(reached));

    let (result, report, server) = post(road, scene().await, 2).await;
    let [first, later @ ..] = report.attempts() else { panic!("{at}: no attempt") };
    let proven = first.evidence() == Evidence::Unprocessed && first.signal() != Signal::Broken;
    assert_eq!(first.resend(), proven.then_some(ResendReason::ProvenUnprocessed), "{at}");
    assert_eq!(later.iter().map(AttemptRecord::number).collect::<Vec<_>>(), if proven { vec![2] } else { vec![] }, "{at}");
    assert_eq!(result.is_ok(), proven, "{at}: {result:?}");
    server.assert_writes(usize::from(reached) + usize::from(proven));
}

/// Where an error can be trusted to speak of the request's own hop.
fn sees_redirects(road: Road) -> bool {
    matches!(road, Road::Paved | Road::PavedFollowing | Road::Witnessed)
}

#[test]
fn every_row_of_the_vector_has_a_test() {
    let vector: Value = serde_json::from_str(include_str!("../../data/reqwest_error_evidence.json")).unwrap();
    let here = include_str!("error_evidence.rs");
    for row in vector["rows"].as_array().unwrap() {
        let case = format!("{:?}", row["case"].as_str().unwrap());
        assert!(here.contains(&case), "{case}");
    }
}

#[tokio::test]
async fn a_request_that_cannot_be_built_was_not_sent_and_is_not_sent_again() {
    let scene = || async { Scene { url: "ftp://api.test/orders".into(), ..Scene::http1(Fault::ok("")).await } };
    for road in Road::ALL {
        // Only the witness knows which URL was handed to reqwest: an inner middleware may have
        // written another.
        let expected =
            if matches!(road, Road::Unwitnessed | Road::UnwitnessedFollowing) { Evidence::Unknown } else { Evidence::Unprocessed };
        check("builder error (bad scheme, bad URL)", road, scene, expected).await;
        let error = road.client(QUICK).post("no URL at all").send().await.unwrap_err();
        assert!(error.is_builder(), "{error:?}");
    }
}

#[tokio::test]
async fn a_connection_that_never_was_is_proof_where_redirects_are_seen() {
    let dead = Dead::new();
    for road in Road::ALL {
        let expected = if sees_redirects(road) { Evidence::Unprocessed } else { Evidence::Unknown };
        check("connection refused", road, || Scene::reached_by(Lookup::To(dead.address()), |builder| builder), expected).await;
        check("DNS failure", road, || Scene::reached_by(Lookup::Fails, |builder| builder), expected).await;
    }
}

#[tokio::test]
async fn a_connect_timeout_is_proof_where_redirects_are_seen() {
    join_all(Road::ALL.map(|road| async move {
        let expected = if sees_redirects(road) { Evidence::Unprocessed } else { Evidence::Unknown };
        let hanging = || Scene::reached_by(Lookup::Hangs, |builder| builder.connect_timeout(SHORT));
        check("connect_timeout fires", road, hanging, expected).await;
    }))
    .await;
}

#[tokio::test]
async fn a_client_timeout_while_connecting_is_proof_where_the_body_is_watched() {
    join_all(Road::ALL.map(|road| async move {
        let expected = if matches!(road, Road::Paved | Road::Witnessed) { Evidence::Unprocessed } else { Evidence::Unknown };
        let hanging = || Scene::reached_by(Lookup::Hangs, |builder| builder.timeout(SHORT));
        check("total timeout fires while still resolving/connecting", road, hanging, expected).await;
    }))
    .await;
}

#[tokio::test]
async fn a_client_timeout_after_the_request_proves_nothing() {
    join_all(Road::ALL.map(|road| async move {
        let silent = || async {
            let scene = Scene::http1(Fault::hang()).await;
            Scene { builder: scene.builder.timeout(SHORT), ..scene }
        };
        check("total timeout after the request was sent", road, silent, Evidence::Unknown).await;
    }))
    .await;
}

#[tokio::test]
async fn a_connection_that_ends_after_the_request_proves_nothing() {
    for road in Road::ALL {
        let closes = || Scene::http1(Fault::close_after_request());
        check("HTTP/1 server closes after reading the whole request", road, closes, Evidence::Unknown).await;
        check("RST after the request was read", road, || Scene::http1(Fault::reset_after_request()), Evidence::Unknown).await;
    }
}

#[tokio::test]
async fn a_connection_that_ends_at_once_is_resent_only_if_it_is_proven_that_nothing_was_sent() {
    for road in Road::ALL {
        let (closed, is_canceled) = ("HTTP/1 server closes right after accept, reads nothing", "hyper::Error::is_canceled()");
        check(closed, road, || Scene::http1(Fault::close_before_reading()), Evidence::Unknown).await;
        // Which of the three errors it is depends on who is quicker; one of them is the
        // cancellation.
        check(closed, road, || Scene::http1(Fault::close_on_accept()), None).await;
        check(is_canceled, road, || Scene::http1(Fault::reset_on_accept()), None).await;
    }
}

#[tokio::test]
async fn a_pooled_connection_that_ends_after_the_request_proves_nothing() {
    let truth = row("pooled connection, server closes after reading the 2nd request")["truth"].clone();
    assert_eq!(truth, "processed");
    for road in Road::ALL {
        let server = FaultServer::start([Fault::ok("ready"), Fault::close_after_request(), Fault::ok("done")]).await;
        let client = road.client(QUICK);
        bounded(async { client.get(server.url("/")).send().await.unwrap().bytes().await.unwrap() }).await;
        let slot = ReportSlot::new();
        let request = client.post(server.url("/orders")).body("1").with_extension(slot.clone());
        bounded(request.send()).await.unwrap_err();
        assert_eq!(slot.take().unwrap().evidence(), Evidence::Unknown);
        server.assert_writes(1);
        server.assert_connections(1);
    }
}

#[tokio::test]
async fn a_redirect_to_a_dead_host_is_no_proof() {
    let dead = Dead::new();
    for road in Road::ALL.into_iter().filter(|road| road.follows()) {
        for status in [303, 302, 307] {
            let scene = || Scene::http1(Fault::status(status).with_header("location", &dead.url("/receipt")));
            check("POST answered 303/302/307 to a dead host (redirects followed)", road, scene, Evidence::Unknown).await;
        }
    }
}

#[tokio::test]
async fn what_an_http2_server_refuses_is_proof_where_redirects_are_seen() {
    for road in Road::ALL.into_iter().filter(|road| sees_redirects(*road)) {
        let proven = Evidence::Unprocessed;
        check("h2 RST_STREAM REFUSED_STREAM", road, || Scene::http2(H2Fault::refused_stream()), proven).await;
        // Where redirects are followed the body is not watched, and one that was not read leaves
        // open whether the server acted on the head.
        let read = if road == Road::PavedFollowing { Evidence::Unknown } else { proven };
        let leaves = |reason| move || Scene::http2(H2Fault::go_away_below(reason));
        check("h2 GOAWAY last=0 NO_ERROR", road, leaves(H2Reason::NO_ERROR), read).await;
        check("h2 GOAWAY last=0 ENHANCE_YOUR_CALM", road, leaves(H2Reason::ENHANCE_YOUR_CALM), read).await;
    }
}

#[tokio::test]
async fn what_an_http2_server_may_have_processed_is_unknown() {
    for road in Road::ALL {
        for reason in [H2Reason::NO_ERROR, H2Reason::ENHANCE_YOUR_CALM, H2Reason::PROTOCOL_ERROR] {
            let scene = || Scene::http2(H2Fault::go_away_including(reason));
            check("h2 GOAWAY last=1 (any code) then EOF", road, scene, Evidence::Unknown).await;
        }
        for reason in [H2Reason::CANCEL, H2Reason::INTERNAL_ERROR, H2Reason::ENHANCE_YOUR_CALM] {
            let scene = || Scene::http2(H2Fault::reset_stream(reason));
            check("h2 RST CANCEL / INTERNAL_ERROR / ENHANCE_YOUR_CALM", road, scene, Evidence::Unknown).await;
        }
        check("h2 EOF after HEADERS or after DATA", road, || Scene::http2(H2Fault::close()), Evidence::Unknown).await;
    }
}
