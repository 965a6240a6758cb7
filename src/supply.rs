//! Where the request of each attempt comes from: a clone, a factory, or nowhere.

use std::io;

use http::Extensions;
use reqwest::Request;

use crate::{
    attempt_loop::Plan,
    policy::{BodySupply, ResendPermit},
    replay::{self, ReplayBody, ReplayRequest},
};

/// What later attempts are made from. The first attempt gets the caller's own request.
pub(crate) struct Supply {
    /// The request without what the source adds; absent when nothing can need it.
    template: Option<Request>,
    source: Source,
}

enum Source {
    /// The template is complete.
    Template,
    Body(ReplayBody),
    Request(ReplayRequest),
    /// The body was a stream.
    Spent,
}

impl Supply {
    /// Splits a request into its first attempt and the supply of the later ones. A factory supplies the first attempt too when the
    /// request has no body of its own. A request that can neither be cloned nor made anew is sent all the same, once.
    pub(crate) fn split(mut request: Request, plan: &Plan, extensions: &Extensions) -> io::Result<(Request, Self)> {
        let source = if let Some(factory) = extensions.get::<ReplayRequest>() {
            Source::Request(factory.clone())
        } else if let Some(factory) = extensions.get::<ReplayBody>() {
            Source::Body(factory.clone())
        } else if !plan.may_resend() && !plan.has_probe() {
            return Ok((request, Self { template: None, source: Source::Spent }));
        } else if let Some(template) = request.try_clone() {
            return Ok((request, Self { template: Some(template), source: Source::Template }));
        } else {
            Source::Spent
        };
        let template = replay::clone_without_body(&mut request);
        let mut supply = Self { template, source };
        let first = if request.body().is_none() { supply.make()?.unwrap_or(request) } else { request };
        Ok((first, supply))
    }

    /// Whether one more attempt can have the same body.
    pub(crate) fn body(&self) -> BodySupply {
        match self.source {
            Source::Spent => BodySupply::Consumed,
            Source::Template | Source::Body(_) | Source::Request(_) => BodySupply::Replayable,
        }
    }

    /// The operation's request as far as it is known, for a probe.
    pub(crate) fn template(&self) -> Option<&Request> {
        self.template.as_ref()
    }
}
