//! What travels with one request: its limits, its key, its ids, and how to make it again.

pub(crate) mod attempt_headers;
pub(crate) mod call;
pub(crate) mod correlation;
pub(crate) mod deadline;
pub(crate) mod key_fields;
pub(crate) mod key_making;
pub(crate) mod method_override;
pub(crate) mod origin;
pub(crate) mod replay;
pub(crate) mod sent_before;
pub(crate) mod shown;
