//! What a transport error proves, and what went wrong: the only downcasts of the crate.
//!
//! Types are read, never texts. reqwest follows redirects below every middleware and reports the
//! last hop's error under the first hop's URL, so nothing in here knows whether a redirect was
//! followed: what an error proves, it proves for the last hop only, and
//! [`witness`](crate::proof::witness) decides whether that was also the first. Types of another
//! major version of hyper, hyper-util or h2 than reqwest's are foreign: nothing is recognised,
//! everything is unknown, which costs resends and never safety.

use std::{error::Error, fmt, io, iter};

use hyper_util::client::legacy;

use crate::{
    policy::Evidence,
    proof::cause::{Cause, TimeLimit},
};

type Source<'a> = &'a (dyn Error + 'static);

/// How far the body of a message had got, and with it what a GOAWAY proves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Upload {
    /// The transport had taken all of it. There was one.
    Read,
    /// There is none, it was not taken whole, or nobody looked.
    Open,
}

/// What the error proves about the last hop.
pub(crate) fn proof(error: &reqwest::Error, upload: Upload) -> Evidence {
    sending(error).map_or(Evidence::Unknown, |failure| {
        // proof: hyper-util notes the connection in every failure after it gave the request to one.
        // None noted, none had the request.
        if failure.connect_info().is_none() {
            return Evidence::Unprocessed;
        }
        // proof: hyper cancels a message only while handing it back, before a byte of it is
        // serialised.
        if in_connection(failure).is_some_and(hyper::Error::is_canceled) {
            return Evidence::Unprocessed;
        }
        refused(failure, upload)
    })
}

/// What the error proves about the last hop although the request left: the server refused to
/// process it.
pub(crate) fn refusal(error: &reqwest::Error, upload: Upload) -> Evidence {
    sending(error).map_or(Evidence::Unknown, |failure| refused(failure, upload))
}

/// What went wrong, for reports. No decision hangs on it but [`Cause::is_beyond_help`].
pub(crate) fn cause(error: &reqwest::Error) -> Cause {
    if error.is_status() {
        Cause::Status
    } else if error.is_builder() {
        Cause::Request
    } else if error.is_redirect() {
        Cause::Redirect
    } else if error.is_decode() || error.is_body() {
        Cause::BodyLost
    } else if let Some(failure) = sending(error) {
        if failure.is_connect() { cause_before_connection(error, failure) } else { cause_of_sending(failure) }
    } else if error.is_timeout() {
        Cause::TimedOut(TimeLimit::Client)
    } else {
        Cause::Transport
    }
}

/// The failure to send, if that is what the error is about. Errors of an answer's body are not; nor
/// are failures that a request body carries inside (it may well be another client's answer), which
/// is why nothing looks deeper than the error's own source.
fn sending(error: &reqwest::Error) -> Option<&legacy::Error> {
    error.is_request().then(|| error.source()).flatten().and_then(failure_of)
}

fn failure_of(source: Source<'_>) -> Option<&legacy::Error> {
    source.downcast_ref()
}

fn in_connection(failure: &legacy::Error) -> Option<&hyper::Error> {
    failure.source()?.downcast_ref()
}

#[cfg(feature = "http2")]
fn refused(failure: &legacy::Error, upload: Upload) -> Evidence {
    let Some(error) = in_connection(failure).and_then(Error::source).and_then(|source| source.downcast_ref::<h2::Error>()) else {
        return Evidence::Unknown;
    };
    // proof: REFUSED_STREAM promises that nothing was processed (RFC 9113 §8.7).
    if is_refused_stream(error) {
        return Evidence::Unprocessed;
    }
    match upload {
        // proof: h2 gives a peer's GOAWAY to the streams above its last id, which are unprocessed
        // whatever the code (RFC 9113 §6.8), and to a stream that opens in the moment in which the
        // GOAWAY comes. The head of the latter still leaves, whatever the last id is, and its body
        // is dropped unread. This body was read, so its stream was open before: it is above the id.
        Upload::Read if is_go_away(error) => Evidence::Unprocessed,
        // A server that acts on the head may have acted, and the error looks the same.
        Upload::Read | Upload::Open => Evidence::Unknown,
    }
}

#[cfg(not(feature = "http2"))]
fn refused(_: &legacy::Error, _: Upload) -> Evidence {
    Evidence::Unknown
}

#[cfg(feature = "http2")]
fn is_refused_stream(error: &h2::Error) -> bool {
    error.is_remote() && error.is_reset() && error.reason() == Some(h2::Reason::REFUSED_STREAM)
}

/// A GOAWAY of the peer. One that h2 itself sent proves nothing.
#[cfg(feature = "http2")]
fn is_go_away(error: &h2::Error) -> bool {
    error.is_remote() && error.is_go_away()
}

fn cause_before_connection(error: &reqwest::Error, failure: &legacy::Error) -> Cause {
    let of_the_system = || layers(failure).filter_map(<dyn Error>::downcast_ref::<io::Error>).any(|io| io.raw_os_error().is_some());
    if layers(failure).any(is_untrusted) {
        Cause::Certificate
    } else if error.is_timeout() && !error.is_dns() && !of_the_system() {
        Cause::TimedOut(TimeLimit::Client)
    } else {
        Cause::Connect
    }
}

fn cause_of_sending(failure: &legacy::Error) -> Cause {
    match failure.source() {
        // hyper-util gives no source where it refuses the request as such: a version or method it
        // cannot send.
        None => Cause::Request,
        Some(source) => source.downcast_ref().map_or(Cause::Transport, cause_in_connection),
    }
}

fn cause_in_connection(error: &hyper::Error) -> Cause {
    if error.is_user() {
        return match error.source() {
            None => Cause::Request,
            Some(source) if error.is_body_write_aborted() || source.is::<reqwest::Error>() => Cause::RequestBody,
            // The connection's task is gone: its runtime was shut down, or something in it
            // panicked.
            Some(_) => Cause::Transport,
        };
    }
    if error.is_timeout() {
        Cause::TimedOut(TimeLimit::Client)
    } else if error.is_incomplete_message() || error.is_closed() {
        Cause::PeerClosed
    } else if error.is_parse() {
        Cause::Protocol
    } else {
        match error.source() {
            None => Cause::Protocol,
            Some(source) => cause_below(source).unwrap_or(if error.is_canceled() { Cause::PeerClosed } else { Cause::Transport }),
        }
    }
}

fn cause_below(source: Source<'_>) -> Option<Cause> {
    if let Some(error) = source.downcast_ref::<hyper::Error>() {
        return Some(cause_in_connection(error));
    }
    #[cfg(feature = "http2")]
    if let Some(error) = source.downcast_ref::<h2::Error>() {
        return Some(match error.get_io() {
            Some(error) => cause_of_io(error),
            None if is_refused_stream(error) || is_go_away(error) => Cause::Refused,
            None if error.is_remote() => Cause::Reset,
            None => Cause::Protocol,
        });
    }
    source.downcast_ref().map(cause_of_io)
}

fn cause_of_io(error: &io::Error) -> Cause {
    match error.kind() {
        io::ErrorKind::ConnectionReset | io::ErrorKind::ConnectionAborted => Cause::Reset,
        io::ErrorKind::BrokenPipe | io::ErrorKind::UnexpectedEof | io::ErrorKind::NotConnected => Cause::PeerClosed,
        io::ErrorKind::InvalidData => Cause::Protocol,
        _ => Cause::Transport,
    }
}

/// Stands for a transport's error that repeats what a peer wrote, in words of our own.
#[derive(Debug)]
pub(crate) struct Unquoted {
    reason: String,
}

impl Unquoted {
    /// `None` where the error's own words come from this side.
    pub(crate) fn of(error: &reqwest::Error) -> Option<Self> {
        layers(error).find_map(quoted_reason).map(|reason| Self { reason })
    }
}

impl fmt::Display for Unquoted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "error sending request: the server closes the HTTP/2 connection (GOAWAY): {}", self.reason)
    }
}

impl Error for Unquoted {}

/// The reason of a GOAWAY, whose debug data may be anything.
#[cfg(feature = "http2")]
fn quoted_reason(error: Source<'_>) -> Option<String> {
    let error = error.downcast_ref::<h2::Error>().filter(|error| is_go_away(error))?;
    Some(error.reason().map_or_else(String::new, |reason| reason.to_string()))
}

#[cfg(not(feature = "http2"))]
fn quoted_reason(_: Source<'_>) -> Option<String> {
    None
}

/// The error and everything below it.
fn layers(error: Source<'_>) -> impl Iterator<Item = Source<'_>> {
    iter::successors(Some(error), |error| below(*error))
}

/// An `io::Error` hides what it wraps from `source()`, and TLS errors travel in there.
fn below(error: Source<'_>) -> Option<Source<'_>> {
    match error.downcast_ref::<io::Error>().and_then(io::Error::get_ref) {
        Some(wrapped) => Some(wrapped),
        None => error.source(),
    }
}

#[cfg(feature = "rustls")]
fn is_untrusted(error: Source<'_>) -> bool {
    matches!(error.downcast_ref(), Some(rustls::Error::InvalidCertificate(_)))
}

#[cfg(not(feature = "rustls"))]
fn is_untrusted(_: Source<'_>) -> bool {
    false
}

#[cfg(test)]
mod tests {
    use std::fmt;

    use tokio::net::TcpListener;

    use super::*;

    /// What another major version's error would look like: the same words, another type.
    #[derive(Debug)]
    struct Foreign {
        text: &'static str,
        source: Option<Box<Self>>,
    }

    impl Foreign {
        fn new(text: &'static str) -> Self {
            Self { text, source: None }
        }

        fn over(self, source: Self) -> Self {
            Self { source: Some(Box::new(source)), ..self }
        }
    }

    impl fmt::Display for Foreign {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str(self.text)
        }
    }

    impl Error for Foreign {
        fn source(&self) -> Option<Source<'_>> {
            self.source.as_deref().map(|source| source as _)
        }
    }

    #[test]
    fn an_error_of_another_version_is_not_recognised_by_its_words() {
        let refused = Foreign::new("stream error received: refused stream before processing any application logic");
        let chain = Foreign::new("client error (Connect)").over(Foreign::new("http2 error").over(refused));
        assert!(failure_of(&chain).is_none(), "so `proof` is unknown");
        assert_eq!(layers(&chain).count(), 3);
        assert!(layers(&chain).all(|layer| cause_below(layer).is_none() && !is_untrusted(layer)));
    }

    #[test]
    fn an_error_wrapped_in_io_errors_is_still_a_layer() {
        let deep = io::Error::other(io::Error::new(io::ErrorKind::InvalidData, Foreign::new("bad certificate")));
        assert!(layers(&deep).any(|layer| layer.is::<Foreign>()));
    }

    #[cfg(feature = "rustls")]
    #[test]
    fn only_a_rejected_certificate_is_untrusted() {
        use rustls::{AlertDescription, CertificateError, Error as Tls};

        let wrapped = |error: Tls| io::Error::other(io::Error::new(io::ErrorKind::InvalidData, error));
        assert!(layers(&wrapped(Tls::InvalidCertificate(CertificateError::UnknownIssuer))).any(is_untrusted));
        assert!(!layers(&wrapped(Tls::AlertReceived(AlertDescription::InternalError))).any(is_untrusted));
        assert!(!layers(&wrapped(Tls::DecryptError)).any(is_untrusted));
    }

    #[tokio::test]
    async fn a_request_handed_back_is_proof() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/", listener.local_addr().unwrap());
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let _ = stream.set_zero_linger();
            }
        });
        let client = reqwest::Client::builder().no_proxy().build().unwrap();
        let mut handed_back = 0;
        for _ in 0..100 {
            let error = client.post(&url).body("0123").send().await.unwrap_err();
            let failure = sending(&error).unwrap();
            if failure.connect_info().is_some() && in_connection(failure).is_some_and(hyper::Error::is_canceled) {
                handed_back += 1;
                assert_eq!(proof(&error, Upload::Open), Evidence::Unprocessed, "{error:?}");
            }
        }
        assert!(handed_back > 0, "never seen");
    }
}
