//! The witness is invisible on the wire.

use super::support::*;
