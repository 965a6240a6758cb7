//! A raw peer that keeps every byte, and clients whose slot the test holds.

use std::{
    future::Future,
    mem,
    net::SocketAddr,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use futures_util::future::BoxFuture;
use http::{Extensions, Method, StatusCode};
use reqwest::{Body, Request, Response, redirect};
use reqwest_middleware::{ClientBuilder, ClientWithMiddleware, Error, Middleware, Next, Result};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpSocket, TcpStream},
    task::JoinHandle,
    time::timeout,
};

use crate::{
    middleware::SafeRetry,
    policy::Evidence,
    proof::witness::{SendSlot, SendWitness, Watch},
};

/// Long enough for anything on loopback, short enough for a failing test.
pub(super) const PATIENCE: Duration = Duration::from_secs(10);

/// Every byte that arrived, by connection.
pub(super) type Heard = Arc<Mutex<Vec<Vec<u8>>>>;

/// Does the same to every connection and keeps what it heard. Gone with its last handle.
pub(super) struct Peer {
    pub(super) address: SocketAddr,
    pub(super) heard: Heard,
    accepting: JoinHandle<()>,
}

impl Peer {
    pub(super) async fn serving<F, S>(serve: F) -> Self
    where
        F: Fn(Wire) -> S + Send + 'static,
        S: Future<Output = ()> + Send + 'static,
    {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let heard = Heard::default();
        let accepting = tokio::spawn({
            let heard = Arc::clone(&heard);
            async move {
                while let Ok((stream, _)) = listener.accept().await {
                    let number = {
                        let mut heard = heard.lock().unwrap();
                        heard.push(vec![]);
                        heard.len() - 1
                    };
                    tokio::spawn(serve(Wire { stream, number, heard: Arc::clone(&heard), taken: 0 }));
                }
            }
        });
        Self { address, heard, accepting }
    }

    /// Answers each complete request with the text that its bytes, head included, call for.
    pub(super) async fn answering(answer: impl Fn(&str) -> String + Clone + Send + Sync + 'static) -> Self {
        Self::serving(move |mut wire| {
            let answer = answer.clone();
            async move {
                while let Some(request) = wire.request().await {
                    wire.say(&answer(&String::from_utf8_lossy(&request))).await;
                }
            }
        })
        .await
    }

    pub(super) fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    pub(super) fn everything(&self) -> Vec<Vec<u8>> {
        self.heard.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The complete HTTP/1 requests that arrived.
    pub(super) fn requests(&self) -> Vec<String> {
        let requests = self.everything().iter().flat_map(|bytes| requests_in(bytes)).collect::<Vec<_>>();
        requests.into_iter().map(|request| String::from_utf8_lossy(&request).into_owned()).collect()
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

/// One accepted connection.
pub(super) struct Wire {
    pub(super) stream: TcpStream,
    pub(super) number: usize,
    heard: Heard,
    /// Complete requests that were taken from it so far.
    pub(super) taken: usize,
}

impl Wire {
    /// Reads once; `None` at the end.
    pub(super) async fn hear(&mut self) -> Option<()> {
        let mut buffer = vec![0; 64 * 1024];
        let count = self.stream.read(&mut buffer).await.ok().filter(|count| *count > 0)?;
        self.heard.lock().unwrap()[self.number].extend_from_slice(&buffer[..count]);
        Some(())
    }

    /// Reads up to the end of the next complete request; `None` if the connection ends before.
    pub(super) async fn request(&mut self) -> Option<Vec<u8>> {
        loop {
            if let Some(request) = requests_in(&self.all()).get(self.taken) {
                self.taken += 1;
                return Some(request.clone());
            }
            self.hear().await?;
        }
    }

    pub(super) async fn at_least(&mut self, bytes: usize) {
        while self.all().len() < bytes && self.hear().await.is_some() {}
    }

    pub(super) fn all(&self) -> Vec<u8> {
        self.heard.lock().unwrap()[self.number].clone()
    }

    pub(super) async fn say(&mut self, text: impl AsRef<[u8]>) {
        let _ = self.stream.write_all(text.as_ref()).await;
    }

    pub(super) async fn silence(mut self) {
        while self.hear().await.is_some() {}
    }

    pub(super) fn reset(self) {
        self.stream.set_zero_linger().unwrap();
    }
}

/// The complete HTTP/1 requests in a stream of bytes.
pub(super) fn requests_in(mut bytes: &[u8]) -> Vec<Vec<u8>> {
    let mut requests = vec![];
    while let Some(length) = length_of_request(bytes) {
        requests.push(bytes[..length].to_vec());
        bytes = &bytes[length..];
    }
    requests
}

fn length_of_request(bytes: &[u8]) -> Option<usize> {
    let head = find(bytes, b"\r\n\r\n")? + 4;
    let text = String::from_utf8_lossy(&bytes[..head]).to_ascii_lowercase();
    let length = if text.contains("transfer-encoding: chunked") {
        if bytes[head..].starts_with(b"0\r\n\r\n") { head + 5 } else { head + find(&bytes[head..], b"\r\n0\r\n\r\n")? + 7 }
    } else {
        head + text.lines().find_map(|line| line.strip_prefix("content-length: ")).map_or(0, |length| length.trim().parse().unwrap())
    };
    (bytes.len() >= length).then_some(length)
}

fn find(bytes: &[u8], pattern: &[u8]) -> Option<usize> {
    bytes.windows(pattern.len()).position(|window| window == pattern)
}

/// A 200 with a short body.
pub(super) fn ok() -> String {
    "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok".to_owned()
}

pub(super) fn redirect_to(status: u16, location: &str) -> String {
    format!("HTTP/1.1 {status} Elsewhere\r\nlocation: {location}\r\ncontent-length: 0\r\n\r\n")
}

/// A port that refuses connections: it is taken, and nobody listens. It stays taken until the tests
/// end, so that no other of them is given it.
pub(super) async fn dead_address() -> SocketAddr {
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let address = socket.local_addr().unwrap();
    mem::forget(socket);
    address
}

/// How a client came to its witness.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Road {
    PavedOff,
    PavedDefault,
    PavedCustom,
    ExistingOff,
    ExistingDefault,
    ExistingCustom,
}

impl Road {
    pub(super) const ALL: [Self; 6] =
        [Self::PavedOff, Self::PavedDefault, Self::PavedCustom, Self::ExistingOff, Self::ExistingDefault, Self::ExistingCustom];

    pub(super) fn follows(self) -> bool {
        !matches!(self, Self::PavedOff | Self::ExistingOff)
    }

    pub(super) fn is_paved(self) -> bool {
        matches!(self, Self::PavedOff | Self::PavedDefault | Self::PavedCustom)
    }

    pub(super) fn policy(self) -> redirect::Policy {
        match self {
            Self::PavedOff | Self::ExistingOff => redirect::Policy::none(),
            Self::PavedDefault | Self::ExistingDefault => redirect::Policy::default(),
            Self::PavedCustom | Self::ExistingCustom => {
                redirect::Policy::custom(|attempt| if attempt.previous().len() > 3 { attempt.error("enough") } else { attempt.follow() })
            }
        }
    }

    pub(super) fn client(self, builder: reqwest::ClientBuilder) -> ClientWithMiddleware {
        self.client_with(builder, pass_on)
    }

    /// The inner middleware stands right before the witness, and sends with the test's own slot.
    pub(super) fn client_with(self, builder: reqwest::ClientBuilder, inner: impl Middleware) -> ClientWithMiddleware {
        let paved = |builder| SafeRetry::new().client(builder);
        match self {
            Self::PavedOff => paved(builder).redirects_off().with(Watched).with(inner).build().unwrap(),
            Self::PavedDefault => paved(builder).with(Watched).with(inner).build().unwrap(),
            Self::PavedCustom => paved(builder).redirect(self.policy()).with(Watched).with(inner).build().unwrap(),
            Self::ExistingOff => existing_with(builder.redirect(self.policy()), inner, SendWitness::redirects_off()),
            Self::ExistingDefault => existing_with(builder.redirect(self.policy()), inner, SendWitness::default_redirects()),
            Self::ExistingCustom => existing_with(builder.redirect(self.policy()), inner, SendWitness::custom_redirects()),
        }
    }
}

/// A client that was there before, with whatever its witness was told about it.
pub(super) fn existing(builder: reqwest::ClientBuilder, witness: SendWitness) -> ClientWithMiddleware {
    existing_with(builder, pass_on, witness)
}

fn existing_with(builder: reqwest::ClientBuilder, inner: impl Middleware, witness: SendWitness) -> ClientWithMiddleware {
    ClientBuilder::new(builder.build().unwrap()).with(Watched).with(inner).with(witness).build()
}

/// A client for tests: no proxy of the environment in the way, no certificates of the system to
/// load.
pub(super) fn plain() -> reqwest::ClientBuilder {
    let builder = reqwest::Client::builder().no_proxy();
    #[cfg(feature = "testing-tls")]
    let builder = builder.tls_certs_only([]);
    builder
}

/// The test's own slot, under a type that nothing else replaces.
#[derive(Clone)]
struct Held(SendSlot);

/// Puts the test's own slot where the witness looks for it.
struct Watched;

#[async_trait::async_trait]
impl Middleware for Watched {
    async fn handle(&self, request: Request, extensions: &mut Extensions, next: Next<'_>) -> Result<Response> {
        let Held(slot) = extensions.get().cloned().expect("every request of these tests is watched");
        extensions.insert(slot);
        next.run(request, extensions).await
    }
}

fn pass_on<'a>(request: Request, extensions: &'a mut Extensions, next: Next<'a>) -> BoxFuture<'a, Result<Response>> {
    next.run(request, extensions)
}

/// What is sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Shape {
    Get,
    EmptyPost,
    Post,
}

impl Shape {
    pub(super) const ALL: [Self; 3] = [Self::Get, Self::EmptyPost, Self::Post];

    pub(super) fn request(self, url: &str) -> Request {
        let method = if self == Self::Get { Method::GET } else { Method::POST };
        let mut request = Request::new(method, url.parse().unwrap());
        if self == Self::Post {
            *request.body_mut() = Some(Body::from("0123456789"));
        }
        request
    }
}

/// One way to send.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Row {
    pub(super) road: Road,
    pub(super) shape: Shape,
    pub(super) watch: Watch,
}

impl Row {
    pub(super) fn all_of(road: Road) -> impl Iterator<Item = Self> {
        Shape::ALL.into_iter().flat_map(move |shape| [Watch::Errors, Watch::Body].map(|watch| Self { road, shape, watch }))
    }

    /// Tells the server which row it sees.
    pub(super) fn path(self) -> String {
        format!("{:?}-{:?}-{:?}", self.road, self.shape, self.watch)
    }
}

pub(super) fn is_broken(error: &reqwest::Error) -> bool {
    crate::proof::errors::cause(error).is_beyond_help()
}

/// Which kind of proof a fault leaves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Proof {
    /// The error shows that no connection had the request.
    BeforeConnection,
    /// Only the tracker knows: the error, if there is one, looks like any other timeout.
    TrackerOnly,
    /// The server refused, by protocol.
    #[cfg(feature = "http2")]
    Refused,
    /// The server goes away: only a body that was read shows that it did not count the request in.
    #[cfg(feature = "http2")]
    WentAway,
    Nothing,
}

impl Proof {
    /// What a proof is worth: the tracker counts wherever it was allowed, an error only where no
    /// redirect can have been followed.
    pub(super) fn evidence(self, Row { road, shape, watch }: Row) -> Evidence {
        let tracked = watch == Watch::Body && (!road.follows() || shape != Shape::Post);
        // An existing client resends by itself what it can clone, which a tracked body is not.
        let first_hop = road.is_paved() || !road.follows() && tracked;
        let proven = match self {
            Self::BeforeConnection => tracked || first_hop,
            Self::TrackerOnly => tracked,
            #[cfg(feature = "http2")]
            Self::Refused => first_hop,
            #[cfg(feature = "http2")]
            Self::WentAway => tracked && shape == Shape::Post,
            Self::Nothing => false,
        };
        if proven { Evidence::Unprocessed } else { Evidence::Unknown }
    }
}

/// What came of one watched request: the result unless our limit cut it, and what the slot says.
pub(super) struct Came {
    pub(super) result: Option<Result<Response>>,
    pub(super) evidence: Evidence,
    pub(super) refusal: Evidence,
}

impl Came {
    pub(super) fn error(&self) -> Option<&reqwest::Error> {
        match self.result.as_ref()?.as_ref().err()? {
            Error::Reqwest(error) => Some(error),
            Error::Middleware(error) => panic!("not a transport error: {error}"),
        }
    }
}

/// A slot, and extensions with which a request is sent under its watch.
pub(super) fn watched_extensions(watch: Watch) -> (SendSlot, Extensions) {
    let slot = SendSlot::new(watch);
    let mut extensions = Extensions::new();
    extensions.insert(Held(slot.clone()));
    (slot, extensions)
}

/// Sends, gives up after the limit, and asks the slot.
pub(super) async fn witnessed(client: &ClientWithMiddleware, request: Request, limit: Duration, watch: Watch) -> Came {
    let (slot, mut extensions) = watched_extensions(watch);
    let result = timeout(limit, client.execute_with_extensions(request, &mut extensions)).await.ok();
    // An answer says what it says before any verdict is asked for.
    let status = result.as_ref().and_then(|result| result.as_ref().ok()).map(Response::status);
    let refusal = slot.refusal(status.unwrap_or(StatusCode::TOO_EARLY)).expect("a send was witnessed");
    Came { result, evidence: slot.verdict().expect("a send was witnessed"), refusal }
}
