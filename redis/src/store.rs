//! What the link asks of the store: three exchanges on one connection, each bounded.

use std::{sync::Arc, time::Duration};

use redis::{
    AsyncConnectionConfig, Client, ProtocolVersion, PushInfo, RedisResult, Script, ScriptInvocation, Value, aio::MultiplexedConnection,
};
use reqwest_safe_retry::policy::defaults::MOST_HEARD;
use tokio::{
    sync::Notify,
    time::{Instant, timeout},
};

/// How long the store may take for one exchange.
const EXCHANGE: Duration = Duration::from_secs(1);

/// How many names a fleet has, at most. Those whose waits end soonest go first.
const MOST_NAMES: usize = 1024;

/// No origin is longer: a host name has at most 253 letters.
const LONGEST_NAME: usize = 512;

/// The connection is lost, too slow, or not one to a store. What it was is of no use: all that
/// helps is another one.
pub(crate) struct Gone;

/// An open connection.
pub(crate) struct Store {
    connection: MultiplexedConnection,
    fleet: String,
    clock: Clock,
    changed: Arc<Notify>,
    scripts: Scripts,
}

struct Scripts {
    tell: Script,
    look: Script,
}

/// What the store's clock showed, and when it was asked.
struct Clock {
    micros: u64,
    asked: Instant,
}

impl Clock {
    /// What it shows now; later by what the answer took on its way, so that no wait is cut for
    /// that.
    fn now(&self) -> u64 {
        self.micros.saturating_add(micros(self.asked.elapsed()))
    }
}

impl Store {
    /// Connects and listens. A user's own settings of the connection are kept, except for the
    /// protocol.
    pub(crate) async fn open(client: &Client, fleet: &str) -> Result<Self, Gone> {
        let info = client.get_connection_info().clone();
        let settings = info.redis_settings().clone().set_protocol(ProtocolVersion::RESP3);
        let client = Client::open(info.set_redis_settings(settings)).map_err(|_| Gone)?;
        // A message only says that something has changed, and so does the end of the connection.
        // One permit keeps any number of them.
        let changed = Arc::new(Notify::new());
        let listener = Arc::clone(&changed);
        let on_push = move |_: PushInfo| {
            listener.notify_one();
            Ok::<(), Gone>(())
        };
        // Every exchange is bounded here, as a whole.
        let config = AsyncConnectionConfig::new().set_connection_timeout(None).set_response_timeout(None).set_push_sender(on_push);
        let mut connection = exchange(client.get_multiplexed_async_connection_with_config(&config)).await?;
        exchange(connection.subscribe(fleet)).await?;
        let scripts = Scripts { tell: Script::new(include_str!("tell.lua")), look: Script::new(include_str!("look.lua")) };
        // Now, so that the first wait need not be told twice.
        exchange(scripts.tell.load_async(&mut connection)).await?;
        Ok(Self { connection, fleet: fleet.to_owned(), clock: Clock { micros: 0, asked: Instant::now() }, changed, scripts })
    }

    /// Returns once the store may know something new, or the connection is lost.
    pub(crate) async fn changed(&self) {
        self.changed.notified().await;
    }

    /// Tells the fleet of a wait that ends then. The store takes as much from it as the command
    /// comes late.
    pub(crate) async fn tell(&mut self, name: &str, until: Instant) -> Result<(), Gone> {
        let asked = Instant::now();
        let left = until.saturating_duration_since(asked);
        if left.is_zero() || name.len() > LONGEST_NAME {
            return Ok(());
        }
        let mut tell = self.scripts.tell.key(&self.fleet);
        tell.arg(name).arg(micros(left)).arg(self.clock.now()).arg(micros(MOST_HEARD)).arg(MOST_NAMES);
        let micros = invoke(&mut self.connection, &tell).await?;
        self.clock = Clock { micros, asked };
        Ok(())
    }

    /// What the fleet knows: names, and how long their waits still are.
    pub(crate) async fn look(&mut self) -> Result<Vec<(String, Duration)>, Gone> {
        let asked = Instant::now();
        let mut look = self.scripts.look.key(&self.fleet);
        look.arg(micros(MOST_HEARD)).arg(MOST_NAMES).arg(LONGEST_NAME);
        let answer: Vec<Value> = invoke(&mut self.connection, &look).await?;
        let (micros, waits) = answer.split_first().ok_or(Gone)?;
        self.clock = Clock { micros: redis::from_redis_value(micros.clone()).map_err(|_| Gone)?, asked };
        // What is no name, or no time, was not written by this crate.
        let wait = |pair: &[Value]| {
            let [name, left] = pair else { return None };
            Some((redis::from_redis_value(name.clone()).ok()?, Duration::from_micros(redis::from_redis_value(left.clone()).ok()?)))
        };
        Ok(waits.chunks(2).filter_map(wait).collect())
    }
}

async fn invoke<T: redis::FromRedisValue>(connection: &mut MultiplexedConnection, script: &ScriptInvocation<'_>) -> Result<T, Gone> {
    exchange(script.invoke_async(connection)).await
}

async fn exchange<T>(exchange: impl Future<Output = RedisResult<T>>) -> Result<T, Gone> {
    timeout(EXCHANGE, exchange).await.map_err(|_| Gone)?.map_err(|_| Gone)
}

fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}
