//! Why a catalogue was refused.

use std::{error::Error, fmt};

#[cfg(feature = "catalog-files")]
use super::invalid_file::InvalidFile;

/// Why a catalogue was refused.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum CatalogError {
    /// What should be an origin is none: `http` or `https`, a host and perhaps a port, without
    /// path, query and userinfo.
    Origin,
    /// The path template of this row cannot be read: it has to start with `/`, without query and
    /// fragment, with at most one parameter in each segment and a catch-all only at its end, and at
    /// most 128 segments.
    Path {
        /// The row: methods, origin and path template.
        row: String,
    },
    /// A segment of the path template is spelled as a parameter of other routers: `*`, `*rest`,
    /// `:id`, `<id>`. Here it would stand for itself, and the row would match nothing.
    ForeignParameter {
        /// The row: methods, origin and path template.
        row: String,
        /// What to write in place of the segment, such as `{*rest}`.
        instead: String,
    },
    /// Two rows would claim the same request, and neither is more specific.
    Overlap {
        /// The row that was to be added.
        row: String,
        /// The row that was there before.
        other: String,
    },
    /// The file cannot be read as a catalogue.
    #[cfg(feature = "catalog-files")]
    File(InvalidFile),
}

impl fmt::Display for CatalogError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            // The text itself may hold a password.
            Self::Origin => f.write_str("not an origin: a catalogue wants http(s)://host[:port] and nothing behind it"),
            Self::Path { row } => write!(f, "the path template cannot be read: {row}"),
            Self::ForeignParameter { row, instead } => {
                write!(f, "a segment of the path template would stand only for itself, write `/{instead}`: {row}")
            }
            Self::Overlap { row, other } => write!(f, "two rows claim the same requests: {row} and {other}"),
            #[cfg(feature = "catalog-files")]
            Self::File(_) => f.write_str("the file is not a catalogue"),
        }
    }
}

impl Error for CatalogError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::Origin | Self::Path { .. } | Self::ForeignParameter { .. } | Self::Overlap { .. } => None,
            #[cfg(feature = "catalog-files")]
            Self::File(invalid) => Some(invalid),
        }
    }
}

#[cfg(feature = "catalog-files")]
impl From<InvalidFile> for CatalogError {
    fn from(invalid: InvalidFile) -> Self {
        Self::File(invalid)
    }
}
