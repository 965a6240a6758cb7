//! The times that caller, server and judge agree on.

use std::time::Duration;

/// How many operations are under way at once.
pub(crate) const CONCURRENCY: usize = 300;

/// How long after an attempt ended a probe's *absent* counts.
pub(crate) const SETTLING: Duration = Duration::from_millis(500);

/// The server acts on nothing that was sent longer ago. This is what makes [`SETTLING`] true on a
/// machine however slow: less than that by what a transaction may take.
pub(crate) const LATEST_ACT: Duration = Duration::from_millis(400);

/// An operation is judged this long after it ended: nothing of it can act any more.
pub(crate) const AFTERMATH: Duration = Duration::from_millis(700);

/// How long the server promises to remember a key of the class `brief`.
pub(crate) const BRIEF_PROMISE: Duration = Duration::from_millis(300);

/// How long it does remember one: what was sent within the promise may act [`LATEST_ACT`] later.
pub(crate) const BRIEF_MEMORY: Duration = Duration::from_millis(1_500);

/// How long the server remembers every other key.
pub(crate) const LONG_MEMORY: Duration = Duration::from_secs(3_600);

/// How late a task may get its turn between the crate's look at the clock and the judge's; where a
/// thread was seen to wait for a core for longer, as late as that, up to [`MOST_GRACE`].
pub(crate) const GRACE: Duration = Duration::from_millis(100);
pub(crate) const MOST_GRACE: Duration = Duration::from_millis(500);

/// How long after its deadline, or at all where it has none, an operation may end.
pub(crate) const LATEST_END: Duration = Duration::from_secs(2);
pub(crate) const ENDLESS: Duration = Duration::from_secs(20);

/// How long a caller without a deadline reads a body.
pub(crate) const PATIENCE: Duration = Duration::from_secs(1);

/// Holds that are longer than this are lifted by a person, see [`person`](crate::person).
pub(crate) const LONGEST_HOLD: Duration = Duration::from_secs(2);
