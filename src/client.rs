//! The paved road: a client whose evidence is complete, because it was built for that.
//!
//! Two settings of a client cannot be read back from it, its redirect policy and its own resends,
//! and both blur what an error proves. So the client is built here, with both known.

use std::{fmt, sync::Arc};

use reqwest::redirect;
use reqwest_middleware::{ClientBuilder, ClientWithMiddleware, Middleware, RequestInitialiser};

use crate::{
    middleware::SafeRetry,
    proof::witness::{SendWitness, Strays, counting},
    request::call::OneCall,
};

impl SafeRetry {
    /// Builds a client around this plugin that can prove as much as can be proven.
    ///
    /// It puts a [`SendWitness`] last, counts the redirects that reqwest follows, and turns off
    /// reqwest's own resends ([`reqwest::retry::never`]), which send a refused HTTP/2 POST up to
    /// three times without telling anybody. Whatever the builder held of both, a redirect policy
    /// and a retry policy, is replaced: neither can be read back from it. It also turns `Referer`
    /// off, which would tell another origin the URL that a redirect came from. Everything else of
    /// the builder stays.
    ///
    /// Two kinds of requests follow no redirect to another origin, whatever the policy says, and
    /// bring the redirect itself as their answer: a status probe, whose credentials stay at home,
    /// and a resend that relies on an idempotency key, which another origin does not know.
    ///
    /// For payment APIs turn redirects off ([`SafeClientBuilder::redirects_off`]): no POST is then
    /// repeated elsewhere because a server said 307, and a limit that fires while still connecting
    /// proves that nothing was sent. Give the builder a
    /// [`connect_timeout`](reqwest::ClientBuilder::connect_timeout) in any case: a connection that
    /// cannot be made fails early, with proof.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// # use std::time::Duration;
    /// # use reqwest_safe_retry::SafeRetry;
    /// # fn main() -> reqwest::Result<()> {
    /// let builder = reqwest::Client::builder().connect_timeout(Duration::from_secs(2));
    /// let client = SafeRetry::new().client(builder).redirects_off().build()?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn client(self, builder: reqwest::ClientBuilder) -> SafeClientBuilder {
        SafeClientBuilder {
            retry: self,
            builder,
            redirects: Redirects::Counted(redirect::Policy::default()),
            outside: vec![],
            inside: vec![],
            inits: vec![],
        }
    }
}

/// Builds a client around a [`SafeRetry`]: made by [`SafeRetry::client`].
///
/// Middlewares run in this order: those from outside, the [`SafeRetry`], those from inside, the
/// [`SendWitness`].
///
/// # Examples
/// ```
/// use reqwest_safe_retry::{SafeClientBuilder, SafeRetry};
///
/// fn payments() -> SafeClientBuilder {
///     SafeRetry::new().client(reqwest::Client::builder()).redirects_off()
/// }
/// # payments().build().unwrap();
/// ```
#[must_use = "a builder does nothing until `build`"]
pub struct SafeClientBuilder {
    retry: SafeRetry,
    builder: reqwest::ClientBuilder,
    redirects: Redirects,
    outside: Vec<Arc<dyn Middleware>>,
    inside: Vec<Arc<dyn Middleware>>,
    inits: Vec<Arc<dyn RequestInitialiser>>,
}

enum Redirects {
    Off,
    Counted(redirect::Policy),
}

impl SafeClientBuilder {
    /// Follows redirects as the policy says. It replaces the one in the builder.
    ///
    /// A write with a body that fails before any redirect is judged by its error; one that a limit
    /// cuts while still connecting is unknown. A policy of [`redirect::Policy::none`] is better
    /// given as [`redirects_off`](Self::redirects_off), which proves more.
    ///
    /// # Default
    /// [`redirect::Policy::default`], as in reqwest: up to ten.
    pub fn redirect(self, policy: redirect::Policy) -> Self {
        Self { redirects: Redirects::Counted(policy), ..self }
    }

    /// Follows no redirect, and uses that: every kind of evidence counts.
    pub fn redirects_off(self) -> Self {
        Self { redirects: Redirects::Off, ..self }
    }

    /// Adds a middleware before the plugin: it runs once per operation. The place of caches.
    ///
    /// One that sends the same request again, such as an auth refresh, stays within one operation:
    /// the key of the first pass is used again.
    pub fn with_outside(mut self, middleware: impl Middleware) -> Self {
        self.outside.push(Arc::new(middleware));
        self
    }

    /// Adds a middleware after the plugin: it runs once per attempt, and its own errors are not
    /// resent. The place of signers.
    ///
    /// It has to send with `next`: an attempt that was cut and of which nothing came to the wire
    /// that way counts as not sent. One that sends with a client of its own as well, such as a
    /// failover, belongs into an existing client.
    pub fn with(mut self, middleware: impl Middleware) -> Self {
        self.inside.push(Arc::new(middleware));
        self
    }

    /// Adds a request initialiser: it runs when a request is begun.
    ///
    /// ```
    /// use reqwest_safe_retry::{Deadline, SafeRetry};
    /// use std::time::Duration;
    ///
    /// struct FiveSeconds;
    ///
    /// impl reqwest_middleware::RequestInitialiser for FiveSeconds {
    ///     fn init(
    ///         &self,
    ///         request: reqwest_middleware::RequestBuilder,
    ///     ) -> reqwest_middleware::RequestBuilder {
    ///         request.with_extension(Deadline::after(Duration::from_secs(5)))
    ///     }
    /// }
    ///
    /// let builder = reqwest::Client::builder();
    /// let client = SafeRetry::new().client(builder).with_init(FiveSeconds).build()?;
    /// # let _ = client;
    /// # Ok::<(), reqwest::Error>(())
    /// ```
    pub fn with_init(mut self, initialiser: impl RequestInitialiser) -> Self {
        self.inits.push(Arc::new(initialiser));
        self
    }

    /// Builds the client.
    ///
    /// # Errors
    /// Those of [`reqwest::ClientBuilder::build`].
    pub fn build(self) -> reqwest::Result<ClientWithMiddleware> {
        let strays = Strays::default();
        let retry = self.retry.with(|settings| settings.strays = Some(strays.clone()));
        let (policy, witness) = match self.redirects {
            Redirects::Off => (redirect::Policy::none(), SendWitness::of_one_send(strays)),
            Redirects::Counted(policy) => (counting(policy), SendWitness::counted(strays)),
        };
        let client = self.builder.retry(reqwest::retry::never()).redirect(policy).referer(false).build()?;
        let bare = ClientBuilder::new(client);
        // Where nobody stands outside, nobody can send a request again within one call.
        let bare = if self.outside.is_empty() { bare } else { bare.with(OneCall) };
        let outside = self.outside.into_iter().fold(bare, ClientBuilder::with_arc);
        let inside = self.inside.into_iter().fold(outside.with(retry), ClientBuilder::with_arc);
        Ok(self.inits.into_iter().fold(inside.with(witness), ClientBuilder::with_arc_init).build())
    }
}

impl fmt::Debug for SafeClientBuilder {
    /// Tells nothing: the builder inside would print default headers.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SafeClientBuilder").finish_non_exhaustive()
    }
}
