//! Between the cool-down of this process and the store: what was said here is told there, and what
//! changes there is heard here.
//!
//! Requests never wait for any of this. What cannot be told in time is dropped: then each process
//! learns it for itself, as it would without a store.

use std::{
    convert::Infallible,
    fmt,
    hash::{BuildHasher, Hasher, RandomState},
    time::Duration,
};

use redis::Client;
use reqwest_safe_retry::{
    Cooldown,
    policy::{Backoff, Draw, Jitter},
};
use tokio::{
    sync::mpsc,
    time::{Instant, sleep, sleep_until},
};

use crate::store::{Gone, Store};

/// How many waits may queue for the store. More than this at once only happens while nobody empties
/// the queue.
const QUEUE: usize = 64;

/// 0.1 to 0.2 s at first, 15 to 30 s at last: a fleet that lost its store does not come back as
/// one.
const RECONNECT: Backoff = Backoff::doubling(Duration::from_millis(200), Duration::from_secs(30)).with_jitter(Jitter::Equal);

/// The store is looked at no more often than this, however much it has to say.
const LOOKS_APART: Duration = Duration::from_millis(20);

/// A link on which nothing happens is looked at this often: some networks drop a connection without
/// a word.
const IDLE: Duration = Duration::from_secs(60);

/// A wait that a server asked this process for.
pub(crate) struct News {
    pub(crate) name: String,
    pub(crate) until: Instant,
}

/// The way from the cool-down into the queue. When the queue is full, or nobody empties it any
/// more, the news is dropped.
pub(crate) fn news() -> (impl Fn(&str, Duration) + Send + Sync + 'static, mpsc::Receiver<News>) {
    let (queue, news) = mpsc::channel(QUEUE);
    let tell = move |name: &str, wait| {
        if let Some(until) = Instant::now().checked_add(wait) {
            let _ = queue.try_send(News { name: name.to_owned(), until });
        }
    };
    (tell, news)
}

/// The connection of one process to the store that its fleet shares. It does nothing until
/// [`run`](Self::run) is polled.
#[must_use = "nothing is shared until `run` is spawned"]
pub struct Link {
    cooldown: Cooldown,
    news: mpsc::Receiver<News>,
    store: Client,
    fleet: String,
}

impl Link {
    pub(crate) fn new(cooldown: Cooldown, news: mpsc::Receiver<News>, store: Client, fleet: &str) -> Self {
        // Braces keep key and channel of one fleet in one place of a cluster.
        Self { cooldown, news, store, fleet: format!("reqwest-safe-retry:{{{fleet}}}") }
    }

    /// Shares waits for as long as it is polled, on one connection, which it opens again whenever
    /// it is lost.
    ///
    /// # Cancellation
    /// Dropping it ends the sharing and nothing else: what is known here stays known.
    pub async fn run(mut self) -> Infallible {
        let mut losses = 0_u32;
        loop {
            if let Ok(mut store) = Store::open(&self.store, &self.fleet).await {
                // A look at each connect: what was said while there was no connection has sent its
                // message already.
                if self.hear(&mut store).await.is_ok() {
                    losses = 0;
                    let Err(Gone) = self.serve(&mut store).await;
                }
            }
            losses = losses.saturating_add(1);
            sleep(RECONNECT.pause(losses, draw())).await;
        }
    }

    async fn serve(&mut self, store: &mut Store) -> Result<Infallible, Gone> {
        let mut looked = Instant::now();
        loop {
            let changed = async {
                store.changed().await;
                // Not a moment for nothing: a timer is late by up to a millisecond.
                if looked.elapsed() < LOOKS_APART {
                    sleep_until(looked + LOOKS_APART).await;
                }
            };
            tokio::select! {
                news = self.news.recv() => {
                    if let Some(News { name, until }) = news {
                        store.tell(&name, until).await?;
                    }
                    continue;
                }
                () = changed => {}
                () = sleep_until(looked + IDLE) => {}
            }
            looked = Instant::now();
            self.hear(store).await?;
        }
    }

    /// Takes over what the store knows.
    async fn hear(&self, store: &mut Store) -> Result<(), Gone> {
        for (name, left) in store.look().await? {
            self.cooldown.hear(&name, left);
        }
        Ok(())
    }
}

impl fmt::Debug for Link {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Link").field("fleet", &self.fleet).finish_non_exhaustive()
    }
}

/// Every `RandomState` has other keys, and hashing nothing under them is chance enough for a pause.
fn draw() -> Draw {
    Draw::new(RandomState::new().build_hasher().finish())
}
