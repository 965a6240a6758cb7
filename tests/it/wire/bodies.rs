//! Bodies: every attempt carries the whole one or is known not to, and answers come back whole or
//! not at all.

use std::{
    sync::{Arc, LazyLock},
    time::Duration,
};

use bytes::Bytes;
use futures_util::{future::join_all, stream};
use reqwest::{
    Body, Method, Response, StatusCode, Version,
    multipart::{Form, Part},
};
use reqwest_middleware::{ClientWithMiddleware, Error, RequestBuilder, Result};
use reqwest_safe_retry::{
    Cause, Endpoint, IdempotencyKey, Outcome, ReplayBody, ReplayRequest, ReportSlot, RetryError, RetryErrorExt, RetryReport, SafeRetry,
    StopReason,
    policy::ResendReason,
    report::TimeLimit,
    testing::{Fault, FaultServer, Recorded},
};

use crate::support::wire::{Dead, Lookup, Names, ORDERS, QUICK, Road, bounded, keyed_write, plain};

const SHORT: Duration = Duration::from_millis(100);

/// 1 MiB without a pattern (xorshift64), so that a shift, a cut or a repetition shows.
static ORIGINAL: LazyLock<Bytes> = LazyLock::new(|| {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut word = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state.to_le_bytes()
    };
    (0..(1 << 20) / 8).flat_map(|_| word()).collect()
});

/// What one request came to.
struct Came {
    result: Result<Response>,
    report: RetryReport,
}

async fn send(request: RequestBuilder) -> Came {
    let slot = ReportSlot::new();
    let result = bounded(request.with_extension(slot.clone()).send()).await;
    Came { result, report: slot.take().unwrap() }
}

impl Came {
    fn error(&self) -> &RetryError {
        RetryError::find(self.result.as_ref().unwrap_err()).unwrap()
    }

    fn reasons(&self) -> Vec<ResendReason> {
        self.report.attempts().iter().filter_map(|attempt| attempt.resend()).collect()
    }
}

// ===== requests =====

/// The original in pieces, as a stream that tells no length.
fn streamed() -> Body {
    let pieces: Vec<_> = ORIGINAL.chunks(100_000).map(|piece| Ok::<_, std::io::Error>(Bytes::copy_from_slice(piece))).collect();
    Body::wrap_stream(stream::iter(pieces))
}

fn form() -> Form {
    Form::new().text("kind", "invoice").part("scan", Part::bytes(ORIGINAL.to_vec()))
}

/// How a request comes by its body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Supply {
    Bytes,
    Factory,
    FactoryOfKnownLength,
    StreamThenFactory,
    Multipart,
}

impl Supply {
    const ALL: [Self; 5] = [Self::Bytes, Self::Factory, Self::FactoryOfKnownLength, Self::StreamThenFactory, Self::Multipart];

    fn put(self, client: &ClientWithMiddleware, url: String) -> RequestBuilder {
        let request = client.put(&url);
        let factory = ReplayBody::from_fn(|| Ok(streamed()));
        match self {
            Self::Bytes => request.body(ORIGINAL.clone()),
            Self::Factory => request.with_extension(factory),
            Self::FactoryOfKnownLength => request.with_extension(factory.with_length(ORIGINAL.len() as u64)),
            Self::StreamThenFactory => request.body(streamed()).with_extension(factory),
            Self::Multipart => {
                let make = move || reqwest::Client::new().put(&url).multipart(form()).build();
                request.with_extension(ReplayRequest::from_fn(make))
            }
        }
    }

    /// Holds what a server received against the original; of an attempt that broke off, as much of
    /// it as came.
    fn assert_carried(self, request: &Recorded, fault: &str) {
        let at = format!("{self:?}, {fault}, complete: {}", request.is_complete());
        if self == Self::Multipart {
            let boundary = request.header("content-type").unwrap().strip_prefix("multipart/form-data; boundary=").unwrap();
            let line = format!("--{boundary}\r\n");
            assert!(request.body().iter().zip(line.as_bytes()).all(|(received, expected)| received == expected), "{at}");
            if request.is_complete() {
                assert!(request.body().ends_with(format!("\r\n--{boundary}--\r\n").as_bytes()), "{at}");
                let scan = request.body().windows(16).position(|window| window == &ORIGINAL[..16]).expect("the scan is in it");
                assert!(request.body()[scan..].starts_with(&ORIGINAL), "{at}");
            }
            return;
        }
        let length = matches!(self, Self::Bytes | Self::FactoryOfKnownLength).then(|| ORIGINAL.len().to_string());
        assert_eq!(request.header("content-length"), length.as_deref(), "{at}");
        assert_eq!(request.header("transfer-encoding"), if length.is_some() { None } else { Some("chunked") }, "{at}");
        assert!(ORIGINAL.starts_with(request.body()), "{at}");
        assert_eq!(request.is_complete(), request.body().len() == ORIGINAL.len(), "{at}");
    }
}

#[tokio::test]
async fn every_attempt_carries_the_original_whatever_happened_to_the_one_before() {
    let faults = [
        ("after the head", Fault::reset_mid_request(0)),
        ("mid-body", Fault::reset_mid_request(500_000)),
        ("after the body", Fault::reset_after_request()),
        ("closed after the body", Fault::close_after_request()),
        ("503", Fault::status(503)),
    ];
    for (supply, road) in Supply::ALL.into_iter().flat_map(|supply| [Road::Paved, Road::UnwitnessedFollowing].map(|road| (supply, road))) {
        for (name, fault) in &faults {
            let server = FaultServer::start([fault.clone(), fault.clone(), Fault::ok("done")]).await;
            let came = send(supply.put(&road.client(QUICK), server.url("/orders").into())).await;
            assert_eq!(came.result.unwrap().status(), StatusCode::OK, "{supply:?}, {name}");
            server.assert_requests(3);
            let requests = server.requests();
            requests.iter().for_each(|request| supply.assert_carried(request, name));
            assert!(requests[2].is_complete());
            assert_eq!(supply == Supply::Multipart, requests[0].header("content-type") != requests[2].header("content-type"));
        }
    }
}

#[tokio::test]
async fn an_unprotected_write_that_was_refused_a_connection_carries_the_original() {
    let dead = Dead::new();
    for (supply, road) in Supply::ALL.into_iter().flat_map(|supply| [Road::Paved, Road::PavedFollowing].map(|road| (supply, road))) {
        let server = FaultServer::start([Fault::ok("done")]).await;
        let names = Names::leading([Lookup::To(dead.address()), Lookup::of(&server)]);
        let client = road.client_of(SafeRetry::new().with_policy(QUICK), plain().dns_resolver(names));
        let came = send(supply.put(&client, ORDERS.into()).with_extension(Endpoint::unprotected_write())).await;
        assert_eq!(came.reasons(), [ResendReason::ProvenUnprocessed], "{supply:?}");
        server.assert_writes(1);
        supply.assert_carried(&server.requests()[0], "refused");
    }
}

#[tokio::test]
async fn what_can_be_sent_only_once_is_sent_once_and_arrives() {
    for road in Road::ALL {
        let server = FaultServer::start([Fault::ok("done")]).await;
        let client = road.client(QUICK);
        for request in [client.put(server.url("/")).body(streamed()), client.post(server.url("/")).body(streamed())] {
            assert_eq!(send(request).await.result.unwrap().status(), StatusCode::OK);
        }
        for request in [client.put(server.url("/")).multipart(form()), client.post(server.url("/")).multipart(form())] {
            assert_eq!(send(request).await.result.unwrap().status(), StatusCode::OK);
        }
        server.assert_writes(4);
        let requests = server.requests();
        requests[..2].iter().for_each(|request| Supply::Factory.assert_carried(request, "sent once"));
        requests[2..].iter().for_each(|request| Supply::Multipart.assert_carried(request, "sent once"));
    }
}

#[tokio::test]
async fn what_can_be_sent_only_once_fails_by_what_is_proven() {
    let dead = Dead::new();
    for road in [Road::Paved, Road::PavedFollowing] {
        let once = |url: String| {
            let (client, url) = (road.client(QUICK), url);
            [client.put(&url).body(streamed()), client.put(&url).multipart(form())]
        };
        for request in once(dead.url("/orders")) {
            let came = send(request.with_extension(Endpoint::unprotected_write())).await;
            assert!(matches!(came.error(), RetryError::Unprocessed(_)), "{road:?}: {:?}", came.error());
            assert_eq!((came.report.stop(), came.report.outcome()), (StopReason::BodyConsumed, Outcome::Unprocessed));
        }
        let server = FaultServer::start([Fault::reset_after_request()]).await;
        for request in once(server.url("/orders").into()) {
            let came = send(request.with_extension(Endpoint::idempotent_write())).await;
            assert!(matches!(came.error(), RetryError::OutcomeUnknown(_)), "{road:?}: {:?}", came.error());
            assert_eq!((came.report.stop(), came.report.outcome()), (StopReason::BodyConsumed, Outcome::Unknown));
        }
        server.assert_writes(2);
        let server = FaultServer::start([Fault::status(503)]).await;
        for request in once(server.url("/orders").into()) {
            let came = send(request).await;
            assert_eq!(came.result.unwrap().status(), StatusCode::SERVICE_UNAVAILABLE);
            assert_eq!(came.report.stop(), StopReason::BodyConsumed);
        }
        server.assert_writes(2);
    }
}

#[tokio::test]
async fn a_factory_that_fails_sends_nothing_half() {
    let server = FaultServer::start([Fault::status(503), Fault::ok("done")]).await;
    let calls = Arc::new(std::sync::atomic::AtomicUsize::new(0));
    let counted = Arc::clone(&calls);
    let works_once = ReplayBody::from_fn(move || match counted.fetch_add(1, std::sync::atomic::Ordering::Relaxed) {
        0 => Ok(streamed()),
        _ => Err(std::io::Error::other("the file is gone")),
    });
    let never_works = ReplayBody::from_fn(|| Err(std::io::Error::other("there is no file")));
    let client = Road::Paved.client(QUICK);

    let came = send(client.put(server.url("/")).with_extension(never_works)).await;
    assert!(matches!(came.error(), RetryError::Misused(_)), "{:?}", came.error());
    server.assert_requests(0);

    let came = send(client.put(server.url("/")).with_extension(works_once)).await;
    assert!(matches!(came.error(), RetryError::OutcomeUnknown(_)), "{:?}", came.error());
    assert_eq!(came.report.stop(), StopReason::BodyConsumed);
    server.assert_requests(1);
}

// ===== answers =====

const BODY: &str = "0123456789";

/// Lets the answer be read inside the attempt, where it may be cut or stall.
fn reading(endpoint: Endpoint) -> Endpoint {
    endpoint.reading_body(1000).with_attempt_limit(10 * SHORT)
}

/// Answers whose heads arrive and whose bodies do not.
fn lost(status: u16) -> [Fault; 4] {
    let answer = Fault::status(status).with_body(BODY);
    [
        answer.clone().with_body_cut_at(4),
        answer.clone().with_body_reset_at(4),
        answer.clone().chunked().with_body_cut_at(4),
        answer.with_body_stalled_at(4),
    ]
}

#[tokio::test]
async fn a_read_whose_answer_broke_off_brings_it_whole() {
    join_all(Road::ALL.map(|road| async move {
        let [cut, reset, chunked, stalled] = lost(200);
        let by_the_attempt_limit = Cause::TimedOut(TimeLimit::Attempt);
        for (fault, cause) in
            [(cut, Cause::BodyLost), (reset, Cause::BodyLost), (chunked, Cause::BodyLost), (stalled, by_the_attempt_limit)]
        {
            let whole = Fault::ok(BODY).with_header("x-version", "7");
            let server = FaultServer::start([fault, whole]).await;
            let came = send(road.client(QUICK).get(server.url("/orders?page=2")).with_extension(reading(Endpoint::read()))).await;
            let response = came.result.unwrap();
            assert_eq!(
                (response.status(), response.version(), response.url()),
                (StatusCode::OK, Version::HTTP_11, &server.url("/orders?page=2"))
            );
            assert_eq!((response.headers()["x-version"].to_str().unwrap(), response.content_length()), ("7", Some(10)));
            assert_eq!(RetryReport::of(&response).unwrap().attempts().len(), 2);
            assert_eq!(response.text().await.unwrap(), BODY);
            let [first, _] = came.report.attempts() else { panic!("two attempts") };
            assert_eq!(
                (first.cause(), first.status(), first.resend()),
                (cause, Some(StatusCode::OK), Some(ResendReason::EffectRepeatable))
            );
            server.assert_requests(2);
        }
    }))
    .await;
}

#[tokio::test]
async fn a_read_whose_answers_all_break_off_ends_with_the_transports_error() {
    let server = FaultServer::start([Fault::ok(BODY).with_body_cut_at(4)]).await;
    let came = send(Road::Paved.client(QUICK).get(server.url("/")).with_extension(reading(Endpoint::read()))).await;
    assert!(matches!(&came.result, Err(Error::Reqwest(error)) if error.is_decode()), "{:?}", came.result);
    assert_eq!(came.report.stop(), StopReason::AttemptsSpent);
    server.assert_requests(3);
}

#[tokio::test]
async fn a_keyed_write_whose_answer_broke_off_goes_out_again_under_its_key() {
    for fault in lost(201) {
        let server = FaultServer::start([fault, Fault::status(201).with_body(BODY)]).await;
        let request = Road::Paved.client(QUICK).post(server.url("/orders")).body("one coffee");
        let came = send(request.with_extension(reading(keyed_write())).with_extension(IdempotencyKey::parse("order-17").unwrap())).await;
        assert_eq!(came.reasons(), [ResendReason::KeyDeduplicates]);
        assert_eq!(came.result.unwrap().text().await.unwrap(), BODY);
        server.assert_writes(2);
        for request in server.requests() {
            assert_eq!((request.header("idempotency-key"), request.body()), (Some("\"order-17\""), &b"one coffee"[..]));
        }
    }
}

#[tokio::test]
async fn a_write_whose_answer_broke_off_was_answered_all_the_same() {
    let cells = Road::ALL.into_iter().flat_map(|road| lost(201).map(|fault| (road, fault)));
    join_all(cells.map(|(road, fault)| async move {
        let server = FaultServer::start([fault, Fault::status(201).with_body(BODY)]).await;
        let request = road.client(QUICK).post(server.url("/orders")).body("one coffee");
        let came = send(request.with_extension(reading(Endpoint::unprotected_write()))).await;
        assert!(matches!(came.error(), RetryError::BodyLost(_)), "{:?}", came.error());
        assert_eq!(came.error().status(), Some(StatusCode::CREATED));
        server.assert_writes(1);
    }))
    .await;
}

#[tokio::test]
async fn a_write_whose_refusal_broke_off_is_unknown() {
    for fault in lost(503) {
        let server = FaultServer::start([fault, Fault::status(201).with_body(BODY)]).await;
        let request = Road::Paved.client(QUICK).post(server.url("/orders")).body("one coffee");
        let came = send(request.with_extension(reading(Endpoint::unprotected_write()))).await;
        assert!(matches!(came.error(), RetryError::OutcomeUnknown(_)), "{:?}", came.error());
        assert_eq!(came.error().status(), Some(StatusCode::SERVICE_UNAVAILABLE));
        server.assert_writes(1);
    }
}

#[tokio::test]
async fn an_answer_too_long_to_be_held_is_handed_on_while_it_comes() {
    let most = 1000;
    for fault in [Fault::ok(ORIGINAL.clone()), Fault::ok(ORIGINAL.clone()).chunked()] {
        let server = FaultServer::start([fault.clone(), fault.with_body_stalled_at(500_000)]).await;
        let client = Road::Paved.client(QUICK);
        let request = || client.get(server.url("/")).with_extension(Endpoint::read().reading_body(most));
        assert_eq!(bounded(send(request()).await.result.unwrap().bytes()).await.unwrap(), *ORIGINAL);

        let mut coming = send(request()).await.result.unwrap();
        let mut arrived = Vec::new();
        while arrived.len() < 500_000 {
            arrived.extend_from_slice(&bounded(coming.chunk()).await.unwrap().unwrap());
        }
        assert!(ORIGINAL.starts_with(&arrived));
        server.assert_requests(2);
    }
}

#[tokio::test]
async fn an_answer_of_just_the_length_that_may_be_held_is_held() {
    for fault in [Fault::ok(BODY), Fault::ok(BODY).chunked()] {
        let server = FaultServer::start([fault.clone().with_body_cut_at(9), fault]).await;
        let came = send(Road::Paved.client(QUICK).get(server.url("/")).with_extension(Endpoint::read().reading_body(BODY.len()))).await;
        assert_eq!(came.result.unwrap().text().await.unwrap(), BODY);
        server.assert_requests(2);
    }
}

#[tokio::test]
async fn an_answer_that_announces_a_length_and_has_no_body_is_whole() {
    let unchanged = Fault::status(304).with_header("content-length", "10");
    for (method, fault, status) in [(Method::HEAD, Fault::ok(BODY), 200), (Method::GET, unchanged, 304)] {
        let server = FaultServer::start([fault]).await;
        let client = Road::Paved.client_of(SafeRetry::new().with_policy(QUICK).with_deadline(Duration::from_secs(5)), plain());
        for endpoint in [Endpoint::read(), reading(Endpoint::read())] {
            let response = send(client.request(method.clone(), server.url("/")).with_extension(endpoint)).await.result.unwrap();
            assert_eq!((response.status().as_u16(), response.headers()["content-length"].to_str().unwrap()), (status, "10"));
            assert_eq!(bounded(response.bytes()).await.unwrap(), "");
        }
        server.assert_requests(2);
        server.assert_connections(1);
    }
}

#[tokio::test]
async fn the_deadline_covers_the_body_of_the_final_answer() {
    for (endpoint, fault) in [
        (Endpoint::read(), Fault::ok(BODY).with_body_stalled_at(4)),
        (Endpoint::read(), Fault::trickle(200, Duration::from_millis(5))),
        (Endpoint::unprotected_write(), Fault::ok(BODY).with_body_stalled_at(4)),
    ] {
        let server = FaultServer::start([fault]).await;
        let started = tokio::time::Instant::now();
        let request = Road::Paved.client(QUICK).post(server.url("/")).body("one coffee").with_extension(endpoint.with_deadline(2 * SHORT));
        let response = send(request).await.result.unwrap();
        let error = bounded(response.bytes()).await.unwrap_err();
        assert!(error.is_timeout(), "{error:?}");
        assert!(started.elapsed() >= 2 * SHORT && started.elapsed() < 20 * SHORT, "{:?}", started.elapsed());
        server.assert_requests(1);
    }
}

#[tokio::test]
async fn a_deadline_to_the_head_leaves_the_body_its_time() {
    let server = FaultServer::start([Fault::ok(BODY).with_body_after(4 * SHORT)]).await;
    let endpoint = Endpoint::read().with_deadline(2 * SHORT).deadline_to_head();
    let came = send(Road::Paved.client(QUICK).get(server.url("/")).with_extension(endpoint)).await;
    assert_eq!(bounded(came.result.unwrap().text()).await.unwrap(), BODY);
}

#[tokio::test]
async fn the_deadline_cuts_a_body_that_is_read_inside_the_attempt() {
    let server = FaultServer::start([Fault::ok(BODY).with_body_stalled_at(4)]).await;
    let endpoint = Endpoint::read().reading_body(1000).with_deadline(2 * SHORT);
    let came = send(Road::Paved.client(QUICK).get(server.url("/")).with_extension(endpoint)).await;
    assert!(came.result.as_ref().unwrap_err().timed_out());
    assert!(matches!(came.error(), RetryError::DeadlineExceeded(_)), "{:?}", came.error());
    assert_eq!(came.error().status(), Some(StatusCode::OK));
    server.assert_requests(1);
}
