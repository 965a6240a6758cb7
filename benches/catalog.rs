//! What a catalogue costs as it grows: to build, to read from a file, to find a row in. Printed,
//! never asserted.
//!
//! `cargo bench --bench catalog --features serde`. A look-up is timed through a whole client whose
//! peer is a terminal middleware that answers at once; the same request through a client without a
//! catalogue is taken off. Of several rounds the quickest counts.

#![expect(clippy::unwrap_used, reason = "what fails here fails the run")]
#![expect(clippy::disallowed_methods, reason = "real time is what this measures")]

use std::{
    fmt::Write as _,
    time::{Duration, Instant},
};

use http::{Extensions, Method};
use reqwest::{Request, Response, Url};
use reqwest_middleware::{ClientBuilder, ClientWithMiddleware, Middleware, Next};
use reqwest_safe_retry::{Endpoint, EndpointCatalog, Row, SafeRetry};

const SIZES: [usize; 4] = [10, 100, 1_000, 8_192];
const ROUNDS: usize = 15;
const REQUESTS: u32 = 2_000;

/// Answers without a network.
struct Answer;

#[async_trait::async_trait]
impl Middleware for Answer {
    async fn handle(&self, _: Request, _: &mut Extensions, _: Next<'_>) -> reqwest_middleware::Result<Response> {
        Ok(Response::from(http::Response::new("")))
    }
}

/// Rows that differ in one thing, and a request that finds the last of them, or none after looking
/// everywhere.
struct Family {
    name: &'static str,
    rows: fn(usize) -> Vec<(String, Row)>,
    request: fn(usize) -> (Method, String),
}

const API: &str = "https://api.example.com";

const FAMILIES: [Family; 7] = [
    Family {
        name: "by a literal",
        rows: |count| numbered(count, |n| Row::get(format!("/v1/thing{n}/{{id}}"), Endpoint::read())),
        request: |count| (Method::GET, format!("{API}/v1/thing{}/7", count - 1)),
    },
    Family {
        name: "behind a parameter",
        rows: |count| numbered(count, |n| Row::get(format!("/v1/{{id}}:action{n}"), Endpoint::read())),
        request: |count| (Method::GET, format!("{API}/v1/7:action{}", count - 1)),
    },
    Family {
        name: "behind a parameter, none",
        rows: |count| numbered(count, |n| Row::get(format!("/v1/{{id}}:action{n}"), Endpoint::read())),
        request: |_| (Method::GET, format!("{API}/v1/7:actionX")),
    },
    Family {
        name: "by port",
        rows: |count| {
            (0..count).map(|n| (format!("http://api.example.com:{}", 1024 + n), Row::get("/v1/{id}", Endpoint::read()))).collect()
        },
        request: |count| (Method::GET, format!("http://api.example.com:{}/v1/7", 1023 + count)),
    },
    Family {
        name: "by host",
        rows: |count| (0..count).map(|n| (format!("https://h{n}.example.com"), Row::get("/v1/{id}", Endpoint::read()))).collect(),
        request: |count| (Method::GET, format!("https://h{}.example.com/v1/7", count - 1)),
    },
    Family {
        name: "by method",
        rows: |count| numbered(count, |n| Row::new(method(n), "/v1/{id}", Endpoint::read())),
        request: |count| (method(count - 1), format!("{API}/v1/7")),
    },
    Family {
        name: "both at each level, none",
        rows: |count| numbered(count, |n| Row::get(format!("{}/end", both(n)), Endpoint::read())),
        request: |_| (Method::GET, format!("{API}{}/other", "/a".repeat(LEVELS))),
    },
];

const LEVELS: usize = 13;

/// A literal or a parameter at each level, as the bits say.
fn both(bits: usize) -> String {
    (0..LEVELS).map(|level| if bits >> level & 1 == 0 { "/a" } else { "/{p}" }).collect()
}

fn method(n: usize) -> Method {
    format!("M{n}").parse().unwrap()
}

fn numbered(count: usize, row: impl Fn(usize) -> Row) -> Vec<(String, Row)> {
    (0..count).map(|n| (API.to_owned(), row(n))).collect()
}

fn built(rows: Vec<(String, Row)>) -> EndpointCatalog {
    rows.into_iter().fold(EndpointCatalog::new(), |catalog, (origin, row)| catalog.with_row(&origin, row).unwrap())
}

fn client(catalog: Option<EndpointCatalog>) -> ClientWithMiddleware {
    let retry = catalog.into_iter().fold(SafeRetry::new(), SafeRetry::with_catalog);
    ClientBuilder::new(reqwest::Client::new()).with(retry).with(Answer).build()
}

/// Nanoseconds that one client takes longer than the other for the same request, turn about.
fn longer(
    runtime: &tokio::runtime::Runtime,
    with: &ClientWithMiddleware,
    without: &ClientWithMiddleware,
    method: &Method,
    url: &Url,
) -> f64 {
    let round = |client: &ClientWithMiddleware| {
        let start = Instant::now();
        runtime.block_on(async {
            for _ in 0..REQUESTS {
                client.request(method.clone(), url.clone()).send().await.unwrap();
            }
        });
        start.elapsed().as_secs_f64() * 1e9 / f64::from(REQUESTS)
    };
    let quickest = |times: &[(f64, f64)], of: fn(&(f64, f64)) -> f64| times.iter().map(of).fold(f64::INFINITY, f64::min);
    let times: Vec<_> = (0..ROUNDS).map(|_| (round(with), round(without))).collect();
    quickest(&times, |(with, _)| *with) - quickest(&times, |(_, without)| *without)
}

fn timed<T>(work: impl FnOnce() -> T) -> (T, Duration) {
    let start = Instant::now();
    let made = work();
    (made, start.elapsed())
}

fn main() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let without = client(None);
    println!("ns that finding a row adds to a request");
    println!("{:26}{}", "rows that differ", SIZES.map(|size| format!("{size:>9}")).concat());
    for Family { name, rows, request } in FAMILIES {
        let mut line = format!("{name:26}");
        for size in SIZES {
            let with = client(Some(built(rows(size))));
            let (method, url) = request(size);
            let _ = write!(line, "{:9.0}", longer(&runtime, &with, &without, &method, &url.parse().unwrap()));
        }
        println!("{line}");
    }

    println!("\nµs a row");
    for size in [1_000, 10_000, 100_000] {
        let rows = numbered(size, |n| Row::post(format!("/v1/thing{n}/{{id}}/note"), Endpoint::read()));
        let (_, in_code) = timed(|| built(rows));
        let mut toml = String::new();
        let mut json = Vec::new();
        for n in 0..size {
            let fields = [("origin", API), ("method", "POST"), ("path", &format!("/v1/thing{n}/{{id}}/note")), ("effect", "read")];
            toml.push_str("[[endpoint]]\n");
            fields.iter().for_each(|(field, value)| writeln!(toml, "{field} = \"{value}\"").unwrap());
            json.push(format!("{{{}}}", fields.map(|(field, value)| format!("\n\"{field}\": \"{value}\"")).join(",")));
        }
        let json = format!("{{\"endpoint\": [{}]}}", json.join(",\n"));
        let (_, from_toml) = timed(|| EndpointCatalog::from_toml(&toml).unwrap());
        let (_, from_json) = timed(|| EndpointCatalog::from_json(&json).unwrap());
        let each = |time: Duration| time.as_secs_f64() * 1e6 / size as f64;
        println!("{size:>7} rows: in code {:.2}, from TOML {:.2}, from JSON {:.2}", each(in_code), each(from_toml), each(from_json));
    }
}
