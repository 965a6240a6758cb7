//! What is done with an answer that is handed on or given up.

#[cfg_attr(target_arch = "wasm32", path = "fetch_body.rs")]
pub(crate) mod body;
#[cfg_attr(target_arch = "wasm32", path = "fetch_drain.rs")]
pub(crate) mod drain;
pub(crate) mod drained;
pub(crate) mod keep_alive;
pub(crate) mod read;
pub(crate) mod url;
