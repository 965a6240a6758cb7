//! A catalogue out of a file: TOML or JSON, every field checked, every error with its line and field.

use std::{error::Error, fmt, time::Duration};

use http::{HeaderName, Method, StatusCode};
use serde::{
    Deserialize, Deserializer,
    de::{self, SeqAccess, Visitor, value::MapAccessDeserializer},
};
use serde_json::value::RawValue;

use super::{CatalogError, EndpointCatalog, Row};
use crate::{
    contract::endpoint::Endpoint,
    contract::presets,
    contract::status_url::StatusUrl,
    outcome::report::Found,
    policy::{KeyContract, KeyFormat, KeyScope, KeySource, Replays, RetryPolicy},
};

impl EndpointCatalog {
    /// Reads a catalogue from TOML: one table `[[endpoint]]` for each row.
    ///
    /// | field | value |
    /// |---|---|
    /// | `origin`, `method`, `path` | as in [`with_rows`](Self::with_rows); several methods as a list |
    /// | `effect` | `"read"`, `"idempotent_write"`, `"unprotected_write"`, `"never_resend"` or `{ keyed_write = { .. } }` |
    /// | `name`, `owner` | [`Endpoint::named`], [`Endpoint::owned_by`] |
    /// | `deadline`, `attempt_limit`, `settling` | a duration: `"500ms"`, `"1m 30s"`, `"24h"`, `"7d"`, or whole seconds as a number |
    /// | `attempts` | sends in all; the row then has [`RetryPolicy::DEFAULT`] in everything else |
    /// | `reading_body` | bytes ([`Endpoint::reading_body`]) |
    /// | `trusting_refusal` | a list of statuses ([`Endpoint::trusting_refusal`]) |
    /// | `status_url` | a template for [`StatusUrl::by_path`], or `{ url = "..", applied = [200], absent = [404], in_progress = [202], undecided = [403] }` |
    ///
    /// A `keyed_write` has a `preset` (`stripe_v1`, also `stripe`, `stripe_v2`, `ietf`, `oasis`, `azure_communication`, `paypal_orders`, `paypal_payments`,
    /// `adyen`, `checkout_com`, `truelayer`, `whop`, `fullstory`), or `header` and `format` (`"bare"`, `"quoted"`). `remembered_for` is
    /// required where no preset knows it. These replace single facts: `source` (`"generate"`, `"caller_must"`), `scope` (`"account"`,
    /// `"endpoint"`), `replays` (`"everything"`, `"successes"`, `"settled"`), `shortest`, `longest`, `in_progress`, `mismatch` (statuses),
    /// `replay_marker`, `first_sent_header` (headers).
    ///
    /// # Errors
    /// [`CatalogError::File`] names the line and the field. Unknown fields are refused: a misspelt limit must not be no limit.
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
    /// # Ok::<(), reqwest_safe_retry::CatalogError>(())
    /// ```
    pub fn from_toml(text: &str) -> Result<Self, CatalogError> {
        let file: TomlFile = serde_path_to_error::deserialize(toml::Deserializer::new(text)).map_err(|error| {
            let place = error.inner().span().map_or(0, |span| span.start);
            InvalidFile::new(line_at(text, place), field(None, error.path()), error.inner().message())
        })?;
        file.endpoint.into_iter().enumerate().try_fold(Self::new(), |catalog, (number, entry)| {
            let line = line_at(text, entry.span().start);
            catalog.with_entry(entry.into_inner(), number, line)
        })
    }

    /// Reads a catalogue from JSON: `{"endpoint": [{"origin": .., "method": .., ..}, ..]}`, with the fields of
    /// [`from_toml`](Self::from_toml).
    ///
    /// # Errors
    /// As [`from_toml`](Self::from_toml).
    pub fn from_json(text: &str) -> Result<Self, CatalogError> {
        let mut reader = serde_json::Deserializer::from_str(text);
        let file: JsonFile<'_> = serde_path_to_error::deserialize(&mut reader)
            .map_err(|error| InvalidFile::new(error.inner().line(), field(None, error.path()), &json_message(error.inner())))?;
        reader.end().map_err(|error| InvalidFile::new(error.line(), String::new(), &json_message(&error)))?;
        file.endpoint.into_iter().enumerate().try_fold(Self::new(), |catalog, (number, raw)| {
            let line = line_at(text, (raw.get().as_ptr() as usize).saturating_sub(text.as_ptr() as usize));
            let mut reader = serde_json::Deserializer::from_str(raw.get());
            let entry = serde_path_to_error::deserialize(&mut reader).map_err(|error| {
                let within = error.inner().line().saturating_sub(1);
                InvalidFile::new(line + within, field(Some(number), error.path()), &json_message(error.inner()))
            })?;
            catalog.with_entry(entry, number, line)
        })
    }

    fn with_entry(self, entry: Entry, number: usize, line: usize) -> Result<Self, CatalogError> {
        let refuse = |name: &str, message: &str| InvalidFile::new(line, format!("endpoint[{number}]{name}"), message);
        let located = |error: CatalogError| {
            let name = match &error {
                CatalogError::Origin => ".origin",
                CatalogError::Path { .. } => ".path",
                CatalogError::Overlap { .. } | CatalogError::File(_) => "",
            };
            refuse(name, &error.to_string())
        };
        let origin = entry.origin.clone();
        // The path is looked at first: a status URL may take parameters out of it.
        let alone = Row::new(entry.method.0.clone(), entry.path.clone(), Endpoint::read());
        let _readable = Self::new().with_row(&origin, alone).map_err(located)?;
        let row = entry.into_row().map_err(|(name, message)| refuse(name, message))?;
        Ok(self.with_row(&origin, row).map_err(located)?)
    }
}

/// What is wrong with a file, and where. Its text never appears whole, only the value that was refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InvalidFile {
    line: usize,
    field: String,
    message: String,
}

impl InvalidFile {
    fn new(line: usize, field: String, message: &str) -> Self {
        Self { line, field, message: message.trim().replace('\n', " ") }
    }

    /// The line, counted from 1. For what concerns a whole row: where the row begins.
    #[must_use]
    pub const fn line(&self) -> usize {
        self.line
    }

    /// The field, such as `endpoint[2].deadline`; empty when the text is no TOML or JSON at all.
    #[must_use]
    pub fn field(&self) -> &str {
        &self.field
    }
}

impl fmt::Display for InvalidFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { line, field, message } = self;
        let gap = if field.is_empty() { "" } else { ", " };
        write!(f, "line {line}{gap}{field}: {message}")
    }
}

impl Error for InvalidFile {}

impl From<InvalidFile> for CatalogError {
    fn from(invalid: InvalidFile) -> Self {
        Self::File(invalid)
    }
}

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

/// One row of a file.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    origin: String,
    method: Methods,
    path: String,
    effect: FileEffect,
    name: Option<String>,
    owner: Option<String>,
    deadline: Option<Limit>,
    attempt_limit: Option<Limit>,
    settling: Option<Limit>,
    attempts: Option<u32>,
    reading_body: Option<usize>,
    #[serde(default)]
    trusting_refusal: Vec<Status>,
    status_url: Option<Asked>,
}

type Refusal = (&'static str, &'static str);

impl Entry {
    fn into_row(self) -> Result<Row, Refusal> {
        let mut endpoint = self.effect.endpoint()?;
        if let Some(asked) = self.status_url {
            endpoint = endpoint.probed_by(asked.probe(&self.path)?);
        }
        if let Some(name) = self.name {
            endpoint = endpoint.named(name);
        }
        if let Some(owner) = self.owner {
            endpoint = endpoint.owned_by(owner);
        }
        if let Some(Limit(limit)) = self.deadline {
            endpoint = endpoint.with_deadline(limit);
        }
        if let Some(Limit(limit)) = self.attempt_limit {
            endpoint = endpoint.with_attempt_limit(limit);
        }
        if let Some(Limit(time)) = self.settling {
            endpoint = endpoint.settling(time);
        }
        if let Some(attempts) = self.attempts {
            endpoint = endpoint.with_policy(RetryPolicy::DEFAULT.with_attempts(attempts));
        }
        if let Some(most) = self.reading_body {
            endpoint = endpoint.reading_body(most);
        }
        for Status(status) in self.trusting_refusal {
            endpoint = endpoint.trusting_refusal(status);
        }
        let Methods(first, others) = self.method;
        Ok(others.into_iter().fold(Row::new(first, self.path, endpoint), Row::or))
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
enum FileEffect {
    Read,
    IdempotentWrite,
    UnprotectedWrite,
    NeverResend,
    KeyedWrite(Box<FileContract>),
}

impl FileEffect {
    fn endpoint(self) -> Result<Endpoint, Refusal> {
        Ok(match self {
            Self::Read => Endpoint::read(),
            Self::IdempotentWrite => Endpoint::idempotent_write(),
            Self::UnprotectedWrite => Endpoint::unprotected_write(),
            Self::NeverResend => Endpoint::never_resend(),
            Self::KeyedWrite(contract) => Endpoint::keyed_write(contract.contract()?),
        })
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct FileContract {
    preset: Option<Preset>,
    header: Option<Header>,
    format: Option<Format>,
    remembered_for: Option<Limit>,
    source: Option<Source>,
    scope: Option<Scope>,
    replays: Option<Replayed>,
    shortest: Option<usize>,
    longest: Option<usize>,
    in_progress: Option<Status>,
    mismatch: Option<Status>,
    replay_marker: Option<Header>,
    first_sent_header: Option<Header>,
}

#[derive(Deserialize, Clone, Copy)]
#[serde(rename_all = "snake_case")]
enum Preset {
    Stripe,
    StripeV1,
    StripeV2,
    Ietf,
    Oasis,
    AzureCommunication,
    PaypalOrders,
    PaypalPayments,
    Adyen,
    CheckoutCom,
    Truelayer,
    Whop,
    Fullstory,
}

#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
enum Format {
    Bare,
    Quoted,
}

#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
enum Source {
    Generate,
    CallerMust,
}

#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
enum Scope {
    Account,
    Endpoint,
}

#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
enum Replayed {
    Everything,
    Successes,
    Settled,
}

const WITHOUT_MEMORY: Refusal = (".effect.keyed_write.remembered_for", "missing field: how long the server remembers a key");

impl FileContract {
    fn contract(self) -> Result<KeyContract, Refusal> {
        let memory = self.remembered_for.map(|Limit(time)| time);
        let mut contract = match self.preset {
            Some(_) if self.header.is_some() || self.format.is_some() => {
                return Err((".effect.keyed_write.preset", "a preset has its own header and format"));
            }
            Some(preset) => preset.contract(memory)?,
            None => {
                let header = self.header.ok_or((".effect.keyed_write.header", "missing field: a preset, or a header"))?;
                let format = match self.format.ok_or((".effect.keyed_write.format", "missing field: \"bare\" or \"quoted\""))? {
                    Format::Bare => KeyFormat::Bare,
                    Format::Quoted => KeyFormat::Quoted,
                };
                KeyContract::new(header.0, format, memory.ok_or(WITHOUT_MEMORY)?)
            }
        };
        if let Some(source) = self.source {
            contract = contract.with_source(match source {
                Source::Generate => KeySource::Generate,
                Source::CallerMust => KeySource::CallerMust,
            });
        }
        if let Some(scope) = self.scope {
            contract = contract.with_scope(match scope {
                Scope::Account => KeyScope::Account,
                Scope::Endpoint => KeyScope::Endpoint,
            });
        }
        if let Some(replays) = self.replays {
            contract = contract.with_replays(match replays {
                Replayed::Everything => Replays::Everything,
                Replayed::Successes => Replays::Successes,
                Replayed::Settled => Replays::Settled,
            });
        }
        if self.shortest.is_some() || self.longest.is_some() {
            let length = contract.length();
            let length = self.shortest.unwrap_or(*length.start())..=self.longest.unwrap_or(*length.end());
            if length.is_empty() {
                return Err((".effect.keyed_write.longest", "no key is that short and that long"));
            }
            contract = contract.with_length(length);
        }
        if let Some(Status(status)) = self.in_progress {
            contract = contract.with_in_progress(status);
        }
        if let Some(Status(status)) = self.mismatch {
            contract = contract.with_mismatch(status);
        }
        if let Some(Header(header)) = self.replay_marker {
            contract = contract.with_replay_marker(header);
        }
        if let Some(Header(header)) = self.first_sent_header {
            contract = contract.with_first_sent_header(header);
        }
        Ok(contract)
    }
}

impl Preset {
    /// A memory in the file is the server's word, or a more careful one.
    fn contract(self, memory: Option<Duration>) -> Result<KeyContract, Refusal> {
        let contract = match self {
            Self::Stripe | Self::StripeV1 => presets::STRIPE_V1,
            Self::StripeV2 => presets::STRIPE_V2,
            Self::Ietf => KeyContract::ietf(memory.ok_or(WITHOUT_MEMORY)?),
            Self::Oasis => presets::oasis(memory.ok_or(WITHOUT_MEMORY)?),
            Self::AzureCommunication => presets::AZURE_COMMUNICATION,
            Self::PaypalOrders => presets::PAYPAL_ORDERS,
            Self::PaypalPayments => presets::PAYPAL_PAYMENTS,
            Self::Adyen => presets::ADYEN,
            Self::CheckoutCom => presets::CHECKOUT_COM,
            Self::Truelayer => presets::TRUELAYER,
            Self::Whop => presets::WHOP,
            Self::Fullstory => presets::FULLSTORY,
        };
        Ok(match memory {
            Some(memory) => contract.with_remembered_for(memory),
            None => contract,
        })
    }
}

/// A status URL, alone or with its table.
struct Asked {
    url: String,
    verdicts: Vec<(StatusCode, Found)>,
}

impl Asked {
    fn probe(self, path: &str) -> Result<StatusUrl, Refusal> {
        let probe = StatusUrl::by_path(path, &self.url)
            .map_err(|_| (".status_url", "neither a path nor a URL, or a parameter that the path does not have"))?;
        Ok(self.verdicts.into_iter().fold(probe, |probe, (status, found)| probe.with(status, found)))
    }
}

impl<'de> Deserialize<'de> for Asked {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(deny_unknown_fields)]
        struct Table {
            url: String,
            #[serde(default)]
            applied: Vec<Status>,
            #[serde(default)]
            absent: Vec<Status>,
            #[serde(default)]
            in_progress: Vec<Status>,
            #[serde(default)]
            undecided: Vec<Status>,
        }

        struct Either;
        impl<'de> Visitor<'de> for Either {
            type Value = Asked;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a URL template, or a table with one in `url`")
            }

            fn visit_str<E: de::Error>(self, url: &str) -> Result<Asked, E> {
                Ok(Asked { url: url.to_owned(), verdicts: Vec::new() })
            }

            fn visit_map<A: de::MapAccess<'de>>(self, map: A) -> Result<Asked, A::Error> {
                let table = Table::deserialize(MapAccessDeserializer::new(map))?;
                let lists = [
                    (table.applied, Found::Applied),
                    (table.absent, Found::Absent),
                    (table.in_progress, Found::InProgress),
                    (table.undecided, Found::Undecided),
                ];
                let verdicts = lists.into_iter().flat_map(|(list, found)| list.into_iter().map(move |Status(status)| (status, found)));
                Ok(Asked { url: table.url, verdicts: verdicts.collect() })
            }
        }
        deserializer.deserialize_any(Either)
    }
}

/// One method or several.
struct Methods(Method, Vec<Method>);

impl<'de> Deserialize<'de> for Methods {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct OneOrMany;
        impl<'de> Visitor<'de> for OneOrMany {
            type Value = Methods;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a method in capitals, such as \"POST\", or a list of them")
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<Methods, E> {
                Ok(Methods(method(text, &self)?, Vec::new()))
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Methods, A::Error> {
                let first: String = list.next_element()?.ok_or_else(|| de::Error::invalid_length(0, &self))?;
                let mut methods = Methods(method(&first, &self)?, Vec::new());
                while let Some(next) = list.next_element::<String>()? {
                    methods.1.push(method(&next, &self)?);
                }
                Ok(methods)
            }
        }

        /// Methods are case-sensitive (RFC 9110 §9.1): `post` is not POST, and would silently match nothing.
        fn method<E: de::Error>(text: &str, expected: &OneOrMany) -> Result<Method, E> {
            let invalid = || E::invalid_value(de::Unexpected::Str(text), expected);
            if text.bytes().any(|byte| byte.is_ascii_lowercase()) {
                return Err(invalid());
            }
            Method::from_bytes(text.as_bytes()).map_err(|_| invalid())
        }

        deserializer.deserialize_any(OneOrMany)
    }
}

struct Header(HeaderName);

impl<'de> Deserialize<'de> for Header {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        let invalid = |_| de::Error::invalid_value(de::Unexpected::Str(&text), &"the name of a header");
        HeaderName::from_bytes(text.as_bytes()).map(Self).map_err(invalid)
    }
}

struct Status(StatusCode);

impl<'de> Deserialize<'de> for Status {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let number = u16::deserialize(deserializer)?;
        let invalid = |_| de::Error::invalid_value(de::Unexpected::Unsigned(number.into()), &"a status from 100 to 999");
        StatusCode::from_u16(number).map(Self).map_err(invalid)
    }
}

/// A duration as people write it.
struct Limit(Duration);

impl<'de> Deserialize<'de> for Limit {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Written;
        impl Visitor<'_> for Written {
            type Value = Limit;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a duration such as \"500ms\", \"1m 30s\" or \"24h\", or whole seconds")
            }

            fn visit_u64<E: de::Error>(self, seconds: u64) -> Result<Limit, E> {
                Ok(Limit(Duration::from_secs(seconds)))
            }

            fn visit_i64<E: de::Error>(self, seconds: i64) -> Result<Limit, E> {
                let seconds = u64::try_from(seconds).map_err(|_| E::invalid_value(de::Unexpected::Signed(seconds), &self))?;
                self.visit_u64(seconds)
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<Limit, E> {
                duration(text).map(Limit).ok_or_else(|| E::invalid_value(de::Unexpected::Str(text), &self))
            }
        }
        deserializer.deserialize_any(Written)
    }
}

/// Numbers with units, added up: `1m 30s`.
fn duration(text: &str) -> Option<Duration> {
    let mut rest = text.trim();
    let mut sum = Duration::ZERO;
    loop {
        let (count, tail) = rest.split_at(rest.find(|c: char| !c.is_ascii_digit())?);
        let tail = tail.trim_start();
        let (unit, after) = tail.split_at(tail.find(|c: char| !c.is_ascii_lowercase()).unwrap_or(tail.len()));
        let count: u64 = count.parse().ok()?;
        let seconds = |each: u64| count.checked_mul(each).map(Duration::from_secs);
        sum = sum.checked_add(match unit {
            "ms" => Some(Duration::from_millis(count)),
            "s" => seconds(1),
            "m" | "min" => seconds(60),
            "h" => seconds(60 * 60),
            "d" => seconds(24 * 60 * 60),
            _ => None,
        }?)?;
        rest = after.trim_start();
        if rest.is_empty() {
            return Some(sum);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::duration;

    #[test]
    fn durations_are_read_as_people_write_them() {
        let read = [("500ms", 500), ("0s", 0), ("2 s", 2_000), ("1m 30s", 90_000), ("1h30min", 5_400_000), (" 7d ", 604_800_000)];
        for (text, millis) in read {
            assert_eq!(duration(text), Some(Duration::from_millis(millis)), "{text:?}");
        }
        for text in ["", "s", "5", "-1s", "1.5s", "1 fortnight", "1s,", "1S", "99999999999999999999s", "999999999999999999d", "é", "1é"] {
            assert_eq!(duration(text), None, "{text:?}");
        }
    }
}
