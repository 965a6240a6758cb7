//! Real processes, a real store, and what happens to it: how many requests the upstream has to
//! refuse while it wants to be left alone.
//!
//! By itself, each of 20 processes has to be told once. Through a store that works, one of them is
//! told and the others know.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "what fails here fails the test")]

mod server;
mod upstream;
mod worker;

use std::{
    io::Write as _,
    net::{Ipv4Addr, TcpListener},
    ops::RangeInclusive,
    sync::{Mutex, PoisonError},
    thread,
    time::Duration,
};

use redis::cmd;
use server::{Server, free_port, pause};
use tokio::time::Instant;
use upstream::Upstream;
use worker::{Ends, Fleet, Sharing};

const KEY: &str = "reqwest-safe-retry:{test}";
const PROCESSES: u32 = 20;
/// Requests a second, of each. The example measures more of them; here, a busy machine shall not
/// turn its delays into refusals.
const RATE: f64 = 2.0;
const WAIT: Duration = Duration::from_secs(3);
/// Until all processes have connected, to the upstream and to the store, or have given it up for
/// now.
const STARTED: Duration = Duration::from_secs(3);

/// A request that was on its way when the process was told is refused as well.
const EACH_BY_ITSELF: RangeInclusive<usize> = 20..=26;
const TOGETHER: RangeInclusive<usize> = 1..=5;

/// 20 processes at a time are enough for this machine.
static MACHINE: Mutex<()> = Mutex::new(());

/// Not a test: what the processes of a fleet run.
#[test]
#[ignore = "run by the others"]
fn a_process_of_the_fleet() {
    worker::work();
}

/// What came of one wait.
struct Scene {
    refused: usize,
    ends: Ends,
    /// Requests that arrived in the two seconds once all should be back.
    afterwards: usize,
}

/// Starts a fleet, lets `before` happen, then the upstream wants to be left alone, and `within`
/// happens a third of that later.
/// What `within` leaves is kept until all have ended.
fn scene<K>(sharing: Sharing, before: impl FnOnce(), within: impl FnOnce() -> K) -> Scene {
    let _alone = MACHINE.lock().unwrap_or_else(PoisonError::into_inner);
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let upstream = runtime.block_on(Upstream::start(Duration::ZERO));
    let fleet = Fleet { processes: PROCESSES, rate: RATE, sharing };
    let workers = fleet.start(&upstream.url(), &["--exact", "a_process_of_the_fleet", "--ignored", "--nocapture"]);
    pause(STARTED);
    before();
    let began = Instant::now();
    upstream.refuse(WAIT);
    pause(WAIT / 3);
    let _kept = within();
    // They come back over a second.
    let back = began + WAIT + Duration::from_millis(1_500);
    let usual_again = back..back + Duration::from_secs(2);
    pause(usual_again.end.saturating_duration_since(Instant::now()));
    let arrivals = upstream.arrivals();
    let afterwards = arrivals.iter().filter(|arrival| usual_again.contains(&arrival.at)).count();
    let refused = arrivals.iter().filter(|arrival| arrival.refused).count();
    Scene { refused, ends: workers.end(), afterwards }
}

impl Scene {
    #[track_caller]
    fn assert(&self, refused: RangeInclusive<usize>) {
        assert!(refused.contains(&self.refused), "{} refused, expected {refused:?}", self.refused);
        assert_eq!((self.ends.cooling_down, self.ends.otherwise), (0, 0), "every operation ends as without a store: {:?}", self.ends);
        let usual = 2.0 * RATE * f64::from(PROCESSES);
        assert!(self.afterwards as f64 > 0.8 * usual, "{} requests afterwards, usually {usual}", self.afterwards);
    }
}

/// With a store that something happens to before the wait, and with what has become of it a second
/// later.
fn with_store<S, K>(before: impl FnOnce(Server) -> S, within: impl FnOnce(S) -> K) -> Scene {
    let server = Server::start();
    let sharing = Sharing::Store(server.port());
    let between = Mutex::new(None);
    scene(sharing, || *between.lock().unwrap() = Some(before(server)), || within(between.lock().unwrap().take().unwrap()))
}

// ===== as each by itself =====

#[test]
fn without_a_store_each_process_is_told() {
    scene(Sharing::Own, || (), || ()).assert(EACH_BY_ITSELF);
}

#[test]
fn where_no_store_listens_each_process_is_told() {
    scene(Sharing::Store(free_port()), || (), || ()).assert(EACH_BY_ITSELF);
}

#[test]
fn when_the_store_was_killed_each_process_is_told() {
    with_store(Server::kill, |_| ()).assert(EACH_BY_ITSELF);
}

#[test]
fn when_the_store_hangs_each_process_is_told() {
    let stop = |server: Server| {
        server.stop();
        server
    };
    with_store(stop, |server| server).assert(EACH_BY_ITSELF);
}

#[test]
fn when_the_key_holds_something_else_each_process_is_told() {
    let spoil = |server: Server| {
        server.ask::<()>(cmd("SET").arg(KEY).arg("mine").take());
        server
    };
    with_store(spoil, |server| server).assert(EACH_BY_ITSELF);
}

#[test]
fn when_something_that_is_no_store_listens_each_process_is_told() {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let port = listener.local_addr().unwrap().port();
    thread::spawn(move || {
        let mut noise = 1_u64;
        for connection in listener.incoming().flatten() {
            let bytes = std::iter::repeat_with(|| {
                noise = noise.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                (noise >> 56) as u8
            });
            let mut connection = connection;
            let _ = connection.write_all(&bytes.take(4096).collect::<Vec<_>>());
        }
    });
    scene(Sharing::Store(port), || (), || ()).assert(EACH_BY_ITSELF);
}

// ===== together =====

#[test]
fn through_a_store_that_is_well_the_fleet_knows_what_one_was_told() {
    with_store(|server| server, |server| server).assert(TOGETHER);
}

#[test]
fn a_store_that_was_restarted_before_is_found_again() {
    let restart = |server: Server| {
        let server = Server::start_on(server.kill());
        pause(STARTED);
        server
    };
    with_store(restart, |server| server).assert(TOGETHER);
}

#[test]
fn a_store_that_restarts_within_the_wait_costs_nothing() {
    with_store(|server| server, |server| Server::start_on(server.kill())).assert(TOGETHER);
}

#[test]
fn a_store_that_is_flushed_within_the_wait_costs_nothing() {
    let flush = |server: Server| {
        server.ask::<()>(cmd("FLUSHALL"));
        server
    };
    with_store(|server| server, flush).assert(TOGETHER);
}

#[test]
fn a_store_without_room_takes_what_a_wait_needs() {
    let fill = |server: Server| {
        server.ask::<()>(cmd("CONFIG").arg("SET").arg("maxmemory").arg("1").take());
        server
    };
    with_store(fill, |server| server).assert(TOGETHER);
}

#[test]
fn nonsense_in_the_store_is_not_listened_to() {
    let spoil = |server: Server| {
        let mut add = cmd("ZADD");
        add.arg(KEY).arg("inf").arg("forever").arg("-inf").arg("never").arg("1e300").arg(vec![b'x'; 100_000]);
        for number in 0..5_000_u32 {
            add.arg(number).arg([&[0xFF, 0x00][..], &number.to_le_bytes()].concat());
        }
        server.ask::<()>(add);
        server.ask::<()>(cmd("PUBLISH").arg(KEY).arg("nonsense").take());
        server
    };
    with_store(spoil, |server| server).assert(TOGETHER);
}

// ===== no false hold =====

#[test]
fn a_store_that_wakes_up_late_holds_nobody_back_for_what_is_over() {
    let stop = |server: Server| {
        server.stop();
        server
    };
    let scene = with_store(stop, |server| {
        pause(WAIT - WAIT / 3 + Duration::from_millis(500));
        server.go_on(); // it runs now what it was told then
        server
    });
    scene.assert(EACH_BY_ITSELF);
}
