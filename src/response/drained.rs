//! What became of the connection of an answer that nobody wants.

/// What became of the connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Drained {
    /// The body has ended: the connection can serve the next request.
    Whole,
    /// More than [`DRAIN_MOST`](crate::policy::defaults::DRAIN_MOST).
    TooLong,
    /// Not within [`DRAIN_LONGEST`](crate::policy::defaults::DRAIN_LONGEST) and before the
    /// deadline.
    TooSlow,
    /// The connection broke.
    Broken,
    /// There is nothing to give back: the server closes the connection after this answer
    /// (`Connection: close`), or it is HTTP/3's, which is shared and costs nothing to leave, or a
    /// browser's.
    NotNeeded,
}
