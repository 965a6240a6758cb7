//! Every span, event, metric and field name. Nothing else in this crate mentions tracing or
//! metrics.
//!
//! Why it is one place: what a log line may say is a promise in two directions. People match on
//! names and levels, so they are constants, listed in `docs/telemetry.md` and pinned by tests; and
//! nobody may find a secret in a line, so only this module writes lines.
//!
//! * **Span** `operation`, one per operation, with what all its lines share: endpoint, method,
//!   scheme, host, port, correlation id. Its level is WARN, that of its loudest event: a filter
//!   that lets an event through lets through what the event is about. Where nobody listens at DEBUG
//!   it begins when something happens: an operation that goes well at once has nothing to tell.
//! * **Events**: `attempt` for each attempt, and one for each decision: `resend` (when the budget
//!   has paid), `probe`, or `end`.
//! * **Levels**: `resend` is INFO. `end` is WARN when the outcome is unknown, for unmarked writes
//!   too, and when a stop came after a resend; `abandoned` is WARN for a write that may have been
//!   processed. All others are DEBUG. No setting changes a level: filters are the subscriber's
//!   business.
//! * **Never**, in no event: keys (a keyed hash of eight digits stands in), header values, bodies,
//!   URL query, userinfo or fragment. The path only by
//!   [`SafeRetry::with_path_in_logs`](crate::SafeRetry::with_path_in_logs).
//!
//! Where nobody listens to spans and events nothing is formatted and nothing is allocated. The
//! feature `metrics` costs each operation a few small allocations for labels, with a recorder or
//! without: the facade does not tell.

#[cfg(feature = "tracing")]
mod advised;
#[cfg(feature = "metrics")]
mod meters;
#[cfg_attr(not(any(feature = "tracing", feature = "metrics")), expect(dead_code, reason = "nobody speaks these words then"))]
#[cfg_attr(any(feature = "tracing", feature = "metrics"), allow(dead_code, reason = "some words only one of the two speaks"))]
mod names;
mod observer;
#[cfg(feature = "tracing")]
mod spans;

#[cfg(feature = "tracing")]
use std::sync::Arc;
use std::{borrow::Cow, time::Duration};

use http::Method;
use reqwest::Url;

pub use observer::{Decided, Observer};

use crate::{
    outcome::advice::Advice,
    outcome::facts::AttemptFacts,
    outcome::report::{AttemptRecord, ProbeRecord, RetryReport},
    platform::Instant,
    policy::{Decision, Evidence, IdempotencyKey, Outcome, ResendPermit, Situation, StopReason},
    request::correlation::CorrelationId,
    request::deadline::Deadline,
    request::origin::Origin,
    shared::budget::BudgetAccount,
};

#[cfg(feature = "tracing")]
use advised::Advised;
#[cfg(feature = "metrics")]
pub(crate) use meters::Meters;
pub(crate) use names::Counted;
use observer::Observers;

/// What the owner of a client wants to be told.
#[derive(Clone, Default)]
pub(crate) struct Telemetry {
    observers: Observers,
    path_in_logs: Detail,
    origin_in_metrics: Detail,
    silenced: Vec<Advice>,
    #[cfg(feature = "tracing")]
    advised: Arc<Advised>,
}

/// Whether something is told that may be too much.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum Detail {
    #[default]
    Hidden,
    Shown,
}

impl Telemetry {
    pub(crate) fn add(&mut self, observer: impl Observer) {
        self.observers.add(observer);
    }

    pub(crate) fn show_path_in_logs(&mut self) {
        self.path_in_logs = Detail::Shown;
    }

    pub(crate) fn show_origin_in_metrics(&mut self) {
        self.origin_in_metrics = Detail::Shown;
    }

    pub(crate) fn silence(&mut self, advice: Advice) {
        self.silenced.push(advice);
    }

    /// Whether an observer wants to hear of each operation.
    pub(crate) fn has_observers(&self) -> bool {
        !self.observers.is_empty()
    }

    /// A request was used wrongly, and nothing was sent.
    pub(crate) fn misused(&self, report: &RetryReport) {
        #[cfg(feature = "tracing")]
        spans::misused(report);
        self.observers.tell(|observer| observer.ended(report));
    }
}

/// Whether somebody listens to spans and events of operations that go well at once.
pub(crate) fn hears_what_goes_well() -> bool {
    #[cfg(feature = "tracing")]
    let hears = spans::are_heard();
    #[cfg(not(feature = "tracing"))]
    let hears = false;
    hears
}

/// Gives the metrics their descriptions and units.
pub(crate) fn describe() {
    #[cfg(feature = "metrics")]
    meters::describe();
}

/// The span of an operation.
#[derive(Clone)]
pub(crate) struct Span {
    #[cfg(feature = "tracing")]
    span: tracing::Span,
}

impl Span {
    const fn none() -> Self {
        Self {
            #[cfg(feature = "tracing")]
            span: tracing::Span::none(),
        }
    }

    /// Runs the operation inside its span.
    pub(crate) fn cover<T>(self, operation: impl Future<Output = T>) -> impl Future<Output = T> {
        #[cfg(feature = "tracing")]
        let operation = tracing::Instrument::instrument(operation, self.span);
        operation
    }
}

/// What is told about an operation as a whole.
#[derive(Clone, Copy)]
#[cfg_attr(not(feature = "tracing"), allow(dead_code, reason = "only a log line tells all of it"))]
pub(crate) struct OperationFacts<'a> {
    pub(crate) method: &'a Method,
    pub(crate) url: &'a Url,
    pub(crate) endpoint: Option<&'a Cow<'static, str>>,
    pub(crate) correlation: Option<&'a CorrelationId>,
    /// Told as a fingerprint.
    pub(crate) key: Option<&'a IdempotencyKey>,
    /// Absent for requests that are left alone.
    pub(crate) account: Option<BudgetAccount<'a>>,
    pub(crate) deadline: Deadline,
    pub(crate) is_write: bool,
}

/// One operation as it is watched.
///
/// Dropped before its end it tells that, too: a caller that gave up is the most common reason why a
/// log breaks off.
pub(crate) struct Watched<'a> {
    /// Absent for requests that are left alone.
    telemetry: Option<&'a Telemetry>,
    operation: OperationFacts<'a>,
    span: Span,
    heard: Heard,
    #[cfg(feature = "metrics")]
    meters: Option<Meters>,
    sends: u32,
    progress: Progress,
}

/// What the span of an operation covers.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Heard {
    /// All of it: somebody listens to what goes well, too.
    FromTheStart,
    /// What follows after something happened.
    FromHere,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Progress {
    /// Attempts may follow, and one may be on its way.
    Open(Evidence),
    Ended,
}

/// How an operation ended.
#[derive(Clone, Copy)]
#[cfg_attr(not(feature = "tracing"), allow(dead_code, reason = "only a log line tells all of it"))]
pub(crate) struct End<'a> {
    pub(crate) stop: StopReason,
    pub(crate) outcome: Outcome,
    pub(crate) last: Option<&'a AttemptFacts>,
    pub(crate) started: Instant,
    /// Present where somebody asked for it.
    pub(crate) report: Option<&'a RetryReport>,
}

#[cfg_attr(not(all(feature = "tracing", feature = "metrics")), expect(unused_variables, reason = "the two are told different things"))]
impl<'a> Watched<'a> {
    /// An operation of which this much is known before anything was sent.
    pub(crate) fn new(telemetry: Option<&'a Telemetry>, operation: OperationFacts<'a>, evidence: Evidence) -> Self {
        let mut watched = Self {
            telemetry,
            operation,
            span: Span::none(),
            heard: Heard::FromHere,
            #[cfg(feature = "metrics")]
            meters: telemetry.map(|telemetry| Meters::of(&operation, telemetry)),
            sends: 0,
            progress: Progress::Open(evidence),
        };
        if telemetry.is_some() && hears_what_goes_well() {
            watched.heard = Heard::FromTheStart;
            watched.open_span();
        }
        watched
    }

    /// An operation that was sent once, of which nobody was told yet. Its metrics know it already.
    pub(crate) fn sent_once(
        telemetry: &'a Telemetry,
        operation: OperationFacts<'a>,
        #[cfg(feature = "metrics")] meters: Option<Meters>,
    ) -> Self {
        Self {
            telemetry: Some(telemetry),
            operation,
            span: Span::none(),
            heard: Heard::FromHere,
            #[cfg(feature = "metrics")]
            meters,
            sends: 1,
            progress: Progress::Open(Evidence::Unknown),
        }
    }

    /// Makes the span, unless it is there.
    fn open_span(&mut self) {
        #[cfg(feature = "tracing")]
        if let (true, Some(telemetry)) = (self.span.span.is_disabled(), self.telemetry) {
            self.span.span = spans::operation(&self.operation, telemetry);
        }
    }

    /// Tells something that may have nothing told before it, within the span.
    #[cfg(feature = "tracing")]
    fn tell(&mut self, tell: impl FnOnce(&Self)) {
        if self.span.span.is_disabled() {
            self.open_span();
            self.span.span.clone().in_scope(|| tell(self));
        } else {
            tell(self);
        }
    }

    /// Whether the operation has to keep a record, because somebody will be told.
    pub(crate) fn wants_record(&self) -> bool {
        self.telemetry.is_some_and(Telemetry::has_observers)
    }

    /// The span of the whole operation; none where nobody would hear of all of it.
    pub(crate) fn span(&self) -> Span {
        match self.heard {
            Heard::FromTheStart => self.span.clone(),
            Heard::FromHere => Span::none(),
        }
    }

    /// The span of what is left of the operation, now that something has happened; none where one
    /// covers it already.
    pub(crate) fn span_from_here(&mut self) -> Span {
        match self.heard {
            Heard::FromTheStart => Span::none(),
            Heard::FromHere => {
                self.open_span();
                self.span.clone()
            }
        }
    }

    /// An attempt goes out.
    pub(crate) fn sending(&mut self) {
        self.sends = self.sends.saturating_add(1);
        self.progress = Progress::Open(Evidence::Unknown);
        #[cfg(feature = "metrics")]
        self.meter(|meters| meters.attempt());
    }

    /// An attempt came back; this is the worst that is known about all of them.
    pub(crate) fn attempted(&mut self, attempt: &AttemptFacts, evidence: Evidence, until: Deadline) {
        self.progress = Progress::Open(evidence);
        #[cfg(feature = "tracing")]
        if self.telemetry.is_some() {
            spans::attempt(&self.operation, self.sends, attempt, until);
        }
        #[cfg(feature = "metrics")]
        self.meter(|meters| meters.attempted(attempt));
    }

    /// Something was decided about the attempt of this record.
    pub(crate) fn decided(&self, record: Option<&AttemptRecord>, situation: &Situation, decision: &Decision) {
        let (Some(telemetry), Some(attempt)) = (self.telemetry, record) else { return };
        if telemetry.observers.is_empty() {
            return;
        }
        let decided = Decided {
            method: self.operation.method,
            origin: Origin::of(self.operation.url),
            endpoint: self.operation.endpoint.map(AsRef::as_ref),
            correlation: self.operation.correlation,
            attempt,
            situation,
            decision,
        };
        telemetry.observers.tell(|observer| observer.decided(&decided));
    }

    /// A resend is decided and paid for.
    pub(crate) fn resending(&self, permit: &ResendPermit, until: Deadline) {
        #[cfg(feature = "tracing")]
        if self.telemetry.is_some() {
            spans::resend(&self.operation, self.sends, permit, until);
        }
        #[cfg(feature = "metrics")]
        self.meter(|meters| meters.resend(&self.operation, permit));
    }

    /// A probe is decided and paid for.
    pub(crate) fn probing(&self, pause: Duration, until: Deadline) {
        #[cfg(feature = "tracing")]
        if self.telemetry.is_some() {
            spans::probe(&self.operation, self.sends, pause, until);
        }
        #[cfg(feature = "metrics")]
        self.meter(|meters| meters.pause(&self.operation, pause));
    }

    /// A probe has answered; absence clears what was unknown.
    pub(crate) fn probed(&mut self, probe: &ProbeRecord, evidence: Evidence) {
        self.progress = Progress::Open(evidence);
        #[cfg(feature = "tracing")]
        if self.telemetry.is_some() {
            spans::probed(probe);
        }
        #[cfg(feature = "metrics")]
        self.meter(|meters| meters.probed(probe));
    }

    /// Whether the owner of the client does not want to hear this.
    pub(crate) fn is_silenced(&self, advice: Advice) -> bool {
        self.telemetry.is_some_and(|telemetry| telemetry.silenced.contains(&advice))
    }

    /// Something about how the operation was sent should be mended.
    pub(crate) fn advised(&mut self, advice: Advice) {
        #[cfg(feature = "tracing")]
        if let Some(telemetry) = self.telemetry {
            let origin = Origin::of(self.operation.url);
            if telemetry.advised.is_news(advice, &origin) {
                self.tell(|_| spans::advice(advice, &origin));
            }
        }
    }

    /// Something that only metrics tell.
    pub(crate) fn counted(&self, what: Counted) {
        #[cfg(feature = "metrics")]
        self.meter(|meters| meters.counted(what));
    }

    /// Nobody waits for the operation any more: the observers get its report. The log line follows
    /// when this is dropped.
    pub(crate) fn given_up(&self, report: &RetryReport) {
        if let Some(telemetry) = self.telemetry {
            telemetry.observers.tell(|observer| observer.ended(report));
        }
    }

    /// The operation is over.
    pub(crate) fn ended(&mut self, end: &End<'_>) {
        self.progress = Progress::Ended;
        let Some(telemetry) = self.telemetry else { return };
        #[cfg(feature = "tracing")]
        if end.is_alarming(self.sends) {
            self.tell(|watched| spans::end(&watched.operation, &watched.span.span, watched.sends, end));
        } else {
            spans::end(&self.operation, &self.span.span, self.sends, end);
        }
        #[cfg(feature = "metrics")]
        self.meter(|meters| meters.ended(&self.operation, end));
        if let Some(report) = end.report {
            telemetry.observers.tell(|observer| observer.ended(report));
        }
    }

    /// Nobody waits for the operation any more. A read has nothing to lose.
    fn abandoned(&mut self, evidence: Evidence) {
        let evidence = if self.operation.is_write { evidence } else { Evidence::Unprocessed };
        match evidence {
            Evidence::Unknown => self.open_span(),
            Evidence::Unprocessed => {}
        }
        // Whoever drops the operation stands outside of its span.
        #[cfg(feature = "tracing")]
        self.span.span.in_scope(|| spans::abandoned(&self.span.span, self.sends, evidence));
        #[cfg(feature = "metrics")]
        self.meter(|meters| meters.abandoned(evidence));
    }

    #[cfg(feature = "metrics")]
    fn meter(&self, tell: impl FnOnce(&Meters)) {
        if let Some(meters) = &self.meters {
            tell(meters);
        }
    }
}

impl Drop for Watched<'_> {
    fn drop(&mut self) {
        if let (Progress::Open(evidence), Some(_)) = (self.progress, self.telemetry) {
            self.abandoned(evidence);
        }
    }
}

#[cfg(feature = "tracing")]
impl End<'_> {
    /// The attempt whose result is the operation's; a probe's finding replaces it.
    fn deciding(&self) -> Option<&AttemptFacts> {
        self.last.filter(|_| self.outcome != Outcome::Reconciled)
    }

    fn status(&self) -> Option<http::StatusCode> {
        self.deciding().and_then(|attempt| attempt.status)
    }

    fn cause(&self) -> Option<crate::proof::cause::Cause> {
        self.deciding().map(|attempt| attempt.cause)
    }

    /// Somebody may have to look: nobody knows what happened, or sending again did not bring an
    /// answer.
    fn is_alarming(&self, sends: u32) -> bool {
        let unknown = match self.outcome {
            Outcome::Unknown | Outcome::AnsweredAfterUnknown => true,
            Outcome::Answered | Outcome::Reconciled | Outcome::Unprocessed => false,
        };
        unknown || (sends > 1 && !self.stop.is_final())
    }
}
