//! Why an attempt ended, in words of our own: what an error of the transport is reduced to.

use std::fmt;

/// Why an attempt ended the way it did, as far as this side can see.
///
/// # Examples
/// ```no_run
/// use reqwest_safe_retry::{Cause, RetryReport};
///
/// fn timeouts(report: &RetryReport) -> usize {
///     report.attempts().iter().filter(|attempt| matches!(attempt.cause(), Cause::TimedOut(_))).count()
/// }
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub enum Cause {
    /// The server answered; the signal carries the status.
    Status,
    /// No connection: the name did not resolve, the peer refused, or a proxy did, for whatever
    /// reason (no exported type tells which); or the TLS handshake failed.
    Connect,
    /// The certificate is not trusted.
    Certificate,
    /// The peer reset the connection or the stream.
    Reset,
    /// The peer closed the connection before a whole answer arrived.
    PeerClosed,
    /// A limit ended the attempt.
    TimedOut(TimeLimit),
    /// The peer broke the protocol.
    Protocol,
    /// The protocol refused the request before processing: HTTP/2 REFUSED_STREAM, or GOAWAY below
    /// this stream.
    Refused,
    /// The redirect policy stopped the chain.
    Redirect,
    /// The request's own body failed to be read.
    RequestBody,
    /// The request could not be built: bad URL, bad header.
    Request,
    /// The answer's body was cut or stalled.
    BodyLost,
    /// An inner middleware's own error.
    Middleware,
    /// Something else in the transport.
    Transport,
    /// Not an attempt of this operation: an earlier process may have sent it, and this side sees
    /// nothing of how that ended.
    SentBefore,
}

impl Cause {
    /// Whether repeating cannot help: the request itself is at fault, the redirect policy stopped
    /// it, the certificate is not trusted, or an inner middleware refused for a reason of its own.
    ///
    /// A body that failed to be read is not beyond help: if it can be supplied again, the next
    /// reading may succeed. A failed handshake is not either: a restarting server explains it too.
    pub(crate) const fn is_beyond_help(self) -> bool {
        match self {
            Self::Certificate | Self::Redirect | Self::Request | Self::Middleware => true,
            Self::Status
            | Self::Connect
            | Self::Reset
            | Self::PeerClosed
            | Self::TimedOut(_)
            | Self::Protocol
            | Self::Refused
            | Self::RequestBody
            | Self::BodyLost
            | Self::Transport
            | Self::SentBefore => false,
        }
    }
}

/// Which limit ended an attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub enum TimeLimit {
    /// The operation's deadline.
    Deadline,
    /// The limit of one attempt.
    Attempt,
    /// The client's own: reqwest's `timeout`, `read_timeout` or `connect_timeout`.
    Client,
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Status => "answered",
            Self::Connect => "not connected",
            Self::Certificate => "certificate not trusted",
            Self::Reset => "reset by the peer",
            Self::PeerClosed => "closed by the peer",
            Self::TimedOut(TimeLimit::Deadline) => "cut by the deadline",
            Self::TimedOut(TimeLimit::Attempt) => "cut by the attempt limit",
            Self::TimedOut(TimeLimit::Client) => "timed out in the client",
            Self::Protocol => "protocol broken",
            Self::Refused => "refused by the protocol",
            Self::Redirect => "redirects stopped",
            Self::RequestBody => "request body failed",
            Self::Request => "request not buildable",
            Self::BodyLost => "answer's body lost",
            Self::Middleware => "failed in a middleware",
            Self::Transport => "transport failed",
            Self::SentBefore => "sent before",
        })
    }
}
