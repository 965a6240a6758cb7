//! The loop: send, decide, obey. It holds no opinion about statuses or methods.

use std::{mem, time::Duration};

use http::{Extensions, HeaderName, Method, StatusCode};
use reqwest::{Request, Response, Url};
use reqwest_middleware::{Error, Next, Result};
use tokio::time::{Instant, sleep_until, timeout_at};

use crate::{
    attempt::{self, Attempt, Held, TooEarly},
    attempt_headers::AttemptHeaders,
    body,
    budget::{BudgetAccount, Withdrawal},
    cooldown::{CooldownPlace, HoldsBack},
    correlation::CorrelationId,
    deadline::Deadline,
    drain,
    endpoint::{DeadlineCovers, Endpoint},
    error::{Failure, FailureSource, Misuse, RetryError},
    observe::{End, Telemetry, Watched},
    operation_key::OperationKey,
    origin::Origin,
    policy::{
        Decision, Draw, Effect, Evidence, IdempotencyKey, InvalidHint, KeyAnswer, ResendPermit, RetryPolicy, Signal, Situation, StopReason,
    },
    probe::{Operation, ProbeVerdict},
    report::{AttemptRecord, Found, Outcome, ProbeRecord, Record, ReportSlot, RetryReport, TimeLimit},
    supply::Supply,
    vendor_hints::HintSources,
    witness::Watch,
};

/// Everything that was settled before the first attempt.
pub(crate) struct Plan<'a> {
    pub(crate) policy: RetryPolicy,
    pub(crate) effect: Effect,
    pub(crate) is_write: bool,
    pub(crate) deadline: Deadline,
    pub(crate) deadline_covers: DeadlineCovers,
    pub(crate) attempt_limit: Option<Duration>,
    /// Present on marked requests.
    pub(crate) endpoint: Option<Endpoint>,
    pub(crate) key: Option<OperationKey>,
    /// Absent on requests that are left alone.
    pub(crate) account: Option<BudgetAccount<'a>>,
    pub(crate) slot: Option<ReportSlot>,
    pub(crate) hints: HintSources,
    pub(crate) cooldown: Option<CooldownPlace<'a>>,
    pub(crate) headers: Option<&'a AttemptHeaders>,
    /// Sent and logged alike on every attempt.
    pub(crate) correlation: Option<CorrelationId>,
    /// Absent on requests that are left alone.
    pub(crate) telemetry: Option<&'a Telemetry>,
    #[cfg(feature = "testing")]
    pub(crate) draws: Option<crate::testing::Draws>,
}

impl Plan<'_> {
    /// The body is watched where the verdict matters: what a failed read proves changes nothing, and a watched body keeps reqwest from
    /// resending what an HTTP/2 server refused, which is the client's own affair where a request is left alone.
    pub(crate) fn watch(&self) -> Watch {
        if self.is_write && !self.is_left_alone() { Watch::Body } else { Watch::Errors }
    }

    /// Whether any attempt can follow the first.
    pub(crate) fn may_resend(&self) -> bool {
        self.policy.attempts() > 1 && self.effect != Effect::NeverResend
    }

    /// Strictly opt-in, and nothing named the request: only its slot is told.
    fn is_left_alone(&self) -> bool {
        self.account.is_none()
    }

    pub(crate) fn has_probe(&self) -> bool {
        self.endpoint.as_ref().is_some_and(|endpoint| endpoint.probe().is_some())
    }

    /// Whether somebody will be told about an operation even if it is uneventful.
    fn wants_record(&self) -> bool {
        self.slot.is_some() || self.telemetry.is_some_and(Telemetry::wants_records)
    }

    /// Takes the token for one resend or probe; `None`: the budget is spent.
    fn withdraw(&self) -> Option<Withdrawal> {
        self.account.and_then(|account| account.withdraw(Instant::now(), self.draw()))
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
pub(crate) fn run<'a>(
    plan: &'a Plan<'a>,
    request: Request,
    extensions: &'a mut Extensions,
    next: Next<'a>,
) -> impl Future<Output = Result<Response>> + 'a {
    let run = Run::new(plan, &request, extensions, next);
    let span = run.watched.span();
    span.cover(run.run(request))
}

/// The error of a request that was used wrongly: nothing was sent, and a report without attempts says so.
pub(crate) fn misused(misuse: Misuse, request: &Request, extensions: &Extensions, telemetry: &Telemetry) -> Error {
    let report = RetryReport::new(Record {
        method: request.method().clone(),
        origin: Origin::of(request.url()),
        endpoint: None,
        correlation: extensions.get().cloned(),
        attempts: Vec::new(),
        probes: Vec::new(),
        stop: StopReason::Misused,
        outcome: Outcome::Unprocessed,
        evidence: Evidence::Unprocessed,
        hint: None,
        key_was_sent: false,
        key_answer: None,
        took: Duration::ZERO,
        time_left: Duration::MAX,
    });
    telemetry.misused(&report);
    if let Some(slot) = extensions.get::<ReportSlot>() {
        slot.fill(report);
    }
    RetryError::Misused(misuse).into()
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
            sending_until: sending_until(plan),
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
            if self.plan.key.as_ref().is_some_and(OperationKey::was_used_before) && self.key_has_lapsed() {
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
            wanted.write(request.headers_mut(), self.sends, self.plan.deadline.time_left(), &mut self.told_time_left);
        }
        self.earlier_probes = self.earlier_probes.saturating_add(mem::take(&mut self.probes));
        self.followed_unknown |= self.sends > 1 && self.evidence == Evidence::Unknown;
        self.watched.sending();
        let attempt =
            attempt::send(self.plan, &self.url, request, self.extensions, self.next.clone(), self.sending_until, self.too_early).await;
        self.evidence = self.evidence.max(attempt.evidence);
        self.watched.attempted(&attempt, self.evidence, self.sending_until);
        if attempt.status == Some(StatusCode::TOO_EARLY) {
            self.too_early = TooEarly::Heard;
        }
        if let Some(Ok(hint)) = attempt.hint {
            self.hint = Some(hint);
            self.share(&attempt, hint);
        }
        attempt
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

    /// Tells the others of its scope what this operation was told. A wait for a key in use concerns nobody else.
    fn share(&self, attempt: &Attempt, hint: Duration) {
        let concerns_all = match attempt.signal {
            Signal::Answered(status) => self.plan.policy.statuses().contains(status),
            Signal::Resendable(_) | Signal::Forbidden => true,
            _ => false,
        };
        if let (true, Some(place), Some(until)) = (concerns_all, self.plan.cooldown, attempt.ended.checked_add(hint)) {
            place.note(until);
        }
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

    fn key_has_lapsed(&self) -> bool {
        matches!(self.plan.effect, Effect::KeyedWrite { remembered_for, .. } if self.key_age() >= remembered_for)
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
                Resent::Sent(self.send(request).await)
            }
            Err(error) => {
                attempt.held = Held::Unsupplied(Box::new(error));
                Resent::Stopped(attempt, StopReason::BodyConsumed)
            }
        }
    }

    /// One probe: the budget pays, the old connection goes back, the pause passes, the probe is asked.
    async fn probe(&mut self, mut attempt: Attempt, supply: &Supply, pause: Duration) -> Probed {
        let Some(token) = self.plan.withdraw() else {
            return Probed::Stopped(attempt, StopReason::BudgetSpent);
        };
        self.watched.probing(pause, self.sending_until);
        if let Err(reason) = self.wait(&mut attempt, pause).await {
            return Probed::Stopped(attempt, reason);
        }
        token.spend();
        self.probes = self.probes.saturating_add(1);
        let look = self.look(attempt.ended, supply, self.probe_until()).await;
        attempt.waits_from = Instant::now();
        match look {
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
        let left = self.sending_until.time_left();
        if left.is_zero() || left < self.plan.policy.least_attempt() { Err(StopReason::DeadlineTooNear) } else { Ok(()) }
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
        let record = ProbeRecord {
            after_attempt: self.sends,
            started: asked.saturating_duration_since(self.started),
            took: asked.elapsed(),
            found: look.found(),
        };
        let cleared = matches!(look, Look::Applied(_) | Look::Absent);
        self.watched.probed(&record, if cleared { Evidence::Unprocessed } else { self.evidence });
        self.probe_records.push(record);
        look
    }

    /// Ends the operation: an unknown write that can be asked about is asked about once more, free of the budget.
    async fn stop(mut self, attempt: Attempt, supply: &Supply, reason: StopReason) -> Result<Response> {
        self.forget_unsent();
        if reason != StopReason::ProbeUndecided && self.plan.is_write && self.evidence == Evidence::Unknown && self.plan.has_probe() {
            let until = self.last_look_until();
            match self.look(attempt.ended, supply, until).await {
                Look::Applied(response) => return self.reconciled(attempt, response),
                Look::Absent => self.evidence = Evidence::Unprocessed,
                Look::InProgress { .. } | Look::Undecided => {}
            }
        }
        self.finish(attempt, reason)
    }

    /// The answer is final: no resend could improve it.
    fn answered(mut self, attempt: Attempt) -> Result<Response> {
        if let Some(account) = self.plan.account {
            account.accepted(Instant::now());
        }
        self.forget_unsent();
        self.finish(attempt, StopReason::AnswerIsFinal)
    }

    /// The deadline; where there is none, what is left of the window, so that a probe that hangs cannot hang the operation.
    fn probe_until(&self) -> Deadline {
        let window = || Deadline::after(self.plan.policy.window().saturating_sub(self.started.elapsed()));
        if self.plan.deadline.instant().is_some() { self.plan.deadline } else { window() }
    }

    /// The deadline itself, whose last tenth was kept free; a tenth of the window where there is none.
    fn last_look_until(&self) -> Deadline {
        if self.plan.deadline.instant().is_some() { self.plan.deadline } else { Deadline::after(self.plan.policy.window() / 10) }
    }

    /// The probe found the operation applied: its response is the answer.
    fn reconciled(mut self, attempt: Attempt, response: Response) -> Result<Response> {
        let report = self.report(&attempt, StopReason::AnswerIsFinal, Outcome::Reconciled);
        self.ended(StopReason::AnswerIsFinal, Outcome::Reconciled, Some(&attempt), Some(&report));
        self.hand_back(attempt.extensions, response, Some(report), Shown::Everywhere)
    }

    /// Every cell of the results table.
    fn finish(mut self, mut attempt: Attempt, reason: StopReason) -> Result<Response> {
        let outcome = self.outcome(&attempt, reason);
        let told = !self.attempts.is_empty();
        let uneventful = self.sends <= 1 && reason == StopReason::AnswerIsFinal || self.plan.is_left_alone();
        let held = mem::replace(&mut attempt.held, Held::GivenBack);
        if let Held::Response(response) = held {
            let report = told.then(|| self.report(&attempt, reason, outcome));
            self.ended(reason, outcome, Some(&attempt), report.as_ref());
            return self.hand_back(attempt.extensions, response, report, if uneventful { Shown::InSlot } else { Shown::Everywhere });
        }
        let report = self.report(&attempt, reason, outcome);
        self.ended(reason, outcome, Some(&attempt), Some(&report));
        self.fill(&report);
        let error = self.error(held, &attempt, report);
        *self.extensions = attempt.extensions;
        Err(error)
    }

    /// Who is told what: a request that nothing marks keeps the transport's own error, a marked write learns whether it may have happened.
    fn error(&self, held: Held, attempt: &Attempt, report: RetryReport) -> Error {
        let marked_write = self.plan.is_write && self.plan.endpoint.is_some();
        let failure = |source| Failure::new(report, self.key(), attempt.status, source);
        let by_evidence = |failure| match self.evidence {
            Evidence::Unprocessed => RetryError::Unprocessed(failure),
            Evidence::Unknown => RetryError::OutcomeUnknown(failure),
        };
        match held {
            Held::Error(error @ Error::Middleware(_)) => error,
            Held::Error(Error::Reqwest(error)) if marked_write => by_evidence(failure(Some(FailureSource::Transport(error)))).into(),
            Held::Error(error @ Error::Reqwest(_)) => error,
            Held::Unsupplied(error) => by_evidence(failure(Some(FailureSource::Supply(error)))).into(),
            Held::BodyLost(cause) if marked_write => {
                let failure = failure(cause.ok().map(FailureSource::Transport));
                if matches!(attempt.signal, Signal::BodyLost(_)) {
                    RetryError::BodyLost(failure).into()
                } else {
                    by_evidence(failure).into()
                }
            }
            Held::BodyLost(Ok(error)) => Error::Reqwest(error),
            Held::TimedOut(_) | Held::GivenBack | Held::Response(_) if marked_write => by_evidence(failure(None)).into(),
            Held::TimedOut(TimeLimit::Deadline) if self.plan.is_write => match self.evidence {
                Evidence::Unprocessed => RetryError::DeadlineExceeded(failure(None)).into(),
                Evidence::Unknown => RetryError::OutcomeUnknown(failure(None)).into(),
            },
            Held::TimedOut(TimeLimit::Attempt) | Held::BodyLost(Err(TimeLimit::Attempt)) => {
                RetryError::AttemptTimedOut(failure(None)).into()
            }
            Held::TimedOut(TimeLimit::Deadline | TimeLimit::Client)
            | Held::BodyLost(Err(TimeLimit::Deadline | TimeLimit::Client))
            | Held::GivenBack
            | Held::Response(_) => RetryError::DeadlineExceeded(failure(None)).into(),
        }
    }

    /// What is known. A read has no effect that could be unknown, so its answer is an answer.
    fn outcome(&self, attempt: &Attempt, reason: StopReason) -> Outcome {
        let echo = matches!(
            attempt.status,
            Some(StatusCode::NOT_FOUND | StatusCode::CONFLICT | StatusCode::GONE | StatusCode::PRECONDITION_FAILED)
        );
        // The marker proves whose result this is: the first copy's, and that was ours.
        let echo = echo && attempt.key_answer != Some(KeyAnswer::Replayed);
        let answered = attempt.status.is_some();
        match (answered, reason) {
            (true, StopReason::AnswerIsFinal) if echo && self.followed_unknown && self.plan.is_write => Outcome::AnsweredAfterUnknown,
            (true, StopReason::AnswerIsFinal) => Outcome::Answered,
            (true, _) if !self.plan.is_write => Outcome::Answered,
            _ => self.outcome_by_evidence(),
        }
    }

    fn outcome_by_evidence(&self) -> Outcome {
        match self.evidence {
            Evidence::Unprocessed => Outcome::Unprocessed,
            Evidence::Unknown => Outcome::Unknown,
        }
    }

    /// The deadline had passed before anything could be sent. With a key that was used before, that says nothing about then.
    fn nothing_sent(mut self) -> Result<Response> {
        let report = self.end_unsent(StopReason::DeadlineTooNear);
        Err(RetryError::DeadlineExceeded(Failure::new(report, self.key(), None, None)).into())
    }

    /// Nothing was sent, because the server asked others to wait for longer than this operation can.
    fn held_back(mut self, held_back: HeldBack) -> Result<Response> {
        self.hint = Some(held_back.wait);
        let report = self.end_unsent(held_back.limit);
        Err(RetryError::CoolingDown(Failure::new(report, self.key(), None, None)).into())
    }

    /// Tells everybody about an operation of which nothing was sent.
    fn end_unsent(&mut self, stop: StopReason) -> RetryReport {
        let report = self.report_as(stop, self.outcome_by_evidence(), None);
        self.ended(stop, report.outcome(), None, Some(&report));
        self.fill(&report);
        report
    }

    /// Nothing was sent: the first attempt could not be supplied, or an old key lapsed in the cool-down before it.
    fn unsent(mut self, misuse: Misuse) -> Result<Response> {
        self.end_unsent(StopReason::Misused);
        Err(RetryError::Misused(misuse).into())
    }

    fn hand_back(self, extensions: Extensions, mut response: Response, report: Option<RetryReport>, shown: Shown) -> Result<Response> {
        *self.extensions = extensions;
        if let Some(report) = report {
            if let Some(slot) = &self.plan.slot {
                slot.fill(report.clone());
            }
            if shown == Shown::Everywhere {
                response.extensions_mut().insert(report);
            }
        }
        Ok(match self.plan.deadline_covers {
            DeadlineCovers::Body => body::bounded(response, self.plan.deadline),
            DeadlineCovers::Head => response,
        })
    }

    // ===== the report =====

    /// Notes the attempt that was decided about; later decisions about it (after probes) add to its record.
    fn record(&mut self, attempt: &Attempt, situation: &Situation, decision: &Decision) {
        let (pause, resend) = match decision {
            Decision::Resend(permit) => (Some(permit.pause()), Some(permit.reason())),
            Decision::Probe(pause) => (Some(*pause), None),
            Decision::Return | Decision::Stop(_) => (None, None),
        };
        if let Some(last) = self.attempts.last_mut().filter(|last| last.number == self.sends) {
            last.pause = last.pause.max(pause);
            last.resend = resend;
            return;
        }
        self.attempts.push(AttemptRecord {
            number: self.sends,
            started: attempt.started.saturating_duration_since(self.started),
            took: attempt.ended.saturating_duration_since(attempt.started),
            signal: attempt.signal,
            status: attempt.status,
            evidence: attempt.evidence,
            cause: attempt.cause,
            hint: attempt.hint.and_then(std::result::Result::ok),
            time_left: situation.time_left,
            pause,
            resend,
        });
    }

    /// A resend that was decided and never sent, for want of budget, time or body, is none in the report.
    fn forget_unsent(&mut self) {
        let sends = self.sends;
        let asked = self.probe_records.iter().any(|probe| probe.after_attempt == sends);
        if let Some(last) = self.attempts.last_mut() {
            last.resend = None;
            last.pause = last.pause.filter(|_| asked);
        }
    }

    fn report(&self, attempt: &Attempt, stop: StopReason, outcome: Outcome) -> RetryReport {
        self.report_as(stop, outcome, attempt.key_answer)
    }

    fn report_as(&self, stop: StopReason, outcome: Outcome, key_answer: Option<KeyAnswer>) -> RetryReport {
        RetryReport::new(Record {
            method: self.method.clone(),
            origin: Origin::of(&self.url),
            endpoint: self.plan.endpoint.as_ref().and_then(Endpoint::name).cloned(),
            correlation: self.plan.correlation.clone(),
            attempts: self.attempts.clone(),
            probes: self.probe_records.clone(),
            stop,
            outcome,
            evidence: self.evidence,
            hint: self.hint,
            key_was_sent: self.plan.key.is_some() && self.sends > 0,
            key_answer,
            took: self.started.elapsed(),
            time_left: self.plan.deadline.time_left(),
        })
    }

    fn ended(&mut self, stop: StopReason, outcome: Outcome, last: Option<&Attempt>, report: Option<&RetryReport>) {
        self.watched.ended(&End { stop, outcome, last, started: self.started, report });
    }

    fn fill(&self, report: &RetryReport) {
        if let Some(slot) = &self.plan.slot {
            slot.fill(report.clone());
        }
    }

    /// The key for whoever tries again. What the server may have seen keeps its age, and its result stays unknown.
    fn key(&self) -> Option<IdempotencyKey> {
        self.plan.key.as_ref().map(|key| match self.evidence {
            Evidence::Unprocessed => key.key().clone(),
            Evidence::Unknown => key.once_used(),
        })
    }
}

/// A tenth of the deadline is kept for the last look of a write that can be asked about.
fn sending_until(plan: &Plan<'_>) -> Deadline {
    match plan.deadline.instant() {
        Some(instant) if plan.is_write && plan.has_probe() => {
            let kept = plan.deadline.time_left() / 10;
            Deadline::at(instant.checked_sub(kept).unwrap_or(instant))
        }
        _ => plan.deadline,
    }
}

/// When a pause is over.
///
/// # Errors
/// It lies beyond the horizon of the timers. Deadlines that far are none, so only a window can have allowed it.
fn reach(from: Instant, pause: Duration) -> std::result::Result<Instant, StopReason> {
    from.checked_add(pause).and_then(|until| Deadline::at(until).instant()).ok_or(StopReason::WindowClosed)
}

/// What a shared cool-down asks for, and the limit that it does not fit.
struct HeldBack {
    wait: Duration,
    limit: StopReason,
}

/// Where a report is to be found.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Shown {
    /// One attempt brought a final answer: only who asked is told.
    InSlot,
    Everywhere,
}

/// What came of a resend.
enum Resent {
    Sent(Attempt),
    Stopped(Attempt, StopReason),
}

/// What came of a probe between attempts.
enum Probed {
    /// There is something to decide again.
    Open(Attempt),
    Applied(Attempt, Response),
    Stopped(Attempt, StopReason),
}

/// What one look found.
enum Look {
    Applied(Response),
    Absent,
    InProgress { settled_in: Option<Duration> },
    Undecided,
}

impl Look {
    const fn found(&self) -> Found {
        match self {
            Self::Applied(_) => Found::Applied,
            Self::Absent => Found::Absent,
            Self::InProgress { .. } => Found::InProgress,
            Self::Undecided => Found::Undecided,
        }
    }
}
