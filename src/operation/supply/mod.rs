//! Where the request of each attempt comes from: a clone, a factory, or nowhere.
//!
//! A request that cannot be supplied twice is no error: it is sent once, as it would be without
//! this crate. Only a permit gets a later one.

mod outgoing;

use http::{Extensions, HeaderName};
use reqwest::Request;

use crate::{
    operation::plan::Plan,
    policy::{BodySupply, ResendPermit},
    request::replay::{self, ReplayBody, ReplayError, ReplayRequest},
};

pub(crate) use outgoing::Outgoing;

/// What later attempts are made from.
pub(crate) struct Supply {
    /// The request, less what the source adds; absent when nothing can need it. Before the first
    /// attempt it is the caller's own.
    template: Option<Request>,
    source: Source,
    /// Headers that no factory may change.
    kept: Vec<HeaderName>,
    /// The first attempt's request, where it has to wait for a permit as well.
    held: Option<Box<Outgoing>>,
}

enum Source {
    /// The template is complete.
    Template,
    Body(ReplayBody),
    Request(ReplayRequest),
    /// The body was a stream.
    Spent,
    /// Nothing can follow, so nothing was kept. The body is not what the operation ends for.
    Unneeded,
}

impl Supply {
    /// The supply of a request that was not sent yet.
    pub(crate) fn of(request: Request) -> Self {
        Self { template: Some(request), source: Source::Unneeded, kept: Vec::new(), held: None }
    }

    /// The first attempt of a request that no factory has a part in; it becomes the template of
    /// later ones. `None` where it cannot be cloned.
    pub(crate) fn first_of(request: &Request) -> Option<Outgoing> {
        request.try_clone().map(Outgoing::first)
    }

    /// The supply of a request that was sent once, as [`first_of`](Self::first_of) made it.
    pub(crate) fn sent_once(request: Request) -> Self {
        Self { source: Source::Template, ..Self::of(request) }
    }

    /// Splits a request into its first attempt and the supply of the later ones. A factory supplies
    /// the first attempt too when the request has no body of its own. A request that can be neither
    /// cloned nor made anew is sent all the same, once.
    pub(crate) fn split(&mut self, plan: &Plan<'_>, extensions: &Extensions) -> Result<Outgoing, ReplayError> {
        let mut request = self.template.take().ok_or(ReplayError::Spent)?;
        let mut kept = plan.key.as_ref().map_or_else(Vec::new, |key| key.headers().to_vec());
        kept.extend(plan.correlation.as_ref().map(|id| id.header().clone()));
        let source = if let Some(factory) = extensions.get::<ReplayRequest>() {
            Source::Request(factory.clone())
        } else if let Some(factory) = extensions.get::<ReplayBody>() {
            Source::Body(factory.clone())
        } else if !plan.may_resend() && !plan.has_probe() {
            self.kept = kept;
            return Ok(Outgoing::first(request));
        } else if let Some(template) = request.try_clone() {
            (self.template, self.source, self.kept) = (Some(template), Source::Template, kept);
            return Ok(Outgoing::first(request));
        } else {
            Source::Spent
        };
        (self.template, self.source, self.kept) = (Some(replay::clone_without_body(&mut request)), source, kept);
        if request.body().is_none() {
            request = self.fill(request)?;
        }
        Ok(Outgoing::first(request))
    }

    /// Takes the first attempt's request back: it goes out with the first permit.
    pub(crate) fn hold(&mut self, first: Outgoing) {
        self.held = Some(Box::new(first));
    }

    /// The request of the next attempt.
    pub(crate) fn resend(&mut self, permit: ResendPermit) -> Result<Outgoing, ReplayError> {
        if let Some(first) = self.held.take() {
            return Ok(first.permitted_after_all(permit));
        }
        let template = self.template.as_ref().and_then(Request::try_clone);
        Ok(Outgoing::permitted(self.fill(template.ok_or(ReplayError::Spent)?)?, permit))
    }

    /// As [`resend`](Self::resend), when no other attempt can follow: the template itself goes out.
    pub(crate) fn resend_last(&mut self, permit: ResendPermit) -> Result<Outgoing, ReplayError> {
        if self.held.is_some() {
            return self.resend(permit);
        }
        let template = self.template.take();
        Ok(Outgoing::permitted(self.fill(template.ok_or(ReplayError::Spent)?)?, permit))
    }

    /// Whether one more attempt can have the same body.
    pub(crate) fn body(&self) -> BodySupply {
        match self.source {
            Source::Spent if self.held.is_none() => BodySupply::Consumed,
            Source::Spent | Source::Template | Source::Body(_) | Source::Request(_) | Source::Unneeded => BodySupply::Replayable,
        }
    }

    /// Whether a factory of the caller's makes each attempt, so that two of them may differ.
    pub(crate) fn is_made_anew(&self) -> bool {
        match self.source {
            Source::Body(_) | Source::Request(_) => true,
            Source::Template | Source::Spent | Source::Unneeded => false,
        }
    }

    /// The operation's request as far as it is known.
    pub(crate) fn template(&self) -> Option<&Request> {
        self.template.as_ref()
    }

    /// The same, to settle what it is sent with.
    pub(crate) fn template_mut(&mut self) -> Option<&mut Request> {
        self.template.as_mut()
    }

    fn fill(&self, mut request: Request) -> Result<Request, ReplayError> {
        match &self.source {
            Source::Template | Source::Spent | Source::Unneeded => Ok(request),
            Source::Body(factory) => {
                *request.body_mut() = Some(factory.make()?);
                Ok(request)
            }
            Source::Request(factory) => factory.fill(request, &self.kept),
        }
    }
}

/// That nothing else can be sent is held by the compiler. `outgoing.rs` stands here in a crate of
/// its own. What it allows:
///
/// ```standalone_crate
/// #[path = "."]
/// mod supply {
///     pub mod outgoing;
///
///     pub fn split(request: reqwest::Request) -> outgoing::Outgoing {
///         outgoing::Outgoing::first(request)
///     }
/// }
/// # mod policy { pub use reqwest_safe_retry::policy::ResendPermit; }
/// # mod platform { pub use futures_util::future::BoxFuture; }
/// # use {reqwest::Request, supply::outgoing::Outgoing};
/// # fn attempt(outgoing: Outgoing) {}
/// # fn main() {}
///
/// fn sends(request: Request) {
///     attempt(supply::split(request));
/// }
/// ```
///
/// A request that did not come from the supply is refused:
///
/// ```compile_fail,E0308
/// # #[path = "."]
/// # mod supply { pub mod outgoing; }
/// # mod policy { pub use reqwest_safe_retry::policy::ResendPermit; }
/// # mod platform { pub use futures_util::future::BoxFuture; }
/// # use {reqwest::Request, supply::outgoing::Outgoing};
/// # fn attempt(outgoing: Outgoing) {}
/// # fn main() {}
///
/// fn sends(request: Request) {
///     attempt(request);
/// }
/// ```
///
/// Nobody else can call it the first one, or wrap it:
///
/// ```compile_fail,E0624
/// # #[path = "."]
/// # mod supply { pub mod outgoing; }
/// # mod policy { pub use reqwest_safe_retry::policy::ResendPermit; }
/// # mod platform { pub use futures_util::future::BoxFuture; }
/// # use {reqwest::Request, supply::outgoing::Outgoing};
/// # fn attempt(outgoing: Outgoing) {}
/// # fn main() {}
///
/// fn sends(request: Request) {
///     attempt(Outgoing::first(request));
/// }
/// ```
///
/// ```compile_fail,E0423
/// # #[path = "."]
/// # mod supply { pub mod outgoing; }
/// # mod policy { pub use reqwest_safe_retry::policy::ResendPermit; }
/// # mod platform { pub use futures_util::future::BoxFuture; }
/// # use {reqwest::Request, supply::outgoing::Outgoing};
/// # fn attempt(outgoing: Outgoing) {}
/// # fn main() {}
///
/// fn sends(request: Request) {
///     attempt(Outgoing(request));
/// }
/// ```
///
/// And nothing goes out twice:
///
/// ```compile_fail,E0382
/// # #[path = "."]
/// # mod supply { pub mod outgoing; }
/// # mod policy { pub use reqwest_safe_retry::policy::ResendPermit; }
/// # mod platform { pub use futures_util::future::BoxFuture; }
/// # use {reqwest::Request, supply::outgoing::Outgoing};
/// # fn attempt(outgoing: Outgoing) {}
/// # fn main() {}
///
/// fn sends(outgoing: Outgoing) {
///     attempt(outgoing);
///     attempt(outgoing);
/// }
/// ```
#[cfg(doctest)]
struct OnlyWhatWasSupplied;
