//! Who wins: request extension, catalogue row, default write, method; extension, endpoint, client;
//! and what a scope caps.

use std::time::Duration;

use reqwest_middleware::{ClientWithMiddleware, Extension, RequestBuilder};
use reqwest_safe_retry::{
    BudgetLimits, CorrelationId, Deadline, Endpoint, EndpointCatalog, IdempotencyKey, KeyContract, Misuse, Outcome, ReportSlot,
    RetryBudget, RetryError, RetryErrorExt as _, RetryPolicy, RetryReport, Row, SafeRetry, SendWitness, StopReason, Unmarked,
    testing::{Scripted, Step},
};
use tokio::time::{Instant, sleep};

use crate::support::scripted::{LATER, URL, builder, client, end, millis, seconds, steady};

const fn attempts(total: u32) -> RetryPolicy {
    RetryPolicy::DEFAULT.with_attempts(total)
}

/// How often a request is sent to a peer that is always down; `loses` an answer, so that only
/// protected writes are sent again.
async fn sends(retry: SafeRetry, request: impl FnOnce(&ClientWithMiddleware) -> RequestBuilder) -> usize {
    let peer = Scripted::new([Step::fails()]);
    let ended = end(request(&client(retry, &peer))).await;
    assert!(ended.result.is_err());
    peer.sends()
}

/// How long a request is in the hands of the plugin when the peer never answers.
async fn time_given(retry: SafeRetry, request: impl FnOnce(&ClientWithMiddleware) -> RequestBuilder) -> Duration {
    let peer = Scripted::new([Step::hangs()]);
    let began = Instant::now();
    let request = request(&client(retry, &peer)).send();
    match tokio::time::timeout(LATER, request).await {
        Ok(result) => {
            assert!(result.unwrap_err().timed_out());
            began.elapsed()
        }
        Err(_) => Duration::MAX,
    }
}

// ===== endpoint =====

#[tokio::test(start_paused = true)]
async fn an_endpoint_on_the_request_beats_the_default_write_and_the_method() {
    let retry = steady().with_default_write(Endpoint::idempotent_write());
    assert_eq!(sends(retry, |client| client.post(URL).with_extension(Endpoint::unprotected_write())).await, 1);
    assert_eq!(sends(steady(), |client| client.post(URL).with_extension(Endpoint::idempotent_write())).await, 3);
    assert_eq!(sends(steady(), |client| client.get(URL).with_extension(Endpoint::never_resend())).await, 1);
}

#[tokio::test(start_paused = true)]
async fn the_default_write_beats_the_method_of_writes_that_the_method_does_not_protect() {
    let retry = || steady().with_default_write(Endpoint::keyed_write(KeyContract::STRIPE));
    for method in ["POST", "PATCH", "FOO", "CONNECT"] {
        let method = http::Method::from_bytes(method.as_bytes()).unwrap();
        assert_eq!(sends(retry(), |client| client.request(method.clone(), URL)).await, 3, "{method}");
    }
}

#[tokio::test(start_paused = true)]
async fn the_default_write_leaves_reads_and_idempotent_writes_to_their_method() {
    let retry = || steady().with_default_write(Endpoint::never_resend());
    for method in ["GET", "HEAD", "OPTIONS", "TRACE", "PUT", "DELETE"] {
        let method = http::Method::from_bytes(method.as_bytes()).unwrap();
        assert_eq!(sends(retry(), |client| client.request(method.clone(), URL)).await, 3, "{method}");
    }
}

#[tokio::test(start_paused = true)]
async fn the_method_speaks_where_nothing_else_does_and_unknown_ones_are_unprotected() {
    for (method, wanted) in [("GET", 3), ("HEAD", 3), ("OPTIONS", 3), ("TRACE", 3), ("PUT", 3), ("DELETE", 3)] {
        let method = http::Method::from_bytes(method.as_bytes()).unwrap();
        assert_eq!(sends(steady(), |client| client.request(method.clone(), URL)).await, wanted, "{method}");
    }
    for method in ["POST", "PATCH", "CONNECT", "FOO", "get"] {
        for step in [
            Step::fails(),
            Step::times_out(),
            Step::status(500),
            Step::status(502),
            Step::status(503),
            Step::status(504),
            Step::status(408),
        ] {
            let peer = Scripted::new([step.clone()]);
            let method = http::Method::from_bytes(method.as_bytes()).unwrap();
            let _ = end(client(steady(), &peer).request(method.clone(), URL).body("one coffee")).await;
            sleep(LATER).await;
            assert_eq!(peer.sends(), 1, "{method} {step:?}");
        }
    }
}

// ===== catalogue =====

/// A client with a row for the POSTs of these tests, which a default write would mark otherwise.
fn with_row(endpoint: Endpoint) -> SafeRetry {
    let catalog = EndpointCatalog::new().with_row("http://peer.test", Row::post("/orders", endpoint)).unwrap();
    let other = Endpoint::never_resend().with_policy(attempts(1)).with_deadline(seconds(2)).with_attempt_limit(seconds(2));
    steady().with_catalog(catalog).with_default_write(other)
}

#[tokio::test(start_paused = true)]
async fn a_row_of_the_catalogue_beats_the_default_write() {
    assert_eq!(sends(with_row(Endpoint::idempotent_write()), |client| client.post(URL)).await, 3);
    assert_eq!(sends(with_row(Endpoint::idempotent_write()), |client| client.patch(URL)).await, 1, "no row, so the default write");
}

#[tokio::test(start_paused = true)]
async fn an_endpoint_on_the_request_beats_a_row_of_the_catalogue() {
    let never = Endpoint::never_resend;
    assert_eq!(sends(with_row(Endpoint::idempotent_write()), |client| client.post(URL).with_extension(never())).await, 1);
    assert_eq!(sends(with_row(never()), |client| client.post(URL).with_extension(Endpoint::idempotent_write())).await, 3);
}

#[tokio::test(start_paused = true)]
async fn a_policy_of_a_row_beats_the_default_writes_and_the_clients() {
    let retry = || with_row(Endpoint::idempotent_write().with_policy(attempts(4))).with_policy(attempts(2));
    assert_eq!(sends(retry(), |client| client.post(URL)).await, 4);
    assert_eq!(sends(retry(), |client| client.post(URL).with_extension(attempts(5))).await, 5);
}

#[tokio::test(start_paused = true)]
async fn a_deadline_of_a_row_beats_the_default_writes_and_the_clients() {
    let retry = || with_row(Endpoint::idempotent_write().with_deadline(seconds(4))).with_deadline(seconds(3));
    assert_eq!(time_given(retry(), |client| client.post(URL)).await, seconds(4));
    assert_eq!(time_given(retry(), |client| client.post(URL).with_extension(Deadline::after(seconds(9)))).await, seconds(9));
}

#[tokio::test(start_paused = true)]
async fn an_attempt_limit_of_a_row_beats_the_default_writes_and_the_clients() {
    for limit in [seconds(1), seconds(7)] {
        let row = Endpoint::idempotent_write().with_policy(attempts(1)).with_attempt_limit(limit);
        assert_eq!(time_given(with_row(row).with_attempt_limit(seconds(3)), |client| client.post(URL)).await, limit);
    }
}

// ===== policy =====

#[tokio::test(start_paused = true)]
async fn a_policy_on_the_request_beats_the_endpoints_and_the_endpoints_beats_the_clients() {
    let client_policy = || steady().with_policy(attempts(2));
    let endpoint = || Endpoint::read().with_policy(attempts(4));
    assert_eq!(sends(client_policy(), |client| client.get(URL)).await, 2);
    assert_eq!(sends(client_policy(), |client| client.get(URL).with_extension(endpoint())).await, 4);
    assert_eq!(sends(client_policy(), |client| client.get(URL).with_extension(endpoint()).with_extension(attempts(5))).await, 5);
    assert_eq!(sends(client_policy(), |client| client.get(URL).with_extension(attempts(5))).await, 5);
}

#[tokio::test(start_paused = true)]
async fn a_policy_of_the_default_write_beats_the_clients() {
    let retry = steady().with_policy(attempts(2)).with_default_write(Endpoint::idempotent_write().with_policy(attempts(4)));
    assert_eq!(sends(retry, |client| client.post(URL)).await, 4);
}

#[tokio::test(start_paused = true)]
async fn one_attempt_is_one_attempt_whatever_happens() {
    for total in [0, 1] {
        for step in [Step::fails(), Step::refused(), Step::times_out(), Step::status(503), Step::status(425), Step::hangs()] {
            for method in [http::Method::GET, http::Method::PUT, http::Method::POST] {
                let peer = Scripted::new([step.clone()]);
                let retry = steady().with_policy(attempts(total)).with_attempt_limit(seconds(1));
                let ended = end(client(retry, &peer).request(method, URL)).await;
                peer.assert_sends(1);
                assert_eq!(ended.report.attempts().len(), 1);
            }
        }
    }
}

// ===== limits =====

#[tokio::test(start_paused = true)]
async fn a_deadline_on_the_request_beats_the_endpoints_and_the_endpoints_beats_the_clients() {
    let retry = || steady().with_deadline(seconds(2));
    let endpoint = || Endpoint::read().with_deadline(seconds(4));
    assert_eq!(time_given(retry(), |client| client.get(URL)).await, seconds(2));
    assert_eq!(time_given(retry(), |client| client.get(URL).with_extension(endpoint())).await, seconds(4));
    let bare = |client: &ClientWithMiddleware| client.get(URL).with_extension(endpoint()).with_extension(Deadline::after(seconds(9)));
    assert_eq!(time_given(retry(), bare).await, seconds(9));
    let none = |client: &ClientWithMiddleware| client.get(URL).with_extension(endpoint()).with_extension(Deadline::NONE);
    assert_eq!(time_given(retry(), none).await, Duration::MAX);
}

#[tokio::test(start_paused = true)]
async fn an_endpoint_lifts_the_clients_deadline_with_the_longest_duration() {
    let lifted = |client: &ClientWithMiddleware| client.get(URL).with_extension(Endpoint::read().with_deadline(Duration::MAX));
    assert_eq!(time_given(steady().with_deadline(seconds(2)), lifted).await, Duration::MAX);
}

#[tokio::test(start_paused = true)]
async fn an_attempt_limit_of_the_endpoint_beats_the_clients_also_when_it_is_longer() {
    for limit in [seconds(1), seconds(7)] {
        let retry = steady().with_policy(attempts(1)).with_attempt_limit(seconds(3));
        assert_eq!(time_given(retry, |client| client.get(URL).with_extension(Endpoint::read().with_attempt_limit(limit))).await, limit);
    }
}

// ===== scope =====

#[tokio::test(start_paused = true)]
async fn a_scope_caps_whoever_won() {
    let work = time_given(steady().with_deadline(seconds(5)), |client| client.get(URL).with_extension(Deadline::after(seconds(9))));
    assert_eq!(Deadline::after(seconds(1)).scope(work).await, seconds(1));
    let work = time_given(steady(), |client| client.get(URL).with_extension(Endpoint::read().with_deadline(Duration::MAX)));
    assert_eq!(Deadline::after(seconds(1)).scope(work).await, seconds(1));
}

#[tokio::test(start_paused = true)]
async fn a_scope_stretches_nobody() {
    let work = time_given(steady().with_deadline(seconds(2)), |client| client.get(URL));
    assert_eq!(Deadline::after(seconds(9)).scope(work).await, seconds(2));
    let work = time_given(steady().with_deadline(seconds(2)), |client| client.get(URL));
    assert_eq!(Deadline::NONE.scope(work).await, seconds(2));
}

#[tokio::test(start_paused = true)]
async fn of_nested_scopes_the_earlier_wins() {
    for (outer, inner) in [(1, 3), (3, 1)] {
        let work = time_given(steady(), |client| client.get(URL));
        assert_eq!(Deadline::after(seconds(outer)).scope(Deadline::after(seconds(inner)).scope(work)).await, seconds(1));
    }
}

// ===== initialisers =====

#[tokio::test(start_paused = true)]
async fn an_initialiser_marks_every_request_of_a_client() {
    let peer = Scripted::new([Step::fails()]);
    let client = builder()
        .with_init(Extension(Endpoint::idempotent_write()))
        .with_init(Extension(attempts(2)))
        .with(steady().with_unmarked(Unmarked::Untouched))
        .with(SendWitness::redirects_off())
        .with(peer.clone())
        .build();
    let ended = end(client.post(URL)).await;
    assert!(matches!(ended.error().safe_retry(), Some(RetryError::OutcomeUnknown(_))));
    peer.assert_sends(2);
}

// ===== strictly opt-in =====

#[tokio::test(start_paused = true)]
async fn what_nothing_names_is_left_alone() {
    let budget = RetryBudget::new(BudgetLimits::percent(100).with_reserve(0, 0));
    let retry = || {
        let short = steady().with_deadline(seconds(1)).with_attempt_limit(seconds(1)).with_budget(budget.clone());
        short.with_unmarked(Unmarked::Untouched)
    };
    let url = URL.parse().unwrap();

    assert_eq!(sends(retry(), |client| client.get(URL)).await, 1);
    assert_eq!(time_given(retry(), |client| client.get(URL)).await, Duration::MAX, "neither deadline nor attempt limit");
    let work = time_given(retry(), |client| client.get(URL));
    assert_eq!(Deadline::after(seconds(1)).scope(work).await, Duration::MAX, "no scope either");
    assert_eq!(budget.balance(&url), 0, "nothing was deposited");

    let peer = Scripted::new([Step::status(200).with_stalled_body("begin")]);
    let response = client(retry(), &peer).get(URL).send().await.unwrap();
    assert!(tokio::time::timeout(LATER, response.bytes()).await.is_err(), "no deadline on the body");
}

/// Left alone means left alone: a plugin further in still does its work.
#[tokio::test(start_paused = true)]
async fn what_is_left_alone_is_left_to_others() {
    let peer = Scripted::new([Step::status(503), Step::ok("done")]);
    let outer = steady().with_unmarked(Unmarked::Untouched);
    let client = reqwest_middleware::ClientBuilder::new(reqwest::Client::new()).with(outer).with(steady()).with(peer.clone()).build();
    assert_eq!(client.get(URL).send().await.unwrap().status(), 200);
    peer.assert_sends(2);
}

/// Looking at it changes nothing: the plugin further in does its work and tells about it.
#[tokio::test(start_paused = true)]
async fn what_is_left_alone_and_looked_at_is_left_to_others_as_well() {
    let outer = || steady().with_unmarked(Unmarked::Untouched);
    let peer = Scripted::new([Step::status(503), Step::ok("done"), Step::status(503), Step::ok("done"), Step::ok("done")]);
    let client = builder().with(outer()).with(outer()).with(steady()).with(peer.clone()).build();
    let slot = ReportSlot::new();

    assert_eq!(client.get(URL).with_extension(slot.clone()).send().await.unwrap().status(), 200);
    peer.assert_sends(2);
    let report = slot.take().unwrap();
    assert_eq!((report.attempts().len(), report.stop()), (2, StopReason::AnswerIsFinal));

    let correlation = CorrelationId::new("job-7").unwrap();
    assert_eq!(client.get(URL).with_extension(correlation).send().await.unwrap().status(), 200);
    peer.assert_sends(4);

    // A slot that still holds the report of another operation is no witness of this one.
    let _ = client.get(URL).with_extension(slot.clone()).send().await.unwrap();
    let alone = builder().with(outer()).with(Scripted::answering(503)).build();
    let _ = alone.get(URL).with_extension(slot.clone()).send().await.unwrap();
    assert_eq!(slot.take().unwrap().stop(), StopReason::Disabled);
}

#[tokio::test(start_paused = true)]
async fn an_answer_to_what_is_left_alone_carries_no_report() {
    for status in [200, 404, 503] {
        let peer = Scripted::answering(status);
        let client = client(steady().with_unmarked(Unmarked::Untouched), &peer);
        let response = client.get(URL).send().await.unwrap();
        assert!(RetryReport::of(&response).is_none(), "{status}");
        assert!(RetryReport::of(end(client.get(URL)).await.response()).is_none(), "{status}: only the slot is told");
    }
}

#[tokio::test(start_paused = true)]
async fn whatever_names_a_request_ends_its_being_left_alone() {
    let retry = || steady().with_unmarked(Unmarked::Untouched);
    assert_eq!(sends(retry(), |client| client.get(URL).with_extension(Endpoint::read())).await, 3);
    assert_eq!(sends(retry(), |client| client.get(URL).with_extension(attempts(2))).await, 2);
    assert_eq!(sends(retry(), |client| client.get(URL).with_extension(Deadline::after(seconds(9)))).await, 3);
    assert_eq!(sends(retry().with_default_write(Endpoint::idempotent_write()), |client| client.post(URL)).await, 3);
    assert_eq!(sends(retry().with_default_write(Endpoint::idempotent_write()), |client| client.get(URL)).await, 1);
}

#[tokio::test(start_paused = true)]
async fn a_report_slot_is_filled_even_for_what_is_left_alone() {
    for (step, outcome, stop) in [
        (Step::status(200), Outcome::Answered, StopReason::AnswerIsFinal),
        (Step::status(503), Outcome::Answered, StopReason::Disabled),
        (Step::fails(), Outcome::Unknown, StopReason::Disabled),
        (Step::broken(), Outcome::Unknown, StopReason::Broken),
    ] {
        let peer = Scripted::new([step.clone()]);
        let slot = ReportSlot::new();
        let _ = client(steady().with_unmarked(Unmarked::Untouched), &peer).get(URL).with_extension(slot.clone()).send().await;
        let report = slot.take().unwrap();
        assert_eq!((report.outcome(), report.stop(), report.attempts().len()), (outcome, stop, 1), "{step:?}");
    }
}

// ===== keys need a contract =====

#[tokio::test(start_paused = true)]
async fn a_key_without_a_contract_is_misuse_whoever_is_left_alone() {
    let key = || IdempotencyKey::parse("order-2041").unwrap();
    for unmarked in [Unmarked::ByMethod, Unmarked::Untouched] {
        for endpoint in [None, Some(Endpoint::unprotected_write()), Some(Endpoint::idempotent_write())] {
            let peer = Scripted::answering(200);
            let mut request = client(steady().with_unmarked(unmarked), &peer).post(URL).with_extension(key());
            if let Some(endpoint) = endpoint {
                request = request.with_extension(endpoint);
            }
            let ended = end(request).await;
            assert!(matches!(ended.error().safe_retry(), Some(RetryError::Misused(Misuse::KeyWithoutContract))));
            assert_eq!(ended.report.stop(), StopReason::Misused);
            peer.assert_sends(0);
        }
    }
}

/// A header alone is no contract.
#[tokio::test(start_paused = true)]
async fn the_presence_of_a_key_header_protects_nothing() {
    let peer = Scripted::new([Step::fails()]);
    let ended = end(client(steady(), &peer).post(URL).header("idempotency-key", "order-2041")).await;
    peer.assert_sends(1);
    assert_eq!(ended.report.stop(), StopReason::MayHaveHappened);
}

#[tokio::test(start_paused = true)]
async fn requests_minutes_apart_on_one_client_have_deadlines_of_their_own() {
    let peer = Scripted::new([Step::status(503), Step::ok("first"), Step::status(503), Step::ok("second")]);
    let client = client(steady().with_deadline(seconds(60)), &peer);
    for wanted in ["first", "second"] {
        let ended = end(client.get(URL)).await;
        assert_eq!(ended.report.time_left(), seconds(60) - millis(500));
        assert_eq!(ended.result.unwrap().text().await.unwrap(), wanted);
        sleep(seconds(600)).await;
    }
}
