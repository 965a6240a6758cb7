//! What came of reading the body of an answer inside its attempt.

use bytes::Bytes;
use http::{HeaderMap, response::Parts};
use reqwest::Response;

/// What came of reading a body inside the attempt.
#[derive(Debug)]
pub(crate) enum Read {
    /// The whole body arrived. The response carries it as if it were still to be read; it needs no
    /// deadline any more.
    Whole { response: Response, whole: Whole },
    /// The body is longer than may be held: the response is as it came, nothing of its body is
    /// lost, and it is still being received.
    TooLong(Response),
    /// The body was cut, or did not arrive in time.
    Lost(LostBody),
}

/// A body that was read, and what followed it.
#[derive(Debug)]
pub(crate) struct Whole {
    pub(crate) body: Bytes,
    pub(crate) trailers: Option<HeaderMap>,
}

/// The head of an answer whose body was lost, and how.
#[derive(Debug)]
pub(crate) struct LostBody {
    pub(crate) head: Parts,
    /// What reading the body would have told the caller: `is_decode()` holds, the url is inside.
    pub(crate) error: Option<reqwest::Error>,
    pub(crate) loss: Loss,
}

/// Who ended a body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Loss {
    /// The transport: cut, broken, or timed out by the client's own limit.
    Transport,
    /// The limit that the body was read under.
    TimeUp,
}
