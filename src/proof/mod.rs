//! What is proven about a send, and what went wrong with it.

pub(crate) mod cause;
pub(crate) mod errors;
pub(crate) mod witness;
