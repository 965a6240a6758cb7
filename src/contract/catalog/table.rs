//! Which row a request finds, and which rows cannot stand beside each other.

use std::collections::HashMap;

use http::Method;
use matchit::{InsertError, Router};
use reqwest::Url;

use super::{error::CatalogError, row::Listed};
use crate::contract::path_template;

#[derive(Clone, Default)]
pub(super) struct Table {
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

impl Table {
    pub(super) fn rows(&self) -> &[Listed] {
        &self.rows
    }

    /// The row that matches.
    pub(super) fn find(&self, method: &Method, url: &Url) -> Option<&Listed> {
        let servers = self.servers.get(url.host_str()?)?;
        let server = servers.iter().find(|server| server.is_at(url))?;
        let (_, router) = server.routes.iter().find(|(of, _)| of == method)?;
        let path = path_template::canonical(url.path());
        self.rows.get(*router.at(&path).ok()?.value)
    }

    pub(super) fn add(&mut self, url: &Url, row: Listed) -> Result<(), CatalogError> {
        let template = path_template::canonical_template(&row.path).ok_or_else(|| CatalogError::Path { row: row.to_string() })?;
        let number = self.rows.len();
        let servers = self.servers.entry(url.host_str().unwrap_or_default().to_owned()).or_default();
        let server = Server::entry(servers, url);
        for method in &row.methods {
            match server.router(method).insert(&template, number) {
                Ok(()) => {}
                Err(InsertError::Conflict { .. }) => {
                    let other = self.rows.iter().find(|other| claims(other, &row.origin, method, &template));
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

/// Whether a row and a template cannot stand in one table.
fn claims(row: &Listed, origin: &str, method: &Method, template: &str) -> bool {
    let mut alone = Router::new();
    *row.origin == *origin
        && row.methods.contains(method)
        && path_template::canonical_template(&row.path).is_some_and(|own| alone.insert(own, ()).is_ok())
        && matches!(alone.insert(template, ()), Err(InsertError::Conflict { .. }))
}
