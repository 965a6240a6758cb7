//! Which messages are asked for before their head is written.

use http::{Method, Version};
use reqwest::Request;

use super::support::Shape;
use crate::proof::witness::asks_for_its_body;

/// A POST that is asked for, but for this change.
fn post(change: impl FnOnce(&mut Request)) -> Request {
    let mut request = Shape::Post.request("https://api.test/orders");
    change(&mut request);
    request
}

#[test]
fn a_message_is_asked_for_in_every_shape() {
    for shape in Shape::ALL {
        assert!(asks_for_its_body(&shape.request("https://api.test/orders")), "{shape:?}");
    }
    for version in [Version::HTTP_10, Version::HTTP_11, Version::HTTP_2] {
        assert!(asks_for_its_body(&post(|request| *request.version_mut() = version)), "{version:?}");
    }
}

#[test]
fn http3_sends_heads_unasked() {
    assert!(!asks_for_its_body(&post(|request| *request.version_mut() = Version::HTTP_3)));
}

#[test]
fn connect_has_no_body_to_ask_for() {
    assert!(!asks_for_its_body(&post(|request| *request.method_mut() = Method::CONNECT)));
}
