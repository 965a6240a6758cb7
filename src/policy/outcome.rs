//! Outcome: what is known about an operation once nothing more is sent, in one match.
//!
//! `docs/tables.md` prints the match, and a test compares the two. There is no catch-all arm, so a
//! new kind of last answer or of history does not compile until somebody has thought about it. Of
//! a new reason to stop, `StopReason::is_final` says what counts here.

use std::fmt;

use http::StatusCode;

use super::{Evidence, KeyAnswer, Signal, StopReason};

/// What is known about an operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub enum Outcome {
    /// The server's answer is the result.
    Answered,
    /// The server's answer may be the echo of our own earlier success: a 404, 409, 410 or 412 to a
    /// resend that followed an attempt whose result is unknown. Nothing is explained away: look at
    /// the state.
    AnsweredAfterUnknown,
    /// The status probe found the operation applied; the answer is the probe's.
    Reconciled,
    /// No attempt was processed: it did not happen, and it may be tried again.
    Unprocessed,
    /// It may or may not have happened.
    Unknown,
}

/// How an operation ended, before anybody says what is known about it.
///
/// # Examples
/// ```
/// use http::StatusCode;
/// use reqwest_safe_retry::policy::{Ending, Evidence, History, LastAnswer, Outcome, StopReason};
///
/// // A DELETE whose first answer was lost, and whose second one is 404: ours, or somebody else's?
/// let gone = LastAnswer::Server(StatusCode::NOT_FOUND);
/// let stop = StopReason::AnswerIsFinal;
/// let ending = Ending::new(stop, gone, History::WriteAfterUnknown, Evidence::Unknown);
/// assert_eq!(Outcome::of(&ending), Outcome::AnsweredAfterUnknown);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct Ending {
    /// Why nothing more is sent.
    pub stop: StopReason,
    /// The answer that the caller gets or would have got.
    pub answer: LastAnswer,
    /// What that answer says about the key it was sent under.
    pub key_answer: Option<KeyAnswer>,
    /// What the operation is, and what its earlier attempts left open.
    pub history: History,
    /// The worst evidence of all attempts that no probe has cleared.
    pub evidence: Evidence,
}

impl Ending {
    /// An end whose answer says nothing about a key.
    #[must_use]
    pub const fn new(stop: StopReason, answer: LastAnswer, history: History, evidence: Evidence) -> Self {
        Self { stop, answer, key_answer: None, history, evidence }
    }

    /// Replaces what the answer says about the key.
    #[must_use]
    pub const fn with_key_answer(self, key_answer: KeyAnswer) -> Self {
        Self { key_answer: Some(key_answer), ..self }
    }

    /// Whether a probe could still tell what would stay unknown: the last look, free of the budget.
    ///
    /// ```
    /// use reqwest_safe_retry::policy::{Ending, Evidence, History, LastAnswer, StopReason};
    ///
    /// let ended = |evidence| {
    ///     Ending::new(StopReason::BudgetSpent, LastAnswer::None, History::Write, evidence)
    /// };
    /// assert!(ended(Evidence::Unknown).is_worth_a_last_look());
    /// assert!(!ended(Evidence::Unprocessed).is_worth_a_last_look());
    /// ```
    #[must_use]
    pub fn is_worth_a_last_look(&self) -> bool {
        match (self.history, self.evidence) {
            (History::Write | History::WriteAfterUnknown, Evidence::Unknown) => self.stop.allows_a_last_look(),
            (History::Write | History::WriteAfterUnknown, Evidence::Unprocessed) => false,
            (History::Read, Evidence::Unprocessed | Evidence::Unknown) => false,
        }
    }
}

/// The last answer of an operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[expect(clippy::exhaustive_enums, reason = "the server, the probe or nobody")]
pub enum LastAnswer {
    /// The last attempt was not answered, or nothing was sent.
    None,
    /// The server's, with this status.
    Server(StatusCode),
    /// The server's, with this final status, whose body was lost.
    WithoutBody(StatusCode),
    /// The probe's, which found the operation applied.
    Probe,
}

impl LastAnswer {
    /// The answer of an attempt that came back with this signal, and with this status if it was
    /// answered.
    #[must_use]
    pub fn of(signal: Signal, status: Option<StatusCode>) -> Self {
        match signal {
            Signal::BodyLost(status) => Self::WithoutBody(status),
            Signal::Answered(_)
            | Signal::Final(_)
            | Signal::Resendable(_)
            | Signal::Overloaded(_)
            | Signal::KeyInUse
            | Signal::Failed
            | Signal::Broken
            | Signal::Forbidden
            | Signal::ProbedAbsent
            | Signal::SentBefore => status.map_or(Self::None, Self::Server),
        }
    }
}

/// What an operation is, and what the attempts before its last one left open.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[expect(clippy::exhaustive_enums, reason = "a read leaves nothing open, a write does or does not")]
pub enum History {
    /// A read: it has no effect that could be unknown, so its answer is an answer.
    Read,
    /// A write, no resend of which followed an attempt whose result is unknown.
    Write,
    /// A write, a resend of which followed an attempt whose result is unknown.
    WriteAfterUnknown,
}

/// What an operation ends with: the rows of the table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum End {
    /// The probe found it applied.
    Probed,
    /// An answer that is the operation's result.
    FinalAnswer,
    /// The same with a status that an earlier success of our own could have caused.
    PossibleEcho,
    /// An answer after which only a limit or a rule kept another attempt from being made.
    OpenAnswer,
    /// No answer.
    NoAnswer,
}

impl End {
    pub(super) fn of(ending: &Ending) -> Self {
        match ending.answer {
            LastAnswer::None => Self::NoAnswer,
            LastAnswer::Probe => Self::Probed,
            LastAnswer::Server(_) if !ending.stop.is_final() => Self::OpenAnswer,
            LastAnswer::Server(status) | LastAnswer::WithoutBody(status) if is_echo(status, ending.key_answer) => Self::PossibleEcho,
            LastAnswer::Server(_) | LastAnswer::WithoutBody(_) => Self::FinalAnswer,
        }
    }
}

/// Whether an earlier success of our own could have caused this answer: *not found* and *gone* a
/// DELETE's, *conflict* and *precondition failed* that of a write to what it has changed.
fn is_echo(status: StatusCode, key_answer: Option<KeyAnswer>) -> bool {
    let echoes = matches!(status, StatusCode::NOT_FOUND | StatusCode::CONFLICT | StatusCode::GONE | StatusCode::PRECONDITION_FAILED);
    match key_answer {
        // The marker proves whose result this is: the first copy's, and that was ours.
        Some(KeyAnswer::Replayed) => false,
        Some(KeyAnswer::InUse | KeyAnswer::Mismatch) | None => echoes,
    }
}

impl Outcome {
    /// What is known about an operation that ended so.
    #[must_use]
    pub fn of(ending: &Ending) -> Self {
        use History::{Read, Write, WriteAfterUnknown};

        match (End::of(ending), ending.history) {
            (End::Probed, Read | Write | WriteAfterUnknown) => Self::Reconciled,
            (End::FinalAnswer, Read | Write | WriteAfterUnknown) => Self::Answered,
            (End::PossibleEcho, Read | Write) => Self::Answered,
            (End::PossibleEcho, WriteAfterUnknown) => Self::AnsweredAfterUnknown,
            (End::OpenAnswer, Read) => Self::Answered,
            (End::OpenAnswer, Write | WriteAfterUnknown) | (End::NoAnswer, Read | Write | WriteAfterUnknown) => match ending.evidence {
                Evidence::Unprocessed => Self::Unprocessed,
                Evidence::Unknown => Self::Unknown,
            },
        }
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Answered => "answered",
            Self::AnsweredAfterUnknown => "answered, perhaps by the echo of an earlier success",
            Self::Reconciled => "looked up: it happened",
            Self::Unprocessed => "it did not happen",
            Self::Unknown => "unknown whether it happened",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answered(status: StatusCode, history: History) -> Ending {
        Ending::new(StopReason::AnswerIsFinal, LastAnswer::Server(status), history, Evidence::Unknown)
    }

    #[test]
    fn an_answer_that_an_earlier_success_could_have_caused_is_no_plain_answer() {
        for status in [StatusCode::NOT_FOUND, StatusCode::CONFLICT, StatusCode::GONE, StatusCode::PRECONDITION_FAILED] {
            assert_eq!(Outcome::of(&answered(status, History::WriteAfterUnknown)), Outcome::AnsweredAfterUnknown);
            assert_eq!(Outcome::of(&answered(status, History::Write)), Outcome::Answered);
            assert_eq!(Outcome::of(&answered(status, History::Read)), Outcome::Answered);
        }
        assert_eq!(Outcome::of(&answered(StatusCode::BAD_REQUEST, History::WriteAfterUnknown)), Outcome::Answered);
    }

    #[test]
    fn a_replay_proves_whose_result_it_is() {
        let conflict = answered(StatusCode::CONFLICT, History::WriteAfterUnknown);
        assert_eq!(Outcome::of(&conflict.with_key_answer(KeyAnswer::Replayed)), Outcome::Answered);
        assert_eq!(Outcome::of(&conflict.with_key_answer(KeyAnswer::Mismatch)), Outcome::AnsweredAfterUnknown);
    }

    #[test]
    fn a_write_that_stopped_short_of_a_final_answer_goes_by_its_evidence() {
        let busy = LastAnswer::Server(StatusCode::SERVICE_UNAVAILABLE);
        let ended = |answer, history, evidence| Outcome::of(&Ending::new(StopReason::AttemptsSpent, answer, history, evidence));
        for answer in [busy, LastAnswer::None] {
            assert_eq!(ended(answer, History::Write, Evidence::Unprocessed), Outcome::Unprocessed);
            assert_eq!(ended(answer, History::Write, Evidence::Unknown), Outcome::Unknown);
        }
        assert_eq!(ended(busy, History::Read, Evidence::Unknown), Outcome::Answered);
        assert_eq!(ended(LastAnswer::None, History::Read, Evidence::Unknown), Outcome::Unknown);
    }

    #[test]
    fn an_answer_whose_body_was_lost_is_an_answer_however_the_operation_stopped() {
        for stop in StopReason::ALL {
            for evidence in [Evidence::Unprocessed, Evidence::Unknown] {
                let ended = |history, status| Outcome::of(&Ending::new(stop, LastAnswer::WithoutBody(status), history, evidence));
                assert_eq!(ended(History::WriteAfterUnknown, StatusCode::CREATED), Outcome::Answered, "{stop:?}");
                assert_eq!(ended(History::WriteAfterUnknown, StatusCode::NOT_FOUND), Outcome::AnsweredAfterUnknown, "{stop:?}");
            }
        }
    }

    #[test]
    fn what_the_probe_found_applied_is_reconciled() {
        let probed = Ending::new(StopReason::AnswerIsFinal, LastAnswer::Probe, History::WriteAfterUnknown, Evidence::Unknown);
        assert_eq!(Outcome::of(&probed), Outcome::Reconciled);
    }

    #[test]
    fn a_last_look_is_worth_it_only_where_a_probe_may_know_what_nobody_knows() {
        let ended = |stop, history, evidence| Ending::new(stop, LastAnswer::None, history, evidence).is_worth_a_last_look();
        for stop in StopReason::ALL {
            for history in [History::Write, History::WriteAfterUnknown] {
                let nobody_asks = matches!(stop, StopReason::ProbeUndecided | StopReason::Cancelled);
                assert_eq!(ended(stop, history, Evidence::Unknown), !nobody_asks, "{stop:?}");
                assert!(!ended(stop, history, Evidence::Unprocessed), "{stop:?}");
            }
            assert!(!ended(stop, History::Read, Evidence::Unknown), "{stop:?}");
        }
    }
}
