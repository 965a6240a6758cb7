//! Reading: what an answer means, in one match. The first of the five speaks: replay marker,
//! verdict, contract, veto, statuses.
//!
//! It says what an answer *means*, never what it *proves*: that is [`Evidence`](super::Evidence).
//! `docs/tables.md` prints the match, and a test compares the two. There is no catch-all arm, so a
//! new fact does not compile until somebody has thought about it.

use http::StatusCode;

use super::{KeyAnswer, RetryPolicy, RetryStatuses, Signal};

/// What is known about one answer before anybody says what it means.
///
/// [`AnswerFacts::new`] is an answer that says nothing but its status; the `with_…` methods replace
/// single facts.
///
/// # Examples
/// ```
/// use http::StatusCode;
/// use reqwest_safe_retry::policy::{AnswerFacts, RetryPolicy, Signal, Verdict, ServerAdvice};
///
/// let busy = AnswerFacts::new(StatusCode::SERVICE_UNAVAILABLE);
/// let policy = RetryPolicy::DEFAULT;
/// assert_eq!(policy.read(&busy), Signal::Answered(busy.status));
/// let vetoed = busy.with_server_advice(ServerAdvice::Forbid);
/// assert_eq!(policy.read(&vetoed), Signal::Forbidden);
/// // The endpoint knows better than a vendor's field.
/// assert_eq!(policy.read(&vetoed.with_verdict(Verdict::Final)), Signal::Final(busy.status));
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct AnswerFacts {
    /// The status.
    pub status: StatusCode,
    /// What it says about the key it was sent under, as the key's contract reads it.
    pub key_answer: Option<KeyAnswer>,
    /// What the endpoint's own classifier says.
    pub verdict: Option<Verdict>,
    /// What the server says about sending the request again.
    pub server_advice: Option<ServerAdvice>,
    /// Whether an earlier answer of this operation was a 425.
    pub too_early: TooEarly,
}

impl AnswerFacts {
    /// The first answer of an operation, with nothing to read but its status.
    #[must_use]
    pub const fn new(status: StatusCode) -> Self {
        Self { status, key_answer: None, verdict: None, server_advice: None, too_early: TooEarly::Unheard }
    }

    /// Replaces what the answer says about the key.
    #[must_use]
    pub const fn with_key_answer(self, key_answer: KeyAnswer) -> Self {
        Self { key_answer: Some(key_answer), ..self }
    }

    /// Replaces the endpoint's verdict.
    #[must_use]
    pub const fn with_verdict(self, verdict: Verdict) -> Self {
        Self { verdict: Some(verdict), ..self }
    }

    /// Replaces the server's veto.
    #[must_use]
    pub const fn with_server_advice(self, server_advice: ServerAdvice) -> Self {
        Self { server_advice: Some(server_advice), ..self }
    }

    /// Replaces whether an earlier answer was a 425.
    #[must_use]
    pub const fn with_too_early(self, too_early: TooEarly) -> Self {
        Self { too_early, ..self }
    }
}

/// What an answer means at an endpoint, in the endpoint's own reading.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Verdict {
    /// The operation's result, whatever the status.
    Final,
    /// Trying again can help, if something protects the effect.
    Resendable,
    /// The server has too much to do: as [`Resendable`](Self::Resendable), after the longer backoff
    /// that 429 and 503 get. For statuses and bodies that say "too much" in their own way.
    Overloaded,
    /// The first copy of a keyed write is still being processed: wait, then send with the same key.
    KeyInUse,
    /// The server asks not to be sent this again.
    Forbidden,
}

/// What a server says about sending a request again. Of contradicting fields the greater,
/// [`ServerAdvice::Forbid`], counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[expect(clippy::exhaustive_enums, reason = "the fields say true or false")]
pub enum ServerAdvice {
    /// Sending again can help. A hint, no protection: an unprotected write stays unsent.
    Resend,
    /// Sending again cannot help.
    Forbid,
}

/// Whether an earlier answer of the operation was 425 Too Early.
///
/// [RFC 8470 §5.2](https://www.rfc-editor.org/rfc/rfc8470#section-5.2) allows one automatic repeat
/// after it, so a second 425 is final.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[expect(clippy::exhaustive_enums, reason = "there was one or there was none")]
pub enum TooEarly {
    /// None of them was.
    Unheard,
    /// One was.
    Heard,
}

impl TooEarly {
    /// The same after one more attempt, answered with this status or not at all.
    #[must_use]
    pub fn after(self, status: Option<StatusCode>) -> Self {
        if status == Some(StatusCode::TOO_EARLY) { Self::Heard } else { self }
    }
}

/// What a status says where nothing else speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Class {
    /// One of the policy's statuses: trying again can help.
    Retryable,
    /// Another 4xx or 5xx.
    OtherError,
    /// Anything else.
    NoError,
    /// A 425, and not the first one.
    SecondTooEarly,
}

impl Class {
    pub(super) fn of(status: StatusCode, retryable: RetryStatuses, too_early: TooEarly) -> Self {
        if status == StatusCode::TOO_EARLY && too_early == TooEarly::Heard {
            Self::SecondTooEarly
        } else if retryable.contains(status) {
            Self::Retryable
        } else if status.is_client_error() || status.is_server_error() {
            Self::OtherError
        } else {
            Self::NoError
        }
    }
}

impl RetryPolicy {
    /// What an answer means: the signal to decide about.
    #[must_use]
    #[doc(alias("retry after", "status codes"))]
    pub fn read(&self, answer: &AnswerFacts) -> Signal {
        let AnswerFacts { status, key_answer, verdict, server_advice, too_early } = *answer;
        match (key_answer, verdict) {
            // Another send returns the same, whoever thinks what of it.
            (
                Some(KeyAnswer::Replayed),
                Some(Verdict::Final | Verdict::Resendable | Verdict::Overloaded | Verdict::KeyInUse | Verdict::Forbidden) | None,
            ) => Signal::Final(status),
            (Some(KeyAnswer::InUse | KeyAnswer::Mismatch) | None, Some(Verdict::Final)) => Signal::Final(status),
            (Some(KeyAnswer::InUse | KeyAnswer::Mismatch) | None, Some(Verdict::Resendable)) => Signal::Resendable(status),
            (Some(KeyAnswer::InUse | KeyAnswer::Mismatch) | None, Some(Verdict::Overloaded)) => Signal::Overloaded(status),
            (Some(KeyAnswer::InUse | KeyAnswer::Mismatch) | None, Some(Verdict::KeyInUse)) => Signal::KeyInUse,
            (Some(KeyAnswer::InUse | KeyAnswer::Mismatch) | None, Some(Verdict::Forbidden)) => Signal::Forbidden,
            (Some(KeyAnswer::Mismatch), None) => Signal::Final(status),
            (Some(KeyAnswer::InUse), None) => match server_advice {
                // The server knows what would come of waiting.
                Some(ServerAdvice::Forbid) => Signal::Forbidden,
                Some(ServerAdvice::Resend) | None => Signal::KeyInUse,
            },
            // A veto speaks about failures: it makes no success out of a refusal, and no refusal
            // out of a success.
            (None, None) => match (Class::of(status, self.statuses, too_early), server_advice) {
                (Class::SecondTooEarly, Some(ServerAdvice::Resend | ServerAdvice::Forbid) | None) => Signal::Final(status),
                (Class::Retryable, Some(ServerAdvice::Forbid)) => Signal::Forbidden,
                (Class::Retryable | Class::OtherError, Some(ServerAdvice::Resend)) => Signal::Resendable(status),
                (Class::OtherError, Some(ServerAdvice::Forbid)) => Signal::Answered(status),
                (Class::NoError, Some(ServerAdvice::Resend | ServerAdvice::Forbid)) => Signal::Answered(status),
                (Class::Retryable | Class::OtherError | Class::NoError, None) => Signal::Answered(status),
            },
        }
    }

    /// What an answer means whose head arrived and whose body did not: a final one is no result
    /// without its body, the others are what they were.
    #[must_use]
    pub fn read_without_body(&self, answer: &AnswerFacts) -> Signal {
        let signal = self.read(answer);
        match signal {
            Signal::Answered(status) if self.statuses.contains(status) => signal,
            Signal::Answered(status) | Signal::Final(status) => Signal::BodyLost(status),
            Signal::Resendable(_)
            | Signal::Overloaded(_)
            | Signal::KeyInUse
            | Signal::Failed
            | Signal::Broken
            | Signal::BodyLost(_)
            | Signal::Forbidden
            | Signal::ProbedAbsent
            | Signal::SentBefore => signal,
        }
    }

    /// Whether a wait that came with this signal is meant for other operations as well. A wait for
    /// a key in use is not, nor is one that came with a result.
    ///
    /// ```
    /// use http::StatusCode;
    /// use reqwest_safe_retry::policy::{AnswerFacts, RetryPolicy, Signal, TooEarly};
    ///
    /// let policy = RetryPolicy::DEFAULT;
    /// let busy = AnswerFacts::new(StatusCode::SERVICE_UNAVAILABLE);
    /// assert!(policy.concerns_others(policy.read(&busy)));
    /// assert!(!policy.concerns_others(Signal::KeyInUse));
    /// // Of an answer that broke off, the status is left, but no result.
    /// let created = AnswerFacts::new(StatusCode::CREATED);
    /// assert_eq!(policy.read_without_body(&created), Signal::BodyLost(StatusCode::CREATED));
    /// // A second 425 is final.
    /// let early = AnswerFacts::new(StatusCode::TOO_EARLY);
    /// let again = early.with_too_early(TooEarly::Heard);
    /// assert_ne!(policy.read(&early), policy.read(&again));
    /// ```
    #[must_use]
    pub const fn concerns_others(&self, signal: Signal) -> bool {
        match signal {
            Signal::Answered(status) => self.statuses.contains(status),
            Signal::Resendable(_) | Signal::Overloaded(_) | Signal::Forbidden => true,
            Signal::Final(_)
            | Signal::KeyInUse
            | Signal::Failed
            | Signal::Broken
            | Signal::BodyLost(_)
            | Signal::ProbedAbsent
            | Signal::SentBefore => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BUSY: AnswerFacts = AnswerFacts::new(StatusCode::SERVICE_UNAVAILABLE);
    const CONFLICT: AnswerFacts = AnswerFacts::new(StatusCode::CONFLICT);
    const TOO_EARLY: AnswerFacts = AnswerFacts::new(StatusCode::TOO_EARLY);

    fn read(facts: &AnswerFacts) -> Signal {
        RetryPolicy::DEFAULT.read(facts)
    }

    #[test]
    fn each_voice_is_heard_before_the_ones_after_it() {
        let status = BUSY.status;
        assert_eq!(read(&BUSY), Signal::Answered(status));
        let vetoed = BUSY.with_server_advice(ServerAdvice::Forbid);
        assert_eq!(read(&vetoed), Signal::Forbidden);
        let mismatched = vetoed.with_key_answer(KeyAnswer::Mismatch);
        assert_eq!(read(&mismatched), Signal::Final(status));
        let judged = mismatched.with_verdict(Verdict::Resendable);
        assert_eq!(read(&judged), Signal::Resendable(status));
        let replayed = judged.with_key_answer(KeyAnswer::Replayed);
        assert_eq!(read(&replayed), Signal::Final(status));
    }

    #[test]
    fn a_veto_ends_the_wait_for_a_key_in_use() {
        let in_use = CONFLICT.with_key_answer(KeyAnswer::InUse);
        assert_eq!(read(&in_use), Signal::KeyInUse);
        assert_eq!(read(&in_use.with_server_advice(ServerAdvice::Resend)), Signal::KeyInUse);
        assert_eq!(read(&in_use.with_server_advice(ServerAdvice::Forbid)), Signal::Forbidden);
    }

    #[test]
    fn a_veto_makes_no_success_of_a_refusal_and_no_refusal_of_a_success() {
        for (status, hoped, forbidden) in [
            (StatusCode::OK, Signal::Answered(StatusCode::OK), Signal::Answered(StatusCode::OK)),
            (StatusCode::CONFLICT, Signal::Resendable(StatusCode::CONFLICT), Signal::Answered(StatusCode::CONFLICT)),
            (StatusCode::BAD_GATEWAY, Signal::Resendable(StatusCode::BAD_GATEWAY), Signal::Forbidden),
        ] {
            let facts = AnswerFacts::new(status);
            assert_eq!(read(&facts.with_server_advice(ServerAdvice::Resend)), hoped, "{status}");
            assert_eq!(read(&facts.with_server_advice(ServerAdvice::Forbid)), forbidden, "{status}");
        }
    }

    #[test]
    fn a_second_too_early_is_final_and_stays_so_in_between() {
        let first = TooEarly::Unheard;
        assert_eq!(read(&TOO_EARLY.with_too_early(first)), Signal::Answered(StatusCode::TOO_EARLY));
        let second = first.after(Some(StatusCode::TOO_EARLY)).after(Some(StatusCode::SERVICE_UNAVAILABLE)).after(None);
        assert_eq!(read(&TOO_EARLY.with_too_early(second)), Signal::Final(StatusCode::TOO_EARLY));
        assert_eq!(read(&BUSY.with_too_early(second)), Signal::Answered(BUSY.status));
        assert_eq!(first.after(Some(StatusCode::OK)), TooEarly::Unheard);
    }

    #[test]
    fn a_final_answer_without_its_body_is_no_result() {
        let ok = AnswerFacts::new(StatusCode::OK);
        let lost = |facts: &AnswerFacts| RetryPolicy::DEFAULT.read_without_body(facts);
        assert_eq!(lost(&ok), Signal::BodyLost(ok.status));
        assert_eq!(lost(&BUSY.with_verdict(Verdict::Final)), Signal::BodyLost(BUSY.status));
        assert_eq!(lost(&BUSY), Signal::Answered(BUSY.status));
        assert_eq!(lost(&ok.with_verdict(Verdict::Resendable)), Signal::Resendable(ok.status));
    }

    #[test]
    fn a_wait_for_a_key_in_use_or_with_a_result_concerns_nobody_else() {
        let concerns = |signal| RetryPolicy::DEFAULT.concerns_others(signal);
        for signal in [Signal::Answered(BUSY.status), Signal::Resendable(StatusCode::OK), Signal::Forbidden] {
            assert!(concerns(signal), "{signal:?}");
        }
        for signal in [Signal::Answered(StatusCode::OK), Signal::Final(BUSY.status), Signal::BodyLost(StatusCode::OK), Signal::KeyInUse] {
            assert!(!concerns(signal), "{signal:?}");
        }
    }
}
