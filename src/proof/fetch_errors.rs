//! What went wrong with a fetch, in a browser. It proves nothing: a page is told that a fetch
//! failed, and deliberately not why.

use std::{error::Error, fmt};

use crate::proof::cause::{Cause, TimeLimit};

/// What went wrong, for reports, as far as reqwest knows it. No decision hangs on it but
/// [`Cause::is_beyond_help`].
pub(crate) fn cause(error: &reqwest::Error) -> Cause {
    if error.is_status() {
        Cause::Status
    } else if error.is_builder() {
        Cause::Request
    } else if error.is_timeout() {
        Cause::TimedOut(TimeLimit::Client)
    } else if error.is_decode() || error.is_body() {
        Cause::BodyLost
    } else {
        Cause::Transport
    }
}

/// Stands for an error that repeats what a peer wrote. None does: no peer is quoted to a page.
#[derive(Debug)]
pub(crate) enum Unquoted {}

impl Unquoted {
    pub(crate) fn of(_: &reqwest::Error) -> Option<Self> {
        None
    }
}

impl fmt::Display for Unquoted {
    fn fmt(&self, _: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {}
    }
}

impl Error for Unquoted {}
