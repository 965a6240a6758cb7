//! Why a row of a file says nothing that can be used.

/// The field of the row, and what is wrong with it.
pub(super) struct Refusal {
    pub(super) field: &'static str,
    pub(super) message: &'static str,
}
