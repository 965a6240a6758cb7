//! What tests of several files share.

pub(crate) mod hints;
pub(crate) mod load;
#[cfg(feature = "testing")]
pub(crate) mod scripted;
#[cfg(feature = "testing")]
pub(crate) mod wire;
