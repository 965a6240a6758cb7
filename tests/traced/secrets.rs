//! No secret of a request or an answer in anything this crate prints: events at TRACE, metrics,
//! reports, traces, errors, `Debug`.

use std::{
    fmt::Write as _,
    io, mem,
    net::SocketAddr,
    sync::{Arc, LazyLock, Mutex},
    time::Duration,
};

use futures_util::{future, stream};
use http::{Extensions, HeaderMap, HeaderName, HeaderValue, Method, StatusCode};
use metrics_exporter_prometheus::PrometheusBuilder;
use reqwest::{
    Body, Request, Response, Url,
    dns::{Name, Resolve, Resolving},
};
use reqwest_middleware::{ClientBuilder, ClientWithMiddleware, Middleware, Next, RequestBuilder};
use reqwest_safe_retry::{
    Answer, AttemptHeaders, BudgetLimits, Cooldown, CorrelationId, Deadline, Endpoint, EndpointCatalog, HoldsBack, IdempotencyKey,
    KeyContract, Observer, Operation, ProbeVerdict, ReplayBody, ReplayRequest, ReportSlot, RetryBudget, RetryError, RetryErrorExt,
    RetryPolicy, RetryReport, Row, SafeRetry, ScopeKey, SendWitness, StatusProbe, StatusUrl,
    errors::CatalogError,
    hints::HintSources,
    policy::{Backoff, Draw},
    report::{Decided, Found, Origin},
    testing::{Act, Draws, Fault, FaultServer, H2Fault, H2Reason, Handshake, Scripted, Step, Tls},
};
use tokio::net::TcpSocket;

use crate::capture::Capture;

/// Every marker contains this.
const MARKER: &str = "S3CRET";
const URL: &str = "https://S3CRET-user:S3CRET-password@api.test/S3CRET-path?token=S3CRET-query#S3CRET-fragment";

/// Everything that was printed, each piece with its place of origin.
#[derive(Clone, Default)]
struct Printed(Arc<Mutex<String>>);

impl Printed {
    fn add(&self, place: &str, text: impl std::fmt::Display) {
        writeln!(self.0.lock().unwrap(), "[{place}] {text}").unwrap();
    }

    fn assert_clean(&self) {
        let printed = self.0.lock().unwrap();
        let leaks: Vec<&str> = printed.lines().filter(|line| line.to_lowercase().contains(&MARKER.to_lowercase())).collect();
        assert!(leaks.is_empty(), "{} leaks, such as\n{}", leaks.len(), leaks[..leaks.len().min(10)].join("\n"));
        assert!(printed.len() > 1_000, "a test that sees nothing proves nothing: {printed}");
    }

    fn error(&self, error: &reqwest_middleware::Error) {
        if let Some(ours) = error.safe_retry() {
            self.add("error", format_args!("{ours} {ours:?} {:?} {:?}", ours.key(), ours.report()));
        }
        if let Some(RetryError::Misused(misuse)) = error.safe_retry() {
            self.add("misuse", format_args!("{misuse} {misuse:?}"));
        }
    }

    fn report(&self, report: &RetryReport) {
        self.add("report", format_args!("{report} {report:?}"));
        self.add("report JSON", serde_json::to_string(report).unwrap());
    }
}

impl Observer for Printed {
    fn decided(&self, decided: &Decided<'_>) {
        self.add("decided", format_args!("{decided:?}"));
        self.add("trace", serde_json::to_string(&(decided.situation(), decided.decision())).unwrap());
    }

    fn ended(&self, report: &RetryReport) {
        self.report(report);
    }
}

/// A probe that looks at everything it may look at.
struct Looking(Printed, fn(Response) -> ProbeVerdict);

#[async_trait::async_trait]
impl StatusProbe for Looking {
    async fn look_up(&self, operation: &Operation<'_>) -> ProbeVerdict {
        let url = operation.url().join("/S3CRET-status?token=S3CRET-query").unwrap();
        let verdict = operation.send(operation.get(url)).await.map_or(ProbeVerdict::Undecided, self.1);
        self.0.add("probe", format_args!("{operation:?} {verdict:?}"));
        verdict
    }
}

fn endpoints(printed: &Printed) -> Vec<Option<Endpoint>> {
    let keyed = || Endpoint::keyed_write(KeyContract::STRIPE).named("payments").reading_body(1_000);
    let looking = |verdict| Looking(printed.clone(), verdict);
    let seen = printed.clone();
    vec![
        None,
        Some(Endpoint::read()),
        Some(Endpoint::idempotent_write().reading_body(1_000)),
        Some(keyed()),
        Some(keyed().probed_by(looking(|_| ProbeVerdict::InProgress))),
        Some(Endpoint::probed_write(looking(ProbeVerdict::Applied)).settling(Duration::ZERO)),
        Some(Endpoint::probed_write(looking(|_| ProbeVerdict::Absent)).settling(Duration::ZERO)),
        Some(Endpoint::unprotected_write().named("orders")),
        Some(Endpoint::never_resend()),
        Some(Endpoint::unprotected_write().classified_by(move |answer: &Answer<'_>| {
            seen.add("answer", format_args!("{answer:?}"));
            None
        })),
    ]
}

fn faults() -> Vec<Step> {
    let telling = |status| {
        let step =
            Step::status(status).with_body("S3CRET-answer").with_header("set-cookie", "S3CRET-cookie").with_header("x-any", "S3CRET-any");
        step.with_header("location", "https://S3CRET.test/S3CRET?S3CRET")
    };
    vec![
        telling(200),
        telling(302),
        telling(401),
        telling(404),
        telling(409),
        telling(425),
        telling(429).with_header("retry-after", "1"),
        telling(503),
        telling(503).with_header("retry-after", "S3CRET-hint"),
        Step::status(200).with_cut_body("S3CRET-answer"),
        Step::status(503).with_cut_body("S3CRET-answer"),
        Step::status(200).with_stalled_body("S3CRET-answer"),
        Step::fails(),
        Step::refused(),
        Step::times_out(),
        Step::broken(),
        Step::hangs(),
        Step::hangs_connecting(),
    ]
}

fn plugin(printed: &Printed) -> SafeRetry {
    SafeRetry::new()
        .with_observer(printed.clone())
        .with_attempt_limit(Duration::from_millis(200))
        .with_policy(RetryPolicy::DEFAULT.with_backoff(Backoff::doubling(Duration::from_millis(1), Duration::from_millis(1))))
        .with_origin_in_metrics()
        .with_draws(Draws::constant(Draw::HALF))
}

fn client(plugin: SafeRetry, peer: Scripted) -> ClientWithMiddleware {
    // Never reached, so one for all.
    static TRANSPORT: LazyLock<reqwest::Client> = LazyLock::new(reqwest::Client::new);
    ClientBuilder::new(TRANSPORT.clone()).with(plugin).with(SendWitness::redirects_off()).with(peer).build()
}

fn loaded(request: RequestBuilder) -> RequestBuilder {
    request
        .bearer_auth("S3CRET-token")
        .header("cookie", "session=S3CRET-cookie")
        .header("idempotency-key", "S3CRET-key")
        .header("x-api-key", "S3CRET-api-key")
        .header("S3CRET-name", "S3CRET-value")
        .with_extension(Deadline::after(Duration::from_secs(60)))
        .body("S3CRET-body")
}

/// Sends and prints whatever there is to print of the result; gives back an error of ours.
async fn send(request: RequestBuilder, printed: &Printed) -> Option<reqwest_middleware::Error> {
    let slot = ReportSlot::new();
    printed.add("slot", format_args!("{slot:?}"));
    let mut ours = None;
    match request.with_extension(slot.clone()).send().await {
        Ok(response) => {
            if let Some(report) = RetryReport::of(&response) {
                printed.report(report);
            }
        }
        Err(error) => {
            printed.error(&error);
            ours = Some(error).filter(|error| error.safe_retry().is_some());
        }
    }
    printed.add("full slot", format_args!("{slot:?}"));
    printed.report(&slot.take().unwrap());
    ours
}

/// As [`send`], and prints the transport's error behind ours too, as `anyhow` does.
async fn send_and_chain(request: RequestBuilder, printed: &Printed) {
    if let Some(error) = send(request, printed).await {
        printed.add("chain", format!("{error} {error:?}").replace('\n', " "));
    }
}

/// Runs the work under a subscriber and a recorder, adds what they got, and looks.
async fn watched(work: impl AsyncFnOnce(Printed)) -> String {
    let printed = Printed::default();
    let (log, _log) = Capture::start();
    let recorder = PrometheusBuilder::new().build_recorder();
    let scrape = recorder.handle();
    let _metrics = metrics::set_default_local_recorder(&recorder);
    work(printed.clone()).await;
    assert!(!log.events().is_empty() && !log.spans().is_empty(), "nothing was logged");
    for line in log.spans().into_iter().chain(log.events()) {
        printed.add("log", format_args!("{line:?}"));
    }
    let scrape = scrape.render();
    assert!(scrape.contains("safe_retry_attempts_total"), "nothing was measured");
    printed.add("metrics", scrape);
    printed.assert_clean();
    let all = printed.0.lock().unwrap();
    all.clone()
}

#[tokio::test(start_paused = true)]
async fn no_fault_of_any_endpoint_prints_a_secret() {
    let all = watched(async |printed| {
        for endpoint in endpoints(&printed) {
            for fault in faults() {
                for method in [Method::GET, Method::POST] {
                    let client = client(plugin(&printed), Scripted::new([fault.clone()]));
                    let request = loaded(client.request(method, URL));
                    let request = match &endpoint {
                        Some(endpoint) => request.with_extension(endpoint.clone()),
                        None => request,
                    };
                    send_and_chain(request, &printed).await;
                }
            }
        }
    })
    .await;
    for reached in
        ["OutcomeUnknown", "Unprocessed", "BodyLost", "UnreadableHint", "AttemptsSpent", "Reconciled", "ProbeUndecided", "[probe]"]
    {
        assert!(all.contains(reached), "the faults do not reach {reached}");
    }
}

/// An inner middleware whose error tells everything.
struct Talkative;

#[async_trait::async_trait]
impl Middleware for Talkative {
    async fn handle(&self, request: Request, _: &mut Extensions, _: Next<'_>) -> reqwest_middleware::Result<Response> {
        Err(reqwest_middleware::Error::Middleware(io::Error::other(format!("S3CRET-source: {request:?}")).into()))
    }
}

#[tokio::test(start_paused = true)]
async fn no_error_of_the_user_s_own_is_printed_as_ours() {
    watched(async |printed| {
        let failing = || io::Error::other("S3CRET-source");
        let failing_stream = || Body::wrap_stream(stream::iter([Ok("S3CRET-body"), Err(failing())]));
        for endpoint in endpoints(&printed).into_iter().flatten() {
            let post = |client: &ClientWithMiddleware| client.post(URL).with_extension(endpoint.clone());
            let scripted = client(plugin(&printed), Scripted::answering(503));
            send(post(&scripted).body(failing_stream()), &printed).await;
            send(post(&scripted).with_extension(ReplayBody::from_fn(move || Err(failing()))), &printed).await;
            send(post(&scripted).with_extension(ReplayRequest::from_fn(move || Err::<Request, _>(failing()))), &printed).await;
            let once = std::sync::atomic::AtomicBool::new(true);
            let once = ReplayBody::from_fn(move || {
                if once.swap(false, std::sync::atomic::Ordering::SeqCst) { Ok(Body::from("S3CRET-body")) } else { Err(failing()) }
            });
            send(post(&scripted).with_extension(once), &printed).await;
            let talkative = ClientBuilder::new(reqwest::Client::new()).with(plugin(&printed)).with(Talkative).build();
            send(post(&talkative), &printed).await;
        }
    })
    .await;
}

/// A factory may fetch what it sends, and the URL of that is as secret as any.
#[tokio::test(start_paused = true)]
async fn a_transport_error_of_a_factory_is_printed_without_its_url() {
    let transport = async || reqwest::Client::new().get("ftp://u:S3CRET-p@store.test/S3CRET-path?S3CRET-query").send().await.unwrap_err();
    assert!(transport().await.to_string().contains("S3CRET"));
    let reached = watched(async |printed| {
        let client = client(plugin(&printed), Scripted::answering(503));
        let once = async || Mutex::new(Some(transport().await));
        let taken = |error: &Mutex<Option<reqwest::Error>>| error.lock().unwrap().take().unwrap();
        let (own, boxed, wrapped) = (once().await, once().await, once().await);
        send(client.get(URL), &printed).await;
        let replayed = |make: ReplayRequest| client.post(URL).with_extension(make);
        send_and_chain(replayed(ReplayRequest::from_fn(move || Err::<Request, _>(taken(&own)))), &printed).await;
        send_and_chain(
            replayed(ReplayRequest::from_fn(move || Err::<Request, _>(reqwest_middleware::Error::from(taken(&boxed))))),
            &printed,
        )
        .await;
        let body = ReplayBody::from_fn(move || Err(io::Error::other(taken(&wrapped))));
        send_and_chain(client.post(URL).with_extension(body), &printed).await;
    })
    .await;
    assert!(reached.contains("URL scheme is not allowed"), "the cause is still there");
}

#[tokio::test(start_paused = true)]
async fn wrong_use_prints_no_secret() {
    let all = watched(async |printed| {
        let client = client(plugin(&printed), Scripted::answering(200));
        let keyed = || client.post(URL).with_extension(Endpoint::keyed_write(KeyContract::STRIPE.with_reuse_guard()));
        let malformed = format!("S3CRET-{}", "x".repeat(300));
        send(keyed().header("idempotency-key", malformed), &printed).await;
        send(keyed().header("idempotency-key", "S3CRET-one").header("idempotency-key", "S3CRET-other"), &printed).await;
        send(client.post(URL).with_extension(IdempotencyKey::parse("S3CRET-key").unwrap()), &printed).await;
        send(keyed().header("idempotency-key", "S3CRET-key").body("one"), &printed).await;
        send(keyed().header("idempotency-key", "S3CRET-key").body("another"), &printed).await;
        send(client.get(URL).with_extension(Deadline::after(Duration::ZERO)), &printed).await;
        printed.add("correlation", format_args!("{0} {0:?}", CorrelationId::new("S3CRET id").unwrap_err()));
        printed.add("key", format_args!("{0} {0:?}", IdempotencyKey::parse("S3CRET\n").unwrap_err()));
    })
    .await;
    for reached in ["InvalidKey", "SeveralKeys", "KeyWithoutContract", "KeyReused", "DeadlineExceeded"] {
        assert!(all.contains(reached), "wrong use does not reach {reached}");
    }
}

// ===== on the wire =====

type Transport<'a> = &'a dyn Fn() -> reqwest::ClientBuilder;

fn plain() -> reqwest::ClientBuilder {
    reqwest::Client::builder().no_proxy()
}

/// For peers that hang.
const SHORT: Duration = Duration::from_millis(50);
/// For all others, whom a busy machine must not make look as if they hung.
const LONG: Duration = Duration::from_secs(5);

/// A GET and a POST to each kind of endpoint, with redirects and without, all at once.
async fn send_each(printed: &Printed, transport: Transport<'_>, origin: &Url, limit: Duration) {
    let mut url = origin.join("/S3CRET-path?token=S3CRET-query#S3CRET-fragment").unwrap();
    url.set_username("S3CRET-user").unwrap();
    url.set_password(Some("S3CRET-password")).unwrap();
    let fast = Backoff::doubling(Duration::from_millis(1), Duration::from_millis(1));
    let policy = RetryPolicy::DEFAULT.with_attempts(2).with_backoff(fast).with_throttle_backoff(fast);
    let builder = || plugin(printed).with_policy(policy).with_attempt_limit(limit).client(transport());
    let mut sends = Vec::new();
    for client in [builder().build().unwrap(), builder().redirects_off().build().unwrap()] {
        let keyed = Endpoint::keyed_write(KeyContract::STRIPE).reading_body(1_000);
        for endpoint in [None, Some(Endpoint::unprotected_write()), Some(keyed)] {
            for method in [Method::GET, Method::POST] {
                let request = loaded(client.request(method, url.clone()));
                let request = match &endpoint {
                    Some(endpoint) => request.with_extension(endpoint.clone()),
                    None => request,
                };
                sends.push(send_and_chain(request, printed));
            }
        }
    }
    future::join_all(sends).await;
}

#[track_caller]
fn assert_reached(all: &str, wanted: &[&str]) {
    for reached in wanted {
        assert!(all.contains(reached), "the faults do not reach {reached}");
    }
}

fn telling(fault: Fault) -> Fault {
    fault.with_header("x-any", "S3CRET-any").with_header("location", "/S3CRET?S3CRET").with_body("S3CRET-answer")
}

#[tokio::test]
async fn no_fault_on_the_wire_prints_a_secret() {
    let all = watched(async |printed| {
        let faults = [
            telling(Fault::status(200)),
            telling(Fault::status(503)),
            telling(Fault::status(503)).with_header("retry-after", "S3CRET"),
            telling(Fault::status(303)),
            telling(Fault::status(200)).with_body_cut_at(3),
            telling(Fault::status(503)).with_body_reset_at(3),
            Fault::close_on_accept(),
            Fault::reset_on_accept(),
            Fault::close_before_reading(),
            Fault::reset_before_reading(),
            Fault::close_mid_request(2),
            Fault::close_after_request(),
            Fault::reset_after_request(),
            Fault::partial_head(),
            Fault::malformed(),
            Fault::banner(),
        ];
        for (fault, limit) in faults.into_iter().map(|fault| (fault, LONG)).chain([(Fault::hang(), SHORT)]) {
            let server = FaultServer::start([fault]).await;
            send_each(&printed, &plain, &server.url("/"), limit).await;
        }
    })
    .await;
    assert_reached(&all, &["cause: PeerClosed", "cause: Reset", "cause: Protocol", "cause: TimedOut", "cause: BodyLost"]);
}

#[tokio::test]
async fn no_fault_of_http_2_prints_a_secret() {
    let all = watched(async |printed| {
        let telling = |code| H2Fault::status(code).with_header("x-any", "S3CRET-any").with_header("location", "/S3CRET?S3CRET");
        let telling = |code| telling(code).with_body("S3CRET-answer");
        let faults = [
            telling(200),
            telling(303),
            telling(503).with_header("retry-after", "S3CRET"),
            telling(200).with_body_reset(H2Reason::INTERNAL_ERROR),
            telling(503).with_body_closed(),
            H2Fault::refused_stream(),
            H2Fault::reset_stream(H2Reason::ENHANCE_YOUR_CALM),
            H2Fault::reset_stream(H2Reason::HTTP_1_1_REQUIRED),
            H2Fault::go_away_below(H2Reason::NO_ERROR),
            H2Fault::go_away_including(H2Reason::INTERNAL_ERROR),
            H2Fault::close(),
            H2Fault::reset(),
            H2Fault::garbage(),
            H2Fault::close_on_accept(),
        ];
        let hanging =
            [telling(200).with_body_stalled(), H2Fault::hang(), H2Fault::silent(), H2Fault::without_streams(), H2Fault::without_window()];
        for (fault, limit) in faults.into_iter().map(|fault| (fault, LONG)).chain(hanging.map(|fault| (fault, SHORT))) {
            let server = FaultServer::start_h2([fault]).await;
            send_each(&printed, &|| plain().http2_prior_knowledge(), &server.url("/"), limit).await;
        }
    })
    .await;
    assert_reached(&all, &["cause: Refused", "cause: Protocol", "cause: TimedOut", "cause: BodyLost"]);
}

#[tokio::test]
async fn no_fault_of_tls_prints_a_secret() {
    let all = watched(async |printed| {
        let trusting = |tls: &Tls| {
            let root = reqwest::Certificate::from_pem(tls.root_pem().as_bytes()).unwrap();
            move || plain().tls_certs_only([root.clone()])
        };
        let handshakes = [(Handshake::Hang, SHORT), (Handshake::Close, LONG), (Handshake::Reset, LONG), (Handshake::Plaintext, LONG)];
        for (handshake, limit) in handshakes {
            let tls = Tls::new().with_handshakes([handshake]);
            let server = FaultServer::start_tls(&tls, []).await;
            send_each(&printed, &trusting(&tls), &server.url("/"), limit).await;
        }
        let tls = Tls::new();
        for fault in [telling(Fault::status(503)), telling(Fault::status(303)), Fault::close_after_request(), Fault::reset_after_request()]
        {
            let server = FaultServer::start_tls(&tls, [fault]).await;
            send_each(&printed, &trusting(&tls), &server.url("/"), LONG).await;
        }
        let server = FaultServer::start_tls(&tls, []).await;
        send_each(&printed, &trusting(&Tls::new()), &server.url("/"), LONG).await;
        let plain = FaultServer::start([]).await;
        let mut url = plain.url("/");
        url.set_scheme("https").unwrap();
        send_each(&printed, &trusting(&tls), &url, SHORT).await;
    })
    .await;
    assert_reached(&all, &["cause: Certificate", "cause: Connect", "cause: Status"]);
}

/// A resolver that knows nobody.
struct Nobody;

impl Resolve for Nobody {
    fn resolve(&self, _: Name) -> Resolving {
        Box::pin(future::ready(Err(io::Error::other("no such host").into())))
    }
}

/// An address that is taken, until the tests end, and that nobody listens on.
fn deserted() -> SocketAddr {
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind(([127, 0, 0, 1], 0).into()).unwrap();
    let address = socket.local_addr().unwrap();
    mem::forget(socket);
    address
}

#[tokio::test]
async fn no_peer_that_cannot_be_reached_prints_a_secret() {
    let all = watched(async |printed| {
        let refusing = format!("http://{}", deserted()).parse().unwrap();
        send_each(&printed, &plain, &refusing, LONG).await;
        for origin in ["http://nowhere.test", "https://nowhere.test"] {
            send_each(&printed, &|| plain().dns_resolver(Arc::new(Nobody)), &origin.parse().unwrap(), LONG).await;
        }
    })
    .await;
    assert_reached(&all, &["cause: Connect", "no such host"]);
}

#[tokio::test]
async fn no_fault_of_a_proxy_prints_a_secret() {
    let all = watched(async |printed| {
        let through = |address: SocketAddr| {
            let proxy = format!("http://S3CRET-proxy-user:S3CRET-proxy-password@{address}/S3CRET-proxy");
            move || reqwest::Client::builder().proxy(reqwest::Proxy::all(&proxy).unwrap())
        };
        let asking = telling(Fault::status(407)).with_header("proxy-authenticate", "Basic realm=S3CRET");
        let faults = [
            asking,
            telling(Fault::status(502)),
            telling(Fault::status(303)),
            Fault::close_on_accept(),
            Fault::close_after_request(),
            Fault::reset_after_request(),
            Fault::malformed(),
        ];
        let faults = faults.map(|fault| (fault, LONG)).into_iter().chain([(Fault::hang(), SHORT)]);
        for origin in ["http://origin.test", "https://origin.test"].map(|origin| origin.parse().unwrap()) {
            for (fault, limit) in faults.clone() {
                let proxy = FaultServer::start([fault]).await;
                send_each(&printed, &through(proxy.address()), &origin, limit).await;
                assert!(proxy.connections() > 0, "nothing went through the proxy");
            }
            send_each(&printed, &through(deserted()), &origin, LONG).await;
        }
    })
    .await;
    assert_reached(&all, &["cause: Connect", "cause: PeerClosed", "cause: TimedOut"]);
}

#[tokio::test(start_paused = true)]
async fn a_path_is_logged_by_opt_in_and_nothing_else_of_the_url_with_it() {
    let (log, _guard) = Capture::start();
    let client = client(plugin(&Printed::default()).with_path_in_logs(), Scripted::answering(200));
    loaded(client.get(URL)).send().await.unwrap();
    let mut span = log.spans().remove(0);
    assert_eq!(span.fields.remove("url.path").unwrap(), "/S3CRET-path");
    assert!(!format!("{span:?} {:?}", log.events()).contains(MARKER), "{span:?}");
}

#[tokio::test(start_paused = true)]
async fn two_log_lines_of_one_key_match_and_show_no_key() {
    let (log, _guard) = Capture::start();
    let client = client(plugin(&Printed::default()), Scripted::answering(200));
    let endpoint = Endpoint::keyed_write(KeyContract::STRIPE);
    for key in ["S3CRET-one", "S3CRET-one", "S3CRET-other"] {
        client.post(URL).header("idempotency-key", key).with_extension(endpoint.clone()).send().await.unwrap();
    }
    let keys: Vec<String> = log.spans().into_iter().map(|span| span.fields["key"].clone()).collect();
    assert_eq!(keys[0], keys[1]);
    assert_ne!(keys[0], keys[2]);
    assert!(keys.iter().all(|key| key.len() == 8 && key.bytes().all(|digit| digit.is_ascii_hexdigit())), "{keys:?}");
}

// ===== types =====

/// A catalogue whose every endpoint holds something.
fn catalog(probe: impl StatusProbe) -> EndpointCatalog {
    let secret_status = StatusUrl::by_key("/S3CRET-status?key={key}&token=S3CRET-query").unwrap().with(StatusCode::GONE, Found::Absent);
    let keyed = || Endpoint::keyed_write(KeyContract::STRIPE).named("orders").owned_by("payments").with_deadline(Duration::from_secs(1));
    let rows = [
        Row::post("/orders", keyed().probed_by(secret_status)).or(Method::PATCH),
        Row::put("/orders/{order}", Endpoint::probed_write(probe).with_hints(HintSources::ALL)),
        Row::get("/orders", Endpoint::read().classified_by(|_| None)),
    ];
    EndpointCatalog::new().with_rows("https://api.test", rows).unwrap()
}

fn catalog_errors() -> Vec<CatalogError> {
    let row = |path: &'static str| Row::get(path, Endpoint::read());
    let with = |origin: &str, path: &'static str| EndpointCatalog::new().with_row(origin, row(path)).unwrap_err();
    let toml = r#"
        [[endpoint]]
        origin = "https://S3CRET-user:S3CRET-password@api.test"
        method = "POST"
        path = "/orders?token=S3CRET-query"
        effect = "read"
        status_url = "/S3CRET-status?token=S3CRET-query"
        "#;
    let json = r#"{"endpoint": [{"origin": "https://S3CRET@api.test", "path": "/S3CRET", "misspelt": "S3CRET"}]}"#;
    let overlapping = EndpointCatalog::new().with_rows("https://api.test", [row("/orders/{order}"), row("/orders/{id}")]);
    vec![
        with("https://S3CRET-user:S3CRET-password@api.test", "/orders"),
        with("https://api.test/S3CRET-path", "/orders"),
        with("https://api.test", "/orders?token=S3CRET-query"),
        with("https://api.test", "orders#S3CRET-fragment"),
        overlapping.unwrap_err(),
        EndpointCatalog::from_toml(toml).unwrap_err(),
        EndpointCatalog::from_toml(&format!("{toml} within = S3CRET")).unwrap_err(),
        EndpointCatalog::from_json(json).unwrap_err(),
        EndpointCatalog::from_json("{S3CRET").unwrap_err(),
    ]
}

#[test]
fn no_type_of_a_catalogue_shows_a_secret() {
    let printed = Printed::default();
    let catalog = catalog(Looking(printed.clone(), ProbeVerdict::Applied));
    let retry = SafeRetry::new().with_catalog(catalog.clone());
    printed.add("catalogue", format_args!("{catalog:?} {retry:?}"));
    printed.add("row", format_args!("{:?}", Row::post("/orders?token=S3CRET-query#S3CRET-fragment", Endpoint::read())));
    for audit in [catalog.audit(), catalog.audit_for(&retry)] {
        printed.add("audit", format_args!("{audit} {audit:?} {}", audit.to_json()).to_string().replace('\n', " "));
        for (row, finding) in audit.findings() {
            printed.add("finding", format_args!("{row:?} {finding:?} {finding}"));
        }
        assert!(audit.findings().count() > 0 && audit.rows().len() == 3, "nothing was found");
    }
    let errors = catalog_errors();
    for error in &errors {
        printed.add("catalogue error", format_args!("{error} {error:?} {:?}", std::error::Error::source(error)));
        if let CatalogError::File(invalid) = error {
            printed.add("file", format_args!("{invalid} {invalid:?}"));
        }
    }
    printed.assert_clean();
}

/// What comes out of an operation, and what looks into one, are types, too.
#[tokio::test(start_paused = true)]
async fn no_type_of_an_operation_shows_a_secret() {
    let all = watched(async |printed| {
        let seen = printed.clone();
        let write = Endpoint::keyed_write(KeyContract::STRIPE).probed_by(Looking(printed.clone(), |_| ProbeVerdict::Undecided));
        let write = write.reading_body(1_000).classified_by(move |answer: &Answer<'_>| {
            assert!(answer.body().is_some_and(|body| body.starts_with(MARKER.as_bytes())));
            seen.add("answer", format_args!("{answer:?}"));
            None
        });
        let told = Step::status(503).with_body("S3CRET-answer").with_header("x-any", "S3CRET-any");
        let peer = Scripted::new([told, Step::fails()]);
        let request = loaded(client(plugin(&printed), peer.clone()).post(URL)).with_extension(write);
        let error = request.send().await.unwrap_err();
        printed.error(&error);
        let report = error.safe_retry().unwrap().report().unwrap();
        for attempt in report.attempts() {
            printed.add("attempt", format_args!("{attempt:?}"));
        }
        for probe in report.probes() {
            printed.add("probe record", format_args!("{probe:?}"));
        }
        printed.add("origin", format_args!("{0} {0:?}", report.origin()));
        printed.add("scripted", format_args!("{peer:?} {:?}", peer.requests()));
    })
    .await;
    assert_reached(&all, &["[answer]", "[probe]", "[decided]", "[attempt]", "[probe record]", "[scripted]"]);
}

#[tokio::test(start_paused = true)]
async fn no_shared_state_shows_a_secret() {
    let printed = Printed::default();
    let scope = |request: &Request| ScopeKey::of(request.url().as_str());
    let budget = RetryBudget::new(BudgetLimits::DEFAULT).scoped_by(scope);
    let cooldown = Cooldown::new().scoped_by(scope).holding_back(HoldsBack::FirstSendsToo);
    let guarded = Endpoint::keyed_write(KeyContract::STRIPE.with_reuse_guard());
    let plugin = plugin(&printed).with_budget(budget.clone()).with_shared_cooldown(cooldown.clone());
    let told = Step::status(429).with_header("retry-after", "5");
    let client = client(plugin.clone(), Scripted::new([told, Step::ok("S3CRET-answer")]));
    loaded(client.post(URL)).with_extension(guarded.clone()).send().await.unwrap();
    printed.add("shared", format_args!("{budget:?} {cooldown:?} {guarded:?} {plugin:?}"));
    let url: Url = URL.parse().unwrap();
    printed.add("scopes", format_args!("{:?} {:?} {1}", ScopeKey::origin(&url), Origin::of(&url)));
    printed.assert_clean();
}

#[tokio::test]
async fn no_scripted_peer_shows_a_secret() {
    let printed = Printed::default();
    let tls = Tls::new();
    let answer = || telling(Fault::status(200));
    let servers = [FaultServer::start([answer()]).await, FaultServer::start_tls(&tls, [answer()]).await];
    let root = reqwest::Certificate::from_pem(tls.root_pem().as_bytes()).unwrap();
    let client = ClientBuilder::new(plain().redirect(reqwest::redirect::Policy::none()).tls_certs_only([root]).build().unwrap()).build();
    for server in &servers {
        let url = server.url("/S3CRET-path?token=S3CRET-query");
        loaded(client.post(url)).send().await.unwrap();
        printed.add("server", format_args!("{server:?} {:?}", server.requests()));
        server.assert_writes(1);
    }
    let by_hand = Fault::script([Act::ReadRequest, Act::Send("S3CRET-answer".into()), Act::Trickle("S3CRET".into(), Duration::ZERO)]);
    let h2 = H2Fault::ok("S3CRET-answer").with_header("x-any", "S3CRET-any");
    let step = Step::ok("S3CRET-answer").with_header("x-any", "S3CRET-any");
    printed.add("faults", format_args!("{:?} {by_hand:?} {h2:?} {step:?} {tls:?}", answer()));
    printed.add("acts", format_args!("{:?} {:?}", Act::Send("S3CRET".into()), Act::Trickle("S3CRET".into(), Duration::ZERO)));
    let peer = Scripted::new([step]);
    loaded(self::client(plugin(&printed), peer.clone()).get(URL)).send().await.unwrap();
    printed.add("scripted", format_args!("{peer:?} {:?}", peer.requests()));
    printed.assert_clean();
}

#[test]
fn nothing_a_request_carries_shows_a_secret() {
    let printed = Printed::default();
    let endpoint = Endpoint::keyed_write(KeyContract::STRIPE).probed_by(Looking(printed.clone(), ProbeVerdict::Applied));
    let mut defaults = HeaderMap::new();
    defaults.insert("x-api-key", HeaderValue::from_static("S3CRET-api-key"));
    let headers = AttemptHeaders::new().with_number(HeaderName::from_static("x-retry-attempt"));
    let plugin = SafeRetry::new().with_default_write(endpoint.clone()).with_observer(printed.clone()).with_attempt_headers(headers.clone());
    let builder = plugin.clone().client(reqwest::Client::builder().default_headers(defaults)).with(Talkative);
    let key = IdempotencyKey::parse("S3CRET-key").unwrap();
    let response = || Response::from(http::Response::builder().header("x-any", "S3CRET-any").body("S3CRET-answer").unwrap());
    let by_path = StatusUrl::by_path("/S3CRET/{id}", "/S3CRET-status/{id}?token=S3CRET-query").unwrap();
    let by_key = StatusUrl::by_key("https://u:S3CRET@api.test/S3CRET/{key}").ok();
    let from_fn = StatusUrl::from_fn(|_| URL.parse().ok());
    for text in [
        format!("{plugin:?} {builder:?} {endpoint:?} {headers:?} {key:?} {0} {0:?}", key.fingerprint()),
        format!("{:?} {:?}", ReplayBody::from_fn(|| Ok(Body::from("S3CRET-body"))), Deadline::after(Duration::from_secs(1))),
        format!("{:?}", ReplayRequest::from_fn(|| Ok::<_, io::Error>(Request::new(Method::GET, URL.parse().unwrap())))),
        format!("{:?} {:?} {:?}", ProbeVerdict::Applied(response()), SendWitness::redirects_off(), ScopeKey::of("S3CRET")),
        format!("{:?} {by_path:?} {by_key:?} {from_fn:?}", KeyContract::STRIPE),
        format!("{0} {0:?}", StatusUrl::by_key("S3CRET://api.test/{S3CRET}").unwrap_err()),
        format!("{:?} {:?}", Endpoint::probed_write(by_path.with(StatusCode::GONE, Found::Absent)), ReportSlot::new()),
    ] {
        printed.add("type", text);
    }
    printed.assert_clean();
}

#[tokio::test(start_paused = true)]
async fn no_host_and_no_method_stands_whole_that_is_longer_than_names_are() {
    let all = watched(async |printed| {
        let url = format!("http://{}.test/", "HOST".repeat(1_000));
        let method = Method::from_bytes("METHOD".repeat(1_000).as_bytes()).unwrap();
        for fault in faults() {
            for endpoint in endpoints(&printed) {
                let client = client(plugin(&printed), Scripted::new([fault.clone()]));
                let request = client.request(method.clone(), &url).with_extension(Deadline::after(Duration::from_secs(60)));
                let request = match endpoint {
                    Some(endpoint) => request.with_extension(endpoint),
                    None => request,
                };
                send_and_chain(request, &printed).await;
            }
        }
        let client = client(plugin(&printed), Scripted::answering(200));
        send(client.request(method, &url).with_extension(IdempotencyKey::random()), &printed).await;
    })
    .await;
    for (name, most) in [("host", 255), ("METHOD", 32)] {
        let cut = format!("{}…", &name.repeat(100)[..most]);
        assert!(all.contains(&cut), "{name} is not there");
        assert!(!all.replace(&cut, "").contains(&name.repeat(3)), "{name} stands whole");
    }
}
