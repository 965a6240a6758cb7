//! Where the witness leaves what it saw of one attempt.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use http::{Extensions, StatusCode};

use super::claim::{Claim, Stage};
use crate::policy::Evidence;

/// Which means the witness may use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Watch {
    /// Read errors only, leave the body as it is.
    Errors,
    /// Track the body as well, where that changes nothing for the caller. For requests whose resend hangs on the proof.
    Body,
}

/// One attempt's slot, put into the attempt's extensions. Clones share it.
///
/// An inner middleware may send several times through one slot: the worst of all sends is what the attempt proves.
#[derive(Debug, Clone)]
pub(crate) struct SendSlot {
    watch: Watch,
    sends: Arc<Mutex<Vec<Sent>>>,
}

/// One send of the attempt.
#[derive(Debug)]
pub(super) enum Sent {
    /// In flight, or its future was dropped. Tracked or not.
    Open(Option<Arc<Claim>>),
    Failed(Evidence),
    Answered(Hop, StatusCode),
}

/// Whose answer or error came back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Hop {
    /// The request's own.
    First,
    /// Possibly that of another request which reqwest made from it, to follow a redirect or to resend it.
    MaybeLater,
}

/// Whether these extensions belong to an attempt of a `SafeRetry` further out.
pub(crate) fn is_inside(extensions: &Extensions) -> bool {
    extensions.get::<SendSlot>().is_some()
}

/// Fresh extensions for a request of our own, which no inner `SafeRetry` shall resend.
pub(crate) fn inside() -> Extensions {
    let mut extensions = Extensions::new();
    extensions.insert(SendSlot::new(Watch::Errors));
    extensions
}

impl SendSlot {
    pub(crate) fn new(watch: Watch) -> Self {
        Self { watch, sends: Arc::default() }
    }

    /// What is proven about an attempt without an answer: it failed, or our timer cut it. `None`: no send was witnessed.
    ///
    /// An answered send is unknown: a status says itself what it proves.
    pub(crate) fn verdict(&self) -> Option<Evidence> {
        self.sends().iter().map(Sent::evidence).max()
    }

    /// What is proven about an attempt whose answer says that it was not processed (425, a trusted refusal). `None`: no send was witnessed.
    ///
    /// The answer speaks for the request it answers. It says nothing about an earlier send of an inner middleware, nor about the POST
    /// whose 303 reqwest followed to a GET that was then refused; nor does a status that an inner middleware made of another one.
    pub(crate) fn refusal(&self, refused: StatusCode) -> Option<Evidence> {
        let sends = self.sends();
        let (last, earlier) = sends.split_last()?;
        let of_last = match last {
            // proof: the only request that was sent is the one whose answer refuses it.
            Sent::Answered(Hop::First, status) if *status == refused => Evidence::Unprocessed,
            Sent::Answered(Hop::First | Hop::MaybeLater, _) | Sent::Failed(_) | Sent::Open(_) => Evidence::Unknown,
        };
        earlier.iter().map(Sent::evidence).chain([of_last]).max()
    }

    pub(super) fn watch(&self) -> Watch {
        self.watch
    }

    /// Notes a send that begins, and gives its place.
    pub(super) fn open(&self, tracked: Option<Arc<Claim>>) -> usize {
        let mut sends = self.sends();
        sends.push(Sent::Open(tracked));
        sends.len() - 1
    }

    pub(super) fn close(&self, place: usize, sent: Sent) {
        if let Some(open) = self.sends().get_mut(place) {
            *open = sent;
        }
    }

    fn sends(&self) -> MutexGuard<'_, Vec<Sent>> {
        self.sends.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Sent {
    fn evidence(&self) -> Evidence {
        match self {
            Self::Open(Some(claim)) => match claim.stage() {
                // proof: the message is gone, and the transport never asked for it.
                Stage::Dropped => Evidence::Unprocessed,
                Stage::Waiting | Stage::Begun | Stage::Read => Evidence::Unknown,
            },
            Self::Open(None) | Self::Answered(..) => Evidence::Unknown,
            Self::Failed(evidence) => *evidence,
        }
    }
}
