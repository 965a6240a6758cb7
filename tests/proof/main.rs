//! The proof: thousands of operations, a real database, and a network that loses what it can.
//!
//! Afterwards the database is asked. Whoever heard *success* has exactly one row, whoever heard
//! *failure* none, and only those who heard *unknown* may find either. Whoever has a key or a probe
//! then carries on until nothing is unknown, and there is one row for each write.

#![cfg(feature = "middleware")]
#![expect(clippy::unwrap_used, reason = "a test")]

mod upstream;

use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
    time::Duration,
};

use futures_util::{StreamExt, stream};
use http::StatusCode;
use reqwest_middleware::ClientWithMiddleware;
use reqwest_safe_retry::{
    BudgetLimits, Cause, Endpoint, EndpointCatalog, IdempotencyKey, KeyContract, Outcome, ReportSlot, RetryBudget, RetryError, RetryPolicy,
    RetryReport, Row, SafeRetry, StatusUrl,
    policy::{Backoff, Jitter, KeyAnswer},
};
use tokio::net::TcpSocket;
use upstream::{BRIEF_MEMORY, BRIEF_PROMISE, CALM, Upstream, chance};

const SEED: u64 = 20_240_611;
const CONCURRENCY: usize = 32;
const MILLI: Duration = Duration::from_millis(1);
/// Longer than a late write can be late.
const SETTLING: Duration = Duration::from_millis(400);
/// How often a user carries on with one operation before giving up; each try is a whole operation,
/// resends and all.
const PATIENCE: usize = 20;

/// Class, operations of it, path.
const CLASSES: [(Class, usize); 5] =
    [(Class::Keyed, 800), (Class::Brief, 250), (Class::Probed, 450), (Class::Plain, 450), (Class::Unreachable, 50)];

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Class {
    /// Under a key that is remembered for an hour.
    Keyed,
    /// Under a key that is soon forgotten, with a probe for afterwards.
    Brief,
    Probed,
    /// Neither key nor probe.
    Plain,
    /// At a port where nobody listens.
    Unreachable,
}

impl Class {
    const fn is_protected(self) -> bool {
        matches!(self, Self::Keyed | Self::Brief | Self::Probed)
    }

    const fn path(self) -> &'static str {
        match self {
            Self::Keyed => "keyed",
            Self::Brief => "brief",
            Self::Probed => "probed",
            Self::Plain | Self::Unreachable => "plain",
        }
    }
}

/// What the caller heard.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Heard {
    Success,
    Failure,
    Unknown,
}

/// What the caller may conclude: from an answer and its report, or from the kind of error alone.
fn heard(result: &reqwest_middleware::Result<reqwest::Response>, outcome: Outcome) -> Heard {
    let answered = |status: StatusCode| if status.is_success() { Heard::Success } else { Heard::Failure };
    match result {
        Ok(_) if matches!(outcome, Outcome::Unknown | Outcome::AnsweredAfterUnknown) => Heard::Unknown,
        Ok(answer) => answered(answer.status()),
        Err(error) => match RetryError::find(error).unwrap() {
            RetryError::OutcomeUnknown(_) => Heard::Unknown,
            RetryError::Unprocessed(_) | RetryError::DeadlineExceeded(_) => Heard::Failure,
            error => answered(error.status().unwrap()), // the body was lost, the status is final
        },
    }
}

/// Everything a request needs is in its row.
fn catalog(origin: &str, nowhere: &str) -> EndpointCatalog {
    let probe = || StatusUrl::by_path("/{class}/{operation}", "/status/{operation}").unwrap();
    let contract = |remembered_for| KeyContract::ietf(remembered_for).with_replay_marker("idempotent-replayed".parse().unwrap());
    let post = |path, endpoint: Endpoint| Row::post(path, endpoint.reading_body(1024).settling(SETTLING));
    // The second pause outlives the key, and the third what the server remembers beyond its
    // promise.
    let slow = policy(Backoff::doubling(150 * MILLI, 600 * MILLI).with_jitter(Jitter::None));
    let rows = [
        post("/keyed/{operation}", Endpoint::keyed_write(contract(Duration::from_secs(3600)))),
        post("/brief/{operation}", Endpoint::keyed_write(contract(BRIEF_PROMISE)).probed_by(probe()).with_policy(slow)),
        post("/probed/{operation}", Endpoint::probed_write(probe())),
        post("/plain/{operation}", Endpoint::unprotected_write()),
    ];
    let unreachable = post("/plain/{operation}", Endpoint::unprotected_write());
    EndpointCatalog::new().with_rows(origin, rows).unwrap().with_row(nowhere, unreachable).unwrap()
}

fn policy(backoff: Backoff) -> RetryPolicy {
    RetryPolicy::DEFAULT.with_attempts(5).with_backoff(backoff).with_throttle_backoff(backoff).with_least_attempt(50 * MILLI)
}

fn client(catalog: EndpointCatalog) -> ClientWithMiddleware {
    SafeRetry::new()
        .with_catalog(catalog)
        .with_policy(policy(Backoff::doubling(10 * MILLI, 80 * MILLI)))
        .with_budget(RetryBudget::new(BudgetLimits::UNLIMITED))
        .with_deadline(Duration::from_secs(4))
        .with_attempt_limit(150 * MILLI)
        .client(reqwest::Client::builder().connect_timeout(100 * MILLI))
        .redirects_off()
        .build()
        .unwrap()
}

struct Operation {
    class: Class,
    name: String,
    url: String,
    /// Where to look what became of it.
    status: String,
    /// The caller's; without one, the client makes its own.
    key: Option<IdempotencyKey>,
    /// A caller that does not know of the other, with the same key at the same time.
    twins: usize,
    /// What the server refuses for good.
    is_valid: bool,
}

impl Operation {
    /// What must be done once in the end, and can be.
    const fn is_due(&self) -> bool {
        self.class.is_protected() && self.is_valid
    }
}

/// What one call comes to.
struct Call {
    heard: Heard,
    report: RetryReport,
    /// What to carry on with.
    key: Option<IdempotencyKey>,
}

struct Ended {
    heard: Vec<Heard>,
    key: Option<IdempotencyKey>,
    attempts: usize,
    refused: bool,
    /// A resend or a probe settled what an attempt had left open.
    reconciled: bool,
}

fn operations(origin: &str, nowhere: &str) -> Vec<Operation> {
    let named = |class: Class, number: usize| {
        let name = format!("{class:?}-{number}");
        let base = if class == Class::Unreachable { nowhere } else { origin };
        let drawn = chance(SEED, name.bytes().map(u64::from).sum::<u64>() * 1_000 + number as u64);
        let has_twin = class == Class::Keyed && drawn % 8 == 0;
        Operation {
            class,
            url: format!("{base}/{}/{name}", class.path()),
            status: format!("{base}/status/{name}"),
            name,
            key: has_twin.then(IdempotencyKey::random),
            twins: if has_twin { 2 } else { 1 },
            is_valid: drawn % 32 != 1,
        }
    };
    let mut operations: Vec<_> =
        CLASSES.into_iter().flat_map(|(class, count)| (0..count).map(move |number| named(class, number))).collect();
    operations.sort_by_key(|operation| operation.name.bytes().fold(SEED, |mixed, byte| chance(mixed, byte.into())));
    operations
}

async fn call(client: &ClientWithMiddleware, operation: &Operation, key: Option<&IdempotencyKey>) -> Call {
    let slot = ReportSlot::new();
    let body = if operation.is_valid { "valid" } else { "invalid" };
    let mut request = client.post(&operation.url).body(body).with_extension(slot.clone());
    if let Some(key) = key {
        request = request.with_extension(key.clone());
    }
    let result = request.send().await;
    let report = slot.take().unwrap();
    let key = match &result {
        Ok(_) => report.key().cloned(),
        Err(error) => RetryError::find(error).unwrap().key().cloned(),
    };
    Call { heard: heard(&result, report.outcome()), report, key }
}

async fn carry_out(client: &ClientWithMiddleware, operation: &Operation) -> Ended {
    let calls = (0..operation.twins).map(|_| call(client, operation, operation.key.as_ref()));
    let calls = futures_util::future::join_all(calls).await;
    let attempts = || calls.iter().flat_map(|call| call.report.attempts());
    Ended {
        heard: calls.iter().map(|call| call.heard).collect(),
        key: calls.iter().find_map(|call| call.key.clone()),
        attempts: attempts().count(),
        refused: attempts().any(|attempt| attempt.cause() == Cause::Connect),
        reconciled: calls.iter().any(|call| call.report.outcome() == Outcome::Reconciled),
    }
}

/// Carries on as a user does who must know: under the same key, or, where no key is remembered for
/// that long, after a look at the status. Nothing of the operation may be under way on the server
/// when this begins.
async fn carry_on(client: &ClientWithMiddleware, operation: &Operation, mut key: Option<IdempotencyKey>) {
    for _ in 0..PATIENCE {
        let again = if operation.class == Class::Keyed {
            Some(call(client, operation, key.as_ref()).await)
        } else {
            match client.get(&operation.status).send().await.map(|answer| answer.status()) {
                Ok(StatusCode::OK) => return,
                Ok(StatusCode::NOT_FOUND) => Some(call(client, operation, None).await),
                Ok(_) | Err(_) => None,
            }
        };
        if let Some(again) = again {
            if again.heard == Heard::Success {
                return;
            }
            key = again.key.or(key);
        }
        tokio::time::sleep(SETTLING).await;
    }
    panic!("{}: not settled", operation.name);
}

/// Does something with each of these operations, some of them at a time.
async fn each<D: Future<Output: Send + 'static> + Send + 'static>(
    numbers: impl IntoIterator<Item = usize>,
    work: impl Fn(usize) -> D,
) -> Vec<(usize, D::Output)> {
    let work = stream::iter(numbers).map(|number| {
        let task = tokio::spawn(work(number));
        async move { (number, task.await.unwrap()) }
    });
    work.buffer_unordered(CONCURRENCY).collect().await
}

#[derive(Default)]
struct Figures {
    operations: usize,
    attempts: usize,
    arrivals: u64,
    success: usize,
    failure: usize,
    unknown: usize,
    unknown_and_done: usize,
    reconciled: usize,
    refused: usize,
    rows: usize,
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn only_unknown_may_disagree_with_the_database_and_keyed_and_probed_writes_end_as_one_row_each() {
    let (upstream, listener) = Upstream::start(SEED).await;
    // A port that is taken and not listened at.
    let taken = TcpSocket::new_v4().unwrap();
    taken.bind(([127, 0, 0, 1], 0).into()).unwrap();
    let nowhere = format!("http://{}", taken.local_addr().unwrap());
    let client = client(catalog(&upstream.origin(), &nowhere));
    let server = tokio::spawn(upstream.clone().run(listener));

    let operations = Arc::new(operations(&upstream.origin(), &nowhere));
    let ended = each(0..operations.len(), |number| {
        let (client, operations) = (client.clone(), Arc::clone(&operations));
        async move { carry_out(&client, &operations[number]).await }
    })
    .await;
    // What is still running on the server may add rows to unknown operations; let it.
    tokio::time::sleep(SETTLING).await;

    let mut figures: BTreeMap<Class, Figures> = BTreeMap::new();
    for (number, ended) in &ended {
        let operation = &operations[*number];
        let (rows, arrivals) = (upstream.rows_of(&operation.name), upstream.arrivals_of(&operation.name));
        let of = figures.entry(operation.class).or_default();
        of.operations += 1;
        of.attempts += ended.attempts;
        of.arrivals += arrivals;
        of.rows += rows;
        of.refused += usize::from(ended.refused);
        of.reconciled += usize::from(ended.reconciled);

        assert!(rows <= 1, "{}: {rows} rows, {:?}", operation.name, ended.heard);
        if matches!(operation.class, Class::Plain | Class::Unreachable) {
            assert!(arrivals <= 1, "{}: the server read {arrivals} requests that nothing protects", operation.name);
        }
        for heard in &ended.heard {
            match heard {
                Heard::Success => assert_eq!(rows, 1, "{}: success, but no row", operation.name),
                // A twin may have been luckier.
                Heard::Failure if operation.twins == 1 => assert_eq!(rows, 0, "{}: failure, and a row", operation.name),
                Heard::Failure | Heard::Unknown => {}
            }
        }
        match ended.heard[0] {
            Heard::Success => of.success += 1,
            Heard::Failure => of.failure += 1,
            Heard::Unknown => {
                of.unknown += 1;
                of.unknown_and_done += rows;
            }
        }
    }
    print(&figures, &upstream);

    // The status can be asked again. The storm goes on.
    upstream.open_eyes();
    let keys: HashMap<usize, Option<IdempotencyKey>> = ended
        .into_iter()
        .filter(|(number, ended)| operations[*number].is_due() && ended.heard.iter().any(|heard| *heard != Heard::Success))
        .map(|(number, ended)| (number, ended.key))
        .collect();
    each(keys.keys().copied(), |number| {
        let (client, operations, key) = (client.clone(), Arc::clone(&operations), keys[&number].clone());
        async move { carry_on(&client, &operations[number], key).await }
    })
    .await;
    tokio::time::sleep(SETTLING).await;
    server.abort();
    let carried_on = |class| keys.keys().filter(|number| operations[**number].class == class).count();
    let [keyed, brief, probed] = [Class::Keyed, Class::Brief, Class::Probed].map(carried_on);
    println!("carried on: {keyed} keyed, {brief} brief, {probed} probed");
    assert!(keyed > 0 && probed > 0, "something was left to carry on with");
    for operation in operations.iter().filter(|operation| operation.is_due()) {
        assert_eq!(upstream.rows_of(&operation.name), 1, "{}: done once", operation.name);
    }

    // The faults have struck, or nothing was proven.
    let total = |figure: fn(&Figures) -> usize| figures.values().map(figure).sum::<usize>();
    assert_eq!(total(|of| of.operations), 2_000);
    assert_eq!(upstream.faults().len(), 9, "every kind of fault");
    assert!(upstream.restarts() >= 5 && upstream.conflicts() > 0 && upstream.replays() > 0);
    assert!(total(|of| of.reconciled) > 0 && total(|of| of.refused) > 50);
    let plain = &figures[&Class::Plain];
    assert!(plain.unknown_and_done > 0 && plain.unknown_and_done < plain.unknown, "unknown is the truth: some happened, some did not");
    assert_eq!(figures[&Class::Unreachable].failure, 50);
    for class in [Class::Keyed, Class::Brief, Class::Probed] {
        let of = &figures[&class];
        assert!(of.success * 2 > of.operations, "{class:?}: protection is there to succeed");
    }
}

/// Without this the proof would prove nothing: the server does tell copies from other content, and
/// does forget.
#[tokio::test]
async fn the_upstream_keeps_its_word_and_no_more() {
    let (upstream, listener) = Upstream::start(CALM).await;
    let client = client(catalog(&upstream.origin(), "http://nowhere.invalid"));
    let server = tokio::spawn(upstream.clone().run(listener));
    let send = async |path: &str, key: &IdempotencyKey, body: &'static str| {
        let slot = ReportSlot::new();
        let request = client.post(format!("{}{path}", upstream.origin())).body(body).with_extension(slot.clone());
        let answer = request.with_extension(key.clone()).send().await.unwrap();
        (answer.status().as_u16(), slot.take().as_ref().and_then(RetryReport::key_answer))
    };

    let key = IdempotencyKey::random();
    assert_eq!(send("/keyed/a", &key, "one").await, (201, None));
    assert_eq!(send("/keyed/a", &key, "one").await, (201, Some(KeyAnswer::Replayed)));
    assert_eq!(send("/keyed/a", &key, "two").await, (422, Some(KeyAnswer::Mismatch)));
    assert_eq!(send("/keyed/b", &key, "one").await, (422, Some(KeyAnswer::Mismatch)));
    assert_eq!((upstream.rows_of("a"), upstream.rows_of("b")), (1, 0));

    let key = IdempotencyKey::random();
    let ((one, _), (other, _)) = tokio::join!(send("/keyed/c", &key, "one"), send("/keyed/c", &key, "one"));
    assert_eq!((one, other, upstream.rows_of("c")), (201, 201, 1));
    assert!(upstream.conflicts() > 0, "the copy in flight was told to come back");

    let key = IdempotencyKey::random();
    assert_eq!(send("/brief/d", &key, "one").await, (201, None));
    assert_eq!(send("/brief/d", &key, "one").await, (201, Some(KeyAnswer::Replayed)));
    tokio::time::sleep(BRIEF_MEMORY + 50 * MILLI).await;
    assert_eq!(send("/brief/d", &key, "one").await, (201, None));
    assert_eq!(upstream.rows_of("d"), 2, "a forgotten key is a new operation");
    server.abort();
}

fn print(figures: &BTreeMap<Class, Figures>, upstream: &Upstream) {
    println!("class        operations  attempts  arrived  success  failure  unknown (of these done)  reconciled  refused  rows");
    for (class, of) in figures {
        let Figures { operations, attempts, arrivals, success, failure, unknown, unknown_and_done, reconciled, refused, rows } = of;
        let class = format!("{class:?}");
        println!(
            "{class:<12} {operations:>10} {attempts:>9} {arrivals:>8} {success:>8} {failure:>8} {unknown:>8} {unknown_and_done:>15} {reconciled:>11} {refused:>8} {rows:>5}"
        );
    }
    let mut faults: Vec<_> = upstream.faults().into_iter().collect();
    faults.sort_unstable();
    println!("faults: {faults:?}");
    println!("restarts: {}, copies in flight: {}, replays: {}", upstream.restarts(), upstream.conflicts(), upstream.replays());
}
