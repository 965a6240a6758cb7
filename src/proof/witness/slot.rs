//! Where the witness leaves what it saw of one attempt.

use std::{
    cell::RefCell,
    marker, mem,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use http::{Extensions, HeaderMap, HeaderName, HeaderValue, StatusCode};
use reqwest::Response;

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
pub(crate) struct SendSlot(Arc<Mutex<State>>);

#[derive(Debug)]
struct State {
    terms: Terms,
    sends: Vec<Send>,
    /// Whether the attempt has ended.
    is_over: bool,
}

impl State {
    /// Forgets everything about an attempt.
    fn forget(&mut self) {
        // Whoever takes the slot again brings terms of its own; nothing of these is kept alive.
        self.terms.promised = None;
        self.sends.clear();
        if self.sends.capacity() > MOST_SENDS {
            self.sends.shrink_to(MOST_SENDS);
        }
    }
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
    pub(crate) headers: Option<Box<HeaderMap>>,
}

impl Head {
    /// Successes and redirects are no errors to anybody, so only their status is kept.
    pub(crate) fn of(response: &Response) -> Self {
        let bare = Self { status: response.status(), headers: None };
        if bare.is_error() { Self { headers: Some(Box::new(response.headers().clone())), ..bare } } else { bare }
    }

    pub(crate) fn is_error(&self) -> bool {
        self.status.is_client_error() || self.status.is_server_error()
    }
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

/// What an attempt asks of one of its sends.
#[derive(Debug, Clone, Copy)]
pub(super) struct Asked {
    pub(super) watch: Watch,
    pub(super) redirects: Redirects,
    pub(super) has_key: bool,
    pub(super) key: KeyKept,
}

/// Whether a request with these headers carries the key that it has to.
fn key_kept(promised: Option<&(HeaderName, HeaderValue)>, headers: &HeaderMap) -> KeyKept {
    let kept = promised.is_none_or(|(name, value)| {
        let mut carried = headers.get_all(name).iter();
        carried.next() == Some(value) && carried.next().is_none()
    });
    if kept { KeyKept::Kept } else { KeyKept::Replaced }
}

/// Whether these extensions belong to an attempt of a `SafeRetry` further out.
#[inline]
pub(crate) fn is_inside(extensions: &Extensions) -> bool {
    extensions.get::<SendSlot>().is_some_and(|slot| !slot.state().terms.looks_only)
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

impl Drop for Marked {
    /// Whoever still has the slot sends for nobody.
    fn drop(&mut self) {
        self.slot.state().is_over = true;
    }
}

/// How many maps a thread keeps, at half a KiB each: for as many attempts at once. Of more than
/// these, each costs what it did without any.
const MOST_SPARE: usize = 512;

/// For how many sends one of them has room.
const MOST_SENDS: usize = 16;

thread_local! {
    /// Maps that hold nothing but a slot, which nobody else has: making them anew for each attempt
    /// costs more than the attempt's clone of its request.
    static SPARE: RefCell<Spare> = const { RefCell::new(Spare { bare: Vec::new(), of_calls: Vec::new() }) };
}

struct Spare {
    bare: Vec<Marked>,
    /// With one more value that each operation of a client has.
    of_calls: Vec<Marked>,
}

impl Spare {
    fn work<R>(work: impl FnOnce(&mut Self) -> R) -> Option<R> {
        // There may be no thread-local any more.
        SPARE.try_with(|spare| Some(work(&mut *spare.try_borrow_mut().ok()?))).ok().flatten()
    }

    /// Where there is no room it is dropped.
    fn keep(kept: &mut Vec<Marked>, marked: Marked) {
        if kept.len() < MOST_SPARE {
            kept.push(marked);
        }
    }
}

impl Marked {
    /// A clone of the operation's extensions with a slot of these terms. Where they hold nothing
    /// but a `C`, a spare map is good for it too.
    pub(crate) fn new<C: Clone + marker::Send + Sync + 'static>(operation: &Extensions, terms: Terms) -> Self {
        let spare = if operation.is_empty() {
            Spare::work(|spare| spare.bare.pop()).flatten()
        } else {
            operation.get::<C>().filter(|_| operation.len() == 1).and_then(|call| {
                let mut marked = Spare::work(|spare| spare.of_calls.pop())??;
                *marked.extensions.get_mut::<C>()? = call.clone();
                Some(marked)
            })
        };
        match spare {
            Some(marked) => {
                marked.slot.state().terms = terms;
                marked
            }
            None => Self::made(operation.clone(), terms),
        }
    }

    fn made(mut extensions: Extensions, terms: Terms) -> Self {
        let slot = SendSlot::new(terms);
        extensions.insert(slot.clone());
        Self { extensions, slot }
    }

    /// What the inner middlewares left in the extensions.
    pub(crate) fn left_behind(self) -> Extensions {
        let mut extensions = Extensions::new();
        self.leave_in::<()>(&mut extensions);
        extensions
    }

    /// The same, in place of the operation's own.
    pub(crate) fn leave_in<C: Clone + Default + PartialEq + marker::Send + Sync + 'static>(mut self, operation: &mut Extensions) {
        let left = self.extensions.len();
        if left <= 2 && self.slot.is_all_that_is_left(&self.extensions) {
            if left == 1 {
                self.slot.state().forget();
                Spare::work(|spare| Spare::keep(&mut spare.bare, self));
                if !operation.is_empty() {
                    leave::<C>(operation, Extensions::new());
                }
                return;
            }
            let same = self.extensions.get_mut::<C>().filter(|call| operation.len() == 1 && operation.get::<C>() == Some(&**call));
            if let Some(call) = same {
                *call = C::default();
                self.slot.state().forget();
                Spare::work(|spare| Spare::keep(&mut spare.of_calls, self));
                return;
            }
        }
        self.extensions.remove::<SendSlot>();
        leave::<C>(operation, mem::take(&mut self.extensions));
    }
}

/// Gives an operation the extensions that an attempt left, but its own `C`: what an inner
/// middleware does to that is nobody else's business.
pub(crate) fn leave<C: Clone + marker::Send + Sync + 'static>(operation: &mut Extensions, left: Extensions) {
    let own = operation.remove::<C>();
    *operation = left;
    if let Some(own) = own {
        operation.insert(own);
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
        Self(Arc::new(Mutex::new(State { terms: terms.into(), sends: Vec::new(), is_over: false })))
    }

    /// Whether these extensions hold it, and nobody else does but its attempt.
    fn is_all_that_is_left(&self, extensions: &Extensions) -> bool {
        // Whoever let go of another one did so before this; the lock that follows is the fence.
        extensions.get::<Self>().is_some_and(|kept| Arc::ptr_eq(&kept.0, &self.0)) && Arc::strong_count(&self.0) == 2
    }

    /// Whether nothing is known but at most one send, under its key and without an error: what the
    /// caller's response says is all there is to say.
    #[inline]
    pub(crate) fn is_quiet(&self) -> bool {
        match self.state().sends.as_slice() {
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
        self.state().sends.iter().map(|send| send.sent.evidence()).max()
    }

    /// Whether nothing of the attempt can have left yet. What has been sent may still leave; what
    /// is dropped now does not, unless the transport asks for it at the same time.
    ///
    /// Strays: how many there were before the attempt, and those that there are.
    pub(crate) fn nothing_left(&self, before: Option<u64>, strays: Option<&Strays>) -> bool {
        let all_wait = |sends: &[Send]| sends.iter().all(|send| send.sent.waits());
        let state = self.state();
        match strays {
            Some(_) => Strays::none_since(before, strays) && all_wait(&state.sends),
            None => !state.sends.is_empty() && all_wait(&state.sends),
        }
    }

    /// The answer to the last send, as the transport brought it; `None` if it brought none.
    pub(crate) fn answer(&self) -> Option<Head> {
        match &self.state().sends.last()?.sent {
            Sent::Answered(_, head) => Some(head.clone()),
            Sent::Open(_) | Sent::Failed(..) => None,
        }
    }

    /// Why the last send failed, if it failed in the transport.
    pub(crate) fn failure(&self) -> Option<Cause> {
        match &self.state().sends.last()?.sent {
            Sent::Failed(_, cause) => Some(*cause),
            Sent::Open(_) | Sent::Answered(..) => None,
        }
    }

    /// How often something was sent. 0: nothing was witnessed.
    pub(crate) fn count(&self) -> u32 {
        u32::try_from(self.state().sends.len()).unwrap_or(u32::MAX)
    }

    /// The worst that became of the key.
    pub(crate) fn key_kept(&self) -> KeyKept {
        self.state().sends.iter().map(|send| send.key).max().unwrap_or(KeyKept::Kept)
    }

    /// What is proven about an attempt whose answer says that it was not processed (425, a trusted
    /// refusal). `None`: no send was witnessed.
    ///
    /// The answer speaks for the request it answers. It says nothing about an earlier send of an
    /// inner middleware, nor about the POST whose 303 reqwest followed to a GET that was then
    /// refused; nor does a status that an inner middleware made of another one.
    pub(crate) fn refusal(&self, refused: StatusCode) -> Option<Evidence> {
        let state = self.state();
        let (last, earlier) = state.sends.split_last()?;
        let of_last = match &last.sent {
            // proof: the only request that was sent is the one whose answer refuses it.
            Sent::Answered(Hop::First, head) if head.status == refused => Evidence::Unprocessed,
            Sent::Answered(Hop::First | Hop::MaybeLater, _) | Sent::Failed(..) | Sent::Open(_) => Evidence::Unknown,
        };
        earlier.iter().map(|send| send.sent.evidence()).chain([of_last]).max()
    }

    /// What is asked of one send of a request with these headers. `None`: the attempt is over, and
    /// somebody sends for another one with its extensions.
    #[inline]
    pub(super) fn asked(&self, headers: &HeaderMap) -> Option<Asked> {
        let state = self.state();
        let Terms { watch, ref promised, redirects, .. } = state.terms;
        let asked = || Asked { watch, redirects, has_key: promised.is_some(), key: key_kept(promised.as_ref(), headers) };
        (!state.is_over).then(asked)
    }

    /// Whether a witness further out waits for a send of this attempt.
    #[cfg(feature = "testing")]
    pub(crate) fn is_open(&self) -> bool {
        self.state().sends.iter().any(|send| matches!(send.sent, Sent::Open(_)))
    }

    /// Notes a send where no witness stands, for a peer that is its own transport.
    #[cfg(feature = "testing")]
    pub(crate) fn stand_in(&self, headers: &HeaderMap) -> usize {
        let key = key_kept(self.state().terms.promised.as_ref(), headers);
        self.open(None, key)
    }

    /// The peer that stands in for the transport answered.
    #[cfg(feature = "testing")]
    pub(crate) fn answered(&self, place: usize, answer: Head) {
        self.close(place, Sent::Answered(Hop::First, answer));
    }

    /// Notes a send that begins, and gives its place.
    #[inline]
    pub(super) fn open(&self, tracked: Option<Arc<Claim>>, key: KeyKept) -> usize {
        let mut state = self.state();
        state.sends.push(Send { sent: Sent::Open(tracked), key });
        state.sends.len() - 1
    }

    #[inline]
    pub(super) fn close(&self, place: usize, sent: Sent) {
        if let Some(open) = self.state().sends.get_mut(place) {
            open.sent = sent;
        }
    }

    /// The send was answered by another origin than it was made for.
    pub(super) fn left_home(&self, place: usize) {
        if let Some(send) = self.state().sends.get_mut(place) {
            send.key = send.key.max(KeyKept::LeftHome);
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
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
