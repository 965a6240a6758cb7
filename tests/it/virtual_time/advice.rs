//! What is noticed about the program itself stands in the report, and only where it is true.

use reqwest_safe_retry::{
    Advice, Deadline, Endpoint, KeyContract, ReplayBody, SafeRetry,
    testing::{Scripted, Step},
};

use crate::support::scripted::{Ended, Says, ScriptedProbe, URL, client, end, hasty, seconds};

fn stream() -> reqwest::Body {
    reqwest::Body::wrap_stream(futures_util::stream::iter([Ok::<_, std::io::Error>("one coffee")]))
}

async fn put(retry: SafeRetry, endpoint: Option<Endpoint>, peer: &Scripted) -> Ended {
    let request = client(retry, peer).put(URL).body("one coffee");
    end(match endpoint {
        Some(endpoint) => request.with_extension(endpoint),
        None => request,
    })
    .await
}

#[tokio::test(start_paused = true)]
async fn a_stream_that_kept_a_resend_from_being_sent_is_named_with_the_way_out() {
    let peer = Scripted::new([Step::fails(), Step::fails(), Step::ok("done")]);
    let client = client(hasty(), &peer);
    let untold = end(client.put(URL).body(stream())).await;
    assert_eq!(untold.report.advice(), [Advice::StreamWithoutFactory]);
    assert!(matches!(untold.error(), reqwest_middleware::Error::Reqwest(_)), "nothing marks it, so its error is its own");

    let marked = end(client.put(URL).body(stream()).with_extension(Endpoint::idempotent_write())).await;
    assert_eq!(marked.report.advice(), [Advice::StreamWithoutFactory]);
    assert!(marked.error().to_string().ends_with("the body cannot be sent twice)"), "{}", marked.error());
}

#[tokio::test(start_paused = true)]
async fn a_stream_is_not_blamed_for_what_it_did_not_keep_back() {
    let answered = end(client(hasty(), &Scripted::answering(200)).put(URL).body(stream())).await;
    assert!(answered.report.advice().is_empty());
    let unprotected = end(client(hasty(), &Scripted::new([Step::fails()])).post(URL).body(stream())).await;
    assert!(unprotected.report.advice().is_empty());
    let peer = Scripted::new([Step::fails(), Step::ok("done")]);
    let replayed = end(client(hasty(), &peer).put(URL).with_extension(ReplayBody::from_fn(|| Ok(stream())))).await;
    assert!(replayed.report.advice().is_empty());
    peer.assert_sends(2);
}

#[tokio::test(start_paused = true)]
async fn limits_that_leave_no_time_for_a_resend_are_named_where_one_could_follow() {
    let keyed = || Endpoint::keyed_write(KeyContract::STRIPE);
    let limited = |deadline, attempt| hasty().with_deadline(seconds(deadline)).with_attempt_limit(seconds(attempt));
    let too_short: &[Advice] = &[Advice::DeadlineWithinAttempt];
    let cases = [
        (limited(5, 5), None, too_short),
        (limited(5, 6), Some(keyed()), too_short),
        (limited(6, 5), Some(keyed()), &[]),
        (limited(6, 5), Some(keyed().with_deadline(seconds(2))), too_short),
        (limited(5, 6), Some(keyed().with_attempt_limit(std::time::Duration::MAX)), &[]),
        (hasty().with_deadline(seconds(5)), Some(keyed()), &[]),
        (hasty().with_attempt_limit(seconds(5)), Some(keyed()), &[]),
        (limited(5, 5), Some(Endpoint::unprotected_write()), &[]),
        (limited(5, 5), Some(Endpoint::never_resend()), &[]),
    ];
    for (number, (retry, endpoint, advice)) in cases.into_iter().enumerate() {
        let ended = put(retry, endpoint, &Scripted::answering(200)).await;
        assert_eq!(ended.report.advice(), advice, "case {number}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_deadline_before_the_settling_time_is_named() {
    let probed = || Endpoint::probed_write(ScriptedProbe::new([Says::Absent])).settling(seconds(5));
    for (deadline, advice) in [(5, &[Advice::DeadlineWithinSettling][..]), (30, &[])] {
        let ended = put(hasty(), Some(probed().with_deadline(seconds(deadline))), &Scripted::answering(200)).await;
        assert_eq!(ended.report.advice(), advice, "{deadline} s");
    }
}

#[tokio::test(start_paused = true)]
async fn a_deadline_that_a_request_brings_is_not_judged() {
    let peer = Scripted::answering(200);
    let client = client(hasty().with_attempt_limit(seconds(5)), &peer);
    let ended = end(client.get(URL).with_extension(Deadline::after(seconds(1)))).await;
    assert!(ended.report.advice().is_empty());
    let ended = Deadline::after(seconds(1)).scope(end(client.get(URL))).await;
    assert!(ended.report.advice().is_empty());
}

#[tokio::test(start_paused = true)]
async fn advice_that_is_silenced_stands_in_no_report() {
    let peer = Scripted::new([Step::fails()]);
    let retry = hasty().without_advice(Advice::StreamWithoutFactory);
    let ended = end(client(retry, &peer).put(URL).body(stream())).await;
    assert!(ended.report.advice().is_empty());
}

/// A key in any field that a preset names is seen, whoever wrote it.
#[tokio::test(start_paused = true)]
async fn a_key_that_nothing_speaks_of_is_named_in_the_field_of_every_preset() {
    let presets = include_str!("../../../src/contract/presets.rs");
    let named = presets.split("KeyContract::new(HeaderName::from_static(\"").skip(1).filter_map(|rest| rest.split('"').next());
    let mut fields: Vec<&str> = named.chain(["idempotency-key"]).collect();
    fields.sort_unstable();
    fields.dedup();
    assert_eq!(fields, ["cko-idempotency-key", "idempotency-key", "paypal-request-id", "repeatability-request-id"]);
    for field in fields {
        let peer = Scripted::answering(200);
        let ended = end(client(hasty(), &peer).post(URL).header(field, "order-2041").body("one coffee")).await;
        assert_eq!(ended.report.advice(), [Advice::KeyWithoutContract], "{field}");
    }
}
