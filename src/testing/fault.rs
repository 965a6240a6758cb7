//! What a server does to one request, as a value.

use std::time::{Duration, SystemTime};

use bytes::Bytes;
use http::{HeaderMap, Method, StatusCode};

use super::spelled;

/// One act of a server on one connection; a [`Fault`] is a list of them.
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Act {
    /// Waits until the client has begun to send, and reads nothing.
    AwaitFirstByte,
    /// Reads the head of the request.
    ReadHead,
    /// Reads the head and at least this many bytes of the body (fewer, if it is shorter).
    ReadBody(usize),
    /// Reads the whole request.
    ReadRequest,
    /// Sends these bytes in one write.
    Send(Bytes),
    /// Sends these bytes again and again with a pause before each, until the client leaves.
    Trickle(Bytes, Duration),
    /// Does nothing for this long.
    Pause(Duration),
    /// Closes in good order (FIN). What the client still sends is thrown away, so that no reset
    /// follows.
    Close,
    /// Closes with a reset (RST).
    Reset,
    /// Sends nothing more; throws away what comes until the client leaves.
    Hang,
    /// Neither sends nor reads any more.
    Freeze,
}

impl Act {
    /// Whether it waits for something of the request.
    fn reads(&self) -> bool {
        match self {
            Self::AwaitFirstByte | Self::ReadHead | Self::ReadBody(_) | Self::ReadRequest => true,
            Self::Send(_) | Self::Trickle(..) | Self::Pause(_) | Self::Close | Self::Reset | Self::Hang | Self::Freeze => false,
        }
    }
}

impl std::fmt::Display for Act {
    /// What a server does then, for a person who watches; of what is sent only the length.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::AwaitFirstByte => f.write_str("waits for the first byte"),
            Self::ReadHead => f.write_str("reads the head"),
            Self::ReadBody(bytes) => write!(f, "reads the head and {bytes} B of the body"),
            Self::ReadRequest => f.write_str("reads the request"),
            Self::Send(bytes) => write!(f, "sends {} B", bytes.len()),
            Self::Trickle(bytes, pause) => write!(f, "sends {} B every {pause:?}", bytes.len()),
            Self::Pause(time) => write!(f, "waits {time:?}"),
            Self::Close => f.write_str("closes the connection"),
            Self::Reset => f.write_str("resets the connection"),
            Self::Hang => f.write_str("falls silent"),
            Self::Freeze => f.write_str("freezes"),
        }
    }
}

impl std::fmt::Debug for Act {
    /// Of what is sent only the length.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::AwaitFirstByte => f.write_str("AwaitFirstByte"),
            Self::ReadHead => f.write_str("ReadHead"),
            Self::ReadBody(bytes) => write!(f, "ReadBody({bytes})"),
            Self::ReadRequest => f.write_str("ReadRequest"),
            Self::Send(bytes) => write!(f, "Send({} B)", bytes.len()),
            Self::Trickle(bytes, pause) => write!(f, "Trickle({} B, {pause:?})", bytes.len()),
            Self::Pause(time) => write!(f, "Pause({time:?})"),
            Self::Close => f.write_str("Close"),
            Self::Reset => f.write_str("Reset"),
            Self::Hang => f.write_str("Hang"),
            Self::Freeze => f.write_str("Freeze"),
        }
    }
}

/// What a server does to one request.
///
/// Ready-made faults are lists of [`Act`]s; [`Fault::script`] takes your own.
///
/// # Examples
/// ```
/// use reqwest_safe_retry::testing::{Act, Fault};
/// use std::time::Duration;
///
/// let overloaded = Fault::status(503).with_retry_after(2);
/// let lost_answer = Fault::close_after_request(); // it has it all, the client learns nothing
/// let slow_body = Fault::ok("hello").with_body_after(Duration::from_millis(3));
/// let half_a_head = Act::Send("HTTP/1.1 200 OK\r\nconte".into());
/// let by_hand = Fault::script([Act::ReadRequest, half_a_head, Act::Reset]);
/// # let _ = (overloaded, lost_answer, slow_body, by_hand);
/// ```
///
/// ```
/// use reqwest_safe_retry::testing::Fault;
/// use std::time::Duration;
///
/// // Where a connection can break, from its beginning to its end.
/// let faults = [
///     Fault::close_on_accept(),
///     Fault::reset_on_accept(),
///     Fault::banner(),
///     Fault::never_read(),
///     Fault::close_before_reading(),
///     Fault::reset_before_reading(),
///     Fault::close_mid_request(100),
///     Fault::reset_mid_request(100),
///     Fault::reset_after_request(),
///     Fault::partial_head(),
///     Fault::malformed(),
///     Fault::ok("half").chunked().with_body_cut_at(2),
///     Fault::ok("half").with_body_reset_at(2),
///     Fault::ok("half").with_body_stalled_at(2),
///     Fault::trickle(200, Duration::from_millis(10)),
///     Fault::ok("whole").with_interim(103).then_closes(),
///     Fault::ok("whole").then_resets(),
/// ];
/// # let _ = faults;
/// ```
#[derive(Clone)]
#[must_use]
pub struct Fault {
    before: Vec<Act>,
    answer: Option<Answer>,
    after: Vec<Act>,
}

impl Fault {
    // ===== answers =====

    /// Reads the request and answers 200 with this body.
    pub fn ok(body: impl Into<Bytes>) -> Self {
        Self::status(200).with_body(body)
    }

    /// Reads the request and answers with this status and an empty body, then keeps the connection.
    ///
    /// # Panics
    /// Panics if the code is not a status (100 to 999).
    #[track_caller]
    pub fn status(code: u16) -> Self {
        let status = spelled::status(code);
        Self { before: vec![Act::ReadRequest], answer: Some(Answer::new(status)), after: Vec::new() }
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

    /// Adds `Retry-After` in seconds to the answer ([RFC 9110 §10.2.3]).
    ///
    /// [RFC 9110 §10.2.3]: https://www.rfc-editor.org/rfc/rfc9110#section-10.2.3
    pub fn with_retry_after(self, seconds: u64) -> Self {
        self.with_header("retry-after", &seconds.to_string())
    }

    /// Adds `Retry-After` as a date to the answer, which is rounded up to a whole second ([RFC 9110
    /// §10.2.3]).
    ///
    /// ```
    /// use reqwest_safe_retry::testing::Fault;
    /// use std::time::{Duration, SystemTime};
    ///
    /// let later = SystemTime::now() + Duration::from_secs(2);
    /// let overloaded = Fault::status(503).with_retry_after_at(later);
    /// # let _ = overloaded;
    /// ```
    ///
    /// [RFC 9110 §10.2.3]: https://www.rfc-editor.org/rfc/rfc9110#section-10.2.3
    pub fn with_retry_after_at(self, time: SystemTime) -> Self {
        self.with_header("retry-after", &spelled::date(time))
    }

    /// Replaces the answer's body.
    pub fn with_body(self, body: impl Into<Bytes>) -> Self {
        let body = body.into();
        self.answering(|answer| answer.body = body)
    }

    /// Sends the body in chunks ([RFC 9112 §7.1]) instead of announcing its length.
    ///
    /// [RFC 9112 §7.1]: https://www.rfc-editor.org/rfc/rfc9112#section-7.1
    pub fn chunked(self) -> Self {
        self.answering(|answer| answer.framing = Framing::Chunked)
    }

    /// Sends the body this long after the head, not in the same write.
    pub fn with_body_after(self, delay: Duration) -> Self {
        self.answering(|answer| answer.body_after = Some(delay))
    }

    /// Waits this long after it has read what it reads, before it answers or closes.
    pub fn after(mut self, delay: Duration) -> Self {
        self.before.push(Act::Pause(delay));
        self
    }

    /// Sends an interim answer (1xx, [RFC 9110 §15.2]) before the final one.
    ///
    /// # Panics
    /// Panics if the code is not 100 to 199.
    ///
    /// [RFC 9110 §15.2]: https://www.rfc-editor.org/rfc/rfc9110#section-15.2
    #[track_caller]
    pub fn with_interim(mut self, code: u16) -> Self {
        let interim = StatusCode::from_u16(code).ok().filter(StatusCode::is_informational);
        let Some(status) = interim else { panic!("{code} is not an interim status") };
        self.before.push(Act::Send(status_line(status).into()));
        self
    }

    /// Answers as soon as the head of the request has arrived, in the middle of an upload, then
    /// closes.
    pub fn early(mut self) -> Self {
        for act in &mut self.before {
            if *act == Act::ReadRequest {
                *act = Act::ReadHead;
            }
        }
        self.then_closes()
    }

    /// Cuts the answer's body after so many bytes, in good order (FIN).
    pub fn with_body_cut_at(self, bytes: usize) -> Self {
        self.with_partial_body(bytes, Act::Close)
    }

    /// Cuts the answer's body after so many bytes with a reset (RST).
    pub fn with_body_reset_at(self, bytes: usize) -> Self {
        self.with_partial_body(bytes, Act::Reset)
    }

    /// Stops sending after so many bytes of the body and keeps the connection open.
    pub fn with_body_stalled_at(self, bytes: usize) -> Self {
        self.with_partial_body(bytes, Act::Hang)
    }

    /// Answers with this status and a chunked body that never ends: one byte each time the pause
    /// has passed.
    ///
    /// # Panics
    /// Panics if the code is not a status (100 to 999).
    #[track_caller]
    pub fn trickle(code: u16, pause: Duration) -> Self {
        let mut fault = Self::status(code).chunked().with_partial_body(0, Act::Trickle(Bytes::from_static(b"1\r\n.\r\n"), pause));
        if let Some(answer) = &mut fault.answer {
            answer.body = Bytes::from_static(b".");
        }
        fault
    }

    /// Closes the connection after the answer (FIN) without announcing it, as a server with a short
    /// idle limit does.
    pub fn then_closes(self) -> Self {
        self.ending(Act::Close)
    }

    /// Resets the connection after the answer.
    pub fn then_resets(self) -> Self {
        self.ending(Act::Reset)
    }

    // ===== no answer =====

    /// Plays exactly these acts. If they end without a close, the rest of the request is read and
    /// the next one on the connection meets the next step.
    pub fn script(acts: impl IntoIterator<Item = Act>) -> Self {
        let mut acts: Vec<_> = acts.into_iter().collect();
        let reads = acts.iter().take_while(|act| act.reads()).count();
        let after = acts.split_off(reads);
        Self { before: acts, answer: None, after }
    }

    /// Closes (FIN) as soon as a client has connected.
    pub fn close_on_accept() -> Self {
        Self::script([Act::Close])
    }

    /// Resets as soon as a client has connected.
    pub fn reset_on_accept() -> Self {
        Self::script([Act::Reset])
    }

    /// Closes (FIN) when the request begins to arrive, without having read any of it.
    pub fn close_before_reading() -> Self {
        Self::script([Act::AwaitFirstByte, Act::Close])
    }

    /// Resets when the request begins to arrive, without having read any of it.
    pub fn reset_before_reading() -> Self {
        Self::script([Act::AwaitFirstByte, Act::Reset])
    }

    /// Closes (FIN) after it has read the head and at least so many bytes of the body.
    pub fn close_mid_request(bytes: usize) -> Self {
        Self::script([Act::ReadBody(bytes), Act::Close])
    }

    /// Resets after it has read the head and at least so many bytes of the body.
    pub fn reset_mid_request(bytes: usize) -> Self {
        Self::script([Act::ReadBody(bytes), Act::Reset])
    }

    /// Reads the whole request, then closes (FIN) without a byte: the work may be done, the answer
    /// is lost.
    pub fn close_after_request() -> Self {
        Self::script([Act::ReadRequest, Act::Close])
    }

    /// Reads the whole request, then resets.
    pub fn reset_after_request() -> Self {
        Self::script([Act::ReadRequest, Act::Reset])
    }

    /// Reads the whole request and never answers.
    pub fn hang() -> Self {
        Self::script([Act::ReadRequest, Act::Hang])
    }

    /// Accepts the connection and never reads from it.
    pub fn never_read() -> Self {
        Self::script([Act::Freeze])
    }

    /// Sends the beginning of a head after the request, then closes (FIN).
    pub fn partial_head() -> Self {
        Self::script([Act::ReadRequest, Act::Send(Bytes::from_static(b"HTTP/1.1 200 OK\r\ncontent-le")), Act::Close])
    }

    /// Answers with something that is not HTTP, then closes (FIN).
    pub fn malformed() -> Self {
        Self::script([Act::ReadRequest, Act::Send(Bytes::from_static(b"this is not HTTP\r\n\r\n")), Act::Close])
    }

    /// Talks before the client does, as a mail server would, then waits.
    pub fn banner() -> Self {
        Self::script([Act::Send(Bytes::from_static(b"220 mail.test ESMTP\r\n")), Act::Hang])
    }

    // ===== how it is played =====

    /// Whether it begins before the client has sent anything.
    pub(super) fn acts_on_accept(&self) -> bool {
        self.before.iter().chain(&self.after).next().is_some_and(|act| !act.reads())
    }

    pub(super) fn before(&self) -> &[Act] {
        &self.before
    }

    /// The acts of the answer and what follows it; the answer to a HEAD has no body.
    pub(super) fn answer_to(&self, method: Option<&Method>) -> Vec<Act> {
        let mut acts = self.answer.as_ref().map(|answer| answer.acts(method)).unwrap_or_default();
        acts.extend_from_slice(&self.after);
        acts
    }

    fn answering(mut self, change: impl FnOnce(&mut Answer)) -> Self {
        if let Some(answer) = &mut self.answer {
            change(answer);
        }
        self
    }

    fn ending(self, act: Act) -> Self {
        Self { after: vec![act], ..self }
    }

    fn with_partial_body(self, bytes: usize, then: Act) -> Self {
        self.answering(|answer| answer.sent_of_body = bytes).ending(then)
    }
}

impl std::fmt::Display for Fault {
    /// For a person who watches: one act after another, without what the answer holds.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let acts = |acts: &[Act]| acts.iter().map(Act::to_string).collect::<Vec<_>>();
        let answer = self.answer.as_ref().map(Answer::in_words).into_iter();
        let words: Vec<String> = acts(&self.before).into_iter().chain(answer).chain(acts(&self.after)).collect();
        f.write_str(&words.join(", "))
    }
}

impl std::fmt::Debug for Fault {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let status = self.answer.as_ref().map(|answer| answer.status);
        f.debug_struct("Fault").field("before", &self.before).field("status", &status).field("after", &self.after).finish()
    }
}

#[derive(Clone)]
struct Answer {
    status: StatusCode,
    headers: HeaderMap,
    body: Bytes,
    framing: Framing,
    body_after: Option<Duration>,
    sent_of_body: usize,
}

#[derive(Clone, Copy)]
enum Framing {
    Length,
    Chunked,
}

impl Answer {
    fn new(status: StatusCode) -> Self {
        Self { status, headers: HeaderMap::new(), body: Bytes::new(), framing: Framing::Length, body_after: None, sent_of_body: usize::MAX }
    }

    fn in_words(&self) -> String {
        let mut words = format!("answers {}", self.status.as_u16());
        if let Some(wait) = self.headers.get(http::header::RETRY_AFTER).and_then(|wait| wait.to_str().ok()) {
            words += &format!(" with retry-after {wait}");
        }
        if let Some(delay) = self.body_after {
            words += &format!(", waits {delay:?} before the body");
        }
        if self.sent_of_body < self.body.len() {
            words += &format!(", ends the body after {} of {} B", self.sent_of_body, self.body.len());
        }
        words
    }

    fn acts(&self, method: Option<&Method>) -> Vec<Act> {
        let (mut head, body) = (self.head(), self.framed_body(method));
        match self.body_after {
            Some(delay) if !body.is_empty() => vec![Act::Send(head.into()), Act::Pause(delay), Act::Send(body.into())],
            Some(_) | None => {
                head.extend_from_slice(&body);
                vec![Act::Send(head.into())]
            }
        }
    }

    fn head(&self) -> Vec<u8> {
        let mut head = status_line(self.status);
        head.truncate(head.len() - 2); // the empty line comes after the headers
        for (name, value) in &self.headers {
            for part in [name.as_str().as_bytes(), b": ", value.as_bytes(), b"\r\n"] {
                head.extend_from_slice(part);
            }
        }
        if !self.has_no_body() {
            match self.framing {
                Framing::Length if self.headers.contains_key(http::header::CONTENT_LENGTH) => {}
                Framing::Length => head.extend_from_slice(format!("content-length: {}\r\n", self.body.len()).as_bytes()),
                Framing::Chunked => head.extend_from_slice(b"transfer-encoding: chunked\r\n"),
            }
        }
        head.extend_from_slice(b"\r\n");
        head
    }

    fn framed_body(&self, method: Option<&Method>) -> Vec<u8> {
        if self.has_no_body() || method == Some(&Method::HEAD) {
            return Vec::new();
        }
        let sent = self.sent_of_body.min(self.body.len());
        match self.framing {
            Framing::Length => self.body[..sent].to_vec(),
            Framing::Chunked => self.chunks(sent),
        }
    }

    /// The body as one chunk, or the beginning of it.
    fn chunks(&self, sent: usize) -> Vec<u8> {
        let mut chunks = Vec::new();
        if sent > 0 {
            chunks.extend_from_slice(format!("{:x}\r\n", self.body.len()).as_bytes());
            chunks.extend_from_slice(&self.body[..sent]);
        }
        if sent == self.body.len() {
            chunks.extend_from_slice(if sent > 0 { b"\r\n0\r\n\r\n" } else { b"0\r\n\r\n" });
        }
        chunks
    }

    /// RFC 9110 §6.4.1: these statuses never have a body.
    fn has_no_body(&self) -> bool {
        self.status.is_informational() || self.status == StatusCode::NO_CONTENT || self.status == StatusCode::NOT_MODIFIED
    }
}

fn status_line(status: StatusCode) -> Vec<u8> {
    format!("HTTP/1.1 {} {}\r\n\r\n", status.as_str(), status.canonical_reason().unwrap_or_default()).into_bytes()
}
