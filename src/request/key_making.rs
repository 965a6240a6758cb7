//! Making keys, and naming them in logs. Both take randomness, which the policy engine does not
//! have.

use std::{fmt, hash::BuildHasher, sync::OnceLock};

use uuid::Uuid;

use crate::{platform::RandomState, policy::IdempotencyKey};

impl IdempotencyKey {
    /// A fresh key for one operation: a random UUID (version 4, [RFC 9562 §5.4]), 122 bits of
    /// randomness.
    ///
    /// Make it once per operation, not once per attempt, and store it with the operation if a
    /// restarted process is to carry on.
    ///
    /// [RFC 9562 §5.4]: https://www.rfc-editor.org/rfc/rfc9562#section-5.4
    #[must_use]
    pub fn random() -> Self {
        Self::of(Uuid::new_v4())
    }

    /// The key of a business operation: a UUID (version 5, [RFC 9562 §5.5]) that is the same in
    /// every process, so that a restarted one uses the same key.
    ///
    /// The name has to identify the operation and must not change while it is carried out: an order
    /// number together with what is done to it. Not a hash of the body, which may hold a timestamp;
    /// not the order number alone, when the order can be changed twice. Keep the namespace private
    /// where keys must not be guessed.
    ///
    /// # Examples
    /// ```
    /// use reqwest_safe_retry::{IdempotencyKey, Uuid};
    ///
    /// const SHOP: Uuid = Uuid::from_u128(0x5a1d_93c6_0f6e_4d35_9a52_61d0_7f9b_2c11);
    ///
    /// let before_the_crash = IdempotencyKey::derived(SHOP, "order 2041: capture");
    /// let after_the_crash = IdempotencyKey::derived(SHOP, "order 2041: capture");
    /// assert_eq!(before_the_crash, after_the_crash);
    /// ```
    ///
    /// [RFC 9562 §5.5]: https://www.rfc-editor.org/rfc/rfc9562#section-5.5
    #[must_use]
    pub fn derived(namespace: Uuid, name: &str) -> Self {
        Self::of(Uuid::new_v5(&namespace, name.as_bytes()))
    }

    /// A short hash of the key, so that two log lines can be matched without showing it. Another
    /// one in every process.
    #[must_use]
    pub fn fingerprint(&self) -> KeyFingerprint {
        static PER_PROCESS: OnceLock<RandomState> = OnceLock::new();
        let hash = PER_PROCESS.get_or_init(RandomState::new).hash_one(self);
        KeyFingerprint((hash >> 32) as u32) // the upper half
    }

    fn of(uuid: Uuid) -> Self {
        Self::made(uuid.hyphenated().encode_lower(&mut Uuid::encode_buffer()))
    }
}

/// Tells keys apart in logs without showing them: eight hexadecimal digits, keyed with a secret of
/// this process.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct KeyFingerprint(u32);

impl fmt::Display for KeyFingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:08x}", self.0)
    }
}

impl fmt::Debug for KeyFingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "KeyFingerprint(#{self})")
    }
}
