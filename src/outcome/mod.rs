//! What comes out: the report of an operation, and its error when there is no answer.

pub(crate) mod advice;
pub(crate) mod error;
pub(crate) mod facts;
pub(crate) mod report;
