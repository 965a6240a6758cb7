//! The stories as one picture: a line of time for each, so that nobody has to read a table first.

use std::{fmt::Write as _, fs, path::Path, time::Duration};

use anyhow::{Context as _, Result};
use reqwest_safe_retry::{Evidence, report::AttemptRecord};

const WIDTH: f64 = 1000.0;
const LEFT: f64 = 24.0;
const LINE_FROM: f64 = 300.0;
const LINE: f64 = 620.0;
const TOP: f64 = 84.0;
const ROW: f64 = 76.0;
/// A send that took no time is still to be seen.
const THINNEST: f64 = 5.0;
const LETTER: f64 = 6.4;

/// The stories drawn so far.
#[derive(Default)]
pub(crate) struct Picture {
    rows: Vec<String>,
}

/// One story, as it came out.
pub(crate) struct Drawn<'a> {
    pub(crate) title: &'a str,
    pub(crate) attempts: &'a [AttemptRecord],
    pub(crate) took: Duration,
    pub(crate) outcome: String,
    pub(crate) holds: String,
}

impl Picture {
    pub(crate) fn add(&mut self, story: &Drawn<'_>) {
        let top = TOP + ROW * self.rows.len() as f64;
        let whole = story.took.as_secs_f64().max(f64::EPSILON);
        let place = |time: Duration| LINE_FROM + LINE * (time.as_secs_f64() / whole).min(1.0);
        let axis = top + 30.0;
        let mut row = String::new();
        row += &text(LEFT, top + 14.0, "title", &format!("{} · {}", self.rows.len() + 1, story.title));
        row += &text(LEFT, top + 32.0, "note", &story.outcome);
        row += &text(LEFT, top + 49.0, "note", &story.holds);
        row += &format!("<path d=\"M{LINE_FROM:.0} {axis:.0}H{:.0}\" class=\"wait\"/>\n", LINE_FROM + LINE);
        row += &text(LINE_FROM + LINE + 8.0, axis + 4.0, "note", &format!("{:.2} s", whole));
        let mut free = LINE_FROM;
        for attempt in story.attempts {
            let (from, to) = (place(attempt.started()), place(attempt.started() + attempt.took()));
            let from = from.min(LINE_FROM + LINE - THINNEST);
            let width = (to - from).max(THINNEST);
            let kind = kind(attempt);
            row +=
                &format!("<rect x=\"{from:.1}\" y=\"{:.1}\" width=\"{width:.1}\" height=\"18\" rx=\"2\" class=\"{kind}\"/>\n", axis - 9.0);
            let label = label(attempt);
            let room = LETTER * label.chars().count() as f64;
            let at = from.max(free).min(LINE_FROM + LINE - room);
            row += &text(at, axis - 15.0, "label", &label);
            free = at + room + 8.0;
        }
        self.rows.push(row);
    }

    pub(crate) fn write(&self, file: &Path) -> Result<()> {
        let height = TOP + ROW * self.rows.len() as f64 + 4.0;
        let mut svg = format!(
            "<svg width=\"{WIDTH}\" height=\"{height}\" viewBox=\"0 0 {WIDTH} {height}\" xmlns=\"http://www.w3.org/2000/svg\">\n{STYLE}\
             <rect width=\"{WIDTH}\" height=\"{height}\" fill=\"#FFFFFF\"/>\n"
        );
        svg +=
            &text(LEFT, 30.0, "head", "Seven stories, each on its own scale: what was sent, when, and what the database holds in the end");
        let mut at = LEFT;
        for (kind, words) in LEGEND {
            write!(
                svg,
                "<rect x=\"{at:.1}\" y=\"45\" width=\"14\" height=\"12\" rx=\"2\" class=\"{kind}\"/>\n{}",
                text(at + 20.0, 55.0, "note", words)
            )?;
            at += 44.0 + LETTER * words.len() as f64;
        }
        svg += &self.rows.concat();
        svg += "</svg>\n";
        fs::write(file, svg).with_context(|| format!("{} cannot be written", file.display()))
    }
}

const STYLE: &str = "<style>text{font-family:Helvetica,Arial,sans-serif;fill:#262A30}.head{font-size:17px;font-weight:bold}\
    .title{font-size:14px;font-weight:bold}.note{font-size:12px;fill:#6B7280}.label{font-size:12px}\
    .wait{stroke:#9CA3AF;stroke-dasharray:3 4}.good{fill:#2F9E44}.busy{fill:#E8A317}.unsent{fill:#6C8EBF}.unknown{fill:#C92A2A}</style>\n";

const LEGEND: [(&str, &str); 4] = [
    ("good", "answered"),
    ("busy", "refused by its status"),
    ("unsent", "failed, cannot have been processed"),
    ("unknown", "failed, nobody knows"),
];

fn kind(attempt: &AttemptRecord) -> &'static str {
    match (attempt.status(), attempt.evidence()) {
        (Some(status), _) if status.is_success() => "good",
        (Some(_), _) => "busy",
        (None, Evidence::Unprocessed) => "unsent",
        (None, Evidence::Unknown) => "unknown",
    }
}

fn label(attempt: &AttemptRecord) -> String {
    let what = attempt.status().map_or_else(|| attempt.cause().to_string(), |status| status.as_u16().to_string());
    format!("#{} {what}", attempt.number())
}

fn text(x: f64, y: f64, class: &str, words: &str) -> String {
    let words = words.replace('&', "&amp;").replace('<', "&lt;");
    format!("<text x=\"{x:.1}\" y=\"{y:.1}\" class=\"{class}\">{words}</text>\n")
}
