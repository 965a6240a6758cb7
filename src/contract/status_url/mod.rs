//! The common probe: a URL that tells what became of an operation, and a table of what its statuses mean.

use std::{error::Error, fmt};

use async_trait::async_trait;
use http::StatusCode;
use matchit::Router;
use reqwest::Url;

use crate::{
    contract::path_template,
    contract::probe::{Operation, ProbeVerdict, StatusProbe},
    outcome::report::Found,
    request::origin::Origin,
    response::drain,
};

/// A [`StatusProbe`] that asks one URL with GET and reads the status.
///
/// # Default
/// | status | found |
/// |---|---|
/// | 2xx but 202 | applied; the answer becomes the operation's |
/// | 404, 410 | absent, once the endpoint has settled |
/// | 202, 409, 425 | in progress: asked again |
/// | everything else, every error, no URL | undecided: the operation ends as unknown |
///
/// [`with`](Self::with) changes single statuses. Check that the URL is right: where a wrong path is answered 404, everything seems absent
/// and is sent again. An answer that comes from another origin after a redirect is undecided, whatever it says; one that comes from another
/// path cannot tell that the operation is absent.
///
/// # Examples
/// ```
/// use reqwest::StatusCode;
/// use reqwest_safe_retry::{Endpoint, Found, StatusUrl};
///
/// # fn main() -> Result<(), reqwest_safe_retry::InvalidStatusUrl> {
/// let shipment = StatusUrl::by_path("/orders/{order}/shipment", "/orders/{order}/shipment")?.with(StatusCode::FORBIDDEN, Found::Absent);
/// let endpoint = Endpoint::probed_write(shipment);
/// # Ok(())
/// # }
/// ```
#[must_use]
pub struct StatusUrl {
    place: Place,
    verdicts: Vec<(StatusCode, Found)>,
}

enum Place {
    Told(Box<Locate>),
    Template(Box<Template>),
}

type Locate = dyn Fn(&Operation<'_>) -> Option<Url> + Send + Sync;

impl StatusUrl {
    /// Asks the URL that the closure makes of the operation; `None` means that there is none.
    pub fn from_fn(locate: impl Fn(&Operation<'_>) -> Option<Url> + Send + Sync + 'static) -> Self {
        Self { place: Place::Told(Box::new(locate)), verdicts: Vec::new() }
    }

    /// Asks a URL in which `{key}` stands for the operation's idempotency key, such as `/payments?key={key}`.
    ///
    /// A path is one at the operation's origin; a whole URL may lead elsewhere, where the question carries no credentials.
    ///
    /// # Errors
    /// [`InvalidStatusUrl`]: neither a path nor a URL, or another parameter than `{key}`.
    pub fn by_key(template: &str) -> Result<Self, InvalidStatusUrl> {
        Template::parse(template, None).map(Self::of)
    }

    /// Asks a URL that takes parameters out of the operation's path: `/orders/{order}` for operations on `/orders/{order}/capture`.
    /// `{key}` stands for the idempotency key here as well, unless the path has a parameter of that name.
    ///
    /// An operation on another path has no status URL.
    ///
    /// # Errors
    /// [`InvalidStatusUrl`]: neither a path nor a URL, or a parameter that the path does not have.
    pub fn by_path(operation: &str, template: &str) -> Result<Self, InvalidStatusUrl> {
        Template::parse(template, Some(operation)).map(Self::of)
    }

    /// Replaces what a status means.
    pub fn with(mut self, status: StatusCode, found: Found) -> Self {
        self.verdicts.push((status, found));
        self
    }

    fn of(template: Template) -> Self {
        Self { place: Place::Template(Box::new(template)), verdicts: Vec::new() }
    }

    fn locate(&self, operation: &Operation<'_>) -> Option<Url> {
        match &self.place {
            Place::Told(locate) => locate(operation),
            Place::Template(template) => template.fill(operation),
        }
    }

    fn found(&self, status: StatusCode) -> Found {
        let told = self.verdicts.iter().rev().find(|(of, _)| *of == status).map(|(_, found)| *found);
        told.unwrap_or(match status {
            StatusCode::ACCEPTED | StatusCode::CONFLICT | StatusCode::TOO_EARLY => Found::InProgress,
            StatusCode::NOT_FOUND | StatusCode::GONE => Found::Absent,
            status if status.is_success() => Found::Applied,
            _ => Found::Undecided,
        })
    }
}

#[async_trait]
impl StatusProbe for StatusUrl {
    async fn look_up(&self, operation: &Operation<'_>) -> ProbeVerdict {
        let Some(url) = self.locate(operation) else { return ProbeVerdict::Undecided };
        let (asked, asked_path) = (Origin::of(&url), url.path().to_owned());
        let Ok(response) = operation.send(operation.get(url)).await else { return ProbeVerdict::Undecided };
        if Origin::of(response.url()) != asked && !made_by_hand(response.url()) {
            return ProbeVerdict::Undecided;
        }
        let verdict = match self.found(response.status()) {
            Found::Applied => return ProbeVerdict::Applied(response),
            // Who redirects the question knows of the operation, or sends strangers away: what is missing is something else.
            Found::Absent if response.url().path() != asked_path && !made_by_hand(response.url()) => ProbeVerdict::Undecided,
            Found::Absent => ProbeVerdict::Absent,
            Found::InProgress => ProbeVerdict::InProgress,
            Found::Undecided => ProbeVerdict::Undecided,
        };
        drain::give_back(response, operation.deadline).await;
        verdict
    }
}

impl fmt::Debug for StatusUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StatusUrl").field("verdicts", &self.verdicts).finish_non_exhaustive()
    }
}

/// What reqwest says when a response was built by hand, as mocks do.
pub(crate) fn made_by_hand(url: &Url) -> bool {
    url.host_str() == Some("no.url.provided.local")
}

/// A status URL that cannot be used: neither a path nor an `http` or `https` URL, a fragment, or a parameter that nothing fills.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InvalidStatusUrl(());

impl fmt::Display for InvalidStatusUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the status URL is neither a path nor an http(s) URL, or has a parameter that nothing fills")
    }
}

impl Error for InvalidStatusUrl {}

/// A status URL with gaps.
struct Template {
    /// Absent: the operation's.
    origin: Option<Url>,
    path: Vec<Piece>,
    query: Option<Vec<Piece>>,
    /// Where parameters come from.
    operation: Option<Router<()>>,
}

enum Piece {
    Text(String),
    Parameter(String),
}

impl Template {
    const KEY: &str = "key";

    fn parse(template: &str, operation: Option<&str>) -> Result<Self, InvalidStatusUrl> {
        Self::read(template, operation).ok_or(InvalidStatusUrl(()))
    }

    fn read(template: &str, operation: Option<&str>) -> Option<Self> {
        let operation = match operation {
            Some(path) => {
                let mut router = Router::new();
                let path = path_template::canonical_template(path)?;
                router.insert(&path, ()).ok()?;
                Some((path, router))
            }
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
        let known = |name: &str| {
            let in_path = |(path, _): &(String, _)| path.contains(&format!("{{{name}}}")) || path.contains(&format!("{{*{name}}}"));
            name == Self::KEY || operation.as_ref().is_some_and(in_path)
        };
        let (path, query) = match local.split_once('?') {
            Some((path, query)) => (path, Some(pieces(query, known)?)),
            None => (local, None),
        };
        let path = pieces(path, known)?;
        let sample = join(&path, |_| Some("x".to_owned()))?;
        let mut url = Url::parse("http://localhost").ok()?;
        url.set_path(&sample);
        if url.path() != sample {
            return None;
        }
        Some(Self { origin, path, query, operation: operation.map(|(_, router)| router) })
    }

    fn fill(&self, operation: &Operation<'_>) -> Option<Url> {
        let own_path = path_template::canonical(operation.url().path());
        let parameters = match &self.operation {
            Some(router) => Some(router.at(&own_path).ok()?.params),
            None => None,
        };
        let value = |name: &str| match parameters.as_ref().and_then(|parameters| parameters.get(name)) {
            // Out of a path, so it is spelled for one.
            Some(value) => Some(value.to_owned()),
            None => operation.key().map(|key| path_template::encode(key.as_str())),
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
            Some(query) => Some(join(query, |name| value(name).map(|value| path_template::encode_path_value(&value)))?),
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
        pieces.push(Piece::Text(path_template::canonical(text).into_owned()));
        pieces.push(Piece::Parameter(name.to_owned()));
        rest = after;
    }
    if rest.contains('}') {
        return None;
    }
    pieces.push(Piece::Text(path_template::canonical(rest).into_owned()));
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
