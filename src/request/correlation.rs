//! One id that names an operation in our log, in the server's log and in every attempt between
//! them.
//!
//! It is no idempotency key: nothing is protected by it, so it may be shown, and a key may not.

use std::fmt;

use http::{HeaderMap, HeaderName, HeaderValue};

const X_REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

/// Names one operation in this side's log and in the server's: sent as a header and logged alike on
/// every attempt.
///
/// A request extension. Nothing is sent or logged without one, even if the request carries such a
/// header: a header's own value never reaches the log. The extension replaces a header of its name,
/// so that what is logged is what is sent. A status probe made by
/// [`Operation::get`](crate::Operation::get) at the operation's own origin carries it too.
///
/// Put no secret and nothing personal into it.
///
/// # Default
/// Sent as `x-request-id`.
///
/// # Examples
/// ```no_run
/// # async fn run(client: reqwest_middleware::ClientWithMiddleware) -> Result<(), Box<dyn std::error::Error>> {
/// use reqwest_safe_retry::CorrelationId;
///
/// let id = CorrelationId::new("checkout-7f3a")?;
/// client.get("http://localhost/").with_extension(id).send().await?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, PartialEq, Eq, Hash)]
#[must_use]
#[doc(alias("request id", "x-request-id"))]
pub struct CorrelationId {
    value: HeaderValue,
    header: HeaderName,
}

impl CorrelationId {
    /// 128 bytes: four times a UUID, and short enough for every log line and every server's header
    /// limit.
    pub const LONGEST: usize = 128;

    /// The caller's id: 1 to [`LONGEST`](Self::LONGEST) visible ASCII characters.
    ///
    /// # Errors
    /// [`InvalidCorrelationId`] for anything else: spaces and line breaks would let one log line
    /// look like two.
    pub fn new(value: &str) -> Result<Self, InvalidCorrelationId> {
        let visible = value.bytes().all(|byte| byte.is_ascii_graphic());
        if value.is_empty() || value.len() > Self::LONGEST || !visible {
            return Err(InvalidCorrelationId(()));
        }
        let value = HeaderValue::from_str(value).map_err(|_| InvalidCorrelationId(()))?;
        Ok(Self { value, header: X_REQUEST_ID })
    }

    /// A generated id: a random UUID (version 4, [RFC 9562 §5.4]).
    ///
    /// [RFC 9562 §5.4]: https://www.rfc-editor.org/rfc/rfc9562#section-5.4
    pub fn random() -> Self {
        let uuid = uuid::Uuid::new_v4();
        let made = Self::new(uuid.hyphenated().encode_lower(&mut uuid::Uuid::encode_buffer()));
        made.unwrap_or_else(|_| Self { value: HeaderValue::from_static("-"), header: X_REQUEST_ID })
    }

    /// Sends it in this header instead.
    ///
    /// ```
    /// use reqwest_safe_retry::CorrelationId;
    ///
    /// let header = reqwest::header::HeaderName::from_static("x-correlation-id");
    /// let id = CorrelationId::new("checkout-7")?.in_header(header);
    /// assert_eq!(id.as_str(), "checkout-7");
    /// # Ok::<(), reqwest_safe_retry::errors::InvalidCorrelationId>(())
    /// ```
    pub fn in_header(self, header: HeaderName) -> Self {
        Self { header, ..self }
    }

    /// The id.
    #[must_use]
    pub fn as_str(&self) -> &str {
        self.value.to_str().unwrap_or_default()
    }

    /// The header it is sent in.
    #[must_use]
    pub const fn header(&self) -> &HeaderName {
        &self.header
    }

    pub(crate) fn write(&self, headers: &mut HeaderMap) {
        headers.insert(self.header.clone(), self.value.clone());
    }
}

impl fmt::Display for CorrelationId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl fmt::Debug for CorrelationId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "CorrelationId({}: {self})", self.header)
    }
}

/// The text is no correlation id: empty, too long, or not visible ASCII. It does not repeat the
/// text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InvalidCorrelationId(());

impl fmt::Display for InvalidCorrelationId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a correlation id is 1 to {} visible ASCII characters", CorrelationId::LONGEST)
    }
}

impl std::error::Error for InvalidCorrelationId {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_short_visible_ascii_is_an_id() {
        let longest = "a".repeat(CorrelationId::LONGEST);
        for good in ["a", "checkout-7f3a", "!~", &longest] {
            assert_eq!(CorrelationId::new(good).unwrap().as_str(), good);
        }
        let too_long = "a".repeat(CorrelationId::LONGEST + 1);
        for bad in ["", "two words", "line\nbreak", "tab\t", "ü", "\u{7f}", &too_long] {
            assert!(CorrelationId::new(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn random_ids_are_uuids_and_differ() {
        let (one, other) = (CorrelationId::random(), CorrelationId::random());
        assert_ne!(one, other);
        assert_eq!(uuid::Uuid::parse_str(one.as_str()).unwrap().get_version_num(), 4);
    }

    #[test]
    fn it_replaces_a_header_of_its_name() {
        let mut headers = HeaderMap::new();
        headers.append("x-request-id", HeaderValue::from_static("another"));
        headers.append("x-request-id", HeaderValue::from_static("a third"));
        CorrelationId::new("mine").unwrap().write(&mut headers);
        assert_eq!(headers.get_all("x-request-id").iter().collect::<Vec<_>>(), ["mine"]);
    }
}
