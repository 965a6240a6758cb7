//! What the caller states about requests: what sending one again does, what protects it, whom to
//! ask about it.

mod body_waits;
pub(crate) mod catalog;
pub(crate) mod endpoint;
pub mod hints;
pub(crate) mod path_template;
pub mod presets;
pub(crate) mod probe;
mod rate_limit;
pub(crate) mod spelling;
pub(crate) mod status_url;
