//! Whether a request costs the same however much there is: operations in flight, origins, attempts,
//! catalogue rows, bytes of body, threads.
//!
//! `cargo bench --bench growth` prints the tables of `docs/performance.md`, and with `-- threads`,
//! or the name of any other, that one alone. valgrind counts the instructions and bytes; only the
//! last table, of threads, is of time, as a ratio within one run. Nothing is asserted.

#![expect(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, reason = "what fails here fails the run")]

mod counting;

use std::{
    env,
    sync::{
        Arc, Barrier, LazyLock,
        atomic::{AtomicU64, Ordering},
    },
    thread,
    time::Duration,
};

use bytes::Bytes;
use futures_util::future::join_all;
use http::{Extensions, StatusCode};
use reqwest::{Body, Method, Request, Response, Url};
use reqwest_middleware::{ClientBuilder, ClientWithMiddleware, Middleware, Next};
use reqwest_safe_retry::{
    Endpoint, EndpointCatalog, RetryBudget, RetryPolicy, Row, SafeRetry, SendWitness,
    policy::{Backoff, BudgetLimits},
};
use tokio::{runtime, sync::Semaphore, time::Instant};

const HOUR: Duration = Duration::from_secs(60 * 60);
/// At least so many requests are counted.
const LEAST: u64 = 2000;
const ROUNDS: usize = 15;
const EACH: usize = 40_000;

/// Answers without a network: every n-th time well, and otherwise with 503; once as many are here
/// as are waited for.
struct Answer {
    well_every: u64,
    answered: AtomicU64,
    at_once: u64,
    here: AtomicU64,
    door: Semaphore,
}

impl Answer {
    fn well_every(well_every: u64) -> Self {
        Self { well_every, answered: AtomicU64::new(0), at_once: 1, here: AtomicU64::new(0), door: Semaphore::new(0) }
    }
}

#[async_trait::async_trait]
impl Middleware for Answer {
    async fn handle(&self, _: Request, _: &mut Extensions, _: Next<'_>) -> reqwest_middleware::Result<Response> {
        if self.at_once > 1 {
            if (self.here.fetch_add(1, Ordering::Relaxed) + 1) % self.at_once == 0 {
                self.door.add_permits(usize::try_from(self.at_once).unwrap());
            }
            self.door.acquire().await.unwrap().forget();
        }
        let number = self.answered.fetch_add(1, Ordering::Relaxed) + 1;
        let mut response = http::Response::new("");
        if number % self.well_every != 0 {
            *response.status_mut() = StatusCode::SERVICE_UNAVAILABLE;
        }
        Ok(response.into())
    }
}

/// What any middleware that may resend has to do: the floor.
struct Cloning;

#[async_trait::async_trait]
impl Middleware for Cloning {
    async fn handle(&self, request: Request, extensions: &mut Extensions, next: Next<'_>) -> reqwest_middleware::Result<Response> {
        loop {
            let copy = request.try_clone().unwrap();
            let answer = next.clone().run(copy, extensions).await?;
            if !answer.status().is_server_error() {
                return Ok(answer);
            }
            drop(answer);
            tokio::time::sleep(HOUR).await;
        }
    }
}

fn client(contender: &str, retry: SafeRetry, answer: Answer) -> ClientWithMiddleware {
    let builder = ClientBuilder::new(reqwest::Client::new());
    match contender {
        "clone" => builder.with(Cloning),
        _ => builder.with(retry).with(SendWitness::redirects_off()),
    }
    .with(answer)
    .build()
}

/// As many attempts as it takes, an hour apart.
fn patient() -> SafeRetry {
    let backoff = Backoff::doubling(HOUR, HOUR);
    let policy = RetryPolicy::DEFAULT.with_attempts(10).with_backoff(backoff).with_throttle_backoff(backoff).with_window(24 * HOUR);
    SafeRetry::new().with_policy(policy).with_budget(RetryBudget::new(BudgetLimits::UNLIMITED))
}

/// Rows of which the last one matches.
fn catalog(rows: u64) -> EndpointCatalog {
    let others = (1..rows).map(|number| Row::get(format!("/v1/thing{number}/{{id}}"), Endpoint::read()));
    let rows = others.chain([Row::get("/orders", Endpoint::read())]);
    rows.fold(EndpointCatalog::new(), |catalog, row| catalog.with_row("http://bench.example", row).unwrap())
}

fn url() -> Url {
    static URL: LazyLock<Url> = LazyLock::new(|| "http://bench.example/orders".parse().unwrap());
    URL.clone()
}

async fn get(client: &ClientWithMiddleware, url: Url) {
    drop(client.execute(Request::new(Method::GET, url)).await.unwrap());
}

/// The measured program: so many requests of one kind.
async fn requests(kind: &str, contender: &str, size: u64, count: u64) {
    match kind {
        "in flight" => {
            let client = client(contender, SafeRetry::new(), Answer { at_once: size, ..Answer::well_every(1) });
            for _ in 0..count / size {
                let tasks: Vec<_> = (0..size)
                    .map(|_| {
                        tokio::spawn({
                            let client = client.clone();
                            async move { get(&client, url()).await }
                        })
                    })
                    .collect();
                for task in tasks {
                    task.await.unwrap();
                }
            }
        }
        "origins" => {
            let client = client(contender, SafeRetry::new(), Answer::well_every(1));
            let urls: Vec<Url> = (0..size).map(|number| format!("http://host-{number:05}.bench.example/orders").parse().unwrap()).collect();
            for number in 0..count {
                get(&client, urls[usize::try_from(number % size).unwrap()].clone()).await;
            }
        }
        "attempts" => {
            let client = client(contender, patient(), Answer::well_every(size));
            for _ in 0..count {
                get(&client, url()).await;
            }
        }
        "rows" => {
            let client = client(contender, SafeRetry::new().with_catalog(catalog(size)), Answer::well_every(1));
            for _ in 0..count {
                get(&client, url()).await;
            }
        }
        "body, sent once" | "body, resent" => {
            let client = client(contender, patient(), Answer::well_every(if kind == "body, resent" { 2 } else { 1 }));
            let body = Bytes::from(vec![b'x'; usize::try_from(size).unwrap()]);
            for _ in 0..count {
                let mut request = Request::new(Method::PUT, url());
                *request.body_mut() = Some(Body::from(body.clone()));
                drop(client.execute(request).await.unwrap());
            }
        }
        other => panic!("no kind {other}"),
    }
}

/// What each request costs: the difference of two runs, which takes start-up out.
fn each(tool: &[&str], words: &str, kind: &str, contender: &str, size: u64) -> f64 {
    // Whole waves and rounds, the first of which is in both.
    let few = if matches!(kind, "in flight" | "origins") { LEAST.div_ceil(size) * size } else { 200 };
    let many = few + LEAST.div_ceil(few) * few;
    let count = |count| counting::number_after(&counting::valgrind(tool, &["run", kind, contender, &size.to_string()], count), words);
    (count(many) - count(few)) as f64 / (many - few) as f64
}

fn instructions(kind: &str, sizes: &[u64]) {
    println!("\n{kind}: instructions of each request, clone and ours, and the share");
    for size in sizes {
        let [clone, safe] = ["clone", "safe"]
            .map(|contender| each(&["--tool=callgrind", "--callgrind-out-file=/dev/null"], "Collected :", kind, contender, *size));
        println!("  {size:>8} {clone:>10.0} {safe:>10.0} {:>6.2} ×", safe / clone);
    }
}

fn bytes(kind: &str, sizes: &[u64]) {
    println!("\n{kind}: bytes that each request allocates, clone and ours");
    for size in sizes {
        let [clone, safe] =
            ["clone", "safe"].map(|contender| each(&["--tool=dhat", "--dhat-out-file=/dev/null"], "Total:", kind, contender, *size));
        println!("  {size:>8} {clone:>10.0} {safe:>10.0}");
    }
}

/// Requests a second of so many threads, which share one client and one origin.
fn throughput(client: &ClientWithMiddleware, threads: usize) -> f64 {
    let start = Arc::new(Barrier::new(threads));
    let workers: Vec<_> = (0..threads)
        .map(|_| {
            let (client, start) = (client.clone(), Arc::clone(&start));
            thread::spawn(move || {
                runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
                    start.wait();
                    let began = Instant::now();
                    for _ in 0..EACH / 10 {
                        join_all((0..10).map(|_| get(&client, url()))).await;
                    }
                    EACH as f64 / began.elapsed().as_secs_f64()
                })
            })
        })
        .collect();
    workers.into_iter().map(|worker| worker.join().unwrap()).sum()
}

fn threads() {
    println!("\ntwo threads on one origin: requests a second of one thread, and how many times that two do; medians of {ROUNDS}");
    let clients = ["clone", "safe"].map(|contender| client(contender, SafeRetry::new(), Answer::well_every(1)));
    let mut rounds = [Vec::new(), Vec::new()];
    for round in 0..ROUNDS {
        for turn in 0..2 {
            let place = (round + turn) % 2;
            let one = throughput(&clients[place], 1);
            rounds[place].push((one, throughput(&clients[place], 2) / one));
        }
    }
    for (contender, rounds) in ["clone", "safe"].iter().zip(rounds) {
        let median = |value: fn(&(f64, f64)) -> f64| {
            let mut values: Vec<f64> = rounds.iter().map(value).collect();
            values.sort_by(f64::total_cmp);
            values[values.len() / 2]
        };
        println!("  {contender:<6} {:>9.0} {:>6.2} ×", median(|round| round.0), median(|round| round.1));
    }
}

fn main() {
    let arguments: Vec<String> = env::args().skip(1).filter(|argument| argument != "--bench").collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    if let ["run", kind, contender, size, count] = arguments.as_slice() {
        let paused = matches!(*kind, "attempts" | "body, resent");
        let runtime = runtime::Builder::new_current_thread().enable_all().start_paused(paused).build().unwrap();
        return runtime.block_on(requests(kind, contender, size.parse().unwrap(), count.parse().unwrap()));
    }
    let is_wanted = |table: &str| arguments.is_empty() || arguments.contains(&table);
    let counted: [(&str, &[u64]); 4] = [
        ("in flight", &[1, 100, 500, 10_000, 100_000]),
        ("origins", &[1, 10, 1000, 10_000]),
        ("attempts", &[1, 2, 5, 10]),
        ("rows", &[1, 10, 100, 1000]),
    ];
    for (kind, sizes) in counted.into_iter().filter(|(kind, _)| is_wanted(kind)) {
        instructions(kind, sizes);
    }
    for kind in ["body, sent once", "body, resent"].into_iter().filter(|kind| is_wanted(kind)) {
        bytes(kind, &[16, 16 * 1024, 16 * 1024 * 1024]);
    }
    if is_wanted("threads") {
        threads();
    }
}
