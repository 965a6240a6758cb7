//! What really happened to a request below all middleware: whether the transport took it, and
//! whether a redirect was followed.
//!
//! An error alone rarely proves that nothing was sent: a total timeout looks the same while
//! connecting and while the server works, and "connection refused" may be the second hop of a POST
//! that the first server processed. [`SendWitness`] stands last, right before the client, and sees
//! both. It refuses to judge answers, to decide anything, and to change what the caller gets.

mod claim;
mod slot;
mod strays;
#[cfg(test)]
mod tests;
mod tracked;
mod upload;

mod atomic {
    pub(super) use std::sync::atomic::{AtomicU8, Ordering};
}

use std::{cell::Cell, pin::Pin, sync::Arc};

use bytes::Bytes;
use http::{Extensions, Method, Version};
use http_body::Body as _;
use http_body_util::Empty;
use reqwest::{Request, Response, Url, redirect};
use reqwest_middleware::{Error, Middleware, Next, Result};

use claim::{Claim, Stage};
use slot::{Hop, Sent};
use tracked::Tracked;

pub(crate) use slot::{Head, KeyKept, Marked, Redirects, SendSlot, Terms, Watch, inside, is_inside, leave};
pub(crate) use strays::{LeftAlone, Strays};

use crate::{
    policy::Evidence,
    proof::cause::Cause,
    proof::errors::{self, Upload},
};

/// Witnesses what becomes of each send, so that a write which provably never left can be sent
/// again. The *last* middleware of a client.
///
/// [`SafeRetry::client`](crate::SafeRetry::client) puts one in by itself. With a client that
/// already exists, name what it does about redirects, which a middleware cannot see:
///
/// ```no_run
/// # use reqwest_safe_retry::{SafeRetry, SendWitness};
/// # fn main() -> reqwest::Result<()> {
/// let client = reqwest::Client::builder().redirect(reqwest::redirect::Policy::none()).build()?;
/// let client = reqwest_middleware::ClientBuilder::new(client).with(SafeRetry::new()).with(SendWitness::redirects_off()).build();
/// # Ok(())
/// # }
/// ```
///
/// Without a witness nothing is proven, and what is not proven counts as unknown: the plugin gets
/// more cautious, never riskier.
///
/// A request is given the benefit of "not sent" only if not even its head can have left. HTTP/3
/// gives no evidence.
#[derive(Debug, Clone)]
#[doc(alias = "evidence")]
pub struct SendWitness {
    client: Client,
    /// Where a `SafeRetry` relies on its standing here.
    strays: Option<Strays>,
}

/// What the client below does on its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Client {
    /// Sends each request once.
    SendsOnce,
    /// Follows no redirect, and resends at most what an HTTP/2 server refused, if it can clone it.
    RedirectsOff,
    /// Follows redirects by a policy that [`counting`] made, and resends nothing.
    Counted,
    /// Follows redirects, unseen.
    Unseen,
}

/// The redirects of one send.
struct Following {
    hops: Cell<u32>,
    /// Where it has to stay.
    home: Option<Box<Url>>,
}

impl Following {
    /// Whether the next redirect may be followed, as far as this send is concerned.
    fn follows(&self, to: &Url) -> bool {
        let stays = self.home.as_ref().is_none_or(|home| same_origin(home, to));
        if stays {
            self.hops.set(self.hops.get().saturating_add(1));
        }
        stays
    }

    fn hop(&self) -> Hop {
        if self.hops.get() == 0 { Hop::First } else { Hop::MaybeLater }
    }
}

tokio::task_local! {
    /// Redirects of the send that this task is waiting for. reqwest asks its redirect policy within
    /// the request's own task.
    static FOLLOWING: Following;
}

/// The same redirect policy, whose every use the witness around it notices, and which follows no
/// send further than that may go.
pub(crate) fn counting(policy: redirect::Policy) -> redirect::Policy {
    redirect::Policy::custom(move |attempt| {
        // Outside of a scope nobody witnesses the request, and nobody needs the count.
        let follows = FOLLOWING.try_with(|following| following.follows(attempt.url())).unwrap_or(true);
        if follows { policy.redirect(attempt) } else { attempt.stop() }
    })
}

fn same_origin(one: &Url, other: &Url) -> bool {
    one.scheme() == other.scheme() && one.host_str() == other.host_str() && one.port_or_known_default() == other.port_or_known_default()
}

impl SendWitness {
    /// For a client built with `redirect::Policy::none()`: proves what can be proven.
    ///
    /// The client must not resend by itself after an answer, with a `reqwest::retry` classifier of
    /// its own. reqwest's default resends what an HTTP/2 server refused; build the client with
    /// `reqwest::retry::never()` to leave that to this crate, where it is counted.
    #[must_use]
    pub fn redirects_off() -> Self {
        Self { client: Client::RedirectsOff, strays: None }
    }

    /// For a client with reqwest's default redirect policy, which follows up to ten: proves that a
    /// request with an empty body was not sent.
    #[must_use]
    pub fn default_redirects() -> Self {
        Self { client: Client::Unseen, strays: None }
    }

    /// For a client with any other redirect policy: proves that a request with an empty body was
    /// not sent.
    ///
    /// ```
    /// use reqwest_middleware::ClientBuilder;
    /// use reqwest_safe_retry::{SafeRetry, SendWitness};
    ///
    /// let policy = reqwest::redirect::Policy::limited(3);
    /// let client = ClientBuilder::new(reqwest::Client::builder().redirect(policy).build()?)
    ///     .with(SafeRetry::new())
    ///     .with(SendWitness::custom_redirects()) // last
    ///     .build();
    /// # let _ = client;
    /// # Ok::<(), reqwest::Error>(())
    /// ```
    #[must_use]
    pub fn custom_redirects() -> Self {
        Self { client: Client::Unseen, strays: None }
    }

    /// For a client without redirects and with `reqwest::retry::never()`.
    pub(crate) fn of_one_send(strays: Strays) -> Self {
        Self { client: Client::SendsOnce, strays: Some(strays) }
    }

    /// For a client whose redirect policy was made by [`counting`], and with
    /// `reqwest::retry::never()`.
    pub(crate) fn counted(strays: Strays) -> Self {
        Self { client: Client::Counted, strays: Some(strays) }
    }

    /// Wraps the body where the slot asks for it and the caller cannot tell: reqwest does not
    /// follow 307 and 308 with a wrapped body unless it is empty.
    fn track(&self, request: &mut Request, watch: Watch) -> Option<Arc<Claim>> {
        let harmless = match self.client {
            Client::SendsOnce | Client::RedirectsOff => true,
            Client::Counted | Client::Unseen => has_empty_body(request),
        };
        if !harmless || !asks_for_its_body(request) {
            return None;
        }
        match watch {
            Watch::Errors => None,
            // reqwest resends only what it can clone, and a wrapped body it cannot.
            Watch::Sends => {
                if matches!(self.client, Client::RedirectsOff | Client::Unseen) {
                    let body = request.body_mut().take().unwrap_or_default();
                    let is_empty = body.as_bytes().is_some_and(<[u8]>::is_empty);
                    // Wrapping nothing takes no allocation.
                    *request.body_mut() =
                        Some(if is_empty { reqwest::Body::wrap(Empty::<Bytes>::new()) } else { reqwest::Body::wrap(body) });
                }
                None
            }
            Watch::Body => {
                let claim = Arc::new(Claim::waiting());
                let body = request.body_mut().take().unwrap_or_default();
                *request.body_mut() = Some(reqwest::Body::wrap(Tracked::new(body, Arc::clone(&claim))));
                Some(claim)
            }
        }
    }

    /// Whose answer or error comes back, where the client leaves no doubt or does not tell.
    fn hop(&self, claim: Option<&Arc<Claim>>) -> Hop {
        match self.client {
            Client::SendsOnce => Hop::First,
            // reqwest resends only what it can clone, which a wrapped body is not, and only after a
            // GOAWAY or REFUSED_STREAM: without proof, that is.
            Client::RedirectsOff if claim.is_some() => Hop::First,
            Client::RedirectsOff | Client::Counted | Client::Unseen => Hop::MaybeLater,
        }
    }
}

// Not by `async_trait`: its future keeps the request, and is then so large that making it costs
// more than all that it does.
impl Middleware for SendWitness {
    fn handle<'s, 'e, 'n, 'f>(
        &'s self,
        mut request: Request,
        extensions: &'e mut Extensions,
        next: Next<'n>,
    ) -> Pin<Box<dyn Future<Output = Result<Response>> + Send + 'f>>
    where
        Self: 'f,
        's: 'f,
        'e: 'f,
        'n: 'f,
    {
        let slot = extensions.get::<SendSlot>().and_then(|slot| Some((slot.asked(request.headers())?, slot.clone())));
        let Some((asked, slot)) = slot else {
            if let Some(strays) = self.strays.as_ref().filter(|_| !LeftAlone::marks(extensions)) {
                strays.one_passes();
            }
            return next.run(request, extensions);
        };
        let buildable = matches!(request.url().scheme(), "http" | "https");
        let home = (asked.has_key || asked.redirects == Redirects::AtHome).then(|| Box::new(request.url().clone()));
        let claim = self.track(&mut request, asked.watch);
        let hop = self.hop(claim.as_ref());
        let follows = self.client == Client::Counted;
        let send = next.run(request, extensions);
        Box::pin(async move {
            let place = slot.open(claim.clone(), asked.key);
            let (result, hop) = if follows {
                let home = home.clone().filter(|_| asked.redirects == Redirects::AtHome);
                let following = Following { hops: Cell::new(0), home };
                FOLLOWING.scope(following, async { (send.await, FOLLOWING.with(Following::hop)) }).await
            } else {
                (send.await, hop)
            };
            let sent = match &result {
                Ok(response) => {
                    if home.is_some_and(|home| !same_origin(&home, response.url())) {
                        slot.left_home(place);
                    }
                    Sent::Answered(hop, Head::of(response))
                }
                // proof: reqwest builds no request for any other scheme, so there was no first hop
                // either.
                Err(Error::Reqwest(error)) if error.is_builder() && !buildable => Sent::Failed(Evidence::Unprocessed, Cause::Request),
                Err(Error::Reqwest(error)) => Sent::Failed(evidence_of(error, claim.as_deref(), hop), errors::cause(error)),
                Err(Error::Middleware(_)) => Sent::Failed(Evidence::Unknown, Cause::Middleware),
            };
            slot.close(place, sent);
            match claim {
                Some(claim) => result.map(|response| upload::ends_with(response, claim)),
                None => result,
            }
        })
    }
}

fn evidence_of(error: &reqwest::Error, claim: Option<&Claim>, hop: Hop) -> Evidence {
    match (claim.map(Claim::stage), hop) {
        // proof: the transport never asked for the body, and will not: it is gone. The first hop
        // carries it, so that is true of every hop.
        (Some(Stage::Dropped), Hop::First | Hop::MaybeLater) => Evidence::Unprocessed,
        // The body was asked for: an error that says otherwise is another hop's, whatever was
        // declared. Only a refusal is left.
        (Some(Stage::Begun | Stage::Waiting), Hop::First) => errors::refusal(error, Upload::Open),
        (Some(Stage::Read), Hop::First) => errors::refusal(error, Upload::Read),
        (None, Hop::First) => errors::proof(error, Upload::Open),
        (Some(Stage::Begun | Stage::Read | Stage::Waiting) | None, Hop::MaybeLater) => Evidence::Unknown,
    }
}

fn has_empty_body(request: &Request) -> bool {
    request.body().is_none_or(|body| body.size_hint().exact() == Some(0))
}

/// Whether the transport asks for the body before it writes the head: HTTP/3 sends heads unasked,
/// and CONNECT has no body.
fn asks_for_its_body(request: &Request) -> bool {
    request.version() != Version::HTTP_3 && request.method() != Method::CONNECT
}
