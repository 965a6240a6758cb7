//! Where the witness leaves what it saw of one attempt.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use http::{Extensions, HeaderMap, HeaderName, HeaderValue, StatusCode};

use super::claim::{Claim, Stage};
use crate::{policy::Evidence, proof::cause::Cause};

/// Which means the witness may use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Watch {
    /// Read errors only, leave the body as it is.
    Errors,
    /// Keep the client from resending by itself as well, where that changes nothing for the caller.
    Sends,
    /// Track the body as well, where that changes nothing for the caller. For requests whose resend
    /// hangs on the proof.
    Body,
}

/// One attempt's slot, put into the attempt's extensions. Clones share it.
///
/// An inner middleware may send several times through one slot: the worst of all sends is what the
/// attempt proves.
#[derive(Debug, Clone)]
pub(crate) struct SendSlot {
    watch: Watch,
    /// The key that each send has to carry.
    promised: Option<(HeaderName, HeaderValue)>,
    redirects: Redirects,
    /// Of a request that is left alone: a `SafeRetry` further in does its work all the same.
    looks_only: bool,
    sends: Arc<Mutex<Vec<Send>>>,
}

/// How far a send may be redirected, where the client lets us say so.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Redirects {
    /// As far as the client's own policy goes.
    Anywhere,
    /// Not to another origin.
    AtHome,
}

/// One send of the attempt, and the key it carried.
#[derive(Debug)]
struct Send {
    sent: Sent,
    key: KeyKept,
}

/// What became of one send.
#[derive(Debug)]
pub(super) enum Sent {
    /// In flight, or its future was dropped. Tracked or not.
    Open(Option<Arc<Claim>>),
    Failed(Evidence, Cause),
    Answered(Hop, Head),
}

/// The head of an answer, as it came.
#[derive(Debug, Clone)]
pub(crate) struct Head {
    pub(crate) status: StatusCode,
    /// Those of an answer that an inner middleware may make an error of; of others none are kept.
    pub(crate) headers: HeaderMap,
}

/// Whether a send went out under the operation's key, to the server that knows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum KeyKept {
    /// It did, or there is no key.
    Kept,
    /// It was answered by another origin, which never saw the key.
    LeftHome,
    /// An inner middleware replaced the key or took it away.
    Replaced,
}

/// Whose answer or error came back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Hop {
    /// The request's own.
    First,
    /// Possibly that of another request which reqwest made from it, to follow a redirect or to
    /// resend it.
    MaybeLater,
}

/// Whether these extensions belong to an attempt of a `SafeRetry` further out.
pub(crate) fn is_inside(extensions: &Extensions) -> bool {
    extensions.get::<SendSlot>().is_some_and(|slot| !slot.looks_only)
}

/// Fresh extensions for a question of our own: no inner `SafeRetry` shall resend it, and no
/// redirect shall take the operation's credentials elsewhere.
pub(crate) fn inside() -> Extensions {
    let mut extensions = Extensions::new();
    extensions.insert(SendSlot::new(Watch::Errors).redirected(Redirects::AtHome));
    extensions
}

impl SendSlot {
    pub(crate) fn new(watch: Watch) -> Self {
        Self { watch, promised: None, redirects: Redirects::Anywhere, looks_only: false, sends: Arc::default() }
    }

    /// Has every send compared with the key it was promised to carry.
    pub(crate) fn promising(self, promised: Option<(HeaderName, HeaderValue)>) -> Self {
        Self { promised, ..self }
    }

    /// Whether a `SafeRetry` further in is free to do its work.
    pub(crate) fn looking_only(self, looks_only: bool) -> Self {
        Self { looks_only, ..self }
    }

    /// Keeps redirects within bounds.
    pub(crate) fn redirected(self, redirects: Redirects) -> Self {
        Self { redirects, ..self }
    }

    /// What is proven about an attempt without an answer: it failed, or our timer cut it. `None`:
    /// no send was witnessed.
    ///
    /// An answered send is unknown: a status says itself what it proves.
    pub(crate) fn verdict(&self) -> Option<Evidence> {
        self.sends().iter().map(|send| send.sent.evidence()).max()
    }

    /// The answer to the last send, as the transport brought it; `None` if it brought none.
    pub(crate) fn answer(&self) -> Option<Head> {
        match &self.sends().last()?.sent {
            Sent::Answered(_, head) => Some(head.clone()),
            Sent::Open(_) | Sent::Failed(..) => None,
        }
    }

    /// Why the last send failed, if it failed in the transport.
    pub(crate) fn failure(&self) -> Option<Cause> {
        match &self.sends().last()?.sent {
            Sent::Failed(_, cause) => Some(*cause),
            Sent::Open(_) | Sent::Answered(..) => None,
        }
    }

    /// How often something was sent. 0: nothing was witnessed.
    pub(crate) fn count(&self) -> u32 {
        u32::try_from(self.sends().len()).unwrap_or(u32::MAX)
    }

    /// The worst that became of the key.
    pub(crate) fn key_kept(&self) -> KeyKept {
        self.sends().iter().map(|send| send.key).max().unwrap_or(KeyKept::Kept)
    }

    /// What is proven about an attempt whose answer says that it was not processed (425, a trusted
    /// refusal). `None`: no send was witnessed.
    ///
    /// The answer speaks for the request it answers. It says nothing about an earlier send of an
    /// inner middleware, nor about the POST whose 303 reqwest followed to a GET that was then
    /// refused; nor does a status that an inner middleware made of another one.
    pub(crate) fn refusal(&self, refused: StatusCode) -> Option<Evidence> {
        let sends = self.sends();
        let (last, earlier) = sends.split_last()?;
        let of_last = match &last.sent {
            // proof: the only request that was sent is the one whose answer refuses it.
            Sent::Answered(Hop::First, head) if head.status == refused => Evidence::Unprocessed,
            Sent::Answered(Hop::First | Hop::MaybeLater, _) | Sent::Failed(..) | Sent::Open(_) => Evidence::Unknown,
        };
        earlier.iter().map(|send| send.sent.evidence()).chain([of_last]).max()
    }

    pub(super) fn watch(&self) -> Watch {
        self.watch
    }

    pub(super) fn redirects(&self) -> Redirects {
        self.redirects
    }

    pub(super) fn promises_a_key(&self) -> bool {
        self.promised.is_some()
    }

    /// Whether a witness further out waits for a send of this attempt.
    #[cfg(feature = "testing")]
    pub(crate) fn is_open(&self) -> bool {
        self.sends().iter().any(|send| matches!(send.sent, Sent::Open(_)))
    }

    /// Notes a send where no witness stands, for a peer that is its own transport.
    #[cfg(feature = "testing")]
    pub(crate) fn stand_in(&self, headers: &HeaderMap) -> usize {
        self.open(None, headers)
    }

    /// The peer that stands in for the transport answered.
    #[cfg(feature = "testing")]
    pub(crate) fn answered(&self, place: usize, answer: Head) {
        self.close(place, Sent::Answered(Hop::First, answer));
    }

    /// Notes a send that begins, and gives its place.
    pub(super) fn open(&self, tracked: Option<Arc<Claim>>, headers: &HeaderMap) -> usize {
        let kept = self.promised.as_ref().is_none_or(|(name, value)| {
            let mut carried = headers.get_all(name).iter();
            carried.next() == Some(value) && carried.next().is_none()
        });
        let mut sends = self.sends();
        sends.push(Send { sent: Sent::Open(tracked), key: if kept { KeyKept::Kept } else { KeyKept::Replaced } });
        sends.len() - 1
    }

    pub(super) fn close(&self, place: usize, sent: Sent) {
        if let Some(open) = self.sends().get_mut(place) {
            open.sent = sent;
        }
    }

    /// The send was answered by another origin than it was made for.
    pub(super) fn left_home(&self, place: usize) {
        if let Some(send) = self.sends().get_mut(place) {
            send.key = send.key.max(KeyKept::LeftHome);
        }
    }

    fn sends(&self) -> MutexGuard<'_, Vec<Send>> {
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
            Self::Failed(evidence, _) => *evidence,
        }
    }
}
