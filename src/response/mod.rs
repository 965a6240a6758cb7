//! What is done with an answer that is handed on or given up.

pub(crate) mod body;
pub(crate) mod drain;
pub(crate) mod keep_alive;
pub(crate) mod url;
