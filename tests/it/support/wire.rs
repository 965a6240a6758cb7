//! What the wire tests share: clients built in each way, quick pauses, a port where nobody listens,
//! and a name that leads where a test says.

use std::{
    collections::VecDeque,
    future, io,
    net::{Ipv4Addr, SocketAddr},
    sync::{Arc, Mutex},
    time::Duration,
};

use http::Extensions;
use reqwest::{
    ClientBuilder, Request, Response,
    dns::{Addrs, Name, Resolve, Resolving},
    redirect,
};
use reqwest_middleware::{ClientWithMiddleware, Middleware, Next, RequestBuilder, Result};
use reqwest_safe_retry::{
    Endpoint, KeyContract, RetryPolicy, SafeRetry, SendWitness,
    policy::{Backoff, Jitter},
    testing::FaultServer,
};
use tokio::net::TcpSocket;

/// The defaults, with pauses of 1 ms.
pub(crate) const QUICK: RetryPolicy = pausing(Duration::from_millis(1));

/// The defaults, with pauses of exactly this length.
pub(crate) const fn pausing(pause: Duration) -> RetryPolicy {
    let backoff = Backoff::doubling(pause, pause).with_jitter(Jitter::None);
    RetryPolicy::DEFAULT.with_backoff(backoff).with_throttle_backoff(backoff)
}

/// Fails a test that hangs.
pub(crate) async fn bounded<F: Future>(test: F) -> F::Output {
    within(Duration::from_secs(10), test).await
}

/// As [`bounded`], for a test with more to do.
pub(crate) async fn within<F: Future>(limit: Duration, test: F) -> F::Output {
    tokio::time::timeout(limit, test).await.expect("the test does not hang")
}

/// A write under a key that the server remembers longer than any test lasts.
pub(crate) fn keyed_write() -> Endpoint {
    Endpoint::keyed_write(KeyContract::ietf(Duration::from_secs(600)))
}

/// Leaves a request unmarked, or marks it.
pub(crate) fn marked(request: RequestBuilder, endpoint: Option<&Endpoint>) -> RequestBuilder {
    match endpoint {
        Some(endpoint) => request.with_extension(endpoint.clone()),
        None => request,
    }
}

// ===== clients =====

/// A builder for tests: no proxy of the environment in the way, no certificates of the system to
/// load.
pub(crate) fn plain() -> ClientBuilder {
    let builder = reqwest::Client::builder().no_proxy();
    #[cfg(feature = "testing-tls")]
    let builder = builder.tls_certs_only([]);
    builder
}

/// The ways to a client: as the crate builds it, and as users have it already.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Road {
    Paved,
    PavedFollowing,
    Witnessed,
    WitnessedFollowing,
    Unwitnessed,
    UnwitnessedFollowing,
}

impl Road {
    pub(crate) const ALL: [Self; 6] =
        [Self::Paved, Self::PavedFollowing, Self::Witnessed, Self::WitnessedFollowing, Self::Unwitnessed, Self::UnwitnessedFollowing];

    pub(crate) fn follows(self) -> bool {
        matches!(self, Self::PavedFollowing | Self::WitnessedFollowing | Self::UnwitnessedFollowing)
    }

    pub(crate) fn client(self, policy: RetryPolicy) -> ClientWithMiddleware {
        self.client_of(SafeRetry::new().with_policy(policy), plain())
    }

    pub(crate) fn client_of(self, retry: SafeRetry, builder: ClientBuilder) -> ClientWithMiddleware {
        self.client_with(retry, builder, PassOn)
    }

    /// A client with one more middleware, which runs once per attempt.
    pub(crate) fn client_with(self, retry: SafeRetry, builder: ClientBuilder, inner: impl Middleware) -> ClientWithMiddleware {
        match self {
            Self::Paved => retry.client(builder).redirects_off().with(inner).build().unwrap(),
            Self::PavedFollowing => retry.client(builder).with(inner).build().unwrap(),
            Self::Witnessed => {
                existing(builder.redirect(redirect::Policy::none()), retry, inner).with(SendWitness::redirects_off()).build()
            }
            Self::WitnessedFollowing => existing(builder, retry, inner).with(SendWitness::default_redirects()).build(),
            Self::Unwitnessed => existing(builder.redirect(redirect::Policy::none()), retry, inner).build(),
            Self::UnwitnessedFollowing => existing(builder, retry, inner).build(),
        }
    }
}

fn existing(builder: ClientBuilder, retry: SafeRetry, inner: impl Middleware) -> reqwest_middleware::ClientBuilder {
    reqwest_middleware::ClientBuilder::new(builder.build().unwrap()).with(retry).with(inner)
}

struct PassOn;

#[async_trait::async_trait]
impl Middleware for PassOn {
    async fn handle(&self, request: Request, extensions: &mut Extensions, next: Next<'_>) -> Result<Response> {
        next.run(request, extensions).await
    }
}

// ===== places =====

/// A port that is taken and where nobody listens: whoever calls is refused.
pub(crate) struct Dead(TcpSocket);

impl Dead {
    pub(crate) fn new() -> Self {
        let socket = TcpSocket::new_v4().unwrap();
        socket.bind((Ipv4Addr::LOCALHOST, 0).into()).unwrap();
        Self(socket)
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.0.local_addr().unwrap()
    }

    pub(crate) fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address())
    }
}

/// What one look-up of [`ORDERS`] comes to.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Lookup {
    To(SocketAddr),
    Fails,
    Hangs,
}

impl Lookup {
    pub(crate) fn of(server: &FaultServer) -> Self {
        Self::To(server.address())
    }
}

/// A URL whose host leads where the client's [`Names`] say. It has no port, so that theirs counts.
pub(crate) const ORDERS: &str = "http://api.test/orders";

/// Look-ups in order; the last one repeats.
pub(crate) struct Names(Mutex<VecDeque<Lookup>>);

impl Names {
    pub(crate) fn leading(lookups: impl IntoIterator<Item = Lookup>) -> Arc<Self> {
        Arc::new(Self(Mutex::new(lookups.into_iter().collect())))
    }
}

impl Resolve for Names {
    fn resolve(&self, _: Name) -> Resolving {
        let mut lookups = self.0.lock().unwrap();
        let lookup = if lookups.len() > 1 { lookups.pop_front() } else { lookups.front().copied() };
        match lookup.expect("there is a step") {
            Lookup::To(address) => Box::pin(future::ready(Ok(Box::new(std::iter::once(address)) as Addrs))),
            Lookup::Fails => Box::pin(future::ready(Err(io::Error::other("no such name").into()))),
            Lookup::Hangs => Box::pin(future::pending()),
        }
    }
}
