//! Which advice was given about which origin: once is enough.

use std::sync::{Mutex, PoisonError};

use crate::{outcome::advice::Advice, request::origin::Origin};

/// 1,024 pairs: a program that has more faults than that reads none of them. What comes later is
/// told in reports only.
const MOST: usize = 1024;

/// The advice that a client has given.
#[derive(Debug, Default)]
pub(super) struct Advised(Mutex<Vec<(Advice, Origin)>>);

impl Advised {
    /// Whether this is news.
    pub(super) fn is_news(&self, advice: Advice, origin: &Origin) -> bool {
        let mut given = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let known = given.len() >= MOST || given.iter().any(|(known, of)| *known == advice && of == origin);
        if !known {
            given.push((advice, origin.clone()));
        }
        !known
    }
}
