//! Gives the connection of a failed response back.
//!
//! An HTTP/1 connection serves the next request only after the body of the answer has been read; dropped unread, it is closed, and an
//! overloaded server that answers 503 pays for a new connection with every resend. So a little of the body is read before the pause:
//! as much as is cheaper than a new connection, never in a task of its own, never past the deadline.

use std::time::Duration;

use http::{HeaderMap, Version, header};
use reqwest::Response;
use tokio::time::timeout_at;

use crate::deadline::Deadline;

/// 64 KiB: more costs more than a new connection, and hardly any error page is longer.
pub(crate) const MOST: u64 = 64 * 1024;

/// 50 ms: about what a new connection costs with TLS. Bodies of errors come with their heads, or hardly later.
pub(crate) const LONGEST: Duration = Duration::from_millis(50);

/// What became of the connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Drained {
    /// The body has ended: the connection can serve the next request.
    Whole,
    /// More than [`MOST`].
    TooLong,
    /// Not within [`LONGEST`] and the deadline.
    TooSlow,
    /// The connection broke.
    Broken,
    /// The response holds no connection that could be given back: HTTP/2 and later share theirs, and the server may close its own.
    NotNeeded,
}

/// Reads the rest of a response that nobody wants, if that is cheap, and drops it.
///
/// # Cancellation
/// Dropping the future drops the response, and its connection is closed.
pub(crate) async fn give_back(mut response: Response, deadline: Deadline) -> Drained {
    if response.version() >= Version::HTTP_2 || closes(response.headers()) {
        return Drained::NotNeeded;
    }
    if response.content_length().is_some_and(|length| length > MOST) {
        return Drained::TooLong;
    }
    let rest = read_out(&mut response);
    match Deadline::after(LONGEST).earlier(deadline).instant() {
        Some(until) => timeout_at(until, rest).await.unwrap_or(Drained::TooSlow),
        None => rest.await,
    }
}

async fn read_out(response: &mut Response) -> Drained {
    let mut left = MOST;
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
