//! Statuses as numbers, so that situations and decisions can be written down and read back (feature
//! `serde`).

/// `StatusCode` as its number.
pub(super) mod status {
    use http::StatusCode;
    use serde::{Deserialize, Deserializer, Serializer, de};

    pub(in crate::policy) fn serialize<S: Serializer>(status: &StatusCode, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_u16(status.as_u16())
    }

    pub(in crate::policy) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<StatusCode, D::Error> {
        StatusCode::from_u16(u16::deserialize(deserializer)?).map_err(de::Error::custom)
    }
}
