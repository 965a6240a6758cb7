//! What stands in one row of a file.

use serde::Deserialize;

use super::{
    keyed_write::KeyedWrite,
    refusal::Refusal,
    status_url::Asked,
    values::{Limit, Methods, Status, given},
};
use crate::{
    contract::{catalog::row::Row, endpoint::Endpoint},
    policy::RetryPolicy,
};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Entry {
    pub(super) origin: String,
    method: Methods,
    path: String,
    effect: Effect,
    name: Option<String>,
    owner: Option<String>,
    deadline: Option<Limit>,
    attempt_limit: Option<Limit>,
    settling: Option<Limit>,
    attempts: Option<u32>,
    reading_body: Option<usize>,
    #[serde(default)]
    trusting_refusal: Vec<Status>,
    #[serde(default)]
    refreshed_after: Vec<Status>,
    status_url: Option<Asked>,
}

#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
enum Effect {
    Read,
    IdempotentWrite,
    UnprotectedWrite,
    NeverResend,
    KeyedWrite(Box<KeyedWrite>),
}

impl Entry {
    /// The row's place, with nothing said about its effect.
    pub(super) fn place(&self) -> Row {
        Row::new(self.method.first.clone(), self.path.clone(), Endpoint::read())
    }

    pub(super) fn into_row(self) -> Result<Row, Refusal> {
        let endpoint = self.effect.endpoint()?;
        let probe = self.status_url.map(|asked| asked.probe(&self.path)).transpose()?;
        let endpoint = given(endpoint, probe, Endpoint::probed_by);
        let endpoint = given(endpoint, self.name, Endpoint::named);
        let endpoint = given(endpoint, self.owner, Endpoint::owned_by);
        let endpoint = given(endpoint, self.deadline, |endpoint, Limit(limit)| endpoint.with_deadline(limit));
        let endpoint = given(endpoint, self.attempt_limit, |endpoint, Limit(limit)| endpoint.with_attempt_limit(limit));
        let endpoint = given(endpoint, self.settling, |endpoint, Limit(time)| endpoint.settling(time));
        let policy = self.attempts.map(|attempts| RetryPolicy::DEFAULT.with_attempts(attempts));
        let endpoint = given(endpoint, policy, Endpoint::with_policy);
        let endpoint = given(endpoint, self.reading_body, Endpoint::reading_body);
        let trusted = self.trusting_refusal.into_iter();
        let endpoint = trusted.fold(endpoint, |endpoint, Status(status)| endpoint.trusting_refusal(status));
        let refreshed = self.refreshed_after.into_iter();
        let endpoint = refreshed.fold(endpoint, |endpoint, Status(status)| endpoint.refreshed_after(status));
        let row = Row::new(self.method.first, self.path, endpoint);
        Ok(self.method.others.into_iter().fold(row, Row::or))
    }
}

impl Effect {
    fn endpoint(self) -> Result<Endpoint, Refusal> {
        Ok(match self {
            Self::Read => Endpoint::read(),
            Self::IdempotentWrite => Endpoint::idempotent_write(),
            Self::UnprotectedWrite => Endpoint::unprotected_write(),
            Self::NeverResend => Endpoint::never_resend(),
            Self::KeyedWrite(write) => Endpoint::keyed_write(write.contract()?),
        })
    }
}
