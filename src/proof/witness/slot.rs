//! Where the witness leaves what it saw of one attempt.

use std::{
    cell::RefCell,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use http::{Extensions, HeaderMap, HeaderName, HeaderValue, StatusCode};

use super::{
    claim::{Claim, Stage},
    strays::Strays,
};
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
pub(crate) struct SendSlot(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    terms: Terms,
    sends: Mutex<Vec<Send>>,
}

/// What is settled about an attempt's sends before the first of them.
#[derive(Debug)]
pub(crate) struct Terms {
    pub(crate) watch: Watch,
    /// The key that each send has to carry.
    pub(crate) promised: Option<(HeaderName, HeaderValue)>,
    pub(crate) redirects: Redirects,
    /// Of a request that is left alone: a `SafeRetry` further in does its work all the same.
    pub(crate) looks_only: bool,
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
    extensions.get::<SendSlot>().is_some_and(|slot| !slot.0.terms.looks_only)
}

/// Fresh extensions for a question of our own: no inner `SafeRetry` shall resend it, and no
/// redirect shall take the operation's credentials elsewhere.
pub(crate) fn inside() -> Extensions {
    let mut extensions = Extensions::new();
    extensions.insert(SendSlot::new(Terms { redirects: Redirects::AtHome, ..Watch::Errors.into() }));
    extensions
}

/// The extensions of one attempt, with its slot in them.
pub(crate) struct Marked {
    pub(crate) extensions: Extensions,
    pub(crate) slot: SendSlot,
}

/// How many maps a thread keeps.
const MOST_SPARE: usize = 16;

thread_local! {
    /// Maps that hold nothing but a slot, which nobody else has: making them anew for each attempt
    /// costs more than the attempt's clone of its request.
    static SPARE: RefCell<Vec<Extensions>> = const { RefCell::new(Vec::new()) };
}

impl Marked {
    /// A clone of the operation's extensions with a slot of these terms.
    pub(crate) fn new(operation: &Extensions, terms: Terms) -> Self {
        let spare = if operation.is_empty() { SPARE.try_with(|spare| spare.try_borrow_mut().ok()?.pop()).ok().flatten() } else { None };
        if let Some(mut extensions) = spare {
            if let Some(slot) = extensions.get_mut::<SendSlot>() {
                if let Some(inner) = Arc::get_mut(&mut slot.0) {
                    inner.terms = terms;
                    let slot = slot.clone();
                    return Self { extensions, slot };
                }
            }
            return Self::made(Extensions::new(), terms);
        }
        Self::made(operation.clone(), terms)
    }

    fn made(mut extensions: Extensions, terms: Terms) -> Self {
        let slot = SendSlot::new(terms);
        extensions.insert(slot.clone());
        Self { extensions, slot }
    }

    /// What the inner middlewares left in the extensions.
    pub(crate) fn left_behind(self) -> Extensions {
        let Self { mut extensions, slot } = self;
        drop(slot);
        if extensions.len() == 1 && extensions.get_mut::<SendSlot>().is_some_and(SendSlot::forgets) {
            // Where there is no room, or no thread-local any more, it is dropped.
            let _ = SPARE.try_with(|spare| {
                if let Ok(mut spare) = spare.try_borrow_mut() {
                    if spare.len() < MOST_SPARE {
                        spare.push(extensions);
                    }
                }
            });
            return Extensions::new();
        }
        extensions.remove::<SendSlot>();
        extensions
    }
}

impl From<Watch> for Terms {
    /// No key is promised, and redirects go as far as the client lets them.
    fn from(watch: Watch) -> Self {
        Self { watch, promised: None, redirects: Redirects::Anywhere, looks_only: false }
    }
}

impl SendSlot {
    pub(crate) fn new(terms: impl Into<Terms>) -> Self {
        Self(Arc::new(Inner { terms: terms.into(), sends: Mutex::default() }))
    }

    /// Forgets everything about its attempt, unless somebody else has it too.
    fn forgets(&mut self) -> bool {
        let Some(inner) = Arc::get_mut(&mut self.0) else { return false };
        inner.terms = Watch::Errors.into();
        let sends = inner.sends.get_mut().unwrap_or_else(PoisonError::into_inner);
        sends.clear();
        sends.shrink_to(MOST_SPARE);
        true
    }

    /// Whether nothing is known but at most one send, under its key and without an error: what the
    /// caller's response says is all there is to say.
    pub(crate) fn is_quiet(&self) -> bool {
        match self.sends().as_slice() {
            [] => true,
            [Send { sent: Sent::Answered(_, head), key: KeyKept::Kept }] => !head.is_error(),
            [_] | [_, _, ..] => false,
        }
    }

    /// What is proven about an attempt without an answer: it failed, or our timer cut it. `None`:
    /// no send was witnessed.
    ///
    /// An answered send is unknown: a status says itself what it proves.
    pub(crate) fn verdict(&self) -> Option<Evidence> {
        self.sends().iter().map(|send| send.sent.evidence()).max()
    }

    /// Whether nothing of the attempt can have left yet. What has been sent may still leave; what
    /// is dropped now does not, unless the transport asks for it at the same time.
    ///
    /// Strays: how many there were before the attempt, and those that there are.
    pub(crate) fn nothing_left(&self, before: Option<u64>, strays: Option<&Strays>) -> bool {
        let sends = self.sends();
        if sends.is_empty() { Strays::none_since(before, strays) } else { sends.iter().all(|send| send.sent.waits()) }
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
        self.0.terms.watch
    }

    pub(super) fn redirects(&self) -> Redirects {
        self.0.terms.redirects
    }

    pub(super) fn promises_a_key(&self) -> bool {
        self.0.terms.promised.is_some()
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
        let kept = self.0.terms.promised.as_ref().is_none_or(|(name, value)| {
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
        self.0.sends.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Sent {
    /// Whether the transport has not asked for it yet, or never will.
    fn waits(&self) -> bool {
        match self {
            Self::Open(Some(claim)) => match claim.stage() {
                Stage::Waiting | Stage::Dropped => true,
                Stage::Begun | Stage::Read => false,
            },
            Self::Open(None) | Self::Answered(..) => false,
            Self::Failed(evidence, _) => *evidence == Evidence::Unprocessed,
        }
    }

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
