//! A moment, as the engine is told it: the standard library's, where that has one.

#[cfg(target_arch = "wasm32")]
use std::time::Duration;
#[cfg(not(target_arch = "wasm32"))]
pub(super) use std::time::Instant;

/// A moment, by the time from a beginning that is the same for all moments, such as the start of a
/// page. The standard library's `Instant` stands in its place elsewhere; on this target that has no
/// clock, so nobody can make one.
///
/// # Default
/// The beginning.
#[cfg(target_arch = "wasm32")]
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Instant(Duration);

#[cfg(target_arch = "wasm32")]
impl Instant {
    /// The moment this long after the beginning.
    #[must_use]
    pub const fn after(beginning: Duration) -> Self {
        Self(beginning)
    }

    pub(super) const fn saturating_duration_since(self, earlier: Self) -> Duration {
        self.0.saturating_sub(earlier.0)
    }
}
