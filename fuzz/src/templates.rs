//! Path templates: what a template is filled with leads to its row, in every spelling that means the
//! same, and no two rows claim one request.

use std::cell::OnceCell;

use http::{Extensions, Method};
use reqwest::{Request, Response, Url};
use reqwest_middleware::{ClientBuilder, ClientWithMiddleware, Middleware, Next, Result};
use reqwest_safe_retry::{Endpoint, EndpointCatalog, ReportSlot, Row, SafeRetry, StatusUrl, errors::CatalogError};
use tokio::runtime::{Builder, Runtime};

const ORIGIN: &str = "http://api.example";

/// Input: a path template.
pub fn check(data: &[u8]) {
    let Ok(template) = std::str::from_utf8(data) else { return };
    let row = |path: &str| Row::get(path.to_owned(), Endpoint::read().named("row"));
    let catalog = match EndpointCatalog::new().with_row(ORIGIN, row(template)) {
        Ok(catalog) => catalog,
        Err(CatalogError::Path { row } | CatalogError::ForeignParameter { row, .. }) => {
            let path = template.split(['?', '#']).next().unwrap_or_default();
            return assert_eq!(row, format!("GET {ORIGIN}{path}"), "an error repeats neither a query nor a fragment");
        }
        Err(other) => panic!("{template:?}: {other:?}"),
    };
    match catalog.clone().with_row(ORIGIN, row(template)) {
        Err(CatalogError::Overlap { .. }) => {}
        other => panic!("two equal rows: {template:?}: {other:?}"),
    }
    let _either = StatusUrl::by_path(template, template);
    for value in ["v", "%41", "%2F", "z.z"] {
        // A segment of dots leads elsewhere, and says so in its spelling.
        if let Some(url) = filled(template, value).and_then(|path| as_written(&path)) {
            assert_eq!(row_of(catalog.clone(), url.clone()), Some("row".to_owned()), "{template:?} does not know {url}");
        }
    }
}

/// The template with a value in the place of each parameter.
fn filled(template: &str, value: &str) -> Option<String> {
    let mut path = String::new();
    let mut rest = template;
    while let Some(brace) = rest.find(['{', '}']) {
        let (literal, tail) = rest.split_at(brace);
        path.push_str(literal);
        rest = if let Some(after) = tail.strip_prefix("{{") {
            path.push('{');
            after
        } else if let Some(after) = tail.strip_prefix("}}") {
            path.push('}');
            after
        } else {
            path.push_str(value);
            tail.strip_prefix('{')?.split_once('}')?.1
        };
    }
    path.push_str(rest);
    Some(path)
}

/// A URL of this path, unless a URL's reader makes another path of it.
fn as_written(path: &str) -> Option<Url> {
    let bent = path.contains(['\\', '\t', '\r', '\n'])
        || path.split('/').any(|segment| matches!(segment.to_ascii_lowercase().replace("%2e", ".").as_str(), "." | ".."));
    let mut url = Url::parse(ORIGIN).ok()?;
    url.set_path(path);
    (!bent && url.path().len() >= path.len()).then_some(url)
}

/// The name of the row that a request finds.
fn row_of(catalog: EndpointCatalog, url: Url) -> Option<String> {
    thread_local!(static RUNTIME: OnceCell<(Runtime, reqwest::Client)> = const { OnceCell::new() });
    RUNTIME.with(|shared| {
        let (runtime, client) = shared.get_or_init(|| {
            let runtime = Builder::new_current_thread().enable_time().build().unwrap_or_else(|error| panic!("no runtime: {error}"));
            (runtime, reqwest::Client::new())
        });
        let client: ClientWithMiddleware =
            ClientBuilder::new(client.clone()).with(SafeRetry::new().with_catalog(catalog)).with(Answering).build();
        let slot = ReportSlot::new();
        let sent = runtime.block_on(client.request(Method::GET, url).with_extension(slot.clone()).send());
        assert!(sent.is_ok(), "{sent:?}");
        slot.take()?.endpoint().map(str::to_owned)
    })
}

/// Answers instead of a server.
struct Answering;

#[reqwest_safe_retry::async_trait]
impl Middleware for Answering {
    async fn handle(&self, _request: Request, _extensions: &mut Extensions, _next: Next<'_>) -> Result<Response> {
        Ok(Response::from(http::Response::new(Vec::new())))
    }
}
