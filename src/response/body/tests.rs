use std::{net::SocketAddr, sync::Arc, time::Duration};

use futures_util::{StreamExt as _, stream};
use http::{HeaderMap, HeaderValue, Method, StatusCode, Version};
use http_body_util::StreamBody;
use reqwest::Url;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
    task::JoinHandle,
};

use super::*;

const SECOND: Duration = Duration::from_secs(1);

/// One step of a scripted body.
#[derive(Clone, Copy)]
enum Step {
    Data(&'static str),
    Trailers,
    Wait(Duration),
    Fail,
    Stall,
}

use Step::{Data, Fail, Stall, Trailers, Wait};

fn trailers() -> HeaderMap {
    HeaderMap::from_iter([(http::header::ETAG, HeaderValue::from_static("\"sum\""))])
}

fn scripted(steps: &[Step]) -> Body {
    let frames = stream::iter(steps.to_vec()).filter_map(|step| async move {
        match step {
            Data(text) => Some(Ok(Frame::data(Bytes::from_static(text.as_bytes())))),
            Trailers => Some(Ok(Frame::trailers(trailers()))),
            Fail => Some(Err(io::Error::from(io::ErrorKind::ConnectionReset))),
            Wait(time) => {
                tokio::time::sleep(time).await;
                None
            }
            Stall => std::future::pending().await,
        }
    });
    Body::wrap(StreamBody::new(Box::pin(frames)))
}

fn response(body: Body) -> Response {
    let answer = http::Response::builder().url(url()).version(Version::HTTP_2).header("x-mark", "1").body(body);
    answer.unwrap().into()
}

fn url() -> Url {
    Url::parse("http://peer.example/orders?page=2").unwrap()
}

fn is_ours(error: &reqwest::Error) -> bool {
    BodyDeadlineExceeded::caused(error)
}

// ===== bounded, in virtual time =====

#[tokio::test(start_paused = true)]
async fn a_stalled_body_ends_with_a_timeout_at_the_deadline() {
    let started = Instant::now();
    let answer = bounded(response(scripted(&[Data("half"), Stall])), Deadline::after(SECOND));
    let error = answer.bytes().await.unwrap_err();
    assert_eq!(started.elapsed(), SECOND);
    assert!(error.is_timeout() && error.is_decode() && is_ours(&error));
    assert_eq!(error.url(), Some(&url()));
}

#[tokio::test(start_paused = true)]
async fn a_body_that_trickles_does_not_move_the_deadline() {
    let started = Instant::now();
    let trickle = [Data("."), Wait(SECOND / 4)].repeat(99);
    let error = bounded(response(scripted(&trickle)), Deadline::after(SECOND)).bytes().await.unwrap_err();
    assert_eq!(started.elapsed(), SECOND);
    assert!(is_ours(&error));
}

#[tokio::test(start_paused = true)]
async fn what_had_arrived_by_the_deadline_is_handed_over() {
    let answer = bounded(response(scripted(&[Data("all "), Data("here")])), Deadline::after(SECOND));
    tokio::time::advance(2 * SECOND).await;
    assert_eq!(answer.text().await.unwrap(), "all here");
}

#[tokio::test(start_paused = true)]
async fn a_body_that_never_lets_us_wait_ends_all_the_same() {
    let endless = stream::repeat_with(|| Ok::<_, io::Error>(Bytes::from_static(&[0; 16 * 1024])));
    let mut answer = bounded(response(Body::wrap_stream(endless)), Deadline::after(SECOND));
    let mut late = 0;
    answer.chunk().await.unwrap().unwrap();
    tokio::time::advance(SECOND).await;
    let error = loop {
        match answer.chunk().await {
            Ok(chunk) => late += length_of(&Frame::data(chunk.unwrap())),
            Err(error) => break error,
        }
    };
    assert!(is_ours(&error));
    assert_eq!(late, BODY_GRACE);
}

#[tokio::test(start_paused = true)]
async fn empty_frames_without_end_do_not_outlive_the_deadline() {
    let endless = stream::repeat_with(|| Ok::<_, io::Error>(Bytes::new()));
    let error = bounded(response(Body::wrap_stream(endless)), Deadline::after(Duration::ZERO)).bytes().await.unwrap_err();
    assert!(is_ours(&error));
}

#[tokio::test(start_paused = true)]
async fn nothing_follows_the_end_of_a_body() {
    for steps in [&[Stall] as &[_], &[Fail, Data("more")]] {
        let mut answer = bounded(response(scripted(steps)), Deadline::after(SECOND));
        answer.chunk().await.unwrap_err();
        assert_eq!(answer.chunk().await.unwrap(), None);
        assert_eq!(answer.content_length(), Some(0));
    }
}

#[tokio::test(start_paused = true)]
async fn a_failure_of_the_transport_stays_what_it_was() {
    let error = bounded(response(scripted(&[Data("half"), Fail])), Deadline::after(SECOND)).bytes().await.unwrap_err();
    assert!(error.is_decode() && !error.is_timeout() && !is_ours(&error));
}

#[tokio::test(start_paused = true)]
async fn without_a_deadline_a_body_takes_as_long_as_it_takes() {
    let slow = scripted(&[Wait(86_400 * SECOND), Data("late")]);
    assert_eq!(bounded(response(slow), Deadline::NONE).text().await.unwrap(), "late");
}

#[tokio::test(start_paused = true)]
async fn a_bounded_body_keeps_its_length_its_trailers_and_its_end() {
    let answer = bounded(response(Body::from("five!")), Deadline::after(SECOND));
    assert_eq!(answer.content_length(), Some(5));

    let answer = bounded(response(scripted(&[Data("five!"), Trailers])), Deadline::after(SECOND));
    assert_eq!(answer.content_length(), None);
    let collected = http::Response::<Body>::from(answer).into_body().collect().await.unwrap();
    assert_eq!(collected.trailers(), Some(&trailers()));
    assert_eq!(collected.to_bytes(), "five!");

    let answer = bounded(response(Body::default()), Deadline::after(SECOND));
    assert!(http::Response::<Body>::from(answer).body().is_end_stream());
}

/// Waits on a thread that knows no runtime.
fn block_on<T: Send>(work: impl Future<Output = T> + Send) -> T {
    struct Unpark(std::thread::Thread);
    impl std::task::Wake for Unpark {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }
    let mut work = std::pin::pin!(work);
    let waker = Arc::new(Unpark(std::thread::current())).into();
    let mut context = Context::from_waker(&waker);
    loop {
        match work.as_mut().poll(&mut context) {
            Poll::Ready(value) => return value,
            Poll::Pending => std::thread::park(),
        }
    }
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap()
}

#[test]
fn a_body_whose_runtime_is_gone_ends_at_its_deadline_in_another_one() {
    let first = runtime();
    let answer = first.block_on(async { bounded(response(scripted(&[Stall])), Deadline::after(SECOND / 20)) });
    drop(first);
    let error = runtime().block_on(answer.bytes()).unwrap_err();
    assert!(is_ours(&error));
}

#[test]
fn a_body_whose_runtime_nobody_drives_ends_at_its_deadline() {
    let idle = runtime();
    let answer = idle.block_on(async { bounded(response(scripted(&[Stall])), Deadline::after(SECOND / 20)) });
    let error = runtime().block_on(answer.bytes()).unwrap_err();
    assert!(is_ours(&error));
}

#[test]
fn a_body_that_began_to_wait_in_one_runtime_goes_on_in_another() {
    let first = runtime();
    let mut reading = Box::pin(first.block_on(async { bounded(response(scripted(&[Stall])), Deadline::after(SECOND / 20)) }).bytes());
    first.block_on(std::future::poll_fn(|cx| {
        assert!(reading.as_mut().poll(cx).is_pending());
        Poll::Ready(())
    }));
    drop(first);
    assert!(is_ours(&runtime().block_on(reading).unwrap_err()));
}

/// Without a runtime there is no timer: time is only looked at when more arrives, or nothing does.
#[test]
fn outside_of_every_runtime_each_poll_looks_at_the_clock() {
    let late = runtime().block_on(async { bounded(response(scripted(&[Stall])), Deadline::after(Duration::ZERO)) });
    assert!(is_ours(&block_on(late.bytes()).unwrap_err()));
    let answer = runtime().block_on(async { bounded(response(scripted(&[Data("at once")])), Deadline::after(SECOND)) });
    assert_eq!(block_on(answer.bytes()).unwrap(), "at once");
}

// ===== read, in virtual time =====

async fn whole(body: Body, most: usize) -> (Response, Whole) {
    match read(response(body), most, Deadline::after(SECOND)).await {
        Read::Whole { response, whole } => (response, whole),
        other => panic!("{other:?}"),
    }
}

#[tokio::test(start_paused = true)]
async fn a_body_read_inside_the_attempt_is_there_for_the_caller_too() {
    let (answer, Whole { body, trailers: seen }) = whole(scripted(&[Data("two "), Wait(SECOND / 2), Data("parts"), Trailers]), 100).await;
    assert_eq!(seen, Some(trailers()));
    assert_eq!(body, "two parts");
    assert_eq!((answer.url(), answer.version(), &answer.headers()["x-mark"]), (&url(), Version::HTTP_2, &HeaderValue::from_static("1")));
    assert_eq!(answer.content_length(), Some(9));
    let collected = http::Response::<Body>::from(answer).into_body().collect().await.unwrap();
    assert_eq!(collected.trailers(), Some(&trailers()));
    assert_eq!(collected.to_bytes(), "two parts");
}

/// One byte that keeps a whole read buffer alive.
fn byte_in_a_buffer(buffers: &Arc<()>) -> Bytes {
    struct Buffer([u8; 8192], #[expect(dead_code, reason = "counts the buffers")] Arc<()>);
    impl AsRef<[u8]> for Buffer {
        fn as_ref(&self) -> &[u8] {
            &self.0
        }
    }
    Bytes::from_owner(Buffer([b'x'; 8192], Arc::clone(buffers))).split_to(1)
}

#[tokio::test]
async fn a_body_that_trickles_keeps_no_read_buffer_alive() {
    const PACKETS: usize = 60_000;
    let buffers = Arc::new(());
    for most in [PACKETS, PACKETS / 2] {
        let own = Arc::clone(&buffers);
        let trickle = stream::iter(0..PACKETS).map(move |_| Ok::<_, io::Error>(Frame::data(byte_in_a_buffer(&own))));
        let read = read(response(Body::wrap(StreamBody::new(trickle))), most, Deadline::NONE).await;
        assert_eq!(matches!(read, Read::Whole { .. }), most == PACKETS);
        assert!(Arc::strong_count(&buffers) <= 3, "{} buffers are held", Arc::strong_count(&buffers));
        let answer = match read {
            Read::Whole { response, .. } | Read::TooLong(response) => response,
            Read::Lost(lost) => panic!("{lost:?}"),
        };
        assert_eq!(answer.bytes().await.unwrap().len(), PACKETS);
    }
}

#[tokio::test(start_paused = true)]
async fn a_body_in_one_piece_is_not_copied() {
    let (answer, Whole { body, .. }) = whole(scripted(&[Data("one piece")]), 100).await;
    assert_eq!(answer.bytes().await.unwrap().as_ptr(), body.as_ptr());
}

#[tokio::test(start_paused = true)]
async fn a_body_is_never_truncated_wherever_the_limit_falls() {
    let steps = [Data("some "), Data(""), Data("more "), Wait(SECOND / 2), Data("bytes"), Trailers];
    for most in 0..=20 {
        match read(response(scripted(&steps)), most, Deadline::after(SECOND)).await {
            Read::Whole { response, whole: Whole { body, .. } } => {
                assert!(most >= 15, "{most}");
                assert_eq!(body, "some more bytes");
                assert_eq!(response.text().await.unwrap(), "some more bytes");
            }
            Read::TooLong(response) => {
                assert!(most < 15, "{most}");
                assert_eq!((response.url(), &response.headers()["x-mark"]), (&url(), &HeaderValue::from_static("1")));
                let collected = http::Response::<Body>::from(response).into_body().collect().await.unwrap();
                assert_eq!(collected.trailers(), Some(&trailers()));
                assert_eq!(collected.to_bytes(), "some more bytes");
            }
            Read::Lost(lost) => panic!("{most}: {lost:?}"),
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_body_that_says_it_is_too_long_is_not_touched() {
    let Read::TooLong(answer) = read(response(Body::from("longer")), 5, Deadline::after(SECOND)).await else { panic!() };
    assert_eq!(answer.content_length(), Some(6));
}

#[tokio::test(start_paused = true)]
async fn the_rest_of_a_body_too_long_is_not_bound_by_the_limit_of_the_attempt() {
    let steps = [Data("longer "), Wait(5 * SECOND), Data("than that")];
    let Read::TooLong(answer) = read(response(scripted(&steps)), 3, Deadline::after(SECOND)).await else { panic!() };
    assert_eq!(answer.text().await.unwrap(), "longer than that");
}

#[tokio::test(start_paused = true)]
async fn a_body_that_stalls_is_lost_when_time_is_up() {
    let started = Instant::now();
    let Read::Lost(lost) = read(response(scripted(&[Data("half"), Stall])), 100, Deadline::after(SECOND)).await else { panic!() };
    assert_eq!(started.elapsed(), SECOND);
    assert_eq!((lost.loss, lost.head.status, &lost.head.headers["x-mark"]), (Loss::TimeUp, StatusCode::OK, &HeaderValue::from_static("1")));
    let error = lost.error.unwrap();
    assert!(error.is_timeout() && error.is_decode());
    assert_eq!(error.url(), Some(&url()));
}

#[tokio::test(start_paused = true)]
async fn without_a_limit_reading_waits() {
    let Read::Whole { whole: Whole { body, .. }, .. } =
        read(response(scripted(&[Wait(86_400 * SECOND), Data("late")])), 100, Deadline::NONE).await
    else {
        panic!()
    };
    assert_eq!(body, "late");
}

// ===== on the wire =====

/// What the peer does after its last answer.
enum Then {
    Close,
    /// Waits for the client to close: the task ends when it has.
    Hold,
}

/// A peer that answers the requests of one connection in order, with these bytes.
async fn peer<const N: usize>(answers: [&'static str; N], then: Then) -> (SocketAddr, JoinHandle<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let peer = tokio::spawn(async move {
        let (mut connection, _) = listener.accept().await.unwrap();
        for answer in answers {
            read_head(&mut connection).await;
            connection.write_all(answer.as_bytes()).await.unwrap();
        }
        if let Then::Hold = then {
            let mut rest = Vec::new();
            let _closed_or_reset = connection.read_to_end(&mut rest).await;
        }
    });
    (address, peer)
}

async fn read_head(connection: &mut TcpStream) {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(connection.read_u8().await.unwrap());
    }
}

async fn get(address: SocketAddr) -> Response {
    reqwest::get(format!("http://{address}/first")).await.unwrap()
}

const FOUND: &str = "HTTP/1.1 302 Found\r\nlocation: /second\r\ncontent-length: 0\r\n\r\n";
const COOKED: &str = "HTTP/1.1 203 Cooked\r\nset-cookie: a=1\r\nset-cookie: b=2\r\ncontent-length: 5\r\n\r\nhello";

/// Far enough ahead that no real peer comes near it.
fn in_time() -> Deadline {
    Deadline::after(60 * SECOND)
}

/// The two ways in which an answer goes to the caller.
#[derive(Debug, Clone, Copy)]
enum Way {
    Bounded,
    Read,
}

impl Way {
    async fn hand_on(self, answer: Response) -> Response {
        match self {
            Self::Bounded => bounded(answer, in_time()),
            Self::Read => match read(answer, 5, in_time()).await {
                Read::Whole { response, .. } => response,
                other => panic!("{other:?}"),
            },
        }
    }
}

#[tokio::test]
async fn everything_of_a_real_answer_is_kept() {
    for way in [Way::Bounded, Way::Read] {
        let (address, _peer) = peer([FOUND, COOKED], Then::Hold).await;
        let mut plain = get(address).await;
        plain.extensions_mut().insert("theirs");
        let extensions = plain.extensions().len();
        let kept = way.hand_on(plain).await;
        assert_eq!(kept.url().as_str(), format!("http://{address}/second"), "{way:?}: the url after redirects");
        assert_eq!(kept.remote_addr(), Some(address), "{way:?}");
        assert_eq!((kept.status().as_u16(), kept.version()), (203, Version::HTTP_11), "{way:?}");
        assert_eq!(kept.headers().get_all("set-cookie").iter().collect::<Vec<_>>(), ["a=1", "b=2"], "{way:?}");
        assert_eq!(kept.headers()["content-length"], "5", "{way:?}");
        assert_eq!(kept.content_length(), Some(5), "{way:?}");
        assert_eq!(kept.extensions().get(), Some(&"theirs"), "{way:?}");
        assert_eq!(kept.extensions().len(), extensions, "{way:?}");
        assert_eq!(kept.text().await.unwrap(), "hello", "{way:?}");
    }
}

#[tokio::test]
async fn the_reason_phrase_and_the_url_stay_in_the_error_of_a_status() {
    let (address, _peer) = peer(["HTTP/1.1 503 Out Of Soup\r\ncontent-length: 0\r\n\r\n"], Then::Hold).await;
    let answer = get(address).await;
    let plain = answer.error_for_status_ref().unwrap_err().to_string();
    assert!(plain.contains("Out Of Soup") && plain.contains("/first"), "{plain}");
    let answer = bounded(answer, in_time());
    assert_eq!(answer.error_for_status_ref().unwrap_err().to_string(), plain);
}

#[tokio::test]
async fn an_upgrade_works_through_the_deadline_and_after_reading() {
    const SWITCH: &str = "HTTP/1.1 101 Switching Protocols\r\nconnection: upgrade\r\nupgrade: echo\r\n\r\n";
    for way in [Way::Bounded, Way::Read] {
        let (address, _peer) = peer([SWITCH, "pong"], Then::Hold).await;
        let request = reqwest::Client::new().get(format!("http://{address}/")).header("connection", "upgrade").header("upgrade", "echo");
        let plain = request.send().await.unwrap();
        let mut upgraded = way.hand_on(plain).await.upgrade().await.unwrap();
        upgraded.write_all(b"ping\r\n\r\n").await.unwrap();
        let mut answer = [0; 4];
        upgraded.read_exact(&mut answer).await.unwrap();
        assert_eq!(&answer, b"pong", "{way:?}");
    }
}

#[tokio::test]
async fn trailers_come_through_on_the_wire() {
    const CHUNKED: &str = "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\ntrailer: etag\r\n\r\n5\r\nhello\r\n0\r\netag: \"sum\"\r\n\r\n";
    let (address, _peer) = peer([CHUNKED], Then::Hold).await;
    let Read::Whole { response, .. } = read(get(address).await, 100, in_time()).await else { panic!() };
    let collected = http::Response::<Body>::from(response).into_body().collect().await.unwrap();
    assert_eq!(collected.trailers(), Some(&trailers()));
}

#[tokio::test]
async fn an_answer_without_a_body_is_whole_whatever_its_length_says() {
    const REST: &str = "content-length: 4096\r\n\r\n";
    for (method, status) in [(Method::HEAD, "200 OK"), (Method::GET, "304 Not Modified"), (Method::GET, "204 No Content")] {
        let answer: &str = format!("HTTP/1.1 {status}\r\n{REST}").leak();
        let (address, _peer) = peer([answer], Then::Hold).await;
        let plain = reqwest::Client::new().request(method, format!("http://{address}/")).send().await.unwrap();
        match read(plain, 10, in_time()).await {
            Read::Whole { response, whole: Whole { body, .. } } => {
                assert!(body.is_empty(), "{status}");
                assert_eq!(response.headers()["content-length"], "4096", "{status}");
                assert!(response.bytes().await.unwrap().is_empty(), "{status}");
            }
            other => panic!("{status}: {other:?}"),
        }
    }
}

#[tokio::test]
async fn a_cut_body_is_lost_with_the_error_that_its_reader_would_have_got() {
    const CUT: &str = "HTTP/1.1 200 OK\r\nretry-after: 7\r\ncontent-length: 10\r\n\r\nhalf";
    let (address, _peer) = peer([CUT], Then::Close).await;
    let plain = get(address).await.bytes().await.unwrap_err();
    let (address, _peer) = peer([CUT], Then::Close).await;
    let Read::Lost(lost) = read(get(address).await, 100, in_time()).await else { panic!() };
    assert_eq!(
        (lost.loss, lost.head.status, &lost.head.headers["retry-after"]),
        (Loss::Transport, StatusCode::OK, &HeaderValue::from_static("7"))
    );
    let error = lost.error.unwrap();
    assert_eq!((error.is_decode(), error.is_body(), error.is_timeout()), (plain.is_decode(), plain.is_body(), plain.is_timeout()));
    assert_eq!(error.url().map(Url::path), plain.url().map(Url::path));
}

#[tokio::test]
async fn the_connection_of_a_body_out_of_time_is_closed() {
    let (address, peer) = peer(["HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\nhalf"], Then::Hold).await;
    let client = reqwest::Client::new(); // outlives the response: its pool does not keep the connection
    let plain = client.get(format!("http://{address}/")).send().await.unwrap();
    let mut answer = bounded(plain, Deadline::after(SECOND / 20));
    assert_eq!(answer.chunk().await.unwrap().unwrap(), "half");
    assert!(is_ours(&answer.chunk().await.unwrap_err()));
    peer.await.unwrap(); // while the response still exists
    drop(answer);
}

#[tokio::test]
async fn the_own_timeout_of_the_client_keeps_working_under_the_deadline() {
    let (address, _peer) = peer(["HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\nhalf"], Then::Hold).await;
    let client = reqwest::Client::builder().timeout(SECOND / 20).build().unwrap();
    let plain = client.get(format!("http://{address}/")).send().await.unwrap();
    let Read::Lost(lost) = read(plain, 100, in_time()).await else { panic!() };
    assert_eq!(lost.loss, Loss::Transport);
    assert!(lost.error.unwrap().is_timeout());
}
