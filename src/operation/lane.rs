//! The way of an operation that goes well at once: a clone, a deposit, a send.
//!
//! Most requests have nothing to settle but their deadline and who pays, and get an answer that no
//! resend could improve. They need neither plan nor loop, so nothing of the two is made for them.
//! Whatever comes back otherwise is handed to the loop as its first attempt, with everything that
//! was settled; what has more to settle never comes here ([`Light`] says what that is).

use http::Extensions;
use reqwest::{Request, Response};
use reqwest_middleware::{Next, Result};
use tokio::time::Instant;

use crate::{
    contract::endpoint::{DeadlineCovers, Endpoint},
    operation::attempt::{Limit, Sent, in_time, says_nothing},
    operation::begun::Begun,
    operation::plan::Light,
    operation::run,
    operation::settings::{Lane, Settings},
    operation::supply::Supply,
    proof::witness::{Marked, Strays},
    response::body,
    response::keep_alive::idle_timeout,
};

/// Carries one operation out, to its end.
// No `async fn`: what such a one is given it keeps twice.
pub(crate) fn carry_out<'a>(
    settings: &'a Settings,
    endpoint: Option<Endpoint>,
    request: Request,
    extensions: &'a mut Extensions,
    next: Next<'a>,
) -> impl Future<Output = Result<Response>> + Send + 'a {
    let mut supply = Supply::of(request);
    async move {
        let light = match settings.lane {
            Lane::Open => supply.template().and_then(|request| Light::settle(settings, endpoint.as_ref(), request, extensions)),
            #[cfg(all(test, feature = "testing", feature = "metrics"))]
            Lane::Closed => None,
        };
        let Some((light, first)) = light.and_then(|light| Some((light, supply.split_plain()?))) else {
            return Box::pin(run::carry_out(settings, endpoint, &mut supply, extensions, next)).await;
        };
        let begun = Begun::now(&light, &supply);
        let pending = Pending { light: &light, supply: &supply, begun: &begun, is: Progress::Sending };
        light.account.deposit(begun.started);
        let limit = Limit::of(light.attempt_limit, light.deadline);
        let mut marked = Marked::new(extensions, light.watch().into());
        let strays = settings.strays.as_ref().map(Strays::count);
        let sent = first.send(next.clone(), &mut marked.extensions);
        let result = match limit.until.instant() {
            Some(instant) => in_time(sent, instant, || marked.slot.nothing_left(strays, settings.strays.as_ref())).await.ok_or(limit.is),
            None => Ok(sent.await),
        };
        pending.came_back();
        match result {
            Ok(Ok(answer))
                if marked.slot.is_quiet()
                    && light.is_final(answer.status(), extensions)
                    && says_nothing(light.hints(), answer.headers()) =>
            {
                begun.went_well();
                if let (Some(timeout), Some(request)) = (idle_timeout(answer.headers()), supply.template()) {
                    settings.kept_alive.note(request.url(), timeout, Instant::now());
                }
                light.account.accepted();
                *extensions = marked.left_behind();
                Ok(match light.endpoint.as_ref().map_or(DeadlineCovers::Body, Endpoint::deadline_covers) {
                    DeadlineCovers::Body => body::bounded(answer, light.deadline),
                    DeadlineCovers::Head => answer,
                })
            }
            result => {
                let sent = Box::new(Sent { result, marked, limit, started: begun.started, strays });
                // Boxed: an operation without trouble does not carry the rest around.
                Box::pin(run::carry_on(&light, &mut supply, &begun, sent, extensions, next)).await
            }
        }
    }
}

/// Tells of an operation that is dropped while its send is on its way.
struct Pending<'a> {
    light: &'a Light<'a>,
    supply: &'a Supply,
    begun: &'a Begun,
    is: Progress,
}

enum Progress {
    Sending,
    Back,
}

impl Pending<'_> {
    fn came_back(mut self) {
        self.is = Progress::Back;
    }
}

impl Drop for Pending<'_> {
    fn drop(&mut self) {
        if let (Progress::Sending, Some(request)) = (&self.is, self.supply.template()) {
            drop(self.begun.watched(&self.light.settings.telemetry, self.light.facts(request)));
        }
    }
}

#[cfg(test)]
#[cfg(all(feature = "testing", feature = "metrics"))]
mod tests;
