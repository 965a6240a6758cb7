//! What stands in `status_url`: a template, alone or with a table of what statuses mean.

use std::fmt;

use http::StatusCode;
use serde::{
    Deserialize, Deserializer,
    de::{self, Visitor, value::MapAccessDeserializer},
};

use super::{refusal::Refusal, values::Status};
use crate::{contract::status_url::StatusUrl, outcome::report::Found};

/// A status URL, alone or with its table.
pub(super) struct Asked {
    url: String,
    verdicts: Vec<(StatusCode, Found)>,
}

impl Asked {
    pub(super) fn probe(self, path: &str) -> Result<StatusUrl, Refusal> {
        let probe = StatusUrl::by_path(path, &self.url).map_err(|_| Refusal {
            field: ".status_url",
            message: "neither a path nor a URL, or a parameter that the path does not have",
        })?;
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
