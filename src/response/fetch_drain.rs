//! The connection of a failed response, in a browser: it is the browser's business. Dropping the
//! response aborts the fetch, and whether that costs a connection no page is told.

use reqwest::Response;

use crate::{request::deadline::Deadline, response::drained::Drained};

/// Reads nothing.
pub(crate) async fn read_rest(_: &mut Response, _: Deadline) -> Drained {
    Drained::NotNeeded
}
