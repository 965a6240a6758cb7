//! Observers, reports and traces.

use std::{
    sync::{Arc, LazyLock, Mutex},
    time::Duration,
};

use reqwest_middleware::{ClientBuilder, ClientWithMiddleware, RequestBuilder};
use reqwest_safe_retry::{
    Cooldown, CorrelationId, Deadline, Endpoint, HoldsBack, KeyContract, Observer, Operation, Outcome, ProbeVerdict, ReportSlot,
    RetryBudget, RetryPolicy, RetryReport, SafeRetry, SendWitness, StatusProbe, StopReason,
    policy::{BudgetLimits, Draw, Situation},
    report::Decided,
    testing::{Draws, Scripted, Step},
};
use serde_json::{Value, json};

const URL: &str = "https://api.test/v1/orders?token=1";

fn client(plugin: SafeRetry, steps: impl IntoIterator<Item = Step>) -> ClientWithMiddleware {
    // Never reached, so one for all.
    static TRANSPORT: LazyLock<reqwest::Client> = LazyLock::new(reqwest::Client::new);
    let peer = Scripted::new(steps);
    ClientBuilder::new(TRANSPORT.clone()).with(plugin).with(SendWitness::redirects_off()).with(peer).build()
}

/// Writes the trace down as a user would: one JSON line for each decision.
#[derive(Clone, Default)]
struct Trace {
    lines: Arc<Mutex<Vec<String>>>,
    ends: Arc<Mutex<Vec<RetryReport>>>,
}

impl Observer for Trace {
    fn decided(&self, decided: &Decided<'_>) {
        let line = json!({
            "of": decided.correlation_id().map(CorrelationId::as_str),
            "attempt": decided.attempt().number(),
            "situation": decided.situation(),
            "decision": decided.decision(),
        });
        self.lines.lock().unwrap().push(line.to_string());
    }

    fn ended(&self, report: &RetryReport) {
        self.ends.lock().unwrap().push(report.clone());
    }
}

struct Absent;

#[async_trait::async_trait]
impl StatusProbe for Absent {
    async fn look_up(&self, _: &Operation<'_>) -> ProbeVerdict {
        ProbeVerdict::Absent
    }
}

struct Clueless;

#[async_trait::async_trait]
impl StatusProbe for Clueless {
    async fn look_up(&self, _: &Operation<'_>) -> ProbeVerdict {
        ProbeVerdict::Undecided
    }
}

fn scripts() -> Vec<Vec<Step>> {
    let hint = |wait| Step::status(429).with_header("retry-after", wait);
    vec![
        vec![Step::ok("done")],
        vec![Step::status(503), Step::refused(), Step::ok("done")],
        vec![hint("2"), hint("soon")],
        vec![hint("1.5"), hint("90")],
        vec![Step::fails(), Step::fails(), Step::ok("done")],
        vec![Step::status(425), Step::status(425)],
        vec![Step::status(409), Step::status(404)],
        vec![Step::status(200).with_cut_body("do"), Step::ok("done")],
        vec![Step::broken()],
        vec![Step::hangs()],
    ]
}

fn endpoints() -> [Option<Endpoint>; 7] {
    let keyed = || Endpoint::keyed_write(KeyContract::STRIPE).reading_body(1_000);
    [
        None,
        Some(Endpoint::read().reading_body(1_000)),
        Some(Endpoint::idempotent_write()),
        Some(keyed()),
        Some(keyed().probed_by(Absent)),
        Some(Endpoint::probed_write(Absent)),
        Some(Endpoint::never_resend()),
    ]
}

#[tokio::test(start_paused = true)]
async fn a_trace_replays_to_the_same_decisions() {
    let policy = RetryPolicy::DEFAULT;
    let trace = Trace::default();
    let plugin = SafeRetry::new().with_policy(policy).with_observer(trace.clone()).with_attempt_limit(Duration::from_secs(3));
    for deadline in [Deadline::NONE, Deadline::after(Duration::from_secs(1_000))] {
        for endpoint in endpoints() {
            for (seed, script) in (1..).zip(scripts()) {
                let client = client(plugin.clone().with_draws(Draws::seeded(seed)), script);
                let request = client.post(URL).with_extension(deadline);
                let request = endpoint.iter().fold(request, |request, endpoint| request.with_extension(endpoint.clone()));
                let _any = request.send().await;
            }
        }
    }
    let mut kinds = std::collections::BTreeSet::new();
    for line in &*trace.lines.lock().unwrap() {
        let line: Value = serde_json::from_str(line).unwrap();
        let situation: Situation = serde_json::from_value(line["situation"].clone()).unwrap();
        let again = serde_json::to_value(policy.decide(&situation)).unwrap();
        assert_eq!(again, line["decision"], "{line}");
        kinds.insert(again.as_object().map_or_else(|| again.to_string(), |kind| kind.keys().cloned().collect()));
    }
    let all = [r#""Return""#, "Probe", "Resend", "Stop"];
    assert_eq!(kinds.iter().map(String::as_str).collect::<Vec<_>>(), all, "the trace holds every kind of decision");
}

#[tokio::test(start_paused = true)]
async fn every_operation_ends_once_and_with_its_report() {
    let trace = Trace::default();
    for endpoint in endpoints() {
        for script in scripts() {
            let plugin = SafeRetry::new().with_observer(trace.clone()).with_attempt_limit(Duration::from_secs(3));
            let slot = ReportSlot::new();
            let request = client(plugin, script).post(URL).with_extension(slot.clone());
            let request = endpoint.iter().fold(request, |request, endpoint| request.with_extension(endpoint.clone()));
            let _any = request.send().await;
            let told: Vec<String> = trace.ends.lock().unwrap().drain(..).map(|report| report.to_string()).collect();
            assert_eq!(told, [slot.take().unwrap().to_string()]);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn what_never_reached_the_network_ends_too() {
    let trace = Trace::default();
    let client = client(SafeRetry::new().with_observer(trace.clone()), [Step::ok("done")]);
    let get = || client.get(URL);
    let late = |request: RequestBuilder| request.with_extension(Deadline::after(Duration::ZERO));
    late(get()).send().await.unwrap_err();
    get().with_extension(reqwest_safe_retry::IdempotencyKey::random()).send().await.unwrap_err();
    let stops: Vec<StopReason> = trace.ends.lock().unwrap().iter().map(RetryReport::stop).collect();
    assert_eq!(stops, [StopReason::DeadlineTooNear, StopReason::Misused]);
    assert!(trace.lines.lock().unwrap().is_empty(), "nothing was sent, so nothing was decided");
}

#[tokio::test(start_paused = true)]
async fn who_is_held_back_by_a_shared_cooldown_ends_too() {
    let trace = Trace::default();
    let shared = Cooldown::new().holding_back(HoldsBack::FirstSendsToo);
    let client = client(
        SafeRetry::new().with_shared_cooldown(shared).with_observer(trace.clone()),
        [Step::status(503).with_header("retry-after", "90")],
    );
    for _ in 0..2 {
        let _any = client.get(URL).with_extension(Deadline::after(Duration::from_secs(10))).send().await;
    }
    let ends = trace.ends.lock().unwrap();
    let told: Vec<(usize, StopReason)> = ends.iter().map(|report| (report.attempts().len(), report.stop())).collect();
    assert_eq!(told, [(1, StopReason::DeadlineTooNear), (0, StopReason::DeadlineTooNear)]);
}

struct Panics;

impl Observer for Panics {
    fn decided(&self, _: &Decided<'_>) {
        panic!("the observer's own fault");
    }

    fn ended(&self, _: &RetryReport) {
        panic!("the observer's own fault");
    }
}

#[tokio::test(start_paused = true)]
async fn a_panic_in_an_observer_harms_neither_the_operation_nor_other_observers() {
    let trace = Trace::default();
    let plugin = SafeRetry::new().with_observer(Panics).with_observer(trace.clone());
    let client = client(plugin, [Step::status(503), Step::ok("done")]);
    for _ in 0..2 {
        assert_eq!(client.get(URL).send().await.unwrap().text().await.unwrap(), "done");
    }
    assert_eq!(trace.lines.lock().unwrap().len(), 3);
    assert_eq!(trace.ends.lock().unwrap().len(), 2);
}

// ===== reports =====

async fn report_of(request: RequestBuilder) -> RetryReport {
    let slot = ReportSlot::new();
    let _any = request.with_extension(slot.clone()).send().await;
    slot.take().unwrap()
}

#[tokio::test(start_paused = true)]
async fn a_report_is_json_with_milliseconds_and_numbers() {
    let steps = [Step::status(503).with_header("retry-after", "2").after(Duration::from_millis(40)), Step::fails()];
    let client = client(SafeRetry::new().with_draws(Draws::constant(Draw::LEAST)), steps);
    let keyed = Endpoint::keyed_write(KeyContract::STRIPE).named("orders").with_policy(RetryPolicy::DEFAULT.with_attempts(2));
    let request = client.post(URL).with_extension(keyed).with_extension(CorrelationId::new("checkout-7").unwrap());
    let report = report_of(request.with_extension(Deadline::after(Duration::from_secs(20)))).await;
    let wanted = json!({
        "method": "POST",
        "origin": "https://api.test:443",
        "endpoint": "orders",
        "correlation_id": "checkout-7",
        "sent_before": null,
        "attempts": [
            {
                "number": 1, "started_ms": 0, "took_ms": 40, "signal": { "Answered": 503 }, "status": 503, "evidence": "Unknown",
                "cause": "Status", "sends": 1, "hint_ms": 2000, "time_left_ms": 19960, "pause_ms": 2000, "resend": "KeyDeduplicates",
            },
            {
                "number": 2, "started_ms": 2040, "took_ms": 0, "signal": "Failed", "status": null, "evidence": "Unknown",
                "cause": "PeerClosed", "sends": 1, "hint_ms": null, "time_left_ms": 17960, "pause_ms": null, "resend": null,
            },
        ],
        "probes": [],
        "stop": "AttemptsSpent",
        "outcome": "Unknown",
        "evidence": "Unknown",
        "advice": [],
        "hint_ms": 2000,
        "key_was_sent": true,
        "replayed": false,
        "took_ms": 2040,
        "time_left_ms": 17960,
    });
    assert_eq!(serde_json::to_value(&report).unwrap(), wanted);
    let timeline = "POST https://api.test:443 \"orders\" checkout-7
       at  attempt  signal              evidence    pause  time left  decision
  0.000 s  #1       503, wait 2.000 s   unknown   2.000 s   19.960 s  send again: the key makes it act once
  2.040 s  #2       closed by the peer  unknown         –   17.960 s  stop: no attempts left
  outcome  unknown whether it happened, after 2 attempts in 2.040 s, 17.960 s left";
    assert_eq!(report.to_string(), timeline);
}

#[tokio::test(start_paused = true)]
async fn a_resend_that_was_decided_and_not_sent_is_none_in_the_report() {
    let broke = RetryBudget::new(BudgetLimits::percent(0).with_reserve(0, 0));
    let report = report_of(client(SafeRetry::new().with_budget(broke), [Step::status(503)]).get(URL)).await;
    assert_eq!((report.stop(), report.outcome()), (StopReason::BudgetSpent, Outcome::Answered));
    assert_eq!((report.attempts()[0].resend(), report.attempts()[0].pause()), (None, None));
}

#[tokio::test(start_paused = true)]
async fn the_pause_before_a_probe_stays_in_the_report() {
    let plugin = SafeRetry::new().with_draws(Draws::constant(Draw::GREATEST));
    let probed = Endpoint::probed_write(Absent).settling(Duration::ZERO);
    let report = report_of(client(plugin, [Step::fails(), Step::ok("done")]).post(URL).with_extension(probed)).await;
    let [first, second] = report.attempts() else { panic!("two attempts: {report}") };
    assert!(first.pause() > Some(Duration::ZERO) && first.resend().is_some(), "{report}");
    assert_eq!((second.pause(), second.resend()), (None, None), "{report}");
    assert!(report.to_string().contains("after 2 attempts and 1 probe in"), "{report}");

    let plugin = SafeRetry::new().with_draws(Draws::constant(Draw::GREATEST));
    let report = report_of(client(plugin, [Step::fails()]).post(URL).with_extension(Endpoint::probed_write(Clueless))).await;
    assert_eq!(report.stop(), StopReason::ProbeUndecided);
    assert!(report.attempts()[0].pause() > Some(Duration::ZERO) && report.attempts()[0].resend().is_none(), "{report}");
}
