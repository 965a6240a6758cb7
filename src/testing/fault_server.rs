//! A server on a loopback socket that misbehaves as told.

use std::{
    fmt, io,
    net::{Ipv4Addr, SocketAddr},
    sync::Arc,
};

use futures_util::future::BoxFuture;
use reqwest::Url;
use tokio::{
    net::{TcpListener, TcpStream},
    task::{JoinHandle, JoinSet},
};

use super::{
    connection::{Connection, Faults},
    fault::Fault,
    ledger::{Ledger, Seen, Shared},
    recorded::Recorded,
};

/// The most connections served at once; a client that opens more waits in the listener's queue.
/// Keeps a runaway test from eating the machine.
const MOST_CONNECTIONS: usize = 1024;

/// A server on a loopback socket (IPv4, a free port) that plays one [`Fault`] for each request and
/// records all it receives.
///
/// The steps are taken in the order in which requests begin to arrive, over all connections; a
/// fault that acts before the client speaks (such as [`Fault::reset_on_accept`]) is taken when a
/// client connects. The last step repeats. It stops when it is dropped: every connection is cut, no
/// task stays behind.
///
/// As HTTP/1 proxy it needs nothing special: give [`FaultServer::url`] to `reqwest::Proxy` and let
/// a step answer the CONNECT (`Fault::status(502)`, `Fault::status(407)`,
/// `Fault::close_after_request()`) or the plain request.
///
/// # Cancellation
/// The waiting methods (`until_…`) can be dropped at any time without effect.
///
/// # Examples
/// ```
/// use reqwest_safe_retry::testing::{Fault, FaultServer};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), reqwest::Error> {
/// let steps = [Fault::status(503).with_retry_after(1), Fault::ok("done")];
/// let server = FaultServer::start(steps).await;
///
/// let client = reqwest::Client::new(); // your client here
/// let first = client.post(server.url("/orders")).body("one coffee").send().await?;
/// let second = client.post(server.url("/orders")).body("one coffee").send().await?;
///
/// assert_eq!((first.status().as_u16(), second.status().as_u16()), (503, 200));
/// server.assert_writes(2);
/// assert_eq!(server.requests()[0].body(), b"one coffee");
/// # Ok(())
/// # }
/// ```
///
/// ```
/// use reqwest_safe_retry::testing::{Fault, FaultServer};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
/// let server = FaultServer::start([Fault::ok("done")]).await;
/// assert_eq!(server.bytes_read(), 0); // nothing has left the client yet
/// let client = reqwest::Client::new();
/// let order = tokio::spawn(client.post(server.url("/orders")).body("one coffee").send());
/// server.until_connections(1).await;
/// server.until_complete(1).await; // here a test would cut, drop or restart something
/// assert!(order.await.unwrap().is_ok());
/// server.assert_connections(1);
/// let received = server.requests().remove(0);
/// assert!(received.is_complete() && received.raw().starts_with(b"POST /orders HTTP/1.1"));
/// drop(client);
/// server.until_closed(1).await;
/// # }
/// ```
#[doc(alias("mock server", "test server"))]
pub struct FaultServer {
    shared: Arc<Shared>,
    listening: JoinHandle<()>,
}

impl FaultServer {
    /// Starts a server that plays these steps, which may have no end ([`Fault::bad_day`]). Without
    /// any step it answers 200.
    ///
    /// # Panics
    /// Panics if the loopback can't be listened on.
    pub async fn start(steps: impl IntoIterator<Item = Fault, IntoIter: Send + 'static>) -> Self {
        Self::listen("http", serve_plain(Faults::steps(steps))).await
    }

    /// As [`start`](Self::start), at this port: for a client that runs in another process, and
    /// cannot be told a free one.
    ///
    /// # Errors
    /// The port can't be listened on.
    pub async fn start_at(port: u16, steps: impl IntoIterator<Item = Fault, IntoIter: Send + 'static>) -> io::Result<Self> {
        Self::listen_at(port, "http", serve_plain(Faults::steps(steps))).await
    }

    /// Starts a server with steps for each of these paths. Within a path the last step repeats, and
    /// a path without any is answered 200; all other paths are answered 404.
    ///
    /// A fault that would have acted before the request was read acts after it.
    ///
    /// # Panics
    /// Panics if the loopback can't be listened on.
    ///
    /// # Examples
    /// ```
    /// use reqwest_safe_retry::testing::{Fault, FaultServer};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() {
    /// let server = FaultServer::by_path([
    ///     ("/orders", vec![Fault::close_after_request(), Fault::status(409)]),
    ///     ("/orders/status", vec![Fault::ok("shipped")]),
    /// ]).await;
    /// # let client = reqwest::Client::builder().no_proxy().build().unwrap();
    /// # client.post(server.url("/orders")).body("1 coffee").send().await.unwrap_err();
    /// // … the client under test sends an order …
    /// server.until_writes(1).await;
    /// assert_eq!((server.writes(), server.duplicates("idempotency-key")), (1, 0));
    /// # }
    /// ```
    pub async fn by_path(scripts: impl IntoIterator<Item = (impl Into<String>, Vec<Fault>)>) -> Self {
        let scripts: Vec<(String, Vec<Fault>)> = scripts.into_iter().map(|(path, steps)| (path.into(), steps)).collect();
        Self::listen("http", serve_plain(Faults::by_path(scripts))).await
    }

    /// Starts a server whose steps are chosen by a function of the whole request and its number
    /// (the first is 1).
    ///
    /// A fault that would have acted before the request was read acts after it.
    ///
    /// # Panics
    /// Panics if the loopback can't be listened on.
    pub async fn with(handler: impl Fn(&Recorded, usize) -> Fault + Send + Sync + 'static) -> Self {
        Self::listen("http", serve_plain(Faults::chosen_by(handler))).await
    }

    /// Listens at a free port, and has every connection served by `serve`.
    pub(super) async fn listen<F>(scheme: &str, serve: impl Fn(TcpStream, usize, Arc<Shared>) -> F + Send + 'static) -> Self
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let listening = Self::listen_at(0, scheme, serve).await;
        listening.unwrap_or_else(|error| panic!("the loopback can't be listened on: {error}"))
    }

    async fn listen_at<F>(port: u16, scheme: &str, serve: impl Fn(TcpStream, usize, Arc<Shared>) -> F + Send + 'static) -> io::Result<Self>
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port)).await?;
        let address = listener.local_addr()?;
        let shared = Arc::new(Shared { base: base_url(scheme, address), ledger: Ledger::new() });
        let listening = tokio::spawn(accept(listener, Arc::clone(&shared), serve));
        Ok(Self { shared, listening })
    }

    /// The URL of a path (and query) on this server.
    ///
    /// # Panics
    /// Panics if the path does not begin with a slash.
    #[must_use]
    #[track_caller]
    pub fn url(&self, path: &str) -> Url {
        assert!(path.starts_with('/'), "the path {path:?} does not begin with a slash");
        let url = Url::parse(&format!("{}{}", self.shared.base.as_str().trim_end_matches('/'), path));
        url.unwrap_or_else(|error| panic!("the path {path:?} can't be part of a URL: {error}"))
    }

    /// The address it listens on.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        // The base URL was made of exactly this.
        SocketAddr::from((Ipv4Addr::LOCALHOST, self.shared.base.port_or_known_default().unwrap_or_default()))
    }

    /// Every request whose head has arrived, in order of arrival.
    #[must_use]
    pub fn requests(&self) -> Vec<Recorded> {
        self.shared.ledger.read(|seen| seen.requests.clone())
    }

    /// How many complete writes have arrived: as often may the server have acted. See
    /// [`Recorded::is_write`].
    #[must_use]
    pub fn writes(&self) -> usize {
        self.shared.ledger.read(Seen::writes)
    }

    /// How many complete writes would have been acted on although they are copies of an earlier
    /// one, by a server that recognises the idempotency key in this header: copies without a key,
    /// and copies under another one. 0 is what a rehearsal wants to see.
    ///
    /// Writes of the same method, URL and body count as copies, so give each operation of the test
    /// a path or a body of its own.
    #[must_use]
    pub fn duplicates(&self, key_header: &str) -> usize {
        self.shared.ledger.read(|seen| seen.duplicates(key_header))
    }

    /// How many connections it has accepted.
    #[must_use]
    pub fn connections(&self) -> usize {
        self.shared.ledger.read(|seen| seen.connections)
    }

    /// How many bytes it has read, on all connections: 0 proves that no request has left the
    /// client.
    #[must_use]
    pub fn bytes_read(&self) -> u64 {
        self.shared.ledger.read(|seen| seen.bytes)
    }

    /// Waits until the heads of at least so many requests have arrived.
    ///
    /// # Panics
    /// Panics after 10 s, with what was seen.
    #[track_caller]
    pub fn until_requests(&self, count: usize) -> impl Future<Output = ()> {
        self.shared.ledger.until(format!("{count} requests"), move |seen| seen.requests.len() >= count)
    }

    /// Waits until at least so many requests have arrived to their last byte.
    ///
    /// # Panics
    /// Panics after 10 s, with what was seen.
    #[track_caller]
    pub fn until_complete(&self, count: usize) -> impl Future<Output = ()> {
        self.shared.ledger.until(format!("{count} complete requests"), move |seen| seen.complete() >= count)
    }

    /// Waits until at least so many complete writes have arrived.
    ///
    /// # Panics
    /// Panics after 10 s, with what was seen.
    #[track_caller]
    pub fn until_writes(&self, count: usize) -> impl Future<Output = ()> {
        self.shared.ledger.until(format!("{count} complete writes"), move |seen| seen.writes() >= count)
    }

    /// Waits until it has accepted at least so many connections.
    ///
    /// # Panics
    /// Panics after 10 s, with what was seen.
    #[track_caller]
    pub fn until_connections(&self, count: usize) -> impl Future<Output = ()> {
        self.shared.ledger.until(format!("{count} connections"), move |seen| seen.connections >= count)
    }

    /// Waits until at least so many connections have ended, whichever side ended them. A connection
    /// that is never read ([`Fault::never_read`]) does not notice that its client leaves.
    ///
    /// # Panics
    /// Panics after 10 s, with what was seen.
    #[track_caller]
    pub fn until_closed(&self, count: usize) -> impl Future<Output = ()> {
        self.shared.ledger.until(format!("{count} ended connections"), move |seen| seen.closed >= count)
    }

    /// Asserts how many requests have arrived, complete or not.
    ///
    /// # Panics
    /// Panics if it is another number, with what was seen.
    #[track_caller]
    pub fn assert_requests(&self, count: usize) {
        self.shared.ledger.assert_count("requests", count, |seen| seen.requests.len());
    }

    /// Asserts how many complete [`writes`](Self::writes) have arrived.
    ///
    /// # Panics
    /// Panics if it is another number, with what was seen.
    #[track_caller]
    pub fn assert_writes(&self, count: usize) {
        self.shared.ledger.assert_count("complete writes", count, Seen::writes);
    }

    /// Asserts that no write would have been acted on twice; see [`duplicates`](Self::duplicates).
    ///
    /// # Panics
    /// Panics if one would, with what was seen.
    #[track_caller]
    pub fn assert_no_duplicates(&self, key_header: &str) {
        self.shared.ledger.assert_count("duplicates", 0, |seen| seen.duplicates(key_header));
    }

    /// Asserts how many connections were opened.
    ///
    /// # Panics
    /// Panics if it is another number, with what was seen.
    #[track_caller]
    pub fn assert_connections(&self, count: usize) {
        self.shared.ledger.assert_count("connections", count, |seen| seen.connections);
    }
}

impl Drop for FaultServer {
    fn drop(&mut self) {
        // The listening task owns the tasks of the connections, and they end with it.
        self.listening.abort();
    }
}

impl fmt::Debug for FaultServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FaultServer").field("address", &self.address()).field("ledger", &self.shared.ledger).finish_non_exhaustive()
    }
}

/// Accepts until it is aborted; dropping it aborts the connections.
async fn accept<F>(listener: TcpListener, shared: Arc<Shared>, serve: impl Fn(TcpStream, usize, Arc<Shared>) -> F)
where
    F: Future<Output = ()> + Send + 'static,
{
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            accepted = listener.accept(), if connections.len() < MOST_CONNECTIONS => {
                // A client that left while it was being accepted is no connection.
                let Ok((socket, _)) = accepted else { continue };
                // Without it, a small write would wait for the acknowledgement of the one before
                // (Nagle).
                drop(socket.set_nodelay(true));
                let number = shared.ledger.write(|seen| {
                    seen.connections += 1;
                    seen.connections
                });
                let serving = serve(socket, number, Arc::clone(&shared));
                let shared = Arc::clone(&shared);
                connections.spawn(async move {
                    serving.await;
                    shared.ledger.write(|seen| seen.closed += 1);
                });
            }
            Some(_ended) = connections.join_next(), if !connections.is_empty() => {}
        }
    }
}

fn serve_plain(faults: Arc<Faults>) -> impl Fn(TcpStream, usize, Arc<Shared>) -> BoxFuture<'static, ()> {
    move |socket, number, shared| {
        let connection = Connection::new(socket, number, shared, Arc::clone(&faults));
        Box::pin(async { drop(connection.serve().await) })
    }
}

fn base_url(scheme: &str, address: SocketAddr) -> Url {
    Url::parse(&format!("{scheme}://{address}/")).unwrap_or_else(|error| panic!("{address} can't be part of a URL: {error}"))
}
