//! One attempt: its own extensions, its time limit, and what its result means.
//!
//! Attempts must not see each other: what one leaves in its extensions, or what its limit cuts, is none of the next one's business. So
//! each gets its own here, and comes back as plain facts. Whether another follows is not known here.

use std::{error::Error as StdError, time::SystemTime};

use http::{Extensions, HeaderMap, StatusCode};
use reqwest::{Response, Url};
use reqwest_middleware::{Error, Next};
use tokio::time::{Instant, timeout_at};

use crate::{
    contract::endpoint::{Answer, Endpoint},
    contract::status_url::made_by_hand,
    operation::plan::Plan,
    operation::supply::Outgoing,
    outcome::facts::AttemptFacts,
    policy::{AnswerFacts, Evidence, Signal, TooEarly},
    proof::cause::{Cause, TimeLimit},
    proof::errors,
    proof::witness::SendSlot,
    request::deadline::Deadline,
    response::body::{self, Loss, Read},
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
    Error(Error),
    TimedOut(TimeLimit),
    /// The head arrived, the body did not: with the transport's error, unless a limit of ours cut it.
    BodyLost(Result<reqwest::Error, TimeLimit>),
    /// The request could not be supplied once more.
    Unsupplied(Box<dyn StdError + Send + Sync>),
}

/// Sends once. The attempt gets the shorter of its own limit and the time left, and its own clone of the extensions.
pub(crate) async fn send(
    plan: &Plan<'_>,
    outgoing: Outgoing,
    extensions: &Extensions,
    next: Next<'_>,
    deadline: Deadline,
    too_early: TooEarly,
) -> Attempt {
    let started = Instant::now();
    let until = plan.attempt_limit.map_or(Deadline::NONE, Deadline::after).earlier(deadline);
    let limit = Limit { until, is: if until == deadline { TimeLimit::Deadline } else { TimeLimit::Attempt } };

    let slot = SendSlot::new(plan.watch());
    let mut own = extensions.clone();
    own.insert(slot.clone());
    let sent = outgoing.send(next, &mut own);
    let result = match until.instant() {
        Some(instant) => timeout_at(instant, sent).await.map_err(|_| limit.is),
        None => Ok(sent.await),
    };
    own.remove::<SendSlot>();
    let ended = Instant::now();

    let mut attempt = Attempt {
        held: Held::TimedOut(limit.is),
        facts: AttemptFacts {
            signal: Signal::Failed,
            evidence: Evidence::Unknown,
            cause: Cause::TimedOut(limit.is),
            status: None,
            hint: None,
            key_answer: None,
            started,
            ended,
        },
        waits_from: ended,
        extensions: own,
    };
    match result {
        Ok(Ok(response)) => attempt.answered(plan, response, limit, &slot, too_early).await,
        Ok(Err(error)) => attempt.failed(error, &slot),
        Err(_) => attempt.facts.evidence = slot.verdict().unwrap_or(Evidence::Unknown),
    }
    attempt
}

/// The limit one attempt runs under, and whose it is.
#[derive(Clone, Copy)]
struct Limit {
    until: Deadline,
    is: TimeLimit,
}

impl Attempt {
    /// Where the answer came from, after all redirects. `None` where no answer is held, or an inner middleware has built it anew.
    pub(crate) fn answered_by(&self) -> Option<&Url> {
        match &self.held {
            Held::Response(response) => Some(response.url()).filter(|url| !made_by_hand(url)),
            Held::GivenBack | Held::Error(_) | Held::TimedOut(_) | Held::BodyLost(_) | Held::Unsupplied(_) => None,
        }
    }

    async fn answered(&mut self, plan: &Plan<'_>, response: Response, limit: Limit, slot: &SendSlot, too_early: TooEarly) {
        let status = response.status();
        let endpoint = plan.endpoint.as_ref();
        self.facts.hint = plan.hints.wait(response.headers(), SystemTime::now());
        self.facts.cause = Cause::Status;
        self.facts.status = Some(status);
        // An answer from behind a redirect speaks for the last hop only; the first one may have acted.
        let refused = endpoint.is_some_and(|endpoint| endpoint.trusts_refusal(status));
        let evidence = if refused { Evidence::Unprocessed } else { Evidence::of_status(status) };
        self.facts.evidence = if evidence == Evidence::Unprocessed { refusal(slot, &response) } else { evidence };

        let most = endpoint.and_then(Endpoint::most_body);
        let read = match most {
            Some(most) => Box::pin(body::read(response, most, limit.until)).await,
            None => Read::TooLong(response),
        };
        match read {
            Read::Whole { response, body } => {
                let facts = facts(plan, status, response.headers(), Some(&body), too_early);
                (self.facts.signal, self.facts.key_answer) = (plan.policy.read(&facts), facts.key_answer);
                self.held = Held::Response(response);
            }
            Read::TooLong(response) => {
                let facts = facts(plan, status, response.headers(), None, too_early);
                (self.facts.signal, self.facts.key_answer) = (plan.policy.read(&facts), facts.key_answer);
                self.held = Held::Response(response);
            }
            Read::Lost(lost) => {
                let facts = facts(plan, status, &lost.head.headers, None, too_early);
                (self.facts.signal, self.facts.key_answer) = (plan.policy.read_without_body(&facts), facts.key_answer);
                self.waits_from = Instant::now();
                (self.facts.cause, self.held) = match (lost.loss, lost.error) {
                    (Loss::Transport, Some(error)) => (Cause::BodyLost, Held::BodyLost(Ok(error))),
                    (Loss::Transport | Loss::TimeUp, _) => (Cause::TimedOut(limit.is), Held::BodyLost(Err(limit.is))),
                };
            }
        }
    }

    fn failed(&mut self, error: Error, slot: &SendSlot) {
        match &error {
            Error::Reqwest(transport) => {
                self.facts.cause = errors::cause(transport);
                self.facts.status = transport.status();
                self.facts.signal = match (self.facts.status, errors::is_broken(transport)) {
                    // An inner middleware made an error of an answer.
                    (Some(status), _) => Signal::Answered(status),
                    (None, true) => Signal::Broken,
                    (None, false) => Signal::Failed,
                };
            }
            Error::Middleware(_) => {
                self.facts.cause = Cause::Middleware;
                self.facts.signal = Signal::Broken;
            }
        }
        self.facts.evidence = slot.verdict().unwrap_or(Evidence::Unknown);
        self.held = Held::Error(error);
    }
}

/// What there is to know about an answer, for the policy to say what it means.
fn facts(plan: &Plan<'_>, status: StatusCode, headers: &HeaderMap, body: Option<&[u8]>, too_early: TooEarly) -> AnswerFacts {
    let endpoint = plan.endpoint.as_ref();
    AnswerFacts {
        status,
        key_answer: endpoint.and_then(Endpoint::contract).and_then(|contract| contract.answer(status, headers)),
        verdict: endpoint.and_then(|endpoint| endpoint.classify(&Answer::new(status, headers, body))),
        veto: plan.hints.veto(headers),
        too_early,
    }
}

/// What an answer that refuses the request proves. Where nobody counted redirects, an answer from the network proves nothing, not even one
/// that has the request's own URL: a 303 may lead a POST that was processed back to the page it was sent to. Mocks follow no redirect.
fn refusal(slot: &SendSlot, response: &Response) -> Evidence {
    slot.refusal(response.status()).unwrap_or_else(|| {
        // What reqwest says when a response was built by hand without a URL. One from the network has a URL, and mostly an address as well;
        // not on a Unix socket.
        let by_hand = response.remote_addr().is_none() && response.url().host_str() == Some("no.url.provided.local");
        if by_hand { Evidence::Unprocessed } else { Evidence::Unknown }
    })
}
