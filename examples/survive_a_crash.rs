//! A process is killed in the middle of a write, and another one carries on. How often was ordered?
//!
//! The program starts itself again as the worker that orders, kills it (SIGKILL), and starts it once
//! more. Once the shop has acted by then, and its answer is lost with the worker; once the worker
//! has written down that it will send, and has sent nothing. Both sides keep a real database
//! (SQLite), and the shop's tells in the end how many orders there are.
//!
//! What a worker needs stands in [`worker`]: a row that is committed before the first send. Without
//! arguments and without waiting for anything but events, so that it is a test as well.

use std::{
    fmt,
    path::{Path, PathBuf},
    process::Stdio,
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, SystemTime},
};

use anyhow::{Context as _, Result, bail, ensure};

/// How the worker keeps its order from being two.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Way {
    /// The mistake: each process makes a key, and each key is another order.
    GeneratedKey,
    KeyInTheRow,
    DerivedKey,
    Probed,
    Unprotected,
}

const WAYS: [Way; 5] = [Way::GeneratedKey, Way::KeyInTheRow, Way::DerivedKey, Way::Probed, Way::Unprotected];

/// When the first worker is killed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Killed {
    AfterTheShopActed,
    BeforeAnythingWasSent,
}

/// How many orders there are in the end, and what the second worker came to know.
fn promised(way: Way, killed: Killed) -> (u64, &'static str) {
    match (way, killed) {
        (Way::GeneratedKey, Killed::AfterTheShopActed) => (2, "ordered"),
        (Way::KeyInTheRow | Way::DerivedKey, Killed::AfterTheShopActed) => (1, "ordered"),
        (Way::Probed, Killed::AfterTheShopActed) => (1, "looked it up: it was ordered"),
        (Way::Unprotected, Killed::AfterTheShopActed) => (1, "OutcomeUnknown, sent nothing"),
        (Way::GeneratedKey | Way::KeyInTheRow | Way::DerivedKey | Way::Probed, Killed::BeforeAnythingWasSent) => (1, "ordered"),
        (Way::Unprotected, Killed::BeforeAnythingWasSent) => (0, "OutcomeUnknown, sent nothing"),
    }
}

#[tokio::main]
async fn main() -> Result<()> {
    if let Some(task) = worker::Task::given()? {
        return task.run().await;
    }
    let folder = std::env::temp_dir().join(format!("survive-a-crash-{}", std::process::id()));
    std::fs::create_dir_all(&folder)?;
    let told = tell(&folder).await;
    std::fs::remove_dir_all(&folder)?;
    told
}

/// Every way, killed at both moments, as a table.
async fn tell(folder: &Path) -> Result<()> {
    for killed in [Killed::AfterTheShopActed, Killed::BeforeAnythingWasSent] {
        println!("{killed}\n{:>9}  {:26}  the second worker", "orders", "protected by");
        for way in WAYS {
            let (orders, known) = crash(folder, way, killed).await.with_context(|| format!("{way}, {killed}"))?;
            println!("{orders:>9}  {:26}  {known}", way.to_string());
            ensure!((orders, known.as_str()) == promised(way, killed), "{way}, {killed}: promised is {:?}", promised(way, killed));
        }
        println!();
    }
    Ok(())
}

/// One order, by a worker that is killed and by the one after it.
async fn crash(folder: &Path, way: Way, killed: Killed) -> Result<(u64, String)> {
    let row = folder.join(format!("{way:?}-{killed:?}"));
    let mut shop = shop::Shop::open(&row.with_extension("shop")).await?;
    let task = worker::Task { way, shop: shop.url(), database: row.with_extension("worker") };

    let mut first = task.start()?;
    first.has_written_it_down().await?;
    match killed {
        Killed::AfterTheShopActed => {
            first.go_on().await?;
            shop.has_acted().await?;
        }
        Killed::BeforeAnythingWasSent => {}
    }
    first.kill().await?;

    shop.answer_from_now_on();
    let mut second = task.start()?;
    second.has_written_it_down().await?;
    second.go_on().await?;
    let known = second.end().await?;
    Ok((shop.orders()?, known))
}

impl fmt::Display for Way {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::GeneratedKey => "a key made by each worker",
            Self::KeyInTheRow => "a key in the row",
            Self::DerivedKey => "a key derived from the row",
            Self::Probed => "a probe and SentBefore",
            Self::Unprotected => "SentBefore alone",
        })
    }
}

impl fmt::Display for Killed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::AfterTheShopActed => "killed after the shop has acted",
            Self::BeforeAnythingWasSent => "killed before anything was sent",
        })
    }
}

/// What an application does: it writes down what it is about to send, sends, and after a crash
/// carries on with what it finds.
mod worker {
    use std::io::{BufRead as _, Write as _};

    use reqwest_safe_retry::{
        Endpoint, IdempotencyKey, KeyContract, Outcome, RetryError, RetryReport, SafeRetry, SentBefore, StatusUrl, Uuid,
    };
    use rusqlite::{Connection, OptionalExtension as _, params};
    use tokio::{
        io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader},
        process::{Child, ChildStdout, Command},
    };

    use super::*;

    const HOUR: Duration = Duration::from_secs(60 * 60);
    /// The namespace of this application's keys.
    const ORDERS: Uuid = Uuid::from_u128(0x5b1d_3c52_9a0e_4c6b_8f7e_2a41_77d0_1e93);
    /// What the shop needs at most before it shows what it has accepted.
    const SETTLING: Duration = Duration::from_millis(200);
    const VARIABLES: [&str; 3] = ["SURVIVE_A_CRASH_WAY", "SURVIVE_A_CRASH_SHOP", "SURVIVE_A_CRASH_DATABASE"];

    /// The row of one order.
    struct Row {
        key: String,
        /// When an earlier worker wrote it, just before it sent.
        sent_at: Option<SystemTime>,
    }

    /// Finds the row, or writes it: key and time are committed before anything is sent.
    fn row(database: &Path) -> Result<Row> {
        let mut database = Connection::open(database)?;
        let transaction = database.transaction()?;
        transaction.execute_batch("CREATE TABLE IF NOT EXISTS outbox (key TEXT NOT NULL, sent_at INTEGER NOT NULL)")?;
        let found = transaction.query_row("SELECT key, sent_at FROM outbox", [], |row| Ok((row.get(0)?, row.get(1)?))).optional()?;
        if let Some((key, sent_at)) = found {
            return Ok(Row { key, sent_at: Some(SystemTime::UNIX_EPOCH + Duration::from_secs(sent_at)) });
        }
        let key = IdempotencyKey::random().as_str().to_owned();
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH)?.as_secs();
        transaction.execute("INSERT INTO outbox (key, sent_at) VALUES (?1, ?2)", params![key, now])?;
        transaction.commit()?;
        Ok(Row { key, sent_at: None })
    }

    impl Task {
        pub(crate) async fn run(&self) -> Result<()> {
            let row = row(&self.database)?;
            written_down()?;
            let client = SafeRetry::new().client(reqwest::Client::builder().no_proxy()).redirects_off().build()?;
            let order = client.post(format!("{}/orders/2041", self.shop)).body("one coffee");
            let keyed = Endpoint::keyed_write(KeyContract::ietf(HOUR));
            let order = match self.way {
                Way::GeneratedKey => order.with_extension(keyed),
                Way::KeyInTheRow => order.with_extension(keyed).with_extension(IdempotencyKey::parse(&row.key)?),
                Way::DerivedKey => order.with_extension(keyed).with_extension(IdempotencyKey::derived(ORDERS, "order 2041")),
                Way::Probed => {
                    let status = StatusUrl::by_path("/orders/{order}", "/orders/{order}")?;
                    order.with_extension(Endpoint::probed_write(status).settling(SETTLING))
                }
                Way::Unprotected => order.with_extension(Endpoint::unprotected_write()),
            };
            let order = match (row.sent_at, self.way) {
                (None, _) | (Some(_), Way::GeneratedKey) => order,
                (Some(sent_at), _) => order.with_extension(SentBefore::since(sent_at)),
            };
            println!("{}", known(order.send().await)?);
            Ok(())
        }
    }

    fn known(result: reqwest_middleware::Result<reqwest::Response>) -> Result<&'static str> {
        match result {
            Ok(answer) if RetryReport::of(&answer).is_some_and(|report| report.outcome() == Outcome::Reconciled) => {
                Ok("looked it up: it was ordered")
            }
            Ok(answer) if answer.status().is_success() => Ok("ordered"),
            Ok(answer) => bail!("{}", answer.status()),
            Err(error) => match RetryError::find(&error) {
                Some(RetryError::OutcomeUnknown(failure)) if failure.report().attempts().is_empty() => Ok("OutcomeUnknown, sent nothing"),
                _ => Err(error.into()),
            },
        }
    }

    /// Tells that the row is committed, and waits to be sent on its way or killed.
    fn written_down() -> Result<()> {
        println!("written down");
        std::io::stdout().flush()?;
        std::io::stdin().lock().read_line(&mut String::new())?;
        Ok(())
    }

    /// What a worker is started with.
    pub(crate) struct Task {
        pub(crate) way: Way,
        pub(crate) shop: String,
        pub(crate) database: PathBuf,
    }

    impl Task {
        /// This process's, if it is a worker.
        pub(crate) fn given() -> Result<Option<Self>> {
            let [Some(way), Some(shop), Some(database)] = VARIABLES.map(std::env::var_os) else { return Ok(None) };
            let way = WAYS.into_iter().find(|known| way == format!("{known:?}").as_str()).context("no such way")?;
            Ok(Some(Self { way, shop: shop.to_string_lossy().into_owned(), database: database.into() }))
        }

        pub(crate) fn start(&self) -> Result<Process> {
            let [way, shop, database] = VARIABLES;
            let mut command = Command::new(std::env::current_exe()?);
            command.env(way, format!("{:?}", self.way)).env(shop, &self.shop).env(database, &self.database);
            let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).kill_on_drop(true).spawn()?;
            let said = BufReader::new(child.stdout.take().context("no stdout")?);
            Ok(Process { child, said })
        }
    }

    /// A worker as its parent sees it.
    pub(crate) struct Process {
        child: Child,
        said: BufReader<ChildStdout>,
    }

    impl Process {
        pub(crate) async fn has_written_it_down(&mut self) -> Result<()> {
            let mut line = String::new();
            self.said.read_line(&mut line).await?;
            ensure!(line.trim() == "written down", "the worker ended early: {line:?}");
            Ok(())
        }

        pub(crate) async fn go_on(&mut self) -> Result<()> {
            Ok(self.child.stdin.as_mut().context("no stdin")?.write_all(b"go on\n").await?)
        }

        /// Kills it as `kill -9` does, and waits until it is gone.
        pub(crate) async fn kill(&mut self) -> Result<()> {
            Ok(self.child.kill().await?)
        }

        /// Waits for its end, and answers what it came to know.
        pub(crate) async fn end(mut self) -> Result<String> {
            let mut known = String::new();
            self.said.read_to_string(&mut known).await?;
            ensure!(self.child.wait().await?.success(), "the worker failed");
            Ok(known.trim().to_owned())
        }
    }
}

/// A shop that recognises keys, shows its orders, and says of each when it has acted.
mod shop {
    use std::{convert::Infallible, future::pending, net::Ipv4Addr};

    use hyper::{Method, Request, Response, StatusCode, body::Incoming, server::conn::http1, service::service_fn};
    use hyper_util::rt::TokioIo;
    use rusqlite::{Connection, params};
    use tokio::{
        net::TcpListener,
        sync::{mpsc, watch},
    };

    use super::*;

    pub(crate) struct Shop {
        url: String,
        orders: Orders,
        acted: mpsc::UnboundedReceiver<()>,
        manners: watch::Sender<Manners>,
    }

    #[derive(Clone, Copy, PartialEq, Eq)]
    enum Manners {
        /// It acts and does not answer.
        Silent,
        Answering,
    }

    #[derive(Clone)]
    struct Orders(Arc<Mutex<Connection>>);

    impl Shop {
        pub(crate) async fn open(database: &Path) -> Result<Self> {
            let orders = Orders(Arc::new(Mutex::new(Connection::open(database)?)));
            // A column of NULLs is not unique: orders without a key are never the same.
            orders.run(|database| database.execute_batch("CREATE TABLE orders (number TEXT NOT NULL, key TEXT UNIQUE)"))?;
            let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
            let url = format!("http://{}", listener.local_addr()?);
            let ((tell, acted), (manners, heard)) = (mpsc::unbounded_channel(), watch::channel(Manners::Silent));
            tokio::spawn(serve(listener, orders.clone(), tell, heard));
            Ok(Self { url, orders, acted, manners })
        }

        pub(crate) fn url(&self) -> String {
            self.url.clone()
        }

        pub(crate) async fn has_acted(&mut self) -> Result<()> {
            self.acted.recv().await.context("the shop is closed")
        }

        pub(crate) fn answer_from_now_on(&self) {
            self.manners.send_replace(Manners::Answering);
        }

        pub(crate) fn orders(&self) -> Result<u64> {
            self.orders.run(|database| database.query_row("SELECT count(*) FROM orders", [], |row| row.get(0)))
        }
    }

    async fn serve(listener: TcpListener, orders: Orders, acted: mpsc::UnboundedSender<()>, manners: watch::Receiver<Manners>) {
        while let Ok((peer, _)) = listener.accept().await {
            let (orders, acted, manners) = (orders.clone(), acted.clone(), manners.clone());
            let service = service_fn(move |request| {
                let (answer, told, manners) = (orders.answer(&request), acted.send(()), *manners.borrow());
                async move {
                    if told.is_err() || manners == Manners::Silent {
                        pending::<()>().await;
                    }
                    let mut response = Response::new(String::new());
                    *response.status_mut() = answer.unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
                    Ok::<_, Infallible>(response)
                }
            });
            tokio::spawn(http1::Builder::new().serve_connection(TokioIo::new(peer), service));
        }
    }

    impl Orders {
        fn answer(&self, request: &Request<Incoming>) -> Result<StatusCode> {
            let number = request.uri().path();
            if *request.method() == Method::POST {
                let key = request.headers().get("idempotency-key").map(|key| key.to_str()).transpose()?;
                let sql = "INSERT INTO orders (number, key) VALUES (?1, ?2) ON CONFLICT (key) DO NOTHING";
                self.run(|database| database.execute(sql, params![number, key]))?;
                return Ok(StatusCode::CREATED);
            }
            let sql = "SELECT count(*) > 0 FROM orders WHERE number = ?1";
            let is_there = self.run(|database| database.query_row(sql, [number], |row| row.get(0)))?;
            Ok(if is_there { StatusCode::OK } else { StatusCode::NOT_FOUND })
        }

        fn run<T>(&self, query: impl FnOnce(&Connection) -> rusqlite::Result<T>) -> Result<T> {
            Ok(query(&self.0.lock().unwrap_or_else(PoisonError::into_inner))?)
        }
    }
}
