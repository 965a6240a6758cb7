//! Connections: a failed answer gives its own back before the pause, as far as that is cheap, the
//! final answer is left alone, and a connection that went silent is left once the client pings it.

use std::{
    io,
    net::SocketAddr,
    pin::pin,
    sync::{Arc, Mutex},
    time::Duration,
};

use futures_util::future::{BoxFuture, Either, FutureExt as _, select};
use reqwest::{ClientBuilder, Response, StatusCode};
use reqwest_middleware::{ClientWithMiddleware, RequestBuilder, Result};
use reqwest_safe_retry::{
    Advice, BudgetLimits, Cause, Endpoint, ReportSlot, RetryBudget, RetryError, RetryErrorExt, RetryPolicy, RetryReport, SafeRetry,
    report::TimeLimit,
    testing::{Fault, FaultServer, H2Fault},
};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _, copy, copy_bidirectional, sink},
    net::{TcpListener, TcpStream},
    sync::{oneshot, watch},
};

use crate::support::wire::{QUICK, Road, bounded, pausing, plain, within};

const KIB: usize = 1024;

/// Longer than draining may take.
const PAUSE: Duration = Duration::from_millis(60);

async fn get(client: &ClientWithMiddleware, server: &FaultServer) -> Result<Response> {
    bounded(client.get(server.url("/orders")).send()).await
}

/// Has these overloads answered one GET before it succeeds, and counts the connections that took.
async fn connections(overload: Fault, pause: Duration) -> usize {
    let server = FaultServer::start([overload.clone(), overload.clone(), overload, Fault::ok("done")]).await;
    let response = get(&Road::Paved.client(pausing(pause).with_attempts(4)), &server).await.unwrap();
    assert_eq!(response.status(), StatusCode::OK);
    assert_eq!(RetryReport::of(&response).unwrap().attempts().len(), 4);
    server.assert_requests(4);
    server.connections()
}

fn overload(bytes: usize) -> Fault {
    Fault::status(503).with_body(vec![b'.'; bytes])
}

#[tokio::test]
async fn a_failed_answer_gives_its_connection_to_the_next_attempt() {
    for bytes in [0, KIB, 16 * KIB, 64 * KIB] {
        for fault in [overload(bytes), overload(bytes).chunked(), overload(bytes).with_body_after(Duration::from_millis(3))] {
            // A busy machine may take longer than draining may; what is dropped unread would cost a
            // connection each time.
            let mut counts = Vec::new();
            while counts.len() < 5 && counts.last() != Some(&1) {
                counts.push(connections(fault.clone(), PAUSE).await);
            }
            assert_eq!(counts.last(), Some(&1), "{fault:?} of {bytes} bytes: {counts:?}");
        }
    }
}

#[tokio::test]
async fn many_failed_answers_in_a_row_take_one_connection() {
    const OVERLOADS: usize = 40;
    let policy = pausing(Duration::from_millis(25)).with_attempts(41).with_window(Duration::MAX);
    // A busy machine may take longer than the pause to read an answer to its end.
    let mut counts = Vec::new();
    while counts.len() < 5 && counts.last() != Some(&1) {
        let slow = overload(KIB).with_body_after(Duration::from_millis(1)); // dropped unread, it would cost its connection
        let server = FaultServer::start(std::iter::repeat_n(slow, OVERLOADS).chain([Fault::ok("done")])).await;
        let retry = SafeRetry::new().with_policy(policy).with_budget(RetryBudget::new(BudgetLimits::UNLIMITED));
        let response = get(&Road::Paved.client_of(retry, plain()), &server).await.unwrap();
        assert_eq!(response.text().await.unwrap(), "done");
        server.assert_requests(OVERLOADS + 1);
        counts.push(server.connections());
    }
    assert_eq!(counts.last(), Some(&1), "{counts:?}");
}

#[tokio::test]
async fn an_answer_too_long_to_be_drained_gives_its_connection_up() {
    assert_eq!(connections(overload(64 * KIB + 1), PAUSE).await, 4);
    assert_eq!(connections(overload(1024 * KIB).chunked(), PAUSE).await, 4);
}

#[tokio::test]
async fn many_failed_answers_with_bodies_do_no_harm_to_a_shared_connection() {
    const OVERLOADS: usize = 2000;
    let overloads = vec![H2Fault::status(503).with_body(vec![b'.'; 16 * KIB]); OVERLOADS];
    let server = FaultServer::start_h2(overloads.into_iter().chain([H2Fault::ok("done")])).await;
    let policy = pausing(Duration::ZERO).with_attempts(2001).with_window(Duration::MAX);
    let retry = SafeRetry::new().with_policy(policy).with_budget(RetryBudget::new(BudgetLimits::UNLIMITED));
    let client = Road::Paved.client_of(retry, plain().http2_prior_knowledge());
    let response = within(Duration::from_secs(60), client.get(server.url("/orders")).send()).await.unwrap();
    assert_eq!(response.text().await.unwrap(), "done");
    server.assert_requests(OVERLOADS + 1);
    server.assert_connections(1);
}

/// A server closes connections on which it gets many RST_STREAMs.
#[tokio::test]
async fn a_failed_answer_on_a_shared_connection_is_read_to_its_end_and_its_stream_not_reset() {
    const OVERLOADS: usize = 20;
    let long = H2Fault::status(503).with_body(vec![b'.'; 48 * KIB]);
    let mut resets = Vec::new();
    // A busy machine may take longer than the pause to read an answer to its end.
    while resets.len() < 5 && resets.last() != Some(&0) {
        let server = FaultServer::start_h2(std::iter::repeat_n(long.clone(), OVERLOADS).chain([H2Fault::ok("done")])).await;
        let seen = FrameCount::start(server.address()).await;
        let policy = pausing(PAUSE).with_attempts(21).with_window(Duration::MAX);
        let retry = SafeRetry::new().with_policy(policy).with_budget(RetryBudget::new(BudgetLimits::UNLIMITED));
        let client = Road::Paved.client_of(retry, plain().http2_prior_knowledge());
        let response = bounded(client.get(&seen.url).send()).await.unwrap();
        assert_eq!(response.text().await.unwrap(), "done");
        server.assert_requests(OVERLOADS + 1);
        server.assert_connections(1);
        assert_eq!(seen.of_kind(FrameCount::HEADERS), OVERLOADS + 1);
        resets.push(seen.of_kind(FrameCount::RST_STREAM));
    }
    assert_eq!(resets.last(), Some(&0), "{resets:?}");
}

#[tokio::test]
async fn an_answer_that_never_ends_costs_no_more_than_its_limit() {
    let trickle = Fault::trickle(503, Duration::from_millis(5));
    let server = FaultServer::start([trickle, Fault::ok("done")]).await;
    let response = get(&Road::Paved.client(pausing(PAUSE)), &server).await.unwrap();
    assert_eq!(response.status(), StatusCode::OK);
    let report = RetryReport::of(&response).unwrap();
    // Far from what it would take to trickle 64 KiB; draining happens within the pause.
    assert!(report.took() < 10 * PAUSE, "{:?}", report.took());
    server.until_closed(1).await;
    server.assert_connections(2);
}

#[tokio::test]
async fn answers_that_never_end_do_not_outlast_the_deadline() {
    const DEADLINE: Duration = Duration::from_millis(150);
    let server = FaultServer::start([Fault::trickle(503, Duration::from_millis(5))]).await;
    let policy = pausing(PAUSE).with_attempts(100);
    let client = Road::Paved.client_of(SafeRetry::new().with_policy(policy).with_deadline(DEADLINE), plain());
    let started = tokio::time::Instant::now();
    match get(&client, &server).await {
        Ok(response) => assert!(bounded(response.bytes()).await.unwrap_err().is_timeout()),
        Err(error) => assert!(error.timed_out()),
    }
    assert!(started.elapsed() < 10 * DEADLINE, "{:?}", started.elapsed());
    // A busy machine may not get to the second one in that time.
    assert!((1..=4).contains(&server.requests().len()), "{}", server.requests().len());
}

#[tokio::test]
async fn the_final_answer_is_left_to_the_caller() {
    for bytes in [KIB, 64 * KIB, 1024 * KIB] {
        let server = FaultServer::start([overload(bytes).with_header("x-reason", "SlowDown")]).await;
        let response = get(&Road::Paved.client(QUICK), &server).await.unwrap();
        assert_eq!(
            (response.status(), &response.headers()["x-reason"]),
            (StatusCode::SERVICE_UNAVAILABLE, &"SlowDown".try_into().unwrap())
        );
        assert_eq!(RetryReport::of(&response).unwrap().attempts().len(), 3);
        assert_eq!(bounded(response.bytes()).await.unwrap(), vec![b'.'; bytes]);
        server.assert_requests(3);
    }
}

#[tokio::test]
async fn the_final_answer_is_handed_over_before_its_body_has_come() {
    let server = FaultServer::start([overload(KIB).with_body_stalled_at(3)]).await;
    let mut response = get(&Road::Paved.client(QUICK.with_attempts(1)), &server).await.unwrap();
    assert_eq!(bounded(response.chunk()).await.unwrap().unwrap(), "...");
}

/// An operation that will pause for seconds after this answer.
async fn waiting(fault: Fault) -> (FaultServer, impl Future<Output = Result<Response>>) {
    let server = FaultServer::start([fault.with_retry_after(5)]).await;
    let request = Road::Paved.client(RetryPolicy::DEFAULT).get(server.url("/orders"));
    (server, request.send())
}

#[tokio::test]
async fn a_connection_that_is_not_given_back_ends_before_the_pause_does() {
    for fault in [overload(1024 * KIB), overload(KIB).with_body_stalled_at(3), Fault::trickle(503, Duration::from_millis(5))] {
        let (server, operation) = waiting(fault).await;
        let closed = bounded(server.until_closed(1));
        match select(pin!(operation), pin!(closed)).await {
            Either::Left((result, _)) => panic!("it did not pause: {result:?}"),
            Either::Right(((), _)) => server.assert_requests(1),
        }
    }
}

#[tokio::test]
async fn a_connection_that_is_given_back_serves_others_during_the_pause() {
    let server = FaultServer::start([overload(64 * KIB).with_retry_after(5), Fault::ok("done")]).await;
    let client = Road::Paved.client(RetryPolicy::DEFAULT);
    let operation = get(&client, &server);
    // Each of these is answered at once; as soon as the drained connection is free, one of them
    // gets it.
    let others = bounded(async {
        server.until_complete(1).await;
        loop {
            let response = client.get(server.url("/others")).header("connection", "close").send().await.unwrap();
            drop(response.bytes().await.unwrap());
            if server.requests().last().unwrap().connection() == 1 {
                break;
            }
        }
    });
    match select(pin!(operation), pin!(others)).await {
        Either::Left((result, _)) => panic!("it did not pause: {result:?}"),
        Either::Right(((), _)) => {}
    }
}

/// Passes one connection on to an HTTP/2 server, and counts the client's frames by their kind (RFC
/// 9113 §4.1).
struct FrameCount {
    url: String,
    kinds: Arc<Mutex<Vec<u8>>>,
}

impl FrameCount {
    const HEADERS: u8 = 0x1;
    const RST_STREAM: u8 = 0x3;
    const PREFACE: usize = 24;
    const FRAME_HEAD: usize = 9;

    async fn start(to: SocketAddr) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/orders", listener.local_addr().unwrap());
        let kinds = Arc::<Mutex<Vec<u8>>>::default();
        let count = Arc::clone(&kinds);
        tokio::spawn(async move {
            let (client, _) = listener.accept().await.unwrap();
            let (mut from_client, mut to_client) = client.into_split();
            let (mut from_server, mut to_server) = TcpStream::connect(to).await.unwrap().into_split();
            tokio::spawn(async move { copy(&mut from_server, &mut to_client).await });
            let mut preface = [0; Self::PREFACE];
            from_client.read_exact(&mut preface).await?;
            to_server.write_all(&preface).await?;
            loop {
                let mut head = [0; Self::FRAME_HEAD];
                from_client.read_exact(&mut head).await?;
                let length = u32::from_be_bytes([0, head[0], head[1], head[2]]);
                let mut payload = vec![0; length as usize];
                from_client.read_exact(&mut payload).await?;
                count.lock().unwrap().push(head[3]);
                to_server.write_all(&[&head[..], &payload].concat()).await?;
            }
            #[expect(unreachable_code, reason = "tells what the block fails with")]
            Ok::<(), io::Error>(())
        });
        Self { url, kinds }
    }

    fn of_kind(&self, kind: u8) -> usize {
        self.kinds.lock().unwrap().iter().filter(|seen| **seen == kind).count()
    }
}

// ===== a connection that went silent =====

/// Passes connections on to an HTTP/2 server, until the first one goes silent: neither closed nor
/// answering, not even to a PING.
struct Relay {
    server: FaultServer,
    url: String,
    silence: watch::Sender<bool>,
}

impl Relay {
    async fn start() -> Self {
        let server = FaultServer::start_h2([H2Fault::ok("done")]).await;
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/orders", listener.local_addr().unwrap());
        let (silence, silent) = watch::channel(false);
        let to = server.address();
        tokio::spawn(async move {
            for number in 1.. {
                let (mut client, _) = listener.accept().await.unwrap();
                let mut silent = silent.clone();
                tokio::spawn(async move {
                    let mut server = TcpStream::connect(to).await.unwrap();
                    let silenced = async { drop(silent.wait_for(|silent| *silent && number == 1).await) };
                    tokio::select! {
                        biased; // nothing passes any more
                        () = silenced => drop(copy(&mut client, &mut sink()).await),
                        _ = copy_bidirectional(&mut client, &mut server) => {}
                    }
                });
            }
        });
        Self { server, url, silence }
    }

    /// A client whose only connection has worked, and has just gone silent.
    async fn silenced(&self, retry: SafeRetry, builder: ClientBuilder) -> ClientWithMiddleware {
        let client = Road::Paved.client_of(retry.with_policy(QUICK), builder.http2_prior_knowledge());
        bounded(async { client.get(&self.url).send().await.unwrap().bytes().await.unwrap() }).await;
        self.silence.send_replace(true);
        client
    }
}

const PING: Duration = Duration::from_millis(200);

/// Leaves a connection that does not answer a ping in time.
fn pinging() -> ClientBuilder {
    plain().http2_keep_alive_interval(PING).http2_keep_alive_timeout(PING)
}

async fn reported(request: RequestBuilder) -> (Result<Response>, RetryReport) {
    let slot = ReportSlot::new();
    let result = bounded(request.with_extension(slot.clone()).send()).await;
    (result, slot.take().unwrap())
}

fn causes(report: &RetryReport) -> Vec<Cause> {
    report.attempts().iter().map(|attempt| attempt.cause()).collect()
}

/// Reqwest cannot be told to leave a connection, so all that is left is to end in time.
#[tokio::test]
async fn every_attempt_goes_to_the_connection_that_went_silent_and_the_operation_ends_in_time() {
    const LIMIT: Duration = Duration::from_millis(300);
    let relay = Relay::start().await;
    let client = relay.silenced(SafeRetry::new().with_attempt_limit(LIMIT), plain()).await;
    let (result, report) = reported(client.get(&relay.url)).await;
    assert!(matches!(result.unwrap_err().safe_retry(), Some(RetryError::AttemptTimedOut(_))));
    assert_eq!(causes(&report), [Cause::TimedOut(TimeLimit::Attempt); 3]);
    assert!(report.took() < 4 * LIMIT, "{:?}", report.took());

    let deadline = Endpoint::read().with_deadline(2 * LIMIT);
    let (result, report) = reported(client.get(&relay.url).with_extension(deadline)).await;
    assert!(matches!(result.unwrap_err().safe_retry(), Some(RetryError::DeadlineExceeded(_))));
    assert!(report.took() < 3 * LIMIT, "{:?}", report.took());

    // A new connection would have been served all the time.
    relay.server.assert_connections(1);
    let other = Road::Paved.client_of(SafeRetry::new(), plain().http2_prior_knowledge());
    assert_eq!(bounded(other.get(&relay.url).send()).await.unwrap().status(), StatusCode::OK);
    relay.server.assert_connections(2);
}

/// What the README advises.
#[tokio::test]
async fn a_client_that_pings_leaves_the_connection_that_went_silent() {
    // Whether the ping or our limit ends the first attempt.
    for (limit, reads) in [(25 * PING, 2), (PING + PING / 2, 3)] {
        let relay = Relay::start().await;
        let client = relay.silenced(SafeRetry::new().with_attempt_limit(limit), pinging()).await;
        let (result, report) = reported(client.get(&relay.url)).await;
        assert_eq!(result.unwrap().status(), StatusCode::OK);
        assert_eq!(report.attempts().len(), reads, "{:?}", causes(&report));
        assert_eq!(causes(&report)[reads - 2..], [Cause::TimedOut(TimeLimit::Client), Cause::Status]);
        relay.server.assert_connections(2);
    }
}

#[tokio::test]
async fn a_write_on_a_connection_that_went_silent_is_unknown_although_a_ping_ends_it() {
    let relay = Relay::start().await;
    let client = relay.silenced(SafeRetry::new(), pinging()).await;
    let (result, report) = reported(client.post(&relay.url).body("one coffee").with_extension(Endpoint::unprotected_write())).await;
    assert!(matches!(result.unwrap_err().safe_retry(), Some(RetryError::OutcomeUnknown(_))));
    assert_eq!(causes(&report), [Cause::TimedOut(TimeLimit::Client)]);
    relay.server.assert_connections(1);
}

#[tokio::test]
async fn a_client_that_pings_while_idle_leaves_a_silent_connection_before_any_request_meets_it() {
    let relay = Relay::start().await;
    let client = relay.silenced(SafeRetry::new(), pinging().http2_keep_alive_while_idle(true)).await;
    bounded(relay.server.until_closed(1)).await;
    let (result, report) = reported(client.get(&relay.url)).await;
    assert_eq!((result.unwrap().status(), report.attempts().len()), (StatusCode::OK, 1));
    relay.server.assert_connections(2);
}

/// The server has said how long it keeps a connection that nobody uses. That a write was lost to
/// its end cannot be proven; what to set is said, once.
#[tokio::test]
async fn a_write_that_may_have_been_lost_to_an_idle_timeout_says_what_to_set() {
    let advice = async |keep_alive: &str, write: bool, silenced: bool| {
        let answer = Fault::ok("first").with_header("keep-alive", keep_alive);
        let server = FaultServer::start([answer, Fault::close_after_request()]).await;
        let retry = SafeRetry::new().with_policy(QUICK.with_attempts(1));
        let client = Road::Paved.client_of(if silenced { retry.without_advice(Advice::IdleConnection) } else { retry }, plain());
        get(&client, &server).await.unwrap().bytes().await.unwrap();
        let slot = ReportSlot::new();
        let request = if write { client.post(server.url("/orders")).body("one") } else { client.get(server.url("/orders")) };
        bounded(request.with_extension(slot.clone()).send()).await.unwrap_err();
        server.assert_requests(2);
        slot.take().unwrap().advice().to_vec()
    };
    assert_eq!(advice("timeout=1, max=100", true, false).await, [Advice::IdleConnection]);
    assert_eq!(advice("timeout=1", true, true).await, []);
    assert_eq!(advice("timeout=60", true, false).await, [], "no connection is that old");
    assert_eq!(advice("max=100", true, false).await, []);
    assert_eq!(advice("timeout=1", false, false).await, [], "a read is sent again");
}

// ===== uploads =====

const UPLOAD: usize = 32 * 1024 * KIB;

/// Refuses every other request after 64 KiB of its body, and reads the rest of it only when it is
/// told to.
struct Refusing {
    address: SocketAddr,
    goes_on: watch::Sender<bool>,
    /// The bytes of the first request, once its connection has ended.
    received: oneshot::Receiver<usize>,
}

impl Refusing {
    async fn start(refusal: &'static str) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (goes_on, mut told) = watch::channel(false);
        let (count, received) = oneshot::channel();
        tokio::spawn(async move {
            let (mut first, _) = listener.accept().await?;
            let mut begun = vec![0; 64 * KIB];
            first.read_exact(&mut begun).await?;
            first.write_all(refusal.as_bytes()).await?;
            tokio::spawn(async move {
                told.wait_for(|told| *told).await.unwrap();
                let mut received = begun.len();
                // A reset ends it as well.
                while let Ok(1..) = first.read(&mut begun).await.inspect(|bytes| received += bytes) {}
                count.send(received)
            });
            let (mut second, _) = listener.accept().await?;
            let mut left = UPLOAD;
            while let Some(rest) = left.checked_sub(second.read(&mut vec![0; 64 * KIB]).await?).filter(|rest| *rest > 0) {
                left = rest;
            }
            second.write_all(b"HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: 0\r\n\r\n").await
        });
        Self { address, goes_on, received }
    }

    /// How much of the first request arrived, the answer to which was given up.
    async fn received(self) -> usize {
        self.goes_on.send(true).unwrap();
        bounded(self.received).await.unwrap()
    }
}

fn upload(client: &ClientWithMiddleware, server: &Refusing) -> RequestBuilder {
    client.put(format!("http://{}/", server.address)).body(vec![0; UPLOAD])
}

const REFUSALS: [&str; 3] = [
    "HTTP/1.1 503 Busy\r\nconnection: close\r\ncontent-length: 0\r\n\r\n",
    "HTTP/1.1 503 Busy\r\nconnection: close\r\ncontent-length: 4\r\n\r\nbusy",
    "HTTP/1.1 503 Busy\r\ncontent-length: 4\r\n\r\nbusy",
];

/// What the kernels hold on both sides is beyond recall: some MiB.
const BEYOND_RECALL: usize = UPLOAD / 2;

#[tokio::test]
async fn an_upload_stops_when_the_answer_that_refused_it_is_sent_again() {
    for refusal in REFUSALS {
        for road in [Road::Paved, Road::Witnessed] {
            let server = Refusing::start(refusal).await;
            let answer = bounded(upload(&road.client(QUICK), &server).send()).await.unwrap();
            assert_eq!(answer.status(), 200);
            let received = server.received().await;
            assert!(received < BEYOND_RECALL, "{road:?} went on to {received} bytes after {refusal:?}");
        }
    }
}

#[tokio::test]
async fn an_upload_stops_when_the_caller_is_done_with_the_answer_that_refused_it() {
    type Done = fn(Response) -> BoxFuture<'static, ()>;
    let ways: [Done; 2] = [|answer| async { drop(answer) }.boxed(), |answer| async { drop(answer.text().await.unwrap()) }.boxed()];
    for refusal in REFUSALS {
        for done in ways {
            let server = Refusing::start(refusal).await;
            let answer = bounded(upload(&Road::Paved.client(QUICK.with_attempts(1)), &server).send()).await.unwrap();
            assert_eq!(answer.status(), 503);
            done(answer).await;
            let received = server.received().await;
            assert!(received < BEYOND_RECALL, "{received} bytes after {refusal:?}");
        }
    }
}

/// Where redirects are followed, a body is not wrapped, and nothing here can stop it.
#[tokio::test]
async fn an_upload_goes_on_where_redirects_are_followed() {
    for road in [Road::PavedFollowing, Road::WitnessedFollowing, Road::Unwitnessed] {
        let server = Refusing::start(REFUSALS[0]).await;
        assert_eq!(bounded(upload(&road.client(QUICK), &server).send()).await.unwrap().status(), 200);
        let received = server.received().await;
        assert!(received >= UPLOAD, "{road:?} stopped after {received} bytes");
    }
}
