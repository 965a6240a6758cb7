//! The common probe: a URL that tells what became of an operation, and a table of what its statuses
//! mean.

mod template;

use std::fmt;

use async_trait::async_trait;
use http::StatusCode;
use reqwest::Url;

pub use template::InvalidStatusUrl;

use crate::{
    contract::probe::{Operation, ProbeVerdict, StatusProbe},
    outcome::report::Found,
    request::origin,
    response::drain,
};
use template::Template;

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
/// [`with`](Self::with) changes single statuses. Check that the URL is right: where a wrong path is
/// answered 404, everything seems absent and is sent again. An answer that comes from another
/// origin after a redirect is undecided, whatever it says; one that comes from another path cannot
/// tell that the operation is absent.
///
/// # Examples
/// ```
/// use reqwest::StatusCode;
/// use reqwest_safe_retry::{Endpoint, StatusUrl, report::Found};
///
/// # fn main() -> Result<(), reqwest_safe_retry::errors::InvalidStatusUrl> {
/// let shipment = StatusUrl::by_path("/orders/{order}/shipment", "/orders/{order}/shipment")?
///     .with(StatusCode::FORBIDDEN, Found::Absent);
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

    /// Asks a URL in which `{key}` stands for the operation's idempotency key, such as
    /// `/payments?key={key}`.
    ///
    /// A path is one at the operation's origin; a whole URL may lead elsewhere, where the question
    /// carries no credentials.
    ///
    /// # Errors
    /// [`InvalidStatusUrl`]: neither a path nor a URL, or another parameter than `{key}`.
    pub fn by_key(template: &str) -> Result<Self, InvalidStatusUrl> {
        Template::parse(template, None).map(Self::of)
    }

    /// Asks a URL that takes parameters out of the operation's path: `/orders/{order}` for
    /// operations on `/orders/{order}/capture`. `{key}` stands for the idempotency key here as
    /// well, unless the path has a parameter of that name.
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

    /// Whether the question says all that the operation's URL says. What it leaves out may be what
    /// tells the operation from others. A closure knows what it does.
    fn carries_the_query(&self, operation: &Operation<'_>) -> bool {
        match &self.place {
            Place::Told(_) => true,
            Place::Template(template) => template.carries_the_query(operation),
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

#[cfg_attr(not(target_arch = "wasm32"), async_trait)]
#[cfg_attr(target_arch = "wasm32", async_trait(?Send))]
impl StatusProbe for StatusUrl {
    async fn look_up(&self, operation: &Operation<'_>) -> ProbeVerdict {
        let Some(url) = self.locate(operation) else { return ProbeVerdict::Undecided };
        let carries_the_query = self.carries_the_query(operation);
        let asked = url.clone();
        let Ok(mut response) = operation.send(operation.get(url)).await else { return ProbeVerdict::Undecided };
        if !origin::is_same(response.url(), &asked) {
            return ProbeVerdict::Undecided;
        }
        let verdict = match self.found(response.status()) {
            Found::Applied => return ProbeVerdict::Applied(response),
            // Who redirects the question knows of the operation, or sends strangers away: what is
            // missing is something else.
            Found::Absent if response.url().path() != asked.path() => ProbeVerdict::Undecided,
            Found::Absent if operation.is_stale(&response) => ProbeVerdict::InProgress,
            Found::Absent if !carries_the_query => ProbeVerdict::Undecided,
            Found::Absent => ProbeVerdict::Absent,
            Found::InProgress => match operation.wait(&response) {
                Some(Ok(wait)) => ProbeVerdict::InProgressFor(wait),
                // A wait that cannot be read is a wish to be left alone.
                Some(Err(_)) => ProbeVerdict::Undecided,
                None => ProbeVerdict::InProgress,
            },
            Found::Undecided => ProbeVerdict::Undecided,
        };
        drain::read_rest(&mut response, operation.deadline).await;
        drop(response);
        verdict
    }
}

impl fmt::Debug for StatusUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StatusUrl").field("verdicts", &self.verdicts).finish_non_exhaustive()
    }
}
