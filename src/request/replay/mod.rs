//! Factories for what cannot be cloned: bodies that are streams, and requests whose headers belong
//! to their body.
//!
//! A stream can be read once. An operation that may have to send it again needs to be told how to
//! make it anew; without that, it is sent once, as it would be without this crate. A factory never
//! changes *which* operation is sent: method and URL stay, and so does the idempotency key.

#[cfg_attr(target_arch = "wasm32", path = "fetch_length.rs")]
mod length;

use std::{collections::HashSet, error::Error as StdError, fmt, io, sync::Arc};

use http::header::{HeaderName, TRAILER, TRANSFER_ENCODING};
use reqwest::{Body, Request};

type BoxError = Box<dyn StdError + Send + Sync>;

/// Makes the body of a request anew for every attempt: for files and other streams, which cannot be
/// sent twice.
///
/// A request extension. It supplies every attempt when the request has no body of its own, and the
/// later ones when it has. Headers stay as the request has them; where they depend on the body, as
/// the boundary of a multipart form does, use [`ReplayRequest`].
///
/// The bodies must be equal: under an idempotency key, a server may refuse different content.
///
/// # Errors
/// A factory that fails ends the operation: nothing is sent, and the error says whether anything
/// was sent before.
///
/// # Examples
/// ```no_run
/// use reqwest_safe_retry::ReplayBody;
///
/// # fn export() -> std::io::Result<ReplayBody> {
/// let length = std::fs::metadata("export.csv")?.len();
/// let body = ReplayBody::from_fn(|| {
///     let file = std::fs::File::open("export.csv")?;
///     Ok(tokio::fs::File::from_std(file).into())
/// });
/// # Ok(
/// body.with_length(length)
/// # )
/// # }
/// ```
#[derive(Clone)]
#[must_use]
#[doc(alias = "stream")]
pub struct ReplayBody {
    make: Arc<dyn Fn() -> io::Result<Body> + Send + Sync>,
    length: Option<u64>,
}

impl ReplayBody {
    /// A factory that is asked before each attempt that it supplies. It runs inside the task that
    /// sends: it may open a file, but not wait for long.
    pub fn from_fn(make: impl Fn() -> io::Result<Body> + Send + Sync + 'static) -> Self {
        Self { make: Arc::new(make), length: None }
    }

    /// States the length of every body in bytes, so that it is sent with `content-length` instead
    /// of in chunks. Bodies that know their length, as those made of bytes do, need no statement.
    ///
    /// # Errors
    /// A body of another length fails its attempt before the server has a complete request.
    pub fn with_length(self, bytes: u64) -> Self {
        Self { length: Some(bytes), ..self }
    }

    /// The body of the next attempt.
    pub(crate) fn make(&self) -> Result<Body, ReplayError> {
        let body = (self.make)().map_err(ReplayError::from_factory)?;
        match self.length {
            Some(stated) => length::held_to(stated, body).map_err(ReplayError::from_factory),
            None => Ok(body),
        }
    }
}

/// Shows no content, only the stated length.
impl fmt::Debug for ReplayBody {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ReplayBody").field("length", &self.length).finish_non_exhaustive()
    }
}

/// Makes the whole request anew for every attempt: for multipart forms, whose boundary stands in a
/// header and differs from form to form.
///
/// A request extension. It supplies every attempt when the request has no body of its own, and the
/// later ones when it has. What is made must be the same operation, so method and URL have to be
/// equal. From it come the body and the headers: each replaces the request's own of that name, and
/// a `content-*` header that it does not have is taken away. All others stay, the idempotency key
/// in any case.
///
/// # Errors
/// A factory that fails, that makes a request without a body, or one for another method or URL ends
/// the operation: nothing is sent, and the error says whether anything was sent before.
///
/// # Examples
/// ```
/// use reqwest::multipart::{Form, Part};
/// use reqwest_safe_retry::ReplayRequest;
///
/// # let client = reqwest::Client::new();
/// # let scan = vec![0_u8];
/// let upload = ReplayRequest::from_fn(move || {
///     let form = Form::new().text("kind", "invoice").part("scan", Part::bytes(scan.clone()));
///     client.post("https://api.example/documents").multipart(form).build()
/// });
/// ```
#[derive(Clone)]
#[must_use]
#[doc(alias = "multipart")]
pub struct ReplayRequest {
    make: Arc<dyn Fn() -> Result<Request, BoxError> + Send + Sync>,
}

impl ReplayRequest {
    /// A factory that is asked before each attempt that it supplies. It runs inside the task that
    /// sends: it may open a file, but not wait for long.
    pub fn from_fn<E: Into<BoxError>>(make: impl Fn() -> Result<Request, E> + Send + Sync + 'static) -> Self {
        Self { make: Arc::new(move || make().map_err(Into::into)) }
    }

    /// Fills an attempt, which is a clone of the operation's request without its body. The headers
    /// named in `kept` stay whatever the factory says: the key, and what else has to be the same on
    /// every attempt.
    pub(crate) fn fill(&self, mut attempt: Request, kept: &[HeaderName]) -> Result<Request, ReplayError> {
        let mut made = (self.make)().map_err(ReplayError::from_factory)?;
        if made.method() != attempt.method() || made.url() != attempt.url() {
            return Err(ReplayError::OtherOperation);
        }
        *attempt.body_mut() = Some(made.body_mut().take().ok_or(ReplayError::WithoutBody)?);
        let is_replaced = |name: &HeaderName| !kept.contains(name) && (describes_body(name) || made.headers().contains_key(name));
        let replaced: HashSet<_> = attempt.headers().keys().filter(|name| is_replaced(name)).cloned().collect();
        let headers = attempt.headers_mut();
        for name in replaced {
            headers.remove(name);
        }
        for (name, value) in made.headers() {
            if !kept.contains(name) {
                headers.append(name, value.clone());
            }
        }
        Ok(attempt)
    }
}

/// Shows no content.
impl fmt::Debug for ReplayRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ReplayRequest").finish_non_exhaustive()
    }
}

/// RFC 9110 §8 and §6.6.2: what is said about one body is wrong about another.
fn describes_body(name: &HeaderName) -> bool {
    name.as_str().starts_with("content-") || *name == TRANSFER_ENCODING || *name == TRAILER
}

/// Clones everything of the request but its body, which stays where it is: also what only `reqwest`
/// can see, as a timeout.
pub(crate) fn clone_without_body(request: &mut Request) -> Request {
    let body = request.body_mut().take();
    // Only a body can keep a request from being cloned; should that change, the visible parts are
    // what an attempt needs.
    let clone = request.try_clone().unwrap_or_else(|| {
        let mut clone = Request::new(request.method().clone(), request.url().clone());
        *clone.headers_mut() = request.headers().clone();
        #[cfg(not(target_arch = "wasm32"))] // the browser chooses it
        {
            *clone.version_mut() = request.version();
        }
        clone
    });
    *request.body_mut() = body;
    clone
}

/// Why a factory could not supply an attempt. Nothing of that attempt was sent.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ReplayError {
    #[error("the replay factory failed")]
    Factory(#[source] BoxError),
    #[error("the replay factory made a request for another method or URL")]
    OtherOperation,
    #[error("the replay factory made a request without a body")]
    WithoutBody,
    #[error("the replay factory made other content than was sent under the key")]
    OtherContent,
    #[error("the body was a stream, and it is spent")]
    Spent,
}

impl ReplayError {
    /// Keeps the factory's own error, but not the URL that `reqwest` prints with its errors.
    fn from_factory(error: impl Into<BoxError>) -> Self {
        Self::Factory(without_url(error.into()))
    }
}

/// Takes the URL off a transport's error, also inside of what the factories' signatures make of it.
fn without_url(error: BoxError) -> BoxError {
    let error = match error.downcast::<reqwest::Error>() {
        Ok(error) => return Box::new(error.without_url()),
        Err(error) => error,
    };
    let error = match error.downcast::<reqwest_middleware::Error>() {
        Ok(error) => return Box::new(error.without_url()),
        Err(error) => error,
    };
    match error.downcast::<io::Error>() {
        Ok(error) => {
            let kind = error.kind();
            // What the system said has no error inside, and stays as it is.
            if error.get_ref().is_none() {
                return error;
            }
            error.into_inner().map_or_else(|| io::Error::from(kind).into(), |inner| io::Error::new(kind, without_url(inner)).into())
        }
        Err(error) => error,
    }
}

#[cfg(test)]
mod tests;
