//! `StatusUrl`: which URL is asked, with what, and what its statuses mean.

use std::time::Duration;

use async_trait::async_trait;
use http::{Extensions, Method, StatusCode};
use reqwest::{Request, Response, ResponseBuilderExt, Url};
use reqwest_middleware::{ClientBuilder, Middleware, Next};
use reqwest_safe_retry::{
    Deadline, Endpoint, IdempotencyKey, KeyContract, Outcome, ReportSlot, RetryPolicy, RetryReport, SafeRetry, StatusUrl,
    policy::Draw,
    report::Found,
    testing::{Draws, Recorded, Scripted, Step},
};

const ORDER: &str = "https://api.test/orders/7%2F8/capture?secret=1";

/// A write whose answer is lost, then what the probe hears. One attempt: the probe is asked once,
/// at the end.
async fn lost_then(probe: StatusUrl, heard: Step) -> (RetryReport, Vec<Recorded>) {
    let scripted = Scripted::new([Step::fails(), heard]);
    let report = lost(probe, &scripted, ORDER, Endpoint::unprotected_write()).await;
    (report, scripted.requests())
}

async fn lost(probe: StatusUrl, scripted: &Scripted, url: &str, endpoint: Endpoint) -> RetryReport {
    let slot = ReportSlot::new();
    let retry = SafeRetry::new().with_draws(Draws::constant(Draw::LEAST));
    let client = ClientBuilder::new(reqwest::Client::new()).with(retry).with(scripted.clone()).build();
    let endpoint = endpoint.probed_by(probe).settling(Duration::ZERO).with_policy(RetryPolicy::DEFAULT.with_attempts(1));
    let request = client.post(url).bearer_auth("token").header("x-tenant", "9").body("{}").with_extension(slot.clone());
    let _answer = request.with_extension(endpoint).send().await;
    slot.take().unwrap()
}

fn capture() -> StatusUrl {
    StatusUrl::by_path("/orders/{order}/capture", "/captures/{order}").unwrap()
}

#[tokio::test(start_paused = true)]
async fn every_status_has_its_meaning() {
    let applied = [200, 201, 204, 206];
    let absent = [404, 410];
    let in_progress = [202, 409, 425];
    let undecided = [301, 304, 400, 401, 403, 408, 429, 500, 503];
    let rows = [
        (&applied[..], Found::Applied, Outcome::Reconciled),
        (&absent, Found::Absent, Outcome::Unprocessed),
        (&in_progress, Found::InProgress, Outcome::Unknown),
        (&undecided, Found::Undecided, Outcome::Unknown),
    ];
    for (statuses, found, outcome) in rows {
        for status in statuses {
            let (report, _) = lost_then(capture(), Step::status(*status)).await;
            assert_eq!((report.probes()[0].found(), report.outcome()), (found, outcome), "{status}");
        }
    }
    let (report, _) = lost_then(capture(), Step::fails()).await;
    assert_eq!(report.outcome(), Outcome::Unknown, "a question that fails decides nothing");
}

#[tokio::test(start_paused = true)]
async fn the_table_can_be_changed() {
    let probe = || {
        capture().with(StatusCode::OK, Found::Absent).with(StatusCode::FORBIDDEN, Found::Applied).with(StatusCode::OK, Found::InProgress)
    };
    for (status, found) in [(200, Found::InProgress), (403, Found::Applied), (404, Found::Absent)] {
        assert_eq!(lost_then(probe(), Step::status(status)).await.0.probes()[0].found(), found, "{status}");
    }
}

#[tokio::test(start_paused = true)]
async fn the_question_carries_the_credentials_and_the_parameters_of_the_path() {
    let (_, sent) = lost_then(capture(), Step::status(200)).await;
    let [_, asked] = &sent[..] else { panic!("one write, one question") };
    assert_eq!(asked.url().as_str(), "https://api.test/captures/7%2F8?secret=1", "the query may be what tells it from others");
    assert_eq!(
        (asked.method().as_str(), asked.header("authorization"), asked.header("x-tenant")),
        ("GET", Some("Bearer token"), Some("9"))
    );

    let elsewhere = StatusUrl::by_path("/orders/{order}/capture", "https://status.test:8443/c/{order}?of={order}&x=1").unwrap();
    let (_, sent) = lost_then(elsewhere, Step::status(200)).await;
    assert_eq!(sent[1].url().as_str(), "https://status.test:8443/c/7%2F8?of=7%2F8&x=1");
    assert_eq!(sent[1].header("authorization"), None);

    let told = StatusUrl::from_fn(|operation| operation.url().join("/told").ok());
    assert_eq!(lost_then(told, Step::status(200)).await.1[1].url().as_str(), "https://api.test/told");
}

#[tokio::test(start_paused = true)]
async fn what_means_nothing_in_a_path_means_nothing_in_the_query() {
    let scripted = Scripted::new([Step::fails(), Step::status(200)]);
    let probe = StatusUrl::by_path("/orders/{order}", "/captures/{order}?of={order}").unwrap();
    lost(probe, &scripted, "https://api.test/orders/a&b=c+d%26e", Endpoint::unprotected_write()).await;
    assert_eq!(scripted.requests()[1].url().as_str(), "https://api.test/captures/a&b=c+d%26e?of=a%26b%3Dc%2Bd%26e");
}

/// Answers questions from behind a redirect.
struct Redirected(&'static str, u16);

#[async_trait]
impl Middleware for Redirected {
    async fn handle(&self, request: Request, extensions: &mut Extensions, next: Next<'_>) -> reqwest_middleware::Result<Response> {
        if request.method() != Method::GET {
            return next.run(request, extensions).await;
        }
        let url = request.url().join(self.0).unwrap();
        Ok(http::Response::builder().status(self.1).url(url).body("").unwrap().into())
    }
}

#[tokio::test(start_paused = true)]
async fn an_answer_from_another_origin_decides_nothing() {
    for (place, outcome) in
        [("https://login.test/", Outcome::Unknown), ("http://api.test/x", Outcome::Unknown), ("/x", Outcome::Reconciled)]
    {
        let slot = ReportSlot::new();
        let peer = Scripted::new([Step::fails()]);
        let client = ClientBuilder::new(reqwest::Client::new()).with(SafeRetry::new()).with(Redirected(place, 200)).with(peer).build();
        let _answer = client.post(ORDER).with_extension(Endpoint::probed_write(capture())).with_extension(slot.clone()).send().await;
        assert_eq!(slot.take().unwrap().outcome(), outcome, "{place}");
    }
}

/// A page that is missing behind a redirect is another page than the one that was asked for.
#[tokio::test(start_paused = true)]
async fn an_answer_from_another_path_tells_no_absence() {
    for (place, outcome, sends) in [("/login", Outcome::Unknown, 1), ("/captures/7%2F8?signed", Outcome::Answered, 2)] {
        let (slot, peer) = (ReportSlot::new(), Scripted::new([Step::fails(), Step::status(200)]));
        let redirected = Redirected(place, 404);
        let client = ClientBuilder::new(reqwest::Client::new()).with(SafeRetry::new()).with(redirected).with(peer.clone()).build();
        let endpoint = Endpoint::probed_write(capture()).settling(Duration::ZERO);
        let _answer = client.post(ORDER).with_extension(endpoint).with_extension(slot.clone()).send().await;
        assert_eq!((slot.take().unwrap().outcome(), peer.sends()), (outcome, sends), "{place}");
    }
}

#[tokio::test(start_paused = true)]
async fn the_key_fills_its_place_and_nothing_more() {
    let asked = async |key: &str, template: &str| {
        let scripted = Scripted::new([Step::fails(), Step::status(200)]);
        let slot = ReportSlot::new();
        let client = ClientBuilder::new(reqwest::Client::new()).with(SafeRetry::new()).with(scripted.clone()).build();
        let endpoint = Endpoint::keyed_write(KeyContract::ietf(Duration::from_secs(60))).probed_by(StatusUrl::by_key(template).unwrap());
        let request = client.post("https://api.test/orders").with_extension(endpoint.with_policy(RetryPolicy::DEFAULT.with_attempts(1)));
        let request = request.with_extension(IdempotencyKey::parse(key).unwrap()).with_extension(slot.clone());
        let _answer = request.send().await;
        scripted.requests().get(1).map(|asked| asked.url().as_str().to_owned())
    };
    assert_eq!(asked("a/b?c#d%", "/k/{key}/x").await.unwrap(), "https://api.test/k/a%2Fb%3Fc%23d%25/x");
    assert_eq!(asked("a&b=c+d", "/k?key={key}").await.unwrap(), "https://api.test/k?key=a%26b%3Dc%2Bd");
    assert_eq!(asked("..", "/k/{key}").await, None, "dots would climb out of their place");
    assert_eq!(asked("..", "/k?key={key}").await.unwrap(), "https://api.test/k?key=..");
}

#[tokio::test(start_paused = true)]
async fn without_a_url_nothing_is_asked_and_nothing_decided() {
    let nowhere = [
        StatusUrl::from_fn(|_| None),
        StatusUrl::by_key("/k/{key}").unwrap(), // this operation has none
        StatusUrl::by_path("/invoices/{order}", "/captures/{order}").unwrap(),
    ];
    for probe in nowhere {
        let (report, sent) = lost_then(probe, Step::status(200)).await;
        assert_eq!((report.outcome(), sent.len()), (Outcome::Unknown, 1));
    }
}

#[test]
fn a_template_that_cannot_be_filled_is_refused() {
    for template in
        ["", "orders", "//evil.test/{key}", "/a#{key}", "/a/{id}", "/a/{key", "/a/key}", "ftp://a.test/{key}", "https://a.test", "/a/../b"]
    {
        let error = StatusUrl::by_key(template).unwrap_err();
        assert!(!error.to_string().contains("evil"), "{error}");
    }
    for template in ["https://{key}.test/", "https://{key}/"] {
        assert!(StatusUrl::by_key(template).is_err(), "{template}");
    }
    for (path, template) in [("/a/{id}", "/b/{order}"), ("a/{id}", "/b/{id}"), ("/{a}{b}", "/{a}"), ("/a/{id}", "/b/{*id}")] {
        assert!(StatusUrl::by_path(path, template).is_err(), "{path} {template}");
    }
    StatusUrl::by_path("/files/{*rest}", "/status/{rest}?of={rest}&by={key}").map(drop).unwrap();
}

#[tokio::test(start_paused = true)]
async fn what_debug_prints_holds_no_url() {
    let probe = StatusUrl::by_key("https://hunter2@status.test/{key}").unwrap().with(StatusCode::OK, Found::Absent);
    assert_eq!(format!("{probe:?}"), "StatusUrl { verdicts: [(200, Absent)], .. }");
}

#[tokio::test(start_paused = true)]
async fn an_absent_write_is_sent_again_and_an_applied_one_is_not() {
    let run = async |heard: Vec<Step>| {
        let scripted = Scripted::new([Step::fails()].into_iter().chain(heard));
        let retry = SafeRetry::new().with_draws(Draws::constant(Draw::LEAST));
        let client = ClientBuilder::new(reqwest::Client::new()).with(retry).with(scripted.clone()).build();
        let endpoint = Endpoint::probed_write(capture());
        let answer =
            client.post(ORDER).with_extension(endpoint).with_extension(Deadline::after(Duration::from_secs(60))).send().await.unwrap();
        (answer.status().as_u16(), scripted.requests().iter().map(|sent| sent.method().to_string()).collect::<Vec<_>>())
    };
    let (status, sent) = run(vec![Step::status(404), Step::status(404), Step::status(201)]).await;
    assert_eq!((status, sent), (201, vec!["POST".into(), "GET".into(), "GET".into(), "POST".into()]), "404 counts once it has settled");
    let (status, sent) = run(vec![Step::status(202), Step::status(200)]).await;
    assert_eq!((status, sent), (200, vec!["POST".into(), "GET".into(), "GET".into()]));
}

#[tokio::test(start_paused = true)]
async fn a_query_of_the_operation_reaches_its_own_origin_only() {
    assert!(Url::parse(ORDER).unwrap().query().is_some());
    for (status, found) in [(200, Found::Applied), (404, Found::Undecided)] {
        let probe = StatusUrl::by_path("/orders/{order}/capture", "https://status.test/{order}").unwrap();
        let (report, sent) = lost_then(probe, Step::status(status)).await;
        assert_eq!(sent[1].query(), None);
        assert_eq!(report.probes()[0].found(), found, "what was left out may be what tells it from others");
    }
}
