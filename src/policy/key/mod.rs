//! Idempotency keys and what a server promises about them.
//!
//! A key alone protects nothing: without prior knowledge a client cannot assume that the server
//! respects it ([draft-ietf-httpapi-idempotency-key-header][draft] §2.5.1). The knowledge is a
//! [`KeyContract`], and only the caller has it. Keys are checked and spelled here; making them
//! takes randomness, so that lives outside the engine.
//!
//! [draft]: https://www.ietf.org/archive/id/draft-ietf-httpapi-idempotency-key-header-07.txt

mod contract;
mod value;

pub use contract::{Coverage, KeyAnswer, KeyContract, KeyFormat, KeySource, Replays, UniqueWithin};
pub use value::{IdempotencyKey, InvalidKey};
