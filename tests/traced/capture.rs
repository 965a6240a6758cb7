//! A subscriber that keeps what this crate says, at every level.

#![allow(dead_code, reason = "not every binary asks for all of it")]

use std::{
    collections::BTreeMap,
    fmt::Debug,
    sync::{Arc, Mutex},
};

use tracing::{
    Event, Level, Metadata, Subscriber,
    field::{Field, Visit},
    span::{Attributes, Id, Record},
    subscriber::DefaultGuard,
};
use tracing_subscriber::{
    filter::LevelFilter,
    layer::{Context, Layer, SubscriberExt},
    registry::LookupSpan,
    util::SubscriberInitExt,
};

pub(crate) const TARGET: &str = "reqwest_safe_retry";

/// One span or event.
#[derive(Debug, Clone)]
pub(crate) struct Line {
    pub(crate) name: &'static str,
    pub(crate) level: Level,
    pub(crate) fields: BTreeMap<&'static str, String>,
    id: Option<u64>,
}

impl Line {
    pub(crate) fn field(&self, name: &str) -> Option<&str> {
        self.fields.get(name).map(String::as_str)
    }

    /// Name, level and names of the fields: what people match on.
    pub(crate) fn shape(&self) -> (&'static str, Level, Vec<&'static str>) {
        (self.name, self.level, self.fields.keys().copied().filter(|name| *name != "message").collect())
    }
}

/// Everything of ours that was said while it lived, on this thread.
#[derive(Clone, Default)]
pub(crate) struct Capture {
    spans: Arc<Mutex<Vec<Line>>>,
    events: Arc<Mutex<Vec<Line>>>,
}

impl Capture {
    /// Every test of a file starts one, whether it looks or not: while only one subscriber exists,
    /// tracing asks the thread that comes first to a place in the code whether anybody is
    /// interested, and remembers its answer for all.
    pub(crate) fn start() -> (Self, DefaultGuard) {
        Self::start_at(LevelFilter::TRACE)
    }

    /// As [`start`](Self::start), but deaf to what is below this level.
    pub(crate) fn start_at(level: LevelFilter) -> (Self, DefaultGuard) {
        let capture = Self::default();
        let guard = tracing_subscriber::registry().with(capture.clone().with_filter(level)).set_default();
        (capture, guard)
    }

    pub(crate) fn spans(&self) -> Vec<Line> {
        self.spans.lock().unwrap().clone()
    }

    pub(crate) fn events(&self) -> Vec<Line> {
        self.events.lock().unwrap().clone()
    }

    /// The only event of this name.
    pub(crate) fn event(&self, name: &str) -> Line {
        let found: Vec<Line> = self.events().into_iter().filter(|event| event.name == name).collect();
        assert_eq!(found.len(), 1, "one event `{name}` in {:#?}", self.events());
        found[0].clone()
    }

    /// Names and levels of all events, in order.
    pub(crate) fn levels(&self) -> Vec<(&'static str, Level)> {
        self.events().iter().map(|event| (event.name, event.level)).collect()
    }
}

impl<S: Subscriber + for<'a> LookupSpan<'a>> Layer<S> for Capture {
    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, _: Context<'_, S>) {
        if is_ours(attributes.metadata()) {
            let mut line = line(attributes.metadata(), Some(id.into_u64()));
            attributes.record(&mut Fields(&mut line.fields));
            self.spans.lock().unwrap().push(line);
        }
    }

    fn on_record(&self, id: &Id, record: &Record<'_>, _: Context<'_, S>) {
        let mut spans = self.spans.lock().unwrap();
        if let Some(span) = spans.iter_mut().rev().find(|span| span.id == Some(id.into_u64())) {
            record.record(&mut Fields(&mut span.fields));
        }
    }

    fn on_event(&self, event: &Event<'_>, context: Context<'_, S>) {
        if is_ours(event.metadata()) {
            if event.metadata().name() != "misused" {
                let inside = context.lookup_current().map(|span| span.name());
                assert_eq!(inside, Some("operation"), "every event stands in the span of its operation");
            }
            let mut line = line(event.metadata(), None);
            event.record(&mut Fields(&mut line.fields));
            self.events.lock().unwrap().push(line);
        }
    }
}

fn is_ours(metadata: &Metadata<'_>) -> bool {
    metadata.target() == TARGET
}

fn line(metadata: &'static Metadata<'static>, id: Option<u64>) -> Line {
    Line { name: metadata.name(), level: *metadata.level(), fields: BTreeMap::new(), id }
}

struct Fields<'a>(&'a mut BTreeMap<&'static str, String>);

impl Visit for Fields<'_> {
    fn record_str(&mut self, field: &Field, value: &str) {
        self.0.insert(field.name(), value.to_owned());
    }

    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        self.0.insert(field.name(), format!("{value:?}"));
    }
}
