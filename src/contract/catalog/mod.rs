//! The contracts of many endpoints in one place: a table of routes that marks requests by method and URL, so that no call site can
//! forget to. And the table that a team can [audit](EndpointCatalog::audit).
//!
//! It knows routes and [`Endpoint`]s, nothing else: whoever puts an [`Endpoint`] on a request overrules its row.

#[cfg(feature = "serde")]
mod file;

use std::{borrow::Cow, collections::HashMap, error::Error, fmt, sync::Arc};

use http::Method;
use matchit::{InsertError, Router};
use reqwest::Url;

use crate::contract::{endpoint::Endpoint, path_template};

#[cfg(feature = "serde")]
pub use file::InvalidFile;

/// A table of endpoints: origin, methods and path template of a request lead to the [`Endpoint`] that marks it. Cheap to clone.
///
/// # How a request finds its row
/// * Scheme, host and port must be equal; the port of the scheme may be written or left out.
/// * The method must be one of the row's. A row for GET says nothing about HEAD.
/// * The path is matched without its query. `{name}` stands for one segment or a part of one, `{*name}` for everything that is left; neither
///   for nothing. `{{` and `}}` are braces. Where several templates match, the more specific one wins: `/orders/latest` before
///   `/orders/{id}`.
/// * Letters that needn't be percent-encoded (RFC 3986 §6.2.2) match in either spelling, all others only as they are: `/a%2Fb` is one
///   segment. Nothing else is bent: `/orders/` is not `/orders`, and `/Orders` is not either.
///
/// A request without a row is decided as if there was no catalogue.
///
/// # Examples
/// ```
/// use reqwest::Method;
/// use reqwest_safe_retry::{Endpoint, EndpointCatalog, KeyContract, Row, SafeRetry};
/// use std::time::Duration;
///
/// # fn main() -> Result<(), reqwest_safe_retry::CatalogError> {
/// let charge = Endpoint::keyed_write(KeyContract::STRIPE).named("charge").owned_by("payments").with_deadline(Duration::from_secs(20));
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
#[derive(Clone, Default)]
#[must_use]
pub struct EndpointCatalog(Arc<Table>);

#[derive(Clone, Default)]
struct Table {
    rows: Vec<Listed>,
    /// By host: names are unique enough, and a lookup allocates nothing.
    servers: HashMap<String, Vec<Server>>,
}

#[derive(Clone)]
struct Server {
    scheme: String,
    port: Option<u16>,
    /// Numbers of rows.
    routes: Vec<(Method, Router<usize>)>,
}

/// One row of an [`EndpointCatalog`]: methods and path template of requests, and what is true of them.
#[derive(Clone)]
#[must_use]
pub struct Row {
    methods: Vec<Method>,
    path: Cow<'static, str>,
    endpoint: Endpoint,
}

/// A row with its place.
#[derive(Clone)]
pub(crate) struct Listed {
    pub(crate) origin: Arc<str>,
    pub(crate) methods: Vec<Method>,
    pub(crate) path: Cow<'static, str>,
    pub(crate) endpoint: Endpoint,
}

impl Row {
    /// A row for a method and a path template, such as `/orders/{id}`.
    pub fn new(method: Method, path: impl Into<Cow<'static, str>>, endpoint: Endpoint) -> Self {
        Self { methods: vec![method], path: path.into(), endpoint }
    }

    /// A row for GET requests.
    pub fn get(path: impl Into<Cow<'static, str>>, endpoint: Endpoint) -> Self {
        Self::new(Method::GET, path, endpoint)
    }

    /// A row for POST requests.
    pub fn post(path: impl Into<Cow<'static, str>>, endpoint: Endpoint) -> Self {
        Self::new(Method::POST, path, endpoint)
    }

    /// A row for PUT requests.
    pub fn put(path: impl Into<Cow<'static, str>>, endpoint: Endpoint) -> Self {
        Self::new(Method::PUT, path, endpoint)
    }

    /// A row for PATCH requests.
    pub fn patch(path: impl Into<Cow<'static, str>>, endpoint: Endpoint) -> Self {
        Self::new(Method::PATCH, path, endpoint)
    }

    /// A row for DELETE requests.
    pub fn delete(path: impl Into<Cow<'static, str>>, endpoint: Endpoint) -> Self {
        Self::new(Method::DELETE, path, endpoint)
    }

    /// Adds a method of which the same is true.
    pub fn or(mut self, method: Method) -> Self {
        if !self.methods.contains(&method) {
            self.methods.push(method);
        }
        self
    }
}

impl EndpointCatalog {
    /// A catalogue without rows: it marks nothing.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds the rows of one origin, such as `https://api.example.com` or `http://localhost:8080`.
    ///
    /// # Errors
    /// [`CatalogError`]: the text is no origin, a path template cannot be read, or two rows would claim the same request.
    pub fn with_rows(mut self, origin: &str, rows: impl IntoIterator<Item = Row>) -> Result<Self, CatalogError> {
        let url = parse_origin(origin).ok_or(CatalogError::Origin)?;
        let origin = Arc::from(url.as_str().trim_end_matches('/'));
        let table = Arc::make_mut(&mut self.0);
        for Row { methods, path, endpoint } in rows {
            table.add(&url, Listed { origin: Arc::clone(&origin), methods, path, endpoint })?;
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
        &self.0.rows
    }

    /// The endpoint of the row that matches.
    pub(crate) fn find(&self, method: &Method, url: &Url) -> Option<Endpoint> {
        let servers = self.0.servers.get(url.host_str()?)?;
        let server = servers.iter().find(|server| server.is_at(url))?;
        let (_, router) = server.routes.iter().find(|(of, _)| of == method)?;
        let path = path_template::canonical(url.path());
        let number = router.at(&path).ok()?.value;
        self.0.rows.get(*number).map(|row| row.endpoint.clone())
    }
}

impl Table {
    fn add(&mut self, url: &Url, row: Listed) -> Result<(), CatalogError> {
        let template = path_template::canonical_template(&row.path).ok_or_else(|| CatalogError::Path { row: row.to_string() })?;
        let number = self.rows.len();
        let servers = self.servers.entry(url.host_str().unwrap_or_default().to_owned()).or_default();
        let server = Server::entry(servers, url);
        for method in &row.methods {
            match server.router(method).insert(&template, number) {
                Ok(()) => {}
                Err(InsertError::Conflict { .. }) => {
                    let other = self.rows.iter().find(|other| other.claims(&row.origin, method, &template));
                    let other = other.map_or_else(String::new, Listed::to_string);
                    return Err(CatalogError::Overlap { row: row.to_string(), other });
                }
                Err(_) => return Err(CatalogError::Path { row: row.to_string() }),
            }
        }
        self.rows.push(row);
        Ok(())
    }
}

impl Server {
    fn entry<'a>(servers: &'a mut Vec<Self>, url: &Url) -> &'a mut Self {
        let place = servers.iter().position(|server| server.is_at(url)).unwrap_or(servers.len());
        if place == servers.len() {
            servers.push(Self { scheme: url.scheme().to_owned(), port: url.port_or_known_default(), routes: Vec::new() });
        }
        &mut servers[place] // proof: just found or just pushed
    }

    fn is_at(&self, url: &Url) -> bool {
        self.scheme == url.scheme() && self.port == url.port_or_known_default()
    }

    fn router(&mut self, method: &Method) -> &mut Router<usize> {
        let place = self.routes.iter().position(|(of, _)| of == method).unwrap_or(self.routes.len());
        if place == self.routes.len() {
            self.routes.push((method.clone(), Router::new()));
        }
        &mut self.routes[place].1 // proof: as above
    }
}

impl Listed {
    /// Whether one of its requests changes anything.
    pub(crate) fn is_write(&self) -> bool {
        self.methods.iter().any(|method| self.endpoint.is_write(method))
    }

    /// Whether this row and a template cannot stand in one table.
    fn claims(&self, origin: &str, method: &Method, template: &str) -> bool {
        let mut alone = Router::new();
        *self.origin == *origin
            && self.methods.contains(method)
            && path_template::canonical_template(&self.path).is_some_and(|own| alone.insert(own, ()).is_ok())
            && matches!(alone.insert(template, ()), Err(InsertError::Conflict { .. }))
    }
}

/// An origin and nothing else.
fn parse_origin(text: &str) -> Option<Url> {
    let url = Url::parse(text).ok()?;
    let bare = url.path() == "/" && url.query().is_none() && url.fragment().is_none();
    let anonymous = url.username().is_empty() && url.password().is_none();
    (matches!(url.scheme(), "http" | "https") && bare && anonymous).then_some(url)
}

/// `PUT, PATCH https://api.example.com/labels/{id}`: the route, as the table says it.
impl fmt::Display for Listed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (place, method) in self.methods.iter().enumerate() {
            let gap = if place == 0 { "" } else { ", " };
            write!(f, "{gap}{method}")?;
        }
        write!(f, " {}{}", self.origin, shown(&self.path))
    }
}

/// A path template without the query or fragment that it must not have, and that somebody's token may stand in.
fn shown(path: &str) -> &str {
    path.split(['?', '#']).next().unwrap_or_default()
}

impl fmt::Debug for Row {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Row").field("methods", &self.methods).field("path", &shown(&self.path)).field("endpoint", &self.endpoint).finish()
    }
}

impl fmt::Debug for Listed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl fmt::Debug for EndpointCatalog {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(&self.0.rows).finish()
    }
}

/// Why a catalogue was refused.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum CatalogError {
    /// What should be an origin is none: `http` or `https`, a host and perhaps a port, without path, query and userinfo.
    Origin,
    /// The path template of this row cannot be read: it has to start with `/`, without query and fragment, with at most one parameter in
    /// each segment and a catch-all only at its end.
    Path {
        /// The row: methods, origin and path template.
        row: String,
    },
    /// Two rows would claim the same request, and neither is more specific.
    Overlap {
        /// The row that was to be added.
        row: String,
        /// The row that was there before.
        other: String,
    },
    /// The file cannot be read as a catalogue.
    #[cfg(feature = "serde")]
    File(InvalidFile),
}

impl fmt::Display for CatalogError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            // The text itself may hold a password.
            Self::Origin => f.write_str("not an origin: a catalogue wants http(s)://host[:port] and nothing behind it"),
            Self::Path { row } => write!(f, "the path template cannot be read: {row}"),
            Self::Overlap { row, other } => write!(f, "two rows claim the same requests: {row} and {other}"),
            #[cfg(feature = "serde")]
            Self::File(_) => f.write_str("the file is not a catalogue"),
        }
    }
}

impl Error for CatalogError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::Origin | Self::Path { .. } | Self::Overlap { .. } => None,
            #[cfg(feature = "serde")]
            Self::File(invalid) => Some(invalid),
        }
    }
}
