//! The loop: send, decide, obey. It holds no opinion about statuses or methods.

use std::{
    borrow::Cow,
    io, mem,
    time::{Duration, SystemTime},
};

use http::{Extensions, HeaderName, Method, StatusCode};
use reqwest::{Request, Response, Url};
use reqwest_middleware::{Next, Result};
use tokio::time::{Instant, sleep_until, timeout_at};

use crate::{
    attempt::{self, Attempt, Held, TooEarly},
    body,
    budget::BudgetAccount,
    deadline::Deadline,
    drain,
    endpoint::{DeadlineCovers, Endpoint},
    error::{Failure, FailureSource, Misuse, RetryError},
    key_source::OperationKey,
    observe::{self, Observers},
    origin::Origin,
    policy::{BodySupply, Decision, Draw, Effect, Evidence, ResendPermit, RetryPolicy, Signal, Situation, StopReason},
    probe::{Operation, ProbeVerdict},
    report::{AttemptRecord, Found, Outcome, ProbeRecord, Record, ReportSlot, RetryReport, TimeLimit},
    supply::Supply,
    witness::Watch,
};

/// Everything that was settled before the first attempt.
pub(crate) struct Plan {
    pub(crate) policy: RetryPolicy,
    pub(crate) effect: Effect,
    pub(crate) is_write: bool,
    pub(crate) deadline: Deadline,
    pub(crate) deadline_covers: DeadlineCovers,
    pub(crate) attempt_limit: Option<Duration>,
    /// Present on marked requests.
    pub(crate) endpoint: Option<Endpoint>,
    pub(crate) key: Option<OperationKey>,
    pub(crate) account: BudgetAccount,
    pub(crate) slot: Option<ReportSlot>,
    pub(crate) observers: Observers,
    #[cfg(feature = "testing")]
    pub(crate) draws: Option<crate::testing::Draws>,
}

impl Plan {
    /// The body is watched only where the verdict matters: writes that nothing else protects.
    pub(crate) fn watch(&self) -> Watch {
        match self.effect {
            Effect::UnprotectedWrite | Effect::ProbedWrite => Watch::Body,
            Effect::NeverResend if self.is_write => Watch::Body,
            Effect::Read | Effect::IdempotentWrite | Effect::KeyedWrite { .. } | Effect::NeverResend => Watch::Errors,
        }
    }

    /// Whether any attempt can follow the first.
    pub(crate) fn may_resend(&self) -> bool {
        self.policy.attempts() > 1 && self.effect != Effect::NeverResend
    }

    pub(crate) fn has_probe(&self) -> bool {
        self.endpoint.as_ref().is_some_and(|endpoint| endpoint.probe().is_some())
    }

    fn draw(&self) -> Draw {
        #[cfg(feature = "testing")]
        if let Some(draws) = &self.draws {
            return draws.next();
        }
        Draw::new(rand::random())
    }
}

/// Runs one operation to its end.
pub(crate) async fn run(plan: Plan, request: Request, extensions: &mut Extensions, next: Next<'_>) -> Result<Response> {
    let span = observe::operation(&plan, request.method(), request.url());
    observe::within(span, Run::new(&plan, &request, extensions, next).run(request)).await
}

/// One operation on its way.
struct Run<'a> {
    plan: &'a Plan,
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
    attempts: Vec<AttemptRecord>,
    probe_records: Vec<ProbeRecord>,
}

impl<'a> Run<'a> {
    fn new(plan: &'a Plan, request: &Request, extensions: &'a mut Extensions, next: Next<'a>) -> Self {
        let used_before = plan.key.as_ref().is_some_and(OperationKey::was_used_before);
        Self {
            plan,
            next,
            extensions,
            method: request.method().clone(),
            url: request.url().clone(),
            started: Instant::now(),
            sending_until: sending_until(plan),
            sends: 0,
            probes: 0,
            earlier_probes: 0,
            // A key that an earlier process used may already have done its work.
            evidence: if used_before { Evidence::Unknown } else { Evidence::Unprocessed },
            followed_unknown: used_before,
            too_early: TooEarly::Unheard,
            hint: None,
            attempts: Vec::new(),
            probe_records: Vec::new(),
        }
    }

    /// Send, decide, obey.
    async fn run(mut self, request: Request) -> Result<Response> {
        if self.plan.deadline.time_left().is_zero() {
            return self.nothing_sent();
        }
        let (first, mut supply) = match Supply::split(request, self.plan, self.extensions) {
            Ok(split) => split,
            Err(error) => return self.misused(Misuse::FactoryFailed(error)),
        };
        self.plan.account.deposit(self.started);
        let mut attempt = self.send(first).await;
        loop {
            match self.decide(&attempt, &supply) {
                Decision::Return => {
                    let reason = if attempt.signal == Signal::Broken { StopReason::Broken } else { StopReason::AnswerIsFinal };
                    return self.stop(attempt, &supply, reason).await;
                }
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
        }
    }

    async fn send(&mut self, request: Request) -> Attempt {
        self.sends = self.sends.saturating_add(1);
        self.earlier_probes = self.earlier_probes.saturating_add(mem::take(&mut self.probes));
        self.followed_unknown |= self.sends > 1 && self.evidence == Evidence::Unknown;
        let attempt =
            attempt::send(self.plan, &self.url, request, self.extensions, self.next.clone(), self.sending_until, self.too_early).await;
        self.evidence = self.evidence.max(attempt.evidence);
        if attempt.status == Some(StatusCode::TOO_EARLY) {
            self.too_early = TooEarly::Heard;
        }
        if let Some(Ok(hint)) = attempt.hint {
            self.hint = Some(hint);
        }
        attempt
    }

    fn decide(&mut self, attempt: &Attempt, supply: &Supply) -> Decision {
        let situation = self.situation(attempt, supply);
        let decision = self.plan.policy.decide(&situation);
        let uneventful = self.sends == 1 && decision == Decision::Return && matches!(attempt.held, Held::Response(_));
        if !uneventful || self.plan.slot.is_some() {
            self.record(attempt, &situation, &decision);
        }
        observe::decided(self.plan, &self.method, &self.url, attempt, &situation, &decision);
        decision
    }

    fn situation(&self, attempt: &Attempt, supply: &Supply) -> Situation {
        let mut situation = Situation::new(self.plan.effect, attempt.signal, self.evidence);
        situation.hint = attempt.hint;
        situation.sends = self.sends;
        situation.probes = self.probes;
        situation.earlier_probes = self.earlier_probes;
        situation.elapsed = self.started.elapsed();
        situation.key_age = self.plan.key.as_ref().map_or(Duration::ZERO, |key| key.age_after(situation.elapsed));
        situation.time_left = self.sending_until.time_left();
        situation.body = supply.body();
        situation.draw = self.plan.draw();
        situation
    }

    /// One resend: the budget pays, the old connection goes back, the pause passes, the permit is spent.
    async fn resend(&mut self, mut attempt: Attempt, supply: &mut Supply, permit: ResendPermit) -> Resent {
        let Some(token) = self.plan.account.withdraw(Instant::now(), self.plan.draw()) else {
            return Resent::Stopped(attempt, StopReason::BudgetSpent);
        };
        self.wait(&mut attempt, permit.pause()).await;
        if !self.has_time_for_an_attempt() {
            return Resent::Stopped(attempt, StopReason::DeadlineTooNear);
        }
        match supply.next(permit, self.sends < self.plan.policy.attempts().saturating_sub(1)) {
            Ok(request) => {
                token.spend();
                Resent::Sent(self.send(request).await)
            }
            Err(error) => {
                attempt.held = Held::Unsupplied(error);
                Resent::Stopped(attempt, StopReason::BodyConsumed)
            }
        }
    }

    /// One probe: the budget pays, the old connection goes back, the pause passes, the probe is asked.
    async fn probe(&mut self, mut attempt: Attempt, supply: &Supply, pause: Duration) -> Probed {
        let Some(token) = self.plan.account.withdraw(Instant::now(), self.plan.draw()) else {
            return Probed::Stopped(attempt, StopReason::BudgetSpent);
        };
        self.wait(&mut attempt, pause).await;
        if !self.has_time_for_an_attempt() {
            return Probed::Stopped(attempt, StopReason::DeadlineTooNear);
        }
        token.spend();
        self.probes = self.probes.saturating_add(1);
        let settles = attempt.ended;
        match self.look(settles, supply, self.plan.deadline).await {
            Look::Applied(response) => Probed::Applied(attempt, response),
            Look::Absent => {
                self.evidence = Evidence::Unprocessed;
                self.followed_unknown = false;
                attempt.signal = Signal::ProbedAbsent;
                attempt.hint = None;
                Probed::Open(attempt)
            }
            Look::InProgress { settled_in } => {
                // Asking before the endpoint has settled could only hear the same again.
                attempt.hint = settled_in.map(Ok);
                Probed::Open(attempt)
            }
            Look::Undecided => Probed::Stopped(attempt, StopReason::ProbeUndecided),
        }
    }

    /// Gives the connection of a response back and lets the pause pass, counted from the end of the attempt or of the last probe.
    async fn wait(&mut self, attempt: &mut Attempt, pause: Duration) {
        let from = self.probe_records.last().filter(|_| self.probes > 0).map_or(attempt.ended, |probe| self.started + probe.ended());
        let until = Deadline::at_after(from, pause);
        if matches!(attempt.held, Held::Response(_)) {
            if let Held::Response(response) = mem::replace(&mut attempt.held, Held::GivenBack) {
                observe::drained(drain::give_back(response, self.sending_until.earlier(until)).await);
            }
        }
        if let Some(instant) = until.instant() {
            sleep_until(instant).await;
        }
    }

    fn has_time_for_an_attempt(&self) -> bool {
        let left = self.sending_until.time_left();
        !left.is_zero() && left >= self.plan.policy.least_attempt()
    }

    /// Asks the probe once.
    async fn look(&mut self, last_ended: Instant, supply: &Supply, until: Deadline) -> Look {
        let (Some(endpoint), Some(request)) = (self.plan.endpoint.as_ref(), supply.template()) else { return Look::Undecided };
        let Some(probe) = endpoint.probe() else { return Look::Undecided };
        let asked = Instant::now();
        let key_headers: &[HeaderName] = self.plan.key.as_ref().map_or(&[], OperationKey::headers);
        let operation = Operation {
            request,
            extensions: self.extensions,
            key: self.plan.key.as_ref().map(OperationKey::key),
            key_headers,
            attempts: &self.attempts,
            deadline: until,
            next: self.next.clone(),
        };
        let verdict = match until.instant() {
            Some(instant) => timeout_at(instant, probe.look_up(&operation)).await.unwrap_or(ProbeVerdict::Undecided),
            None => probe.look_up(&operation).await,
        };
        let unsettled = endpoint.settling_time().saturating_sub(last_ended.elapsed());
        let look = match verdict {
            ProbeVerdict::Applied(response) => Look::Applied(response),
            ProbeVerdict::Absent if unsettled.is_zero() => Look::Absent,
            ProbeVerdict::Absent => Look::InProgress { settled_in: Some(unsettled) },
            ProbeVerdict::InProgress => Look::InProgress { settled_in: None },
            ProbeVerdict::Undecided => Look::Undecided,
        };
        self.probe_records.push(ProbeRecord {
            after_attempt: self.sends,
            started: asked.saturating_duration_since(self.started),
            took: asked.elapsed(),
            found: look.found(),
        });
        observe::probed(self.plan, &self.method, &self.url, self.probe_records.last());
        look
    }

    /// Ends the operation: an unknown write that can be asked about is asked about once more, free of the budget.
    async fn stop(mut self, attempt: Attempt, supply: &Supply, reason: StopReason) -> Result<Response> {
        let open = reason != StopReason::AnswerIsFinal && reason != StopReason::ProbeUndecided;
        if open && self.plan.is_write && self.evidence == Evidence::Unknown && self.plan.has_probe() {
            let until = self.last_look_until();
            match self.look(attempt.ended, supply, until).await {
                Look::Applied(response) => return self.reconciled(attempt, response),
                Look::Absent => self.evidence = Evidence::Unprocessed,
                Look::InProgress { .. } | Look::Undecided => {}
            }
        }
        self.finish(attempt, reason)
    }

    /// The deadline itself, whose last tenth was kept free; a tenth of the window where there is none.
    fn last_look_until(&self) -> Deadline {
        if self.plan.deadline.instant().is_some() { self.plan.deadline } else { Deadline::after(self.plan.policy.window() / 10) }
    }

    /// The probe found the operation applied: its response is the answer.
    fn reconciled(self, attempt: Attempt, response: Response) -> Result<Response> {
        let report = self.report(&attempt, StopReason::AnswerIsFinal, Outcome::Reconciled);
        self.hand_back(attempt.extensions, response, Some(report))
    }

    /// Every cell of the results table.
    fn finish(self, attempt: Attempt, reason: StopReason) -> Result<Response> {
        let outcome = self.outcome(&attempt, reason);
        let quiet = self.attempts.is_empty() && matches!(attempt.held, Held::Response(_));
        if quiet {
            observe::ended(self.plan, &self.method, &self.url, reason, outcome, self.sends);
            let Held::Response(response) = attempt.held else { return self.nothing_sent() };
            return self.hand_back(attempt.extensions, response, None);
        }
        let report = self.report(&attempt, reason, outcome);
        let status = attempt.status;
        let marked_write = self.plan.is_write && self.plan.endpoint.is_some();
        let uneventful = self.sends <= 1 && reason == StopReason::AnswerIsFinal;
        let by_evidence = |source| {
            let failure = Failure::new(report.clone(), self.key(), status, source);
            match self.evidence {
                Evidence::Unprocessed => RetryError::Unprocessed(failure),
                Evidence::Unknown => RetryError::OutcomeUnknown(failure),
            }
        };
        let plain = || Failure::new(report.clone(), self.key(), status, None);
        let error = match attempt.held {
            Held::Response(response) => {
                self.fill(&report);
                let shown = (!uneventful).then_some(report);
                return self.hand_back(attempt.extensions, response, shown);
            }
            Held::Error(error @ reqwest_middleware::Error::Middleware(_)) => error,
            Held::Error(reqwest_middleware::Error::Reqwest(error)) if marked_write => by_evidence(Some(FailureSource::Transport(error))).into(),
            Held::Error(error @ reqwest_middleware::Error::Reqwest(_)) => error,
            Held::TimedOut(_) | Held::GivenBack if marked_write => by_evidence(None).into(),
            Held::TimedOut(TimeLimit::Deadline) if self.plan.is_write && self.evidence == Evidence::Unknown => by_evidence(None).into(),
            Held::TimedOut(TimeLimit::Attempt) => RetryError::AttemptTimedOut(plain()).into(),
            Held::TimedOut(TimeLimit::Deadline | TimeLimit::Client) | Held::GivenBack => RetryError::DeadlineExceeded(plain()).into(),
            Held::Unsupplied(error) => by_evidence(Some(FailureSource::Supply(error))).into(),
            Held::BodyLost(cause) if marked_write && matches!(attempt.signal, Signal::BodyLost(_)) => {
                RetryError::BodyLost(Failure::new(report.clone(), self.key(), status, cause.ok().map(FailureSource::Transport))).into()
            }
            Held::BodyLost(cause) if marked_write => by_evidence(cause.ok().map(FailureSource::Transport)).into(),
            Held::BodyLost(Ok(error)) => error.into(),
            Held::BodyLost(Err(TimeLimit::Attempt)) => RetryError::AttemptTimedOut(plain()).into(),
            Held::BodyLost(Err(TimeLimit::Deadline | TimeLimit::Client)) => RetryError::DeadlineExceeded(plain()).into(),
        };
        self.fill(&report);
        *self.extensions = attempt.extensions;
        Err(error)
    }

    /// What is known. A read has no effect that could be unknown, so its answer is an answer.
    fn outcome(&self, attempt: &Attempt, reason: StopReason) -> Outcome {
        let echo = matches!(
            attempt.status,
            Some(StatusCode::NOT_FOUND | StatusCode::CONFLICT | StatusCode::GONE | StatusCode::PRECONDITION_FAILED)
        );
        let answered = attempt.status.is_some();
        match (answered, reason) {
            (true, StopReason::AnswerIsFinal) if echo && self.followed_unknown && self.plan.is_write => Outcome::AnsweredAfterUnknown,
            (true, StopReason::AnswerIsFinal) => Outcome::Answered,
            (true, _) if !self.plan.is_write => Outcome::Answered,
            _ if self.evidence == Evidence::Unprocessed => Outcome::Unprocessed,
            _ => Outcome::Unknown,
        }
    }
}
// (continued)
impl Run<'_> {
    /// The deadline had passed before anything could be sent.
    fn nothing_sent(self) -> Result<Response> {
        let report = self.report_of(StopReason::DeadlineTooNear, self.outcome_of_nothing(), false);
        self.fill(&report);
        Err(RetryError::DeadlineExceeded(Failure::new(report, self.key(), None, None)).into())
    }

    /// Nothing was sent, because the request cannot be.
    fn misused(self, misuse: Misuse) -> Result<Response> {
        self.fill(&self.report_of(StopReason::Misused, self.outcome_of_nothing(), false));
        Err(RetryError::Misused(misuse).into())
    }

    /// Nothing was sent now; with a key that was used before, that says nothing about then.
    fn outcome_of_nothing(&self) -> Outcome {
        match self.evidence {
            Evidence::Unprocessed => Outcome::Unprocessed,
            Evidence::Unknown => Outcome::Unknown,
        }
    }

    fn hand_back(self, extensions: Extensions, mut response: Response, report: Option<RetryReport>) -> Result<Response> {
        *self.extensions = extensions;
        if let Some(report) = report {
            self.plan.slot.iter().for_each(|slot| slot.fill(report.clone()));
            response.extensions_mut().insert(report);
        }
        Ok(match self.plan.deadline_covers {
            DeadlineCovers::Body => body::bounded(response, self.plan.deadline),
            DeadlineCovers::Head => response,
        })
    }
}
