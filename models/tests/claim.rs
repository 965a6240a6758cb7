//! The transport that sends one message against the verdict about it, in every interleaving.
//!
//! `cargo test -p reqwest-safe-retry-models`. The state machine is included here rather than built with
//! `--cfg loom`: under that flag tokio has no sockets, and reqwest does not compile.

mod atomic {
    pub(super) use loom::sync::atomic::{AtomicU8, Ordering};
}

#[path = "../../src/proof/witness/claim.rs"]
mod claim;

use std::sync::Arc;

use claim::{Claim, Stage};
use loom::{model, sync::atomic::AtomicBool, thread};

/// What a transport does with a message: drop it unasked, or write it, and note what left.
fn transport(claim: &Claim, sends: bool, left: &AtomicBool) {
    if sends {
        claim.begin();
        left.store(true, atomic::Ordering::Release);
        claim.read();
    }
    claim.end();
}

#[test]
fn a_message_that_is_proven_unsent_never_leaves() {
    for sends in [false, true] {
        model(move || {
            let (claim, left) = (Arc::new(Claim::waiting()), Arc::new(AtomicBool::new(false)));
            let sending = thread::spawn({
                let (claim, left) = (Arc::clone(&claim), Arc::clone(&left));
                move || transport(&claim, sends, &left)
            });
            let verdict = claim.stage();
            sending.join().unwrap();
            let left = left.load(atomic::Ordering::Acquire);
            assert!(!(verdict == Stage::Dropped && left), "the verdict came first, and the message left");
            assert_eq!(claim.stage(), if left { Stage::Read } else { Stage::Dropped });
        });
    }
}

/// An upload that nobody wants any more may have left all the same.
#[test]
fn giving_up_changes_no_verdict() {
    model(|| {
        let claim = Arc::new(Claim::waiting());
        let giving_up = thread::spawn({
            let claim = Arc::clone(&claim);
            move || claim.give_up()
        });
        claim.begin();
        assert_eq!(claim.stage(), Stage::Begun);
        giving_up.join().unwrap();
        assert!(claim.is_given_up());
        assert_eq!(claim.stage(), Stage::Begun);
    });
}

#[test]
fn all_verdicts_after_the_end_agree() {
    model(|| {
        let claim = Arc::new(Claim::waiting());
        let verdicts: Vec<_> = (0..2)
            .map(|_| {
                let claim = Arc::clone(&claim);
                thread::spawn(move || claim.stage())
            })
            .collect();
        claim.end();
        for verdict in verdicts {
            assert!(matches!(verdict.join().unwrap(), Stage::Waiting | Stage::Dropped));
        }
        assert_eq!(claim.stage(), Stage::Dropped);
    });
}
