//! Keys on the wire: one operation, one key, on every attempt, for as long as the server remembers
//! it.

use std::{
    collections::HashSet,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::SystemTime,
};

use futures_util::future::join_all;
use http::{Extensions, HeaderValue, Method};
use reqwest::{Request, Response};
use reqwest_middleware::{ClientWithMiddleware, Middleware, Next, RequestBuilder, Result};
use reqwest_safe_retry::{
    Cause, Cooldown, Deadline, Endpoint, Evidence, HoldsBack, IdempotencyKey, KeyContract, Misuse, Outcome, ReplayBody, ReplayRequest,
    RetryError, RetryErrorExt as _, RetryPolicy, RetryReport, ScopeKey, SendWitness, StopReason, Verdict,
    policy::{KeyAnswer, KeyFormat, KeySource, Replays, ResendReason, Signal, UniqueWithin},
    presets,
    testing::{Recorded, Scripted, Step},
};
use tokio::time::{Duration, Instant, sleep};

use crate::support::scripted::{Ended, LATER, URL, builder, client, end, hasty, millis, seconds, steady};

const DAY: Duration = seconds(24 * 60 * 60);

fn payment() -> Endpoint {
    Endpoint::keyed_write(KeyContract::STRIPE)
}

fn post(client: &ClientWithMiddleware, endpoint: Endpoint) -> RequestBuilder {
    client.post(URL).body("one coffee").with_extension(endpoint)
}

fn key(text: &str) -> IdempotencyKey {
    IdempotencyKey::parse(text).unwrap()
}

fn header<'a>(sent: &'a Recorded, name: &str) -> &'a HeaderValue {
    let mut lines = sent.headers().get_all(name).iter();
    let first = lines.next().unwrap();
    assert!(lines.next().is_none(), "one line of {name}");
    first
}

/// The key of each send.
fn keys(peer: &Scripted) -> Vec<HeaderValue> {
    peer.requests().iter().map(|sent| header(sent, "idempotency-key").clone()).collect()
}

fn assert_one_key(peer: &Scripted) -> HeaderValue {
    let keys = keys(peer);
    assert!(keys.iter().all(|key| key.as_bytes() == keys[0].as_bytes()));
    keys[0].clone()
}

fn misuse(ended: &Ended) -> &Misuse {
    match ended.error().safe_retry() {
        Some(RetryError::Misused(misuse)) => misuse,
        other => panic!("{other:?}"),
    }
}

// ===== one operation, one key =====

/// Byte for byte, whatever made the resend necessary.
#[tokio::test(start_paused = true)]
async fn every_attempt_carries_the_same_key_and_the_same_body_whatever_the_trigger() {
    let triggers = [
        (Step::status(503), 3),
        (Step::status(500), 3),
        (Step::status(429).with_header("retry-after", "1"), 3),
        (Step::status(408), 3),
        (Step::status(425), 2), // RFC 8470 §5.2: one automatic repeat
        (Step::status(409), 3),
        (Step::fails(), 3),
        (Step::refused(), 3),
        (Step::times_out(), 3),
        (Step::hangs(), 3),
        (Step::status(201).with_cut_body("begin"), 3),
    ];
    type Supply = fn(RequestBuilder) -> RequestBuilder;
    let supplies: [(Supply, Option<&str>); 3] = [
        (|request| request, None),
        (|request| request.with_extension(key("order-2041")), Some("order-2041")),
        (|request| request.header("idempotency-key", "order-2042"), Some("order-2042")),
    ];
    for (trigger, attempts) in triggers {
        for (supply, given) in supplies {
            let peer = Scripted::new([trigger.clone(), trigger.clone(), Step::status(201)]);
            let client = client(steady(), &peer);
            let ended = end(supply(post(&client, payment().with_attempt_limit(seconds(1)).reading_body(1024)))).await;
            assert!(ended.result.is_ok());
            assert_eq!(peer.sends(), attempts, "{trigger:?}");
            let sent = assert_one_key(&peer);
            assert!(given.is_none_or(|given| sent == given));
            assert!(peer.requests().iter().filter(|sent| sent.is_complete()).all(|sent| sent.body() == b"one coffee"));
        }
    }
}

#[tokio::test(start_paused = true)]
async fn operations_never_share_a_key() {
    const OPERATIONS: usize = 300;
    let peer = Scripted::new(std::iter::repeat_n(Step::status(503), OPERATIONS).chain([Step::status(201)]));
    let client = client(steady(), &peer);
    let answers = join_all((0..OPERATIONS).map(|order| {
        let request = client.post(URL).body(order.to_string()).with_extension(payment());
        request.send()
    }));
    assert!(answers.await.into_iter().all(|answer| answer.unwrap().status() == 201));
    peer.assert_sends(2 * OPERATIONS);
    let sent: HashSet<_> =
        peer.requests().iter().map(|sent| (sent.body().to_vec(), header(sent, "idempotency-key").as_bytes().to_vec())).collect();
    let keys: HashSet<_> = sent.iter().map(|(_, key)| key).collect();
    assert_eq!((sent.len(), keys.len()), (OPERATIONS, OPERATIONS), "a key for each operation, and no operation with two");
}

#[tokio::test(start_paused = true)]
async fn a_made_key_is_spelled_as_the_contract_says_and_is_marked_as_a_secret() {
    for (contract, quote) in [(KeyContract::STRIPE, ""), (KeyContract::ietf(DAY), "\"")] {
        let peer = Scripted::answering(201);
        end(post(&client(steady(), &peer), Endpoint::keyed_write(contract))).await.result.unwrap();
        let sent = assert_one_key(&peer);
        let text = sent.to_str().unwrap();
        assert!(text.starts_with(quote) && text.ends_with(quote) && text.len() == 36 + 2 * quote.len(), "a UUID");
        assert!(sent.is_sensitive());
    }
}

// ===== the caller's key =====

#[tokio::test(start_paused = true)]
async fn a_key_from_the_caller_is_never_replaced_and_its_header_is_sent_as_it_was_written() {
    let quoted = || Endpoint::keyed_write(KeyContract::ietf(DAY));
    for (endpoint, given, written, wanted) in [
        (payment(), Some("order-2041"), None, "order-2041"),
        (payment(), None, Some("order-2041"), "order-2041"),
        (payment(), Some("order-2041"), Some("order-2041"), "order-2041"),
        (quoted(), Some("order-2041"), None, "\"order-2041\""),
        (quoted(), None, Some("\"order-2041\"; v=1"), "\"order-2041\"; v=1"),
        (quoted(), Some("order-2041"), Some("\"order-2041\""), "\"order-2041\""),
    ] {
        let peer = Scripted::new([Step::fails(), Step::status(201)]);
        let mut request = post(&client(steady(), &peer), endpoint);
        if let Some(given) = given {
            request = request.with_extension(key(given));
        }
        if let Some(written) = written {
            request = request.header("idempotency-key", written);
        }
        let ended = end(request).await;
        assert_eq!(ended.status(), 201);
        assert!(ended.report.key_was_sent());
        assert_eq!(assert_one_key(&peer), wanted);
        peer.assert_sends(2);
    }
}

#[tokio::test(start_paused = true)]
async fn where_the_caller_must_bring_a_key_none_is_made() {
    let must = || Endpoint::keyed_write(KeyContract::STRIPE.with_source(KeySource::CallerMust));
    let peer = Scripted::answering(201);
    let client = client(steady(), &peer);
    assert!(matches!(misuse(&end(post(&client, must())).await), Misuse::MissingKey));
    peer.assert_sends(0);
    assert_eq!(end(post(&client, must()).with_extension(key("order-2041"))).await.status(), 201);
    assert_eq!(end(post(&client, must()).header("idempotency-key", "order-2042")).await.status(), 201);
    peer.assert_sends(2);
}

#[tokio::test(start_paused = true)]
async fn a_malformed_key_is_refused_before_anything_is_sent() {
    let long = "k".repeat(256);
    let malformed: [&[u8]; 7] = [b"", b" ", b"tab\tbed", "schl\u{fc}ssel".as_bytes(), b"\xff", long.as_bytes(), b"a,\x20b"];
    for written in malformed {
        let peer = Scripted::answering(201);
        let request = post(&client(steady(), &peer), payment()).header("idempotency-key", HeaderValue::from_bytes(written).unwrap());
        assert!(matches!(misuse(&end(request).await), Misuse::InvalidKey(_)), "{written:?}");
        peer.assert_sends(0);
    }
    for written in ["order-2041", "'order-2041'", "\"order-2041", "?1", "42", "\"\"", "(\"order-2041\")"] {
        let peer = Scripted::answering(201);
        let request = post(&client(steady(), &peer), Endpoint::keyed_write(KeyContract::ietf(DAY))).header("idempotency-key", written);
        assert!(matches!(misuse(&end(request).await), Misuse::InvalidKey(_)), "{written}");
        peer.assert_sends(0);
    }
}

#[tokio::test(start_paused = true)]
async fn a_request_with_two_keys_is_refused() {
    let peer = Scripted::answering(201);
    let client = client(steady(), &peer);
    for second in ["order-2041", "order-2042"] {
        let twice = post(&client, payment()).header("idempotency-key", "order-2041").header("idempotency-key", second);
        assert!(matches!(misuse(&end(twice).await), Misuse::SeveralKeys));
    }
    let differing = post(&client, payment()).header("idempotency-key", "order-2041").with_extension(key("order-2042"));
    assert!(matches!(misuse(&end(differing).await), Misuse::SeveralKeys));
    peer.assert_sends(0);
}

#[tokio::test(start_paused = true)]
async fn a_key_of_another_length_than_the_contract_allows_is_refused() {
    let contract = || Endpoint::keyed_write(KeyContract::STRIPE.with_length(8..=16));
    for (text, fits) in [("seven77", false), ("eight888", true), ("sixteen-sixteen-", true), ("seventeen-17-17-1", false)] {
        for by_header in [false, true] {
            let peer = Scripted::answering(201);
            let request = post(&client(steady(), &peer), contract());
            let request = if by_header { request.header("idempotency-key", text) } else { request.with_extension(key(text)) };
            let ended = end(request).await;
            assert_eq!(ended.result.is_ok(), fits, "{text}");
            if !fits {
                assert!(matches!(misuse(&ended), Misuse::InvalidKey(_)));
            }
            peer.assert_sends(usize::from(fits));
        }
    }
}

// ===== what the server says about the key =====

#[tokio::test(start_paused = true)]
async fn a_key_in_progress_is_waited_for_and_asked_again_with_the_same_key() {
    let peer = Scripted::new([Step::fails(), Step::status(409), Step::status(409).with_header("retry-after", "2"), Step::status(201)]);
    let retry = hasty().with_policy(RetryPolicy::DEFAULT.with_attempts(4));
    let ended = end(post(&client(retry, &peer), payment())).await;
    assert_eq!(ended.status(), 201);
    assert_one_key(&peer);
    peer.assert_pauses([Duration::ZERO, Duration::ZERO, seconds(2)]);
    let reasons: Vec<_> = ended.report.attempts().iter().filter_map(|attempt| attempt.resend()).collect();
    assert_eq!(reasons, [ResendReason::KeyDeduplicates; 3]);

    let peer = Scripted::answering(409);
    let _ = end(post(&client(steady(), &peer), payment())).await;
    let growing = [millis(500), seconds(1), seconds(2), seconds(4), seconds(8), seconds(10)];
    peer.assert_pauses(growing);
}

/// The lost first copy, one wait for it, and the result: waiting cost no attempt.
#[tokio::test(start_paused = true)]
async fn waiting_for_a_copy_in_progress_costs_no_attempt() {
    let in_use = || Step::status(409);
    for after in [Step::status(201), Step::status(503)] {
        let peer = Scripted::new([Step::fails(), in_use(), in_use(), in_use(), in_use(), Step::status(503), after, Step::status(201)]);
        let ended = end(post(&client(steady(), &peer), payment()).with_extension(Deadline::after(seconds(600)))).await;
        assert_one_key(&peer);
        let tries = ended.report.attempts().iter().filter(|attempt| attempt.signal() != Signal::KeyInUse).count();
        assert_eq!((tries, peer.sends()), (3, 7), "{:?}", ended.report);
    }
}

#[tokio::test(start_paused = true)]
async fn waiting_for_a_copy_in_progress_has_a_number_of_its_own() {
    for (waits, sends) in [(0, 1), (1, 2), (10, 11)] {
        let peer = Scripted::answering(409);
        let policy = RetryPolicy::DEFAULT.with_key_in_use_waits(waits);
        let ended =
            end(post(&client(steady(), &peer), payment()).with_extension(policy).with_extension(Deadline::after(seconds(600)))).await;
        assert_eq!((peer.sends(), ended.report.stop()), (sends, StopReason::AttemptsSpent), "{waits}");
    }
    let peer = Scripted::answering(409);
    let _ = end(post(&client(steady(), &peer), payment()).with_extension(RetryPolicy::DEFAULT.with_attempts(1))).await;
    peer.assert_sends(1);
}

#[tokio::test(start_paused = true)]
async fn a_key_that_stays_in_progress_ends_in_time_and_as_unknown() {
    let peer = Scripted::answering(409);
    let ended = end(post(&client(steady(), &peer), payment())).await;
    assert_eq!(ended.status(), 409);
    assert_eq!((ended.report.stop(), ended.report.outcome()), (StopReason::WindowClosed, Outcome::Unknown));
    assert_eq!(ended.report.key_answer(), Some(KeyAnswer::InUse));
    peer.assert_sends(7);
}

#[tokio::test(start_paused = true)]
async fn a_409_without_a_contract_that_speaks_of_it_is_an_answer() {
    for endpoint in [Endpoint::unprotected_write(), Endpoint::keyed_write(KeyContract::new(http::header::IF_MATCH, KeyFormat::Bare, DAY))] {
        let peer = Scripted::answering(409);
        let ended = end(post(&client(steady(), &peer), endpoint)).await;
        assert_eq!((ended.status(), ended.report.stop(), peer.sends()), (409, StopReason::AnswerIsFinal, 1));
    }
}

#[tokio::test(start_paused = true)]
async fn a_key_for_other_content_is_final_untouched_and_no_reason_for_a_new_key() {
    for (contract, status) in
        [(KeyContract::STRIPE, 400), (KeyContract::ietf(DAY), 422), (KeyContract::STRIPE, 422), (KeyContract::ietf(DAY), 400)]
    {
        let mismatch = contract.mismatch().is_some_and(|mismatch| mismatch == status);
        let peer = Scripted::new([Step::status(status).with_body("key reused").with_header("x-request", "1")]);
        let ended = end(post(&client(steady(), &peer), Endpoint::keyed_write(contract))).await;
        assert!(ended.report.key_was_sent());
        assert_eq!(ended.report.key_answer(), mismatch.then_some(KeyAnswer::Mismatch));
        assert_eq!((ended.report.stop(), ended.report.outcome()), (StopReason::AnswerIsFinal, Outcome::Answered));
        assert_eq!(ended.response().headers()["x-request"], "1");
        assert_eq!(ended.result.unwrap().text().await.unwrap(), "key reused");
        peer.assert_sends(1);
    }
}

/// A saved 500 comes back the same however often it is asked for.
#[tokio::test(start_paused = true)]
async fn a_replayed_answer_is_final_whatever_its_status() {
    for status in [201, 402, 409, 429, 500, 503] {
        let peer = Scripted::new([Step::fails(), Step::status(status).with_header("idempotent-replayed", "true")]);
        let ended = end(post(&client(steady(), &peer), payment())).await;
        assert_eq!(ended.status(), status);
        let report = RetryReport::of(ended.response()).unwrap();
        assert!(report.replayed());
        assert_eq!((report.stop(), report.attempts().len()), (StopReason::AnswerIsFinal, 2), "{status}");
    }
    let peer = Scripted::new([Step::status(500).with_header("idempotent-replayed", "false"), Step::status(201)]);
    let ended = end(post(&client(steady(), &peer), payment())).await;
    assert!(ended.status() == 201 && !ended.report.replayed());
}

/// A server that replays failures and marks none answers alike for ever. The second answer settles
/// it; what a gateway answers settles nothing, nor does another failure.
#[tokio::test(start_paused = true)]
async fn a_failure_that_comes_back_alike_is_the_saved_result_where_failures_are_saved() {
    let replaying = KeyContract::ietf(DAY);
    let rows: [(&str, KeyContract, &[u16], u16, usize); 7] = [
        ("saved", replaying.clone(), &[500, 500, 201], 500, 2),
        ("another failure between", replaying.clone(), &[500, 503, 500], 500, 3),
        ("a gateway", replaying.clone(), &[503, 503, 201], 201, 3),
        ("a limiter", replaying.clone(), &[429, 429, 201], 201, 3),
        ("it would be marked", KeyContract::STRIPE, &[500, 500, 201], 201, 3),
        ("failures run again", replaying.clone().with_replays(Replays::Settled), &[500, 500, 201], 201, 3),
        ("nobody says", replaying.with_replays(Replays::Unstated), &[500, 500, 201], 201, 3),
    ];
    for (case, contract, statuses, status, sends) in rows {
        let peer = Scripted::new(statuses.iter().map(|status| Step::status(*status)));
        let ended = end(post(&client(steady(), &peer), Endpoint::keyed_write(contract))).await;
        assert_eq!((ended.status(), peer.requests().len()), (status, sends), "{case}");
        assert_eq!(ended.report.replayed(), case == "saved", "{case}");
    }
}

/// No classifier can make a replay resendable.
#[tokio::test(start_paused = true)]
async fn a_replay_marker_speaks_before_the_endpoints_own_verdict() {
    let peer = Scripted::new([Step::status(500).with_header("idempotent-replayed", "true")]);
    let eager = payment().classified_by(|_| Some(Verdict::Resendable));
    assert_eq!(end(post(&client(steady(), &peer), eager)).await.report.stop(), StopReason::AnswerIsFinal);
    peer.assert_sends(1);
}

// ===== the key afterwards =====

#[tokio::test(start_paused = true)]
async fn a_key_made_for_an_operation_is_in_its_report_whatever_the_result() {
    for step in [Step::status(201), Step::status(402), Step::status(503), Step::fails(), Step::refused()] {
        let peer = Scripted::new([step.clone()]);
        let ended = end(post(&client(steady(), &peer), payment())).await;
        let made = ended.report.key().unwrap();
        assert_eq!(made.as_str(), assert_one_key(&peer), "{step:?}");
        if let Err(error) = &ended.result {
            let told = error.safe_retry().unwrap().key();
            assert_eq!((Some(made), made.first_use()), (told, told.unwrap().first_use()), "{step:?}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_later_send_with_the_key_of_the_report_is_the_same_operation_and_as_old_as_it_is() {
    let peer = Scripted::new([Step::status(201)]);
    let client = client(steady(), &peer);
    let before = SystemTime::now();
    let first = end(post(&client, payment())).await.report.key().unwrap().clone();
    assert!((before..=SystemTime::now()).contains(&first.first_use().unwrap()), "the server has processed it");

    let again = end(post(&client, payment()).with_extension(first.clone())).await.report;
    assert_eq!(again.key().map(|key| (key, key.first_use())), Some((&first, first.first_use())));
    peer.assert_sends(2);
    assert_one_key(&peer);
}

#[tokio::test(start_paused = true)]
async fn a_report_has_the_callers_key_and_none_where_none_was_sent() {
    let given = key("order-2041");
    let refused = || Scripted::new([Step::refused()]);
    let ended = end(post(&client(steady(), &refused()), payment()).with_extension(given.clone())).await;
    assert_eq!(ended.report.key().map(|key| (key, key.first_use())), Some((&given, None)), "as good as new");
    let unkeyed = end(post(&client(steady(), &refused()), Endpoint::idempotent_write())).await.report;
    let misused = end(post(&client(steady(), &refused()), Endpoint::idempotent_write()).with_extension(given)).await.report;
    for report in [unkeyed, misused] {
        assert!(report.key().is_none() && !report.key_was_sent());
    }
}

#[tokio::test(start_paused = true)]
async fn a_report_prints_no_key() {
    let ended = end(post(&client(steady(), &Scripted::answering(201)), payment()).with_extension(key("order-2041"))).await;
    let mut printed = format!("{:?}\n{:#?}\n{}", ended.report, ended.report, ended.report);
    #[cfg(feature = "serde")]
    printed.push_str(&serde_json::to_string(&ended.report).unwrap());
    assert!(printed.contains("IdempotencyKey(..)") && !printed.contains("2041"), "{printed}");
}

// ===== how long the server remembers =====

#[tokio::test(start_paused = true)]
async fn a_resend_that_would_arrive_after_the_key_is_forgotten_is_not_sent() {
    let short = |lifetime| Endpoint::keyed_write(KeyContract::new(KeyContract::STRIPE.header().clone(), KeyFormat::Bare, lifetime));
    for (hint, sends) in [("4", 2), ("5", 1), ("600", 1)] {
        let peer = Scripted::new([Step::status(503).with_header("retry-after", hint), Step::status(201)]);
        let retry = hasty().with_policy(RetryPolicy::DEFAULT.with_window(DAY));
        let ended = end(post(&client(retry, &peer), short(seconds(5)))).await;
        assert_eq!(peer.sends(), sends, "{hint}");
        if sends == 1 {
            assert_eq!((ended.status(), ended.took), (503, Duration::ZERO));
            assert_eq!((ended.report.stop(), ended.report.outcome()), (StopReason::KeyExpired, Outcome::Unknown));
        }
    }
    let peer = Scripted::new([Step::fails().after(seconds(5)), Step::status(201)]);
    let ended = end(post(&client(steady(), &peer), short(seconds(5)))).await;
    assert!(matches!(ended.error().safe_retry(), Some(RetryError::OutcomeUnknown(_))));
    assert_eq!(ended.report.stop(), StopReason::KeyExpired);
    peer.assert_sends(1);
}

/// What never arrived needs no memory.
#[tokio::test(start_paused = true)]
async fn a_forgotten_key_does_not_stop_what_was_never_processed() {
    let peer = Scripted::new([Step::refused().after(seconds(6)), Step::status(201)]);
    let contract = KeyContract::new(KeyContract::STRIPE.header().clone(), KeyFormat::Bare, seconds(5));
    let ended = end(post(&client(steady(), &peer), Endpoint::keyed_write(contract))).await;
    assert_eq!((ended.status(), ended.report.attempts()[0].resend()), (201, Some(ResendReason::ProvenUnprocessed)));
}

#[tokio::test(start_paused = true)]
async fn a_key_of_an_earlier_process_is_as_old_as_it_says() {
    let ago = |age| key("order-2041").first_used(SystemTime::now().checked_sub(age).unwrap());
    let request = |peer: &Scripted, age| post(&client(hasty(), peer), payment()).with_extension(ago(age));

    let peer = Scripted::new([Step::status(503).with_header("retry-after", "20"), Step::status(201)]);
    let ended = end(request(&peer, DAY - seconds(10))).await;
    assert_eq!((ended.status(), ended.report.stop()), (503, StopReason::KeyExpired));

    let peer = Scripted::new([Step::status(503).with_header("retry-after", "20"), Step::status(201)]);
    assert_eq!(end(request(&peer, DAY - seconds(100))).await.status(), 201);

    let peer = Scripted::answering(201);
    assert!(matches!(misuse(&end(request(&peer, DAY)).await), Misuse::KeyExpired));
    peer.assert_sends(0);
}

#[tokio::test(start_paused = true)]
async fn a_key_that_lapses_in_the_cool_down_before_the_first_attempt_is_not_sent() {
    for (age, sends) in [(DAY - seconds(20), 1), (DAY - seconds(5), 0)] {
        let peer = Scripted::answering(201);
        let cooldown = Cooldown::new().holding_back(HoldsBack::FirstSendsToo);
        cooldown.note(cooldown.scope(&Request::new(Method::POST, URL.parse().unwrap())), Instant::now() + seconds(10));
        let old = key("order-2041").first_used(SystemTime::now() - age);
        let ended = end(post(&client(hasty().with_shared_cooldown(cooldown), &peer), payment()).with_extension(old)).await;
        peer.assert_sends(sends);
        if sends == 0 {
            assert!(matches!(misuse(&ended), Misuse::KeyExpired));
            assert_eq!(ended.report.outcome(), Outcome::Unknown, "what it did before is as unknown as it was");
        }
    }
}

/// The earlier process may have succeeded.
#[tokio::test(start_paused = true)]
async fn a_key_of_an_earlier_process_leaves_its_result_unknown_until_an_answer_settles_it() {
    let used = || key("order-2041").first_used(SystemTime::now());
    let peer = Scripted::new([Step::refused()]);
    let ended = end(post(&client(steady(), &peer), payment()).with_extension(used())).await;
    assert!(matches!(ended.error().safe_retry(), Some(RetryError::OutcomeUnknown(_))));
    let peer = Scripted::answering(404);
    let ended = end(post(&client(steady(), &peer), payment()).with_extension(used())).await;
    assert_eq!(ended.report.outcome(), Outcome::AnsweredAfterUnknown);
}

/// The header alone does not know when it was first used; the extension beside it does.
#[tokio::test(start_paused = true)]
async fn an_extension_tells_the_age_of_a_key_in_the_header() {
    let peer = Scripted::answering(201);
    let old = key("order-2041").first_used(SystemTime::now() - DAY);
    let request = post(&client(steady(), &peer), payment()).header("idempotency-key", "order-2041").with_extension(old);
    let ended = end(request).await;
    assert!(matches!(misuse(&ended), Misuse::KeyExpired));
    let known = (ended.report.outcome(), ended.report.evidence(), ended.error().evidence());
    assert_eq!(known, (Outcome::Unknown, Evidence::Unknown, Evidence::Unknown), "it was sent before");
}

// ===== companion header =====

#[tokio::test(start_paused = true)]
async fn the_time_of_the_first_send_is_the_same_on_every_attempt() {
    let endpoint = || Endpoint::keyed_write(presets::oasis(DAY));
    let peer = Scripted::new([Step::fails(), Step::status(500), Step::status(201)]);
    let _ = end(post(&client(steady(), &peer), endpoint())).await;
    let sent = peer.requests();
    assert_eq!(sent.len(), 3);
    let first = header(&sent[0], "repeatability-first-sent").clone();
    assert!(httpdate::parse_http_date(first.to_str().unwrap()).is_ok());
    assert!(sent.iter().all(|sent| header(sent, "repeatability-first-sent") == first));
    let id = header(&sent[0], "repeatability-request-id").clone();
    assert!(sent.iter().all(|sent| header(sent, "repeatability-request-id") == id));

    let first_used = SystemTime::now() - seconds(60);
    let peer = Scripted::answering(201);
    let _ = end(post(&client(steady(), &peer), endpoint()).with_extension(IdempotencyKey::random().first_used(first_used))).await;
    assert_eq!(header(&peer.requests()[0], "repeatability-first-sent"), &httpdate::fmt_http_date(first_used));
}

// ===== who sees the key =====

/// A signer inside sees final headers on every attempt, and nothing of what it adds outlives
/// the attempt.
#[tokio::test(start_paused = true)]
async fn a_signer_runs_once_per_attempt_and_sees_the_key() {
    #[derive(Clone, Default)]
    struct Signer(Arc<Mutex<Vec<Option<HeaderValue>>>>);
    #[async_trait::async_trait]
    impl Middleware for Signer {
        async fn handle(&self, mut request: Request, extensions: &mut Extensions, next: Next<'_>) -> Result<Response> {
            self.0.lock().unwrap().push(request.headers().get("idempotency-key").cloned());
            let nonce = HeaderValue::from(self.0.lock().unwrap().len());
            request.headers_mut().append("x-nonce", nonce);
            next.run(request, extensions).await
        }
    }
    let (signer, peer) = (Signer::default(), Scripted::new([Step::fails(), Step::status(503), Step::status(201)]));
    let client = builder().with(steady()).with(signer.clone()).with(SendWitness::redirects_off()).with(peer.clone()).build();
    let _ = end(post(&client, payment())).await;
    let key = assert_one_key(&peer);
    assert_eq!(*signer.0.lock().unwrap(), vec![Some(key); 3]);
    let nonces: Vec<_> = peer.requests().iter().map(|sent| header(sent, "x-nonce").clone()).collect();
    assert_eq!(nonces, ["1", "2", "3"]);
}

/// What goes out again was captured at the top.
#[tokio::test(start_paused = true)]
async fn an_inner_middleware_that_rewrites_an_attempt_changes_neither_key_nor_body_of_the_next() {
    struct Rewrites;
    #[async_trait::async_trait]
    impl Middleware for Rewrites {
        async fn handle(&self, mut request: Request, extensions: &mut Extensions, next: Next<'_>) -> Result<Response> {
            let body = request.body().and_then(reqwest::Body::as_bytes).unwrap_or_default();
            *request.body_mut() = Some([body, b" at 10:14"].concat().into());
            request.headers_mut().insert("content-length", HeaderValue::from(19));
            next.run(request, extensions).await
        }
    }
    let peer = Scripted::new([Step::fails(), Step::status(503), Step::status(201)]);
    let client = builder().with(steady()).with(Rewrites).with(SendWitness::redirects_off()).with(peer.clone()).build();
    let _ = end(post(&client, payment())).await;
    assert_one_key(&peer);
    assert!(peer.requests().iter().all(|sent| sent.body() == b"one coffee at 10:14"));
}

#[tokio::test(start_paused = true)]
async fn a_factory_of_requests_changes_no_key() {
    let transport = reqwest::Client::new();
    let made = ReplayRequest::from_fn(move || transport.post(URL).header("idempotency-key", "another").body("one coffee").build());
    let peer = Scripted::new([Step::fails(), Step::status(201)]);
    let ended =
        end(client(steady(), &peer).post(URL).with_extension(payment()).with_extension(key("order-2041")).with_extension(made)).await;
    assert_eq!(ended.status(), 201);
    assert_eq!(assert_one_key(&peer), "order-2041");
    peer.assert_writes(2);
}

// ===== reuse =====

#[tokio::test(start_paused = true)]
async fn a_guarded_key_that_comes_back_with_other_content_is_refused_while_it_is_remembered() {
    let contract = || KeyContract::STRIPE.with_reuse_guard();
    let peer = Scripted::answering(201);
    let client = client(steady(), &peer);
    let send = |url: &'static str, body: &'static str, contract: KeyContract| {
        end(client.post(url).body(body).with_extension(Endpoint::keyed_write(contract)).with_extension(key("order-2041")))
    };
    assert_eq!(send(URL, "one coffee", contract()).await.status(), 201);
    assert_eq!(send(URL, "one coffee", contract()).await.status(), 201, "the same content may come back");
    assert!(matches!(misuse(&send(URL, "two coffees", contract()).await), Misuse::KeyReused));
    assert!(matches!(misuse(&send("http://peer.test/refunds", "one coffee", contract()).await), Misuse::KeyReused));
    let per_endpoint = contract().with_uniqueness(UniqueWithin::Endpoint);
    assert_eq!(send("http://peer.test/refunds", "one coffee", per_endpoint).await.status(), 201);
    assert_eq!(send("http://other.test/orders", "two coffees", contract()).await.status(), 201, "another account");
    assert_eq!(send(URL, "two coffees", KeyContract::STRIPE).await.status(), 201, "nobody asked for the guard");
    peer.assert_sends(5);
    sleep(LATER).await;
    assert_eq!(send(URL, "two coffees", contract()).await.status(), 201, "forgotten");
}

fn guarded() -> Endpoint {
    Endpoint::keyed_write(KeyContract::STRIPE.with_reuse_guard())
}

#[tokio::test(start_paused = true)]
async fn a_guarded_key_that_never_left_may_be_sent_with_other_content() {
    type Row = (&'static str, fn(RequestBuilder) -> RequestBuilder, Vec<Step>);
    let never_left: [Row; 4] = [
        ("refused", |request| request, vec![Step::refused(); 3]),
        ("no time", |request| request.with_extension(Deadline::after(Duration::ZERO)), vec![]),
        ("cooling down", |request| request.with_extension(Deadline::after(seconds(5))), vec![]),
        ("a factory that fails", |request| request.with_extension(ReplayRequest::from_fn(|| Err("no file"))), vec![]),
    ];
    for (what, with, mut steps) in never_left {
        steps.push(Step::status(201));
        let cooldown = Cooldown::new().holding_back(HoldsBack::FirstSendsToo);
        if what == "cooling down" {
            steps.insert(0, Step::status(429).with_header("retry-after", "60"));
        }
        let peer = Scripted::new(steps);
        let client = client(hasty().with_shared_cooldown(cooldown), &peer);
        let order = || client.post(URL).with_extension(guarded()).with_extension(key("order-2041"));
        if what == "cooling down" {
            assert_eq!(end(client.get(URL).with_extension(Deadline::after(seconds(5)))).await.status(), 429);
        }
        let first = if what == "a factory that fails" { order() } else { order().body("one coffee") };
        assert!(end(with(first)).await.result.is_err(), "{what}");
        sleep(seconds(61)).await;
        assert_eq!(end(order().body("two coffees")).await.status(), 201, "{what}");
        assert!(matches!(misuse(&end(order().body("three coffees")).await), Misuse::KeyReused), "{what}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_made_key_is_guarded_once_an_error_has_handed_it_out() {
    let peer = Scripted::new([Step::fails(), Step::fails(), Step::fails(), Step::status(201)]);
    let client = client(hasty(), &peer);
    let lost = end(post(&client, guarded())).await;
    let handed_out = lost.error().safe_retry().and_then(RetryError::key).unwrap().clone();
    let again = |body: &'static str| client.post(URL).body(body).with_extension(guarded()).with_extension(handed_out.clone());
    assert!(matches!(misuse(&end(again("two coffees")).await), Misuse::KeyReused));
    assert_eq!(end(again("one coffee")).await.status(), 201);
    peer.assert_writes(4);
}

#[tokio::test(start_paused = true)]
async fn tenants_may_use_one_guarded_key_each() {
    let peer = Scripted::answering(201);
    let by_tenant = steady().with_key_accounts(|request| ScopeKey::of(&request.headers().get("authorization")));
    let client = client(by_tenant, &peer);
    let send = |tenant: &'static str, body: &'static str| {
        end(client.post(URL).bearer_auth(tenant).body(body).with_extension(guarded()).with_extension(key("order-1")))
    };
    assert_eq!(send("one", "one coffee").await.status(), 201);
    assert_eq!(send("other", "two coffees").await.status(), 201);
    assert!(matches!(misuse(&send("one", "two coffees").await), Misuse::KeyReused));
    peer.assert_writes(2);
}

#[tokio::test(start_paused = true)]
async fn a_factory_s_other_content_does_not_go_out_under_a_guarded_key() {
    for given in [None, Some(key("order-2041"))] {
        let peer = Scripted::new([Step::fails(), Step::status(201)]);
        let made = AtomicUsize::new(0);
        let counting = ReplayBody::from_fn(move || Ok(format!("coffee number {}", made.fetch_add(1, Ordering::Relaxed)).into()));
        let request = client(steady(), &peer).post(URL).with_extension(guarded()).with_extension(counting);
        let ended = end(match given {
            Some(key) => request.with_extension(key),
            None => request,
        });
        let ended = ended.await;
        assert!(matches!(ended.error().safe_retry(), Some(RetryError::OutcomeUnknown(_))));
        assert_eq!(ended.report.stop(), StopReason::BodyConsumed);
        assert!(ended.error().to_string().contains("other content"), "{}", ended.error());
        peer.assert_writes(1);
    }
}

#[tokio::test(start_paused = true)]
async fn a_400_leaves_a_guarded_key_taken() {
    let peer = Scripted::answering(400);
    let client = client(steady(), &peer);
    let send = |body: &'static str| end(client.post(URL).body(body).with_extension(guarded()).with_extension(key("order-2041")));
    assert_eq!(send("one cofee").await.status(), 400);
    assert!(matches!(misuse(&send("one coffee").await), Misuse::KeyReused));
    peer.assert_writes(1);
}

#[tokio::test(start_paused = true)]
async fn the_guard_does_not_mistake_resends_for_reuse() {
    let peer = Scripted::new([Step::fails(), Step::status(503), Step::status(201)]);
    let ended = end(post(&client(steady(), &peer), Endpoint::keyed_write(KeyContract::STRIPE.with_reuse_guard()))).await;
    assert_eq!(ended.status(), 201);
    assert_eq!(ended.report.attempts()[0].cause(), Cause::PeerClosed);
}
