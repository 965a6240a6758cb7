//! A quick hash for the texts of a catalogue.
//!
//! Unkeyed, unlike the standard library's: every text in a table was written by the team that owns
//! it, so nobody outside can choose texts that collide. A look-up hashes five short texts, of which
//! each costs a fifth of what it would with SipHash.

use std::hash::{BuildHasherDefault, Hasher};

pub(super) type TextHash = BuildHasherDefault<TextHasher>;

/// The hash of Firefox and rustc: a rotation, an exclusive or and a multiplication for every eight
/// bytes.
#[derive(Clone, Copy, Default)]
pub(super) struct TextHasher(u64);

impl TextHasher {
    /// Odd, with half of its bits set, without a pattern.
    const FACTOR: u64 = 0xf135_7aea_2e62_a9c5;

    fn add(&mut self, word: u64) {
        self.0 = (self.0.rotate_left(5) ^ word).wrapping_mul(Self::FACTOR);
    }
}

impl Hasher for TextHasher {
    fn write(&mut self, bytes: &[u8]) {
        let mut rest = bytes;
        while let Some((word, after)) = rest.split_first_chunk() {
            self.add(u64::from_le_bytes(*word));
            rest = after;
        }
        if !rest.is_empty() {
            self.add(rest.iter().fold(0, |word, byte| word << 8 | u64::from(*byte)));
        }
    }

    fn write_u8(&mut self, byte: u8) {
        self.add(byte.into());
    }

    /// Tables look at the lowest and the highest bits; the multiplication leaves the best ones on
    /// top.
    fn finish(&self) -> u64 {
        self.0.rotate_left(26)
    }
}
