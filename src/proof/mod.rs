//! What is proven about a send, and what went wrong with it.

pub(crate) mod cause;
#[cfg_attr(target_arch = "wasm32", path = "fetch_errors.rs")]
pub(crate) mod errors;
#[cfg_attr(target_arch = "wasm32", path = "fetch_witness.rs")]
pub(crate) mod witness;
