//! What safety costs when nothing goes wrong: instructions per request, counted by valgrind, beside
//! the alternatives in the same run.
//!
//! `cargo bench --bench happy_path` needs `valgrind`. The peer is a terminal middleware that
//! answers 200 at once, so that only the client's own work is counted. Each scenario runs with two
//! numbers of requests; the difference takes start-up out.

#![expect(clippy::unwrap_used, clippy::expect_used, reason = "what fails here fails the run")]

use std::{env, process::Command};

use http::Extensions;
use reqwest::{Request, Response};
use reqwest_middleware::{ClientBuilder, ClientWithMiddleware, Middleware, Next};
use reqwest_safe_retry::{Endpoint, KeyContract, SafeRetry, SendWitness};

const SCENARIOS: [&str; 7] = ["nothing", "next", "clone", "reqwest-retry", "safe", "safe-witness", "safe-keyed-post"];
const FEW: u64 = 200;
const MANY: u64 = 1200;

/// Answers without a network.
struct Answer;

#[async_trait::async_trait]
impl Middleware for Answer {
    async fn handle(&self, _: Request, _: &mut Extensions, _: Next<'_>) -> reqwest_middleware::Result<Response> {
        Ok(Response::from(http::Response::new("")))
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

/// What any middleware that may resend has to do.
struct CloneOnce;

#[async_trait::async_trait]
impl Middleware for CloneOnce {
    async fn handle(&self, request: Request, extensions: &mut Extensions, next: Next<'_>) -> reqwest_middleware::Result<Response> {
        let copy = request.try_clone();
        let answer = next.run(request, extensions).await;
        drop(copy);
        answer
    }
}

fn client(scenario: &str) -> ClientWithMiddleware {
    let builder = ClientBuilder::new(reqwest::Client::new());
    let builder = match scenario {
        "nothing" => builder,
        "next" => builder.with(Pass),
        "clone" => builder.with(CloneOnce),
        "reqwest-retry" => {
            let policy = reqwest_retry::policies::ExponentialBackoff::builder().build_with_max_retries(2);
            builder.with(reqwest_retry::RetryTransientMiddleware::new_with_policy(policy))
        }
        "safe" | "safe-keyed-post" => builder.with(SafeRetry::new()),
        "safe-witness" => builder.with(SafeRetry::new()).with(SendWitness::default_redirects()),
        other => panic!("no scenario {other}"),
    };
    builder.with(Answer).build()
}

fn request(client: &ClientWithMiddleware, scenario: &str, size: &str) -> reqwest_middleware::RequestBuilder {
    let mut request = match scenario {
        "safe-keyed-post" => client.post("http://bench.example/orders").with_extension(Endpoint::keyed_write(KeyContract::STRIPE)),
        _ => client.get("http://bench.example/orders"),
    };
    if size == "large" {
        for number in 0..20 {
            request = request.header(format!("x-header-{number}"), "some value of usual length");
        }
        request = request.body(vec![b'x'; 16 * 1024]);
    }
    request
}

/// The measured program: so many requests, one after the other.
fn run(scenario: &str, size: &str, count: u64) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let client = client(scenario);
        for _ in 0..count {
            request(&client, scenario, size).send().await.unwrap();
        }
    });
}

/// Instructions of one such run, as callgrind counts them.
fn instructions(scenario: &str, size: &str, count: u64) -> u64 {
    let output = Command::new("valgrind")
        .args(["--tool=callgrind", "--callgrind-out-file=/dev/null"])
        .arg(env::current_exe().unwrap())
        .args(["--run", scenario, size, &count.to_string()])
        .output()
        .expect("this benchmark needs valgrind");
    let report = String::from_utf8_lossy(&output.stderr);
    let total = report.lines().find_map(|line| line.split("Collected :").nth(1)).unwrap_or_else(|| panic!("no count in {report}"));
    total.trim().parse().unwrap()
}

fn main() {
    let arguments: Vec<String> = env::args().skip(1).collect();
    if let [flag, scenario, size, count] = arguments.as_slice() {
        if flag == "--run" {
            return run(scenario, size, count.parse().unwrap());
        }
    }
    for size in ["small", "large"] {
        println!("\n{size} request: instructions each, and as a share of one clone");
        let mut floor = 0;
        for scenario in SCENARIOS {
            let each = (instructions(scenario, size, MANY) - instructions(scenario, size, FEW)) / (MANY - FEW);
            if scenario == "clone" {
                floor = each;
            }
            let share = if floor == 0 { String::new() } else { format!("{:>6.1} %", each as f64 / floor as f64 * 100.0) };
            println!("  {scenario:<16} {each:>8} {share}");
        }
    }
}
