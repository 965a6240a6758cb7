//! What a middleware costs in throughput on a real socket: one request in flight and 64 on loopback,
//! over HTTP/1 and HTTP/2, all contenders in one run.
//!
//! `cargo bench --bench loopback` prints tables: the median over the rounds of the throughput, and
//! of its share of that of plain reqwest and of the empty middleware in the same round. The server
//! has a thread of its own, and the client another. Contenders take turns, so that a busy machine
//! slows all alike; what it hardly disturbs are the last columns: what the client's thread computes
//! for each request (Linux), and the same shares of it.

#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "what fails here fails the run")]

use std::{convert::Infallible, env, fs, net::SocketAddr, sync::mpsc, thread, time::Duration};

use futures_util::future::join_all;
use http::Extensions;
use hyper::{server::conn, service::service_fn};
use hyper_util::rt::{TokioExecutor, TokioIo};
use reqwest::{Request, Response, Url, redirect};
use reqwest_middleware::{ClientBuilder, ClientWithMiddleware, Middleware, Next};
use reqwest_retry::{RetryTransientMiddleware, policies::ExponentialBackoff};
use reqwest_safe_retry::{SafeRetry, SendWitness};
use tokio::{net::TcpListener, runtime, time::Instant};

const IN_FLIGHT: [usize; 2] = [1, 64];
/// Of a contender in a round.
const REQUESTS: usize = 3072;
const ROUNDS: usize = 25;
const LIMIT: Duration = Duration::from_secs(10);

#[derive(Clone, Copy, PartialEq, Eq)]
enum Protocol {
    Http1,
    Http2,
}

const CONTENDERS: [&str; 7] = ["plain reqwest", "empty middleware", "clone", "reqwest-retry", "ours", "ours, both limits", "ours, paved"];
/// The places of what the others are measured against.
const PLAIN: usize = 0;
const EMPTY: usize = 1;

/// Hands on.
struct Pass;

#[async_trait::async_trait]
impl Middleware for Pass {
    async fn handle(&self, request: Request, extensions: &mut Extensions, next: Next<'_>) -> reqwest_middleware::Result<Response> {
        next.run(request, extensions).await
    }
}

/// What any middleware that may resend has to do.
struct Cloning;

#[async_trait::async_trait]
impl Middleware for Cloning {
    async fn handle(&self, request: Request, extensions: &mut Extensions, next: Next<'_>) -> reqwest_middleware::Result<Response> {
        let copy = request.try_clone();
        let answer = next.run(request, extensions).await;
        drop(copy);
        answer
    }
}

enum Client {
    Plain(reqwest::Client),
    Wrapped(ClientWithMiddleware),
}

impl Client {
    fn new(contender: &str, protocol: Protocol) -> Self {
        let builder = reqwest::Client::builder().no_proxy().retry(reqwest::retry::never());
        let builder = if protocol == Protocol::Http2 { builder.http2_prior_knowledge() } else { builder };
        let limited = || SafeRetry::new().with_deadline(LIMIT).with_attempt_limit(LIMIT / 2);
        if contender == "ours, paved" {
            return Self::Wrapped(limited().client(builder).redirects_off().build().unwrap());
        }
        let client = builder.redirect(redirect::Policy::none()).build().unwrap();
        let wrapped = ClientBuilder::new(client.clone());
        let ours = |retry: SafeRetry| ClientBuilder::new(client.clone()).with(retry).with(SendWitness::redirects_off());
        Self::Wrapped(match contender {
            "plain reqwest" => return Self::Plain(client),
            "empty middleware" => wrapped.with(Pass).build(),
            "clone" => wrapped.with(Cloning).build(),
            "reqwest-retry" => {
                let policy = ExponentialBackoff::builder().build_with_max_retries(3);
                wrapped.with(RetryTransientMiddleware::new_with_policy(policy)).build()
            }
            "ours" => ours(SafeRetry::new()).build(),
            _ => ours(limited()).build(),
        })
    }

    async fn get(&self, url: &Url) {
        let answer = match self {
            Self::Plain(client) => client.get(url.clone()).send().await.unwrap(),
            Self::Wrapped(client) => client.get(url.clone()).send().await.unwrap(),
        };
        assert_eq!(answer.bytes().await.unwrap(), "ok");
    }

    async fn run(&self, url: &Url, in_flight: usize) -> Run {
        let (began, before) = (Instant::now(), computed());
        join_all((0..in_flight).map(|_| async {
            for _ in 0..REQUESTS / in_flight {
                self.get(url).await;
            }
        }))
        .await;
        let requests = REQUESTS as f64;
        Run { throughput: requests / began.elapsed().as_secs_f64(), speed: requests / (computed() - before) }
    }
}

/// One round of a contender.
#[derive(Clone, Copy, Default)]
struct Run {
    /// Requests a second.
    throughput: f64,
    /// Requests a second of computing by the client's thread.
    speed: f64,
}

type Value = fn(&Run) -> f64;

/// The seconds that this thread has computed; not a number where the system does not tell.
fn computed() -> f64 {
    let told = fs::read_to_string("/proc/thread-self/schedstat").ok();
    told.and_then(|told| told.split(' ').next()?.parse::<f64>().ok()).map_or(f64::NAN, |nanos| nanos / 1e9)
}

fn in_a_runtime<T>(work: impl Future<Output = T>) -> T {
    runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(work)
}

/// Answers every request of either protocol, in a thread that ends with the process.
fn serve(protocol: Protocol) -> SocketAddr {
    let (tell, told) = mpsc::channel();
    thread::spawn(move || {
        in_a_runtime(async move {
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            tell.send(listener.local_addr().unwrap()).unwrap();
            loop {
                let (socket, _) = listener.accept().await.unwrap();
                socket.set_nodelay(true).unwrap();
                let answer = service_fn(async |_| Ok::<_, Infallible>(http::Response::new("ok".to_owned())));
                tokio::spawn(async move {
                    let socket = TokioIo::new(socket);
                    let served = match protocol {
                        Protocol::Http1 => conn::http1::Builder::new().serve_connection(socket, answer).await,
                        Protocol::Http2 => conn::http2::Builder::new(TokioExecutor::new()).serve_connection(socket, answer).await,
                    };
                    // The client leaves at the end.
                    drop(served);
                });
            }
        });
    });
    told.recv().unwrap()
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// One contender alone, for a profiler.
fn alone(contender: &str, protocol: Protocol) {
    let url: Url = format!("http://{}/", serve(protocol)).parse().unwrap();
    in_a_runtime(async {
        let client = Client::new(contender, protocol);
        for _ in 0..4 * ROUNDS {
            client.run(&url, IN_FLIGHT[1]).await;
        }
    });
}

/// All contenders in each round, and each of them first in some.
async fn compare(url: &Url, protocol: Protocol, in_flight: usize) -> Vec<[Run; CONTENDERS.len()]> {
    let clients = CONTENDERS.map(|contender| Client::new(contender, protocol));
    for client in &clients {
        client.run(url, in_flight).await;
    }
    let mut rounds = vec![[Run::default(); CONTENDERS.len()]; ROUNDS];
    for (number, round) in rounds.iter_mut().enumerate() {
        for turn in 0..CONTENDERS.len() {
            let place = (number + turn) % CONTENDERS.len();
            round[place] = clients[place].run(url, in_flight).await;
        }
    }
    rounds
}

fn print(rounds: &[[Run; CONTENDERS.len()]]) {
    let (throughput, speed): (Value, Value) = (|run| run.throughput, |run| run.speed);
    for (place, contender) in CONTENDERS.iter().enumerate() {
        let of = |value: Value| median(rounds.iter().map(|round| value(&round[place])).collect());
        let share = |value: Value, of: usize| median(rounds.iter().map(|round| value(&round[place]) / value(&round[of])).collect());
        print!("  {contender:18} {:6.0}  {:.2}  {:.2}", of(throughput), share(throughput, PLAIN), share(throughput, EMPTY));
        println!("  {:6.1}  {:.2}  {:.2}", 1e6 / of(speed), share(speed, PLAIN), share(speed, EMPTY));
    }
}

fn main() {
    let arguments: Vec<String> = env::args().skip(1).filter(|argument| argument != "--bench").collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        [contender, "h1"] => return alone(contender, Protocol::Http1),
        [contender, "h2"] => return alone(contender, Protocol::Http2),
        _ => {}
    }
    for (protocol, name) in [(Protocol::Http1, "HTTP/1"), (Protocol::Http2, "HTTP/2")] {
        let url: Url = format!("http://{}/", serve(protocol)).parse().unwrap();
        for in_flight in IN_FLIGHT {
            println!("{name}, {in_flight} in flight: requests a second, of plain, of empty; µs computed for each, of plain, of empty");
            print(&in_a_runtime(compare(&url, protocol, in_flight)));
        }
    }
}
