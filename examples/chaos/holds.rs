//! What one client's shared cool-down has to hold back.
//!
//! The crate hears of a wait when the answer's head is there. From then on, and a moment later at
//! the latest, nothing that it holds back may be begun until the wait is over.

use std::{sync::Mutex, time::Duration};

use http::StatusCode;
use reqwest_safe_retry::HoldsBack;
use tokio::time::Instant;

use crate::{
    asked::Asked,
    journal::{Kind, lock},
    limits::{GRACE, LONGEST_HOLD},
    plan::Plan,
    promise::{Breach, Promise},
};

pub(crate) struct Holds {
    what: HoldsBack,
    known: Mutex<Known>,
}

#[derive(Default)]
struct Known {
    holds: Vec<Hold>,
    /// A person let everything go.
    lifted: Option<Instant>,
}

#[derive(Clone, Copy)]
struct Hold {
    told: Instant,
    until: Instant,
}

impl Holds {
    pub(crate) fn new(what: HoldsBack) -> Self {
        Self { what, known: Mutex::default() }
    }

    /// An answer is there. Only what asks everybody to wait is shared, and only where no body
    /// delays the news.
    pub(crate) fn told(&self, kind: Kind, status: StatusCode, at: Instant, asked: Asked, plan: Option<Plan>) {
        let Asked::Wait(wait) = asked else { return };
        let asks_all = matches!(status, StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE);
        let at_once = plan.is_some_and(|plan| plan.class.tells_waits_at_once());
        // What asks for longer may be capped, or lifted by a person.
        if kind == Kind::Attempt && asks_all && at_once && wait < LONGEST_HOLD {
            let told = Instant::now();
            let holds = &mut lock(&self.known).holds;
            holds.retain(|hold| hold.until > told);
            holds.push(Hold { told, until: at + wait });
        }
    }

    /// A person lifts everything.
    pub(crate) fn lift(&self) {
        lock(&self.known).lifted = Some(Instant::now());
    }

    /// Whether this may be sent now.
    pub(crate) fn allow(&self, kind: Kind, before: &[Kind], began: Instant) -> Option<Breach> {
        let is_first = kind == Kind::Attempt && before.is_empty();
        if is_first && self.what != HoldsBack::FirstSendsToo {
            return None;
        }
        let known = lock(&self.known);
        let lifted = |hold: &Hold| known.lifted.is_some_and(|lifted| hold.told <= lifted + GRACE);
        let holding = |hold: &&Hold| hold.told + GRACE <= began && began < hold.until && !lifted(hold);
        let hold = known.holds.iter().find(holding)?;
        let early: Duration = hold.until - began;
        let what = if is_first { "a first send".to_owned() } else { format!("a {kind:?} after {before:?}") };
        Some(Breach::of(Promise::NotBeforeHint, format!("{what} {early:?} before the end of a shared wait")))
    }
}
