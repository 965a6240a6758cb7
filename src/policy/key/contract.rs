//! What a server promises about keys: where they go, how they are spelled, how long they are
//! remembered, and what its answers say about them.

use std::{
    mem,
    ops::RangeInclusive,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use http::{HeaderMap, HeaderValue, StatusCode, header::HeaderName};

use super::value::{Flaw, IdempotencyKey, InvalidKey};
use crate::policy::{RetryStatuses, defaults, structured};

/// What a server promises for an idempotency key: where it is sent, how it is spelled, how long it
/// is remembered, what its answers mean.
///
/// [`KeyContract::new`] is complete at birth; the `with_…` methods replace single facts. State only
/// what the server's documentation says; the contracts of well-known servers are in the module
/// `presets`.
///
/// # Default
/// Of everything that [`new`](Self::new) does not ask for: a missing key is generated · keys of 1
/// to 255 characters · unique within the account · no status means "in progress" or "other
/// content", no replay marker, no companion header · which results are replayed is unstated · no
/// reuse guard.
///
/// # Examples
/// ```
/// use http::{HeaderName, StatusCode};
/// use reqwest_safe_retry::policy::{IdempotencyKey, KeyContract, KeyFormat};
/// use std::time::Duration;
///
/// const DAY: Duration = Duration::from_secs(24 * 60 * 60);
/// const CONTRACT: KeyContract =
///     KeyContract::new(HeaderName::from_static("x-request-key"), KeyFormat::Quoted, DAY)
///         .with_in_progress(StatusCode::CONFLICT);
///
/// let key = IdempotencyKey::parse("order-2041")?;
/// assert_eq!(CONTRACT.encode(&key)?, r#""order-2041""#);
/// # Ok::<(), reqwest_safe_retry::policy::InvalidKey>(())
/// ```
///
/// All that a server's documentation may say:
/// ```
/// use http::{HeaderName, StatusCode};
/// use reqwest_safe_retry::policy::{Coverage, KeyContract, UniqueWithin, Replays};
/// use std::time::Duration;
///
/// let contract = KeyContract::ietf(Duration::from_secs(3600))
///     .with_uniqueness(UniqueWithin::Endpoint)
///     .with_replays(Replays::Successes)
///     .with_replay_marker(HeaderName::from_static("idempotent-replayed"))
///     .with_mismatch(StatusCode::UNPROCESSABLE_ENTITY)
///     .with_length(1..=64)
///     .with_reuse_guard();
/// // A failure is not saved, so the same key runs the operation again.
/// assert_eq!(contract.replays().covers(StatusCode::SERVICE_UNAVAILABLE), Coverage::RunsAgain);
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
#[must_use]
#[doc(alias("idempotency", "idempotency key"))]
pub struct KeyContract {
    header: HeaderName,
    format: KeyFormat,
    remembered_for: Duration,
    source: KeySource,
    shortest: usize,
    longest: usize,
    unique_within: UniqueWithin,
    reuse: Reuse,
    replays: Replays,
    replay_marker: Option<HeaderName>,
    in_progress: Option<StatusCode>,
    mismatch: Option<StatusCode>,
    first_sent_header: Option<HeaderName>,
}

/// Whether the client itself looks out for a key that comes back with other content.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Reuse {
    LeftToServer,
    Guarded,
}

impl KeyContract {
    const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");

    /// Stripe's API v1: bare keys of at most 255 characters in `Idempotency-Key`, remembered for at
    /// least 24 hours; 409 while the first copy runs, 400 for other content. Saves the first result
    /// whatever it is, a 500 included, and marks each replay with `Idempotent-Replayed`. Source:
    /// <https://docs.stripe.com/api/idempotent_requests>.
    pub const STRIPE: Self = Self::new(Self::IDEMPOTENCY_KEY, KeyFormat::Bare, Duration::from_secs(24 * 60 * 60))
        .with_in_progress(StatusCode::CONFLICT)
        .with_mismatch(StatusCode::BAD_REQUEST)
        .with_replays(Replays::Everything)
        .with_replay_marker(HeaderName::from_static("idempotent-replayed"));

    /// A contract with this header, this spelling and this memory, counted from the first send.
    pub const fn new(header: HeaderName, format: KeyFormat, remembered_for: Duration) -> Self {
        Self {
            header,
            format,
            remembered_for,
            source: KeySource::Generate,
            shortest: *defaults::KEY_LENGTH.start(),
            longest: *defaults::KEY_LENGTH.end(),
            unique_within: UniqueWithin::Account,
            reuse: Reuse::LeftToServer,
            replays: Replays::Unstated,
            replay_marker: None,
            in_progress: None,
            mismatch: None,
            first_sent_header: None,
        }
    }

    /// The IETF draft: a quoted String in `Idempotency-Key` (§2.1), 409 while the first copy runs,
    /// 422 for other content (§2.7), the saved result whether success or error (§2.6). How long
    /// keys are remembered is published by each server (§2.3).
    pub const fn ietf(remembered_for: Duration) -> Self {
        Self::new(Self::IDEMPOTENCY_KEY, KeyFormat::Quoted, remembered_for)
            .with_in_progress(StatusCode::CONFLICT)
            .with_mismatch(StatusCode::UNPROCESSABLE_ENTITY)
            .with_replays(Replays::Everything)
    }

    /// Replaces how long after the first send the server still recognises the key.
    pub const fn with_remembered_for(mut self, time: Duration) -> Self {
        self.remembered_for = time;
        self
    }

    /// Replaces who supplies the key.
    pub const fn with_source(mut self, source: KeySource) -> Self {
        self.source = source;
        self
    }

    /// Replaces how many characters a key may have. The quotes and escapes of [`KeyFormat::Quoted`]
    /// do not count.
    pub const fn with_length(mut self, characters: RangeInclusive<usize>) -> Self {
        (self.shortest, self.longest) = (*characters.start(), *characters.end());
        self
    }

    /// Replaces within what a key has to be unique.
    pub const fn with_uniqueness(mut self, unique_within: UniqueWithin) -> Self {
        self.unique_within = unique_within;
        self
    }

    /// Refuses, before anything is sent, a key that comes back with another method, URL or body
    /// while it is remembered; and a factory that makes other content for a later attempt.
    ///
    /// The guard sees what one client sends, and remembers a bounded number of keys; the server's
    /// own check stays the authority.
    ///
    /// * A key means its content from its first send on, and is free again if nothing of the
    ///   operation was processed. One that this crate makes is remembered once an error has handed
    ///   it out.
    /// * An account is an origin, unless the client says otherwise (`with_key_accounts`).
    /// * After an answer, whatever its status, the key stays taken. Some servers forget it after a
    ///   400; a corrected request is another operation all the same, and takes a key of its own.
    /// * Each body is read for a hash when it is sent, those of factories on every attempt: about
    ///   half a millisecond for each MiB, in the task that sends. A stream is taken for any body.
    pub const fn with_reuse_guard(mut self) -> Self {
        self.reuse = Reuse::Guarded;
        self
    }

    /// Replaces which results are answered again instead of executed again.
    pub const fn with_replays(mut self, replays: Replays) -> Self {
        self.replays = replays;
        self
    }

    /// Names the response header that marks a replay. An answer with it is final, whatever its
    /// status: another send returns the same.
    pub const fn with_replay_marker(mut self, header: HeaderName) -> Self {
        put(&mut self.replay_marker, header);
        self
    }

    /// Names the status that means: the first copy is still being processed, come back with the
    /// same key.
    pub const fn with_in_progress(mut self, status: StatusCode) -> Self {
        self.in_progress = Some(status);
        self
    }

    /// Names the status that means: this key was used with other content. Servers use it for plain
    /// validation failures as well.
    pub const fn with_mismatch(mut self, status: StatusCode) -> Self {
        self.mismatch = Some(status);
        self
    }

    /// Names the companion header that carries the time of the first send, the same on every
    /// attempt (OASIS Repeatable Requests 1.0).
    ///
    /// ```
    /// use http::{HeaderName, StatusCode};
    /// use reqwest_safe_retry::policy::{KeyContract, UniqueWithin};
    /// use std::time::{Duration, SystemTime};
    ///
    /// let first_sent = HeaderName::from_static("repeatability-first-sent");
    /// let contract = KeyContract::ietf(Duration::from_secs(3600))
    ///     .with_remembered_for(Duration::from_secs(300))
    ///     .with_first_sent_header(first_sent.clone());
    /// let (name, value) = contract.first_sent(SystemTime::UNIX_EPOCH).unwrap();
    /// assert_eq!(name, first_sent);
    /// assert_eq!(value, "Thu, 01 Jan 1970 00:00:00 GMT");
    /// // All that it says can be asked for.
    /// assert!(contract.first_sent_header().is_some() && contract.replay_marker().is_none());
    /// assert_eq!(contract.unique_within(), UniqueWithin::Account);
    /// assert_eq!(contract.in_progress(), Some(StatusCode::CONFLICT));
    /// assert_eq!(contract.mismatch(), Some(StatusCode::UNPROCESSABLE_ENTITY));
    /// assert!(!contract.guards_reuse());
    /// ```
    pub const fn with_first_sent_header(mut self, header: HeaderName) -> Self {
        put(&mut self.first_sent_header, header);
        self
    }

    /// The request header that carries the key.
    #[must_use]
    pub const fn header(&self) -> &HeaderName {
        &self.header
    }

    /// How the key is spelled on the wire.
    #[must_use]
    pub const fn format(&self) -> KeyFormat {
        self.format
    }

    /// How long after the first send the server still recognises the key.
    #[must_use]
    pub const fn remembered_for(&self) -> Duration {
        self.remembered_for
    }

    /// Who supplies the key.
    #[must_use]
    pub const fn source(&self) -> KeySource {
        self.source
    }

    /// How many characters a key may have.
    #[must_use]
    pub const fn length(&self) -> RangeInclusive<usize> {
        self.shortest..=self.longest
    }

    /// Within what a key has to be unique.
    #[must_use]
    pub const fn unique_within(&self) -> UniqueWithin {
        self.unique_within
    }

    /// Whether the client refuses a key that comes back with other content.
    #[must_use]
    pub const fn guards_reuse(&self) -> bool {
        matches!(self.reuse, Reuse::Guarded)
    }

    /// Which results are answered again instead of executed again.
    #[must_use]
    pub const fn replays(&self) -> Replays {
        self.replays
    }

    /// The response header that marks a replay.
    #[must_use]
    pub const fn replay_marker(&self) -> Option<&HeaderName> {
        self.replay_marker.as_ref()
    }

    /// The status that means that the first copy is still being processed.
    #[must_use]
    pub const fn in_progress(&self) -> Option<StatusCode> {
        self.in_progress
    }

    /// The status that means that the key was used with other content.
    #[must_use]
    pub const fn mismatch(&self) -> Option<StatusCode> {
        self.mismatch
    }

    /// The companion header that carries the time of the first send.
    #[must_use]
    pub const fn first_sent_header(&self) -> Option<&HeaderName> {
        self.first_sent_header.as_ref()
    }

    /// Spells a key for the wire. The value is marked sensitive.
    ///
    /// # Errors
    /// The key is shorter or longer than this contract allows.
    pub fn encode(&self, key: &IdempotencyKey) -> Result<HeaderValue, InvalidKey> {
        self.check_length(key)?;
        let encoded = match self.format {
            KeyFormat::Bare => HeaderValue::from_str(key.as_str()),
            KeyFormat::Quoted => HeaderValue::try_from(structured::serialise(key.as_str())),
        };
        let mut value = encoded.map_err(|_| InvalidKey(Flaw::Character))?;
        value.set_sensitive(true);
        Ok(value)
    }

    /// Reads a key that the caller put into a header: the strict reverse of
    /// [`encode`](Self::encode).
    ///
    /// Parameters behind a quoted key are accepted and mean nothing ([RFC 9651 §3.3]): the draft
    /// defines none. The header itself is sent as the caller wrote it.
    ///
    /// # Errors
    /// The value is not spelled as the contract's [`format`](Self::format), or what it spells is
    /// not a key ([`IdempotencyKey::parse`]) of the [`length`](Self::length) that the contract
    /// allows.
    ///
    /// [RFC 9651 §3.3]: https://www.rfc-editor.org/rfc/rfc9651#section-3.3
    pub fn read(&self, value: &HeaderValue) -> Result<IdempotencyKey, InvalidKey> {
        let key = match self.format {
            KeyFormat::Bare => {
                let text = std::str::from_utf8(value.as_bytes()).map_err(|_| InvalidKey(Flaw::Character))?;
                IdempotencyKey::parse(text)?
            }
            KeyFormat::Quoted => {
                let text = structured::parse(value.as_bytes()).ok_or(InvalidKey(Flaw::NotAString))?;
                IdempotencyKey::parse(&text)?
            }
        };
        self.check_length(&key)?;
        Ok(key)
    }

    /// Reads the caller's key out of a request's headers; `None` when there is none.
    ///
    /// # Errors
    /// As [`read`](Self::read), and when there are several: which one the server would take is
    /// anybody's guess.
    pub fn find(&self, headers: &HeaderMap) -> Option<Result<IdempotencyKey, InvalidKey>> {
        let mut values = headers.get_all(&self.header).iter();
        let first = values.next()?;
        Some(if values.next().is_some() { Err(InvalidKey(Flaw::Several)) } else { self.read(first) })
    }

    /// The companion header with the time of the first send, if the contract has one: an
    /// IMF-fixdate ([RFC 9110 §5.6.7]).
    ///
    /// A time that such a date cannot say becomes the nearest that it can: 1970 and 9999 are its
    /// ends.
    ///
    /// [RFC 9110 §5.6.7]: https://www.rfc-editor.org/rfc/rfc9110#section-5.6.7
    #[must_use]
    pub fn first_sent(&self, at: SystemTime) -> Option<(HeaderName, HeaderValue)> {
        let header = self.first_sent_header.clone()?;
        let value = HeaderValue::try_from(httpdate::fmt_http_date(representable(at))).ok()?;
        Some((header, value))
    }

    /// What an answer says about the key, or `None` when it is an answer like any other.
    #[must_use]
    pub fn answer(&self, status: StatusCode, headers: &HeaderMap) -> Option<KeyAnswer> {
        if self.is_replay(headers) {
            Some(KeyAnswer::Replayed)
        } else if self.in_progress == Some(status) {
            Some(KeyAnswer::InUse)
        } else if self.mismatch == Some(status) {
            Some(KeyAnswer::Mismatch)
        } else {
            None
        }
    }

    /// As [`answer`](Self::answer), for an answer that follows another one under the same key.
    ///
    /// A server that replays failures and marks no replay gives itself away by answering alike
    /// twice: the second one is taken for a replay, and no third send could change it. Statuses
    /// that a proxy or a limiter answers before anything has run (408, 425, 429, 502, 503, 504) are
    /// never saved results, and a repeated one says nothing.
    ///
    /// ```
    /// use http::{HeaderMap, StatusCode};
    /// use reqwest_safe_retry::policy::{KeyContract, Replays};
    /// use std::time::Duration;
    ///
    /// let contract =
    ///     KeyContract::ietf(Duration::from_secs(3600)).with_replays(Replays::Everything);
    /// let (failed, plain) = (StatusCode::INTERNAL_SERVER_ERROR, HeaderMap::new());
    /// let first = contract.answer_after(None, failed, &plain);
    /// // The same failure again is most likely the saved one.
    /// let second = contract.answer_after(Some(failed), failed, &plain);
    /// assert_ne!(first, second);
    /// ```
    #[must_use]
    pub fn answer_after(&self, earlier: Option<StatusCode>, status: StatusCode, headers: &HeaderMap) -> Option<KeyAnswer> {
        let is_silent_replay = self.replay_marker.is_none()
            && earlier == Some(status)
            && self.replays.covers(status) == Coverage::Replayed
            && !RetryStatuses::BEFORE_RUNNING.contains(status);
        self.answer(status, headers).or(is_silent_replay.then_some(KeyAnswer::Replayed))
    }

    /// Some servers send the marker on every answer and say `false` on the first.
    fn is_replay(&self, headers: &HeaderMap) -> bool {
        let marker = self.replay_marker.as_ref().and_then(|marker| headers.get(marker));
        marker.is_some_and(|value| !value.as_bytes().trim_ascii().eq_ignore_ascii_case(b"false"))
    }

    fn check_length(&self, key: &IdempotencyKey) -> Result<(), InvalidKey> {
        let allowed = self.length();
        if allowed.contains(&key.as_str().len()) { Ok(()) } else { Err(InvalidKey(Flaw::Length(allowed))) }
    }
}

/// A `const fn` cannot drop the name that it replaces. It is forgotten instead: nearly always
/// `None` or static, and never in a loop.
const fn put(slot: &mut Option<HeaderName>, header: HeaderName) {
    mem::forget(slot.replace(header));
}

/// The nearest time between 1970 and 9999; `httpdate` panics outside.
fn representable(at: SystemTime) -> SystemTime {
    const LAST_SECOND: Duration = Duration::from_secs(253_402_300_799); // Fri, 31 Dec 9999 23:59:59 GMT
    let since_epoch = at.duration_since(UNIX_EPOCH).unwrap_or_default();
    UNIX_EPOCH.checked_add(since_epoch.min(LAST_SECOND)).unwrap_or(UNIX_EPOCH)
}

/// How a key is spelled on the wire. Servers that take the one refuse the other, or count it as
/// another key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[expect(clippy::exhaustive_enums, reason = "a key has quotes or it has none")]
pub enum KeyFormat {
    /// The characters of the key, nothing else: Stripe and most servers in the field.
    Bare,
    /// An [RFC 9651] String: in double quotes, with `"` and `\` escaped (§3.3.3). What the IETF
    /// draft asks for.
    ///
    /// [RFC 9651]: https://www.rfc-editor.org/rfc/rfc9651
    Quoted,
}

/// Who supplies the key of an operation. A key that the caller gives is never replaced.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub enum KeySource {
    /// A random key is made for an operation that has none. It does not outlive the process: after
    /// a crash nobody knows it.
    Generate,
    /// An operation without a key is refused before anything is sent, so that nobody forgets to
    /// store one.
    CallerMust,
}

/// Within what a key has to be unique.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub enum UniqueWithin {
    /// Within the account: a key must not be shared by two endpoints of the server. The cautious
    /// reading where nobody says.
    Account,
    /// Within one endpoint: another endpoint may see the same key for another operation.
    Endpoint,
}

/// Which results a server answers again under the same key, instead of executing the operation
/// again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub enum Replays {
    /// The documentation does not say.
    Unstated,
    /// Every result, a 500 included: once saved, no resend changes it.
    Everything,
    /// Only 2xx: whatever failed runs again.
    Successes,
    /// Everything but 429 and 5xx, which run again.
    Settled,
}

impl Replays {
    /// Whether a saved answer with this status comes back the same, as far as the contract says.
    #[must_use]
    pub fn covers(self, status: StatusCode) -> Coverage {
        let covered = match self {
            Self::Unstated => return Coverage::Unstated,
            Self::Everything => true,
            Self::Successes => status.is_success(),
            Self::Settled => !status.is_server_error() && status != StatusCode::TOO_MANY_REQUESTS,
        };
        if covered { Coverage::Replayed } else { Coverage::RunsAgain }
    }
}

/// What becomes of a request that comes back under the same key, once its first copy was answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[expect(clippy::exhaustive_enums, reason = "it is known or not, and then it is one of the two")]
pub enum Coverage {
    /// The contract does not say.
    Unstated,
    /// It is answered with what was saved.
    Replayed,
    /// It is executed again.
    RunsAgain,
}

/// What an answer says about the key it was sent under.
///
/// # Examples
/// ```
/// use http::StatusCode;
/// use reqwest_safe_retry::policy::{AnswerFacts, KeyAnswer, RetryPolicy, Signal};
///
/// let copy = AnswerFacts::new(StatusCode::CONFLICT).with_key_answer(KeyAnswer::InUse);
/// assert_eq!(RetryPolicy::DEFAULT.read(&copy), Signal::KeyInUse);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum KeyAnswer {
    /// The saved result of the first copy: final, whatever its status.
    Replayed,
    /// The first copy is still being processed: wait and send again with the same key (§2.7 of
    /// [draft-ietf-httpapi-idempotency-key-header][draft]).
    ///
    /// [draft]: https://www.ietf.org/archive/id/draft-ietf-httpapi-idempotency-key-header-07.txt
    InUse,
    /// The key was used with other content, or the content is not valid; the status does not tell
    /// which. Final, and never a reason for a new key: the caller has to look.
    Mismatch,
}
