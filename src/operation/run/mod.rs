//! The loop: send, decide, obey. It holds no opinion about methods, and none about what a status means.
//!
//! Three things stand beside it: [`probing`] asks what became of a write, [`results`] says what the caller gets, [`records`] what the
//! report tells.

mod probing;
mod records;
mod results;

use std::{mem, pin::pin, time::Duration};

use http::{Extensions, Method};
use reqwest::{Request, Response, Url};
use reqwest_middleware::{Next, Result};
use tokio::time::{Instant, sleep_until};

use crate::{
    observe::Watched,
    operation::attempt::{self, Attempt, Held},
    operation::key::OperationKey,
    operation::plan::Plan,
    operation::supply::Supply,
    outcome::error::Misuse,
    outcome::report::{AttemptRecord, ProbeRecord},
    policy::{Decision, Evidence, InvalidHint, ResendPermit, Signal, Situation, StopReason, TooEarly},
    request::deadline::{Deadline, HORIZON},
    response::drain,
    shared::cooldown::HoldsBack,
};

use probing::Probed;

pub(crate) use results::misused;

/// Runs one operation to its end.
pub(crate) async fn run(plan: &Plan<'_>, request: Request, extensions: &mut Extensions, next: Next<'_>) -> Result<Response> {
    let run = Run::new(plan, &request, extensions, next);
    let span = run.watched.span();
    // Pinned where it is: moving the operation into its span would copy all of it.
    let operation = pin!(run.run(request));
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
    sends: u32,
    probes: u32,
    earlier_probes: u32,
    /// The worst evidence that no probe has cleared.
    evidence: Evidence,
    /// Whether a resend followed an attempt whose result is unknown.
    followed_unknown: bool,
    too_early: TooEarly,
    hint: Option<Duration>,
    told_time_left: Option<u64>,
    attempts: Vec<AttemptRecord>,
    probe_records: Vec<ProbeRecord>,
}

impl<'a> Run<'a> {
    fn new(plan: &'a Plan<'a>, request: &Request, extensions: &'a mut Extensions, next: Next<'a>) -> Self {
        let used_before = plan.key.as_ref().is_some_and(OperationKey::was_used_before);
        Self {
            plan,
            watched: Watched::new(plan, request),
            next,
            extensions,
            method: request.method().clone(),
            url: request.url().clone(),
            started: Instant::now(),
            sending_until: plan.sending_until(),
            sends: 0,
            probes: 0,
            earlier_probes: 0,
            // A key that an earlier process used may already have done its work.
            evidence: if used_before { Evidence::Unknown } else { Evidence::Unprocessed },
            followed_unknown: used_before,
            too_early: TooEarly::Unheard,
            hint: None,
            told_time_left: None,
            attempts: Vec::new(),
            probe_records: Vec::new(),
        }
    }

    /// Send, decide, obey.
    async fn run(mut self, request: Request) -> Result<Response> {
        if self.plan.deadline.time_left().is_zero() {
            return self.nothing_sent();
        }
        if self.plan.cooldown.is_some() {
            if let Err(held_back) = Box::pin(self.cool_down(HoldsBack::FirstSendsToo)).await {
                return self.held_back(held_back);
            }
            if self.plan.key.as_ref().is_some_and(OperationKey::was_used_before) && self.plan.effect.key_has_lapsed(self.key_age()) {
                return self.unsent(Misuse::KeyExpired);
            }
        }
        let (first, supply) = match Supply::split(request, self.plan, self.extensions) {
            Ok(split) => split,
            Err(error) => return self.unsent(Misuse::FactoryFailed(Box::new(error))),
        };
        // Cooling down and a factory take time as well.
        if self.sending_until.time_left().is_zero() {
            return self.nothing_sent();
        }
        if let Some(account) = self.plan.account {
            account.deposit(self.started);
        }
        let attempt = self.send(first).await;
        match self.decide(&attempt, &supply) {
            Decision::Return if attempt.signal != Signal::Broken => self.answered(attempt),
            // Boxed: an operation without trouble does not carry the rest around.
            decision => Box::pin(self.obey(decision, attempt, supply)).await,
        }
    }

    /// Decide, obey, decide again.
    async fn obey(mut self, mut decision: Decision, mut attempt: Attempt, mut supply: Supply) -> Result<Response> {
        loop {
            match decision {
                Decision::Return if attempt.signal == Signal::Broken => return self.stop(attempt, &supply, StopReason::Broken).await,
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

    async fn send(&mut self, mut request: Request) -> Attempt {
        self.sends = self.sends.saturating_add(1);
        if let Some(wanted) = self.plan.headers {
            let key_headers = self.plan.key.as_ref().map_or(&[][..], OperationKey::headers);
            wanted.write(request.headers_mut(), key_headers, self.sends, self.plan.deadline.time_left(), &mut self.told_time_left);
        }
        self.earlier_probes = self.earlier_probes.saturating_add(mem::take(&mut self.probes));
        self.followed_unknown |= self.sends > 1 && self.evidence == Evidence::Unknown;
        self.watched.sending();
        let attempt = attempt::send(self.plan, request, self.extensions, self.next.clone(), self.sending_until, self.too_early).await;
        self.evidence = self.evidence.max(attempt.evidence);
        self.watched.attempted(&attempt, self.evidence, self.sending_until);
        self.too_early = self.too_early.after(attempt.status);
        if let Some(Ok(hint)) = attempt.hint {
            self.hint = Some(hint);
            self.share(&attempt, hint);
        }
        attempt
    }

    fn decide(&mut self, attempt: &Attempt, supply: &Supply) -> Decision {
        let situation = self.situation(attempt, supply);
        let decision = self.plan.policy.decide(&situation);
        let is_final = self.sends == 1 && decision == Decision::Return;
        let uneventful = (is_final || self.plan.is_left_alone()) && matches!(attempt.held, Held::Response(_));
        if !uneventful || self.plan.wants_record() {
            self.record(attempt, &situation, &decision);
        }
        self.watched.decided(&self.method, &self.url, self.attempts.last(), &situation, &decision);
        decision
    }

    fn situation(&self, attempt: &Attempt, supply: &Supply) -> Situation {
        let mut situation = Situation::new(self.plan.effect, attempt.signal, self.evidence);
        situation.hint = self.asked_wait(attempt);
        situation.sends = self.sends;
        situation.probes = self.probes;
        situation.earlier_probes = self.earlier_probes;
        situation.elapsed = self.started.elapsed();
        situation.key_age = self.key_age();
        situation.time_left = self.sending_until.time_left();
        situation.body = supply.body();
        situation.draw = self.plan.draw();
        situation
    }

    fn key_age(&self) -> Duration {
        self.plan.key.as_ref().map_or(Duration::ZERO, |key| key.age_after(self.started.elapsed()))
    }

    /// The longer of what the server asked of this operation and what it asked of the others.
    fn asked_wait(&self, attempt: &Attempt) -> Option<std::result::Result<Duration, InvalidHint>> {
        let shared = self.plan.cooldown.and_then(|place| place.wait(HoldsBack::Resends, attempt.waits_from));
        match (attempt.hint, shared) {
            (Some(Ok(own)), Some(shared)) => Some(Ok(own.max(shared))),
            (None, Some(shared)) => Some(Ok(shared)),
            (own, _) => own,
        }
    }

    /// One resend: the budget pays, the old connection goes back, the pause passes, the permit is spent.
    async fn resend(&mut self, mut attempt: Attempt, supply: &mut Supply, permit: ResendPermit) -> Resent {
        let Some(token) = self.plan.withdraw() else {
            return Resent::Stopped(attempt, StopReason::BudgetSpent);
        };
        self.watched.resending(&permit, self.sending_until);
        if let Err(reason) = self.wait(&mut attempt, permit.pause()).await {
            return Resent::Stopped(attempt, reason);
        }
        if !permit.still_holds(self.plan.effect, self.key_age()) {
            return Resent::Stopped(attempt, StopReason::KeyExpired);
        }
        let is_last = self.sends.saturating_add(1) >= self.plan.policy.attempts() && !self.plan.has_probe();
        let request = if is_last { supply.resend_last(permit) } else { supply.resend(permit) };
        match request {
            // The factory took what was left.
            Ok(_) if self.sending_until.time_left().is_zero() => Resent::Stopped(attempt, StopReason::DeadlineTooNear),
            Ok(request) => {
                token.spend();
                // Boxed: while a pause passes, nothing is kept for the attempt after it.
                Resent::Sent(Box::pin(self.send(request)).await)
            }
            Err(error) => {
                attempt.held = Held::Unsupplied(Box::new(error));
                Resent::Stopped(attempt, StopReason::BodyConsumed)
            }
        }
    }

    /// Gives the connection of a response back and lets the pause pass, counted from the end of the attempt or of the last probe.
    ///
    /// # Errors
    /// The limit that leaves no time for an attempt after all.
    async fn wait(&self, attempt: &mut Attempt, pause: Duration) -> std::result::Result<(), StopReason> {
        let until = reach(attempt.waits_from, pause)?;
        if matches!(attempt.held, Held::Response(_)) {
            if let Held::Response(response) = mem::replace(&mut attempt.held, Held::GivenBack) {
                self.watched.drained(drain::give_back(response, self.sending_until.earlier(Deadline::at(until))).await);
            }
        }
        sleep_until(until).await;
        self.cool_down(HoldsBack::Resends).await.map_err(|held_back| held_back.limit)?;
        self.plan.policy.still_worth_sending(self.sending_until.time_left())
    }

    /// Waits out what others were told meanwhile, as far as it fits.
    ///
    /// # Errors
    /// The wait, and the limit before which it would not end.
    async fn cool_down(&self, sends: HoldsBack) -> std::result::Result<(), HeldBack> {
        let Some(place) = self.plan.cooldown else { return Ok(()) };
        while let Some(wait) = place.wait(sends, Instant::now()) {
            let hold_back = self.plan.policy.hold_back(wait, self.started.elapsed(), self.sending_until.time_left(), self.plan.draw());
            sleep_until(hold_back.and_then(|pause| reach(Instant::now(), pause)).map_err(|limit| HeldBack { wait, limit })?).await;
        }
        Ok(())
    }

    /// Tells the others of its scope what this operation was told, as far as it concerns them.
    fn share(&self, attempt: &Attempt, hint: Duration) {
        let concerns_others = self.plan.policy.concerns_others(attempt.signal);
        // Forever is a wait, too.
        let until = attempt.ended.checked_add(hint.min(HORIZON));
        if let (true, Some(place), Some(until)) = (concerns_others, self.plan.cooldown, until) {
            place.note(until);
        }
    }
}

/// When a pause is over.
///
/// # Errors
/// It lies beyond the horizon of the timers. Deadlines that far are none, so only a policy without a window can have allowed it.
fn reach(from: Instant, pause: Duration) -> std::result::Result<Instant, StopReason> {
    from.checked_add(pause).and_then(|until| Deadline::at(until).instant()).ok_or(StopReason::WindowClosed)
}

/// What came of a resend.
enum Resent {
    Sent(Attempt),
    Stopped(Attempt, StopReason),
}

/// What a shared cool-down asks for, and the limit that it does not fit.
struct HeldBack {
    wait: Duration,
    limit: StopReason,
}
