//! What is counted: names, labels and units are a promise.

use std::{sync::LazyLock, time::Duration};

use futures_util::FutureExt;
use metrics_exporter_prometheus::PrometheusBuilder;
use reqwest_middleware::{ClientBuilder, ClientWithMiddleware, RequestBuilder};
use reqwest_safe_retry::{
    Endpoint, Operation, Outcome, ProbeVerdict, RetryBudget, RetryReport, SafeRetry, SendWitness, StatusProbe,
    policy::{BudgetLimits, Draw},
    testing::{Draws, Scripted, Step},
};

const URL: &str = "https://api.test/v1/orders?token=1";

fn client(plugin: SafeRetry, steps: impl IntoIterator<Item = Step>) -> ClientWithMiddleware {
    // Never reached, so one for all.
    static TRANSPORT: LazyLock<reqwest::Client> = LazyLock::new(reqwest::Client::new);
    let plugin = plugin.with_draws(Draws::constant(Draw::LEAST));
    ClientBuilder::new(TRANSPORT.clone()).with(plugin).with(SendWitness::redirects_off()).with(Scripted::new(steps)).build()
}

/// The lines of a scrape after the work.
async fn scrape(work: impl AsyncFnOnce()) -> Vec<String> {
    let recorder = PrometheusBuilder::new().build_recorder();
    let handle = recorder.handle();
    let guard = metrics::set_default_local_recorder(&recorder);
    work().await;
    drop(guard);
    handle.render().lines().map(str::to_owned).collect()
}

#[track_caller]
fn assert_has(scrape: &[String], wanted: &[&str]) {
    for line in wanted {
        assert!(scrape.iter().any(|found| found == line), "{line}\nis not in\n{}", scrape.join("\n"));
    }
}

#[tokio::test(start_paused = true)]
async fn an_operation_is_counted_under_exactly_these_names() {
    let scrape = scrape(async || {
        let throttled = Step::status(503).with_header("retry-after", "2").with_body("too much");
        let client = client(SafeRetry::new(), [throttled, Step::ok("done")]);
        client.get(URL).with_extension(Endpoint::read().named("orders")).send().await.unwrap();
    })
    .await;
    assert_has(
        &scrape,
        &[
            r#"safe_retry_operations_total{endpoint="orders",method="GET"} 1"#,
            r#"safe_retry_attempts_total{endpoint="orders",method="GET"} 2"#,
            r#"safe_retry_resends_total{endpoint="orders",method="GET",reason="EffectRepeatable"} 1"#,
            r#"safe_retry_stops_total{endpoint="orders",method="GET",reason="AnswerIsFinal"} 1"#,
            r#"safe_retry_drains_total{endpoint="orders",method="GET",result="Whole"} 1"#,
            r#"safe_retry_hint_seconds_sum{endpoint="orders",method="GET"} 2"#,
            r#"safe_retry_pause_seconds_sum{endpoint="orders",method="GET"} 2"#,
            r#"safe_retry_budget_left_sum{endpoint="orders",method="GET"} 9"#,
            "# TYPE safe_retry_operations_total counter",
            "# HELP safe_retry_pause_seconds Pauses before resends and probes",
        ],
    );
    assert!(!scrape.iter().any(|line| line.contains("unknown_outcomes_total{") || line.contains("api.test")), "{scrape:#?}");
}

#[tokio::test(start_paused = true)]
async fn unknown_outcomes_stops_and_refusals_are_counted() {
    let scrape = scrape(async || {
        client(SafeRetry::new(), [Step::fails()]).post(URL).send().await.unwrap_err();
        let broke = RetryBudget::new(BudgetLimits::percent(0).with_reserve(0, 0));
        client(SafeRetry::new().with_budget(broke), [Step::status(503)]).get(URL).send().await.unwrap();
        let hanging = client(SafeRetry::new(), [Step::hangs()]);
        tokio::time::timeout(Duration::from_secs(1), hanging.put(URL).send()).await.unwrap_err();
    })
    .await;
    assert_has(
        &scrape,
        &[
            r#"safe_retry_unknown_outcomes_total{endpoint="unnamed",method="POST"} 1"#,
            r#"safe_retry_stops_total{endpoint="unnamed",method="POST",reason="MayHaveHappened"} 1"#,
            r#"safe_retry_stops_total{endpoint="unnamed",method="GET",reason="BudgetSpent"} 1"#,
            r#"safe_retry_budget_left_count{endpoint="unnamed",method="GET"} 1"#,
            r#"safe_retry_stops_total{endpoint="unnamed",method="PUT",reason="Abandoned"} 1"#,
        ],
    );
    assert!(!scrape.iter().any(|line| line.contains("resends_total{")), "a resend that was refused is none: {scrape:#?}");
}

#[tokio::test(start_paused = true)]
async fn a_write_abandoned_on_its_way_is_an_unknown_outcome_and_a_read_is_none() {
    let scrape = scrape(async || {
        let hanging = |request: RequestBuilder| tokio::time::timeout(Duration::from_secs(1), request.send());
        let client = client(SafeRetry::new(), [Step::hangs()]);
        hanging(client.post(URL)).await.unwrap_err();
        hanging(client.get(URL)).await.unwrap_err();
        assert!(client.patch(URL).send().now_or_never().is_none());
        let refused = Step::status(425).with_header("retry-after", "20");
        let refusing = self::client(SafeRetry::new(), [refused]);
        hanging(refusing.delete(URL)).await.unwrap_err();
    })
    .await;
    let mut unknown: Vec<&String> = scrape.iter().filter(|line| line.starts_with("safe_retry_unknown_outcomes_total{")).collect();
    unknown.sort_unstable();
    let of = |method| format!(r#"safe_retry_unknown_outcomes_total{{endpoint="unnamed",method="{method}"}} 1"#);
    assert_eq!(unknown, [&of("PATCH"), &of("POST")], "a read has nothing to lose, and what was refused did not happen");
    assert_has(&scrape, &[r#"safe_retry_stops_total{endpoint="unnamed",method="DELETE",reason="Abandoned"} 1"#]);
}

#[tokio::test(start_paused = true)]
async fn an_answer_after_an_unknown_attempt_is_no_unknown_outcome() {
    let scrape = scrape(async || {
        let client = client(SafeRetry::new(), [Step::fails(), Step::status(404)]);
        let response = client.delete(URL).send().await.unwrap();
        assert_eq!(RetryReport::of(&response).unwrap().outcome(), Outcome::AnsweredAfterUnknown);
    })
    .await;
    assert!(!scrape.iter().any(|line| line.starts_with("safe_retry_unknown_outcomes_total{")), "{scrape:#?}");
}

struct Finds;

#[async_trait::async_trait]
impl StatusProbe for Finds {
    async fn look_up(&self, operation: &Operation<'_>) -> ProbeVerdict {
        let page = operation.get(operation.url().clone());
        operation.send(page).await.map_or(ProbeVerdict::Undecided, ProbeVerdict::Applied)
    }
}

#[tokio::test(start_paused = true)]
async fn probes_are_counted_by_what_they_found() {
    let scrape = scrape(async || {
        let client = client(SafeRetry::new(), [Step::fails(), Step::ok("done")]);
        client.post(URL).with_extension(Endpoint::probed_write(Finds).named("orders")).send().await.unwrap();
    })
    .await;
    assert_has(&scrape, &[r#"safe_retry_probes_total{endpoint="orders",method="POST",found="Applied"} 1"#]);
}

#[tokio::test(start_paused = true)]
async fn labels_stay_few_and_the_origin_is_opt_in() {
    let scrape = scrape(async || {
        let client = client(SafeRetry::new().with_origin_in_metrics(), [Step::ok("done")]);
        for number in 0..20 {
            let method = http::Method::from_bytes(format!("M{number}").as_bytes()).unwrap();
            client.request(method, format!("{URL}&number={number}")).send().await.unwrap();
        }
    })
    .await;
    let other = r#"safe_retry_operations_total{endpoint="unnamed",method="_OTHER",origin="https://api.test:443"} 20"#;
    assert_has(&scrape, &[other]);
}
