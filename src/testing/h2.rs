//! HTTP/2 with prior knowledge in front of a script.
//!
//! The `h2` crate reads what the client sends and writes what is in order. What it refuses to
//! write, such as a GOAWAY that leaves out a stream it has accepted, goes to the socket beside it.

use std::{
    io,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
    time::Duration,
};

use ::h2::RecvStream;
use ::h2::server::{Builder, SendResponse};
use bytes::Bytes;
use futures_util::{
    future::{BoxFuture, FutureExt},
    stream::{FuturesUnordered, StreamExt},
};
use http::{HeaderMap, Request, Response, StatusCode};
use reqwest::Url;
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    net::{
        TcpStream,
        tcp::{OwnedReadHalf, OwnedWriteHalf},
    },
    time::Instant,
};

use super::{
    connection::reset_when_dropped,
    fault_server::FaultServer,
    h2_reason::H2Reason,
    ledger::Shared,
    recorded::{Extent, Recorded},
    script::Script,
    spelled,
};

impl FaultServer {
    /// Starts a server that speaks HTTP/2 with prior knowledge ([RFC 9113 §3.3]; the client needs
    /// `http2_prior_knowledge`) and plays one step for each stream. Without any step it
    /// answers 200.
    ///
    /// A step that concerns the whole connection ([`H2Fault::silent`],
    /// [`H2Fault::without_streams`], [`H2Fault::without_window`], [`H2Fault::close_on_accept`]) is
    /// taken when a client connects.
    ///
    /// # Panics
    /// Panics if the loopback can't be listened on.
    ///
    /// # Examples
    /// ```
    /// use reqwest_safe_retry::testing::{FaultServer, H2Fault};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), reqwest::Error> {
    /// let server = FaultServer::start_h2([H2Fault::refused_stream(), H2Fault::ok("done")]).await;
    /// let client = reqwest::Client::builder().http2_prior_knowledge().build()?; // reqwest itself repeats what was refused
    /// let response = client.post(server.url("/orders")).body("one coffee").send().await?;
    /// assert_eq!(response.text().await?, "done");
    /// server.assert_requests(2);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// [RFC 9113 §3.3]: https://www.rfc-editor.org/rfc/rfc9113#section-3.3
    pub async fn start_h2(steps: impl IntoIterator<Item = H2Fault>) -> Self {
        let script = Arc::new(Script::new(steps.into_iter().collect::<Vec<_>>(), H2Fault::status(200)));
        let serve = move |socket, number, shared| {
            let script = Arc::clone(&script);
            async move { drop(serve(socket, number, shared, script).await) }
        };
        Self::listen("http", serve).await
    }
}

/// What an HTTP/2 server does to one stream, after it has read the whole request.
///
/// # Examples
/// ```
/// use reqwest_safe_retry::testing::{H2Fault, H2Reason};
///
/// let unprocessed = H2Fault::refused_stream();
/// let leaving = H2Fault::go_away_including(H2Reason::NO_ERROR);
/// let broken = H2Fault::ok("half").with_body_reset(H2Reason::INTERNAL_ERROR);
/// # let _ = (unprocessed, leaving, broken);
/// ```
///
/// ```
/// use reqwest_safe_retry::testing::{H2Fault, H2Reason};
///
/// let faults = [
///     H2Fault::close_on_accept(),
///     H2Fault::without_streams(),
///     H2Fault::without_window(),
///     H2Fault::go_away_below(H2Reason::ENHANCE_YOUR_CALM).with_debug_data("too_many_pings"),
///     H2Fault::reset_stream(H2Reason::CANCEL),
///     H2Fault::garbage(),
///     H2Fault::ok("half").with_body_closed(),
///     H2Fault::ok("half").with_body_stalled(),
/// ];
/// # let _ = faults;
/// ```
#[derive(Debug, Clone)]
#[must_use]
pub struct H2Fault {
    delay: Duration,
    act: Act,
}

#[derive(Debug, Clone)]
enum Act {
    Answer(Answer),
    ResetStream(H2Reason),
    GoAway(Last, H2Reason, &'static str),
    Garbage,
    Hang,
    End(Ending),
    // for the whole connection:
    Silent,
    WithoutStreams,
    WithoutWindow,
    CloseOnAccept,
}

/// Which streams a GOAWAY promises to process.
#[derive(Debug, Clone, Copy)]
enum Last {
    BelowOurs,
    Ours,
}

#[derive(Clone)]
struct Answer {
    status: StatusCode,
    headers: HeaderMap,
    body: Bytes,
    end: BodyEnd,
}

#[derive(Debug, Clone, Copy)]
enum BodyEnd {
    Whole,
    Reset(H2Reason),
    Connection(Ending),
    Stalls,
}

/// How a connection ends.
#[derive(Debug, Clone, Copy)]
enum Ending {
    Fin,
    Rst,
}

impl H2Fault {
    /// Answers 200 with this body.
    pub fn ok(body: impl Into<Bytes>) -> Self {
        Self::status(200).with_body(body)
    }

    /// Answers with this status and an empty body.
    ///
    /// # Panics
    /// Panics if the code is not a status (100 to 999).
    #[track_caller]
    pub fn status(code: u16) -> Self {
        let status = spelled::status(code);
        Self::of(Act::Answer(Answer { status, headers: HeaderMap::new(), body: Bytes::new(), end: BodyEnd::Whole }))
    }

    /// Adds a header to the answer. No effect on a fault that does not answer.
    ///
    /// # Panics
    /// Panics if name or value is malformed.
    #[track_caller]
    pub fn with_header(self, name: &str, value: &str) -> Self {
        let (name, value) = spelled::header(name, value);
        self.answering(|answer| {
            answer.headers.append(name, value);
        })
    }

    /// Replaces the answer's body.
    pub fn with_body(self, body: impl Into<Bytes>) -> Self {
        let body = body.into();
        self.answering(|answer| answer.body = body)
    }

    /// Resets the stream after the answer's head and body instead of ending it.
    pub fn with_body_reset(self, reason: H2Reason) -> Self {
        self.answering(|answer| answer.end = BodyEnd::Reset(reason))
    }

    /// Closes the TCP connection (FIN) after the answer's head and body, with the stream still
    /// open.
    pub fn with_body_closed(self) -> Self {
        self.answering(|answer| answer.end = BodyEnd::Connection(Ending::Fin))
    }

    /// Sends the answer's head and body and never ends the stream.
    pub fn with_body_stalled(self) -> Self {
        self.answering(|answer| answer.end = BodyEnd::Stalls)
    }

    /// Waits this long before it acts.
    pub fn after(self, delay: Duration) -> Self {
        Self { delay, ..self }
    }

    /// Resets the stream with REFUSED_STREAM: by definition, nothing was processed ([RFC 9113
    /// §8.7]).
    ///
    /// [RFC 9113 §8.7]: https://www.rfc-editor.org/rfc/rfc9113#section-8.7
    pub fn refused_stream() -> Self {
        Self::reset_stream(H2Reason::REFUSED_STREAM)
    }

    /// Resets the stream with this reason ([RFC 9113 §7]).
    ///
    /// [RFC 9113 §7]: https://www.rfc-editor.org/rfc/rfc9113#section-7
    pub fn reset_stream(reason: H2Reason) -> Self {
        Self::of(Act::ResetStream(reason))
    }

    /// Sends a GOAWAY whose last stream is below this one: by definition, this one was not
    /// processed ([RFC 9113 §6.8]).
    ///
    /// [RFC 9113 §6.8]: https://www.rfc-editor.org/rfc/rfc9113#section-6.8
    pub fn go_away_below(reason: H2Reason) -> Self {
        Self::of(Act::GoAway(Last::BelowOurs, reason, ""))
    }

    /// Sends a GOAWAY that counts this stream as one that may be processed, and closes the
    /// connection (FIN) without an answer.
    pub fn go_away_including(reason: H2Reason) -> Self {
        Self::of(Act::GoAway(Last::Ours, reason, ""))
    }

    /// Adds debug data to a GOAWAY: words of the server's, which may be anything.
    pub fn with_debug_data(mut self, data: &'static str) -> Self {
        if let Act::GoAway(_, _, words) = &mut self.act {
            *words = data;
        }
        self
    }

    /// Closes the TCP connection (FIN) without an answer.
    pub fn close() -> Self {
        Self::of(Act::End(Ending::Fin))
    }

    /// Resets the TCP connection without an answer.
    pub fn reset() -> Self {
        Self::of(Act::End(Ending::Rst))
    }

    /// Answers with a frame that no client can accept: SETTINGS of five bytes ([RFC 9113 §6.5]).
    ///
    /// [RFC 9113 §6.5]: https://www.rfc-editor.org/rfc/rfc9113#section-6.5
    pub fn garbage() -> Self {
        Self::of(Act::Garbage)
    }

    /// Never answers the stream; others on the connection are served.
    pub fn hang() -> Self {
        Self::of(Act::Hang)
    }

    /// Accepts connections and never sends a byte, not even SETTINGS.
    pub fn silent() -> Self {
        Self::of(Act::Silent)
    }

    /// Announces SETTINGS_MAX_CONCURRENT_STREAMS = 0: no stream may be opened.
    pub fn without_streams() -> Self {
        Self::of(Act::WithoutStreams)
    }

    /// Announces SETTINGS_INITIAL_WINDOW_SIZE = 0 and never opens the window: heads arrive, bodies
    /// do not. What arrives whole is answered 200.
    pub fn without_window() -> Self {
        Self::of(Act::WithoutWindow)
    }

    /// Closes (FIN) as soon as a client has connected, before SETTINGS.
    pub fn close_on_accept() -> Self {
        Self::of(Act::CloseOnAccept)
    }

    fn of(act: Act) -> Self {
        Self { delay: Duration::ZERO, act }
    }

    fn answering(mut self, change: impl FnOnce(&mut Answer)) -> Self {
        if let Act::Answer(answer) = &mut self.act {
            change(answer);
        }
        self
    }

    fn concerns_connection(&self) -> bool {
        match self.act {
            Act::Silent | Act::WithoutStreams | Act::WithoutWindow | Act::CloseOnAccept => true,
            Act::Answer(_) | Act::ResetStream(_) | Act::GoAway(..) | Act::Garbage | Act::Hang | Act::End(_) => false,
        }
    }
}

impl std::fmt::Debug for Answer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Answer").field("status", &self.status).field("end", &self.end).finish_non_exhaustive()
    }
}

// ===== one connection =====

async fn serve(socket: TcpStream, number: usize, shared: Arc<Shared>, script: Arc<Script<H2Fault>>) -> io::Result<()> {
    let wire = Wire::new(socket, Arc::clone(&shared));
    let mut builder = Builder::new();
    let mut script = script;
    match script.take_if(H2Fault::concerns_connection).map(|fault| fault.act) {
        Some(Act::Silent) => return wire.discard().await,
        Some(Act::CloseOnAccept) => return wire.close().await,
        Some(Act::WithoutStreams) => drop(builder.max_concurrent_streams(0)),
        Some(Act::WithoutWindow) => {
            builder.initial_window_size(0);
            script = Arc::new(Script::new([], H2Fault::status(200)));
        }
        Some(Act::Answer(_) | Act::ResetStream(_) | Act::GoAway(..) | Act::Garbage | Act::Hang | Act::End(_)) | None => {}
    }
    let mut connection = builder.handshake::<_, Bytes>(wire.clone()).await.map_err(io::Error::other)?;
    let mut streams: FuturesUnordered<BoxFuture<'static, Option<Ending>>> = FuturesUnordered::new();
    let ending = loop {
        tokio::select! {
            biased; // the connection first: it writes out what the streams have said before they say more
            accepted = connection.accept() => match accepted {
                Some(Ok((request, respond))) => {
                    let stream = Stream { fault: script.take(), respond, wire: wire.clone(), shared: Arc::clone(&shared), number };
                    streams.push(Box::pin(async { stream.serve(request).await.unwrap_or(None) }));
                }
                Some(Err(_)) | None => return Ok(()),
            },
            Some(ended) = streams.next(), if !streams.is_empty() => if let Some(ending) = ended {
                break ending;
            },
        }
    };
    // One more poll writes out what the last stream has answered.
    drop(connection.accept().now_or_never());
    drop((connection, streams));
    match ending {
        Ending::Fin => wire.close().await,
        Ending::Rst => wire.reset(),
    }
}

struct Stream {
    fault: H2Fault,
    respond: SendResponse<Bytes>,
    wire: Wire,
    shared: Arc<Shared>,
    number: usize,
}

impl Stream {
    /// Reads the request, plays the step, and says whether the connection ends with it.
    async fn serve(self, request: Request<RecvStream>) -> Result<Option<Ending>, ::h2::Error> {
        let (head, mut body) = request.into_parts();
        let place = self.shared.ledger.enter(Recorded {
            method: head.method,
            url: Url::parse(&head.uri.to_string()).unwrap_or_else(|_| self.shared.base.clone()),
            headers: head.headers,
            body: Vec::new(),
            raw: Vec::new(),
            extent: Extent::Partial,
            arrived: Instant::now(),
            connection: self.number,
        });
        while let Some(data) = body.data().await {
            let data = data?;
            body.flow_control().release_capacity(data.len())?;
            self.shared.ledger.extend(place, &[], &data, Extent::Partial);
        }
        self.shared.ledger.extend(place, &[], &[], Extent::Complete);
        if !self.fault.delay.is_zero() {
            tokio::time::sleep(self.fault.delay).await;
        }
        self.act().await
    }

    async fn act(mut self) -> Result<Option<Ending>, ::h2::Error> {
        match self.fault.act {
            Act::Answer(answer) => return answer.send(self.respond).await,
            Act::ResetStream(reason) => self.respond.send_reset(reason.code().into()),
            Act::GoAway(last, reason, words) => {
                let ours = self.respond.stream_id().as_u32();
                let (last, ending) = match last {
                    Last::BelowOurs => (ours.saturating_sub(2), None),
                    Last::Ours => (ours, Some(Ending::Fin)),
                };
                self.wire.inject(&go_away(last, reason, words)).await;
                if ending.is_some() {
                    return Ok(ending);
                }
                std::future::pending().await
            }
            Act::Garbage => {
                self.wire.inject(&frame(SETTINGS, &[0; 5])).await;
                std::future::pending().await
            }
            Act::End(ending) => return Ok(Some(ending)),
            Act::CloseOnAccept => return Ok(Some(Ending::Fin)),
            // The stream stays open as long as this future lives: to the end of the connection.
            Act::Hang | Act::Silent | Act::WithoutStreams | Act::WithoutWindow => std::future::pending().await,
        }
        Ok(None)
    }
}

impl Answer {
    async fn send(self, mut respond: SendResponse<Bytes>) -> Result<Option<Ending>, ::h2::Error> {
        let mut response = Response::new(());
        *response.status_mut() = self.status;
        *response.headers_mut() = self.headers;
        let whole = matches!(self.end, BodyEnd::Whole);
        if whole && self.body.is_empty() {
            respond.send_response(response, true)?;
            return Ok(None);
        }
        let mut stream = respond.send_response(response, false)?;
        stream.send_data(self.body, whole)?;
        match self.end {
            BodyEnd::Whole => Ok(None),
            BodyEnd::Connection(ending) => Ok(Some(ending)),
            BodyEnd::Stalls => std::future::pending().await,
            BodyEnd::Reset(reason) => {
                // A reset drops what is still queued: let the connection write the head first.
                tokio::task::yield_now().await;
                stream.send_reset(reason.code().into());
                Ok(None)
            }
        }
    }
}

// ===== frames (RFC 9113 §4.1) =====

const SETTINGS: u8 = 0x4;
const GOAWAY: u8 = 0x7;

/// A frame of the connection (stream 0) without flags.
fn frame(kind: u8, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).unwrap_or_default().to_be_bytes();
    let head = [length[1], length[2], length[3], kind, 0, 0, 0, 0, 0];
    [&head, payload].concat()
}

fn go_away(last: u32, reason: H2Reason, words: &str) -> Vec<u8> {
    frame(GOAWAY, &[&last.to_be_bytes(), &reason.code().to_be_bytes(), words.as_bytes()].concat())
}

// ===== the socket, shared by the protocol and by what goes beside it =====

#[derive(Clone)]
struct Wire {
    read: Arc<OwnedReadHalf>,
    write: Arc<OwnedWriteHalf>,
    shared: Arc<Shared>,
}

impl Wire {
    fn new(socket: TcpStream, shared: Arc<Shared>) -> Self {
        let (read, write) = socket.into_split();
        Self { read: Arc::new(read), write: Arc::new(write), shared }
    }

    /// Writes a frame beside the protocol, which has nothing half written: its frames are small and
    /// the socket takes them whole.
    async fn inject(&self, frame: &[u8]) {
        // A client that has left needs no frame.
        if self.write.writable().await.is_ok() {
            drop(self.write.try_write(frame));
        }
    }

    /// Closes in good order: no more is sent, and what still comes is thrown away until the client
    /// leaves.
    async fn close(self) -> io::Result<()> {
        let Self { read, write, shared } = self;
        drop(write); // the last write half ends the stream (FIN)
        discard(&read, &shared).await
    }

    fn reset(self) -> io::Result<()> {
        reset_when_dropped((*self.read).as_ref())
    }

    async fn discard(&self) -> io::Result<()> {
        discard(&self.read, &self.shared).await
    }
}

async fn discard(read: &OwnedReadHalf, shared: &Shared) -> io::Result<()> {
    let mut thrown_away = [0; 4096];
    loop {
        read.readable().await?;
        match read.try_read(&mut thrown_away) {
            Ok(0) => return Ok(()),
            Ok(length) => shared.ledger.write(|seen| seen.bytes += length as u64),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(error) => return Err(error),
        }
    }
}

impl AsyncRead for Wire {
    fn poll_read(self: Pin<&mut Self>, context: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let tcp: &TcpStream = (*self.read).as_ref();
        loop {
            ready!(tcp.poll_read_ready(context))?;
            match tcp.try_read(buffer.initialize_unfilled()) {
                Ok(length) => {
                    buffer.advance(length);
                    self.shared.ledger.write(|seen| seen.bytes += length as u64);
                    return Poll::Ready(Ok(()));
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => return Poll::Ready(Err(error)),
            }
        }
    }
}

impl AsyncWrite for Wire {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let tcp: &TcpStream = (*self.write).as_ref();
        loop {
            ready!(tcp.poll_write_ready(context))?;
            match tcp.try_write(bytes) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                written => return Poll::Ready(written),
            }
        }
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        // Which end the connection meets is the script's to say.
        Poll::Ready(Ok(()))
    }
}
