//! One row of a catalogue: which requests it speaks of, and what is true of them.

use std::{borrow::Cow, fmt, sync::Arc};

use http::Method;

use crate::contract::endpoint::Endpoint;

/// One row of an [`EndpointCatalog`](super::EndpointCatalog): methods and path template of
/// requests, and what is true of them.
#[derive(Clone)]
#[must_use]
pub struct Row {
    methods: Vec<Method>,
    path: Cow<'static, str>,
    endpoint: Endpoint,
}

/// A row with its origin.
#[derive(Clone)]
pub(crate) struct Listed {
    pub(super) origin: Arc<str>,
    pub(crate) methods: Vec<Method>,
    pub(super) path: Cow<'static, str>,
    pub(crate) endpoint: Endpoint,
}

impl Row {
    /// A row for a method and a path template, such as `/orders/{id}`, or `/{*rest}` for every path
    /// but `/`. [`EndpointCatalog`](super::EndpointCatalog) says how it is matched; a catalogue
    /// refuses the spellings of other routers, such as `/*` and `/:id`.
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
    ///
    /// ```
    /// use reqwest_safe_retry::{Endpoint, EndpointCatalog, Row};
    ///
    /// let rows = [
    ///     Row::patch("/orders/{order}", Endpoint::unprotected_write()),
    ///     Row::delete("/orders/{order}", Endpoint::idempotent_write().named("cancel")),
    /// ];
    /// let catalog = EndpointCatalog::new().with_rows("https://shop.example", rows)?;
    /// # let _ = catalog;
    /// # Ok::<(), reqwest_safe_retry::errors::CatalogError>(())
    /// ```
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

    pub(super) fn at(self, origin: Arc<str>) -> Listed {
        Listed { origin, methods: self.methods, path: self.path, endpoint: self.endpoint }
    }
}

impl Listed {
    /// Whether one of its requests changes anything.
    pub(crate) fn is_write(&self) -> bool {
        self.methods.iter().any(|method| self.endpoint.is_write(method))
    }
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

/// A path template without the query or fragment that it must not have, and that somebody's token
/// may stand in.
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
