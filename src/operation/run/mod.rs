//! The loop: send, decide, obey. It holds no opinion about methods, and none about what a status
//! means.
//!
//! Here are the verbs. What each of them takes stands beside it: [`preparing`] comes before the
//! first attempt; [`situation`] is what a decision looks at; [`resending`] and [`probing`] obey
//! one, with [`pausing`] before either; [`cooldown`] is shared with other operations; [`records`]
//! keeps what the report tells, and [`results`] says what the caller gets.

mod cooldown;
mod giving_up;
mod pausing;
mod preparing;
mod probing;
mod records;
mod resending;
mod results;
mod situation;

use std::{mem, pin::pin, time::Duration};

use http::Extensions;
use reqwest::{Request, Response};
use reqwest_middleware::{Error, Next, Result};

use crate::{
    contract::endpoint::Endpoint,
    observe::{Telemetry, Watched},
    operation::attempt::{self, Attempt, Earlier, Held, Sent},
    operation::begun::Begun,
    operation::key::OperationKey,
    operation::plan::{Light, Plan},
    operation::settings::Settings,
    operation::supply::{Outgoing, Supply},
    outcome::advice::Advice,
    outcome::error::{Misuse, RetryError},
    outcome::report::{AttemptRecord, ProbeRecord},
    platform::{Instant, MaybeSend},
    policy::{Decision, Effect, Evidence, Signal, StopReason},
    proof::witness::Redirects,
    request::deadline::Deadline,
    request::replay::ReplayError,
    shared::reuse_guard::GuardedUse,
};

use giving_up::Progress;
use preparing::Unsent;
use probing::Probed;
pub(crate) use results::misused;

/// Carries one operation out, to its end.
// No `async fn`: what such a one is given it keeps twice.
pub(crate) fn carry_out<'a>(
    settings: &'a Settings,
    endpoint: Option<Endpoint>,
    request: Request,
    extensions: &'a mut Extensions,
    next: Next<'a>,
) -> impl Future<Output = Result<Response>> + MaybeSend + 'a {
    let mut supply = Supply::of(request);
    async move {
        let Some(request) = supply.template_mut() else { return Err(spent()) };
        let plan = match Plan::settle(settings, endpoint, request, extensions) {
            Ok(plan) => plan,
            Err(misuse) => return Err(misused(misuse, request, extensions, &settings.telemetry)),
        };
        let mut run = Run::new(&plan, &settings.telemetry, &mut supply, extensions, next);
        run.watched_start().await
    }
}

/// Sends a request that is left alone although it carries something of ours.
pub(crate) fn hands_off<'a>(
    settings: &'a Settings,
    request: Request,
    extensions: &'a mut Extensions,
    next: Next<'a>,
) -> impl Future<Output = Result<Response>> + MaybeSend + 'a {
    let mut supply = Supply::of(request);
    async move {
        let Some(request) = supply.template_mut() else { return Err(spent()) };
        let plan = match Plan::hands_off(settings, request, extensions) {
            Ok(plan) => plan,
            Err(misuse) => return Err(misused(misuse, request, extensions, &settings.telemetry)),
        };
        let mut run = Run::new(&plan, &settings.telemetry, &mut supply, extensions, next);
        run.watched_start().await
    }
}

/// Carries on with an operation whose first send came back from the lane.
// No `async fn`: what such a one is given it keeps twice.
pub(crate) fn carry_on<'a>(
    light: &'a Light<'a>,
    request: Request,
    begun: &'a Begun,
    first: Box<Sent>,
    extensions: &'a mut Extensions,
    next: Next<'a>,
) -> impl Future<Output = Result<Response>> + MaybeSend + 'a {
    let mut supply = Supply::sent_once(request);
    async move {
        let Some(request) = supply.template() else { return Err(spent()) };
        let plan = Plan::after_the_first(light, request, extensions);
        let mut run = Run::sent_once(&plan, &light.settings.telemetry, &mut supply, begun, extensions, next);
        let mut attempt = {
            // Its box ends here: the operation may wait for long.
            let sent = first;
            // The lane takes no endpoint that has bodies read.
            sent.means_unread(&plan, Earlier::NONE)
        };
        run.came_back(&attempt);
        run.go_on(&mut attempt).await
    }
}

/// There is no request to send. Nobody can have taken it before the first attempt.
fn spent() -> Error {
    RetryError::Misused(Misuse::FactoryFailed(Box::new(ReplayError::Spent))).into()
}

/// One operation on its way.
struct Run<'a> {
    plan: &'a Plan<'a>,
    watched: Watched<'a>,
    next: Next<'a>,
    extensions: &'a mut Extensions,
    supply: &'a mut Supply,
    started: Instant,
    /// The operation's deadline less the share kept for the last look.
    sending_until: Deadline,
    progress: Progress,
    sends: u32,
    /// What inner middlewares sent on their own.
    hidden_sends: u32,
    /// How many sends found an earlier copy still being processed.
    key_in_use: u32,
    /// What sending again does, as far as it is still true.
    effect: Effect,
    /// What was admitted under the key, where its contract guards it.
    guarded: Option<Box<GuardedUse<'a>>>,
    advice: Vec<Advice>,
    probes: u32,
    earlier_probes: u32,
    /// The worst evidence that no probe has cleared.
    evidence: Evidence,
    /// The worst evidence of all attempts, cleared or not: whether the server may know the key.
    key_evidence: Evidence,
    /// Whether a resend followed an attempt whose result is unknown.
    followed_unknown: bool,
    /// What the answers so far said.
    earlier: Earlier,
    hint: Option<Duration>,
    told_time_left: Option<u64>,
    /// What was decided before the first attempt, of an operation that was sent before.
    sent_before: Option<Box<AttemptRecord>>,
    attempts: Vec<AttemptRecord>,
    probe_records: Vec<ProbeRecord>,
}

impl<'a> Run<'a> {
    fn new(plan: &'a Plan<'a>, telemetry: &'a Telemetry, supply: &'a mut Supply, extensions: &'a mut Extensions, next: Next<'a>) -> Self {
        let telemetry = (!plan.is_left_alone()).then_some(telemetry);
        // What an earlier process sent may already have done its work.
        let evidence = if plan.was_sent_before { Evidence::Unknown } else { Evidence::Unprocessed };
        let watched = Watched::new(telemetry, plan.facts(), evidence);
        Self::begun(plan, watched, supply, Instant::now(), evidence, extensions, next)
    }

    /// An operation whose first send came back already.
    fn sent_once(
        plan: &'a Plan<'a>,
        telemetry: &'a Telemetry,
        supply: &'a mut Supply,
        begun: &Begun,
        extensions: &'a mut Extensions,
        next: Next<'a>,
    ) -> Self {
        let watched = begun.watched(telemetry, plan.facts());
        let mut run = Self::begun(plan, watched, supply, begun.started, Evidence::Unprocessed, extensions, next);
        run.sends = 1;
        run.progress = Progress::Sending;
        run
    }

    fn begun(
        plan: &'a Plan<'a>,
        watched: Watched<'a>,
        supply: &'a mut Supply,
        started: Instant,
        evidence: Evidence,
        extensions: &'a mut Extensions,
        next: Next<'a>,
    ) -> Self {
        Self {
            plan,
            watched,
            next,
            extensions,
            supply,
            started,
            sending_until: plan.sending_until(),
            progress: Progress::Open,
            sends: 0,
            hidden_sends: 0,
            key_in_use: 0,
            effect: plan.effect,
            guarded: None,
            advice: Vec::new(),
            probes: 0,
            earlier_probes: 0,
            evidence,
            key_evidence: evidence,
            followed_unknown: plan.was_sent_before,
            earlier: Earlier::NONE,
            hint: None,
            told_time_left: None,
            sent_before: None,
            attempts: Vec::new(),
            probe_records: Vec::new(),
        }
    }

    /// Send, decide, obey, within the span of the operation.
    async fn watched_start(&mut self) -> Result<Response> {
        let span = self.watched.span();
        span.cover(pin!(self.start())).await
    }

    /// Send, decide, obey.
    async fn start(&mut self) -> Result<Response> {
        let first = match self.prepare().await {
            Ok(first) => first,
            Err(unsent) => return self.unsent(unsent),
        };
        let mut attempt = if self.plan.was_sent_before {
            self.supply.hold(first);
            Attempt::of_an_earlier_process(self.started, self.extensions.clone())
        } else {
            // Boxed: while a pause passes, nothing is kept of the attempt before it.
            Box::pin(self.send(first)).await
        };
        self.go_on(&mut attempt).await
    }

    /// Decide, obey, decide again.
    ///
    /// What an earlier process sent stands for an attempt with an unknown result: nothing goes out
    /// before something was decided about it.
    async fn go_on(&mut self, attempt: &mut Attempt) -> Result<Response> {
        let decision = self.decide(attempt);
        match decision {
            Decision::Return if attempt.facts.signal != Signal::Broken => self.answered(attempt),
            Decision::Stop(StopReason::KeyExpired) if self.sends == 0 => self.unsent(Unsent::Misused(Misuse::KeyExpired)),
            Decision::Return | Decision::Stop(_) | Decision::Probe(_) | Decision::Resend(_) => {
                let span = self.watched.span_from_here();
                span.cover(pin!(self.obey(decision, attempt))).await
            }
        }
    }

    /// Obey, decide again.
    async fn obey(&mut self, mut decision: Decision, attempt: &mut Attempt) -> Result<Response> {
        loop {
            match decision {
                Decision::Return if attempt.facts.signal == Signal::Broken => return self.stop(attempt, StopReason::Broken).await,
                Decision::Return => return self.answered(attempt),
                Decision::Stop(reason) => return self.stop(attempt, reason).await,
                Decision::Probe(pause) => match self.probe(attempt, pause).await {
                    Ok(Probed::Open) => {}
                    Ok(Probed::Applied(response)) => return self.reconciled(attempt, response),
                    Err(reason) => return self.stop(attempt, reason).await,
                },
                Decision::Resend(permit) => {
                    if let Err(reason) = self.resend(attempt, permit).await {
                        return self.stop(attempt, reason).await;
                    }
                }
            }
            decision = self.decide(attempt);
        }
    }

    async fn send(&mut self, mut outgoing: Outgoing) -> Attempt {
        self.sends = self.sends.saturating_add(1);
        if let (1, Some(account)) = (self.sends, self.plan.account) {
            account.deposit(self.started);
        }
        if let Some(wanted) = self.plan.headers {
            let key_headers = self.plan.key.as_deref().map_or(&[][..], OperationKey::headers);
            let time = self.plan.attempt_limit.unwrap_or(Duration::MAX).min(self.sending_until.time_left());
            wanted.write(outgoing.headers_mut(), key_headers, self.sends, time, &mut self.told_time_left);
        }
        self.earlier_probes = self.earlier_probes.saturating_add(mem::take(&mut self.probes));
        self.followed_unknown |= self.sends > 1 && self.evidence == Evidence::Unknown;
        self.watched.sending();
        self.progress = Progress::Sending;
        // Another origin does not know the key, so a resend that relies on it may not end up there.
        let relies_on_key = (self.sends > 1 || self.plan.was_sent_before) && self.plan.key.is_some();
        let redirects = if relies_on_key { Redirects::AtHome } else { Redirects::Anywhere };
        let next = self.next.clone();
        let attempt = attempt::send(self.plan, outgoing, self.extensions, next, self.sending_until, self.earlier, redirects).await;
        self.came_back(&attempt);
        attempt
    }

    /// Takes in what an attempt brought.
    fn came_back(&mut self, attempt: &Attempt) {
        self.evidence = self.evidence.max(attempt.facts.evidence);
        self.key_evidence = self.key_evidence.max(attempt.facts.evidence);
        self.watched.attempted(&attempt.facts, self.evidence, self.sending_until);
        self.progress = Progress::Open;
        self.learn(&attempt.facts);
        self.key_in_use = self.key_in_use.saturating_add(u32::from(attempt.facts.signal == Signal::KeyInUse));
        self.earlier = self.earlier.after(attempt.facts.status, self.plan.endpoint.as_ref());
        if let Some(Ok(hint)) = attempt.facts.hint {
            self.hint = Some(hint);
            self.share(attempt, hint);
        }
    }

    fn decide(&mut self, attempt: &Attempt) -> Decision {
        let situation = self.situation(attempt);
        let decision = self.plan.policy.decide(&situation);
        let is_final = self.sends == 1 && !self.plan.was_sent_before && decision == Decision::Return;
        let uneventful = (is_final || self.plan.is_left_alone()) && matches!(attempt.held, Held::Response(_));
        if !uneventful || self.plan.slot.is_some() || self.watched.wants_record() {
            self.record(attempt, &situation, &decision);
        }
        self.watched.decided(self.last_record(), &situation, &decision);
        decision
    }
}
