//! What is known about the sends of an attempt in a browser: nothing. No middleware can see whether
//! a page's network took a request, so nobody notes a send, and every failure is unknown.

mod atomic {
    pub(super) use std::sync::atomic::{AtomicU8, Ordering};
}
#[path = "witness/claim.rs"]
mod claim;
#[path = "witness/slot.rs"]
mod slot;
#[path = "witness/strays.rs"]
mod strays;

pub(crate) use slot::{Head, KeyKept, Marked, Redirects, SendSlot, Terms, Watch, inside, is_inside, leave};
pub(crate) use strays::{LeftAlone, Strays};
