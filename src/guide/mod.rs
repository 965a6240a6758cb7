//! The guide: one page, one question.
//!
//! | page | question |
//! |---|---|
//! | [`safe_to_repeat`] | May this request run again? |
//! | [`outcome_unknown`] | Nobody knows whether it happened. What do I do on Monday morning? |
//! | [`after_a_crash`] | The process was killed in the middle of a write. How does the next one carry on? |
//! | [`keys`] | What does an idempotency key promise, and for how long? |
//! | [`probes`] | The server has no keys. How do I let it be asked? |
//! | [`payments`] | How do I start with an API that moves money? |
//! | [`deadlines`] | How long may an operation take, and who says so? |
//! | [`budgets`] | How do I keep my load off a server that is down? |
//! | [`connections`] | What happens below: connections, HTTP/2, redirects, proxies? |
//! | [`order`] | Where does it stand among other middlewares? |
//! | [`migrating`] | How do I move here from another library or a loop of my own? |
//! | [`defaults`] | What are the defaults, and why each? |
//! | [`testing`] | How do I test my own client? |
//! | [`telemetry`] | What is logged, counted and reported? |
//! | [`incident`] | How do I read the log of an incident? |
//! | [`engine`] | How do I use the engine without HTTP? |
//! | [`dependencies`] | Which dependencies do my users see, and what does an update mean? |
//! | [`compared`] | What do other libraries do? |
//!
//! Every program on these pages is compiled, and run where it can be. Most of them talk to a server
//! of the feature `testing`, which misbehaves as it is told.

pub mod after_a_crash;
pub mod budgets;
pub mod compared;
pub mod connections;
pub mod deadlines;
pub mod defaults;
pub mod dependencies;
pub mod engine;
pub mod incident;
pub mod keys;
pub mod migrating;
pub mod order;
pub mod outcome_unknown;
pub mod payments;
pub mod probes;
pub mod safe_to_repeat;
pub mod telemetry;
pub mod testing;
