//! The way of an operation that goes well at once: a clone, a deposit, a send.
//!
//! Most requests have nothing to settle but their deadline, their key and who pays, and get an
//! answer that no resend could improve. They need neither plan nor loop, so nothing of the two is
//! made for them. Whatever comes back otherwise is handed to the loop as its first attempt, with
//! everything that was settled; what has more to settle never comes here ([`Light`] says what that
//! is).

use http::Extensions;
use reqwest::{Request, Response};
use reqwest_middleware::{Next, Result};

use crate::{
    contract::endpoint::{DeadlineCovers, Endpoint},
    operation::attempt::{Limit, Sent, in_time, says_nothing},
    operation::begun::Begun,
    operation::plan::Light,
    operation::run,
    operation::settings::{Lane, Settings},
    operation::supply::Supply,
    platform::{Instant, MaybeSend},
    proof::witness::{Marked, Strays},
    request::call::Call,
    request::deadline::Deadline,
    response::body,
    response::keep_alive::idle_timeout,
};

/// Carries one operation out, to its end.
#[expect(clippy::manual_async_fn, reason = "what an `async fn` is given it keeps twice")]
pub(crate) fn carry_out<'a>(
    settings: &'a Settings,
    endpoint: Option<Endpoint>,
    mut request: Request,
    extensions: &'a mut Extensions,
    next: Next<'a>,
) -> impl Future<Output = Result<Response>> + MaybeSend + 'a {
    async move {
        let now = Instant::now();
        let light = match settings.lane {
            Lane::Open => Light::settle(settings, endpoint.as_ref(), &mut request, extensions, now),
            #[cfg(all(test, feature = "testing", feature = "metrics"))]
            Lane::Closed => None,
        };
        let light = match light {
            Some(Ok(light)) => light,
            Some(Err(misuse)) => return Err(run::misused(misuse, &request, extensions, &settings.telemetry)),
            None => return Box::pin(run::carry_out(settings, endpoint, request, extensions, next)).await,
        };
        let mut marked = Marked::new::<Call>(extensions, light.terms());
        // The clone goes out: what stays where it is is not copied.
        let Some(first) = Supply::first_of(&request) else {
            return Box::pin(run::carry_out(settings, endpoint, request, extensions, next)).await;
        };
        #[cfg(target_arch = "wasm32")] // as every attempt
        let first = if light.endpoint.as_ref().map_or(DeadlineCovers::Body, Endpoint::deadline_covers) == DeadlineCovers::Body {
            first.until(light.deadline)
        } else {
            first
        };
        // Before it is handed on: an inner middleware may send it past the witness at once.
        let strays = settings.strays.as_ref().map(Strays::count);
        let sent = first.send(next.clone(), &mut marked.extensions);
        let begun = Begun::at(now, &light, &request);
        let pending = Pending { light: &light, request: &request, begun: &begun, is: Progress::Sending };
        light.account.deposit(now);
        let limit = Limit::of(now, light.attempt_limit, light.deadline);
        let result = match limit.until.instant() {
            Some(instant) => in_time(sent, instant, || marked.slot.nothing_left(strays, settings.strays.as_ref())).await.ok_or(limit.is),
            None => Ok(sent.await),
        };
        pending.came_back();
        let answer = result.as_ref().ok().and_then(|answer| answer.as_ref().ok());
        let went_well = answer.is_some_and(|answer| {
            marked.slot.is_quiet()
                && light.is_final(answer.status(), answer.headers(), extensions)
                && says_nothing(light.hints(), answer.headers())
        });
        if let (true, Some(answer)) = (went_well, answer) {
            begun.went_well();
            if let Some(timeout) = idle_timeout(answer.headers()) {
                settings.kept_alive.note(request.url(), timeout, Instant::now());
            }
            light.account.accepted();
        }
        match result {
            Ok(answer) if went_well => {
                marked.leave_in::<Call>(extensions);
                let covers = light.endpoint.as_ref().map_or(DeadlineCovers::Body, Endpoint::deadline_covers);
                if covers == DeadlineCovers::Head || light.deadline == Deadline::NONE {
                    return answer;
                }
                answer.map(|answer| body::bounded(answer, light.deadline))
            }
            result => {
                let sent = Box::new(Sent { result, marked, limit, started: now, strays });
                // Boxed: an operation without trouble does not carry the rest around.
                Box::pin(run::carry_on(&light, request, &begun, sent, extensions, next)).await
            }
        }
    }
}

/// Tells of an operation that is dropped while its send is on its way.
struct Pending<'a> {
    light: &'a Light<'a>,
    request: &'a Request,
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
        match self.is {
            Progress::Sending => drop(self.begun.watched(&self.light.settings.telemetry, self.light.facts(self.request))),
            Progress::Back => {}
        }
    }
}

#[cfg(test)]
#[cfg(all(feature = "testing", feature = "metrics"))]
mod tests;
