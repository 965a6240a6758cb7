//! The key of one operation: found, checked or made before the first attempt, and the same on every
//! one.
//!
//! A new key for a resend would be a new operation. So the key is settled once, before anything is
//! sent, and keeps the age it had before.

use std::time::{Duration, SystemTime};

use http::{HeaderMap, HeaderName, HeaderValue};
use reqwest::Request;

use crate::{
    outcome::error::Misuse,
    platform::wall_clock,
    policy::{IdempotencyKey, KeyContract, KeySource, defaults},
    request::sent_before::SentBefore,
};

/// The key an operation is sent with.
pub(crate) struct OperationKey {
    key: IdempotencyKey,
    /// The key's header and its companion, or the former twice: what must be the same on every
    /// attempt, and belongs to no other request.
    headers: [HeaderName; 2],
    /// The key as it stands in its header.
    value: HeaderValue,
    /// When the key was first sent: by an earlier operation, or by this one.
    first_use: SystemTime,
    /// Time from the key's first use to the start of this operation; [`Duration::MAX`] where nobody
    /// knows it.
    age: Duration,
    provenance: Provenance,
}

/// Where a key comes from.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Provenance {
    Caller,
    /// Made for this operation: nobody can have sent it before.
    Made,
}

impl OperationKey {
    /// Settles the key of a request and writes it into the headers. The caller's own header is kept
    /// as it was written.
    ///
    /// # Errors
    /// [`Misuse`], before anything is sent: a key without a contract, none where the caller must
    /// bring one, a malformed one, or several.
    pub(crate) fn settle(
        request: &mut Request,
        contract: Option<&KeyContract>,
        given: Option<&IdempotencyKey>,
        sent_before: Option<SentBefore>,
    ) -> Result<Option<Self>, Misuse> {
        let Some(contract) = contract else {
            return if given.is_some() { Err(Misuse::KeyWithoutContract) } else { Ok(None) };
        };
        let written = written(contract, request.headers())?;
        let (key, provenance) = match (written.as_ref(), given, contract.source()) {
            (Some(written), Some(given), _) if written != given => return Err(Misuse::SeveralKeys),
            // The extension knows when the key was first used, the header does not.
            (_, Some(given), _) => (given.clone(), Provenance::Caller),
            (Some(written), None, _) => (written.clone(), Provenance::Caller),
            (None, None, KeySource::Generate) => (IdempotencyKey::random(), Provenance::Made),
            (None, None, KeySource::CallerMust) => return Err(Misuse::MissingKey),
        };
        let key = match (sent_before, provenance) {
            (Some(sent_before), Provenance::Caller) => {
                let first_use = sent_before.first_use(key.first_use());
                key.first_used(first_use)
            }
            (None, Provenance::Caller | Provenance::Made) | (Some(_), Provenance::Made) => key,
        };
        let now = wall_clock();
        let first_use = key.first_use().unwrap_or(now);
        let age = age_of(first_use, now);
        let encoded = contract.encode(&key).map_err(Misuse::InvalidKey)?;
        if request.headers().is_empty() {
            // By itself, the map would make room for six.
            request.headers_mut().reserve(1);
        }
        let value = request.headers_mut().entry(contract.header()).or_insert(encoded).clone();
        let companion = contract.first_sent(first_use).map(|(name, date)| {
            request.headers_mut().entry(&name).or_insert(date);
            name
        });
        let headers = [contract.header().clone(), companion.unwrap_or_else(|| contract.header().clone())];
        Ok(Some(Self { key, headers, value, first_use, age, provenance }))
    }

    pub(crate) fn key(&self) -> &IdempotencyKey {
        &self.key
    }

    /// The key with the time of its first use, for an operation that carries on where this one
    /// ended.
    pub(crate) fn once_used(&self) -> IdempotencyKey {
        self.key.clone().first_used(self.first_use)
    }

    pub(crate) fn headers(&self) -> &[HeaderName] {
        &self.headers
    }

    /// The key as it stands in the headers of every attempt.
    pub(crate) fn written(&self) -> (HeaderName, HeaderValue) {
        let [name, _] = &self.headers;
        (name.clone(), self.value.clone())
    }

    /// The key's age at the start of the operation.
    pub(crate) fn age(&self) -> Duration {
        self.age
    }

    /// The key's age this long after the start of the operation. The monotonic clock stands still
    /// while a machine sleeps, and the server goes on forgetting: the wall clock counts where it
    /// tells more.
    pub(crate) fn age_after(&self, elapsed: Duration) -> Duration {
        self.age.saturating_add(elapsed).max(wall_clock().duration_since(self.first_use).unwrap_or_default())
    }

    /// Whether an earlier operation sent it, as it says of itself or [`SentBefore`] says.
    pub(crate) fn was_used_before(&self) -> bool {
        self.key.first_use().is_some()
    }

    /// Whether it was made for this operation, so that nobody can have sent it before.
    pub(crate) fn was_made(&self) -> bool {
        self.provenance == Provenance::Made
    }
}

/// How long ago a key was first used. A little in the future is another clock; more is a time that
/// says nothing, and the key may be of any age.
fn age_of(first_use: SystemTime, now: SystemTime) -> Duration {
    match now.duration_since(first_use) {
        Ok(age) => age,
        Err(ahead) if ahead.duration() <= defaults::CREDIBLE_SKEW => Duration::ZERO,
        Err(_) => Duration::MAX,
    }
}

fn written(contract: &KeyContract, headers: &HeaderMap) -> Result<Option<IdempotencyKey>, Misuse> {
    if headers.get_all(contract.header()).iter().nth(1).is_some() {
        return Err(Misuse::SeveralKeys);
    }
    contract.find(headers).transpose().map_err(Misuse::InvalidKey)
}

#[cfg(test)]
mod tests {
    use reqwest::Method;

    use super::*;

    #[test]
    fn a_key_ages_while_the_machine_sleeps() {
        let mut request = Request::new(Method::POST, "https://api.example/".parse().unwrap());
        let hour = Duration::from_secs(60 * 60);
        let fresh = OperationKey::settle(&mut request, Some(&KeyContract::STRIPE), None, None).unwrap().unwrap();
        assert!((hour..2 * hour).contains(&fresh.age_after(hour)));
        let slept = OperationKey { first_use: SystemTime::now() - hour, ..fresh };
        assert!((hour..2 * hour).contains(&slept.age_after(Duration::ZERO)));
    }
}
