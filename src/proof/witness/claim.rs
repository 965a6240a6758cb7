//! How far the transport got with one message: not at all, to its head, or through its body.
//!
//! Only the transport moves it on, so nothing has to be taken back. A verdict that comes while the
//! message may still be on its way finds [`Stage::Waiting`], which proves nothing: what is proven
//! is that the message was *dropped* before the transport asked for its first byte.
//! `models/tests/claim.rs` includes this file and lets `loom` try every interleaving.

use super::atomic::{AtomicU8, Ordering};

/// How far the transport got with a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stage {
    /// It was not asked for yet. It may be asked for at any time.
    Waiting,
    /// It was given up before anybody asked for it, and never will be sent.
    Dropped,
    /// The head may have left.
    Begun,
    /// The whole body was taken as well.
    Read,
}

/// The stage of one message, shared by its body and the verdict.
#[derive(Debug)]
pub(super) struct Claim {
    stage: AtomicU8,
    /// Not 0 once nobody wants the rest of the message to be sent. It says nothing about what was.
    given_up: AtomicU8,
}

impl Claim {
    pub(super) fn waiting() -> Self {
        Self { stage: AtomicU8::new(Stage::Waiting as u8), given_up: AtomicU8::new(0) }
    }

    /// The transport asks for the message.
    pub(super) fn begin(&self) {
        self.advance(Stage::Waiting, Stage::Begun);
    }

    /// The transport has taken the whole body.
    pub(super) fn read(&self) {
        self.advance(Stage::Begun, Stage::Read);
    }

    /// The message is gone.
    pub(super) fn end(&self) {
        self.advance(Stage::Waiting, Stage::Dropped);
    }

    /// Nobody wants the rest to be sent.
    pub(super) fn give_up(&self) {
        self.given_up.store(1, Ordering::Release);
    }

    pub(super) fn is_given_up(&self) -> bool {
        self.given_up.load(Ordering::Acquire) != 0
    }

    pub(super) fn stage(&self) -> Stage {
        let stage = self.stage.load(Ordering::Acquire);
        [Stage::Waiting, Stage::Dropped, Stage::Begun].into_iter().find(|known| *known as u8 == stage).unwrap_or(Stage::Read)
    }

    fn advance(&self, from: Stage, to: Stage) {
        // Another stage is a later one: there is nothing to do.
        let _ = self.stage.compare_exchange(from as u8, to as u8, Ordering::AcqRel, Ordering::Acquire);
    }
}
