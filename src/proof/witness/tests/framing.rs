//! The witness is invisible: on the wire byte for byte, and to the middlewares before it.

use std::sync::{Arc, Mutex};

use http::{
    Extensions, HeaderValue, Method,
    header::{CONTENT_LENGTH, CONTENT_TYPE},
};
use reqwest::{Body, Request, Response, multipart};
use reqwest_middleware::{Middleware, Next, Result};

#[cfg(feature = "http2")]
use super::h2::*;
use super::support::*;
use crate::proof::witness::{Strays, Watch};

/// Every way to shape a request that reqwest frames differently.
fn shapes(url: &str) -> Vec<(&'static str, Request)> {
    let client = reqwest::Client::new();
    let post = || client.post(url);
    let stream = || Body::wrap_stream(futures_util::stream::iter([Ok::<_, std::io::Error>("first"), Ok("second")]));
    let form = || multipart::Form::new().text("name", "value").part("file", multipart::Part::bytes(vec![1; 3000]).file_name("a.bin"));
    [
        ("get", client.get(url)),
        ("head", client.head(url)),
        ("delete", client.delete(url)),
        ("get with a body", client.get(url).body("odd")),
        ("post without a body", post()),
        ("post of an empty string", post().body("")),
        ("post of an empty vector", post().body(Vec::new())),
        ("put without a body", client.put(url)),
        ("post of bytes", post().body("0123456789")),
        ("post of a mebibyte", post().body(vec![7; 1 << 20])),
        ("post of json", post().json(&serde_json::json!({"amount": 12, "to": "me"}))),
        ("post of a form", post().form(&[("amount", "12")])),
        ("post of a stream", post().body(stream())),
        ("post of a stream with its length", post().body(stream()).header(CONTENT_LENGTH, 11)),
        ("post of nothing with its length", post().header(CONTENT_LENGTH, 0)),
        ("put of bytes with their length", client.put(url).body("0123").header(CONTENT_LENGTH, 4)),
        ("post of a multipart form", post().multipart(form())),
    ]
    .into_iter()
    .map(|(name, request)| (name, with_fixed_boundary(request.build().unwrap())))
    .collect()
}

/// A multipart boundary is random: fixes the one in the header, and `heard` the ones in the body.
fn with_fixed_boundary(mut request: Request) -> Request {
    if let Some(value) = request.headers_mut().get_mut(CONTENT_TYPE) {
        if value.as_bytes().starts_with(b"multipart/") {
            *value = HeaderValue::from_static("multipart/form-data; boundary=boundary");
        }
    }
    request
}

/// What arrived, without the boundaries.
fn without_boundaries(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes);
    text.lines().map(|line| if line.starts_with("--") { "--boundary" } else { line }).collect::<Vec<_>>().join("\n")
}

/// Sends every shape over a connection of its own and keeps what arrived.
async fn plainly(peer: &Peer, builder: fn() -> reqwest::ClientBuilder) -> Vec<Vec<u8>> {
    let before = peer.everything().len();
    for (_, request) in shapes(&peer.url("/orders?page=1")) {
        builder().build().unwrap().execute(request).await.unwrap();
    }
    peer.everything().split_off(before)
}

async fn by_witness(peer: &Peer, road: Road, watch: Watch, builder: fn() -> reqwest::ClientBuilder) -> Vec<Vec<u8>> {
    let before = peer.everything().len();
    for (_, request) in shapes(&peer.url("/orders?page=1")) {
        witnessed(&road.client(builder()), request, PATIENCE, watch).await.result.unwrap().unwrap();
    }
    peer.everything().split_off(before)
}

#[tokio::test]
async fn every_shape_is_framed_as_without_the_witness() {
    let peer = Peer::answering(|_| ok()).await;
    let plain_bytes = plainly(&peer, plain).await;
    for road in Road::ALL {
        for watch in [Watch::Errors, Watch::Sends, Watch::Body] {
            let bytes = by_witness(&peer, road, watch, plain).await;
            for (((name, _), plain), witnessed) in shapes(&peer.url("/")).iter().zip(&plain_bytes).zip(&bytes) {
                assert_eq!(requests_in(plain).len(), 1, "{name}");
                assert_eq!(without_boundaries(witnessed), without_boundaries(plain), "{name}: {road:?} {watch:?}");
            }
        }
    }
}

#[cfg(feature = "http2")]
#[tokio::test]
async fn every_shape_is_framed_as_without_the_witness_on_http2() {
    /// Heads, data and where the stream ends. How the data is cut into frames depends on windows.
    fn request(bytes: &[u8]) -> (Vec<Frame>, String, Vec<bool>) {
        let frames: Vec<_> = h2_frames(bytes).into_iter().filter(Frame::is_of_request).collect();
        let (heads, data): (Vec<_>, Vec<_>) = frames.into_iter().partition(|frame| frame.kind == 1);
        let ends = data.last().map(|last| (last.ends_request(), last.payload.is_empty()));
        let bytes = data.into_iter().flat_map(|frame| frame.payload).collect::<Vec<_>>();
        (heads, without_boundaries(&bytes), ends.into_iter().flat_map(|(ends, empty)| [ends, empty]).collect())
    }
    let builder = || plain().http2_prior_knowledge();
    let peer = Peer::serving(|mut wire| async move {
        wire.greet_h2().await;
        while let Some(stream) = wire.h2_request().await {
            wire.say(h2_ok(stream)).await;
        }
    })
    .await;
    let plain_bytes = plainly(&peer, builder).await;
    for (road, watch) in Road::ALL.into_iter().flat_map(|road| [Watch::Sends, Watch::Body].map(|watch| (road, watch))) {
        let bytes = by_witness(&peer, road, watch, builder).await;
        for (((name, _), plain), witnessed) in shapes(&peer.url("/")).iter().zip(&plain_bytes).zip(&bytes) {
            assert!(!request(plain).0.is_empty(), "{name}");
            assert_eq!(request(witnessed), request(plain), "{name}: {road:?} {watch:?}");
        }
    }
}

/// Remembers the bytes it could sign.
#[derive(Clone, Default)]
struct Signer(Arc<Mutex<Vec<Option<usize>>>>);

#[async_trait::async_trait]
impl Middleware for Signer {
    async fn handle(&self, request: Request, extensions: &mut Extensions, next: Next<'_>) -> Result<Response> {
        self.0.lock().unwrap().push(request.body().and_then(Body::as_bytes).map(<[u8]>::len));
        next.run(request, extensions).await
    }
}

#[tokio::test]
async fn a_signer_before_the_witness_sees_the_bytes() {
    let peer = Peer::answering(|_| ok()).await;
    for road in Road::ALL {
        let signer = Signer::default();
        let client = road.client_with(plain(), signer.clone());
        witnessed(&client, Shape::Post.request(&peer.url("/")), PATIENCE, Watch::Body).await;
        assert_eq!(*signer.0.lock().unwrap(), [Some(10)], "{road:?}");
    }
}

#[tokio::test]
async fn a_request_without_a_slot_passes_untouched() {
    let peer = Peer::answering(|request| if request.starts_with("POST /moved") { redirect_to(307, "/") } else { ok() }).await;
    for witness in
        [crate::SendWitness::redirects_off(), crate::SendWitness::default_redirects(), crate::SendWitness::counted(Strays::default())]
    {
        let client = reqwest_middleware::ClientBuilder::new(plain().build().unwrap()).with(witness).build();
        let answer = client.request(Method::POST, peer.url("/moved")).body("0123456789").send().await.unwrap();
        assert_eq!((answer.status().as_u16(), answer.url().path()), (200, "/"), "not even wrapped");
    }
}
