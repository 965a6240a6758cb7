//! Behind a completed TLS handshake an error proves no more than without TLS, although it looks
//! different.

use std::time::Duration;

use futures_util::future::join_all;
use reqwest::{Certificate, ClientBuilder, Method, Response, StatusCode};
use reqwest_middleware::{ClientWithMiddleware, Result};
use reqwest_safe_retry::{
    BudgetLimits, Endpoint, Evidence, Outcome, ReportSlot, RetryBudget, RetryError, RetryErrorExt, RetryReport, SafeRetry,
    policy::ResendReason,
    testing::{Fault, FaultServer, Recorded, Tls},
};

use crate::support::wire::{QUICK, Road, bounded, plain};

/// What is sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Shape {
    Get,
    EmptyPost,
    Post,
}

impl Shape {
    const ALL: [Self; 3] = [Self::Get, Self::EmptyPost, Self::Post];

    fn of(self, client: &ClientWithMiddleware, server: &FaultServer) -> reqwest_middleware::RequestBuilder {
        // More than a server reads at once, so that it can act in the middle.
        const UPLOAD: usize = 256 * 1024;
        let (method, endpoint) = match self {
            Self::Get => (Method::GET, Endpoint::read()),
            Self::EmptyPost | Self::Post => (Method::POST, Endpoint::unprotected_write()),
        };
        let request = client.request(method, server.url("/orders")).with_extension(endpoint.reading_body(1024));
        if self == Self::Post { request.body(vec![b'.'; UPLOAD]) } else { request }
    }
}

/// How far the server has come when it fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Seen {
    Nothing,
    Head,
    Whole,
    /// The whole request, and its answer was begun.
    Answered,
}

impl Seen {
    #[track_caller]
    fn assert_of(self, shape: Shape, requests: &[Recorded], told: &str) {
        let complete: Vec<_> = requests.iter().map(Recorded::is_complete).collect();
        match self {
            Self::Nothing => assert!(complete.is_empty(), "{told}"),
            Self::Head => assert_eq!(complete, [shape != Shape::Post], "{told}"),
            Self::Whole | Self::Answered => assert_eq!(complete, [true], "{told}"),
        }
    }
}

/// What goes wrong once the request is under way, but for silence.
fn faults() -> [(Fault, Seen); 10] {
    let answer = || Fault::ok("0123456789");
    [
        (Fault::close_before_reading(), Seen::Nothing),
        (Fault::reset_before_reading(), Seen::Nothing),
        (Fault::close_mid_request(0), Seen::Head),
        (Fault::reset_mid_request(0), Seen::Head),
        (Fault::close_after_request(), Seen::Whole),
        (Fault::reset_after_request(), Seen::Whole),
        (Fault::partial_head(), Seen::Whole),
        (Fault::malformed(), Seen::Whole),
        (answer().with_body_cut_at(4), Seen::Answered),
        (answer().with_body_reset_at(4), Seen::Answered),
    ]
}

fn trusting(tls: &Tls) -> ClientBuilder {
    plain().tls_certs_only([Certificate::from_pem(tls.root_pem().as_bytes()).unwrap()])
}

fn retry() -> SafeRetry {
    SafeRetry::new().with_policy(QUICK).with_budget(RetryBudget::new(BudgetLimits::UNLIMITED))
}

/// Meets a request with this fault, and the next one with success; says what came of it and what
/// the server saw.
async fn sent(client: &ClientWithMiddleware, tls: &Tls, shape: Shape, fault: Fault) -> (Result<Response>, RetryReport, FaultServer) {
    let server = FaultServer::start_tls(tls, [fault, Fault::ok("done")]).await;
    let slot = ReportSlot::new();
    let result = bounded(shape.of(client, &server).with_extension(slot.clone()).send()).await;
    (result, slot.take().unwrap(), server)
}

/// A read is answered by the second attempt; a write is sent once and stays unknown.
#[track_caller]
fn assert_nothing_proven(shape: Shape, seen: Seen, (result, report, server): &(Result<Response>, RetryReport, FaultServer), told: &str) {
    assert_eq!(report.attempts()[0].evidence(), Evidence::Unknown, "{told}");
    let mut requests = server.requests();
    if shape == Shape::Get {
        assert_eq!(result.as_ref().unwrap().status(), StatusCode::OK, "{told}");
        let resends: Vec<_> = report.attempts().iter().filter_map(|attempt| attempt.resend()).collect();
        assert_eq!(resends, [ResendReason::EffectRepeatable], "{told}");
        assert!(requests.pop().unwrap().is_complete(), "{told}");
        server.assert_connections(2);
    } else {
        let error = result.as_ref().unwrap_err();
        let known = match RetryError::find(error) {
            Some(RetryError::OutcomeUnknown(_)) => Outcome::Unknown,
            // A reset may overtake the answer's head, which leaves the row above.
            Some(RetryError::BodyLost(_)) if seen == Seen::Answered => Outcome::Answered,
            _ => panic!("{told}: {error:?}"),
        };
        assert_eq!((report.outcome(), report.attempts().len()), (known, 1), "{told}");
        server.assert_connections(1);
    }
    seen.assert_of(shape, &requests, told);
}

#[tokio::test]
async fn a_fault_on_an_encrypted_connection_proves_nothing_once_the_request_is_under_way() {
    let tls = Tls::new();
    for road in Road::ALL {
        let client = road.client_of(retry(), trusting(&tls));
        for (shape, (fault, seen)) in Shape::ALL.into_iter().flat_map(|shape| faults().map(|row| (shape, row))) {
            let told = format!("{road:?} {shape:?} {fault:?}");
            assert_nothing_proven(shape, seen, &sent(&client, &tls, shape, fault).await, &told);
        }
    }
}

#[tokio::test]
async fn silence_on_an_encrypted_connection_proves_nothing() {
    // Time enough for many handshakes on a busy machine.
    const SILENCE: Duration = Duration::from_millis(1500);
    let tls = Tls::new();
    let clients = Road::ALL.map(|road| (road, road.client_of(retry().with_attempt_limit(SILENCE), trusting(&tls))));
    let silences = [(Fault::hang(), Seen::Whole), (Fault::never_read(), Seen::Nothing)];
    let cells = clients.iter().flat_map(|client| Shape::ALL.map(|shape| (client, shape)));
    let cells = cells.flat_map(|cell| silences.clone().map(|silence| (cell, silence)));
    join_all(cells.map(|(((road, client), shape), (fault, seen))| {
        let (told, tls) = (format!("{road:?} {shape:?} {fault:?}"), &tls);
        async move { assert_nothing_proven(shape, seen, &sent(client, tls, shape, fault).await, &told) }
    }))
    .await;
}

/// The server leaves right after the handshake: whether the client had begun to write then is
/// chance, and its claim fits what it did.
#[tokio::test]
async fn a_connection_that_ends_with_its_handshake_proves_at_most_what_is_true() {
    let tls = Tls::new();
    let every = Road::ALL.into_iter().flat_map(|road| [Fault::close_on_accept(), Fault::reset_on_accept()].map(|fault| (road, fault)));
    for (road, fault) in every {
        let client = road.client_of(retry(), trusting(&tls));
        for shape in Shape::ALL {
            let told = format!("{road:?} {shape:?} {fault:?}");
            let (result, report, server) = sent(&client, &tls, shape, fault.clone()).await;
            // Nothing of the first attempt was ever read: whatever arrived, arrived with the
            // second.
            let arrived = server.requests().len();
            assert_eq!(arrived, server.connections() - 1, "{told}");
            match report.attempts()[0].evidence() {
                Evidence::Unprocessed => assert_eq!((result.unwrap().status(), arrived), (StatusCode::OK, 1), "{told}"),
                Evidence::Unknown => assert_eq!(arrived, usize::from(shape == Shape::Get), "{told}"),
            }
        }
    }
}

#[tokio::test]
async fn a_write_lost_on_a_stale_encrypted_connection_is_unknown_and_sent_once() {
    let tls = Tls::new();
    for road in Road::ALL {
        let client = road.client_of(retry(), trusting(&tls));
        for fault in [Fault::close_before_reading(), Fault::reset_before_reading()] {
            let server = FaultServer::start_tls(&tls, [Fault::ok("ready"), fault, Fault::ok("done")]).await;
            bounded(async { client.get(server.url("/")).send().await.unwrap().bytes().await.unwrap() }).await;
            let error = bounded(Shape::Post.of(&client, &server).send()).await.unwrap_err();
            assert!(matches!(RetryError::find(&error), Some(RetryError::OutcomeUnknown(_))), "{road:?}: {error:?}");
            assert!(error.transport_error().is_some(), "{road:?}: {error:?}");
            server.assert_requests(1);
            server.assert_connections(1);
        }
    }
}
