//! Which advice was given about which origin: once is enough.

use std::sync::{
    Mutex, PoisonError,
    atomic::{AtomicBool, Ordering},
};

use crate::{outcome::advice::Advice, policy::defaults, request::origin::Origin};

/// Whether it was said that clients are built for single requests. No client lives long enough to
/// know that another one said it.
static SAID_OF_THE_PROCESS: AtomicBool = AtomicBool::new(false);

/// The advice that a client has given. What comes once it is full is told in reports only.
#[derive(Debug, Default)]
pub(super) struct Advised(Mutex<Vec<(Advice, Origin)>>);

impl Advised {
    /// Whether this is news.
    pub(super) fn is_news(&self, advice: Advice, origin: &Origin) -> bool {
        if advice == Advice::BudgetNotShared {
            return !SAID_OF_THE_PROCESS.swap(true, Ordering::Relaxed);
        }
        let mut given = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let known = given.len() >= defaults::ADVICE || given.iter().any(|(known, of)| *known == advice && of == origin);
        if !known {
            given.push((advice, origin.clone()));
        }
        !known
    }
}
