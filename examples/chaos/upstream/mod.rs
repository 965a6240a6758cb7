//! The upstream: a server with a database that does what it is told, mostly, on a runtime of its
//! own.
//!
//! It keeps its word about keys and status questions, remembers what it did through every restart,
//! and notes every request head in the [journal](crate::journal). Everything else goes wrong at
//! random.

mod answer;
mod connection;
pub(crate) mod database;
mod fault;
mod life;
mod status;
#[cfg_attr(not(feature = "testing-tls"), path = "no_tls.rs")]
mod tls;
mod torn;
mod writes;

use std::{
    collections::BTreeMap,
    net::{Ipv4Addr, SocketAddr},
    ops::Deref,
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering},
    },
};

use anyhow::{Context as _, Result, bail};
use http::{Request, StatusCode};
use hyper::body::Incoming;
use reqwest::Url;
use tokio::{net::TcpListener, runtime::Runtime, time::sleep};

use crate::{
    chance::{Chance, Subject},
    class::Class,
    fleet::Wire,
    journal::{Journal, Kind, lock},
    tap::{BEGAN, SEND, operation_of},
};
use answer::{Answer, Failure, answer};
use connection::{Door, Line};
use database::Database;
use life::Life;
use writes::Arrival;

pub(crate) use tls::Authority;

/// Where the server listens.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Ports {
    h1: u16,
    h2: u16,
    tls: u16,
}

impl Ports {
    pub(crate) fn origin(&self, wire: Wire) -> Result<Url> {
        Ok(Url::parse(&match wire {
            Wire::H1 => format!("http://127.0.0.1:{}", self.h1),
            Wire::H2 => format!("http://127.0.0.1:{}", self.h2),
            Wire::TlsH1 | Wire::TlsH2 => format!("https://127.0.0.1:{}", self.tls),
        })?)
    }
}

/// What the server did and had to bear.
#[derive(Default)]
pub(crate) struct Counts {
    open: AtomicU64,
    connections: AtomicU64,
    restarts: AtomicU64,
    faults: Mutex<BTreeMap<&'static str, u64>>,
}

impl Counts {
    fn opened(self: &Arc<Self>) -> Open {
        self.open.fetch_add(1, Ordering::Relaxed);
        Open(Arc::clone(self))
    }

    fn strikes(&self, fault: &'static str) {
        *lock(&self.faults).entry(fault).or_default() += 1;
    }

    pub(crate) fn open(&self) -> u64 {
        self.open.load(Ordering::Relaxed)
    }

    pub(crate) fn connections(&self) -> u64 {
        self.connections.load(Ordering::Relaxed)
    }

    pub(crate) fn restarts(&self) -> u64 {
        self.restarts.load(Ordering::Relaxed)
    }

    pub(crate) fn faults(&self) -> BTreeMap<&'static str, u64> {
        lock(&self.faults).clone()
    }
}

/// A connection, as long as it is open.
struct Open(Arc<Counts>);

impl Drop for Open {
    fn drop(&mut self) {
        self.0.open.fetch_sub(1, Ordering::Relaxed);
    }
}

/// The upstream as the run holds it.
pub(crate) struct Upstream {
    pub(crate) ports: Ports,
    pub(crate) authority: Authority,
    pub(crate) counts: Arc<Counts>,
    pub(crate) database: Arc<Database>,
    /// Its tasks are not among those that the clients' runtime counts.
    runtime: Runtime,
}

impl Upstream {
    pub(crate) fn start(seed: u64, journal: Arc<Journal>) -> Result<Self> {
        // One thread: see `Life::end`.
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).thread_name("upstream").enable_all().build()?;
        let (acceptor, authority) = tls::make()?;
        let counts = Arc::<Counts>::default();
        let database = Arc::new(Database::open().context("the upstream's database")?);
        let shared = Shared { seed, journal, counts: Arc::clone(&counts), database: Arc::clone(&database) };
        let server = Server(Arc::new(shared));
        let listeners = runtime.block_on(async { anyhow::Ok([listen(1).await?, listen(2).await?, listen(3).await?]) })?;
        let addresses = [0, 1, 2].map(|place: usize| listeners[place].local_addr());
        let [h1, h2, tls] = addresses;
        let (h1, h2, tls) = (h1?, h2?, tls?);
        let doors = [(h1, Door::H1), (h2, Door::H2), (tls, Door::Tls(acceptor))];
        runtime.spawn(server.live(doors, listeners));
        let ports = Ports { h1: h1.port(), h2: h2.port(), tls: tls.port() };
        Ok(Self { ports, authority, counts, database, runtime })
    }

    pub(crate) fn stop(self) {
        self.runtime.shutdown_background();
    }
}

/// A port outside the range from which systems lend ports, or somebody else might take it while the
/// server is down.
async fn listen(number: u16) -> Result<TcpListener> {
    let first = u16::try_from(std::process::id() % 5_000)?;
    for place in 0..5_000 {
        let port = 10_000 + 5_000 * (number - 1) + (first + place) % 5_000;
        if let Ok(listener) = TcpListener::bind((Ipv4Addr::LOCALHOST, port)).await {
            return Ok(listener);
        }
    }
    bail!("no port is free")
}

/// The server, in all of its lives.
#[derive(Clone)]
struct Server(Arc<Shared>);

struct Shared {
    seed: u64,
    journal: Arc<Journal>,
    counts: Arc<Counts>,
    database: Arc<Database>,
}

impl Deref for Server {
    type Target = Shared;

    fn deref(&self) -> &Shared {
        &self.0
    }
}

impl Server {
    /// Serves, and now and then is down for a moment: connections break, running work is lost,
    /// connects are refused.
    async fn live(self, doors: [(SocketAddr, Door); 3], listeners: [TcpListener; 3]) {
        let mut listeners = Vec::from(listeners);
        for number in 0.. {
            let mut chance = Chance::of(self.seed, Subject::Life(number));
            let (up, down) = (chance.millis(300, 2_000), chance.millis(5, 60));
            let life = Life::default();
            for (listener, (_, door)) in listeners.drain(..).zip(&doors) {
                life.spawn(self.clone().accept(listener, door.clone(), life.clone()));
            }
            sleep(up).await;
            life.end().await;
            self.counts.restarts.fetch_add(1, Ordering::Relaxed);
            sleep(down).await;
            for (address, _) in &doors {
                listeners.push(self.listen_again(*address).await);
            }
        }
    }

    /// Nobody else should have the port. If somebody does, nothing can be said about this run, and
    /// it will say so: no operation succeeds.
    async fn listen_again(&self, address: SocketAddr) -> TcpListener {
        loop {
            match TcpListener::bind(address).await {
                Ok(listener) => return listener,
                Err(_) => sleep(std::time::Duration::from_millis(5)).await,
            }
        }
    }

    async fn accept(self, listener: TcpListener, door: Door, life: Life) {
        loop {
            let Ok((stream, _)) = listener.accept().await else { continue };
            let number = self.counts.connections.fetch_add(1, Ordering::Relaxed);
            life.spawn(self.clone().serve(stream, door.clone(), life.clone(), number));
        }
    }

    /// One request, as soon as its head is there.
    async fn answer(self, request: Request<Incoming>, line: Line, life: Life) -> Result<Answer, Failure> {
        let headers = request.headers();
        let number = |name| headers.get(name)?.to_str().ok()?.parse::<u64>().ok();
        let (operation, send, began) = (operation_of(headers), number(SEND), number(BEGAN));
        let (Some(operation), Some(send), Some(began)) = (operation, send, began.and_then(|began| self.journal.instant(began))) else {
            return Ok(answer(StatusCode::BAD_REQUEST));
        };
        let send = usize::try_from(send)?;
        let place = request.uri().path().split('/').nth(1).unwrap_or_default();
        if place == "landing" {
            return self.landing(operation, send as u64, &line).await;
        }
        let class = Class::named(place);
        let kind = if class.is_some() { Kind::Attempt } else { Kind::Probe };
        // Nobody waits for an answer about what has been judged.
        let Some(place) = self.journal.head(operation, send, kind) else { return Ok(answer(StatusCode::GONE)) };
        match class {
            Some(class) => self.write(Arrival { class, place, began }, request, &line, &life).await,
            None => self.status(place, &request, &line, &life).await,
        }
    }
}
