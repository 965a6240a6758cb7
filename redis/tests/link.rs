//! The link of one process, and of very many, with a real store.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "what fails here fails the test")]

#[path = "fleet/server.rs"]
#[allow(dead_code, reason = "the fleet needs more of it")]
mod server;

use std::{net::Ipv4Addr, sync::LazyLock, time::Duration};

use redis::cmd;
use reqwest_middleware::{ClientBuilder, ClientWithMiddleware};
use reqwest_safe_retry::{
    Cooldown, Endpoint, HoldsBack, RetryError, SafeRetry, ScopeKey, SendWitness,
    policy::defaults::MOST_HEARD,
    testing::{Scripted, Step},
};
use reqwest_safe_retry_redis::{share, share_as};
use server::Server;
use tokio::{
    net::TcpListener,
    task::{JoinHandle, JoinSet},
    time::{Instant, sleep, timeout},
};

const KEY: &str = "reqwest-safe-retry:{test}";
const URL: &str = "https://api.example/orders";
const NAME: &str = "https://api.example:443";

/// Never reached, so one is enough.
static TRANSPORT: LazyLock<reqwest::Client> = LazyLock::new(reqwest::Client::new);

fn client(cooldown: Cooldown, peer: &Scripted) -> ClientWithMiddleware {
    let retry = SafeRetry::new().with_shared_cooldown(cooldown);
    ClientBuilder::new(TRANSPORT.clone()).with(retry).with(SendWitness::redirects_off()).with(peer.clone()).build()
}

fn refusing(wait: &str) -> Scripted {
    Scripted::new([Step::status(429).with_header("retry-after", wait)])
}

/// A process of the fleet: what it knows, and the task that shares it.
fn process(server: &Server) -> (Cooldown, JoinHandle<std::convert::Infallible>) {
    let (cooldown, link) = share(server.client(), "test");
    (cooldown, tokio::spawn(link.run()))
}

/// The upstream refuses one request of this process, and names a wait.
async fn is_told(cooldown: &Cooldown, wait: &str) {
    let request = client(cooldown.clone(), &refusing(wait)).get(URL).with_extension(Endpoint::never_resend());
    assert_eq!(request.send().await.unwrap().status(), 429);
}

fn held_back(cooldown: &Cooldown) -> Duration {
    let scope = ScopeKey::origin(&URL.parse().unwrap());
    cooldown.release(scope, Instant::now()).map_or(Duration::ZERO, |until| until - Instant::now())
}

/// Waits until this is so: a store and tasks of its own take their time.
async fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let waiting = async {
        while !holds() {
            sleep(Duration::from_millis(5)).await;
        }
    };
    timeout(Duration::from_secs(20), waiting).await.unwrap_or_else(|_| panic!("never so: {what}"));
}

fn listeners(server: &Server) -> u32 {
    server.ask::<(String, u32)>(cmd("PUBSUB").arg("NUMSUB").arg(KEY).take()).1
}

fn commands(server: &Server) -> u64 {
    let stats: String = server.ask(cmd("INFO").arg("stats").take());
    stats.lines().find_map(|line| line.strip_prefix("total_commands_processed:")).unwrap().parse().unwrap()
}

#[tokio::test]
async fn what_one_process_is_told_the_others_know_also_those_that_start_later() {
    let server = Server::start();
    let ((one, _one), (other, _other)) = (process(&server), process(&server));
    until("both listen", || listeners(&server) == 2).await;
    is_told(&one, "30").await;
    until("the other has heard it", || held_back(&other) > Duration::from_secs(28)).await;
    let (late, _late) = process(&server);
    until("a look at the connect", || held_back(&late) > Duration::from_secs(25)).await;
    assert!(held_back(&late) <= Duration::from_secs(30));
    let expires: u64 = server.ask(cmd("PTTL").arg(KEY).take());
    assert!((1..=600_000).contains(&expires), "the store forgets a fleet that is gone: {expires}");
}

#[tokio::test]
async fn an_end_of_the_link_is_the_end_of_sharing_and_of_nothing_else() {
    let server = Server::start();
    let ((one, link), (other, _other)) = (process(&server), process(&server));
    until("both listen", || listeners(&server) == 2).await;
    link.abort();
    until("the connection is closed", || listeners(&server) == 1).await;
    is_told(&one, "30").await;
    assert!(held_back(&one) > Duration::from_secs(28));
    sleep(Duration::from_millis(200)).await;
    assert_eq!(held_back(&other), Duration::ZERO);
}

#[tokio::test]
async fn a_store_that_says_nothing_is_left_after_a_second_and_called_again() {
    let silent = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
    let store = redis::Client::open(server::url(silent.local_addr().unwrap().port())).unwrap();
    let (_cooldown, link) = share(store, "test");
    let _link = tokio::spawn(link.run());
    let twice = async { [silent.accept().await.unwrap(), silent.accept().await.unwrap()] };
    timeout(Duration::from_secs(10), twice).await.expect("it calls again");
}

#[tokio::test]
async fn a_link_that_nobody_runs_keeps_no_more_than_its_queue() {
    let server = Server::start();
    let (cooldown, link) = share_as(Cooldown::new().named_by(|request| request.url().path().to_owned()), server.client(), "test");
    let client = client(cooldown, &refusing("30"));
    for number in 0..200 {
        let request = client.get(format!("{URL}/{number}")).with_extension(Endpoint::never_resend());
        assert_eq!(request.send().await.unwrap().status(), 429);
    }
    let _link = tokio::spawn(link.run());
    until("what was queued is told", || server.ask::<u32>(cmd("ZCARD").arg(KEY).take()) == 64).await;
    sleep(Duration::from_millis(100)).await;
    assert_eq!(server.ask::<u32>(cmd("ZCARD").arg(KEY).take()), 64);
}

#[tokio::test]
async fn a_lie_about_an_origin_fails_what_cannot_wait_and_sends_nothing() {
    let server = Server::start();
    let (cooldown, _link) = process(&server);
    until("it listens", || listeners(&server) == 1).await;
    let (seconds, _): (u64, u64) = server.ask(cmd("TIME"));
    server.ask::<()>(cmd("ZADD").arg(KEY).arg((seconds + 500) * 1_000_000).arg(NAME).take());
    server.ask::<()>(cmd("PUBLISH").arg(KEY).arg("look").take());
    until("it is heard", || held_back(&cooldown) > Duration::ZERO).await;
    assert!(held_back(&cooldown) <= MOST_HEARD);
    let peer = Scripted::answering(200);
    let error = client(cooldown, &peer).get(URL).send().await.unwrap_err();
    assert!(matches!(RetryError::find(&error), Some(RetryError::CoolingDown(_))), "{error:?}");
    peer.assert_sends(0);
}

#[tokio::test]
async fn nobody_believes_in_a_wait_that_nobody_can_have_told() {
    let server = Server::start();
    server.ask::<()>(cmd("ZADD").arg(KEY).arg("inf").arg(NAME).arg("9e15").arg("https://other.example:443").take());
    let ((one, _one), (other, _other)) = (process(&server), process(&server));
    until("both listen", || listeners(&server) == 2).await;
    is_told(&one, "3").await;
    until("what is true is told all the same", || held_back(&other) > Duration::ZERO).await;
    assert!(held_back(&other) <= Duration::from_secs(3));
    assert_eq!(server.ask::<u32>(cmd("ZCARD").arg(KEY).take()), 1);
}

#[tokio::test]
async fn happy_requests_ask_nothing_of_the_store() {
    let server = Server::start();
    let (cooldown, _link) = process(&server);
    until("it listens", || listeners(&server) == 1).await;
    let client = client(cooldown, &Scripted::answering(200));
    let before = commands(&server);
    for _ in 0..4_000 {
        assert_eq!(client.get(URL).send().await.unwrap().status(), 200);
    }
    // Asking is a command by itself.
    let asking = commands(&server);
    assert_eq!(commands(&server) - asking, asking - before, "commands beside ours");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_thousand_who_are_told_the_same_say_it_a_few_times() {
    const PROCESSES: usize = 1_000;
    let server = Server::start();
    let process = || {
        // First sends are not held back, so that each of them is told.
        let (cooldown, link) = share_as(Cooldown::new(), server.client(), "test");
        (cooldown, tokio::spawn(link.run()))
    };
    let processes: Vec<_> = (0..PROCESSES).map(|_| process()).collect();
    until("all listen", || listeners(&server) as usize == PROCESSES).await;
    let published = || {
        let stats: String = server.ask(cmd("INFO").arg("commandstats").take());
        let line = stats.lines().find_map(|line| line.strip_prefix("cmdstat_publish:calls=")).unwrap_or("0,");
        line.split(',').next().unwrap().parse::<u32>().unwrap()
    };
    let mut told = JoinSet::new();
    for (cooldown, _) in &processes {
        let cooldown = cooldown.clone();
        told.spawn(async move { is_told(&cooldown, "60").await });
    }
    told.join_all().await;
    sleep(Duration::from_secs(3)).await;
    let messages = published();
    assert!((1..=8).contains(&messages), "{messages} messages");
    assert!(processes.iter().all(|(cooldown, _)| held_back(cooldown) > Duration::ZERO));
}

#[tokio::test]
async fn nothing_of_the_store_is_printed() {
    let store = redis::Client::open("redis://user:S3CRET@store.example/").unwrap();
    let (cooldown, link) = share_as(Cooldown::new().holding_back(HoldsBack::Resends), store, "checkout");
    let printed = format!("{cooldown:?} {link:?}");
    assert!(!printed.contains("S3CRET") && !printed.contains("store.example"), "{printed}");
}
