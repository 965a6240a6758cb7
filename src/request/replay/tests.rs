use std::{
    convert::Infallible,
    net::SocketAddr,
    sync::{
        Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use bytes::Bytes;
use futures_util::{StreamExt as _, stream};
use http::{HeaderMap, HeaderValue, Method, StatusCode, Version, request};
use http_body::{Body as _, Frame};
use http_body_util::{BodyExt as _, Full, StreamBody};
use hyper::{server::conn::http1, service::service_fn};
use hyper_util::rt::TokioIo;
use reqwest::{
    Client, Url,
    multipart::{Form, Part},
};
use tokio::{net::TcpListener, sync::mpsc, task::JoinHandle};

use super::*;

const MIB: usize = 1024 * 1024;

/// Bytes without a pattern that framing errors could hide in.
fn noise(length: usize) -> Bytes {
    let mut state = 0x2545_f491_4f6c_dd1d_u64;
    let bytes = std::iter::repeat_with(|| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state.to_le_bytes()[0]
    });
    bytes.take(length).collect()
}

/// A body that does not know its length.
fn streamed(pieces: impl IntoIterator<Item = Bytes, IntoIter: Send + 'static>) -> Body {
    Body::wrap_stream(stream::iter(pieces).map(Ok::<_, io::Error>))
}

fn in_pieces(whole: &Bytes, size: usize) -> Body {
    streamed(whole.chunks(size).map(|piece| whole.slice_ref(piece)).collect::<Vec<_>>())
}

fn url(path: &str) -> Url {
    Url::parse("http://peer.example").unwrap().join(path).unwrap()
}

fn post(path: &str) -> Request {
    Request::new(Method::POST, url(path))
}

// ===== lengths =====

async fn sent(factory: &ReplayBody) -> Result<Bytes, String> {
    let collected = factory.make().map_err(|error| error.to_string())?.collect().await;
    collected.map(http_body_util::Collected::to_bytes).map_err(|error| format!("{error:?}"))
}

#[tokio::test]
async fn a_stated_length_is_known_before_the_body_is_read() {
    let factory = ReplayBody::from_fn(|| Ok(streamed(["four".into(), "five!".into()])));
    assert_eq!(factory.make().unwrap().size_hint().exact(), None);
    let factory = factory.with_length(9);
    let body = factory.make().unwrap();
    assert_eq!(body.size_hint().exact(), Some(9));
    assert_eq!(body.collect().await.unwrap().to_bytes(), "fourfive!");
    assert_eq!(sent(&factory).await.unwrap(), "fourfive!");
}

#[tokio::test]
async fn a_body_of_another_length_than_stated_is_never_complete() {
    let pieces: [&'static str; 4] = ["one", "", "two", ""];
    let streamed = move || Ok(streamed(pieces.map(Bytes::from)));
    for stated in 0..12 {
        let mut body = ReplayBody::from_fn(streamed).with_length(stated).make().unwrap();
        let mut arrived = 0;
        let failure = loop {
            match body.frame().await {
                Some(Ok(frame)) => arrived += frame.into_data().unwrap().len() as u64,
                Some(Err(error)) => break Some(error),
                None => break None,
            }
        };
        assert_eq!(failure.is_none(), stated == 6, "{stated}");
        assert!(arrived < stated || stated == 6 || stated == 0, "{arrived} of {stated}: the peer could take it for complete");
    }
    let known = ReplayBody::from_fn(|| Ok("six by".into()));
    assert!(known.clone().with_length(6).make().is_ok());
    assert!(known.with_length(7).make().is_err());
}

#[tokio::test]
async fn a_failing_body_stays_failed_and_trailers_come_last() {
    let failing = || Ok(Body::wrap_stream(stream::iter([Ok(Bytes::from("half")), Err(io::Error::other("gone"))])));
    let mut body = ReplayBody::from_fn(failing).with_length(8).make().unwrap();
    assert!(body.frame().await.unwrap().is_ok());
    assert!(body.frame().await.unwrap().is_err());
    assert!(body.frame().await.is_none());

    let trailers = || HeaderMap::from_iter([(http::header::ETAG, HeaderValue::from_static("sum"))]);
    let frames = move || [Ok::<_, Infallible>(Frame::data(Bytes::from("data"))), Ok(Frame::trailers(trailers()))];
    let trailed = ReplayBody::from_fn(move || Ok(Body::wrap(StreamBody::new(stream::iter(frames())))));
    let collected = trailed.with_length(4).make().unwrap().collect().await.unwrap();
    assert_eq!(collected.trailers(), Some(&trailers()));
    assert_eq!(collected.to_bytes(), "data");
}

// ===== what an attempt is made of =====

fn with_headers(mut request: Request, headers: &[(&'static str, &'static str)]) -> Request {
    for &(name, value) in headers {
        request.headers_mut().append(name, HeaderValue::from_static(value));
    }
    request
}

fn fill(factory: ReplayRequest, operation: Request) -> Result<Request, ReplayError> {
    factory.fill(operation, &[HeaderName::from_static("idempotency-key")])
}

#[test]
fn the_made_headers_replace_the_operations_and_the_key_stays() {
    let operation = with_headers(
        post("/orders"),
        &[
            ("idempotency-key", "first"),
            ("authorization", "stays"),
            ("accept", "old-a"),
            ("accept", "old-b"),
            ("content-type", "old"),
            ("content-length", "7"),
            ("content-md5", "old"),
            ("transfer-encoding", "old"),
        ],
    );
    let factory = ReplayRequest::from_fn(|| {
        let headers =
            [("content-type", "new"), ("accept", "new-a"), ("accept", "new-b"), ("idempotency-key", "second"), ("x-digest", "new")];
        let mut made = with_headers(post("/orders"), &headers);
        *made.body_mut() = Some("body".into());
        Ok::<_, Infallible>(made)
    });
    let attempt = fill(factory, operation).unwrap();
    assert_eq!(attempt.body().unwrap().as_bytes(), Some(&b"body"[..]));
    let mut headers: Vec<_> = attempt.headers().iter().map(|(name, value)| (name.as_str(), value.to_str().unwrap())).collect();
    headers.sort_unstable();
    let expected = [
        ("accept", "new-a"),
        ("accept", "new-b"),
        ("authorization", "stays"),
        ("content-type", "new"),
        ("idempotency-key", "first"),
        ("x-digest", "new"),
    ];
    assert_eq!(headers, expected);
}

#[test]
fn a_key_that_only_the_factory_knows_is_not_sent() {
    let factory = ReplayRequest::from_fn(|| {
        let mut made = with_headers(post("/"), &[("idempotency-key", "fresh")]);
        *made.body_mut() = Some("body".into());
        Ok::<_, Infallible>(made)
    });
    assert!(fill(factory, post("/")).unwrap().headers().is_empty());
}

#[test]
fn another_operation_or_none_is_refused() {
    fn with_body(mut request: Request) -> impl Fn() -> Result<Request, Infallible> + Send + Sync {
        *request.body_mut() = Some("body".into());
        move || Ok(request.try_clone().unwrap())
    }
    let elsewhere = ReplayRequest::from_fn(with_body(post("/orders?page=2")));
    assert!(matches!(fill(elsewhere, post("/orders")), Err(ReplayError::OtherOperation)));
    let otherwise = ReplayRequest::from_fn(with_body(Request::new(Method::PUT, url("/orders"))));
    assert!(matches!(fill(otherwise, post("/orders")), Err(ReplayError::OtherOperation)));
    let empty = ReplayRequest::from_fn(|| Ok::<_, Infallible>(post("/orders")));
    assert!(matches!(fill(empty, post("/orders")), Err(ReplayError::WithoutBody)));
}

#[test]
fn a_failing_factory_is_told_with_its_cause_but_without_a_url() {
    let missing = ReplayBody::from_fn(|| Err(io::ErrorKind::NotFound.into())).make().unwrap_err();
    assert_eq!(missing.to_string(), "the replay factory failed");
    assert_eq!(missing.source().unwrap().downcast_ref::<io::Error>().unwrap().kind(), io::ErrorKind::NotFound);

    let leaky = || {
        Client::new().post("http://peer.example/?token=hush").header("bad\nname", "").build().map_err(|e| e.with_url(url("/?token=hush")))
    };
    let failed = fill(ReplayRequest::from_fn(leaky), post("/")).unwrap_err();
    let cause = failed.source().unwrap().downcast_ref::<reqwest::Error>().unwrap();
    assert!(cause.is_builder());
    assert!(!format!("{failed} {failed:?} {cause}").contains("hush"));
}

#[test]
fn debug_shows_no_content() {
    let body = ReplayBody::from_fn(|| Ok("hush".into())).with_length(4);
    assert_eq!(format!("{body:?}"), "ReplayBody { length: Some(4), .. }");
    let request = ReplayRequest::from_fn(|| Ok::<_, Infallible>(post("/hush")));
    assert_eq!(format!("{request:?}"), "ReplayRequest { .. }");
}

#[tokio::test]
async fn a_request_is_cloned_without_its_body_and_keeps_it() {
    let mut request = with_headers(post("/orders"), &[("accept", "a")]);
    *request.timeout_mut() = Some(Duration::from_secs(7));
    *request.version_mut() = Version::HTTP_2;
    *request.body_mut() = Some(streamed(["one".into(), "two".into()]));
    let clone = clone_without_body(&mut request);
    assert_eq!((clone.method(), clone.url(), clone.version()), (request.method(), request.url(), Version::HTTP_2));
    assert_eq!((clone.headers(), clone.timeout()), (request.headers(), Some(&Duration::from_secs(7))));
    assert!(clone.body().is_none());
    assert_eq!(request.body_mut().take().unwrap().collect().await.unwrap().to_bytes(), "onetwo");
}

// ===== on the wire =====

/// A server that records every request and answers 503.
struct Recorder {
    address: SocketAddr,
    requests: Arc<Mutex<Vec<Recorded>>>,
    accepting: JoinHandle<()>,
    /// Closed when the last connection is.
    open: mpsc::Receiver<Infallible>,
}

struct Recorded {
    head: request::Parts,
    /// None when the request was cut before its end.
    body: Option<Bytes>,
}

impl Recorder {
    async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let requests = Arc::new(Mutex::new(Vec::new()));
        let record = Arc::clone(&requests);
        let (is_open, open) = mpsc::channel(1);
        let accepting = tokio::spawn(async move {
            loop {
                let (connection, _) = listener.accept().await.unwrap();
                let (record, is_open) = (Arc::clone(&record), is_open.clone());
                let service = service_fn(move |request: http::Request<hyper::body::Incoming>| {
                    let record = Arc::clone(&record);
                    async move {
                        let (head, body) = request.into_parts();
                        let body = body.collect().await.ok().map(http_body_util::Collected::to_bytes);
                        record.lock().unwrap().push(Recorded { head, body });
                        let mut answer = http::Response::new(Full::new(Bytes::new()));
                        *answer.status_mut() = StatusCode::SERVICE_UNAVAILABLE;
                        Ok::<_, Infallible>(answer)
                    }
                });
                tokio::spawn(async move {
                    let _cut_or_closed = http1::Builder::new().serve_connection(TokioIo::new(connection), service).await;
                    drop(is_open);
                });
            }
        });
        Self { address, requests, accepting, open }
    }

    fn url(&self) -> Url {
        format!("http://{}/orders", self.address).parse().unwrap()
    }

    /// Waits until every connection has been closed by its client.
    async fn finish(&mut self) {
        self.accepting.abort();
        assert!(self.open.recv().await.is_none());
    }

    fn take(&self) -> Vec<Recorded> {
        std::mem::take(&mut self.requests.lock().unwrap())
    }
}

async fn attempt(client: &Client, operation: &mut Request, body: &ReplayBody) -> reqwest::Result<StatusCode> {
    let mut attempt = clone_without_body(operation);
    *attempt.body_mut() = Some(body.make().unwrap());
    Ok(client.execute(attempt).await?.status())
}

#[tokio::test]
async fn every_attempt_sends_the_same_bytes_with_their_length_when_it_is_known() {
    let server = Recorder::start().await;
    let client = Client::new();
    let whole = noise(MIB);
    let pieces = whole.clone();
    let factory = ReplayBody::from_fn(move || Ok(in_pieces(&pieces, 10_007)));
    for (factory, framing) in [(factory.clone(), "transfer-encoding"), (factory.with_length(MIB as u64), "content-length")] {
        let mut operation = Request::new(Method::POST, server.url());
        for _ in 0..3 {
            assert_eq!(attempt(&client, &mut operation, &factory).await.unwrap(), StatusCode::SERVICE_UNAVAILABLE);
        }
        let requests = server.take();
        assert_eq!(requests.len(), 3);
        for request in requests {
            assert!(request.body == Some(whole.clone()), "other bytes under {framing}");
            let framed = ["content-length", "transfer-encoding"].map(|name| request.head.headers.contains_key(name));
            assert_eq!(framed, [framing == "content-length", framing == "transfer-encoding"]);
        }
    }
}

#[tokio::test]
async fn no_server_takes_a_body_of_another_length_for_complete() {
    let mut server = Recorder::start().await;
    let client = Client::new();
    let mut operation = Request::new(Method::POST, server.url());
    let whole = noise(64 * 1024);
    for stated in [0, 1, 64 * 1024 - 1, 64 * 1024 + 1] {
        let whole = whole.clone();
        let wrong = ReplayBody::from_fn(move || Ok(in_pieces(&whole, 1024))).with_length(stated);
        assert!(attempt(&client, &mut operation, &wrong).await.is_err(), "{stated}");
    }
    drop(client);
    server.finish().await;
    assert!(server.take().iter().all(|request| request.body.is_none()));
}

#[tokio::test]
async fn every_multipart_attempt_has_its_own_boundary_and_parses() {
    let server = Recorder::start().await;
    let client = Client::new();
    let whole = noise(MIB);
    let made = Arc::new(AtomicUsize::new(0));
    let factory = {
        let (client, url, whole, made) = (client.clone(), server.url(), whole.clone(), Arc::clone(&made));
        ReplayRequest::from_fn(move || {
            // The second form does not know its length: no length of another attempt may stand over
            // it.
            let part = match made.fetch_add(1, Ordering::SeqCst) {
                1 => Part::stream(in_pieces(&whole, 10_007)),
                _ => Part::bytes(whole.to_vec()),
            };
            client.post(url.clone()).multipart(Form::new().text("kind", "invoice").part("scan", part)).build()
        })
    };
    let mut operation =
        client.post(server.url()).header("idempotency-key", "one").multipart(Form::new().text("its", "own")).build().unwrap();
    for _ in 0..3 {
        let filled = factory.fill(clone_without_body(&mut operation), &[HeaderName::from_static("idempotency-key")]).unwrap();
        assert_eq!(client.execute(filled).await.unwrap().status(), StatusCode::SERVICE_UNAVAILABLE);
    }
    let requests = server.take();
    assert_eq!(requests.len(), 3);
    let boundaries: HashSet<_> = requests.iter().map(|request| parse_multipart(request, &whole)).collect();
    assert_eq!(boundaries.len(), 3);
    let lengths: Vec<_> = requests.iter().map(|request| request.head.headers.contains_key("content-length")).collect();
    assert_eq!(lengths, [true, false, true]);
}

/// Reads the two parts as RFC 7578 frames them, and returns the boundary.
fn parse_multipart(request: &Recorded, scan: &Bytes) -> String {
    let headers = &request.head.headers;
    assert_eq!(headers["idempotency-key"], "one");
    assert_eq!(headers.get_all("content-type").iter().count(), 1);
    let boundary = headers["content-type"].to_str().unwrap().strip_prefix("multipart/form-data; boundary=").unwrap();
    let invoice = format!("--{boundary}\r\nContent-Disposition: form-data; name=\"kind\"\r\n\r\ninvoice\r\n");
    let scan_head = format!("--{boundary}\r\nContent-Disposition: form-data; name=\"scan\"\r\n\r\n");
    let end = format!("\r\n--{boundary}--\r\n");
    let expected = [invoice.as_bytes(), scan_head.as_bytes(), scan, end.as_bytes()].concat();
    assert!(request.body.as_deref() == Some(&expected[..]), "the form does not parse with its boundary");
    boundary.to_owned()
}
