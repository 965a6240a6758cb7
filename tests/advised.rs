//! What a log is told to have mended. A binary of its own: how many clients a process builds is
//! looked at for the whole process.

#![cfg(all(feature = "testing", feature = "tracing"))]
#![allow(clippy::unwrap_used, reason = "what fails here fails its test")]

use std::{
    io::{self, Write},
    sync::{Arc, LazyLock, Mutex},
    time::Duration,
};

use reqwest_middleware::{ClientBuilder, ClientWithMiddleware};
use reqwest_safe_retry::{Advice, ReportSlot, RetryBudget, SafeRetry, testing::Scripted};
use tracing::{Level, subscriber::DefaultGuard};
use tracing_subscriber::{Layer as _, filter::Targets, layer::SubscriberExt as _};

const URL: &str = "https://api.test/menu";

/// The lines of one target, on this thread.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl Log {
    fn start() -> (Self, DefaultGuard) {
        let log = Self::default();
        let writer = log.clone();
        let advice = Targets::new().with_target("reqwest_safe_retry::advice", Level::WARN);
        let lines = tracing_subscriber::fmt::layer().with_ansi(false).with_writer(move || writer.clone());
        let subscriber = tracing_subscriber::registry().with(lines.with_filter(advice));
        (log, tracing::subscriber::set_default(subscriber))
    }

    fn lines(&self) -> Vec<String> {
        String::from_utf8(self.0.lock().unwrap().clone()).unwrap().lines().map(str::to_owned).collect()
    }
}

impl Write for Log {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn client(retry: SafeRetry) -> ClientWithMiddleware {
    // Never reached, so one for all.
    static TRANSPORT: LazyLock<reqwest::Client> = LazyLock::new(reqwest::Client::new);
    ClientBuilder::new(TRANSPORT.clone()).with(retry).with(Scripted::answering(200)).build()
}

#[tokio::test(start_paused = true)]
async fn what_is_to_be_mended_is_told_once_for_each_origin_unless_it_is_silenced() {
    let (log, _guard) = Log::start();
    let hurried = || {
        let retry = SafeRetry::new().without_advice(Advice::BudgetNotShared);
        retry.with_deadline(Duration::from_secs(2)).with_attempt_limit(Duration::from_secs(2))
    };
    let told = client(hurried());
    for url in [URL, URL, "https://other.test/"] {
        told.get(url).send().await.unwrap();
    }
    let lines = log.lines();
    assert_eq!(lines.len(), 2, "{lines:#?}");
    for (line, host) in lines.iter().zip(["api.test", "other.test"]) {
        assert!(line.contains("WARN") && line.contains(host) && line.contains("guide::deadlines"), "{line}");
    }
    client(hurried().without_advice(Advice::DeadlineWithinAttempt)).get(URL).send().await.unwrap();
    assert_eq!(log.lines().len(), 2);
}

#[tokio::test(start_paused = true)]
async fn clients_built_for_single_requests_are_told_of_once() {
    let (log, _guard) = Log::start();
    let shared = RetryBudget::default();
    for retry in (0..100).map(|_| SafeRetry::new().with_budget(shared.clone())) {
        client(retry).get(URL).send().await.unwrap();
    }
    client(SafeRetry::new()).get(URL).send().await.unwrap();
    assert!(log.lines().is_empty(), "one budget bounds them all: {:?}", log.lines());

    let grown = client(SafeRetry::new());
    tokio::time::advance(Duration::from_secs(60)).await;
    for retry in (0..100).map(|_| SafeRetry::new().without_advice(Advice::BudgetNotShared)) {
        client(retry).get(URL).send().await.unwrap();
    }
    grown.get(URL).send().await.unwrap();
    assert!(log.lines().is_empty(), "who asked not to be told, and who is none of them: {:?}", log.lines());

    for _ in 0..2 {
        let slot = ReportSlot::new();
        client(SafeRetry::new()).get(URL).with_extension(slot.clone()).send().await.unwrap();
        assert!(slot.take().unwrap().advice().is_empty());
        assert!(matches!(&log.lines()[..], [line] if line.contains("guide::budgets")), "{:?}", log.lines());
    }
}
