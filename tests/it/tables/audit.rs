//! The audit: four answers for each endpoint, and every gap that it can find.

use std::time::Duration;

use async_trait::async_trait;
use http::{Method, StatusCode};
use reqwest_safe_retry::{
    Endpoint, EndpointCatalog, KeyContract, Operation, ProbeVerdict, RetryPolicy, Row, SafeRetry, StatusProbe,
    audit::{Audit, Gap, Severity},
    policy::KeySource,
};
#[cfg(feature = "catalog-files")]
use serde_json::Value;

const SECOND: Duration = Duration::from_secs(1);

struct Probe;

#[async_trait]
impl StatusProbe for Probe {
    async fn look_up(&self, _: &Operation<'_>) -> ProbeVerdict {
        ProbeVerdict::Undecided
    }
}

fn catalog(row: Row) -> EndpointCatalog {
    EndpointCatalog::new().with_row("https://api.example.com", row).unwrap()
}

fn audit(row: Row) -> Audit {
    catalog(row).audit()
}

fn gaps(audit: &Audit) -> Vec<(Gap, Severity)> {
    audit.findings().map(|(_, finding)| (finding.gap(), finding.severity())).collect()
}

/// Limits and an owner: nothing is missing but what the test takes away.
fn complete(endpoint: Endpoint) -> Endpoint {
    endpoint.with_deadline(20 * SECOND).with_attempt_limit(5 * SECOND).owned_by("payments")
}

fn keyed(remembered_for: Duration) -> Endpoint {
    complete(Endpoint::keyed_write(KeyContract::ietf(remembered_for)))
}

#[test]
fn a_complete_contract_has_no_gap() {
    let rows = [
        Row::get("/a", complete(Endpoint::read())),
        Row::put("/a", complete(Endpoint::idempotent_write())),
        Row::post("/a", keyed(21 * SECOND)),
        Row::post("/a", complete(Endpoint::probed_write(Probe))),
        Row::post("/a", complete(Endpoint::never_resend().probed_by(Probe))),
        Row::get("/a", complete(Endpoint::never_resend())),
    ];
    for row in rows {
        let audit = audit(row);
        assert_eq!(gaps(&audit), [], "{audit}");
        audit.assert_ready();
    }
}

#[test]
fn every_gap_is_found() {
    use Severity::{Error, Warning};
    let bare = |endpoint: Endpoint| endpoint.with_deadline(20 * SECOND).with_attempt_limit(5 * SECOND);
    let unlimited = |endpoint: Endpoint| endpoint.owned_by("payments");
    let cases: Vec<(Row, Gap, Severity)> = vec![
        (Row::post("/a", complete(Endpoint::unprotected_write())), Gap::Unprotected, Error),
        (Row::post("/a", complete(Endpoint::never_resend())), Gap::ResultUnknowable, Warning),
        (Row::post("/a", keyed(20 * SECOND)), Gap::KeyForgottenTooEarly, Error),
        (Row::post("/a", keyed(20 * SECOND).probed_by(Probe)), Gap::KeyForgottenTooEarly, Warning),
        (Row::post("/a", complete(Endpoint::probed_write(Probe)).settling(20 * SECOND)), Gap::SettlesTooLate, Error),
        (Row::post("/a", keyed(21 * SECOND).probed_by(Probe).settling(20 * SECOND)), Gap::SettlesTooLate, Warning),
        (Row::put("/a", unlimited(Endpoint::idempotent_write())), Gap::NoDeadline, Error),
        (Row::get("/a", Endpoint::read()), Gap::NoDeadline, Warning),
        (Row::put("/a", unlimited(Endpoint::idempotent_write()).with_attempt_limit(SECOND)), Gap::NoDeadline, Warning),
        (Row::put("/a", complete(Endpoint::idempotent_write()).with_deadline(Duration::MAX)), Gap::NoDeadline, Warning),
        (Row::get("/a", complete(Endpoint::read()).with_attempt_limit(20 * SECOND)), Gap::AttemptMayTakeAll, Warning),
        (Row::get("/a", complete(Endpoint::read()).with_attempt_limit(Duration::MAX)), Gap::AttemptMayTakeAll, Warning),
        (Row::put("/a", bare(Endpoint::idempotent_write())), Gap::NoOwner, Warning),
        (Row::post("/a", complete(Endpoint::read())), Gap::GentlerThanMethod, Warning),
        (Row::put("/a", complete(Endpoint::idempotent_write())).or(Method::PATCH), Gap::GentlerThanMethod, Warning),
        (Row::post("/a", keyed(SECOND * 60).trusting_refusal(StatusCode::BAD_GATEWAY)), Gap::TrustsAnyRefusal, Warning),
    ];
    for (row, gap, severity) in cases {
        let audit = audit(row);
        assert_eq!(gaps(&audit), [(gap, severity)], "{audit}");
        assert_eq!(audit.is_ready(), severity == Warning, "{audit}");
    }
}

#[test]
fn one_attempt_cannot_leave_too_little_to_the_next() {
    let once = complete(Endpoint::read()).with_attempt_limit(Duration::MAX).with_policy(RetryPolicy::DEFAULT.with_attempts(1));
    assert_eq!(gaps(&audit(Row::get("/a", once))), []);
}

#[test]
fn what_a_row_leaves_open_is_the_clients() {
    let catalog = catalog(Row::post("/a", Endpoint::keyed_write(KeyContract::ietf(40 * SECOND)).owned_by("payments")));
    let policy = RetryPolicy::DEFAULT.with_attempts(5);
    let strict = SafeRetry::new().with_deadline(30 * SECOND).with_attempt_limit(4 * SECOND).with_policy(policy);
    let audit = catalog.audit_for(&strict);
    let row = &audit.rows()[0];
    assert_eq!((row.deadline(), row.attempt_limit(), row.attempts()), (Some(30 * SECOND), Some(4 * SECOND), 5));
    assert_eq!(gaps(&audit), []);
    assert_eq!(gaps(&catalog.audit_for(&strict.with_deadline(40 * SECOND))), [(Gap::KeyForgottenTooEarly, Severity::Error)]);
    let open = SafeRetry::new().with_attempt_limit(SECOND).with_policy(policy.with_window(60 * SECOND));
    let found = gaps(&catalog.audit_for(&open));
    assert_eq!(found, [(Gap::KeyForgottenTooEarly, Severity::Error), (Gap::NoDeadline, Severity::Warning)], "the window is the time then");
}

#[test]
fn a_team_can_accept_a_gap() {
    let audit = audit(Row::post("/a", complete(Endpoint::unprotected_write())));
    assert!(!audit.is_ready());
    assert!(!audit.clone().accepting(Gap::NoOwner).is_ready());
    let accepted = audit.accepting(Gap::Unprotected);
    accepted.assert_ready();
    assert_eq!(gaps(&accepted), [(Gap::Unprotected, Severity::Warning)]);
}

#[test]
#[should_panic = "error: POST https://api.example.com/mails: a write without protection"]
fn a_catalogue_that_is_not_ready_says_why() {
    audit(Row::post("/mails", complete(Endpoint::unprotected_write()))).assert_ready();
}

#[test]
fn the_four_answers_stand_in_an_aligned_table() {
    let caller_must = KeyContract::STRIPE.with_source(KeySource::CallerMust);
    let catalog = EndpointCatalog::new()
        .with_rows(
            "https://api.example.com",
            [
                Row::get("/charges/{id}", complete(Endpoint::read())),
                Row::post("/charges", complete(Endpoint::keyed_write(KeyContract::STRIPE))),
                Row::post("/refunds", complete(Endpoint::keyed_write(caller_must).probed_by(Probe)).with_deadline(90 * SECOND)),
                Row::post("/café", complete(Endpoint::probed_write(Probe)).settling(Duration::from_millis(1_500))),
                Row::put("/notes/{id}", Endpoint::idempotent_write()).or(Method::DELETE),
                Row::post("/mails", Endpoint::unprotected_write()),
                Row::post("/faxes", complete(Endpoint::never_resend())),
            ],
        )
        .unwrap();
    let table = catalog.audit().to_string();
    let lines: Vec<&str> = table.lines().collect();
    let columns = |line: &str| -> Vec<usize> {
        let chars: Vec<char> = line.chars().collect();
        (2..chars.len()).filter(|at| chars[at - 2..*at] == [' ', ' '] && chars[*at] != ' ').collect()
    };
    for line in &lines[1..8] {
        assert_eq!(columns(line), columns(lines[0]), "{table}");
    }
    for part in [
        "GET https://api.example.com/charges/{id}",
        "nothing changes",
        "20s, 3 attempts of 5s",
        "the server knows the key for 24h, then the probe",
        "1m 30s, 3 attempts of 5s",
        "only once the probe finds nothing, 1s 500ms later",
        "no deadline, resends for 30s, 3 attempts",
        "20s, 1 attempt of 5s",
        "PUT, DELETE https://api.example.com/notes/{id}",
        "the probe is asked, else OutcomeUnknown; only again with the caller's key",
        "OutcomeUnknown; only again with the error's key",
        "the probe is asked, else OutcomeUnknown; payments has to look",
        "OutcomeUnknown; somebody has to look",
        "error: POST https://api.example.com/mails: a write without protection",
        "7 endpoints, 3 errors, 3 warnings",
    ] {
        assert!(table.contains(part), "{part}\n{table}");
    }
}

#[test]
fn what_finding_a_row_may_cost_is_stated_where_it_is_much() {
    let with = |paths: &[String]| {
        let rows = paths.iter().map(|path| Row::get(path.clone(), Endpoint::read()));
        EndpointCatalog::new().with_rows("https://api.example.com", rows).unwrap().audit()
    };
    let many: Vec<_> = (0..1_000).map(|n| format!("/things/{{id}}:do{n:03}")).collect();
    let few = with(&many[..10]);
    assert_eq!(few.longest_lookup(), with(&many).longest_lookup(), "it does not grow with the rows");
    assert!(!few.to_string().contains("steps"), "{few}");

    let both = (0..1 << 6).map(|bits| (0..6).map(|level| if bits >> level & 1 == 0 { "/a" } else { "/{p}" }).collect::<String>());
    let table = with(&both.collect::<Vec<_>>()).to_string();
    assert!(table.contains("finding a row takes up to 129 steps"), "{table}");
}

#[cfg(feature = "catalog-files")]
#[test]
fn the_audit_can_be_read_by_programs() {
    let row = Row::post("/mails", Endpoint::unprotected_write().named("mail").with_deadline(Duration::from_millis(1_500)));
    let json: Value = serde_json::from_str(&audit(row).to_json()).unwrap();
    assert_eq!(json["errors"], 1);
    assert_eq!(json["warnings"], 2);
    assert_eq!(json["longest_lookup"], 4);
    let endpoint = &json["endpoints"][0];
    assert_eq!(endpoint["route"], "POST https://api.example.com/mails");
    assert_eq!((&endpoint["name"], &endpoint["owner"]), (&Value::from("mail"), &Value::Null));
    assert_eq!((&endpoint["deadline"], &endpoint["attempt_limit"], &endpoint["attempts"]), (&1500.into(), &Value::Null, &3.into()));
    assert_eq!(endpoint["effect"], "unprotected write");
    assert_eq!(endpoint["findings"][0]["gap"], "Unprotected");
    assert_eq!(endpoint["findings"][0]["severity"], "error");
    assert!(endpoint["because"].is_string() && endpoint["when_unknown"].is_string());
}
