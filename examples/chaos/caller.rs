//! One operation as its caller lives through it: calls the client, gives up, carries on.

use std::{io, time::Duration};

use bytes::Bytes;
use futures_util::stream;
use reqwest::{Body, Response};
use reqwest_safe_retry::{CorrelationId, Deadline, Evidence, IdempotencyKey, Outcome, ReplayBody, ReportSlot, RetryError, RetryReport};
use tokio::time::{Instant, sleep, timeout};

use crate::{
    fleet::Member,
    journal::Journal,
    limits::{ENDLESS, LATEST_END, PATIENCE},
    plan::{Payload, Plan, ToldBy},
    promise::{Breach, Promise},
};

/// What a caller has in hand when the operation has ended.
pub(crate) struct Ended {
    pub(crate) how: How,
    /// How much later than its deadline each call ended, if it did.
    pub(crate) overshoots: Vec<Duration>,
    /// Of each call that had one: one that is dropped may have none.
    pub(crate) reports: Vec<RetryReport>,
}

/// What the caller heard last.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum How {
    Answered,
    Reconciled,
    Unprocessed,
    Unknown,
    /// A failure that says nothing about effects: of a read, or of a request that nothing marks.
    Failed,
    /// The caller dropped it.
    Dropped,
}

impl How {
    pub(crate) const ALL: [Self; 6] = [Self::Answered, Self::Reconciled, Self::Unprocessed, Self::Unknown, Self::Failed, Self::Dropped];
}

/// Carries out one operation. Whatever the client does, this ends.
pub(crate) async fn carry_out(member: &Member, plan: &Plan, journal: &Journal) -> anyhow::Result<Ended> {
    let mut ended = Ended { how: How::Dropped, overshoots: Vec::new(), reports: Vec::new() };
    let mut key = None;
    for number in 0..=plan.carries_on {
        if number > 0 {
            sleep(plan.thinks).await;
        }
        let call =
            Call { member, plan, key: key.take(), deadline: plan.limit.map(|limit| Instant::now() + limit), slot: ReportSlot::new() };
        let (deadline, slot) = (call.deadline, call.slot.clone());
        journal.call(plan.seed, deadline);
        member.purse.operation();
        let heard = timeout(plan.limit.map_or(ENDLESS, |limit| limit + LATEST_END), call.unless_dropped()).await;
        journal.ended(plan.seed);
        ended.reports.extend(slot.take());
        let Ok(heard) = heard else {
            journal.breach(plan.seed, Breach::of(Promise::Ends, format!("call {number} has not ended")));
            break;
        };
        let Some(heard) = heard.transpose()? else {
            ended.how = How::Dropped;
            break;
        };
        let late = deadline.map(|deadline| Instant::now().saturating_duration_since(deadline));
        ended.overshoots.extend(late.filter(|late| !late.is_zero()));
        (ended.how, key) = (heard.how, heard.key);
        if ended.how != How::Unknown || key.is_none() {
            break;
        }
    }
    Ok(ended)
}

/// One call of the client.
struct Call<'a> {
    member: &'a Member,
    plan: &'a Plan,
    /// What to carry on under.
    key: Option<IdempotencyKey>,
    deadline: Option<Instant>,
    slot: ReportSlot,
}

/// What one call came to.
struct Heard {
    how: How,
    key: Option<IdempotencyKey>,
}

impl Call<'_> {
    /// `None`: the caller dropped it.
    async fn unless_dropped(self) -> Option<anyhow::Result<Heard>> {
        match self.plan.dropped_after {
            Some(after) => timeout(after, self.made()).await.ok(),
            None => Some(self.made().await),
        }
    }

    async fn made(self) -> anyhow::Result<Heard> {
        let Self { member, plan, key, deadline, slot } = self;
        let mut request = member.client.request(plan.class.method(), member.origin.join(&plan.path())?);
        request = match plan.payload {
            Payload::None => request,
            Payload::Bytes(length) => request.body(bytes(length)),
            Payload::Stream(length) => request.body(chunks(length)),
            Payload::Factory(length) => request.with_extension(ReplayBody::from_fn(move || Ok(chunks(length)))),
        };
        request = request.with_extension(CorrelationId::new(&plan.name())?).with_extension(plan.policy).with_extension(slot);
        if let (false, Some(endpoint)) = (member.has_catalog, plan.class.endpoint()?) {
            request = request.with_extension(endpoint);
        }
        if let Some(key) = key {
            request = request.with_extension(key);
        }
        let told = deadline.map_or(Deadline::NONE, Deadline::at);
        let result = match plan.told_by {
            ToldBy::Extension => request.with_extension(told).send().await,
            ToldBy::Scope => told.scope(request.send()).await,
        };
        Ok(match result {
            Ok(response) => answered(response, deadline).await,
            Err(error) => failed(&error),
        })
    }
}

async fn answered(response: Response, deadline: Option<Instant>) -> Heard {
    let report = RetryReport::of(&response).cloned();
    let how = match report.as_ref().map(RetryReport::outcome) {
        Some(Outcome::Reconciled) => How::Reconciled,
        Some(Outcome::Unprocessed) => How::Unprocessed,
        Some(Outcome::Unknown | Outcome::AnsweredAfterUnknown) => How::Unknown,
        Some(_) | None => How::Answered,
    };
    // The deadline covers the body. A caller without one has to look after itself.
    let body = response.bytes();
    match deadline {
        Some(_) => drop(body.await),
        None => drop(timeout(PATIENCE, body).await),
    }
    Heard { how, key: report.and_then(|report| report.key().cloned()) }
}

fn failed(error: &reqwest_middleware::Error) -> Heard {
    let found = RetryError::find(error);
    let how = match found {
        Some(RetryError::OutcomeUnknown(_)) => How::Unknown,
        Some(RetryError::Unprocessed(_)) => How::Unprocessed,
        Some(error) if error.report().is_some_and(|report| report.evidence() == Evidence::Unprocessed) => How::Unprocessed,
        Some(RetryError::BodyLost(_)) => How::Answered,
        Some(_) | None => How::Failed,
    };
    Heard { how, key: found.and_then(RetryError::key).cloned() }
}

const CHUNK: usize = 16 * 1024;

fn bytes(length: usize) -> Bytes {
    Bytes::from(vec![b'.'; length])
}

fn chunks(length: usize) -> Body {
    let chunks = (0..length).step_by(CHUNK).map(move |at| Ok::<_, io::Error>(bytes(CHUNK.min(length - at))));
    Body::wrap_stream(stream::iter(chunks))
}
