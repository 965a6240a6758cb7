//! Who reaches a message first: the transport that sends it, or the verdict that nothing was sent.
//!
//! A flag that the transport sets and the verdict reads is not enough: between hyper's last look at whether the caller is still there and
//! the flag, a verdict may read "untouched" and the message still leaves. So the two compete for one word, and who comes second loses for
//! good. `tests/claim_model.rs` includes this file and lets `loom` try every interleaving.

use super::atomic::{AtomicU8, Ordering};

const FRESH: u8 = 0;
const TAKEN: u8 = 1;
const REVOKED: u8 = 2;

/// The right to send one message: fresh, then either taken or revoked, never both.
#[derive(Debug)]
pub(super) struct Claim(AtomicU8);

impl Claim {
    pub(super) fn fresh() -> Self {
        Self(AtomicU8::new(FRESH))
    }

    /// The transport reaches for the message. If not granted, the message must not become complete.
    pub(super) fn take(&self) -> bool {
        self.win(TAKEN)
    }

    /// The verdict reaches for the message. If granted, the transport will never be.
    pub(super) fn revoke(&self) -> bool {
        self.win(REVOKED)
    }

    pub(super) fn is_revoked(&self) -> bool {
        self.0.load(Ordering::Acquire) == REVOKED
    }

    fn win(&self, side: u8) -> bool {
        match self.0.compare_exchange(FRESH, side, Ordering::AcqRel, Ordering::Acquire) {
            Ok(_) => true,
            Err(winner) => winner == side,
        }
    }
}
