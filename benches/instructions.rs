//! What safety costs beside the alternatives, in one run: instructions and allocations of a request
//! that goes well, memory of an operation that waits, allocations of one that fails.
//!
//! `cargo bench --bench instructions` prints the tables of `docs/performance.md`. With
//! `-- --check` it counts the instructions only and fails where a share of the floor is more than
//! 3 % over `benches/instructions.txt`; `-- --write` writes that file anew.
//!
//! valgrind does the counting. The peer is a terminal middleware, so that only the client's own
//! work counts. Each scenario runs with two numbers of requests; the difference takes start-up out.

#![expect(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, reason = "what fails here fails the run")]

mod counting;

use std::{
    collections::BTreeMap,
    env, fs,
    process::ExitCode,
    sync::atomic::{AtomicU64, Ordering},
    thread,
    time::Duration,
};

use http::{Extensions, HeaderMap, HeaderName, HeaderValue, StatusCode};
use reqwest::{Method, Request, Response, Url};
use reqwest_middleware::{ClientBuilder, ClientWithMiddleware, Middleware, Next};
use reqwest_retry::{RetryTransientMiddleware, policies::ExponentialBackoff};
use reqwest_safe_retry::{
    Cooldown, Endpoint, EndpointCatalog, KeyContract, RetryBudget, RetryPolicy, Row, SafeRetry, SendWitness, Uuid,
    policy::{Backoff, BudgetLimits},
};
use tracing_subscriber::filter::LevelFilter;

/// The share of each is that of `clone`, and `clone-post` is the floor of a POST. What a key costs
/// whoever makes and sends one is the difference between the latter and `clone-keyed-post`.
const HAPPY: [&str; 18] = [
    "nothing",
    "next",
    "clone",
    "clone-post",
    "clone-keyed-post",
    "reqwest-retry",
    "safe",
    "safe-info",
    "safe-witness",
    "safe-paved",
    "safe-paved-outside",
    "safe-keyed-post",
    "safe-deadline",
    "safe-deadline-body",
    "safe-5-rows",
    "safe-100-rows",
    "safe-1000-rows",
    "safe-cooldown",
];
const SIZES: [&str; 2] = ["empty", "20 headers + 16 KiB"];
const HELD: [&str; 5] = ["clone", "reqwest-retry", "safe", "safe-witness", "safe-keyed-post"];
const FAILING: [&str; 4] = ["clone", "reqwest-retry", "safe", "safe-keyed-post"];

const FEW: u64 = 200;
const MANY: u64 = 1200;
const ATTEMPTS: u32 = 4;
const HOUR: Duration = Duration::from_secs(60 * 60);
const COMMITTED: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/benches/instructions.txt");

/// Answers without a network.
struct Answer(StatusCode, &'static str);

static ANSWERED: AtomicU64 = AtomicU64::new(0);

#[async_trait::async_trait]
impl Middleware for Answer {
    async fn handle(&self, _: Request, _: &mut Extensions, _: Next<'_>) -> reqwest_middleware::Result<Response> {
        ANSWERED.fetch_add(1, Ordering::Relaxed);
        let mut response = http::Response::new(self.1);
        *response.status_mut() = self.0;
        Ok(Response::from(response))
    }
}

/// Hands on.
struct Pass;

#[async_trait::async_trait]
impl Middleware for Pass {
    async fn handle(&self, request: Request, extensions: &mut Extensions, next: Next<'_>) -> reqwest_middleware::Result<Response> {
        next.run(request, extensions).await
    }
}

/// What any middleware that may resend has to do: the floor.
struct Cloning;

#[async_trait::async_trait]
impl Middleware for Cloning {
    async fn handle(&self, request: Request, extensions: &mut Extensions, next: Next<'_>) -> reqwest_middleware::Result<Response> {
        let copy = request.try_clone();
        let answer = next.clone().run(request, extensions).await?;
        if !answer.status().is_server_error() {
            return Ok(answer);
        }
        drop(answer);
        let copy = copy.unwrap();
        for _ in 2..ATTEMPTS {
            tokio::time::sleep(HOUR).await;
            next.clone().run(copy.try_clone().unwrap(), extensions).await?;
        }
        tokio::time::sleep(HOUR).await;
        next.run(copy, extensions).await
    }
}

fn client(scenario: &str, answer: StatusCode) -> ClientWithMiddleware {
    let builder = ClientBuilder::new(reqwest::Client::new());
    let safe = || {
        let backoff = Backoff::doubling(HOUR, HOUR);
        let policy =
            RetryPolicy::DEFAULT.with_attempts(ATTEMPTS).with_backoff(backoff).with_throttle_backoff(backoff).with_window(24 * HOUR);
        match answer {
            StatusCode::OK => SafeRetry::new(),
            _ => SafeRetry::new().with_policy(policy).with_budget(RetryBudget::new(BudgetLimits::UNLIMITED)),
        }
    };
    let builder = match scenario {
        "nothing" => builder,
        "next" => builder.with(Pass),
        "clone" | "clone-post" | "clone-keyed-post" => builder.with(Cloning),
        "reqwest-retry" => {
            let policy = ExponentialBackoff::builder().retry_bounds(HOUR, HOUR).build_with_max_retries(ATTEMPTS - 1);
            builder.with(RetryTransientMiddleware::new_with_policy(policy))
        }
        "safe" | "safe-info" | "safe-keyed-post" => builder.with(safe()),
        "safe-deadline" | "safe-deadline-body" => builder.with(safe().with_deadline(HOUR)),
        "safe-witness" => builder.with(safe()).with(SendWitness::default_redirects()),
        "safe-5-rows" => builder.with(safe().with_catalog(catalog(5))),
        "safe-100-rows" => builder.with(safe().with_catalog(catalog(100))),
        "safe-1000-rows" => builder.with(safe().with_catalog(catalog(1000))),
        "safe-cooldown" => builder.with(safe().with_shared_cooldown(Cooldown::new())),
        "safe-paved" | "safe-paved-outside" => {
            let paved = safe().client(reqwest::Client::builder()).redirects_off().with(Answer(answer, ""));
            let paved = if scenario == "safe-paved" { paved } else { paved.with_outside(Pass) };
            return paved.build().unwrap();
        }
        other => panic!("no scenario {other}"),
    };
    builder.with(Answer(answer, if scenario.ends_with("-body") { "ok" } else { "" })).build()
}

/// Rows of which the last one matches.
fn catalog(rows: usize) -> EndpointCatalog {
    let others = (1..rows).map(|number| Row::get(format!("/v1/thing{number}/{{id}}"), Endpoint::read()));
    let rows = others.chain([Row::get("/orders", Endpoint::read())]);
    rows.fold(EndpointCatalog::new(), |catalog, row| catalog.with_row("http://bench.example", row).unwrap())
}

/// Requests of one scenario, of which building costs as little as it can.
struct Requests {
    client: ClientWithMiddleware,
    url: Url,
    headers: HeaderMap,
    body: Option<bytes::Bytes>,
    keyed: Endpoint,
    scenario: String,
}

impl Requests {
    fn new(scenario: &str, size: &str, answer: StatusCode) -> Self {
        let large = size != SIZES[0];
        let header = |number| HeaderName::try_from(format!("x-header-{number}")).unwrap();
        let value = HeaderValue::from_static("some value of usual length");
        Self {
            client: client(scenario, answer),
            url: "http://bench.example/orders".parse().unwrap(),
            headers: (0..if large { 20 } else { 0 }).map(|number| (header(number), value.clone())).collect(),
            body: large.then(|| vec![b'x'; 16 * 1024].into()),
            keyed: Endpoint::keyed_write(KeyContract::STRIPE),
            scenario: scenario.to_owned(),
        }
    }

    async fn send(&self) {
        let keyed = self.scenario == "safe-keyed-post";
        let method = if self.scenario.ends_with("-post") { Method::POST } else { Method::GET };
        // Not by a builder: what that costs would only make the shares look small.
        let mut request = Request::new(method, self.url.clone());
        request.headers_mut().clone_from(&self.headers);
        if self.scenario == "clone-keyed-post" {
            let mut key = HeaderValue::try_from(Uuid::new_v4().to_string()).unwrap();
            key.set_sensitive(true);
            request.headers_mut().insert(HeaderName::from_static("idempotency-key"), key);
        }
        // Copied, as every caller's body comes into being somewhere.
        *request.body_mut() = self.body.as_ref().map(|body| body.to_vec().into());
        let mut extensions = Extensions::new();
        if keyed {
            extensions.insert(self.keyed.clone());
        }
        drop(self.client.execute_with_extensions(request, &mut extensions).await);
    }
}

/// The measured program: so many requests, one after the other.
fn one_by_one(scenario: &str, size: &str, count: u64, answer: StatusCode) {
    if scenario == "safe-info" {
        tracing_subscriber::fmt().with_max_level(LevelFilter::INFO).with_writer(std::io::sink).init();
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().start_paused(answer != StatusCode::OK).build().unwrap();
    runtime.block_on(async {
        let requests = Requests::new(scenario, size, answer);
        for _ in 0..count {
            requests.send().await;
        }
    });
}

/// The measured program: so many operations at once, which all wait for their second attempt when
/// it exits.
fn waiting(scenario: &str, size: &str, count: u64) -> ! {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let requests: &'static Requests = Box::leak(Box::new(Requests::new(scenario, size, StatusCode::SERVICE_UNAVAILABLE)));
        for _ in 0..count {
            tokio::spawn(requests.send());
        }
        while ANSWERED.load(Ordering::Relaxed) < count {
            tokio::task::yield_now().await;
        }
        std::process::exit(0);
    })
}

fn instructions(scenario: &str, size: &str) -> u64 {
    let tool = ["--tool=callgrind", "--callgrind-out-file=/dev/null"];
    let count = |count| counting::number_after(&counting::valgrind(&tool, &["run", scenario, size], count), "Collected :");
    (count(MANY) - count(FEW)) / (MANY - FEW)
}

/// Blocks and bytes that each operation allocates.
fn allocations(verb: &str, scenario: &str, size: &str) -> (f64, f64) {
    let heap = |count| {
        let report = counting::valgrind(&["--tool=dhat", "--dhat-out-file=/dev/null"], &[verb, scenario, size], count);
        let total = report.lines().find(|line| line.contains("Total:")).expect("a total").to_owned();
        [counting::number_after(&total, " in "), counting::number_after(&total, "Total:")]
    };
    let ([few_blocks, few_bytes], [many_blocks, many_bytes]) = (heap(FEW), heap(MANY));
    let each = |few: u64, many: u64| (many - few) as f64 / (MANY - FEW) as f64;
    (each(few_blocks, many_blocks), each(few_bytes, many_bytes))
}

/// Bytes that each waiting operation holds, its task included.
fn held(scenario: &str) -> u64 {
    let heap = |count| {
        let report = counting::valgrind(&["--tool=dhat", "--dhat-out-file=/dev/null"], &["wait", scenario, SIZES[0]], count);
        counting::number_after(&report, "At t-end:")
    };
    (heap(MANY) - heap(FEW)) / (MANY - FEW)
}

/// What any middleware that may resend costs with the same method.
fn floor_of(scenario: &str) -> &str {
    if scenario.ends_with("-post") { "clone-post" } else { "clone" }
}

/// The share of the floor, in thousandths, of every scenario that is ours.
fn shares(counted: &BTreeMap<(&'static str, &'static str), u64>) -> BTreeMap<String, u64> {
    let ours = counted.iter().filter(|((_, scenario), _)| scenario.starts_with("safe"));
    ours.map(|((size, scenario), each)| (format!("{scenario}, {size}"), each * 1000 / counted[&(*size, floor_of(scenario))])).collect()
}

fn counted() -> BTreeMap<(&'static str, &'static str), u64> {
    let all_of = |size| move || HAPPY.map(|scenario| ((size, scenario), instructions(scenario, size)));
    thread::scope(|scope| {
        let sizes = SIZES.map(|size| scope.spawn(all_of(size)));
        sizes.into_iter().flat_map(|counting| counting.join().unwrap()).collect()
    })
}

fn check() -> ExitCode {
    let committed = fs::read_to_string(COMMITTED).unwrap();
    let now = shares(&counted());
    let mut worse = false;
    for line in committed.lines().filter(|line| !line.starts_with('#')) {
        let (name, share) = line.rsplit_once(": ").unwrap();
        let (was, is) = (share.parse::<u64>().unwrap(), now[name]);
        let verdict = if is * 100 > was * 103 { "WORSE" } else { "ok" };
        worse |= verdict == "WORSE";
        println!("{name}: {was} -> {is} {verdict}");
    }
    if worse { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}

fn write() {
    let lines: String = shares(&counted()).iter().map(|(name, share)| format!("{name}: {share}\n")).collect();
    fs::write(COMMITTED, format!("# Instructions of a request that goes well, in thousandths of what one clone of it costs.\n{lines}"))
        .unwrap();
}

fn tables() {
    let counted = counted();
    for size in SIZES {
        println!("\na request that goes well, {size}: instructions, share of one clone, allocations, bytes allocated");
        for scenario in HAPPY {
            let each = counted[&(size, scenario)];
            let share = each as f64 / counted[&(size, floor_of(scenario))] as f64;
            let (blocks, bytes) = allocations("run", scenario, size);
            println!("  {scenario:<16} {each:>8} {share:>6.2} × {blocks:>5.1} {bytes:>9.0}");
        }
    }
    println!("\nan operation that waits for its second attempt, empty request: bytes held, task included");
    for scenario in HELD {
        println!("  {scenario:<16} {:>8}", held(scenario));
    }
    println!("\nan operation that fails {ATTEMPTS} times, empty request: allocations, bytes allocated");
    for scenario in FAILING {
        let (blocks, bytes) = allocations("fail", scenario, SIZES[0]);
        println!("  {scenario:<16} {blocks:>8.1} {bytes:>9.0}");
    }
}

fn main() -> ExitCode {
    let arguments: Vec<String> = env::args().skip(1).filter(|argument| argument != "--bench").collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match arguments.as_slice() {
        ["run", scenario, size, count] => one_by_one(scenario, size, count.parse().unwrap(), StatusCode::OK),
        ["fail", scenario, size, count] => one_by_one(scenario, size, count.parse().unwrap(), StatusCode::SERVICE_UNAVAILABLE),
        ["wait", scenario, size, count] => waiting(scenario, size, count.parse().unwrap()),
        ["--check"] => return check(),
        ["--write"] => write(),
        _ => tables(),
    }
    ExitCode::SUCCESS
}
