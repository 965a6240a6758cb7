//! What a test spells as numbers and text, read; a slip of the pen panics where the test made it.

use http::{HeaderName, HeaderValue, StatusCode};

#[track_caller]
pub(super) fn status(code: u16) -> StatusCode {
    let Ok(status) = StatusCode::from_u16(code) else { panic!("{code} is not an HTTP status") };
    status
}

#[track_caller]
pub(super) fn header(name: &str, value: &str) -> (HeaderName, HeaderValue) {
    let (Ok(name), Ok(value)) = (HeaderName::try_from(name), HeaderValue::try_from(value)) else {
        panic!("the header `{name}` is malformed")
    };
    (name, value)
}
