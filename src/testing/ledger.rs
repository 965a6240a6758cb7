//! What a peer has seen so far, and waiting for it to see more.

use std::{
    collections::HashSet,
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use reqwest::Url;
use tokio::sync::watch;

use super::recorded::{Extent, Recorded};

/// How long a test waits for an event before it gives up with a message: far above anything a
/// loopback needs, far below a test runner's limit.
const PATIENCE: Duration = Duration::from_secs(10);

/// Everything a peer received, in order of arrival. Its lock is never held across an await.
#[derive(Debug)]
pub(super) struct Ledger {
    seen: Mutex<Seen>,
    changed: watch::Sender<()>,
}

/// What the connections of a server have in common.
pub(super) struct Shared {
    pub(super) base: Url,
    pub(super) ledger: Ledger,
}

/// The entries themselves.
#[derive(Debug, Default)]
pub(super) struct Seen {
    pub(super) requests: Vec<Recorded>,
    pub(super) connections: usize,
    pub(super) closed: usize,
    pub(super) bytes: u64,
}

impl Seen {
    pub(super) fn complete(&self) -> usize {
        self.requests.iter().filter(|request| request.is_complete()).count()
    }

    pub(super) fn writes(&self) -> usize {
        self.complete_writes().count()
    }

    /// What is acted on beyond the first time: every write that carries no key, or one that did not
    /// come with the same write before.
    pub(super) fn duplicates(&self, key_header: &str) -> usize {
        let mut operations = HashSet::new();
        let mut keyed = HashSet::new();
        let acted_on = self.complete_writes().filter(|request| {
            let operation = (&request.method, &request.url, &request.body);
            operations.insert(operation);
            request.headers.get(key_header).is_none_or(|key| keyed.insert((operation, key)))
        });
        let acted_on = acted_on.count();
        acted_on - operations.len()
    }

    fn complete_writes(&self) -> impl Iterator<Item = &Recorded> {
        self.requests.iter().filter(|request| request.is_complete() && request.is_write())
    }
}

impl Ledger {
    pub(super) fn new() -> Self {
        Self { seen: Mutex::default(), changed: watch::Sender::new(()) }
    }

    pub(super) fn read<T>(&self, look: impl FnOnce(&Seen) -> T) -> T {
        look(&self.lock())
    }

    pub(super) fn write<T>(&self, change: impl FnOnce(&mut Seen) -> T) -> T {
        let result = change(&mut self.lock());
        self.changed.send_replace(());
        result
    }

    /// Enters a request and returns its place, for what arrives of it later.
    pub(super) fn enter(&self, request: Recorded) -> usize {
        self.write(|seen| {
            seen.requests.push(request);
            seen.requests.len() - 1
        })
    }

    /// Adds what has arrived of the body of the request at this place.
    pub(super) fn extend(&self, place: usize, raw: &[u8], body: &[u8], extent: Extent) {
        self.write(|seen| {
            if let Some(request) = seen.requests.get_mut(place) {
                request.raw.extend_from_slice(raw);
                request.body.extend_from_slice(body);
                request.extent = extent;
            }
        });
    }

    /// Looks at the request at this place.
    pub(super) fn look_at<T>(&self, place: usize, look: impl FnOnce(&Recorded) -> T) -> Option<T> {
        self.read(|seen| seen.requests.get(place).map(look))
    }

    /// Waits until the condition holds, and panics with what was seen when it does not within
    /// [`PATIENCE`].
    #[track_caller]
    pub(super) fn until(&self, wanted: String, holds: impl Fn(&Seen) -> bool) -> impl Future<Output = ()> {
        let caller = std::panic::Location::caller();
        let mut changed = self.changed.subscribe();
        async move {
            let waited = tokio::time::timeout(PATIENCE, async {
                // The sender lives in `self`, which this future borrows: `changed` can't fail.
                while !self.read(&holds) && changed.changed().await.is_ok() {}
            });
            assert!(waited.await.is_ok(), "{caller}: waited {PATIENCE:?} for {wanted}; seen so far: {:#?}", self.lock());
        }
    }

    #[track_caller]
    pub(super) fn assert_count(&self, what: &str, wanted: usize, count: impl FnOnce(&Seen) -> usize) {
        let seen = self.lock();
        let counted = count(&seen);
        assert!(counted == wanted, "expected {wanted} {what}, saw {counted}: {:#?}", *seen);
    }

    fn lock(&self) -> MutexGuard<'_, Seen> {
        // A failed assertion poisons the lock; the entries are still whole.
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
