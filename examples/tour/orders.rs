//! The shop's database: orders, the keys they were placed under, and every request that came in.

use std::{
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use rusqlite::{Connection, OptionalExtension as _, Result, TransactionBehavior, params};

const SCHEMA: &str = "
    CREATE TABLE orders   (id INTEGER PRIMARY KEY, item TEXT NOT NULL);
    CREATE TABLE keys     (key TEXT PRIMARY KEY, order_id INTEGER NOT NULL REFERENCES orders (id));
    CREATE TABLE requests (id INTEGER PRIMARY KEY, method TEXT NOT NULL, key TEXT, arrived_us INTEGER NOT NULL);
";

pub(crate) struct Orders(Mutex<Connection>);

/// What became of one order.
pub(crate) enum Placed {
    Now(i64),
    /// The key was known: this order exists already, and nothing was added.
    Before(i64),
}

/// What the database holds when a story has ended.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Tally {
    pub(crate) orders: u64,
    pub(crate) posts: u64,
    pub(crate) gets: u64,
    /// Different idempotency keys among the requests.
    pub(crate) keys: u64,
}

impl Orders {
    pub(crate) fn open() -> Result<Self> {
        let db = Connection::open_in_memory()?;
        db.execute_batch(SCHEMA)?;
        Ok(Self(Mutex::new(db)))
    }

    /// Places an order. Key and order go in with one transaction: a crash in between leaves both or
    /// neither, never a key without its order, and never an order whose second copy would not be
    /// recognised.
    pub(crate) fn place(&self, item: &str, key: Option<&str>) -> Result<Placed> {
        let mut db = self.lock();
        let transaction = db.transaction_with_behavior(TransactionBehavior::Immediate)?;
        let known = transaction.query_row("SELECT order_id FROM keys WHERE key = ?1", [key], |row| row.get(0)).optional()?;
        if let Some(order) = known {
            return Ok(Placed::Before(order));
        }
        transaction.execute("INSERT INTO orders (item) VALUES (?1)", [item])?;
        let order = transaction.last_insert_rowid();
        if let Some(key) = key {
            transaction.execute("INSERT INTO keys (key, order_id) VALUES (?1, ?2)", params![key, order])?;
        }
        transaction.commit()?;
        Ok(Placed::Now(order))
    }

    /// Notes a request that came in.
    pub(crate) fn note(&self, method: &str, key: Option<&str>, arrived: Duration) -> Result<()> {
        let micros = i64::try_from(arrived.as_micros()).unwrap_or(i64::MAX);
        self.lock().execute("INSERT INTO requests (method, key, arrived_us) VALUES (?1, ?2, ?3)", params![method, key, micros])?;
        Ok(())
    }

    pub(crate) fn tally(&self) -> Result<Tally> {
        let db = self.lock();
        let count = |query| db.query_row(query, [], |row| row.get(0));
        Ok(Tally {
            orders: count("SELECT count(*) FROM orders")?,
            posts: count("SELECT count(*) FROM requests WHERE method = 'POST'")?,
            gets: count("SELECT count(*) FROM requests WHERE method = 'GET'")?,
            keys: count("SELECT count(DISTINCT key) FROM requests")?,
        })
    }

    /// The shortest time between two requests, as the server saw it.
    pub(crate) fn closest_arrivals(&self) -> Result<Duration> {
        let query = "SELECT min(gap) FROM (SELECT arrived_us - lag(arrived_us) OVER (ORDER BY id) AS gap FROM requests)";
        let micros: Option<u64> = self.lock().query_row(query, [], |row| row.get(0))?;
        Ok(micros.map_or(Duration::MAX, Duration::from_micros))
    }

    fn lock(&self) -> MutexGuard<'_, Connection> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
