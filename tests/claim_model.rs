//! The race between transport and verdict for one message, in every interleaving.
//!
//! `cargo test --test claim_model`. The state machine is included here rather than built with `--cfg loom`: under that flag tokio has no
//! sockets, and reqwest does not compile.

mod atomic {
    pub(super) use loom::sync::atomic::{AtomicU8, Ordering};
}

#[path = "../src/proof/witness/claim.rs"]
mod claim;

use std::sync::Arc;

use claim::Claim;
use loom::{model, thread};

/// hyper's calls in their order: is there a body, how long is it, give me a frame. The message is complete if each was answered as usual.
fn transport(claim: &Claim) -> bool {
    let no_end_yet = claim.take();
    let length_is_true = !claim.is_revoked();
    let frame = claim.take();
    assert_eq!(no_end_yet, frame, "a message changes sides while it is sent");
    no_end_yet && length_is_true && frame
}

#[test]
fn a_message_is_either_sent_or_proven_unsent() {
    model(|| {
        let claim = Arc::new(Claim::fresh());
        let sending = thread::spawn({
            let claim = Arc::clone(&claim);
            move || transport(&claim)
        });
        let unsent = claim.revoke();
        let complete = sending.join().unwrap();
        assert_ne!(unsent, complete, "exactly one side wins");
        assert_eq!(claim.revoke(), unsent, "the verdict stands");
    });
}

#[test]
fn a_revoked_message_stays_revoked_whoever_asks_how_often() {
    model(|| {
        let claim = Arc::new(Claim::fresh());
        let verdicts: Vec<_> = (0..2)
            .map(|_| {
                let claim = Arc::clone(&claim);
                thread::spawn(move || claim.revoke())
            })
            .collect();
        let complete = transport(&claim);
        for verdict in verdicts {
            assert_ne!(verdict.join().unwrap(), complete, "all verdicts agree, and the transport with them");
        }
    });
}
