//! The stated length of a body, in a browser: a page has no body that is still to be read, so it is
//! known at once, but for a form's, which a browser writes itself.

use reqwest::Body;

/// A replayed body did not have its stated length.
#[derive(Debug, thiserror::Error)]
#[error("the replayed body is not as long as stated")]
pub(super) struct WrongLength;

/// The body, if it is as long as stated.
///
/// # Errors
/// It is not.
pub(super) fn held_to(stated: u64, body: Body) -> Result<Body, WrongLength> {
    match body.as_bytes().map(|bytes| u64::try_from(bytes.len())) {
        Some(known) if known != Ok(stated) => Err(WrongLength),
        Some(_) | None => Ok(body),
    }
}
