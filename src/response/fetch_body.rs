//! The body of an answer, in a browser: read by the caller, and by nobody before.
//!
//! reqwest makes a response only of a fetch that was answered, so a body that was read here could
//! not be handed on, nor can one be wrapped. What a page has is a timer that aborts the fetch, and
//! with it the reading of the body. It has to be set before anything is sent ([`limit`]).

use std::{error::Error as StdError, time::Duration};

use reqwest::{Request, Response};

use crate::{request::deadline::Deadline, response::read::Read};

/// The time limit passed before the body of an answer had arrived.
///
/// In a browser nothing carries it: there the fetch is aborted, and reading the body fails with
/// what reqwest makes of that.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("time was up before the body of the answer had arrived")]
#[non_exhaustive]
pub struct BodyDeadlineExceeded;

impl BodyDeadlineExceeded {
    /// Whether the error comes from here.
    pub(crate) fn caused(_: &(dyn StdError + 'static)) -> bool {
        false
    }
}

/// How much later than the deadline the fetch is aborted, so that a head which does not come is
/// told apart: it is the deadline that cuts it.
const AFTER: Duration = Duration::from_millis(20);

/// reqwest counts milliseconds up to 2^31, and panics at more: what is longer is left to the
/// timers of this crate, which know no body.
const LONGEST: Duration = Duration::from_secs(24 * 24 * 60 * 60);

/// Gives the fetch of a request a time limit that covers the body of its answer. A shorter one of
/// the caller's stays.
pub(crate) fn limit(mut request: Request, deadline: Deadline) -> Request {
    let left = deadline.time_left().saturating_add(AFTER);
    if left <= LONGEST && request.timeout().is_none_or(|own| left < *own) {
        *request.timeout_mut() = Some(left);
    }
    request
}

/// The response as it is: its fetch got the deadline before it was sent.
pub(crate) fn bounded(response: Response, _: Deadline) -> Response {
    response
}

/// The response as it came, like one whose body is too long.
pub(crate) async fn read(response: Response, _: usize, _: Deadline) -> Read {
    Read::TooLong(response)
}
