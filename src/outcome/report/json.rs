//! A report as a machine reads it (feature `serde`): durations as whole milliseconds (`…_ms`),
//! statuses as numbers, reasons by the names of their variants, `null` where there is nothing, no
//! deadline included.

use std::time::Duration;

use http::StatusCode;
use serde::ser::{Serialize, SerializeStruct, Serializer};

use super::{AttemptRecord, ProbeRecord, RetryReport};
use crate::request::{correlation::CorrelationId, shown};

impl Serialize for RetryReport {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut report = serializer.serialize_struct("RetryReport", 16)?;
        report.serialize_field("method", &shown::method(self.method()))?;
        report.serialize_field("origin", &self.origin().to_string())?;
        report.serialize_field("endpoint", &self.endpoint())?;
        report.serialize_field("correlation_id", &self.correlation_id().map(CorrelationId::as_str))?;
        report.serialize_field("sent_before", &self.sent_before())?;
        report.serialize_field("attempts", self.attempts())?;
        report.serialize_field("probes", self.probes())?;
        report.serialize_field("stop", &self.stop())?;
        report.serialize_field("outcome", &self.outcome())?;
        report.serialize_field("evidence", &self.evidence())?;
        report.serialize_field("advice", self.advice())?;
        report.serialize_field("hint_ms", &self.hint().map(millis))?;
        report.serialize_field("key_was_sent", &self.key_was_sent())?;
        report.serialize_field("replayed", &self.replayed())?;
        report.serialize_field("took_ms", &millis(self.took()))?;
        report.serialize_field("time_left_ms", &bounded(self.time_left()))?;
        report.end()
    }
}

impl Serialize for AttemptRecord {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut attempt = serializer.serialize_struct("AttemptRecord", 12)?;
        attempt.serialize_field("number", &self.number)?;
        attempt.serialize_field("started_ms", &millis(self.started))?;
        attempt.serialize_field("took_ms", &millis(self.took))?;
        attempt.serialize_field("signal", &self.signal)?;
        attempt.serialize_field("status", &self.status.as_ref().map(StatusCode::as_u16))?;
        attempt.serialize_field("evidence", &self.evidence)?;
        attempt.serialize_field("cause", &self.cause)?;
        attempt.serialize_field("sends", &self.sends)?;
        attempt.serialize_field("hint_ms", &self.hint.map(millis))?;
        attempt.serialize_field("time_left_ms", &bounded(self.time_left))?;
        attempt.serialize_field("pause_ms", &self.pause.map(millis))?;
        attempt.serialize_field("resend", &self.resend)?;
        attempt.end()
    }
}

impl Serialize for ProbeRecord {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut probe = serializer.serialize_struct("ProbeRecord", 4)?;
        probe.serialize_field("after_attempt", &self.after_attempt)?;
        probe.serialize_field("started_ms", &millis(self.started))?;
        probe.serialize_field("took_ms", &millis(self.took))?;
        probe.serialize_field("found", &self.found)?;
        probe.end()
    }
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

fn bounded(time_left: Duration) -> Option<u64> {
    (time_left < Duration::MAX).then(|| millis(time_left))
}
