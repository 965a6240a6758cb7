//! Nobody can tell whether an operation went by the lane: every case runs with it and without it,
//! and everything that anybody gets to see is compared.

use std::{
    fmt::Write as _,
    sync::{Arc, LazyLock, Mutex},
    time::Duration,
};

use futures_util::{FutureExt as _, future::BoxFuture};
use http::{Extensions, Method};
use metrics_exporter_prometheus::PrometheusBuilder;
use reqwest::{Body, Request, Response, Url};
use reqwest_middleware::{ClientBuilder, ClientWithMiddleware, Error, Middleware, Next, Result};
use tokio::time::{Instant, advance, timeout};

use crate::{
    BudgetLimits, CorrelationId, Deadline, Endpoint, IdempotencyKey, KeyContract, Observer, ReportSlot, RetryBudget, RetryPolicy,
    RetryReport, SafeRetry, SendWitness,
    operation::plan::{Light, Plan},
    operation::settings::Lane,
    policy::{AdaptiveLimits, KeyFormat, KeySource, Replays, Verdict, defaults},
    report::Decided,
    shared::cooldown::Cooldown,
    testing::{Draws, Scripted, Step},
};

const URL: &str = "http://peer.test/orders?secret=1";
const SECOND: Duration = Duration::from_secs(1);

/// What everybody saw, a line each.
#[derive(Clone, Default)]
struct Seen(Arc<Mutex<String>>);

impl Seen {
    fn note(&self, line: impl AsRef<str>) {
        writeln!(self.0.lock().unwrap(), "{}", line.as_ref()).unwrap();
    }

    fn all(&self) -> String {
        self.0.lock().unwrap().clone()
    }
}

impl Observer for Seen {
    fn decided(&self, decided: &Decided<'_>) {
        self.note(format!("decided {:?} on {:?}", decided.decision(), decided.situation()));
    }

    fn ended(&self, report: &RetryReport) {
        self.note(format!("ended {report:?}"));
    }
}

/// What a middleware leaves in its attempt's extensions.
#[derive(Clone)]
struct Left(usize);

fn left(extensions: &Extensions) -> Option<usize> {
    extensions.get::<Left>().map(|left| left.0)
}

/// An inner middleware: looks at what it is given, and leaves something behind.
struct Inner(Seen);

#[async_trait::async_trait]
impl Middleware for Inner {
    async fn handle(&self, request: Request, extensions: &mut Extensions, next: Next<'_>) -> Result<Response> {
        let inside = crate::proof::witness::is_inside(extensions);
        self.0.note(format!("attempt: {} extensions, {:?}, inside {inside}", extensions.len(), left(extensions)));
        extensions.insert(Left(extensions.len()));
        next.run(request, extensions).await
    }
}

/// An inner middleware that sends everything twice.
struct Twice;

#[async_trait::async_trait]
impl Middleware for Twice {
    async fn handle(&self, request: Request, extensions: &mut Extensions, next: Next<'_>) -> Result<Response> {
        if let Some(copy) = request.try_clone() {
            drop(next.clone().run(copy, extensions).await);
        }
        next.run(request, extensions).await
    }
}

/// An inner middleware that makes another answer of every one.
struct Rebuilds;

#[async_trait::async_trait]
impl Middleware for Rebuilds {
    async fn handle(&self, request: Request, extensions: &mut Extensions, next: Next<'_>) -> Result<Response> {
        drop(next.run(request, extensions).await);
        Ok(http::Response::new("made anew").into())
    }
}

#[derive(Clone, Copy, PartialEq)]
enum Road {
    Witness,
    Bare,
    Nested,
    Twice,
    Rebuilds,
}

/// One pass through a case, with the lane as it says.
struct Pass {
    seen: Seen,
    lane: Lane,
}

impl Pass {
    fn client(&self, retry: SafeRetry, road: Road, peer: &Scripted) -> ClientWithMiddleware {
        // Never reached, so one for all.
        static TRANSPORT: LazyLock<reqwest::Client> = LazyLock::new(reqwest::Client::new);
        let retry = retry.with(|settings| settings.lane = self.lane);
        let builder = ClientBuilder::new(TRANSPORT.clone()).with(retry.clone()).with(Inner(self.seen.clone()));
        let builder = match road {
            Road::Witness => builder.with(SendWitness::redirects_off()),
            Road::Bare => builder,
            Road::Nested => builder.with(retry).with(SendWitness::redirects_off()),
            Road::Twice => builder.with(Twice).with(SendWitness::redirects_off()),
            Road::Rebuilds => builder.with(Rebuilds).with(SendWitness::redirects_off()),
        };
        builder.with(peer.clone()).build()
    }

    /// Sends, and notes everything that comes of it.
    async fn sends(&self, client: &ClientWithMiddleware, request: Request, mut extensions: Extensions) {
        let began = Instant::now();
        let result = client.execute_with_extensions(request, &mut extensions).await;
        self.note(result, began).await;
        self.seen.note(format!("handed back: {} extensions, {:?}", extensions.len(), left(&extensions)));
        assert!(!crate::proof::witness::is_inside(&extensions), "no mark is left");
    }

    async fn note(&self, result: Result<Response>, began: Instant) {
        match result {
            Ok(answer) => {
                let report = answer.extensions().get::<RetryReport>().cloned();
                self.seen.note(format!("{:?} {:?} {report:?} after {:?}", answer.status(), answer.headers(), began.elapsed()));
                self.seen.note(format!("body {:?} after {:?}", answer.text().await.map_err(|error| error.is_timeout()), began.elapsed()));
            }
            Err(Error::Reqwest(error)) => self.seen.note(format!("{error:?} after {:?}", began.elapsed())),
            Err(Error::Middleware(error)) => self.seen.note(format!("{} after {:?}", chain(&error), began.elapsed())),
        }
    }
}

fn get() -> Request {
    Request::new(Method::GET, URL.parse().unwrap())
}

fn of(method: Method) -> Request {
    let mut request = Request::new(method, URL.parse().unwrap());
    *request.body_mut() = Some("1 coffee".into());
    request
}

fn with<T: Clone + Send + Sync + 'static>(extension: T) -> Extensions {
    let mut extensions = Extensions::new();
    extensions.insert(extension);
    extensions
}

fn plain() -> SafeRetry {
    SafeRetry::new().with_draws(Draws::seeded(7)).with_budget(RetryBudget::new(BudgetLimits::percent(20).with_reserve(4, 0)))
}

/// The requests of a case, each with what it carries.
type Sends = Vec<(Request, Extensions)>;

/// One kind of client and the requests that it is given, in turn; the budget is that of all.
fn cases() -> Vec<(&'static str, SafeRetry, Sends)> {
    let one = |request| vec![(request, Extensions::new())];
    let each = |extension: fn() -> Extensions| vec![(get(), extension()), (of(Method::PUT), extension()), (of(Method::POST), extension())];
    let patient = RetryPolicy::DEFAULT.with_attempts(6);
    let mut overridden = get();
    overridden.headers_mut().insert("x-http-method-override", "DELETE".parse().unwrap());
    let mut by_hand = of(Method::POST);
    by_hand.headers_mut().insert("idempotency-key", "k".parse().unwrap());
    let mut stream = of(Method::PUT);
    *stream.body_mut() = Some(Body::wrap(http_body_util::Full::new(bytes::Bytes::from_static(b"1 coffee"))));
    let stripe = || with(Endpoint::keyed_write(KeyContract::STRIPE).named("order"));
    let under = |key: &'static str| {
        let mut request = of(Method::POST);
        request.headers_mut().insert("idempotency-key", key.parse().unwrap());
        request
    };
    let mut given = stripe();
    given.insert(IdempotencyKey::parse("k1").unwrap());
    let callers = KeyContract::STRIPE.with_source(KeySource::CallerMust);
    let one_keyed = |contract| vec![(of(Method::POST), with(Endpoint::keyed_write(contract)))];
    let unmarked_replays =
        KeyContract::new(http::HeaderName::from_static("x-key"), KeyFormat::Quoted, SECOND).with_replays(Replays::Everything);
    vec![
        ("unmarked", plain(), each(Extensions::new)),
        ("many of them", plain(), (0..12).map(|_| (get(), Extensions::new())).collect()),
        ("delete", plain(), one(of(Method::DELETE))),
        ("overridden", plain(), one(overridden)),
        ("key by hand", plain(), one(by_hand)),
        ("stream", plain(), one(stream)),
        ("other things", plain(), each(|| with("theirs"))),
        ("policy of the request", plain(), vec![(get(), with(patient)), (get(), with(patient.with_attempts(1)))]),
        ("policy of the client", plain().with_policy(patient), each(Extensions::new)),
        ("deadline", plain().with_deadline(3 * SECOND), each(Extensions::new)),
        ("deadline that has passed", plain(), each(|| with(Deadline::after(Duration::ZERO)))),
        ("deadline of the request", plain(), each(|| with(Deadline::after(SECOND)))),
        ("attempt limit", plain().with_attempt_limit(SECOND), each(Extensions::new)),
        ("limits without room", plain().with_attempt_limit(SECOND).with_deadline(SECOND), each(Extensions::new)),
        (
            "adaptive",
            plain().with_budget(RetryBudget::adaptive(AdaptiveLimits::DEFAULT)),
            (0..6).map(|_| (get(), Extensions::new())).collect(),
        ),
        ("cool-down", plain().with_shared_cooldown(Cooldown::new()), each(Extensions::new)),
        ("slot", plain(), each(|| with(ReportSlot::new()))),
        ("correlated", plain(), each(|| with(CorrelationId::new("c1").unwrap()))),
        ("key without contract", plain(), each(|| with(IdempotencyKey::parse("k1").unwrap()))),
        ("read", plain(), each(|| with(Endpoint::read().named("menu")))),
        ("idempotent write", plain(), each(|| with(Endpoint::idempotent_write().with_attempt_limit(SECOND)))),
        ("unprotected write", plain(), each(|| with(Endpoint::unprotected_write().with_deadline(SECOND)))),
        ("never", plain(), each(|| with(Endpoint::never_resend()))),
        ("keyed", plain(), vec![(of(Method::POST), stripe()), (under("k1"), stripe()), (of(Method::POST), stripe())]),
        ("keyed, with a deadline", plain().with_deadline(3 * SECOND).with_attempt_limit(SECOND), vec![(under("k1"), stripe())]),
        ("keyed, remembered for a second", plain(), one_keyed(unmarked_replays)),
        ("key given", plain(), vec![(of(Method::POST), given)]),
        ("key used wrongly", plain(), vec![(under("k, 1"), stripe()), (of(Method::POST), with(Endpoint::keyed_write(callers)))]),
        ("key guarded", plain(), vec![(under("k1"), with(Endpoint::keyed_write(KeyContract::STRIPE.with_reuse_guard())))]),
        ("classified", plain(), each(|| with(Endpoint::read().classified_by(|_| Some(Verdict::Resendable))))),
        ("trusted", plain(), each(|| with(Endpoint::unprotected_write().trusting_refusal(http::StatusCode::SERVICE_UNAVAILABLE)))),
        ("hints", plain().with_hints(crate::hints::HintSources::ALL), each(Extensions::new)),
    ]
}

fn scripts() -> Vec<(&'static str, Vec<Step>)> {
    let ok = || Step::ok("done").with_header("x-served", "1");
    let busy = || Step::status(503).with_body("busy");
    vec![
        ("well", vec![ok()]),
        ("after a second", vec![ok().after(SECOND)]),
        ("busy once", vec![busy(), ok()]),
        ("busy for long", vec![busy()]),
        ("throttled", vec![Step::status(429).with_header("retry-after", "2"), ok()]),
        ("throttled unreadably", vec![Step::status(429).with_header("retry-after", "soon"), ok()]),
        ("a hint with a success", vec![ok().with_header("retry-after", "2"), busy(), ok()]),
        ("a veto", vec![busy().with_header("x-should-retry", "false"), ok()]),
        ("a replay", vec![ok().with_header("idempotent-replayed", "true")]),
        ("still running", vec![Step::status(409), ok()]),
        ("other content", vec![Step::status(400)]),
        ("advice with a success", vec![ok().with_header("x-should-retry", "true")]),
        ("not found", vec![Step::status(404).with_header("retry-after", "1")]),
        ("not modified", vec![Step::status(304)]),
        ("redirected", vec![Step::status(302).with_header("location", "/elsewhere")]),
        ("too early", vec![Step::status(425)]),
        ("fails once", vec![Step::fails(), ok()]),
        ("refused once", vec![Step::refused(), ok()]),
        ("broken", vec![Step::broken()]),
        ("times out", vec![Step::times_out(), ok()]),
        ("hangs", vec![Step::hangs()]),
        ("hangs connecting", vec![Step::hangs_connecting(), ok()]),
        ("body stalls", vec![ok().with_stalled_body("do")]),
        ("body is cut", vec![ok().with_cut_body("do"), ok()]),
    ]
}

/// What is seen of a case: each request has ten seconds before its caller gives up.
async fn pass(lane: Lane, observed: bool, road: Road, case: usize, script: &[Step], scope: Option<Duration>) -> String {
    let (_, retry, _) = cases().swap_remove(case);
    // The tests of this process build many clients, and only those of age are beyond suspicion.
    advance(defaults::YOUNG_BUDGET).await;
    let (_, _, sends) = cases().swap_remove(case);
    let pass = Pass { seen: Seen::default(), lane };
    let retry = if observed { retry.with_observer(pass.seen.clone()) } else { retry };
    let peer = Scripted::new(script.to_vec());
    let recorder = PrometheusBuilder::new().build_recorder();
    let handle = recorder.handle();
    let guard = metrics::set_default_local_recorder(&recorder);
    let began = Instant::now();
    let mut budget = None;
    let retry = retry.with(|settings| budget = Some(settings.budget.clone()));
    let client = pass.client(retry, road, &peer);
    for (request, extensions) in sends {
        let slot = extensions.get::<ReportSlot>().cloned();
        let sent = pass.sends(&client, request, extensions);
        let sent: BoxFuture<'_, ()> = match scope {
            Some(scope) => Deadline::after(scope).scope(sent).boxed(),
            None => sent.boxed(),
        };
        if timeout(10 * SECOND, sent).await.is_err() {
            pass.seen.note(format!("given up after {:?}", began.elapsed()));
        }
        pass.seen.note(format!("slot {:?}", slot.and_then(|slot| slot.take())));
        let url: Url = URL.parse().unwrap();
        pass.seen.note(format!("balance {:?}", budget.as_ref().map(|budget| budget.balance(&url))));
    }
    for request in peer.requests() {
        let arrived = request.arrived().saturating_duration_since(began);
        pass.seen.note(format!("{} {} {:?} {:?} at {arrived:?}", request.method(), request.url(), request.headers(), request.body()));
    }
    drop((client, guard));
    let mut scrape: Vec<String> = handle.render().lines().map(str::to_owned).collect();
    scrape.sort();
    pass.seen.note(scrape.join("\n"));
    pass.seen.all()
}

/// An error and its sources, without the backtrace, in which the two ways differ.
fn chain(error: &anyhow::Error) -> String {
    error.chain().map(|error| format!("{error}: {error:?}; ")).collect()
}

async fn compare(observed: bool, road: Road, scope: Option<Duration>) {
    // How old a key is tells the clock on the wall, and only an observer sees it.
    let names: Vec<_> = cases().into_iter().map(|(name, ..)| name).collect();
    for (case, of_case) in names.into_iter().enumerate().filter(|(_, name)| !observed || !name.starts_with("key")) {
        for (name, script) in scripts() {
            let with = pass(Lane::Open, observed, road, case, &script, scope).await;
            let without = pass(Lane::Closed, observed, road, case, &script, scope).await;
            let differs = with.lines().zip(without.lines()).find(|(with, without)| with != without);
            assert!(with == without, "{of_case}, {name}: with the lane and without it: {differs:#?}");
        }
    }
}

/// Whether the first request of each case goes by the lane.
#[tokio::test(start_paused = true)]
async fn what_has_nothing_else_to_settle_goes_by_the_lane_and_nothing_else_does() {
    let elsewhere = [
        "key by hand",
        "stream",
        "deadline that has passed",
        "limits without room",
        "cool-down",
        "slot",
        "correlated",
        "key without contract",
        "never",
        "key given",
        "key guarded",
        "classified",
    ];
    for (name, retry, sends) in cases() {
        advance(defaults::YOUNG_BUDGET).await;
        let mut settings = None;
        drop(retry.with(|given| settings = Some(given.clone())));
        let (settings, (mut request, extensions)) = (settings.unwrap(), sends.into_iter().next().unwrap());
        // A deadline of the case has aged with the budget.
        let aged = extensions.get::<Deadline>().is_some();
        let endpoint = Plan::endpoint(&settings, &request, &extensions);
        let light = Light::settle(&settings, endpoint.as_ref(), &mut request, &extensions, Instant::now());
        assert_eq!(light.is_some(), !elsewhere.contains(&name) && !aged, "{name}");
    }
}

#[tokio::test(start_paused = true)]
async fn nobody_can_tell_an_operation_of_the_lane_from_another() {
    compare(false, Road::Witness, None).await;
}

#[tokio::test(start_paused = true)]
async fn nor_without_a_witness() {
    compare(false, Road::Bare, None).await;
}

#[tokio::test(start_paused = true)]
async fn nor_with_an_observer() {
    compare(true, Road::Witness, None).await;
}

#[tokio::test(start_paused = true)]
async fn nor_in_a_scope() {
    compare(false, Road::Witness, Some(SECOND)).await;
}

#[tokio::test(start_paused = true)]
async fn nor_around_another_of_its_kind_or_a_middleware_that_meddles() {
    for road in [Road::Nested, Road::Twice, Road::Rebuilds] {
        compare(false, road, None).await;
    }
}
