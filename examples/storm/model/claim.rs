//! A sentence that the numbers have to bear out.

use std::{fmt, ops::RangeInclusive};

/// A claim, what was found, and whether that bears it out.
#[derive(Debug)]
pub(crate) struct Claim {
    what: String,
    found: f64,
    wanted: RangeInclusive<f64>,
}

impl Claim {
    pub(crate) fn within(what: impl Into<String>, found: f64, wanted: RangeInclusive<f64>) -> Self {
        Self { what: what.into(), found, wanted }
    }

    pub(crate) fn at_most(what: impl Into<String>, found: f64, most: f64) -> Self {
        Self::within(what, found, f64::NEG_INFINITY..=most)
    }

    pub(crate) fn at_least(what: impl Into<String>, found: f64, least: f64) -> Self {
        Self::within(what, found, least..=f64::INFINITY)
    }

    pub(crate) fn holds(&self) -> bool {
        self.wanted.contains(&self.found)
    }
}

impl fmt::Display for Claim {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { what, found, wanted } = self;
        write!(f, "{what}: {found:.3}, wanted ")?;
        match (wanted.start().is_finite(), wanted.end().is_finite()) {
            (true, true) => write!(f, "{:.3} to {:.3}", wanted.start(), wanted.end()),
            (true, false) => write!(f, "at least {:.3}", wanted.start()),
            (false, _) => write!(f, "at most {:.3}", wanted.end()),
        }
    }
}
