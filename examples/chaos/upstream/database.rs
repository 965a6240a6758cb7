//! The upstream's database: what was done, and under which keys. It outlives every restart.

use std::sync::{Mutex, OnceLock};

use rusqlite::{Connection, OptionalExtension as _, Result, params};

use crate::journal::lock;

const SCHEMA: &str = "
    CREATE TABLE effects (id INTEGER PRIMARY KEY, operation INTEGER NOT NULL);
    CREATE INDEX of_operation ON effects (operation);
    CREATE TABLE keys (key TEXT PRIMARY KEY, operation INTEGER NOT NULL, made INTEGER NOT NULL) WITHOUT ROWID;
    CREATE INDEX keys_of_operation ON keys (operation);
";

pub(crate) struct Database {
    connection: Mutex<Connection>,
    /// The first failure. A server cannot answer for it, so it is told at the end of the run.
    failure: OnceLock<rusqlite::Error>,
}

/// What became of a write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Applied {
    Now,
    /// Its key was known.
    Before,
    /// The key is known from another operation.
    Elsewhere,
}

impl Database {
    pub(super) fn open() -> Result<Self> {
        let connection = Connection::open_in_memory()?;
        connection.execute_batch(SCHEMA)?;
        Ok(Self { connection: Mutex::new(connection), failure: OnceLock::new() })
    }

    /// Effect and key go in with one transaction. A key made before `forgotten` is not remembered
    /// any more. All times are the journal's.
    pub(super) fn apply(&self, operation: u64, key: Option<&str>, now: u64, forgotten: u64) -> Option<Applied> {
        let operation = operation as i64;
        self.run(|connection| {
            let transaction = connection.transaction()?;
            if let Some(key) = key {
                let known = transaction
                    .prepare_cached("SELECT operation FROM keys WHERE key = ?1 AND made >= ?2")?
                    .query_row(params![key, forgotten as i64], |row| row.get::<_, i64>(0))
                    .optional()?;
                if let Some(of) = known {
                    return Ok(if of == operation { Applied::Before } else { Applied::Elsewhere });
                }
                transaction
                    .prepare_cached("INSERT OR REPLACE INTO keys (key, operation, made) VALUES (?1, ?2, ?3)")?
                    .execute(params![key, operation, now as i64])?;
            }
            transaction.prepare_cached("INSERT INTO effects (operation) VALUES (?1)")?.execute([operation])?;
            transaction.commit()?;
            Ok(Applied::Now)
        })
    }

    /// How often the operation was applied.
    pub(crate) fn applied(&self, operation: u64) -> u64 {
        let count = |connection: &mut Connection| {
            connection
                .prepare_cached("SELECT count(*) FROM effects WHERE operation = ?1")?
                .query_row([operation as i64], |row| row.get::<_, i64>(0))
        };
        self.run(count).map_or(0, |count| count as u64)
    }

    /// The operation is judged: nobody will ask for it again.
    pub(crate) fn forget(&self, operation: u64) {
        self.run(|connection| {
            for table in ["DELETE FROM effects WHERE operation = ?1", "DELETE FROM keys WHERE operation = ?1"] {
                connection.prepare_cached(table)?.execute([operation as i64])?;
            }
            Ok(())
        });
    }

    pub(crate) fn failure(&self) -> Option<&rusqlite::Error> {
        self.failure.get()
    }

    fn run<T>(&self, work: impl FnOnce(&mut Connection) -> Result<T>) -> Option<T> {
        work(&mut lock(&self.connection)).map_err(|error| self.failure.set(error)).ok()
    }
}
