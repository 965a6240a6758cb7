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

use http::{Extensions, Method};
use reqwest::{Request, Response, Url};
use reqwest_middleware::{Next, Result};
use tokio::time::Instant;

use crate::{
    observe::{Telemetry, Watched},
    operation::attempt::{self, Attempt, Earlier, Held},
    operation::key::OperationKey,
    operation::plan::Plan,
    operation::supply::{Outgoing, Supply},
    outcome::advice::Advice,
    outcome::error::Misuse,
    outcome::report::{AttemptRecord, ProbeRecord},
    policy::{Decision, Effect, Evidence, Signal, StopReason},
    proof::witness::Redirects,
    request::deadline::Deadline,
    shared::reuse_guard::GuardedUse,
};

use giving_up::Progress;
use preparing::Unsent;
use probing::Probed;
use resending::Resent;

pub(crate) use results::misused;

/// Carries one operation out, to its end.
pub(crate) async fn carry_out(
    plan: &Plan<'_>,
    telemetry: &Telemetry,
    request: Request,
    extensions: &mut Extensions,
    next: Next<'_>,
) -> Result<Response> {
    let run = Run::new(plan, telemetry, &request, extensions, next);
    let span = run.watched.span();
    // Pinned where it is: moving the operation into its span would copy all of it.
    let operation = pin!(run.start(request));
    span.cover(operation).await
}

/// One operation on its way.
struct Run<'a> {
    plan: &'a Plan<'a>,
    watched: Watched<'a>,
    next: Next<'a>,
    extensions: &'a mut Extensions,
    method: Method,
    url: Url,
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
    sent_before: Option<AttemptRecord>,
    attempts: Vec<AttemptRecord>,
    probe_records: Vec<ProbeRecord>,
}

impl<'a> Run<'a> {
    fn new(plan: &'a Plan<'a>, telemetry: &'a Telemetry, request: &Request, extensions: &'a mut Extensions, next: Next<'a>) -> Self {
        let telemetry = (!plan.is_left_alone()).then_some(telemetry);
        // What an earlier process sent may already have done its work.
        let evidence = if plan.was_sent_before { Evidence::Unknown } else { Evidence::Unprocessed };
        Self {
            plan,
            watched: Watched::new(telemetry, plan.facts(), evidence, request),
            next,
            extensions,
            method: request.method().clone(),
            url: request.url().clone(),
            started: Instant::now(),
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

    /// Send, decide, obey.
    async fn start(mut self, request: Request) -> Result<Response> {
        let (first, supply) = match self.prepare(request).await {
            Ok(prepared) => prepared,
            Err(unsent) => return self.unsent(unsent),
        };
        if self.plan.was_sent_before {
            return Box::pin(self.carry_on(first, supply)).await;
        }
        let attempt = self.send(first).await;
        match self.decide(&attempt, &supply) {
            Decision::Return if attempt.facts.signal != Signal::Broken => self.answered(attempt),
            // Boxed: an operation without trouble does not carry the rest around.
            decision @ (Decision::Return | Decision::Stop(_) | Decision::Probe(_) | Decision::Resend(_)) => {
                Box::pin(self.obey(decision, attempt, supply)).await
            }
        }
    }

    /// What an earlier process sent stands for an attempt with an unknown result: nothing goes out
    /// before something was decided about it.
    async fn carry_on(mut self, first: Outgoing, mut supply: Supply) -> Result<Response> {
        supply.hold(first);
        let earlier = Attempt::of_an_earlier_process(self.started, self.extensions.clone());
        match self.decide(&earlier, &supply) {
            Decision::Stop(StopReason::KeyExpired) => self.unsent(Unsent::Misused(Misuse::KeyExpired)),
            decision @ (Decision::Return | Decision::Stop(_) | Decision::Probe(_) | Decision::Resend(_)) => {
                self.obey(decision, earlier, supply).await
            }
        }
    }

    /// Decide, obey, decide again.
    async fn obey(mut self, mut decision: Decision, mut attempt: Attempt, mut supply: Supply) -> Result<Response> {
        loop {
            match decision {
                Decision::Return if attempt.facts.signal == Signal::Broken => return self.stop(attempt, &supply, StopReason::Broken).await,
                Decision::Return => return self.answered(attempt),
                Decision::Stop(reason) => return self.stop(attempt, &supply, reason).await,
                Decision::Probe(pause) => match self.probe(attempt, &supply, pause).await {
                    Probed::Open(open) => attempt = open,
                    Probed::Applied(attempt, response) => return self.reconciled(attempt, response),
                    Probed::Stopped(attempt, reason) => return self.stop(attempt, &supply, reason).await,
                },
                Decision::Resend(permit) => match self.resend(attempt, &mut supply, permit).await {
                    Resent::Sent(sent) => attempt = sent,
                    Resent::Stopped(attempt, reason) => return self.stop(attempt, &supply, reason).await,
                },
            }
            decision = self.decide(&attempt, &supply);
        }
    }

    async fn send(&mut self, mut outgoing: Outgoing) -> Attempt {
        self.sends = self.sends.saturating_add(1);
        if let (1, Some(account)) = (self.sends, self.plan.account) {
            account.deposit(self.started);
        }
        if let Some(wanted) = self.plan.headers {
            let key_headers = self.plan.key.as_ref().map_or(&[][..], OperationKey::headers);
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
        self.evidence = self.evidence.max(attempt.facts.evidence);
        self.key_evidence = self.key_evidence.max(attempt.facts.evidence);
        self.watched.attempted(&attempt.facts, self.evidence, self.sending_until);
        self.progress = Progress::Open;
        self.learn(&attempt.facts);
        self.key_in_use = self.key_in_use.saturating_add(u32::from(attempt.facts.signal == Signal::KeyInUse));
        self.earlier = self.earlier.after(attempt.facts.status, self.plan.endpoint.as_ref());
        if let Some(Ok(hint)) = attempt.facts.hint {
            self.hint = Some(hint);
            self.share(&attempt, hint);
        }
        attempt
    }

    fn decide(&mut self, attempt: &Attempt, supply: &Supply) -> Decision {
        let situation = self.situation(attempt, supply);
        let decision = self.plan.policy.decide(&situation);
        let is_final = self.sends == 1 && !self.plan.was_sent_before && decision == Decision::Return;
        let uneventful = (is_final || self.plan.is_left_alone()) && matches!(attempt.held, Held::Response(_));
        if !uneventful || self.plan.slot.is_some() || self.watched.wants_record() {
            self.record(attempt, &situation, &decision);
        }
        self.watched.decided(&self.method, &self.url, self.last_record(), &situation, &decision);
        decision
    }
}
