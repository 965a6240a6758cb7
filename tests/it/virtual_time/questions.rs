//! The question about a write is the right one, fresh and harmless, and counts by when it was
//! asked.

use std::time::Duration;

use reqwest_middleware::ClientBuilder;
use reqwest_safe_retry::{
    Cooldown, Endpoint, Operation, Outcome, ProbeVerdict, ReportSlot, RetryPolicy, RetryReport, SafeRetry, ScopeKey, StatusProbe,
    StatusUrl, StopReason,
    policy::Draw,
    report::Found,
    testing::{Draws, Recorded, Scripted, Step},
};

use crate::support::scripted::seconds;

const ORDER: &str = "https://api.test/orders/1/shipment";

fn shipment() -> StatusUrl {
    StatusUrl::by_path("/orders/{order}/shipment", "/orders/{order}/shipment").unwrap()
}

/// A POST whose first answer is lost, and the answers after it.
async fn lost_then(
    retry: SafeRetry,
    url: &str,
    endpoint: Endpoint,
    headers: &[(&str, &str)],
    steps: Vec<Step>,
) -> (RetryReport, Vec<Recorded>) {
    let scripted = Scripted::new([vec![Step::fails()], steps].concat());
    let slot = ReportSlot::new();
    let retry = retry.with_draws(Draws::constant(Draw::LEAST));
    let client = ClientBuilder::new(reqwest::Client::new()).with(retry).with(scripted.clone()).build();
    let request = headers.iter().fold(client.post(url).body("{}"), |request, (name, value)| request.header(*name, *value));
    let _answer = request.with_extension(endpoint).with_extension(slot.clone()).send().await;
    (slot.take().unwrap(), scripted.requests())
}

fn at_once() -> Endpoint {
    Endpoint::probed_write(shipment()).settling(Duration::ZERO).with_deadline(seconds(60))
}

fn methods(sent: &[Recorded]) -> Vec<&str> {
    sent.iter().map(|sent| sent.method().as_str()).collect()
}

/// Absent, said slowly.
struct Slow;

#[async_trait::async_trait]
impl StatusProbe for Slow {
    async fn look_up(&self, _: &Operation<'_>) -> ProbeVerdict {
        tokio::time::sleep(seconds(6)).await;
        ProbeVerdict::Absent
    }
}

#[tokio::test(start_paused = true)]
async fn an_absence_that_was_asked_about_too_early_does_not_count_however_late_it_comes() {
    for attempts in [1, 2] {
        let policy = RetryPolicy::DEFAULT.with_attempts(attempts);
        let endpoint = Endpoint::probed_write(Slow).settling(seconds(5)).with_deadline(seconds(8)).with_policy(policy);
        let (report, sent) = lost_then(SafeRetry::new(), ORDER, endpoint, &[], vec![]).await;
        assert_eq!((report.outcome(), sent.len()), (Outcome::Unknown, 1), "{attempts} attempts");
    }
}

#[tokio::test(start_paused = true)]
async fn the_question_carries_the_query_of_the_operation() {
    let url = format!("{ORDER}?tenant=t2");
    let (_, sent) = lost_then(SafeRetry::new(), &url, at_once(), &[], vec![Step::status(200)]).await;
    assert_eq!(sent[1].query(), Some("tenant=t2"));

    let named = StatusUrl::by_path("/orders/{order}/shipment", "/orders/{order}/shipment?full=1&{query}").unwrap();
    let endpoint = Endpoint::probed_write(named).settling(Duration::ZERO).with_deadline(seconds(60));
    let (_, sent) = lost_then(SafeRetry::new(), &url, endpoint, &[], vec![Step::status(200)]).await;
    assert_eq!(sent[1].query(), Some("full=1&tenant=t2"));
}

#[tokio::test(start_paused = true)]
async fn an_absence_says_nothing_where_the_question_left_the_query_out() {
    let left_out = StatusUrl::by_path("/orders/{order}/shipment", "/orders/{order}/shipment?full=1").unwrap();
    let endpoint = Endpoint::probed_write(left_out).settling(Duration::ZERO).with_deadline(seconds(60));
    let (report, sent) = lost_then(SafeRetry::new(), &format!("{ORDER}?tenant=t2"), endpoint, &[], vec![Step::status(404)]).await;
    assert_eq!((report.stop(), methods(&sent)), (StopReason::ProbeUndecided, vec!["POST", "GET"]));
}

#[tokio::test(start_paused = true)]
async fn an_answer_from_before_the_write_proves_nothing() {
    for (status, found) in [(404, Found::InProgress), (410, Found::InProgress), (200, Found::InProgress)] {
        let old = Step::status(status).with_header("age", "20");
        let policy = RetryPolicy::DEFAULT.with_attempts(1);
        let (report, sent) = lost_then(SafeRetry::new(), ORDER, at_once().with_policy(policy), &[], vec![old]).await;
        assert_eq!((report.probes()[0].found(), report.outcome()), (found, Outcome::Unknown), "{status}");
        assert_eq!(methods(&sent), ["POST", "GET"]);
    }
    let fresh = vec![Step::status(404).with_header("age", "20"), Step::status(404), Step::status(201)];
    let (report, sent) = lost_then(SafeRetry::new(), ORDER, at_once(), &[], fresh).await;
    assert_eq!((report.outcome(), methods(&sent)), (Outcome::Answered, vec!["POST", "GET", "GET", "POST"]), "it is asked again");
}

#[tokio::test(start_paused = true)]
async fn the_question_carries_what_identifies_the_caller_and_nothing_that_acts() {
    let headers = [
        ("authorization", "Bearer token"),
        ("x-tenant", "9"),
        ("accept", "application/json"),
        ("x-http-method-override", "PATCH"),
        ("x-http-method", "PATCH"),
        ("x-method-override", "PATCH"),
        ("idempotency-key", "by-hand"),
        ("x-idempotency-key", "by-hand"),
        ("paypal-request-id", "by-hand"),
        ("content-type", "application/json"),
        ("content-encoding", "gzip"),
        ("if-match", "\"1\""),
        ("expect", "100-continue"),
        ("range", "bytes=0-1"),
    ];
    let (_, sent) = lost_then(SafeRetry::new(), ORDER, at_once(), &headers, vec![Step::status(200)]).await;
    let mut asked: Vec<_> = sent[1].headers().keys().map(|name| name.as_str().to_owned()).collect();
    asked.sort();
    assert_eq!(asked, ["accept", "authorization", "cache-control", "x-tenant"]);
    assert_eq!(sent[1].header("cache-control"), Some("no-cache"));

    let own = [("cache-control", "max-age=0")];
    let (_, sent) = lost_then(SafeRetry::new(), ORDER, at_once(), &own, vec![Step::status(200)]).await;
    assert_eq!(sent[1].header("cache-control"), Some("max-age=0"), "the caller's own directive stays");
}

#[tokio::test(start_paused = true)]
async fn a_wait_that_the_status_page_asks_for_is_waited_out() {
    let retry = SafeRetry::new().with_shared_cooldown(Cooldown::new());
    let accepted = Step::status(202).with_header("retry-after", "30");
    let (report, sent) = lost_then(retry, ORDER, at_once(), &[], vec![accepted, Step::status(200)]).await;
    assert_eq!((report.outcome(), methods(&sent)), (Outcome::Reconciled, vec!["POST", "GET", "GET"]));
    assert!(sent[2].arrived() - sent[1].arrived() >= seconds(30), "{report}");
    assert!(report.hint() >= Some(seconds(30)));
}

#[tokio::test(start_paused = true)]
async fn a_last_look_waits_for_what_others_were_told_meanwhile() {
    let cooldown = Cooldown::new();
    let retry = SafeRetry::new().with_shared_cooldown(cooldown.clone());
    let busy = Step::status(503).with_header("retry-after", "1");
    let endpoint = at_once().with_policy(RetryPolicy::DEFAULT.with_attempts(1));
    let scripted = Scripted::new([busy, Step::status(200)]);
    let client = ClientBuilder::new(reqwest::Client::new()).with(retry).with(scripted.clone()).build();
    let sending = client.post(ORDER).body("{}").with_extension(endpoint).send();
    let (answer, ()) = tokio::join!(sending, async {
        tokio::time::sleep(seconds(1) / 2).await;
        cooldown.note(ScopeKey::origin(&ORDER.parse().unwrap()), tokio::time::Instant::now() + seconds(3));
    });
    assert_eq!(answer.unwrap().status(), 200);
    let [write, question] = &scripted.requests()[..] else { panic!("one write, one question") };
    assert!(question.arrived() - write.arrived() >= seconds(7) / 2);
}
