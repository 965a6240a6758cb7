//! Which row a request finds, and which rows cannot stand beside each other.

use std::{borrow::Cow, collections::HashMap, sync::Arc};

use http::Method;
use reqwest::Url;
use url::Position;

use super::{error::CatalogError, routes::Routes, row::Listed, text_hash::TextHash};
use crate::contract::{
    path_template::{InvalidTemplate, PathTemplate},
    spelling,
};

#[derive(Clone, Default)]
pub(super) struct Table {
    rows: Vec<Listed>,
    /// By origin, as the rows spell it, and method: of those there are few.
    routes: HashMap<Arc<str>, Vec<(Method, Routes)>, TextHash>,
}

impl Table {
    pub(super) fn rows(&self) -> &[Listed] {
        &self.rows
    }

    /// The row that matches.
    pub(super) fn find(&self, method: &Method, url: &Url) -> Option<&Listed> {
        let (_, routes) = self.routes.get(&*origin_of(url))?.iter().find(|(of, _)| of == method)?;
        let path = spelling::canonical(url.path());
        self.rows.get(routes.find(path.strip_prefix('/')?)?)
    }

    /// How many tables are asked at most to find the row of a request, whatever its URL.
    pub(super) fn longest_lookup(&self) -> usize {
        let routes = self.routes.values().flatten().map(|(_, routes)| routes);
        routes.map(|routes| 2 + routes.longest_lookup()).max().unwrap_or(0) // origin and method
    }

    pub(super) fn add(&mut self, row: Listed) -> Result<(), CatalogError> {
        let template = PathTemplate::parse(&row.path).map_err(|invalid| match invalid {
            InvalidTemplate::Unreadable => CatalogError::Path { row: row.to_string() },
            InvalidTemplate::Foreign { instead } => CatalogError::ForeignParameter { row: row.to_string(), instead },
        })?;
        let number = self.rows.len();
        let methods = self.routes.entry(Arc::clone(&row.origin)).or_default();
        for method in &row.methods {
            let place = methods.iter().position(|(of, _)| of == method).unwrap_or_else(|| {
                methods.push((method.clone(), Routes::default()));
                methods.len() - 1
            });
            let (_, routes) = &mut methods[place]; // proof: just found or just pushed
            if let Err(earlier) = routes.insert(&template, number) {
                let other = self.rows.get(earlier).map_or_else(String::new, Listed::to_string);
                return Err(CatalogError::Overlap { row: row.to_string(), other });
            }
        }
        self.rows.push(row);
        Ok(())
    }
}

/// `https://api.example.com:8443`: the URL up to its path, without userinfo. A URL leaves out the
/// port of its scheme.
pub(super) fn origin_of(url: &Url) -> Cow<'_, str> {
    // Where nothing stands between the scheme's slashes and the host, there is no userinfo.
    if url[..Position::BeforeHost].len() == url.scheme().len() + "://".len() {
        return Cow::Borrowed(&url[..Position::BeforePath]);
    }
    Cow::Owned(format!("{}://{}", url.scheme(), &url[Position::BeforeHost..Position::BeforePath]))
}
