//! One attempt: its own extensions, its time limit, and what its result means.
//!
//! Attempts must not see each other: what one leaves in its extensions, or what its limit cuts, is
//! none of the next one's business. So each gets its own here, and comes back as plain facts.
//! Whether another follows is not known here.

use std::{mem, pin::pin, task::Poll, time::Duration};

use futures_util::future::{OptionFuture, poll_fn};
use http::{Extensions, HeaderMap, StatusCode, header::RETRY_AFTER};
use reqwest::{Response, Url};
use reqwest_middleware::{Error, Next};

#[cfg(target_arch = "wasm32")]
use crate::contract::endpoint::DeadlineCovers;
use crate::{
    contract::endpoint::{Answer, Endpoint},
    contract::hints::HintSources,
    operation::key::OperationKey,
    operation::plan::Plan,
    operation::supply::Outgoing,
    outcome::facts::AttemptFacts,
    platform::{BoxFuture, Instant, MaybeSend, sleep_until, wall_clock},
    policy::{AnswerFacts, Evidence, RetryPolicy, Signal, TooEarly},
    proof::cause::{Cause, TimeLimit},
    proof::errors,
    proof::witness::{Head, KeyKept, Marked, Redirects, SendSlot, Strays, Terms},
    request::call::Call,
    request::deadline::Deadline,
    request::replay::ReplayError,
    response::keep_alive::idle_timeout,
    response::url::has_url,
    response::{
        body,
        read::{Loss, Read, Whole},
    },
};

/// What one attempt left behind.
pub(crate) struct Attempt {
    pub(crate) held: Held,
    pub(crate) facts: AttemptFacts,
    /// What the next pause counts from: the end of the attempt, or of the probe after it.
    pub(crate) waits_from: Instant,
    /// What the inner middlewares left in this attempt's extensions.
    pub(crate) extensions: Extensions,
}

/// What there is to hand back.
pub(crate) enum Held {
    Response(Response),
    /// There was a response; its connection was given back before a pause.
    GivenBack,
    /// There was a response, and it is none by the endpoint's own verdict.
    NoResult,
    Error(Error),
    TimedOut(TimeLimit),
    /// The head arrived, the body did not: with the transport's error, unless a limit of ours cut
    /// it.
    BodyLost(Result<reqwest::Error, TimeLimit>),
    /// Nothing was sent by this operation.
    Unsent,
    /// The request could not be supplied once more.
    Unsupplied(ReplayError),
}

/// Sends once. The attempt gets the shorter of its own limit and the time left, and its own clone
/// of the extensions.
#[expect(clippy::manual_async_fn, reason = "what an `async fn` is given it keeps twice")]
pub(crate) fn send<'a>(
    plan: &'a Plan<'_>,
    outgoing: Outgoing,
    extensions: &'a Extensions,
    next: Next<'a>,
    deadline: Deadline,
    earlier: Earlier,
    redirects: Redirects,
) -> impl Future<Output = Attempt> + MaybeSend + 'a {
    async move {
        let started = Instant::now();
        let limit = Limit::of(started, plan.attempt_limit, deadline);
        let promised = plan.key.as_deref().map(OperationKey::written);
        let strays = plan.settings.strays.as_ref().map(Strays::count);
        let terms = Terms { watch: plan.watch(), promised, redirects, looks_only: plan.is_left_alone() };
        let mut marked = Marked::new::<Call>(extensions, terms);
        #[cfg(target_arch = "wasm32")] // a body gets its deadline before it is sent for, or never
        let outgoing = if plan.deadline_covers == DeadlineCovers::Body { outgoing.until(plan.deadline) } else { outgoing };
        let sent = outgoing.send(next, &mut marked.extensions);
        let result = match limit.until.instant() {
            Some(instant) => {
                in_time(sent, instant, || marked.slot.nothing_left(strays, plan.settings.strays.as_ref())).await.ok_or(limit.is)
            }
            None => Ok(sent.await),
        };
        Sent { result, marked, limit, started, strays }.means(plan, earlier).await
    }
}

/// What comes of a send, unless its time is up before: then `None`.
///
/// An answer that is there beats the limit, however late this task gets its turn. What has not
/// left yet does not: where a middleware further in or a connection that opens wakes up too late,
/// nothing is sent any more.
pub(crate) async fn in_time<T>(mut sent: BoxFuture<'_, T>, until: Instant, nothing_left: impl Fn() -> bool) -> Option<T> {
    // A timer is for what has to wait: many answers are there at once.
    let mut limit = pin!(OptionFuture::from(None));
    let mut is_first_turn = true;
    poll_fn(|cx| {
        let mut is_up = Poll::Pending;
        if is_first_turn {
            if Instant::now() >= until {
                return Poll::Ready(None);
            }
        } else {
            is_up = limit.as_mut().poll(cx).map(drop);
            if is_up.is_ready() && nothing_left() {
                return Poll::Ready(None);
            }
        }
        if let Poll::Ready(result) = sent.as_mut().poll(cx) {
            return Poll::Ready(Some(result));
        }
        if mem::take(&mut is_first_turn) {
            limit.set(Some(sleep_until(until)).into());
            is_up = limit.as_mut().poll(cx).map(drop);
        }
        is_up.map(|()| None)
    })
    .await
}

/// An attempt that came back, before anybody has looked at it.
pub(crate) struct Sent {
    pub(crate) result: Result<reqwest_middleware::Result<Response>, TimeLimit>,
    pub(crate) marked: Marked,
    pub(crate) limit: Limit,
    pub(crate) started: Instant,
    /// How many sends of the client had gone past its witness before this one.
    pub(crate) strays: Option<u64>,
}

impl Sent {
    /// What it means.
    async fn means(self, plan: &Plan<'_>, earlier: Earlier) -> Attempt {
        match plan.endpoint.as_ref().and_then(Endpoint::most_body) {
            // Boxed: most attempts have nothing to read.
            Some(most) => Box::pin(self.means_read(plan, earlier, most)).await,
            None => self.means_unread(plan, earlier),
        }
    }

    /// What it means, where an answer is judged without its body.
    pub(crate) fn means_unread(self, plan: &Plan<'_>, earlier: Earlier) -> Attempt {
        let Self { result, marked, limit, started, strays } = self;
        let mut attempt = Attempt::cut(limit, started);
        match result {
            Ok(Ok(response)) => {
                let seen = attempt.head_of(plan, &response, &marked.slot);
                attempt.answered(plan, response, seen.as_deref(), None, earlier);
            }
            Ok(Err(error)) => attempt.failed(plan, error, &marked.slot, earlier),
            // proof: every send of this client is witnessed, and none was.
            Err(_) if marked.slot.count() == 0 && Strays::none_since(strays, plan.settings.strays.as_ref()) => {
                attempt.facts.evidence = Evidence::Unprocessed;
            }
            Err(_) => attempt.facts.evidence = unanswered(&marked.slot),
        }
        attempt.ends(plan, marked, strays)
    }

    async fn means_read(self, plan: &Plan<'_>, earlier: Earlier, most: usize) -> Attempt {
        let Self { result, marked, limit, started, strays } = self;
        match result {
            Ok(Ok(response)) => {
                let mut attempt = Attempt::cut(limit, started);
                attempt.read(plan, response, limit, &marked.slot, earlier, most).await;
                attempt.ends(plan, marked, strays)
            }
            result => Self { result, marked, limit, started, strays }.means_unread(plan, earlier),
        }
    }
}

/// What earlier answers of the operation said.
#[derive(Clone, Copy)]
pub(crate) struct Earlier {
    pub(crate) too_early: TooEarly,
    /// The status of the attempt before, if it was answered.
    pub(crate) status: Option<StatusCode>,
    /// Whether the request was signed anew for one of them.
    pub(crate) refreshed: bool,
}

impl Earlier {
    pub(crate) const NONE: Self = Self { too_early: TooEarly::Unheard, status: None, refreshed: false };

    /// The same after one more attempt.
    pub(crate) fn after(self, status: Option<StatusCode>, endpoint: Option<&Endpoint>) -> Self {
        let refreshed = self.refreshed || endpoint.zip(status).is_some_and(|(endpoint, status)| endpoint.refreshes_after(status));
        Self { too_early: self.too_early.after(status), status, refreshed }
    }
}

/// The limit one attempt runs under, and whose it is.
#[derive(Clone, Copy)]
pub(crate) struct Limit {
    pub(crate) until: Deadline,
    pub(crate) is: TimeLimit,
}

impl Limit {
    /// The shorter of an attempt's own limit, from now on, and the time left.
    #[inline]
    pub(crate) fn of(now: Instant, attempt: Option<Duration>, deadline: Deadline) -> Self {
        let Some(attempt) = attempt else { return Self { until: deadline, is: TimeLimit::Deadline } };
        let until = Deadline::from(now, attempt).earlier(deadline);
        Self { until, is: if until == deadline { TimeLimit::Deadline } else { TimeLimit::Attempt } }
    }
}

impl Attempt {
    /// What an earlier process may have sent, as the attempt before the first. It counts as ended
    /// when this operation began, because until then the process may have been sending.
    pub(crate) fn of_an_earlier_process(began: Instant, extensions: Extensions) -> Self {
        let facts = AttemptFacts {
            signal: Signal::SentBefore,
            evidence: Evidence::Unknown,
            cause: Cause::SentBefore,
            status: None,
            hint: None,
            keeps_alive: None,
            key_answer: None,
            key_kept: KeyKept::Kept,
            sends: 0,
            started: began,
            ended: began,
        };
        Self { held: Held::Unsent, facts, waits_from: Instant::now(), extensions }
    }

    /// Where the answer came from, after all redirects. `None` where no answer is held, or an inner
    /// middleware has built it anew.
    pub(crate) fn answered_by(&self) -> Option<&Url> {
        match &self.held {
            Held::Response(response) => has_url(response).then(|| response.url()),
            Held::GivenBack
            | Held::NoResult
            | Held::Unsent
            | Held::Error(_)
            | Held::TimedOut(_)
            | Held::BodyLost(_)
            | Held::Unsupplied(_) => None,
        }
    }

    /// One that its limit cut, as far as nothing else is known.
    fn cut(limit: Limit, started: Instant) -> Self {
        let ended = Instant::now();
        Self {
            held: Held::TimedOut(limit.is),
            facts: AttemptFacts {
                signal: Signal::Failed,
                evidence: Evidence::Unknown,
                cause: Cause::TimedOut(limit.is),
                status: None,
                hint: None,
                keeps_alive: None,
                key_answer: None,
                key_kept: KeyKept::Kept,
                sends: 1,
                started,
                ended,
            },
            waits_from: ended,
            extensions: Extensions::new(),
        }
    }

    /// The same with what was left in its slot and extensions.
    fn ends(mut self, plan: &Plan<'_>, marked: Marked, strays: Option<u64>) -> Self {
        if strays.is_some() && !Strays::none_since(strays, plan.settings.strays.as_ref()) {
            // A send that passed unwitnessed may have been this attempt's.
            self.facts.evidence = Evidence::Unknown;
        }
        self.facts.key_kept = marked.slot.key_kept();
        self.facts.sends = marked.slot.count().max(1);
        self.extensions = marked.left_behind();
        self
    }

    /// Takes in the head of an answer. Gives the headers that the witness saw: an inner middleware
    /// may have built the answer anew, without what the server said in it.
    fn head_of(&mut self, plan: &Plan<'_>, response: &Response, slot: &SendSlot) -> Option<Box<HeaderMap>> {
        let seen = slot.answer().and_then(|head| head.headers);
        self.head(plan, response.status(), [Some(response.headers()), seen.as_deref()], slot);
        seen
    }

    fn answered(&mut self, plan: &Plan<'_>, response: Response, seen: Option<&HeaderMap>, whole: Option<&Whole>, earlier: Earlier) {
        self.means(plan, response.status(), [Some(response.headers()), seen], whole, earlier, RetryPolicy::read);
        self.held = Held::Response(response);
    }

    /// The answer of an endpoint that wants so much of its body to be read.
    async fn read(&mut self, plan: &Plan<'_>, response: Response, limit: Limit, slot: &SendSlot, earlier: Earlier, most: usize) {
        let status = response.status();
        let seen = self.head_of(plan, &response, slot);
        match body::read(response, most, limit.until).await {
            Read::Whole { response, whole } => self.answered(plan, response, seen.as_deref(), Some(&whole), earlier),
            Read::TooLong(response) => self.answered(plan, response, seen.as_deref(), None, earlier),
            Read::Lost(lost) => {
                self.means(plan, status, [Some(&lost.head.headers), seen.as_deref()], None, earlier, RetryPolicy::read_without_body);
                self.waits_from = Instant::now();
                (self.facts.cause, self.held) = match (lost.loss, lost.error) {
                    (Loss::Transport, Some(error)) => {
                        let cause = if error.is_timeout() { Cause::TimedOut(TimeLimit::Client) } else { Cause::BodyLost };
                        (cause, Held::BodyLost(Ok(error)))
                    }
                    (Loss::Transport | Loss::TimeUp, _) => (Cause::TimedOut(limit.is), Held::BodyLost(Err(limit.is))),
                };
            }
        }
    }

    /// What an answer means, and the wait that the endpoint reads in its own way: the longer one
    /// counts, and what cannot be read stays so.
    fn means(
        &mut self,
        plan: &Plan<'_>,
        status: StatusCode,
        said: Said<'_>,
        whole: Option<&Whole>,
        earlier: Earlier,
        read: fn(&RetryPolicy, &AnswerFacts) -> Signal,
    ) {
        let endpoint = plan.endpoint.as_ref();
        let heard = || said.into_iter().flatten();
        let answer = heard().next().map(|headers| Answer::new(status, headers, whole));
        if let Some(wait) = endpoint.zip(answer.as_ref()).and_then(|(endpoint, answer)| endpoint.wait(answer)) {
            self.facts.hint = Some(self.facts.hint.unwrap_or(Ok(wait)).map(|hint| hint.max(wait)));
        }
        let contract = endpoint.and_then(Endpoint::contract);
        let facts = AnswerFacts {
            status,
            key_answer: contract.and_then(|contract| heard().find_map(|headers| contract.answer_after(earlier.status, status, headers))),
            verdict: endpoint.zip(answer.as_ref()).and_then(|(endpoint, answer)| endpoint.classify(answer, earlier.refreshed)),
            server_advice: heard().filter_map(|headers| plan.hints.advice(headers)).max(),
            too_early: earlier.too_early,
        };
        (self.facts.signal, self.facts.key_answer) = (read(&plan.policy, &facts), facts.key_answer);
    }

    /// What the head of an answer says and proves.
    fn head(&mut self, plan: &Plan<'_>, status: StatusCode, said: Said<'_>, slot: &SendSlot) {
        let now = wall_clock();
        let waits = said.into_iter().flatten().filter_map(|headers| plan.hints.wait(headers, now));
        self.facts.hint = waits.reduce(|longer, wait| Ok(longer?.max(wait?)));
        self.facts.keeps_alive = said.into_iter().flatten().find_map(idle_timeout);
        self.facts.cause = Cause::Status;
        self.facts.status = Some(status);
        let refused = plan.endpoint.as_ref().is_some_and(|endpoint| endpoint.trusts_refusal(status));
        self.facts.evidence = match if refused { Evidence::Unprocessed } else { Evidence::of_status(status) } {
            // An answer from behind a redirect speaks for the last hop only; the first one may have
            // acted. What nobody witnessed proves nothing: a middleware may have built it.
            Evidence::Unprocessed => slot.refusal(status).unwrap_or(Evidence::Unknown),
            Evidence::Unknown => Evidence::Unknown,
        };
    }

    /// An error of the transport speaks for itself. One that an inner middleware made may stand for
    /// an answer, or for a failure below it: then the witness knows better.
    fn failed(&mut self, plan: &Plan<'_>, error: Error, slot: &SendSlot, earlier: Earlier) {
        self.facts.evidence = unanswered(slot);
        match (&error, slot.answer(), slot.failure()) {
            (Error::Reqwest(transport), Some(_) | None, _) if !transport.is_status() => self.broke_off(errors::cause(transport)),
            (Error::Reqwest(_) | Error::Middleware(_), Some(head), _) => self.made_an_error(plan, &head, slot, earlier),
            (Error::Reqwest(_) | Error::Middleware(_), None, Some(cause)) => self.broke_off(cause),
            (Error::Reqwest(transport), None, None) => {
                self.facts.cause = Cause::Status;
                self.facts.status = transport.status();
                self.facts.signal = transport.status().map_or(Signal::Failed, Signal::Answered);
            }
            (Error::Middleware(_), None, None) => self.broke_off(Cause::Middleware),
        }
        self.held = Held::Error(error);
    }

    fn broke_off(&mut self, cause: Cause) {
        self.facts.cause = cause;
        self.facts.signal = if cause.is_beyond_help() { Signal::Broken } else { Signal::Failed };
    }

    /// An inner middleware made an error of this answer. It means what it would have meant.
    fn made_an_error(&mut self, plan: &Plan<'_>, head: &Head, slot: &SendSlot, earlier: Earlier) {
        let said = [head.headers.as_deref(), None];
        self.head(plan, head.status, said, slot);
        if head.is_error() {
            self.means(plan, head.status, said, None, earlier, RetryPolicy::read);
        } else {
            self.facts.signal = Signal::Final(head.status);
        }
    }
}

/// Whether an answer holds neither a wait nor advice, as far as they are read.
#[inline]
pub(crate) fn says_nothing(hints: HintSources, headers: &HeaderMap) -> bool {
    if hints == HintSources::STANDARD {
        return !headers.contains_key(RETRY_AFTER);
    }
    hints.wait(headers, wall_clock()).is_none() && hints.advice(headers).is_none()
}

/// What is proven about an attempt that brought no answer. Where nothing was witnessed, an inner
/// middleware may have sent it past the witness, or may still do so.
fn unanswered(slot: &SendSlot) -> Evidence {
    slot.verdict().unwrap_or(Evidence::Unknown)
}

/// The headers of an answer, as they came up and as the witness saw them.
type Said<'a> = [Option<&'a HeaderMap>; 2];
