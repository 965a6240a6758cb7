//! A URL with parameters, which an operation fills.

use std::{error::Error, fmt};

use reqwest::Url;

use crate::contract::{path_template::PathTemplate, probe::Operation, spelling};

/// A status URL that cannot be used: neither a path nor an `http` or `https` URL, a fragment, or a
/// parameter that nothing fills.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InvalidStatusUrl(());

impl fmt::Display for InvalidStatusUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the status URL is neither a path nor an http(s) URL, or has a parameter that nothing fills")
    }
}

impl Error for InvalidStatusUrl {}

/// A status URL with gaps.
pub(super) struct Template {
    /// Absent: the operation's.
    origin: Option<Url>,
    path: Vec<Piece>,
    query: Option<Vec<Piece>>,
    /// Where parameters come from.
    operation: Option<PathTemplate>,
}

enum Piece {
    Text(String),
    Parameter(String),
}

impl Template {
    const KEY: &str = "key";
    const QUERY: &str = "query";

    pub(super) fn parse(template: &str, operation: Option<&str>) -> Result<Self, InvalidStatusUrl> {
        Self::read(template, operation).ok_or(InvalidStatusUrl(()))
    }

    fn read(template: &str, operation: Option<&str>) -> Option<Self> {
        let operation = match operation {
            Some(path) => Some(PathTemplate::parse(path).ok()?),
            None => None,
        };
        let start = if template.starts_with('/') { 0 } else { template.find("://")? + "://".len() };
        let (origin, local) = template.split_at(start + template.get(start..)?.find('/')?);
        if local.starts_with("//") || local.contains('#') || origin.contains(['{', '}']) {
            return None;
        }
        let origin = match origin {
            "" => None,
            origin => Some(Url::parse(origin).ok().filter(|url| matches!(url.scheme(), "http" | "https"))?),
        };
        let known = |name: &str| name == Self::KEY || operation.as_ref().is_some_and(|path| path.has_parameter(name));
        let (path, query) = match local.split_once('?') {
            Some((path, query)) => (path, Some(pieces(query, |name| name == Self::QUERY || known(name))?)),
            None => (local, None),
        };
        let path = pieces(path, known)?;
        let sample = join(&path, |_| Some("x".to_owned()))?;
        let mut url = Url::parse("http://localhost").ok()?;
        url.set_path(&sample);
        if url.path() != sample {
            return None;
        }
        Some(Self { origin, path, query, operation })
    }

    /// Whether it hands the operation's whole query on, if there is one.
    pub(super) fn carries_the_query(&self, operation: &Operation<'_>) -> bool {
        let names_it = |query: &Vec<Piece>| query.iter().any(|piece| matches!(piece, Piece::Parameter(name) if name == Self::QUERY));
        operation.url().query().is_none() || self.query.as_ref().map_or(self.origin.is_none(), names_it)
    }

    pub(super) fn fill(&self, operation: &Operation<'_>) -> Option<Url> {
        let own_path = spelling::canonical(operation.url().path());
        let parameters = match &self.operation {
            Some(template) => template.captures(&own_path)?,
            None => Vec::new(),
        };
        let value = |name: &str| match parameters.iter().find(|(of, _)| *of == name) {
            // Out of a path, so it is spelled for one.
            Some((_, value)) => Some((*value).to_owned()),
            None => operation.key().map(|key| spelling::encode(key.as_str())),
        };
        let path = join(&self.path, value)?;
        let mut url = self.origin.clone().unwrap_or_else(|| operation.url().clone());
        url.set_path(&path);
        // A value of dots would climb out of its place.
        if url.path() != path {
            return None;
        }
        let query = match &self.query {
            // `&`, `=` and `+` mean nothing in a path and a lot in a query.
            Some(query) => Some(join(query, |name| match name {
                Self::QUERY => Some(operation.url().query().unwrap_or_default().to_owned()),
                name => value(name).map(|value| spelling::encode_path_value(&value)),
            })?),
            // The operation's own query stays at its own origin.
            None if self.origin.is_none() => operation.url().query().map(ToOwned::to_owned),
            None => None,
        };
        url.set_query(query.as_deref());
        Some(url)
    }
}

fn pieces(template: &str, known: impl Fn(&str) -> bool) -> Option<Vec<Piece>> {
    let mut pieces = Vec::new();
    let mut rest = template;
    while let Some((text, tail)) = rest.split_once('{') {
        let (name, after) = tail.split_once('}')?;
        if !known(name) || text.contains('}') {
            return None;
        }
        pieces.push(Piece::Text(spelling::canonical(text).into_owned()));
        pieces.push(Piece::Parameter(name.to_owned()));
        rest = after;
    }
    if rest.contains('}') {
        return None;
    }
    pieces.push(Piece::Text(spelling::canonical(rest).into_owned()));
    Some(pieces)
}

fn join(pieces: &[Piece], value: impl Fn(&str) -> Option<String>) -> Option<String> {
    pieces.iter().try_fold(String::new(), |mut joined, piece| {
        match piece {
            Piece::Text(text) => joined.push_str(text),
            Piece::Parameter(name) => joined.push_str(&value(name)?),
        }
        Some(joined)
    })
}
