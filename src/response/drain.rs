//! Gives the connection of a failed response back.
//!
//! An HTTP/1 connection serves the next request only after the body of the answer has been read;
//! dropped unread, it is closed, and an overloaded server that answers 503 pays for a new
//! connection with every resend. On HTTP/2 a body that is dropped unread costs a RST_STREAM, and
//! servers close connections on which they get many of them. So a little of the body is read before
//! the pause: as much as is cheaper than a new connection, never in a task of its own, never past
//! the deadline.

use http::{HeaderMap, Version, header};
use reqwest::Response;
use tokio::time::timeout;

use crate::{
    policy::defaults::{DRAIN_LONGEST, DRAIN_MOST},
    request::deadline::Deadline,
    response::drained::Drained,
};

/// Reads the rest of a response that nobody wants, if that is cheap. Its connection is given back,
/// or closed, when the response is dropped.
pub(crate) async fn read_rest(response: &mut Response, deadline: Deadline) -> Drained {
    if response.version() >= Version::HTTP_3 || closes(response.headers()) {
        return Drained::NotNeeded;
    }
    if response.content_length().is_some_and(|length| length > DRAIN_MOST) {
        return Drained::TooLong;
    }
    let limit = deadline.time_left().min(DRAIN_LONGEST);
    timeout(limit, read_out(response)).await.unwrap_or(Drained::TooSlow)
}

async fn read_out(response: &mut Response) -> Drained {
    let mut left = DRAIN_MOST;
    loop {
        let Ok(chunk) = response.chunk().await else { return Drained::Broken };
        let Some(chunk) = chunk else { return Drained::Whole };
        match u64::try_from(chunk.len()).ok().and_then(|length| left.checked_sub(length)) {
            Some(rest) => left = rest,
            None => return Drained::TooLong,
        }
    }
}

/// RFC 9112 §9.6: after `Connection: close` this answer is the last one.
fn closes(headers: &HeaderMap) -> bool {
    let options = headers.get_all(header::CONNECTION).iter().filter_map(|value| value.to_str().ok());
    options.flat_map(|value| value.split(',')).any(|option| option.trim().eq_ignore_ascii_case("close"))
}

#[cfg(test)]
mod tests {
    use std::io;
    use std::net::SocketAddr;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU32, Ordering};
    use std::time::Duration;

    use bytes::Bytes;
    use futures_util::stream::{self, StreamExt as _};
    use reqwest::{Body, Client};
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::net::{TcpListener, TcpStream};
    use tokio::time::{Instant, sleep};

    use super::*;

    async fn give_back(mut response: Response, deadline: Deadline) -> Drained {
        read_rest(&mut response, deadline).await
    }

    const KIB: usize = 1024;
    const MILLISECOND: Duration = Duration::from_millis(1);

    // ===== limits, in virtual time =====

    /// A body of unknown length: the chunks, each after a pause.
    fn chunks(sizes: impl IntoIterator<Item = usize, IntoIter: Send + Sync + 'static>, pause: Duration) -> Body {
        Body::wrap_stream(stream::iter(sizes).then(move |size| async move {
            sleep(pause).await;
            Ok::<_, io::Error>(Bytes::from(vec![0; size]))
        }))
    }

    fn failed(body: Body) -> Response {
        http::Response::builder().status(503).body(body).unwrap().into()
    }

    async fn timed(response: Response, deadline: Deadline) -> (Drained, Duration) {
        let started = Instant::now();
        (give_back(response, deadline).await, started.elapsed())
    }

    #[tokio::test(start_paused = true)]
    async fn an_endless_trickle_costs_its_limit_or_the_deadline_and_no_more() {
        let trickle = || failed(chunks(std::iter::repeat(1), MILLISECOND));
        assert_eq!(timed(trickle(), Deadline::NONE).await, (Drained::TooSlow, DRAIN_LONGEST));
        assert_eq!(timed(trickle(), Deadline::after(20 * MILLISECOND)).await, (Drained::TooSlow, 20 * MILLISECOND));
        assert_eq!(timed(trickle(), Deadline::after(Duration::ZERO)).await, (Drained::TooSlow, Duration::ZERO));
    }

    #[tokio::test(start_paused = true)]
    async fn no_more_than_the_limit_is_read_and_exactly_the_limit_is() {
        let sizes = |last| [16 * KIB, 16 * KIB, 16 * KIB, last];
        assert_eq!(give_back(failed(chunks(sizes(16 * KIB), Duration::ZERO)), Deadline::NONE).await, Drained::Whole);
        assert_eq!(give_back(failed(chunks(sizes(16 * KIB + 1), Duration::ZERO)), Deadline::NONE).await, Drained::TooLong);
        let flood = failed(chunks(std::iter::repeat(16 * KIB), Duration::ZERO));
        assert_eq!(give_back(flood, Deadline::NONE).await, Drained::TooLong);
        assert_eq!(give_back(failed(Body::from(vec![0; 64 * KIB])), Deadline::NONE).await, Drained::Whole);
        assert_eq!(give_back(failed(Body::from(vec![0; 64 * KIB + 1])), Deadline::NONE).await, Drained::TooLong);
    }

    #[tokio::test(start_paused = true)]
    async fn nothing_is_read_where_no_connection_can_be_given_back() {
        let endless = || chunks(std::iter::repeat(1), MILLISECOND);
        let shared = http::Response::builder().version(Version::HTTP_3).body(endless()).unwrap().into();
        assert_eq!(timed(shared, Deadline::NONE).await, (Drained::NotNeeded, Duration::ZERO));
        for option in ["close", "Close", "x-hop, close"] {
            let last = http::Response::builder().header("connection", option).body(endless()).unwrap().into();
            assert_eq!(timed(last, Deadline::NONE).await, (Drained::NotNeeded, Duration::ZERO), "{option}");
        }
        let kept = http::Response::builder().header("connection", "keep-alive").body(Body::from("short")).unwrap().into();
        assert_eq!(give_back(kept, Deadline::NONE).await, Drained::Whole);
    }

    #[tokio::test(start_paused = true)]
    async fn a_broken_body_ends_the_reading() {
        let broken = stream::iter([Ok(Bytes::from_static(b"half")), Err(io::Error::from(io::ErrorKind::ConnectionReset))]);
        assert_eq!(give_back(failed(Body::wrap_stream(broken)), Deadline::NONE).await, Drained::Broken);
    }

    // ===== connections, on the wire =====

    /// An overloaded server: it answers every request with these two writes, and counts its
    /// connections.
    struct Overloaded {
        address: SocketAddr,
        connections: Arc<AtomicU32>,
    }

    impl Overloaded {
        async fn start(head: String, body: Vec<u8>, between: Duration) -> Self {
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            let address = listener.local_addr().unwrap();
            let connections = Arc::new(AtomicU32::new(0));
            let (counter, answer) = (Arc::clone(&connections), Arc::new((head, body)));
            tokio::spawn(async move {
                loop {
                    let (connection, _) = listener.accept().await.unwrap();
                    counter.fetch_add(1, Ordering::SeqCst);
                    tokio::spawn(serve(connection, Arc::clone(&answer), between));
                }
            });
            Self { address, connections }
        }
    }

    async fn serve(mut connection: TcpStream, answer: Arc<(String, Vec<u8>)>, between: Duration) -> io::Result<()> {
        connection.set_nodelay(true)?;
        let (head, body) = &*answer;
        loop {
            let mut request = Vec::new();
            while !request.ends_with(b"\r\n\r\n") {
                request.push(connection.read_u8().await?);
            }
            if between.is_zero() {
                connection.write_all(&[head.as_bytes(), body].concat()).await?;
            } else {
                connection.write_all(head.as_bytes()).await?;
                sleep(between).await;
                connection.write_all(body).await?;
            }
        }
    }

    fn framed(size: usize, framing: &str) -> (String, Vec<u8>) {
        let body = vec![b'x'; size];
        match framing {
            "content-length" => (format!("HTTP/1.1 503 Busy\r\ncontent-length: {size}\r\n\r\n"), body),
            _ => {
                let chunk = if size == 0 { Vec::new() } else { [format!("{size:x}\r\n").as_bytes(), &body, b"\r\n"].concat() };
                ("HTTP/1.1 503 Busy\r\ntransfer-encoding: chunked\r\n\r\n".into(), [&chunk, b"0\r\n\r\n" as &[u8]].concat())
            }
        }
    }

    #[tokio::test]
    async fn a_server_that_keeps_failing_is_asked_over_one_connection() {
        for size in [0, KIB, 16 * KIB, 64 * KIB] {
            for framing in ["content-length", "chunked"] {
                for between in [Duration::ZERO, 3 * MILLISECOND] {
                    let (head, body) = framed(size, framing);
                    let server = Overloaded::start(head, body, between).await;
                    let client = Client::new();
                    let mut given_up = 0;
                    for _ in 0..40 {
                        let response = client.get(format!("http://{}/", server.address)).send().await.unwrap();
                        assert_eq!(response.status(), 503);
                        given_up += u32::from(give_back(response, Deadline::NONE).await != Drained::Whole);
                        sleep(5 * MILLISECOND).await; // the pause before a resend
                    }
                    let case = format!("{size} bytes, {framing}, {between:?} after the head");
                    let connections = server.connections.load(Ordering::SeqCst);
                    // A busy machine may need more than the limit once in a while, and then the
                    // connection is rightly lost.
                    assert!(given_up < 10 && connections <= 1 + given_up, "{connections} connections, {given_up} given up: {case}");
                }
            }
        }
    }

    #[tokio::test]
    async fn a_server_whose_error_never_ends_is_left() {
        let head = "HTTP/1.1 503 Busy\r\ntransfer-encoding: chunked\r\n\r\n".into();
        let server = Overloaded::start(head, b"1\r\nx\r\n".to_vec(), Duration::ZERO).await;
        let response = reqwest::get(format!("http://{}/", server.address)).await.unwrap();
        assert_eq!(give_back(response, Deadline::NONE).await, Drained::TooSlow);
    }
}
