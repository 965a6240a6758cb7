//! What a catalogue promises, written out: four questions for each endpoint, and what is missing.
//!
//! It reads the same contracts that the middleware obeys and decides nothing. What it cannot see, such as the `timeout` of the
//! [`reqwest::Client`] below, it does not assume.

use std::{fmt, time::Duration};

use http::{Method, StatusCode};

use crate::{
    contract::catalog::Listed,
    contract::endpoint::Endpoint,
    middleware::Limits,
    policy::{Effect, KeySource, Lapsed},
};

/// The answers to four questions about each endpoint of a catalogue, and the gaps in them. Printed, it is a table.
///
/// Made by [`EndpointCatalog::audit`](crate::EndpointCatalog::audit).
///
/// # Examples
/// A test that keeps a catalogue complete:
/// ```
/// # use reqwest_safe_retry::{CatalogError, Endpoint, EndpointCatalog, KeyContract, Row};
/// # use std::time::Duration;
/// # fn our_catalog() -> Result<EndpointCatalog, CatalogError> {
/// #     let pay = Endpoint::keyed_write(KeyContract::STRIPE).owned_by("payments").within(Duration::from_secs(20));
/// #     EndpointCatalog::new().with_row("https://api.example.com", Row::post("/payments", pay))
/// # }
/// # fn main() -> Result<(), CatalogError> {
/// our_catalog()?.audit().assert_ready();
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone)]
#[must_use]
pub struct Audit {
    rows: Vec<AuditRow>,
}

/// What the audit says about one endpoint.
#[derive(Debug, Clone)]
pub struct AuditRow {
    route: String,
    name: Option<String>,
    owner: Option<String>,
    effect: Effect,
    because: String,
    deadline: Option<Duration>,
    attempt_limit: Option<Duration>,
    attempts: u32,
    allowed: String,
    when_unknown: String,
    findings: Vec<Finding>,
}

/// One gap in one endpoint's contract.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    gap: Gap,
    severity: Severity,
    message: String,
}

/// How bad a gap is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[expect(clippy::exhaustive_enums, reason = "either it keeps the catalogue from being ready or it does not")]
pub enum Severity {
    /// The endpoint is not ready: one of the four questions has no good answer.
    Error,
    /// It may be meant so; somebody should have thought about it.
    Warning,
}

/// What is missing in a contract.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Gap {
    /// A write that a second copy would do twice, with neither a key nor a probe. An error.
    Unprotected,
    /// A write that is never sent again, and no probe that could tell its result. A warning.
    ResultUnknowable,
    /// The server may forget the key while the operation still goes on. An error, or a warning where a probe takes over.
    KeyForgottenTooEarly,
    /// The probe's *absent* only counts when the operation's time is up. An error where nothing else protects the write, else a warning.
    SettlesTooLate,
    /// Neither the row nor the client has a deadline. An error for writes without an attempt limit either, else a warning.
    NoDeadline,
    /// One attempt that hangs may use up the whole deadline, and no other would follow. A warning.
    AttemptMayTakeAll,
    /// Nobody is named who owns the state that the write changes. A warning.
    NoOwner,
    /// The effect is stated to be more harmless than the method promises (RFC 9110 §9.2). A warning.
    GentlerThanMethod,
    /// A status that also comes after the effect (408, 500, 502, 504) is trusted to mean *not applied*. A warning.
    TrustsAnyRefusal,
}

impl Audit {
    pub(crate) fn of(rows: &[Listed], limits: &Limits) -> Self {
        Self { rows: rows.iter().map(|row| AuditRow::of(row, limits)).collect() }
    }

    /// The endpoints, in the catalogue's order.
    #[must_use]
    pub fn rows(&self) -> &[AuditRow] {
        &self.rows
    }

    /// All findings, each with its endpoint.
    pub fn findings(&self) -> impl Iterator<Item = (&AuditRow, &Finding)> {
        self.rows.iter().flat_map(|row| row.findings.iter().map(move |finding| (row, finding)))
    }

    /// Whether there is no error. Warnings are allowed.
    #[must_use]
    pub fn is_ready(&self) -> bool {
        self.count(Severity::Error) == 0
    }

    /// Turns the errors of one kind into warnings: the team knows, and lives with it.
    pub fn accepting(mut self, gap: Gap) -> Self {
        let findings = self.rows.iter_mut().flat_map(|row| &mut row.findings);
        findings.filter(|finding| finding.gap == gap).for_each(|finding| finding.severity = Severity::Warning);
        self
    }

    /// Does nothing if the catalogue [is ready](Self::is_ready). For tests.
    ///
    /// # Panics
    /// There is an error; the message is the whole audit.
    #[track_caller]
    pub fn assert_ready(&self) {
        assert!(self.is_ready(), "the catalogue is not ready:\n{self}");
    }

    /// The audit as JSON: `{"endpoints": [..], "errors": 0, "warnings": 0}`, durations in milliseconds.
    #[cfg(feature = "serde")]
    #[must_use]
    pub fn to_json(&self) -> String {
        let rows: Vec<_> = self.rows.iter().map(AuditRow::to_json).collect();
        let json = serde_json::json!({
            "endpoints": rows,
            "errors": self.count(Severity::Error),
            "warnings": self.count(Severity::Warning),
        });
        format!("{json:#}")
    }

    fn count(&self, severity: Severity) -> usize {
        self.findings().filter(|(_, finding)| finding.severity == severity).count()
    }
}

impl AuditRow {
    fn of(row: &Listed, limits: &Limits) -> Self {
        let endpoint = &row.endpoint;
        let policy = endpoint.policy().unwrap_or(limits.policy);
        let bounded = |limit: Option<Duration>| limit.filter(|limit| *limit < Duration::MAX);
        let mut audited = Self {
            route: row.to_string(),
            name: endpoint.name().map(ToString::to_string),
            owner: endpoint.owner().map(ToOwned::to_owned),
            effect: endpoint.effect(),
            because: because(endpoint),
            deadline: bounded(endpoint.limit().or(limits.deadline)),
            attempt_limit: bounded(endpoint.attempt_limit().or(limits.attempt)),
            attempts: if endpoint.effect() == Effect::NeverResend { 1 } else { policy.attempts() },
            allowed: String::new(),
            when_unknown: String::new(),
            findings: Vec::new(),
        };
        let is_write = row.methods.iter().any(|method| endpoint.is_write(method));
        audited.allowed = audited.allowed(policy.window());
        audited.when_unknown = when_unknown(endpoint, is_write);
        audited.inspect(row, is_write, policy.window());
        audited
    }

    /// The endpoint: methods, origin and path template.
    #[must_use]
    pub fn route(&self) -> &str {
        &self.route
    }

    /// Its name.
    #[must_use]
    pub fn name(&self) -> Option<&str> {
        self.name.as_deref()
    }

    /// Who owns the state that it changes.
    #[must_use]
    pub fn owner(&self) -> Option<&str> {
        self.owner.as_deref()
    }

    /// First question: which effect would be repeated?
    #[must_use]
    pub const fn effect(&self) -> Effect {
        self.effect
    }

    /// Second question: why is repeating it harmless?
    #[must_use]
    pub fn because(&self) -> &str {
        &self.because
    }

    /// Third question: how much time has the operation? `None`: no deadline.
    #[must_use]
    pub const fn deadline(&self) -> Option<Duration> {
        self.deadline
    }

    /// Third question: how much time has one attempt? `None`: whatever the operation has left.
    #[must_use]
    pub const fn attempt_limit(&self) -> Option<Duration> {
        self.attempt_limit
    }

    /// Third question: how many times may it be sent in all?
    #[must_use]
    pub const fn attempts(&self) -> u32 {
        self.attempts
    }

    /// Fourth question: what happens when the result stays unknown?
    #[must_use]
    pub fn when_unknown(&self) -> &str {
        &self.when_unknown
    }

    /// What is missing.
    #[must_use]
    pub fn findings(&self) -> &[Finding] {
        &self.findings
    }

    /// `20s, 3 attempts of 5s`.
    fn allowed(&self, window: Duration) -> String {
        let time = match self.deadline {
            Some(limit) => Time(limit).to_string(),
            None if self.attempts == 1 => "no deadline".to_owned(),
            None => format!("no deadline, resends for {}", Time(window)),
        };
        let plural = if self.attempts == 1 { "" } else { "s" };
        let each = self.attempt_limit.map_or_else(String::new, |limit| format!(" of {}", Time(limit)));
        format!("{time}, {} attempt{plural}{each}", self.attempts)
    }

    fn inspect(&mut self, row: &Listed, is_write: bool, window: Duration) {
        let endpoint = &row.endpoint;
        let probed = endpoint.probe().is_some();
        let time = self.deadline.unwrap_or(window);
        let error_if = |error: bool| if error { Severity::Error } else { Severity::Warning };

        match self.effect {
            Effect::UnprotectedWrite => {
                let message = "a write without protection: neither a key nor a probe, and nobody can tell whether it happened";
                self.find(Gap::Unprotected, Severity::Error, message);
            }
            Effect::NeverResend if is_write && !probed => {
                self.find(Gap::ResultUnknowable, Severity::Warning, "no probe: nobody can tell whether the write happened");
            }
            Effect::KeyedWrite { remembered_for, lapsed } if remembered_for <= time => {
                let message = format!("the server forgets the key after {}, the operation may take {}", Time(remembered_for), Time(time));
                self.find(Gap::KeyForgottenTooEarly, error_if(lapsed == Lapsed::Stop), message);
            }
            Effect::Read | Effect::IdempotentWrite | Effect::KeyedWrite { .. } | Effect::ProbedWrite | Effect::NeverResend => {}
        }
        if probed && is_write && endpoint.settling_time() >= time {
            let message = format!("absent counts after {}, but the operation ends within {}", Time(endpoint.settling_time()), Time(time));
            self.find(Gap::SettlesTooLate, error_if(self.effect == Effect::ProbedWrite), message);
        }
        match (self.deadline, self.attempt_limit) {
            (None, None) => self.find(Gap::NoDeadline, error_if(is_write), "no deadline and no attempt limit: it may take forever"),
            (None, Some(_)) => self.find(Gap::NoDeadline, Severity::Warning, "no deadline: only attempts are limited"),
            (Some(deadline), attempt) if self.attempts > 1 && attempt.is_none_or(|limit| limit >= deadline) => {
                let message = "no shorter attempt limit: one attempt that hangs takes the whole deadline, and none follows";
                self.find(Gap::AttemptMayTakeAll, Severity::Warning, message);
            }
            (Some(_), _) => {}
        }
        if is_write && self.owner.is_none() {
            self.find(Gap::NoOwner, Severity::Warning, "nobody is named who owns the state");
        }
        if let Some(method) = row.methods.iter().find(|method| gentler_than(self.effect, method)) {
            self.find(Gap::GentlerThanMethod, Severity::Warning, format!("{method} alone does not promise what is stated here"));
        }
        if let Some(status) = ALSO_AFTER_THE_EFFECT.into_iter().find(|status| endpoint.trusts_refusal(*status)) {
            let message = format!("{} is trusted to mean \"not applied\", but also comes after the effect", status.as_u16());
            self.find(Gap::TrustsAnyRefusal, Severity::Warning, message);
        }
    }

    fn find(&mut self, gap: Gap, severity: Severity, message: impl Into<String>) {
        self.findings.push(Finding { gap, severity, message: message.into() });
    }

    #[cfg(feature = "serde")]
    fn to_json(&self) -> serde_json::Value {
        let millis = |limit: Option<Duration>| limit.map(|limit| u64::try_from(limit.as_millis()).unwrap_or(u64::MAX));
        let findings = self.findings.iter().map(|finding| {
            let (gap, severity) = (format!("{:?}", finding.gap), finding.severity.to_string());
            serde_json::json!({ "gap": gap, "severity": severity, "message": finding.message })
        });
        serde_json::json!({
            "route": self.route,
            "name": self.name,
            "owner": self.owner,
            "effect": effect(self.effect),
            "because": self.because,
            "deadline": millis(self.deadline),
            "attempt_limit": millis(self.attempt_limit),
            "attempts": self.attempts,
            "when_unknown": self.when_unknown,
            "findings": findings.collect::<Vec<_>>(),
        })
    }
}

impl Finding {
    /// What is missing.
    #[must_use]
    pub const fn gap(&self) -> Gap {
        self.gap
    }

    /// How bad that is.
    #[must_use]
    pub const fn severity(&self) -> Severity {
        self.severity
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.severity, self.message)
    }
}

impl fmt::Display for Severity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Error => "error",
            Self::Warning => "warning",
        })
    }
}

/// 429 and 503 come before the effect at many servers, and then to trust them is right. These come from timeouts and crashes.
const ALSO_AFTER_THE_EFFECT: [StatusCode; 4] =
    [StatusCode::REQUEST_TIMEOUT, StatusCode::INTERNAL_SERVER_ERROR, StatusCode::BAD_GATEWAY, StatusCode::GATEWAY_TIMEOUT];

/// First question.
const fn effect(effect: Effect) -> &'static str {
    match effect {
        Effect::Read => "read",
        Effect::IdempotentWrite => "idempotent write",
        Effect::KeyedWrite { .. } => "keyed write",
        Effect::ProbedWrite => "probed write",
        Effect::UnprotectedWrite => "unprotected write",
        Effect::NeverResend => "never sent again",
    }
}

/// Second question.
fn because(endpoint: &Endpoint) -> String {
    match endpoint.effect() {
        Effect::Read => "nothing changes".to_owned(),
        Effect::IdempotentWrite => "twice equals once".to_owned(),
        Effect::KeyedWrite { remembered_for, lapsed: Lapsed::Stop } => format!("the server knows the key for {}", Time(remembered_for)),
        Effect::KeyedWrite { remembered_for, lapsed: Lapsed::Probe } => {
            format!("the server knows the key for {}, then the probe", Time(remembered_for))
        }
        Effect::ProbedWrite => format!("only once the probe finds nothing, {} later", Time(endpoint.settling_time())),
        Effect::UnprotectedWrite => "only if it cannot have been processed".to_owned(),
        Effect::NeverResend => "it is not repeated".to_owned(),
    }
}

/// Fourth question.
fn when_unknown(endpoint: &Endpoint, is_write: bool) -> String {
    let asked = if endpoint.probe().is_some() { "the probe is asked, else " } else { "" };
    match endpoint.effect() {
        _ if !is_write => "the error as it came; asking again is harmless".to_owned(),
        Effect::IdempotentWrite => format!("{asked}OutcomeUnknown; sending it again is harmless"),
        Effect::KeyedWrite { .. } => {
            let whose = endpoint.contract().map_or(KeySource::Generate, |contract| contract.source());
            let key = if whose == KeySource::CallerMust { "the caller's key" } else { "the error's key" };
            format!("{asked}OutcomeUnknown; only again with {key}")
        }
        Effect::Read | Effect::ProbedWrite | Effect::UnprotectedWrite | Effect::NeverResend => {
            let who = endpoint.owner().unwrap_or("somebody");
            format!("{asked}OutcomeUnknown; {who} has to look")
        }
    }
}

/// Whether more is stated than the method promises by itself.
fn gentler_than(effect: Effect, method: &Method) -> bool {
    match (effect, Effect::of_method(method)) {
        (Effect::Read, promised) => promised != Effect::Read,
        (Effect::IdempotentWrite, promised) => promised == Effect::UnprotectedWrite,
        (Effect::KeyedWrite { .. } | Effect::ProbedWrite | Effect::UnprotectedWrite | Effect::NeverResend, _) => false,
    }
}

/// A duration as people write it: `24h`, `1m 30s`, `250ms`.
struct Time(Duration);

impl fmt::Display for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0 == Duration::MAX {
            return f.write_str("ever");
        }
        let seconds = self.0.as_secs();
        let parts = [
            (u128::from(seconds / 3600), "h"),
            (u128::from(seconds / 60 % 60), "m"),
            (u128::from(seconds % 60), "s"),
            (u128::from(self.0.subsec_millis()), "ms"),
        ];
        let mut gap = "";
        for (count, unit) in parts.into_iter().filter(|(count, _)| *count > 0) {
            write!(f, "{gap}{count}{unit}")?;
            gap = " ";
        }
        if gap.is_empty() { f.write_str("0s") } else { Ok(()) }
    }
}

/// The table, then the findings, then their number.
impl fmt::Display for Audit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let head = ["endpoint", "effect", "harmless because", "allowed", "result unknown"];
        let lines: Vec<[&str; 5]> =
            self.rows.iter().map(|row| [row.route.as_str(), effect(row.effect), &row.because, &row.allowed, &row.when_unknown]).collect();
        let lines = || std::iter::once(&head).chain(&lines);
        let mut widths = [0; 5];
        for line in lines() {
            for (width, cell) in widths.iter_mut().zip(line) {
                *width = cell.chars().count().max(*width);
            }
        }
        for line in lines() {
            let written: Vec<String> = widths.into_iter().zip(line).map(|(width, cell)| format!("{cell:width$}")).collect();
            writeln!(f, "{}", written.join("  ").trim_end())?;
        }
        writeln!(f)?;
        for (row, finding) in self.findings() {
            writeln!(f, "{}: {}: {}", finding.severity, row.route, finding.message)?;
        }
        let count = |number: usize, what| format!("{number} {what}{}", if number == 1 { "" } else { "s" });
        let (errors, warnings) = (self.count(Severity::Error), self.count(Severity::Warning));
        write!(f, "{}, {}, {}", count(self.rows.len(), "endpoint"), count(errors, "error"), count(warnings, "warning"))
    }
}
