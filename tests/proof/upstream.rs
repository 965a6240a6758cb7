//! A server that keeps its word about keys, in front of a real database, on a network that keeps
//! nothing.
//!
//! Key, fingerprint of the request and result are written in the transaction of the effect. A copy
//! that arrives while the first one runs is answered 409, other content 422, a copy of settled work
//! with the saved result, and a key that is older than promised (and then some, as servers do) is
//! forgotten. `/status/{operation}` tells what became of an operation.
//!
//! Which fault strikes is a function of seed, operation and arrival, so that a run can be repeated
//! as far as the scheduler allows.

use std::{
    collections::{HashMap, HashSet},
    convert::Infallible,
    net::SocketAddr,
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering},
    },
    time::Duration,
};

use bytes::Bytes;
use futures_util::{StreamExt, future::pending, stream};
use http::{HeaderMap, Method, Request, Response, StatusCode};
use http_body_util::{BodyExt, Full, StreamBody, combinators::BoxBody};
use hyper::{
    body::{Frame, Incoming},
    server::conn::http1,
    service::service_fn,
};
use hyper_util::rt::TokioIo;
use rusqlite::{Connection, OptionalExtension, params};
use tokio::{
    net::{TcpListener, TcpStream},
    sync::oneshot,
    task::JoinSet,
    time::sleep,
};

/// How long the server promises to know a key of `/brief/`, and how long it really does.
pub(crate) const BRIEF_PROMISE: Duration = Duration::from_millis(300);
pub(crate) const BRIEF_MEMORY: Duration = Duration::from_millis(600);
const LONG_MEMORY: Duration = Duration::from_secs(3600);

/// The seed of a network without faults.
pub(crate) const CALM: u64 = 0;

/// A number for each pair, evenly spread (splitmix64).
pub(crate) fn chance(seed: u64, salt: u64) -> u64 {
    let mut mixed = seed.wrapping_add(salt.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15));
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Fault {
    None,
    /// Refused before anything is done.
    Busy,
    ResetBefore,
    /// Begun so late that the client has given up, and carried out all the same.
    Late(Duration),
    /// Carried out; the connection ends without an answer.
    Lost,
    ResetAfter,
    /// Carried out; the answer comes when the client has given up.
    SlowAnswer(Duration),
    /// Carried out; the answer says 500.
    FalseAlarm,
    /// Carried out; the head of the answer arrives, its body does not.
    CutBody,
}

impl Fault {
    fn of(seed: u64, operation: u64, arrival: u64) -> Self {
        if seed == CALM {
            return Self::None;
        }
        let drawn = chance(seed ^ operation, arrival);
        let millis = |least: u64| Duration::from_millis(least + (drawn >> 32) % 100);
        match drawn % 100 {
            0..=4 => Self::Busy,
            5..=9 => Self::ResetBefore,
            10..=15 => Self::Late(millis(100)),
            16..=23 => Self::Lost,
            24..=29 => Self::ResetAfter,
            30..=34 => Self::SlowAnswer(millis(150)),
            35..=38 => Self::FalseAlarm,
            39..=43 => Self::CutBody,
            _ => Self::None,
        }
    }

    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Busy => "busy",
            Self::ResetBefore => "reset before",
            Self::Late(_) => "late",
            Self::Lost => "lost answer",
            Self::ResetAfter => "reset after",
            Self::SlowAnswer(_) => "slow answer",
            Self::FalseAlarm => "false alarm",
            Self::CutBody => "cut body",
        }
    }
}

/// The server: its database outlives its restarts.
#[derive(Clone)]
pub(crate) struct Upstream(Arc<Shared>);

struct Shared {
    seed: u64,
    address: SocketAddr,
    path: PathBuf,
    database: Mutex<Connection>,
    /// How often each operation's write was read to its end.
    arrivals: Mutex<HashMap<String, u64>>,
    faults: Mutex<HashMap<&'static str, usize>>,
    conflicts: AtomicUsize,
    replays: AtomicUsize,
    restarts: AtomicUsize,
    is_sighted: AtomicBool,
}

/// One life of the server: its work dies with it, and so does its knowledge of what is running.
#[derive(Clone, Default)]
struct Life {
    work: Arc<Mutex<JoinSet<()>>>,
    running: Arc<Mutex<HashSet<String>>>,
}

impl Life {
    fn spawn(&self, work: impl Future<Output = ()> + Send + 'static) {
        let mut all = self.work.lock().unwrap();
        while all.try_join_next().is_some() {}
        all.spawn(work);
    }
}

type Answer = Response<BoxBody<Bytes, std::io::Error>>;

/// How a connection ends before its answer.
enum End {
    Close,
    Reset,
}

impl Upstream {
    /// A server with a fresh database. Its port lies outside the range from which systems lend
    /// ports, or somebody else might take it while the server is down.
    pub(crate) async fn start(seed: u64) -> (Self, TcpListener) {
        // Ranges of their own, or one test's server could move in where another's is down.
        let range = if seed == CALM { 10_000 } else { 20_000 };
        let mut place = u16::try_from(std::process::id() % 10_000).unwrap();
        let (listener, port) = loop {
            match TcpListener::bind(("127.0.0.1", range + place)).await {
                Ok(listener) => break (listener, range + place),
                Err(_) => place = (place + 1) % 10_000,
            }
        };
        let path = std::env::temp_dir().join(format!("reqwest-safe-retry-proof-{}-{port}.sqlite", std::process::id()));
        remove(&path);
        let database = open(&path);
        database
            .execute_batch(
                "CREATE TABLE effects (id INTEGER PRIMARY KEY, operation TEXT NOT NULL);
                 CREATE INDEX by_operation ON effects (operation);
                 CREATE TABLE keys (key TEXT PRIMARY KEY, fingerprint TEXT NOT NULL, result TEXT NOT NULL, made INTEGER NOT NULL);",
            )
            .unwrap();
        let shared = Shared {
            seed,
            address: listener.local_addr().unwrap(),
            path,
            database: Mutex::new(database),
            arrivals: Mutex::default(),
            faults: Mutex::default(),
            conflicts: AtomicUsize::new(0),
            replays: AtomicUsize::new(0),
            restarts: AtomicUsize::new(0),
            is_sighted: AtomicBool::new(false),
        };
        (Self(Arc::new(shared)), listener)
    }

    pub(crate) fn origin(&self) -> String {
        format!("http://{}", self.0.address)
    }

    /// Serves, and now and then is down for a moment: connections break, running work is lost,
    /// connects are refused.
    pub(crate) async fn run(self, mut listener: TcpListener) {
        if self.0.seed == CALM {
            let (life, mut connections) = (Life::default(), JoinSet::new());
            return self.accept(listener, &life, &mut connections).await;
        }
        for number in 0.. {
            let (life, mut connections) = (Life::default(), JoinSet::new());
            let up = Duration::from_millis(200 + chance(self.0.seed, number) % 300);
            let _ = tokio::time::timeout(up, self.accept(listener, &life, &mut connections)).await;
            // Dead is dead: nothing of this life may act in the next.
            connections.shutdown().await;
            let mut work = std::mem::take(&mut *life.work.lock().unwrap());
            work.shutdown().await;
            self.0.restarts.fetch_add(1, Ordering::Relaxed);
            sleep(Duration::from_millis(20)).await;
            *self.0.database.lock().unwrap() = open(&self.0.path);
            listener = TcpListener::bind(self.0.address).await.unwrap();
        }
    }

    async fn accept(&self, listener: TcpListener, life: &Life, connections: &mut JoinSet<()>) {
        loop {
            let (stream, _) = listener.accept().await.unwrap();
            connections.spawn(self.clone().serve(stream, life.clone()));
            while connections.try_join_next().is_some() {}
        }
    }

    async fn serve(self, stream: TcpStream, life: Life) {
        let (end, mut ended) = oneshot::channel();
        let end = Arc::new(Mutex::new(Some(end)));
        let service = service_fn(|request| {
            let (upstream, life, end) = (self.clone(), life.clone(), Arc::clone(&end));
            async move {
                match upstream.answer(request, &life).await {
                    Ok(answer) => Ok::<_, Infallible>(answer),
                    Err(how) => {
                        let _ = end.lock().unwrap().take().map(|end| end.send(how));
                        pending().await
                    }
                }
            }
        });
        let mut connection = http1::Builder::new().serve_connection(TokioIo::new(stream), service);
        let how = tokio::select! {
            _ = &mut connection => return,
            how = &mut ended => how,
        };
        if let Ok(End::Reset) = how {
            let stream = connection.into_parts().io.into_inner();
            stream.set_zero_linger().unwrap();
        }
    }

    async fn answer(&self, request: Request<Incoming>, life: &Life) -> Result<Answer, End> {
        let (head, body) = request.into_parts();
        let body = body.collect().await.map_err(|_| End::Close)?.to_bytes();
        let mut segments = head.uri.path().trim_start_matches('/').split('/');
        let (Some(class), Some(operation)) = (segments.next(), segments.next()) else { return Ok(plain(StatusCode::NOT_FOUND)) };
        if head.method == Method::GET {
            return self.status(operation, life).await;
        }
        let arrival = {
            let mut arrivals = self.0.arrivals.lock().unwrap();
            let arrival = arrivals.entry(operation.to_owned()).or_default();
            *arrival += 1;
            *arrival
        };
        if body.starts_with(b"invalid") {
            return Ok(plain(StatusCode::BAD_REQUEST));
        }
        let fault = Fault::of(self.0.seed, number(operation), arrival);
        *self.0.faults.lock().unwrap().entry(fault.name()).or_default() += 1;

        let work = |delay| self.clone().spawned(life, class, operation, &head.headers, &body, delay);
        match fault {
            Fault::Busy => return Ok(plain(StatusCode::SERVICE_UNAVAILABLE)),
            Fault::ResetBefore => return Err(End::Reset),
            _ => {}
        }
        let answer = work(if let Fault::Late(delay) = fault { delay } else { Duration::ZERO }).await;
        match fault {
            Fault::Lost => Err(End::Close),
            Fault::ResetAfter => Err(End::Reset),
            Fault::SlowAnswer(delay) => {
                sleep(delay).await;
                Ok(answer)
            }
            Fault::FalseAlarm => Ok(plain(StatusCode::INTERNAL_SERVER_ERROR)),
            Fault::CutBody => {
                let begin = stream::once(async { Ok(Frame::data(Bytes::from_static(b"{"))) });
                let cut = begin.chain(stream::once(async { Err(std::io::Error::other("cut")) }));
                Ok(answer.map(|_| BodyExt::boxed(StreamBody::new(cut))))
            }
            Fault::None | Fault::Late(_) | Fault::Busy | Fault::ResetBefore => Ok(answer),
        }
    }

    /// What became of an operation, as far as the server knows; the question can fail too, for some
    /// operations until [`open_eyes`](Self::open_eyes).
    async fn status(&self, operation: &str, life: &Life) -> Result<Answer, End> {
        static ASKED: AtomicU64 = AtomicU64::new(0);
        let is_blind = number(operation) % 16 == 0 && !self.0.is_sighted.load(Ordering::Relaxed);
        if is_blind {
            return Ok(plain(StatusCode::INTERNAL_SERVER_ERROR));
        }
        if chance(self.0.seed, ASKED.fetch_add(1, Ordering::Relaxed)) % 32 == 0 {
            return Err(End::Reset);
        }
        if life.running.lock().unwrap().contains(operation) {
            return Ok(plain(StatusCode::ACCEPTED));
        }
        let found = self.rows_of(operation) > 0;
        Ok(plain(if found { StatusCode::OK } else { StatusCode::NOT_FOUND }))
    }

    /// Work goes on when its client has hung up, and ends with the server's life.
    async fn spawned(self, life: &Life, class: &str, operation: &str, headers: &HeaderMap, body: &Bytes, delay: Duration) -> Answer {
        let key = headers.get("idempotency-key").map(|key| key.to_str().unwrap().to_owned());
        let (class, operation, body) = (class.to_owned(), operation.to_owned(), body.clone());
        let (done, answer) = oneshot::channel();
        let own = life.clone();
        life.spawn(async move {
            sleep(delay).await;
            let answer = match key {
                Some(key) => self.keyed(&own, &class, &operation, &key, &body).await,
                None => self.unkeyed(&own, &operation).await,
            };
            let _ = done.send(answer);
        });
        match answer.await {
            Ok(answer) => answer,
            Err(_) => pending().await, // the life has ended, and this connection with it
        }
    }

    async fn unkeyed(&self, life: &Life, operation: &str) -> Answer {
        let _running = Running::mark(life, operation);
        sleep(Duration::from_millis(2)).await;
        let database = self.0.database.lock().unwrap();
        database.execute("INSERT INTO effects (operation) VALUES (?1)", [operation]).unwrap();
        plain(StatusCode::CREATED)
    }

    async fn keyed(&self, life: &Life, class: &str, operation: &str, key: &str, body: &Bytes) -> Answer {
        let fingerprint = format!("{class} {operation} {body:?}");
        let memory = if class == "brief" { BRIEF_MEMORY } else { LONG_MEMORY };
        let running = {
            let database = self.0.database.lock().unwrap();
            if life.running.lock().unwrap().contains(operation) {
                self.0.conflicts.fetch_add(1, Ordering::Relaxed);
                return plain(StatusCode::CONFLICT);
            }
            let saved = database
                .query_row("SELECT fingerprint, result, made FROM keys WHERE key = ?1", [key], |row| {
                    Ok((row.get::<_, String>(0)?, row.get::<_, String>(1)?, row.get::<_, i64>(2)?))
                })
                .optional()
                .unwrap();
            match saved {
                Some((_, _, made)) if millis_since_epoch() - made > i64::try_from(memory.as_millis()).unwrap() => {}
                Some((saved, _, _)) if saved != fingerprint => return plain(StatusCode::UNPROCESSABLE_ENTITY),
                Some((_, result, _)) => {
                    self.0.replays.fetch_add(1, Ordering::Relaxed);
                    let mut replay = plain(StatusCode::CREATED).map(|_| full(result));
                    replay.headers_mut().insert("idempotent-replayed", http::HeaderValue::from_static("true"));
                    return replay;
                }
                None => {}
            }
            Running::mark(life, operation)
        };
        sleep(Duration::from_millis(5)).await;
        let mut database = self.0.database.lock().unwrap();
        let transaction = database.transaction().unwrap();
        transaction.execute("INSERT INTO effects (operation) VALUES (?1)", [operation]).unwrap();
        let remember = "INSERT OR REPLACE INTO keys (key, fingerprint, result, made) VALUES (?1, ?2, ?3, ?4)";
        transaction.execute(remember, params![key, fingerprint, "{}", millis_since_epoch()]).unwrap();
        transaction.commit().unwrap();
        drop(running);
        plain(StatusCode::CREATED)
    }

    /// From now on the status of every operation can be asked for.
    pub(crate) fn open_eyes(&self) {
        self.0.is_sighted.store(true, Ordering::Relaxed);
    }

    pub(crate) fn rows_of(&self, operation: &str) -> usize {
        let database = self.0.database.lock().unwrap();
        let count = "SELECT count(*) FROM effects WHERE operation = ?1";
        database.query_row(count, [operation], |row| row.get::<_, i64>(0)).unwrap().try_into().unwrap()
    }

    pub(crate) fn arrivals_of(&self, operation: &str) -> u64 {
        self.0.arrivals.lock().unwrap().get(operation).copied().unwrap_or_default()
    }

    pub(crate) fn faults(&self) -> HashMap<&'static str, usize> {
        self.0.faults.lock().unwrap().clone()
    }

    pub(crate) fn conflicts(&self) -> usize {
        self.0.conflicts.load(Ordering::Relaxed)
    }

    pub(crate) fn replays(&self) -> usize {
        self.0.replays.load(Ordering::Relaxed)
    }

    pub(crate) fn restarts(&self) -> usize {
        self.0.restarts.load(Ordering::Relaxed)
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        remove(&self.path);
    }
}

/// The mark of running work, gone when the work is.
struct Running<'a>(&'a Life, String);

impl<'a> Running<'a> {
    fn mark(life: &'a Life, operation: &str) -> Self {
        life.running.lock().unwrap().insert(operation.to_owned());
        Self(life, operation.to_owned())
    }
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        self.0.running.lock().unwrap().remove(&self.1);
    }
}

fn open(path: &Path) -> Connection {
    let database = Connection::open(path).unwrap();
    database.pragma_update(None, "journal_mode", "WAL").unwrap();
    database.pragma_update(None, "synchronous", "OFF").unwrap();
    database
}

fn remove(path: &Path) {
    for suffix in ["", "-wal", "-shm"] {
        let mut name = path.as_os_str().to_owned();
        name.push(suffix);
        let _ = std::fs::remove_file(name);
    }
}

/// A number for each operation.
fn number(operation: &str) -> u64 {
    operation.bytes().fold(0, |number, byte| chance(number, byte.into()))
}

fn millis_since_epoch() -> i64 {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
    i64::try_from(now.as_millis()).unwrap()
}

fn full(text: impl Into<Bytes>) -> BoxBody<Bytes, std::io::Error> {
    Full::new(text.into()).map_err(|never| match never {}).boxed()
}

fn plain(status: StatusCode) -> Answer {
    let mut answer = Response::new(full("{}"));
    *answer.status_mut() = status;
    answer
}
