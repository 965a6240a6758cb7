//! Whether a response says where it comes from.

use reqwest::Response;

/// Whether a response has a URL. One that was built by hand, as mocks do, may have none; reqwest
/// then says this one.
pub(crate) fn has_url(response: &Response) -> bool {
    response.url().host_str() != Some("no.url.provided.local")
}

#[cfg(test)]
mod tests {
    use reqwest::{Response, ResponseBuilderExt};

    use super::has_url;

    #[test]
    fn a_response_built_by_hand_has_the_url_that_it_was_given_and_else_none() {
        assert!(!has_url(&Response::from(http::Response::new(""))));
        let url = "http://localhost/".parse().unwrap();
        assert!(has_url(&Response::from(http::Response::builder().url(url).body("").unwrap())));
    }
}
