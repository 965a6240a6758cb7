//! Which messages a revoked body keeps from becoming complete.

use http::{HeaderValue, Method, Version, header::CONTENT_LENGTH};
use reqwest::Request;

use super::support::Shape;
use crate::proof::witness::can_be_revoked;

/// A POST that can be revoked, but for this change.
fn post(change: impl FnOnce(&mut Request)) -> Request {
    let mut request = Shape::Post.request("https://api.test/orders");
    change(&mut request);
    request
}

fn announcing(lengths: &[&'static str]) -> Request {
    post(|request| {
        for length in lengths {
            request.headers_mut().append(CONTENT_LENGTH, HeaderValue::from_static(length));
        }
    })
}

#[test]
fn a_message_that_waits_for_its_body_can_be_revoked() {
    for shape in Shape::ALL {
        assert!(can_be_revoked(&shape.request("https://api.test/orders")), "{shape:?}");
    }
    for version in [Version::HTTP_10, Version::HTTP_11, Version::HTTP_2] {
        assert!(can_be_revoked(&post(|request| *request.version_mut() = version)), "{version:?}");
    }
}

#[test]
fn http3_sends_heads_unasked() {
    assert!(!can_be_revoked(&post(|request| *request.version_mut() = Version::HTTP_3)));
}

#[test]
fn connect_has_no_body_to_revoke() {
    assert!(!can_be_revoked(&post(|request| *request.method_mut() = Method::CONNECT)));
}

#[test]
fn a_head_that_announces_no_byte_is_complete_by_itself() {
    for lengths in [&["0"][..], &["00"], &["0, 0"], &[""], &["0", "10"], &["10", "0"]] {
        assert!(!can_be_revoked(&announcing(lengths)), "{lengths:?}");
    }
    for lengths in [&["1"][..], &["10"], &["9"], &["10", "10"]] {
        assert!(can_be_revoked(&announcing(lengths)), "{lengths:?}");
    }
}
