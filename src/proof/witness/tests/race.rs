//! The moment in which the connection takes a request while our timer cuts it: of what is said to
//! be unsent, not even a head leaves, since a server may act on one.

#![expect(clippy::disallowed_methods, reason = "the race is about microseconds of real time")]

use std::{
    collections::HashSet,
    pin::pin,
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering},
    },
    task::{Context, Poll, Waker},
    thread,
    time::{Duration, Instant},
};

use bytes::Bytes;
use http::Version;
use http_body::{Body, SizeHint};
use http_body_util::BodyExt;
use hyper_util::rt::{TokioExecutor, TokioIo};
use reqwest::Request;
use tokio::net::TcpListener;

#[cfg(feature = "http2")]
use super::h2::*;
use super::support::*;
use crate::{
    policy::Evidence,
    proof::witness::{
        Watch,
        claim::{Claim, Stage},
        tracked::Tracked,
    },
};

/// A server that acts on the head of each request.
struct Origin {
    url: String,
    heads: Arc<Mutex<HashSet<String>>>,
}

impl Origin {
    async fn start(version: Version) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let heads = Arc::<Mutex<HashSet<String>>>::default();
        let origin = Self { url, heads: Arc::clone(&heads) };
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let heads = Arc::clone(&heads);
                let service = hyper::service::service_fn(move |request: http::Request<hyper::body::Incoming>| {
                    heads.lock().unwrap().insert(request.uri().path().to_owned());
                    async move {
                        // Read, so that the connection can go on.
                        let _ = request.into_body().collect().await;
                        Ok::<_, std::convert::Infallible>(http::Response::new(http_body_util::Empty::<Bytes>::new()))
                    }
                });
                let stream = TokioIo::new(stream);
                if version == Version::HTTP_2 {
                    tokio::spawn(hyper::server::conn::http2::Builder::new(TokioExecutor::new()).serve_connection(stream, service));
                } else {
                    tokio::spawn(hyper::server::conn::http1::Builder::new().serve_connection(stream, service));
                }
            }
        });
        origin
    }
}

fn builder(version: Version) -> reqwest::ClientBuilder {
    if version == Version::HTTP_2 { plain().http2_prior_knowledge() } else { plain() }
}

/// Holds hyper up in the window between its last look at the caller and the claim.
struct HeldUp(Tracked);

impl Body for HeldUp {
    type Data = Bytes;
    type Error = <Tracked as Body>::Error;

    fn poll_frame(mut self: std::pin::Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<http_body::Frame<Bytes>, Self::Error>>> {
        std::pin::Pin::new(&mut self.0).poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        thread::sleep(Duration::from_micros(300));
        self.0.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.0.size_hint()
    }
}

/// Waits for the future, but no longer than the limit, more exactly than a timer would.
async fn cut<F: Future>(future: F, limit: Duration) -> Option<F::Output> {
    let mut future = pin!(future);
    let begun = Instant::now();
    loop {
        if let Poll::Ready(output) = future.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            return Some(output);
        }
        if begun.elapsed() >= limit {
            return None;
        }
        tokio::task::yield_now().await;
    }
}

/// Spreads limits over the range without a generator.
fn up_to(most: Duration) -> Duration {
    static STEP: AtomicU64 = AtomicU64::new(0);
    let step = STEP.fetch_add(0x9e37_79b9_7f4a_7c15, Ordering::Relaxed) >> 44;
    most * u32::try_from(step).unwrap() / (1 << 20)
}

#[derive(Debug, Default)]
struct Count {
    unsent: usize,
    unknown: usize,
    answered: usize,
}

/// Cuts many requests around the moment they are sent, each with a path of its own.
async fn race(version: Version, shape: Shape, runs: usize, send: impl AsyncFn(Request) -> (bool, Evidence)) -> Count {
    let origin = Origin::start(version).await;
    let (mut count, mut unsent) = (Count::default(), HashSet::new());
    for run in 0..runs {
        let path = format!("/{run}");
        let (answered, evidence) = send(shape.request(&format!("{}{path}", origin.url))).await;
        match evidence {
            Evidence::Unprocessed => {
                count.unsent += 1;
                unsent.insert(path);
            }
            Evidence::Unknown if answered => count.answered += 1,
            Evidence::Unknown => count.unknown += 1,
        }
    }
    // What is still on its way gets the time of another request.
    builder(version).build().unwrap().get(format!("{}/last", origin.url)).send().await.unwrap();
    let heads = origin.heads.lock().unwrap();
    let wrongly: Vec<_> = unsent.intersection(&heads).collect();
    assert!(wrongly.is_empty(), "{version:?} {shape:?}: {} of {} unsent requests arrived: {wrongly:?}", wrongly.len(), unsent.len());
    count
}

/// How many requests each race cuts. `RACES=20000 cargo test --release race` for a long one.
fn races(default: usize) -> usize {
    std::env::var("RACES").ok().and_then(|races| races.parse().ok()).unwrap_or(default)
}

const VERSIONS: &[Version] = if cfg!(feature = "http2") { &[Version::HTTP_11, Version::HTTP_2] } else { &[Version::HTTP_11] };

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_request_held_up_in_the_window_is_sent_or_unsent_never_both() {
    for &version in VERSIONS {
        for shape in Shape::ALL {
            let client = builder(version).build().unwrap();
            let count = race(version, shape, races(400), async |mut request| {
                let claim = Arc::new(Claim::waiting());
                let body = request.body_mut().take().unwrap_or_default();
                *request.body_mut() = Some(reqwest::Body::wrap(HeldUp(Tracked::new(body, Arc::clone(&claim)))));
                let answered = cut(client.execute(request), up_to(Duration::from_millis(1))).await.is_some();
                (answered, if claim.stage() == Stage::Dropped { Evidence::Unprocessed } else { Evidence::Unknown })
            })
            .await;
            println!("held up, {version:?} {shape:?}: {count:?}");
            assert!(count.unknown > 0, "no race: {count:?}");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_request_cut_while_connecting_is_sent_or_unsent_never_both() {
    for &version in VERSIONS {
        for shape in Shape::ALL {
            let clients = [Road::PavedOff.client(builder(version)), Road::PavedOff.client(builder(version).pool_max_idle_per_host(0))];
            let turn = AtomicU64::new(0);
            let count = race(version, shape, races(1000), async |request| {
                // Half of them over a connection that is there, half while connecting.
                let client = &clients[(turn.fetch_add(1, Ordering::Relaxed) % 2) as usize];
                cut_and_asked(client, request, up_to(Duration::from_millis(1))).await
            })
            .await;
            println!("cut, {version:?} {shape:?}: {count:?}");
            assert!(count.unsent > 0 && count.unsent < races(1000), "no race: {count:?}");
        }
    }
}

async fn cut_and_asked(client: &reqwest_middleware::ClientWithMiddleware, request: Request, limit: Duration) -> (bool, Evidence) {
    let (slot, mut extensions) = watched_extensions(Watch::Body);
    let answered = cut(client.execute_with_extensions(request, &mut extensions), limit).await.is_some();
    // Too early even for the witness: nothing was sent.
    (answered, slot.verdict().unwrap_or(Evidence::Unprocessed))
}

/// A server that shuts down gracefully tells so at any moment, and goes on with what it has. h2
/// hands its GOAWAY also to a stream that opens in that moment, although the server counts that
/// stream in.
#[cfg(feature = "http2")]
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_request_sent_while_the_server_goes_away_is_not_taken_for_refused() {
    let runs = races(60);
    let pass = |time| cut(std::future::pending::<()>(), time);
    let peer = Peer::serving(move |mut wire| async move {
        wire.greet_h2().await;
        let Some(first) = wire.h2_request().await else { return };
        wire.say(h2_ok(first)).await;
        pass(Duration::from_micros(150)).await;
        wire.say(h2_frame(7, 0, 0, &[0x7fff_ffff_u32.to_be_bytes(), [0; 4]].concat())).await;
        while let Some(stream) = wire.h2_request().await {
            wire.say(h2_ok(stream)).await;
        }
    })
    .await;
    for shape in [Shape::EmptyPost, Shape::Post] {
        let mut said_unsent = vec![];
        for _ in 0..runs {
            let (client, url, before) = (Road::PavedOff.client(builder(Version::HTTP_2)), peer.url("/"), peer.everything().len());
            let sending = tokio::spawn(async move {
                // On a busy machine even this one meets the GOAWAY, after it was answered.
                witnessed(&client, Shape::Get.request(&url), PATIENCE, Watch::Errors).await;
                let (begun, moment) = (Instant::now(), up_to(Duration::from_micros(300)));
                while begun.elapsed() < moment {
                    std::hint::spin_loop();
                }
                witnessed(&client, shape.request(&url), PATIENCE, Watch::Body).await
            });
            let came = sending.await.unwrap();
            if came.evidence == Evidence::Unprocessed {
                said_unsent.push(before..peer.everything().len());
            }
        }
        // What is still on its way gets the time of another request.
        let _ = builder(Version::HTTP_2).build().unwrap().get(peer.url("/")).send().await;
        let heard = peer.everything();
        let wrongly = said_unsent
            .iter()
            .filter(|run| heard[(*run).clone()].iter().any(|bytes| h2_frames(bytes).iter().any(is_head_of_a_write)))
            .count();
        assert_eq!(wrongly, 0, "{shape:?}: of {} unsent requests", said_unsent.len());
    }
}

#[cfg(feature = "http2")]
fn is_head_of_a_write(frame: &Frame) -> bool {
    frame.kind == 1 && frame.payload.first() == Some(&0x83)
}
