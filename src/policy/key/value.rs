//! The key itself: checked when it is made, and shown to nobody who does not ask for it.

use std::{
    fmt,
    hash::{Hash, Hasher},
    ops::RangeInclusive,
    sync::Arc,
    time::SystemTime,
};

use crate::policy::defaults;

/// Names one operation, so that the server recognises a second copy of it. Cheap to clone.
///
/// One key belongs to one operation: the same key on every attempt, another key for other content
/// (§2.2 of [draft-ietf-httpapi-idempotency-key-header][draft]). A key is a secret of sorts,
/// because whoever knows it may be able to read the saved answer: `Debug` does not show it, and
/// there is no `Display`. Two keys are equal when their text is.
///
/// [draft]: https://www.ietf.org/archive/id/draft-ietf-httpapi-idempotency-key-header-07.txt
///
/// # Examples
/// ```
/// use reqwest_safe_retry::policy::IdempotencyKey;
///
/// let key = IdempotencyKey::parse("order-2041-capture")?;
/// assert_eq!(key.as_str(), "order-2041-capture");
/// assert_eq!(format!("{key:?}"), "IdempotencyKey(..)");
/// # Ok::<(), reqwest_safe_retry::policy::InvalidKey>(())
/// ```
#[derive(Clone)]
#[doc(alias("idempotency", "idempotency key"))]
pub struct IdempotencyKey {
    text: Arc<str>,
    first_use: Option<SystemTime>,
}

impl IdempotencyKey {
    /// Checks a key that comes from elsewhere: 1 to 255 printable ASCII characters, as an [RFC
    /// 9651] String may hold them, of which neither the first nor the last is a space: blanks at
    /// the ends of a bare key do not survive the wire. It may not hold a comma with a space behind
    /// it either, because two keys that a proxy merged look like that.
    ///
    /// [RFC 9651]: https://www.rfc-editor.org/rfc/rfc9651#section-3.3.3
    ///
    /// # Errors
    /// [`InvalidKey`] says which rule is broken, and never repeats the key.
    pub fn parse(text: &str) -> Result<Self, InvalidKey> {
        if !defaults::KEY_LENGTH.contains(&text.len()) {
            return Err(InvalidKey(Flaw::Length(defaults::KEY_LENGTH)));
        }
        let printable = text.bytes().all(|byte| byte.is_ascii_graphic() || byte == b' ');
        if !printable || text.starts_with(' ') || text.ends_with(' ') {
            return Err(InvalidKey(Flaw::Character));
        }
        if text.contains(", ") {
            return Err(InvalidKey(Flaw::Several));
        }
        Ok(Self { text: text.into(), first_use: None })
    }

    /// A key made by this crate, out of characters that [`parse`](Self::parse) takes.
    #[cfg(feature = "middleware")]
    pub(crate) fn made(text: &str) -> Self {
        debug_assert!(Self::parse(text).is_ok(), "keys of our own making follow our own rules");
        Self { text: text.into(), first_use: None }
    }

    /// Tells when this key was first sent, by an earlier process for example. The server counts its
    /// memory from then on.
    ///
    /// A time in the future is that of another clock. Up to
    /// [5 minutes](crate::policy::defaults::CREDIBLE_SKEW) ahead it counts as now; further ahead it
    /// says nothing, and the key counts as one that the server may have forgotten.
    ///
    /// # Default
    /// The start of the operation that the key is given to.
    #[must_use]
    pub fn first_used(self, at: SystemTime) -> Self {
        Self { first_use: Some(at), ..self }
    }

    /// When this key was first sent, if the caller said so.
    #[must_use]
    pub const fn first_use(&self) -> Option<SystemTime> {
        self.first_use
    }

    /// The key itself, for storing it next to the operation. Not for logs.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.text
    }
}

impl PartialEq for IdempotencyKey {
    fn eq(&self, other: &Self) -> bool {
        self.text == other.text
    }
}

impl Eq for IdempotencyKey {}

impl Hash for IdempotencyKey {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.text.hash(state);
    }
}

impl fmt::Debug for IdempotencyKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("IdempotencyKey(..)")
    }
}

/// A key that must not be sent. Says which rule is broken, and never repeats the key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InvalidKey(pub(super) Flaw);

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Flaw {
    Length(RangeInclusive<usize>),
    Character,
    NotAString,
    Several,
}

impl fmt::Display for InvalidKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Flaw::Length(allowed) => write!(f, "the idempotency key does not have {} to {} characters", allowed.start(), allowed.end()),
            Flaw::Character => f.write_str("the idempotency key has a character that is not printable ASCII, or a blank at an end"),
            Flaw::NotAString => f.write_str("the idempotency key is not a quoted string as in RFC 9651"),
            Flaw::Several => f.write_str("the request has more than one idempotency key"),
        }
    }
}

impl std::error::Error for InvalidKey {}
