//! The README's tables say what the code does.

use std::time::Duration;

use http::StatusCode;
use reqwest_safe_retry::policy::{BudgetLimits, Decision, Effect, Evidence, Lapsed, RetryPolicy, Signal, Situation, defaults};

const README: &str = include_str!("../../README.md");
const DAY: Duration = Duration::from_secs(86_400);

/// The cells of the table rows that start with this.
fn row(start: &str) -> Vec<&'static str> {
    let line = README.lines().find(|line| line.strip_prefix("| ").is_some_and(|line| line.starts_with(start)));
    line.unwrap_or_else(|| panic!("no row {start}")).trim_matches('|').split('|').map(str::trim).collect()
}

fn cell(effect: Effect, signal: Signal, evidence: Evidence) -> String {
    match RetryPolicy::DEFAULT.decide(&Situation::new(effect, signal, evidence)) {
        Decision::Return => "return".to_owned(),
        Decision::Resend(permit) => format!("{:?}", permit.reason()),
        Decision::Probe(_) => "probe".to_owned(),
        Decision::Stop(reason) => format!("stop {reason:?}"),
    }
}

#[test]
fn the_effect_table_is_the_engines() {
    let keyed = |remembered_for, lapsed| Effect::KeyedWrite { remembered_for, lapsed };
    let rows = [
        ("`Read`, `IdempotentWrite`", Effect::Read),
        ("`Read`, `IdempotentWrite`", Effect::IdempotentWrite),
        ("`KeyedWrite`, key remembered", keyed(DAY, Lapsed::Stop)),
        ("`KeyedWrite`, key lapsed |", keyed(Duration::ZERO, Lapsed::Stop)),
        ("`KeyedWrite`, key lapsed, probed", keyed(Duration::ZERO, Lapsed::Probe)),
        ("`ProbedWrite`", Effect::ProbedWrite),
        ("`UnprotectedWrite`", Effect::UnprotectedWrite),
        ("`NeverResend`", Effect::NeverResend),
    ];
    for (name, effect) in rows {
        let busy = Signal::Answered(StatusCode::SERVICE_UNAVAILABLE);
        let computed = [
            cell(effect, busy, Evidence::Unknown),
            cell(effect, Signal::Failed, Evidence::Unprocessed),
            cell(effect, Signal::Failed, Evidence::Unknown),
            cell(effect, Signal::BodyLost(StatusCode::OK), Evidence::Unknown),
            cell(effect, Signal::KeyInUse, Evidence::Unknown),
            cell(effect, Signal::ProbedAbsent, Evidence::Unprocessed),
        ];
        assert_eq!(row(name)[1..], computed, "{name}");
    }
}

#[test]
fn the_defaults_table_is_that_of_the_constants() {
    let value = |name| row(name)[1].to_owned();
    let doubling = |backoff: reqwest_safe_retry::policy::Backoff| {
        let (first, cap) = (backoff.bound(1), backoff.bound(u32::MAX));
        let full = backoff.pause(1, reqwest_safe_retry::policy::Draw::LEAST).is_zero();
        assert!(full && backoff.bound(2) == 2 * first);
        format!("{first:?} doubling, at most {cap:?}, full jitter").replace("ms", " ms").replace("1s", "1 s").replace("20s", "20 s")
    };
    assert_eq!(value("attempts"), defaults::ATTEMPTS.to_string());
    assert_eq!(value("backoff"), doubling(defaults::BACKOFF));
    assert_eq!(value("throttle backoff"), doubling(defaults::THROTTLE_BACKOFF));
    assert_eq!(value("window"), format!("{} s", defaults::WINDOW.as_secs()));
    assert_eq!(value("least attempt"), format!("{} ms", defaults::LEAST_ATTEMPT.as_millis()));
    let statuses: Vec<_> = defaults::STATUSES.iter().map(|status| status.as_str().to_owned()).collect();
    assert_eq!(value("statuses"), statuses.join(" "));
    assert_eq!(value("hint spread"), format!("{:?}", defaults::HINT_SPREAD));
    assert_eq!(value("unreadable hint"), format!("{:?}", defaults::UNREADABLE_HINT));
    let budget = BudgetLimits::DEFAULT;
    let share = format!(
        "{} % of operations, reserve {}, refilled {} per second",
        budget.share() / 10_000,
        budget.reserve(),
        budget.refill_per_second()
    );
    assert_eq!(value("budget per origin"), share);
    assert_eq!(value("longest wait that is shared"), format!("{} h", defaults::MOST_SHARED_WAIT.as_secs() / 3600));
    assert_eq!(value("longest wait that is heard of another process"), format!("{} s", defaults::MOST_HEARD.as_secs()));
    assert_eq!(value("settling of a probed endpoint"), format!("{} s", defaults::SETTLING.as_secs()));
    let drain = format!("up to {} KiB, up to {} ms", defaults::DRAIN_MOST / 1024, defaults::DRAIN_LONGEST.as_millis());
    assert_eq!(value("drain of a failed HTTP/1 answer"), drain);
    assert_eq!(RetryPolicy::DEFAULT.attempts(), defaults::ATTEMPTS);
}

#[test]
fn the_two_commands_are_the_ones_that_ci_runs() {
    let script = include_str!("../../.ci/run");
    for command in ["cargo run --example tour", "cargo test --all-features"] {
        assert!(README.lines().any(|line| line == command), "{command} is not in the README");
        assert!(script.lines().any(|line| line == command), "{command} is not in .ci/run");
    }
}

/// A doctest does not compile what stands below a `#[test]`, so the README's tests live here, too.
#[cfg(feature = "testing")]
#[test]
fn the_readmes_tests_are_run_here() {
    let of_this_file: Vec<&str> = include_str!("readme.rs").lines().map(str::trim).collect();
    let blocks: Vec<&str> = README.split("```rust\n").skip(1).filter_map(|rest| rest.split("```").next()).collect();
    assert_eq!(blocks.len(), 2, "blocks with tests");
    for block in blocks {
        let lines: Vec<&str> = block.lines().map(str::trim).collect();
        assert!(of_this_file.windows(lines.len()).any(|window| window == lines), "not in this file:\n{block}");
    }
}

#[cfg(feature = "testing")]
mod the_audit {
    use std::time::Duration;

    use reqwest_safe_retry::{Endpoint, EndpointCatalog, KeyContract, Row, SafeRetry, errors::CatalogError};

    fn retry() -> Result<SafeRetry, CatalogError> {
        Ok(SafeRetry::new().with_attempt_limit(Duration::from_secs(3)).with_catalog(catalog()?))
    }

    fn catalog() -> Result<EndpointCatalog, CatalogError> {
        let charge = Endpoint::keyed_write(KeyContract::STRIPE).owned_by("payments").with_deadline(Duration::from_secs(20));
        EndpointCatalog::new().with_row("https://api.stripe.com", Row::post("/v1/charges", charge))
    }

    #[test]
    fn no_write_is_left_unprotected() -> Result<(), CatalogError> {
        catalog()?.audit_for(&retry()?).assert_ready(); // or fails, with the whole table and what is missing in it
        Ok(())
    }
}

#[cfg(feature = "testing")]
mod the_clients_tests {
    use std::time::Duration;

    use reqwest_middleware::ClientBuilder;
    use reqwest_safe_retry::{
        SafeRetry,
        testing::{Fault, FaultServer, Scripted, Step},
    };

    #[tokio::test]
    async fn a_post_whose_answer_is_lost_is_sent_once() -> reqwest::Result<()> {
        let shop = FaultServer::start([Fault::close_after_request(), Fault::ok("order 2041")]).await;
        let client = SafeRetry::new().client(reqwest::Client::builder().no_proxy()).redirects_off().build()?;
        assert!(client.post(shop.url("/orders")).body("one coffee").send().await.is_err());
        shop.assert_writes(1);
        Ok(())
    }

    #[tokio::test(start_paused = true)]
    async fn a_read_waits_as_long_as_it_was_asked_to() -> reqwest_middleware::Result<()> {
        let shop = Scripted::new([Step::status(503).with_header("retry-after", "2"), Step::ok("menu")]);
        let client = ClientBuilder::new(reqwest::Client::new()).with(SafeRetry::new()).with(shop.clone()).build();
        assert_eq!(client.get("http://shop.test/menu").send().await?.status(), 200);
        assert!(shop.pauses()[0] >= Duration::from_secs(2));
        Ok(())
    }
}
