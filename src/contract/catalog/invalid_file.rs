//! Why a file is not a catalogue.

use std::{error::Error, fmt};

/// What is wrong with a file, and where. Its text never appears whole, only the value that was
/// refused.
///
/// # Examples
/// ```
/// use reqwest_safe_retry::EndpointCatalog;
/// use reqwest_safe_retry::errors::{CatalogError, InvalidFile};
///
/// let refused = EndpointCatalog::from_toml("[[endpoint]]\nlimit = 3");
/// let Err(CatalogError::File(refused)) = refused else { panic!("the field is misspelt") };
/// let told: &InvalidFile = &refused;
/// assert_eq!((told.line(), told.field()), (2, "endpoint[0].limit"));
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InvalidFile {
    line: usize,
    field: String,
    message: String,
}

impl InvalidFile {
    pub(super) fn new(line: usize, field: String, message: &str) -> Self {
        // A name in quotes may hold line breaks, which would look like lines of their own in a log.
        let on_one_line = |text: &str| text.trim().replace(char::is_control, " ");
        Self { line, field: on_one_line(&field), message: on_one_line(message) }
    }

    /// The line, counted from 1. For what concerns a whole row: where the row begins.
    #[must_use]
    pub const fn line(&self) -> usize {
        self.line
    }

    /// The field, such as `endpoint[2].deadline`; empty when the text is no TOML or JSON at all.
    #[must_use]
    pub fn field(&self) -> &str {
        &self.field
    }
}

impl fmt::Display for InvalidFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { line, field, message } = self;
        let gap = if field.is_empty() { "" } else { ", " };
        write!(f, "line {line}{gap}{field}: {message}")
    }
}

impl Error for InvalidFile {}
