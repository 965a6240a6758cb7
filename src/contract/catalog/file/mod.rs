//! A catalogue out of a file: TOML or JSON, every field checked, every error with its line and
//! field.

mod entry;
mod keyed_write;
mod refusal;
mod status_url;
mod values;

use serde::Deserialize;
use serde_json::value::RawValue;

use super::{CatalogError, EndpointCatalog, InvalidFile};
use entry::Entry;

impl EndpointCatalog {
    /// Reads a catalogue from TOML: one table `[[endpoint]]` for each row.
    ///
    /// | field | value |
    /// |---|---|
    /// | `origin`, `method`, `path` | as in [`with_rows`](Self::with_rows); several methods as a list |
    /// | `effect` | `"read"`, `"idempotent_write"`, `"unprotected_write"`, `"never_resend"` or `{ keyed_write = { .. } }` |
    /// | `name`, `owner` | [`Endpoint::named`](crate::Endpoint::named), [`Endpoint::owned_by`](crate::Endpoint::owned_by) |
    /// | `deadline`, `attempt_limit`, `settling` | a duration: `"500ms"`, `"1m 30s"`, `"24h"`, `"7d"`, or whole seconds as a number |
    /// | `attempts` | sends in all; the row then has [`RetryPolicy::DEFAULT`](crate::RetryPolicy::DEFAULT) in everything else |
    /// | `reading_body` | bytes ([`Endpoint::reading_body`](crate::Endpoint::reading_body)) |
    /// | `refreshed_after` | a list of statuses ([`Endpoint::refreshed_after`](crate::Endpoint::refreshed_after)) |
    /// | `trusting_refusal` | a list of statuses ([`Endpoint::trusting_refusal`](crate::Endpoint::trusting_refusal)) |
    /// | `status_url` | a template for [`StatusUrl::by_path`](crate::StatusUrl::by_path), or `{ url = "..", applied = [200], absent = [404], in_progress = [202], undecided = [403] }` |
    ///
    /// A `keyed_write` has a `preset` (`stripe_v1`, also `stripe`, `stripe_v2`, `ietf`, `oasis`,
    /// `azure_communication`, `paypal_orders`, `paypal_payments`, `adyen`, `checkout_com`,
    /// `truelayer`, `whop`, `fullstory`), or `header` and `format` (`"bare"`, `"quoted"`).
    /// `remembered_for` is required where no preset knows it. These replace single facts: `source`
    /// (`"generate"`, `"caller_must"`), `unique_within` (`"account"`, `"endpoint"`), `replays`
    /// (`"everything"`, `"successes"`, `"settled"`), `shortest`, `longest`, `in_progress`,
    /// `mismatch` (statuses), `replay_marker`, `first_sent_header` (headers).
    ///
    /// # Errors
    /// [`CatalogError::File`] names the line and the field. Unknown fields are refused: a misspelt
    /// limit must not be no limit.
    ///
    /// # Examples
    /// ```
    /// use reqwest_safe_retry::EndpointCatalog;
    ///
    /// let catalog = EndpointCatalog::from_toml(r#"
    ///     [[endpoint]]
    ///     origin = "https://api.stripe.com"
    ///     method = "POST"
    ///     path = "/v1/charges"
    ///     effect = { keyed_write = { preset = "stripe" } }
    ///     owner = "payments"
    ///     deadline = "20s"
    ///
    ///     [[endpoint]]
    ///     origin = "https://warehouse.example"
    ///     method = "POST"
    ///     path = "/orders/{order}/shipment"
    ///     effect = "unprotected_write"
    ///     status_url = "/orders/{order}/shipment"
    ///     deadline = "30s"
    /// "#)?;
    /// # Ok::<(), reqwest_safe_retry::errors::CatalogError>(())
    /// ```
    pub fn from_toml(text: &str) -> Result<Self, CatalogError> {
        let file: TomlFile = serde_path_to_error::deserialize(toml::Deserializer::new(text)).map_err(|error| {
            let place = error.inner().span().map_or(0, |span| span.start);
            InvalidFile::new(line_at(text, place), field(None, error.path()), error.inner().message())
        })?;
        file.endpoint.into_iter().enumerate().try_fold(Self::new(), |catalog, (number, entry)| {
            let place = entry.span().start;
            catalog.with_entry(entry.into_inner(), number, || line_at(text, place))
        })
    }

    /// Reads a catalogue from JSON: `{"endpoint": [{"origin": .., "method": .., ..}, ..]}`, with
    /// the fields of [`from_toml`](Self::from_toml).
    ///
    /// # Errors
    /// As [`from_toml`](Self::from_toml).
    ///
    /// ```
    /// use reqwest_safe_retry::EndpointCatalog;
    ///
    /// let catalog = EndpointCatalog::from_json(r#"{"endpoint": [{
    ///     "origin": "https://shop.example", "method": "GET", "path": "/orders/{order}",
    ///     "effect": "read", "owner": "orders", "deadline": "5s", "attempt_limit": "1s"
    /// }]}"#)?;
    /// let audit = catalog.audit();
    /// assert_eq!(audit.rows()[0].attempt_limit(), Some(std::time::Duration::from_secs(1)));
    /// assert!(audit.longest_lookup() < 10 && audit.to_json().contains("/orders/{order}"));
    /// # Ok::<(), reqwest_safe_retry::errors::CatalogError>(())
    /// ```
    pub fn from_json(text: &str) -> Result<Self, CatalogError> {
        let mut reader = serde_json::Deserializer::from_str(text);
        let file: JsonFile<'_> = serde_path_to_error::deserialize(&mut reader)
            .map_err(|error| InvalidFile::new(error.inner().line(), field(None, error.path()), &json_message(error.inner())))?;
        reader.end().map_err(|error| InvalidFile::new(error.line(), String::new(), &json_message(&error)))?;
        file.endpoint.into_iter().enumerate().try_fold(Self::new(), |catalog, (number, raw)| {
            let line = || line_at(text, (raw.get().as_ptr() as usize).saturating_sub(text.as_ptr() as usize));
            let mut reader = serde_json::Deserializer::from_str(raw.get());
            let entry = serde_path_to_error::deserialize(&mut reader).map_err(|error| {
                let within = error.inner().line().saturating_sub(1);
                InvalidFile::new(line() + within, field(Some(number), error.path()), &json_message(error.inner()))
            })?;
            catalog.with_entry(entry, number, line)
        })
    }

    fn with_entry(self, entry: Entry, number: usize, line: impl Fn() -> usize) -> Result<Self, CatalogError> {
        let refuse = |name: &str, message: &str| InvalidFile::new(line(), format!("endpoint[{number}]{name}"), message);
        let located = |error: CatalogError| {
            let name = match &error {
                CatalogError::Origin => ".origin",
                CatalogError::Path { .. } | CatalogError::ForeignParameter { .. } => ".path",
                CatalogError::Overlap { .. } | CatalogError::File(_) => "",
            };
            refuse(name, &error.to_string())
        };
        let origin = entry.origin.clone();
        // The path is looked at first: a status URL may take parameters out of it.
        let _readable = Self::new().with_row(&origin, entry.place()).map_err(located)?;
        let row = entry.into_row().map_err(|refusal| refuse(refusal.field, refusal.message))?;
        Ok(self.with_row(&origin, row).map_err(located)?)
    }
}

/// Only for errors: it reads the text from its beginning.
fn line_at(text: &str, place: usize) -> usize {
    text.bytes().take(place).filter(|byte| *byte == b'\n').count() + 1
}

/// `endpoint[2].effect.keyed_write.header`, without what the reader of spans adds.
fn field(number: Option<usize>, path: &serde_path_to_error::Path) -> String {
    let mut name = number.map_or_else(String::new, |number| format!("endpoint[{number}]"));
    for segment in path {
        let segment = segment.to_string();
        if segment.starts_with('$') || segment == "?" {
            continue;
        }
        if !name.is_empty() && !segment.starts_with('[') {
            name.push('.');
        }
        name.push_str(&segment);
    }
    name
}

/// The message without the place, which is relative to the row.
fn json_message(error: &serde_json::Error) -> String {
    let message = error.to_string();
    message.rsplit_once(" at line ").map_or(message.clone(), |(message, _)| message.to_owned())
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct TomlFile {
    #[serde(default)]
    endpoint: Vec<toml::Spanned<Entry>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct JsonFile<'a> {
    #[serde(borrow, default)]
    endpoint: Vec<&'a RawValue>,
}
