//! Sends that passed the witness of a client without a slot, so that nobody knows whose they were.

use std::sync::{
    Arc, Weak,
    atomic::{AtomicU64, Ordering},
};

use http::Extensions;

/// How many sends the witness of one client let pass unwitnessed. Its `SafeRetry` shares it and so
/// knows that a witness stands in every way to the wire.
///
/// An inner middleware can take the slot off, by handing on extensions of its own. While none
/// passes, an attempt whose slot saw no send has sent nothing; once one has passed, nothing is
/// proven about the attempts of then.
#[derive(Debug, Clone, Default)]
pub(crate) struct Strays(Arc<AtomicU64>);

impl Strays {
    pub(crate) fn count(&self) -> u64 {
        self.0.load(Ordering::SeqCst)
    }

    /// Whether a witness stands in every way to the wire, and none has passed it since they were
    /// counted.
    pub(crate) fn none_since(counted: Option<u64>, now: Option<&Self>) -> bool {
        counted.is_some() && counted == now.map(Self::count)
    }

    pub(super) fn one_passes(&self) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

/// In the extensions of a request that is none of ours while it is on its way: nobody asks what
/// became of it.
#[derive(Debug, Clone)]
pub(crate) struct LeftAlone(Weak<()>);

impl LeftAlone {
    /// For as long as the other is kept.
    pub(crate) fn while_kept() -> (Self, Arc<()>) {
        let kept = Arc::new(());
        (Self(Arc::downgrade(&kept)), kept)
    }

    /// Whether these extensions are those of such a request.
    pub(super) fn marks(extensions: &Extensions) -> bool {
        extensions.get::<Self>().is_some_and(|mark| mark.0.strong_count() > 0)
    }
}
