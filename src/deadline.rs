//! stub
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
/// One absolute instant on the monotonic clock by which an operation has ended.
pub struct Deadline(Option<tokio::time::Instant>);
