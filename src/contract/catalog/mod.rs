//! The contracts of many endpoints in one place: a table of routes that marks requests by method
//! and URL, so that no call site can forget to. And the table that a team can
//! [audit](EndpointCatalog::audit).
//!
//! It knows routes and [`Endpoint`]s, nothing else: whoever puts an [`Endpoint`] on a request
//! overrules its row.

mod error;
#[cfg(feature = "catalog-files")]
mod file;
#[cfg(feature = "catalog-files")]
mod invalid_file;
mod routes;
mod row;
mod table;
mod text_hash;

use std::{fmt, sync::Arc};

use http::Method;
use reqwest::Url;

pub use error::CatalogError;
#[cfg(feature = "catalog-files")]
pub use invalid_file::InvalidFile;
pub use row::Row;

pub(crate) use row::Listed;

use crate::contract::endpoint::Endpoint;
use table::{Table, origin_of};

/// A table of endpoints: origin, methods and path template of a request lead to the [`Endpoint`]
/// that marks it. Cheap to clone.
///
/// # How a request finds its row
/// * Scheme, host and port must be equal; the port of the scheme may be written or left out.
/// * The method must be one of the row's. A row for GET says nothing about HEAD.
/// * The path is matched without its query. `{name}` stands for one segment or a part of one,
///   `{*name}` for everything that is left; neither for nothing. `{{` and `}}` are braces.
/// * Where several templates match, the more specific one wins: `/orders/latest` before
///   `/orders/{id}:cancel` before `/orders/{id}` before `/orders/{*rest}`. The first segment in
///   which they differ decides: a literal goes before a parameter, that before a catch-all; of two
///   parameters goes first the one with the longer text before it, then behind it. So `/{*rest}` is
///   what is true of all other requests.
/// * Letters that needn't be percent-encoded ([RFC 3986 §6.2.2]) match in either spelling, all
///   others only as they are: `/a%2Fb` is one segment. Nothing else is bent: `/orders/` is not
///   `/orders`, and `/Orders` is not either.
///
/// A request without a row is decided as if there was no catalogue.
///
/// # Examples
/// ```
/// use reqwest::Method;
/// use reqwest_safe_retry::{Endpoint, EndpointCatalog, KeyContract, Row, SafeRetry};
/// use std::time::Duration;
///
/// # fn main() -> Result<(), reqwest_safe_retry::errors::CatalogError> {
/// let charge = Endpoint::keyed_write(KeyContract::STRIPE)
///     .named("charge")
///     .owned_by("payments")
///     .with_deadline(Duration::from_secs(20));
/// let catalog = EndpointCatalog::new().with_rows(
///     "https://api.stripe.com",
///     [
///         Row::post("/v1/charges", charge),
///         Row::get("/v1/charges/{id}", Endpoint::read().owned_by("payments")),
///         Row::put("/v1/labels/{id}", Endpoint::idempotent_write()).or(Method::PATCH),
///     ],
/// )?;
/// let retry = SafeRetry::new().with_catalog(catalog);
/// # Ok(())
/// # }
/// ```
///
/// [RFC 3986 §6.2.2]: https://www.rfc-editor.org/rfc/rfc3986#section-6.2.2
#[derive(Clone, Default)]
#[must_use]
pub struct EndpointCatalog(Arc<Table>);

impl EndpointCatalog {
    /// A catalogue without rows: it marks nothing.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds the rows of one origin, such as `https://api.example.com` or `http://localhost:8080`.
    ///
    /// # Errors
    /// [`CatalogError`]: the text is no origin, a path template cannot be read, or two rows would
    /// claim the same request.
    pub fn with_rows(mut self, origin: &str, rows: impl IntoIterator<Item = Row>) -> Result<Self, CatalogError> {
        let url = parse_origin(origin).ok_or(CatalogError::Origin)?;
        let origin: Arc<str> = Arc::from(origin_of(&url));
        let table = Arc::make_mut(&mut self.0);
        for row in rows {
            table.add(row.at(Arc::clone(&origin)))?;
        }
        Ok(self)
    }

    /// Adds one row of one origin.
    ///
    /// # Errors
    /// As [`with_rows`](Self::with_rows).
    pub fn with_row(self, origin: &str, row: Row) -> Result<Self, CatalogError> {
        self.with_rows(origin, [row])
    }

    pub(crate) fn rows(&self) -> &[Listed] {
        self.0.rows()
    }

    /// The endpoint of the row that matches.
    pub(crate) fn find(&self, method: &Method, url: &Url) -> Option<Endpoint> {
        self.0.find(method, url).map(|row| row.endpoint.clone())
    }

    pub(crate) fn longest_lookup(&self) -> usize {
        self.0.longest_lookup()
    }
}

/// An origin and nothing else.
fn parse_origin(text: &str) -> Option<Url> {
    let url = Url::parse(text).ok()?;
    let bare = url.path() == "/" && url.query().is_none() && url.fragment().is_none();
    let anonymous = url.username().is_empty() && url.password().is_none();
    (matches!(url.scheme(), "http" | "https") && bare && anonymous).then_some(url)
}

impl fmt::Debug for EndpointCatalog {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.0.rows()).finish()
    }
}
