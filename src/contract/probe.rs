//! Asking the server what became of a write, instead of sending it again.
//!
//! Without a key this is the only way to learn how an unknown write ended (RFC 9110 §9.2.2). What
//! to ask is the user's knowledge, a [`StatusProbe`]; this module gives it the operation and a way
//! to the server, and knows neither when it is asked nor what follows.

use std::{fmt, time::Duration};

use async_trait::async_trait;
use http::{Extensions, HeaderMap, HeaderName, HeaderValue, Method, header};
use reqwest::{Request, Response, Url};
use reqwest_middleware::Next;

use crate::{
    contract::hints::HintSources,
    outcome::report::AttemptRecord,
    platform::{Instant, wall_clock},
    policy::{IdempotencyKey, InvalidHint},
    proof::witness,
    request::deadline::Deadline,
    request::key_fields,
    request::method_override,
    request::{
        origin::{self, Origin},
        shown,
    },
    response::body,
};

/// Finds out what became of an operation whose result is unknown ([RFC 9110 §9.2.2] names this way
/// to make a repeat safe).
///
/// [`StatusUrl`](crate::StatusUrl) is the common one. In a browser, where futures are not `Send`,
/// implementations are written with `#[async_trait(?Send)]`.
///
/// # Cancellation
/// The probe is dropped when the operation's time is up; that counts as
/// [`ProbeVerdict::Undecided`].
///
/// # Examples
/// ```
/// use reqwest_safe_retry::{Endpoint, Operation, ProbeVerdict, StatusProbe, async_trait};
///
/// /// Asks the list of orders for ours.
/// struct OrderList;
///
/// #[async_trait]
/// impl StatusProbe for OrderList {
///     async fn look_up(&self, operation: &Operation<'_>) -> ProbeVerdict {
///         let Ok(orders) = operation.url().join("/orders?reference=2041") else {
///             return ProbeVerdict::Undecided;
///         };
///         match operation.send(operation.get(orders)).await {
///             Ok(answer) if answer.status() == 200 => ProbeVerdict::Applied(answer),
///             Ok(answer) if answer.status() == 404 => ProbeVerdict::Absent,
///             _ => ProbeVerdict::Undecided,
///         }
///     }
/// }
///
/// let endpoint = Endpoint::probed_write(OrderList);
/// ```
///
/// [RFC 9110 §9.2.2]: https://www.rfc-editor.org/rfc/rfc9110#section-9.2.2
#[cfg_attr(not(target_arch = "wasm32"), async_trait)]
#[cfg_attr(target_arch = "wasm32", async_trait(?Send))]
#[doc(alias("reconcile", "status check"))]
pub trait StatusProbe: Send + Sync + 'static {
    /// Asks about the operation. Use [`Operation::get`] and [`Operation::send`] to go through the
    /// client's inner middlewares with the operation's credentials and time left.
    async fn look_up(&self, operation: &Operation<'_>) -> ProbeVerdict;
}

/// What a probe found.
#[non_exhaustive]
pub enum ProbeVerdict {
    /// The operation was processed, also when it was declined. The response becomes the operation's
    /// answer.
    Applied(Response),
    /// There is no trace of it. Counts only once the endpoint has settled; earlier it is read as
    /// [`InProgress`](Self::InProgress).
    Absent,
    /// It is being processed: ask again.
    InProgress,
    /// It is being processed, and the server asked to wait this long before the next question: a
    /// hint like any other, which is never shortened and holds for others of a shared cool-down.
    InProgressFor(Duration),
    /// The probe could not tell, or failed. The operation ends as unknown; a second write is never
    /// sent.
    Undecided,
}

/// The operation a probe is asked about.
pub struct Operation<'a> {
    pub(crate) request: &'a Request,
    pub(crate) extensions: &'a Extensions,
    pub(crate) key: Option<&'a IdempotencyKey>,
    pub(crate) key_headers: &'a [HeaderName],
    pub(crate) attempts: &'a [AttemptRecord],
    pub(crate) deadline: Deadline,
    pub(crate) hints: HintSources,
    /// When the last attempt ended.
    pub(crate) last_ended: Instant,
    pub(crate) next: Next<'a>,
}

impl Operation<'_> {
    /// The operation's method.
    #[must_use]
    pub fn method(&self) -> &Method {
        self.request.method()
    }

    /// The operation's URL.
    #[must_use]
    pub fn url(&self) -> &Url {
        self.request.url()
    }

    /// The operation's headers as they were sent, the key's included.
    #[must_use]
    pub fn headers(&self) -> &HeaderMap {
        self.request.headers()
    }

    /// The operation's body, unless it was a stream.
    #[must_use]
    pub fn body(&self) -> Option<&[u8]> {
        self.request.body().and_then(reqwest::Body::as_bytes)
    }

    /// The operation's request extensions.
    #[must_use]
    pub fn extensions(&self) -> &Extensions {
        self.extensions
    }

    /// The idempotency key the operation was sent with.
    #[must_use]
    pub fn key(&self) -> Option<&IdempotencyKey> {
        self.key
    }

    /// The attempts so far.
    #[must_use]
    pub fn attempts(&self) -> &[AttemptRecord] {
        self.attempts
    }

    /// The time the probe has; [`Duration::MAX`] when there is no deadline.
    #[must_use]
    pub fn time_left(&self) -> Duration {
        self.deadline.time_left()
    }

    /// A GET to a status URL. At the operation's own origin it carries the operation's credentials:
    /// all its headers but those that describe the body, make it conditional, override the method
    /// or carry a key. To any other origin it carries none. It asks past every cache
    /// (`Cache-Control: no-cache`), unless the operation has a directive of its own.
    #[must_use]
    pub fn get(&self, url: Url) -> Request {
        let mut request = Request::new(Method::GET, url);
        if origin::is_same(request.url(), self.request.url()) {
            for (name, value) in self.request.headers() {
                if !describes_the_write(name) && !self.key_headers.contains(name) {
                    request.headers_mut().append(name, value.clone());
                }
            }
        }
        request.headers_mut().entry(header::CACHE_CONTROL).or_insert(HeaderValue::from_static("no-cache"));
        request
    }

    /// Whether an answer may be older than the end of the last attempt, as one out of a cache may
    /// be: it proves nothing, neither that the operation is absent nor that it was applied.
    #[must_use]
    pub fn is_stale(&self, answer: &Response) -> bool {
        let ages = answer.headers().get_all(header::AGE).iter();
        let seconds = |age: &HeaderValue| age.to_str().ok().and_then(|age| age.trim().parse::<u64>().ok());
        // Ages are rounded down; what cannot be read is old.
        let oldest = ages.map(|age| seconds(age).map_or(Duration::MAX, |age| Duration::from_secs(age.saturating_add(1)))).max();
        oldest.is_some_and(|oldest| oldest > self.last_ended.elapsed())
    }

    /// The wait that an answer asks for, as the operation's own answers are read.
    ///
    /// # Errors
    /// [`InvalidHint`]: it asks for one, but not readably.
    #[must_use]
    pub fn wait(&self, answer: &Response) -> Option<Result<Duration, InvalidHint>> {
        self.hints.wait(answer.headers(), wall_clock())
    }

    /// Sends through the client's inner middlewares (signers, tracing), within the probe's time
    /// left, body included.
    ///
    /// # Errors
    /// The client's, and [`RetryError::DeadlineExceeded`](crate::RetryError) is *not* among them:
    /// when time is up, the probe is dropped.
    pub async fn send(&self, request: Request) -> reqwest_middleware::Result<Response> {
        #[cfg(target_arch = "wasm32")] // a body gets its deadline before it is sent for, or never
        let request = body::limit(request, self.deadline);
        let mut extensions = witness::inside();
        let response = self.next.clone().run(request, &mut extensions).await?;
        Ok(body::bounded(response, self.deadline))
    }
}

impl fmt::Debug for Operation<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Operation")
            .field("method", &shown::method(self.method()))
            .field("origin", &Origin::of(self.url()))
            .field("attempts", &self.attempts.len())
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for ProbeVerdict {
    /// Of a response only the status: its own `Debug` would show URL and headers.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Applied(response) => write!(f, "Applied({})", response.status().as_u16()),
            Self::Absent => f.write_str("Absent"),
            Self::InProgress => f.write_str("InProgress"),
            Self::InProgressFor(wait) => write!(f, "InProgressFor({wait:?})"),
            Self::Undecided => f.write_str("Undecided"),
        }
    }
}

/// Headers that belong to the write itself and would be wrong on a question about it.
fn describes_the_write(name: &HeaderName) -> bool {
    *name == header::TRANSFER_ENCODING
        || *name == header::EXPECT
        || *name == header::RANGE
        || *name == header::HOST
        || method_override::is_one(name)
        || key_fields::is_one(name)
        || name.as_str().starts_with("content-")
        || name.as_str().starts_with("if-")
}
