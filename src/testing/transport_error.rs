//! Real `reqwest::Error`s on demand. They can't be made by hand, so a real client is made to fail.

use std::{io, net::Ipv4Addr, time::Duration};

use reqwest::{
    ClientBuilder, Url,
    dns::{Name, Resolve, Resolving},
};
use tokio::{io::AsyncReadExt, net::TcpListener};

/// Which failure of the transport.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TransportError {
    /// The name did not resolve: no connection, nothing sent.
    Unresolved,
    /// The connection closed after the whole request, without an answer.
    Closed,
    /// The client's own time limit ended it.
    TimedOut,
    /// The request can't be sent at all.
    Broken,
}

impl TransportError {
    /// The error, under the URL of the request that fails.
    pub(super) async fn strike(self, url: &Url) -> reqwest::Error {
        let error = match self {
            Self::Unresolved => get(client().dns_resolver(NothingResolves), "http://unresolved.invalid/").await,
            Self::Broken => get(client(), "no-such-scheme://broken.invalid/").await,
            Self::Closed => elsewhere(|| async {
                let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
                let url = format!("http://{}/", listener.local_addr()?);
                let closes = async {
                    let (mut socket, _) = listener.accept().await?;
                    // One read takes the whole request of a client that sends so little, so the
                    // close is in good order.
                    socket.read(&mut [0; 1024]).await
                };
                let (failed, closed) = tokio::join!(get(client(), &url), closes);
                closed.map(|_| failed)
            }),
            Self::TimedOut => elsewhere(|| async {
                let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
                Ok(get(client().timeout(Duration::from_millis(1)), &format!("http://{}/", listener.local_addr()?)).await)
            }),
        };
        error.with_url(url.clone())
    }
}

fn client() -> ClientBuilder {
    reqwest::Client::builder().no_proxy().retry(reqwest::retry::never())
}

async fn get(client: ClientBuilder, url: &str) -> reqwest::Error {
    let client = client.build().unwrap_or_else(|error| panic!("a client could not be built: {error}"));
    match client.get(url).send().await {
        Err(error) => error,
        Ok(_) => panic!("a request that was made to fail did not"),
    }
}

/// Fails on a thread with a clock of its own: the test's may be paused, and a socket under a paused
/// clock makes every timeout fire at once. Blocks the caller for about a millisecond, so that a
/// paused clock stands still meanwhile.
fn elsewhere<F: Future<Output = io::Result<reqwest::Error>>>(fail: impl FnOnce() -> F + Send + 'static) -> reqwest::Error {
    let failed = std::thread::spawn(move || tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(fail()));
    match failed.join() {
        Ok(Ok(error)) => error,
        Ok(Err(error)) => panic!("the loopback can't be used: {error}"),
        Err(panic) => std::panic::resume_unwind(panic),
    }
}

struct NothingResolves;

impl Resolve for NothingResolves {
    fn resolve(&self, _: Name) -> Resolving {
        Box::pin(async { Err(io::Error::new(io::ErrorKind::NotFound, "no such host in this script").into()) })
    }
}
