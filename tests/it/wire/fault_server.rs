//! Each fault of the `FaultServer`, as plain reqwest sees it and as the server recorded it.

#![expect(clippy::disallowed_methods, reason = "sockets take real time")]

use std::{
    error::Error,
    time::{Duration, Instant},
};

use reqwest::{Client, Response, StatusCode};
use reqwest_safe_retry::testing::{Act, Fault, FaultServer, Recorded};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

/// Far above what a loopback needs; whatever is expected to hang gets a short limit of its own.
const LONG: Duration = Duration::from_secs(5);
const SHORT: Duration = Duration::from_millis(60);

fn client() -> Client {
    Client::builder().no_proxy().timeout(LONG).build().unwrap()
}

async fn post(client: &Client, server: &FaultServer) -> reqwest::Result<Response> {
    client.post(server.url("/orders?id=1")).body("one coffee").send().await
}

async fn served(fault: Fault) -> (FaultServer, reqwest::Result<Response>) {
    let server = FaultServer::start([fault]).await;
    let result = post(&client(), &server).await;
    (server, result)
}

/// The first error of a type in the chain.
fn find<E: Error + 'static>(error: &reqwest::Error) -> Option<&E> {
    std::iter::successors(error.source(), |error| (*error).source()).find_map(|error| error.downcast_ref())
}

fn io_kind(error: &reqwest::Error) -> Option<std::io::ErrorKind> {
    find::<std::io::Error>(error).map(std::io::Error::kind)
}

fn was_reset(error: &reqwest::Error) -> bool {
    io_kind(error) == Some(std::io::ErrorKind::ConnectionReset)
}

fn was_closed_early(error: &reqwest::Error) -> bool {
    find::<hyper::Error>(error).is_some_and(hyper::Error::is_incomplete_message)
}

// ===== answers =====

#[tokio::test]
async fn an_answer_arrives_as_scripted_and_the_last_step_repeats() {
    let server = FaultServer::start([Fault::status(503).with_retry_after(2), Fault::ok("done")]).await;
    let client = client();
    let first = post(&client, &server).await.unwrap();
    assert_eq!((first.status(), &first.headers()["retry-after"]), (StatusCode::SERVICE_UNAVAILABLE, &"2".parse().unwrap()));
    for _ in 0..2 {
        assert_eq!(post(&client, &server).await.unwrap().text().await.unwrap(), "done");
    }
    server.assert_requests(3);
    server.assert_writes(3);
}

#[tokio::test]
async fn a_request_is_recorded_to_the_byte() {
    let server = FaultServer::start([]).await;
    client().put(server.url("/a/b?c=d")).header("x-test", "1").body("12345").send().await.unwrap();
    let request = server.requests().remove(0);
    assert_eq!((request.method().as_str(), request.path(), request.query()), ("PUT", "/a/b", Some("c=d")));
    assert_eq!(request.url(), &server.url("/a/b?c=d"));
    assert_eq!((request.header("x-test"), request.body(), request.connection()), (Some("1"), &b"12345"[..], 1));
    assert!(request.is_complete() && request.is_write());
    let raw = String::from_utf8(request.raw().to_vec()).unwrap();
    assert!(raw.starts_with("PUT /a/b?c=d HTTP/1.1\r\n") && raw.ends_with("\r\n\r\n12345"), "{raw}");
    assert_eq!(server.bytes_read(), raw.len() as u64);
}

#[tokio::test]
async fn a_chunked_request_is_recorded_without_its_framing() {
    let server = FaultServer::start([]).await;
    let parts: Vec<std::io::Result<Vec<u8>>> = (1..200).map(|length| Ok(vec![b'x'; length])).collect();
    let body = reqwest::Body::wrap_stream(futures_util::stream::iter(parts));
    let client = client();
    client.post(server.url("/")).body(body).send().await.unwrap();
    client.get(server.url("/")).send().await.unwrap();
    let request = server.requests().remove(0);
    assert!(request.is_complete());
    assert_eq!(request.body(), vec![b'x'; (1..200).sum()]);
    assert!(request.raw().ends_with(b"\r\n0\r\n\r\n"));
    server.assert_requests(2);
    server.assert_connections(1);
}

#[tokio::test]
async fn a_large_body_is_recorded_whole() {
    let sent: Vec<u8> = (0..1 << 20).map(|at: u32| (at.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
    let server = FaultServer::start([]).await;
    client().post(server.url("/")).body(sent.clone()).send().await.unwrap();
    assert!(server.requests()[0].body() == sent);
}

#[tokio::test]
async fn every_framing_of_an_answer_keeps_the_connection() {
    let answer = |length| Fault::status(503).with_body(vec![b'x'; length]);
    let later = Duration::from_millis(2);
    let faults = [0, 1, 1000].map(|length| {
        [answer(length), answer(length).chunked(), answer(length).with_body_after(later), answer(length).chunked().with_body_after(later)]
    });
    let server = FaultServer::start(faults.into_iter().flatten()).await;
    let client = client();
    for length in [0, 0, 0, 0, 1, 1, 1, 1, 1000, 1000, 1000, 1000] {
        assert_eq!(post(&client, &server).await.unwrap().bytes().await.unwrap().len(), length);
    }
    server.assert_requests(12);
    server.assert_connections(1);
}

#[tokio::test]
async fn a_delayed_answer_and_a_delayed_body_take_their_time() {
    let began = Instant::now();
    let (_server, response) = served(Fault::ok("done").after(SHORT).with_body_after(SHORT)).await;
    assert!(began.elapsed() >= SHORT);
    assert_eq!(response.unwrap().text().await.unwrap(), "done");
    assert!(began.elapsed() >= 2 * SHORT);
}

#[tokio::test]
async fn a_delayed_close_comes_after_the_request_was_read() {
    let began = Instant::now();
    let (server, result) = served(Fault::close_after_request().after(SHORT)).await;
    assert!(was_closed_early(&result.unwrap_err()));
    assert!(began.elapsed() >= SHORT);
    server.assert_writes(1);
}

#[tokio::test]
async fn an_answer_to_head_and_a_bodiless_status_have_no_body() {
    let server = FaultServer::start([Fault::ok("12345"), Fault::status(204), Fault::status(304).with_header("content-length", "9")]).await;
    let client = client();
    let head = client.head(server.url("/")).send().await.unwrap();
    assert_eq!(head.headers()["content-length"], "5");
    assert!(head.bytes().await.unwrap().is_empty());
    for status in [204, 304] {
        let response = client.get(server.url("/")).send().await.unwrap();
        assert_eq!(response.status(), status);
        assert!(response.bytes().await.unwrap().is_empty());
    }
    server.assert_connections(1);
}

#[tokio::test]
async fn an_interim_answer_comes_before_the_final_one() {
    let (_server, response) = served(Fault::ok("done").with_interim(103)).await;
    assert_eq!(response.unwrap().text().await.unwrap(), "done");
}

#[tokio::test]
async fn an_early_answer_arrives_in_the_middle_of_an_upload() {
    let server = FaultServer::start([Fault::status(413).early()]).await;
    let response = client().post(server.url("/")).body(vec![0; 8 << 20]).send().await.unwrap();
    assert_eq!(response.status(), 413);
    server.assert_requests(1);
    server.assert_writes(0);
}

#[tokio::test]
async fn a_body_is_cut_reset_or_stalled_where_the_script_says() {
    for answer in [Fault::ok("0123456789"), Fault::ok("0123456789").chunked(), Fault::ok("0123456789").with_body_after(SHORT)] {
        for (fault, kind) in
            [(answer.clone().with_body_cut_at(4), None), (answer.clone().with_body_reset_at(4), Some(std::io::ErrorKind::ConnectionReset))]
        {
            let (server, response) = served(fault).await;
            let error = response.unwrap().bytes().await.unwrap_err();
            assert!(error.is_decode());
            assert!(kind.is_none() || io_kind(&error) == kind, "{error:?}");
            server.assert_writes(1);
        }
        let (_server, response) = served(answer.with_body_stalled_at(4)).await;
        let mut response = response.unwrap();
        assert_eq!(response.chunk().await.unwrap().unwrap(), "0123");
        assert!(tokio::time::timeout(SHORT, response.chunk()).await.is_err());
    }
}

#[tokio::test]
async fn a_trickle_never_ends_until_the_client_leaves() {
    let (server, response) = served(Fault::trickle(503, Duration::from_millis(1))).await;
    let mut response = response.unwrap();
    for _ in 0..10 {
        assert_eq!(response.chunk().await.unwrap().unwrap(), ".");
    }
    drop(response);
    server.until_closed(1).await;
}

#[tokio::test]
async fn a_connection_that_ends_after_its_answer_is_not_used_again() {
    for fault in [Fault::ok("done").then_closes(), Fault::ok("done").then_resets()] {
        let server = FaultServer::start([fault]).await;
        let client = client();
        for _ in 0..2 {
            // A reset may overtake the answer; what counts is that the next request needs a new
            // connection.
            drop(post(&client, &server).await);
        }
        server.until_connections(2).await;
    }
}

// ===== no answer =====

#[tokio::test]
async fn a_close_or_reset_on_accept_reads_no_request() {
    for fault in [Fault::close_on_accept(), Fault::reset_on_accept()] {
        let (server, result) = served(fault).await;
        assert!(!result.unwrap_err().is_timeout());
        server.assert_requests(0);
    }
}

#[tokio::test]
async fn a_close_or_reset_before_reading_leaves_the_request_unread() {
    let (server, result) = served(Fault::close_before_reading()).await;
    assert!(was_closed_early(&result.unwrap_err()));
    server.assert_requests(0);
    let (server, result) = served(Fault::reset_before_reading()).await;
    assert!(was_reset(&result.unwrap_err()));
    assert_eq!(server.bytes_read(), 0);
}

#[tokio::test]
async fn a_fault_before_reading_meets_a_kept_connection_as_well() {
    let server = FaultServer::start([Fault::ok(""), Fault::reset_before_reading(), Fault::ok("")]).await;
    let client = client();
    post(&client, &server).await.unwrap();
    assert!(was_reset(&post(&client, &server).await.unwrap_err()));
    server.assert_connections(1);
    post(&client, &server).await.unwrap();
    server.assert_writes(2);
    server.assert_connections(2);
}

#[tokio::test]
async fn an_orderly_close_does_not_turn_into_a_reset() {
    let server = FaultServer::start([Fault::close_before_reading()]).await;
    let mut socket = tokio::net::TcpStream::connect(server.address()).await.unwrap();
    socket.write_all(b"POST / HTTP/1.1\r\ncontent-length: 1000000\r\n\r\n").await.unwrap();
    assert_eq!(socket.read(&mut [0; 16]).await.unwrap(), 0);
    for _ in 0..100 {
        socket.write_all(&[0; 10_000]).await.unwrap();
    }
}

#[tokio::test]
async fn a_close_or_reset_in_the_middle_of_an_upload_leaves_the_request_incomplete() {
    for fault in [Fault::close_mid_request(64 << 10), Fault::reset_mid_request(64 << 10)] {
        let server = FaultServer::start([fault]).await;
        let error = client().post(server.url("/")).body(vec![0; 8 << 20]).send().await.unwrap_err();
        assert!(!error.is_timeout(), "{error:?}");
        server.assert_requests(1);
        server.assert_writes(0);
        assert!(server.requests()[0].body().len() >= 64 << 10);
    }
}

#[tokio::test]
async fn a_close_or_reset_after_the_request_has_all_of_it() {
    let (server, result) = served(Fault::close_after_request()).await;
    assert!(was_closed_early(&result.unwrap_err()));
    server.assert_writes(1);
    let (server, result) = served(Fault::reset_after_request()).await;
    assert!(was_reset(&result.unwrap_err()));
    server.assert_writes(1);
}

#[tokio::test]
async fn a_hang_has_the_request_and_notices_that_the_client_leaves() {
    let server = FaultServer::start([Fault::hang()]).await;
    let client = client();
    let waited = tokio::time::timeout(LONG, async {
        tokio::select! {
            _ = post(&client, &server) => panic!("a hang answered"),
            () = server.until_complete(1) => {}
        }
    });
    waited.await.unwrap();
    server.assert_writes(1);
    server.until_closed(1).await;
}

#[tokio::test]
async fn a_server_that_never_reads_records_nothing() {
    let server = FaultServer::start([Fault::never_read()]).await;
    let client = client();
    assert!(tokio::time::timeout(SHORT, post(&client, &server)).await.is_err());
    server.until_connections(1).await;
    assert_eq!(server.bytes_read(), 0);
}

#[tokio::test]
async fn a_partial_head_and_a_malformed_answer_are_errors_of_their_own() {
    let (server, result) = served(Fault::partial_head()).await;
    assert!(was_closed_early(&result.unwrap_err()));
    server.assert_writes(1);
    let (server, result) = served(Fault::malformed()).await;
    assert!(find::<hyper::Error>(&result.unwrap_err()).unwrap().is_parse());
    server.assert_writes(1);
}

#[tokio::test]
async fn a_server_that_talks_first_gets_no_request() {
    let (server, result) = served(Fault::banner()).await;
    assert!(!result.unwrap_err().is_timeout());
    server.assert_requests(0);
}

#[tokio::test]
async fn a_script_of_acts_is_played_byte_by_byte() {
    let pieces = ["HTTP/1.1 2", "00 OK\r\ncontent-", "length: 2\r\n\r\no", "k"];
    let acts = pieces.iter().flat_map(|piece| [Act::Send((*piece).into()), Act::Pause(Duration::from_millis(2))]);
    let (server, response) = served(Fault::script(std::iter::once(Act::ReadHead).chain(acts))).await;
    assert_eq!(response.unwrap().text().await.unwrap(), "ok");
    server.until_complete(1).await;
}

// ===== choosing, waiting, stopping =====

#[tokio::test]
async fn a_handler_chooses_by_the_request_and_its_number() {
    let answer = |request: &Recorded, number| match (request.path(), request.body(), number) {
        ("/first", b"body", 1) => Fault::status(201),
        (_, _, 2) => Fault::close_after_request(),
        _ => Fault::status(404),
    };
    let server = FaultServer::with(answer).await;
    let client = client();
    assert_eq!(client.post(server.url("/first")).body("body").send().await.unwrap().status(), 201);
    assert!(was_closed_early(&post(&client, &server).await.unwrap_err()));
    assert_eq!(post(&client, &server).await.unwrap().status(), 404);
    server.assert_writes(3);
}

#[tokio::test]
async fn concurrent_requests_take_one_step_each() {
    let server = FaultServer::start((0..20).map(|number| Fault::ok(format!("{number:02}"))).chain([Fault::status(500)])).await;
    let client = client();
    let answers = futures_util::future::join_all((0..20).map(|_| async { post(&client, &server).await.unwrap().text().await.unwrap() }));
    let mut answers = answers.await;
    answers.sort();
    assert_eq!(answers, (0..20).map(|number| format!("{number:02}")).collect::<Vec<_>>());
}

#[tokio::test]
async fn a_dropped_server_cuts_its_connections_and_stops_listening() {
    let server = FaultServer::start([Fault::hang()]).await;
    let (client, url, address) = (client(), server.url("/"), server.address());
    let request = tokio::spawn(async move { client.get(url).send().await });
    server.until_complete(1).await;
    drop(server);
    assert!(!request.await.unwrap().unwrap_err().is_timeout());
    assert!(tokio::net::TcpStream::connect(address).await.is_err());
}

#[tokio::test]
async fn an_assertion_says_what_was_seen_and_prints_no_secret() {
    let server = FaultServer::start([]).await;
    client().post(server.url("/secret-path?secret-query")).bearer_auth("secret-token").body("secret-body").send().await.unwrap();
    let complaint = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| server.assert_writes(2))).unwrap_err();
    let complaint = complaint.downcast_ref::<String>().unwrap();
    assert!(complaint.contains("expected 2 complete writes, saw 1") && complaint.contains("POST"), "{complaint}");
    assert!(!format!("{complaint} {server:?}").contains("secret"), "{complaint}");
}

#[tokio::test]
async fn each_path_has_steps_of_its_own_and_others_are_not_found() {
    let server = FaultServer::by_path([("/orders", vec![Fault::close_after_request(), Fault::status(409)]), ("/menu", vec![])]).await;
    let client = client();
    let ask = async |path| client.post(server.url(path)).send().await;
    assert_eq!(ask("/menu?day=1").await.unwrap().status(), 200);
    assert!(was_closed_early(&ask("/orders").await.unwrap_err()));
    assert_eq!(ask("/menu").await.unwrap().status(), 200);
    assert_eq!(ask("/orders").await.unwrap().status(), 409);
    assert_eq!(ask("/orders").await.unwrap().status(), 409);
    assert_eq!(ask("/orders/").await.unwrap().status(), 404);
}

#[tokio::test]
async fn a_server_listens_at_the_port_it_was_given_or_says_that_it_cannot() {
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let server = FaultServer::start_at(port, [Fault::ok("done")]).await.unwrap();
    assert_eq!(server.address().port(), port);
    assert_eq!(post(&client(), &server).await.unwrap().text().await.unwrap(), "done");
    let taken = FaultServer::start_at(port, []).await.unwrap_err();
    assert_eq!(taken.kind(), std::io::ErrorKind::AddrInUse);
}

#[tokio::test]
async fn copies_count_as_duplicates_unless_their_key_tells() {
    let server = FaultServer::start([]).await;
    let client = client();
    let order = async |path: &str, body: &'static str, key: Option<&str>| {
        let request = client.post(server.url(path)).body(body);
        let request = if let Some(key) = key { request.header("idempotency-key", key) } else { request };
        request.send().await.unwrap();
        server.duplicates("idempotency-key")
    };
    assert_eq!(order("/orders", "coffee", Some("1")).await, 0);
    assert_eq!(order("/orders", "coffee", Some("1")).await, 0, "the key tells that it is a copy");
    assert_eq!(order("/orders", "coffee", Some("2")).await, 1, "a new key is a new operation to the server");
    assert_eq!(order("/orders", "coffee", None).await, 2, "without a key it is one, too");
    assert_eq!(order("/orders", "tea", Some("1")).await, 2, "another body is another operation");
    assert_eq!(order("/refunds", "coffee", None).await, 2, "as is another path");
    client.get(server.url("/orders")).send().await.unwrap();
    client.get(server.url("/orders")).send().await.unwrap();
    assert_eq!((server.duplicates("idempotency-key"), server.writes()), (2, 6), "reads are no writes");
    assert_eq!(server.duplicates("x-other-key"), 3, "only the header that was asked about holds keys");
    server.assert_writes(6);
}

#[tokio::test]
async fn a_write_that_did_not_arrive_whole_is_no_duplicate() {
    let server = FaultServer::start([Fault::close_mid_request(1), Fault::ok("done")]).await;
    let client = client();
    let body = vec![b'x'; 1 << 20];
    client.post(server.url("/")).body(body.clone()).send().await.unwrap_err();
    client.post(server.url("/")).body(body).send().await.unwrap();
    server.until_writes(1).await;
    server.assert_no_duplicates("idempotency-key");
}

#[tokio::test]
async fn a_complaint_about_duplicates_prints_no_secret() {
    let server = FaultServer::start([]).await;
    for _ in 0..2 {
        client().post(server.url("/secret")).header("idempotency-key", "secret").body("secret").send().await.unwrap();
        client().post(server.url("/secret")).body("secret").send().await.unwrap();
    }
    let complain = std::panic::AssertUnwindSafe(|| server.assert_no_duplicates("idempotency-key"));
    let complaint = std::panic::catch_unwind(complain).unwrap_err();
    let complaint = complaint.downcast_ref::<String>().unwrap();
    assert!(complaint.contains("expected 0 duplicates, saw 2") && !complaint.contains("secret"), "{complaint}");
}

// ===== a bad day =====

#[test]
fn a_bad_day_is_the_same_for_the_same_seed_and_holds_all_that_was_promised() {
    let day = |seed| Fault::bad_day(seed).take(300).map(|fault| fault.to_string()).collect::<Vec<_>>();
    assert_eq!(day(7), day(7));
    assert_ne!(day(7), day(8));
    let promised = [
        "reads the request, answers 200",
        "reads the request, answers 429 with retry-after 1",
        "reads the request, answers 503 with retry-after 1",
        "reads the head, falls silent",
        "reads the request, falls silent",
        "waits for the first byte, closes the connection",
        "reads the request, closes the connection",
    ];
    let day = day(7);
    for fault in promised {
        assert!(day.iter().filter(|met| *met == fault).count() >= 15, "{fault}");
    }
    assert!(day.iter().all(|met| promised.contains(&met.as_str())));
    assert!(day.iter().filter(|met| *met == promised[0]).count() >= 100);
}

#[test]
fn a_fault_says_what_it_does_without_what_it_answers() {
    let cut = Fault::ok("secret").with_header("x-secret", "secret").with_body_after(Duration::from_secs(2)).with_body_cut_at(3);
    let said = "reads the request, answers 200, waits 2s before the body, ends the body after 3 of 6 B, closes the connection";
    assert_eq!(cut.to_string(), said);
    let slow = Fault::status(503).after(Duration::from_millis(20)).to_string();
    assert_eq!(slow, "reads the request, waits 20ms, answers 503");
    let odd = Fault::script([Act::ReadBody(7), Act::Send("secret".into()), Act::Trickle("ab".into(), Duration::from_secs(1))]);
    assert_eq!(odd.to_string(), "reads the head and 7 B of the body, sends 6 B, sends 2 B every 1s");
}

#[tokio::test]
async fn a_bad_day_has_no_end_and_its_steps_are_taken_one_by_one() {
    let asked = std::sync::Arc::new(std::sync::atomic::AtomicUsize::new(0));
    let counted = std::sync::Arc::clone(&asked);
    let day = Fault::bad_day(1).map(|_| Fault::ok("done")).inspect(move |_| {
        counted.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
    });
    let server = FaultServer::start(day).await;
    for _ in 0..3 {
        post(&client(), &server).await.unwrap();
    }
    server.assert_requests(3);
    // One more may have been looked at, in case it acts on accept.
    assert!(asked.load(std::sync::atomic::Ordering::Relaxed) <= 4);
}

// ===== as an HTTP/1 proxy =====

#[cfg(feature = "testing-tls")]
fn proxied(server: &FaultServer) -> Client {
    Client::builder().proxy(reqwest::Proxy::all(server.url("/")).unwrap()).timeout(LONG).build().unwrap()
}

#[cfg(feature = "testing-tls")] // nobody asks for a tunnel else
#[tokio::test]
async fn a_proxy_refuses_a_tunnel_and_records_only_the_connect() {
    for fault in [Fault::status(502), Fault::status(407), Fault::close_after_request()] {
        let server = FaultServer::start([fault]).await;
        let error = proxied(&server).post("https://origin.test/").body("one coffee").send().await.unwrap_err();
        assert!(error.is_connect(), "{error:?}");
        server.assert_requests(1);
        server.assert_writes(0);
        let connect = server.requests().remove(0);
        assert_eq!((connect.method().as_str(), connect.url().host_str(), connect.is_write()), ("CONNECT", Some("origin.test"), false));
    }
}

#[tokio::test]
async fn a_plain_proxy_answers_for_the_origin() {
    let server = FaultServer::start([Fault::status(502)]).await;
    let response = proxied(&server).post("http://origin.test/orders").body("one coffee").send().await.unwrap();
    assert_eq!(response.status(), 502);
    assert_eq!(server.requests()[0].url().as_str(), "http://origin.test/orders");
    server.assert_writes(1);
}
