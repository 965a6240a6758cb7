//! What the crate promises, one line each. Every breach names the one it breaks.

use std::fmt;

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Promise {
    UnprotectedOnce,
    AppliedOnce,
    NotBeforeHint,
    NotAfterDeadline,
    Ends,
    WithinAttempts,
    WithinBudget,
    UnprocessedIsTrue,
    NothingLeft,
}

impl Promise {
    pub(crate) const ALL: [Self; 9] = [
        Self::UnprotectedOnce,
        Self::AppliedOnce,
        Self::NotBeforeHint,
        Self::NotAfterDeadline,
        Self::Ends,
        Self::WithinAttempts,
        Self::WithinBudget,
        Self::UnprocessedIsTrue,
        Self::NothingLeft,
    ];
}

impl fmt::Display for Promise {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::UnprotectedOnce => "no unprotected write acts twice",
            Self::AppliedOnce => "keyed and probed writes are applied at most once",
            Self::NotBeforeHint => "nothing is sent before a hint has passed",
            Self::NotAfterDeadline => "nothing is begun after the deadline",
            Self::Ends => "every operation ends",
            Self::WithinAttempts => "no more is sent than the attempts allow",
            Self::WithinBudget => "the budget is never exceeded",
            Self::UnprocessedIsTrue => "what is said not to have been processed was not",
            Self::NothingLeft => "no task, connection or memory is left behind",
        })
    }
}

/// One promise that was not kept.
#[derive(Debug, Clone)]
pub(crate) struct Breach {
    pub(crate) promise: Promise,
    pub(crate) how: String,
}

impl Breach {
    pub(crate) fn of(promise: Promise, how: impl Into<String>) -> Self {
        Self { promise, how: how.into() }
    }
}
