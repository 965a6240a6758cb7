//! What is logged: names, levels and fields are a promise.

use std::{sync::LazyLock, time::Duration};

use futures_util::FutureExt;
use http::{HeaderName, Method};
use reqwest_middleware::{ClientBuilder, ClientWithMiddleware, RequestBuilder};
use reqwest_safe_retry::{
    CorrelationId, Deadline, Endpoint, IdempotencyKey, KeyContract, Operation, ProbeVerdict, ReplayRequest, RetryBudget, SafeRetry,
    SendWitness, StatusProbe, Unmarked,
    policy::{BudgetLimits, Draw},
    testing::{Draws, Scripted, Step},
};
use tracing::Level;

use crate::capture::Capture;

const URL: &str = "https://api.test/v1/orders?token=1";

fn client(plugin: SafeRetry, peer: &Scripted) -> ClientWithMiddleware {
    // Never reached, so one for all.
    static TRANSPORT: LazyLock<reqwest::Client> = LazyLock::new(reqwest::Client::new);
    let plugin = plugin.with_draws(Draws::constant(Draw::LEAST));
    ClientBuilder::new(TRANSPORT.clone()).with(plugin).with(SendWitness::redirects_off()).with(peer.clone()).build()
}

fn throttled() -> Step {
    Step::status(503).with_header("retry-after", "2").after(Duration::from_millis(40))
}

fn keyed(client: &ClientWithMiddleware) -> RequestBuilder {
    client.post(URL).with_extension(Endpoint::keyed_write(KeyContract::STRIPE).named("orders"))
}

#[tokio::test(start_paused = true)]
async fn an_operation_is_told_in_full_under_exactly_these_names() {
    let (log, _guard) = Capture::start();
    let peer = Scripted::new([throttled(), Step::ok("done").after(Duration::from_millis(30))]);
    let key = IdempotencyKey::random();
    let request =
        keyed(&client(SafeRetry::new(), &peer)).with_extension(key.clone()).with_extension(CorrelationId::new("checkout-7").unwrap());
    request.with_extension(Deadline::after(Duration::from_secs(20))).send().await.unwrap();

    let span = [
        ("correlation_id", "checkout-7"),
        ("endpoint", "orders"),
        ("http.request.method", "POST"),
        ("http.request.resend_count", "1"),
        ("http.response.status_code", "200"),
        ("key", &key.fingerprint().to_string()),
        ("otel.kind", "client"),
        ("otel.name", "POST orders"),
        ("outcome", "Answered"),
        ("server.address", "api.test"),
        ("server.port", "443"),
        ("url.scheme", "https"),
    ];
    let [operation] = &log.spans()[..] else { panic!("one span for one operation: {:#?}", log.spans()) };
    assert_eq!((operation.name, operation.level), ("operation", Level::WARN));
    assert_eq!(operation.fields.iter().map(|(name, value)| (*name, value.as_str())).collect::<Vec<_>>(), span);

    type Told = (&'static str, Level, &'static [(&'static str, &'static str)]);
    let events: [Told; 4] = [
        (
            "attempt",
            Level::DEBUG,
            &[
                ("attempt", "1"),
                ("budget_left", "10"),
                ("error.type", "503"),
                ("evidence", "Unknown"),
                ("hint_ms", "2000"),
                ("http.response.status_code", "503"),
                ("message", "attempt"),
                ("signal", "Answered"),
                ("time_left_ms", "19960"),
                ("took_ms", "40"),
            ],
        ),
        (
            "resend",
            Level::INFO,
            &[
                ("attempt", "1"),
                ("budget_left", "9"),
                ("message", "resend"),
                ("pause_ms", "2000"),
                ("reason", "KeyDeduplicates"),
                ("time_left_ms", "19960"),
            ],
        ),
        (
            "attempt",
            Level::DEBUG,
            &[
                ("attempt", "2"),
                ("budget_left", "10"),
                ("evidence", "Unknown"),
                ("http.request.resend_count", "1"),
                ("http.response.status_code", "200"),
                ("message", "attempt"),
                ("signal", "Answered"),
                ("time_left_ms", "17930"),
                ("took_ms", "30"),
            ],
        ),
        (
            "end",
            Level::DEBUG,
            &[
                ("attempts", "2"),
                ("budget_left", "10"),
                ("http.response.status_code", "200"),
                ("message", "end"),
                ("outcome", "Answered"),
                ("stop", "AnswerIsFinal"),
                ("time_left_ms", "17930"),
                ("took_ms", "2070"),
            ],
        ),
    ];
    let told = log.events();
    assert_eq!(told.len(), events.len(), "{told:#?}");
    for (told, (name, level, fields)) in told.iter().zip(events) {
        assert_eq!((told.name, told.level), (name, level));
        assert_eq!(told.fields.iter().map(|(name, value)| (*name, value.as_str())).collect::<Vec<_>>(), fields, "{name}");
    }
}

#[tokio::test(start_paused = true)]
async fn what_went_well_at_once_is_only_debug() {
    let (log, _guard) = Capture::start();
    client(SafeRetry::new(), &Scripted::answering(200)).get(URL).send().await.unwrap();
    assert_eq!(log.levels(), [("attempt", Level::DEBUG), ("end", Level::DEBUG)]);
    let end = log.event("end");
    assert_eq!((end.field("error.type"), end.field("time_left_ms")), (None, None), "no error and no deadline, hence no field");
}

#[tokio::test(start_paused = true)]
async fn an_unmarked_write_whose_answer_was_lost_is_a_warning() {
    let (log, _guard) = Capture::start();
    client(SafeRetry::new(), &Scripted::new([Step::fails()])).post(URL).body("one coffee").send().await.unwrap_err();
    assert_eq!(log.levels(), [("attempt", Level::DEBUG), ("end", Level::WARN)]);
    let end = log.event("end");
    assert_eq!(end.field("outcome"), Some("Unknown"));
    assert_eq!(end.field("stop"), Some("MayHaveHappened"));
    assert_eq!(end.field("error.type"), Some("peer_closed"));
    assert_eq!(log.spans()[0].field("error.type"), Some("peer_closed"));
}

#[tokio::test(start_paused = true)]
async fn a_stop_after_a_resend_is_a_warning() {
    let (log, _guard) = Capture::start();
    client(SafeRetry::new(), &Scripted::answering(503)).get(URL).send().await.unwrap();
    let resend = ("resend", Level::INFO);
    let attempt = ("attempt", Level::DEBUG);
    assert_eq!(log.levels(), [attempt, resend, attempt, resend, attempt, ("end", Level::WARN)]);
    assert_eq!(log.event("end").field("stop"), Some("AttemptsSpent"));
}

#[tokio::test(start_paused = true)]
async fn a_resend_that_the_budget_refuses_is_not_told_as_one() {
    let (log, _guard) = Capture::start();
    let broke = RetryBudget::new(BudgetLimits::percent(0).with_reserve(0, 0));
    client(SafeRetry::new().with_budget(broke), &Scripted::answering(503)).get(URL).send().await.unwrap();
    assert_eq!(log.levels(), [("attempt", Level::DEBUG), ("end", Level::DEBUG)]);
    assert_eq!(log.event("end").field("stop"), Some("BudgetSpent"));
    assert_eq!(log.event("end").field("budget_left"), Some("0"));
}

#[tokio::test(start_paused = true)]
async fn a_method_of_no_rfc_is_other_with_the_original_beside_it() {
    let (log, _guard) = Capture::start();
    let client = client(SafeRetry::new(), &Scripted::answering(200));
    for method in ["PATCH", "PURGE", "get"] {
        client.request(Method::from_bytes(method.as_bytes()).unwrap(), URL).send().await.unwrap();
    }
    let names: Vec<_> = log.spans().iter().map(|span| span.field("otel.name").map(str::to_owned)).collect();
    assert_eq!(names, ["PATCH", "HTTP", "HTTP"].map(|name| Some(name.to_owned())));
    let purge = client.request(Method::from_bytes(b"PURGE").unwrap(), URL).with_extension(IdempotencyKey::random());
    purge.send().await.unwrap_err();
    let spans = log.spans();
    let methods = spans.iter().map(|span| (span.field("http.request.method"), span.field("http.request.method_original")));
    let other = |original| (Some("_OTHER"), Some(original));
    assert_eq!(methods.collect::<Vec<_>>(), [(Some("PATCH"), None), other("PURGE"), other("get")]);
    let misused = log.event("misused");
    assert_eq!((misused.field("http.request.method"), misused.field("http.request.method_original")), other("PURGE"));
}

#[tokio::test(start_paused = true)]
async fn the_path_is_told_only_to_who_asked() {
    let (log, _guard) = Capture::start();
    client(SafeRetry::new(), &Scripted::answering(200)).get(URL).send().await.unwrap();
    client(SafeRetry::new().with_path_in_logs(), &Scripted::answering(200)).get(URL).send().await.unwrap();
    let paths: Vec<_> = log.spans().iter().map(|span| span.field("url.path").map(str::to_owned)).collect();
    assert_eq!(paths, [None, Some("/v1/orders".to_owned())]);
}

#[tokio::test(start_paused = true)]
async fn a_caller_that_gives_up_is_told() {
    let (log, _guard) = Capture::start();
    let client = client(SafeRetry::new(), &Scripted::new([Step::hangs()]));
    assert!(tokio::time::timeout(Duration::from_secs(1), client.post(URL).send()).await.is_err());
    assert!(tokio::time::timeout(Duration::from_secs(1), client.get(URL).send()).await.is_err());
    assert!(client.get(URL).send().now_or_never().is_none());
    let abandoned = |level| ("abandoned", level);
    assert_eq!(log.levels(), [abandoned(Level::WARN), abandoned(Level::DEBUG), abandoned(Level::DEBUG)], "a read has nothing to lose");
    assert_eq!(log.events()[0].shape().2, ["attempts", "evidence"]);
}

#[tokio::test(start_paused = true)]
async fn a_request_that_is_left_alone_is_not_told_about() {
    let (log, _guard) = Capture::start();
    let client = client(SafeRetry::new().with_unmarked(Unmarked::Untouched), &Scripted::answering(503));
    client.post(URL).send().await.unwrap();
    assert!(log.spans().is_empty() && log.events().is_empty(), "{:#?}", log.events());
}

#[tokio::test(start_paused = true)]
async fn wrong_use_is_told() {
    let (log, _guard) = Capture::start();
    let peer = Scripted::answering(200);
    client(SafeRetry::new(), &peer).post(URL).with_extension(IdempotencyKey::random()).send().await.unwrap_err();
    peer.assert_sends(0);
    let fields = ["http.request.method", "server.address", "server.port", "stop", "url.scheme"];
    assert_eq!(log.event("misused").shape(), ("misused", Level::DEBUG, fields.to_vec()));
}

// ===== correlation =====

struct StatusPage;

#[async_trait::async_trait]
impl StatusProbe for StatusPage {
    async fn look_up(&self, operation: &Operation<'_>) -> ProbeVerdict {
        let page = operation.get("https://api.test/v1/status".parse().unwrap());
        match operation.send(page).await {
            Ok(response) => ProbeVerdict::Applied(response),
            Err(_) => ProbeVerdict::Undecided,
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_correlation_id_is_the_same_in_the_log_and_on_every_send() {
    let (log, _guard) = Capture::start();
    let peer = Scripted::new([Step::refused(), Step::fails(), Step::ok("done")]);
    let id = CorrelationId::random();
    let request = client(SafeRetry::new(), &peer).post(URL).header("x-request-id", "of-a-lower-rank");
    request.with_extension(Endpoint::probed_write(StatusPage)).with_extension(id.clone()).send().await.unwrap();
    let sent: Vec<_> =
        peer.requests().iter().map(|request| (request.path().to_owned(), request.header("x-request-id").map(str::to_owned))).collect();
    let id = Some(id.as_str().to_owned());
    assert_eq!(sent, [("/v1/orders".into(), id.clone()), ("/v1/orders".into(), id.clone()), ("/v1/status".into(), id.clone())]);
    assert_eq!(log.spans()[0].field("correlation_id"), id.as_deref());
    assert_eq!(log.event("probed").field("found"), Some("Applied"));
    assert_eq!(log.event("probe").level, Level::DEBUG);
    assert_eq!(log.event("end").field("outcome"), Some("Reconciled"));
    assert_eq!(log.spans()[0].field("error.type"), None, "what a probe found is no error");
}

#[tokio::test(start_paused = true)]
async fn a_correlation_id_goes_where_the_user_says_and_nowhere_unasked() {
    let _capture = Capture::start();
    let peer = Scripted::answering(200);
    let client = client(SafeRetry::new(), &peer);
    let id = CorrelationId::new("checkout-7").unwrap().in_header(HeaderName::from_static("x-correlation-id"));
    client.get(URL).with_extension(id).send().await.unwrap();
    client.get(URL).send().await.unwrap();
    let headers = |name| peer.requests().iter().map(|request| request.header(name).map(str::to_owned)).collect::<Vec<_>>();
    assert_eq!(headers("x-correlation-id"), [Some("checkout-7".to_owned()), None]);
    assert_eq!(headers("x-request-id"), [None, None]);
}

#[tokio::test(start_paused = true)]
async fn no_factory_changes_a_correlation_id() {
    let _capture = Capture::start();
    let peer = Scripted::new([Step::status(503), Step::ok("done")]);
    let client = client(SafeRetry::new(), &peer);
    let again = client.clone();
    let factory = ReplayRequest::from_fn(move || again.put(URL).header("x-request-id", "another").body("one coffee").build());
    let id = CorrelationId::new("checkout-7").unwrap();
    client.put(URL).with_extension(factory).with_extension(id).send().await.unwrap();
    let sent: Vec<_> = peer.requests().iter().map(|request| request.header("x-request-id").map(str::to_owned)).collect();
    assert_eq!(sent, [Some("checkout-7".to_owned()), Some("checkout-7".to_owned())]);
}

#[tokio::test(start_paused = true)]
async fn a_correlation_id_cannot_become_a_key() {
    let _capture = Capture::start();
    let peer = Scripted::answering(200);
    let id = CorrelationId::new("checkout-7").unwrap().in_header(HeaderName::from_static("idempotency-key"));
    let request = keyed(&client(SafeRetry::new(), &peer)).with_extension(id).with_extension(IdempotencyKey::random());
    assert!(request.send().await.is_err(), "two keys are a mistake");
    peer.assert_sends(0);
}
