//! The seven scenes in which `reqwest-retry` sends a POST four times
//! (`data/baseline_reqwest_retry.json`): here the server sees one.

use std::time::Duration;

use futures_util::future::join_all;
use reqwest::StatusCode;
use reqwest_middleware::{Error, Result};
use reqwest_safe_retry::{
    Endpoint, Outcome, ReportSlot, RetryError, RetryErrorExt, RetryReport, SafeRetry, StopReason,
    testing::{Fault, FaultServer},
};

use crate::support::wire::{Dead, QUICK, Road, bounded, marked, plain};

/// Longer than the row's 100 ms, so that a request gets there on a busy machine, too.
const CLIENT_TIMEOUT: Duration = Duration::from_millis(500);

/// What one POST came to.
struct Came {
    road: Road,
    marked: bool,
    result: Result<reqwest::Response>,
    report: RetryReport,
}

/// Has the scene of one row played on every road, unmarked and marked; the server sees one POST
/// each time.
async fn posts(row: &str, scene: impl Fn() -> Fault, timeout: Option<Duration>) -> Vec<Came> {
    let rows: serde_json::Value = serde_json::from_str(include_str!("../../data/baseline_reqwest_retry.json")).unwrap();
    let rows = rows["reqwest_retry"].as_array().unwrap();
    let baseline = rows.iter().find(|known| known["server"] == row).expect("the row exists");
    assert_eq!((rows.len(), baseline["posts_seen"].as_u64()), (7, Some(4)));

    let cells = Road::ALL.into_iter().flat_map(|road| [(road, None), (road, Some(Endpoint::unprotected_write()))]);
    join_all(cells.map(|(road, endpoint)| {
        // Not within the time of the others: building a client takes long.
        let client = road.client_of(SafeRetry::new().with_policy(QUICK), timeout.map_or_else(plain, |limit| plain().timeout(limit)));
        let fault = scene();
        async move {
            let server = FaultServer::start([fault]).await;
            let slot = ReportSlot::new();
            let request = client.post(server.url("/orders")).body("one coffee").with_extension(slot.clone());
            let result = bounded(marked(request, endpoint.as_ref()).send()).await;
            server.assert_requests(1);
            server.assert_writes(1);
            Came { road, marked: endpoint.is_some(), result, report: slot.take().unwrap() }
        }
    }))
    .await
}

/// An unmarked request keeps the transport's own error; a marked write says that nobody can know.
fn assert_unknown(came: &[Came], is_expected: impl Fn(&reqwest::Error) -> bool) {
    for Came { road, marked, result, report } in came {
        let error = result.as_ref().unwrap_err();
        match (marked, error) {
            (false, Error::Reqwest(transport)) => assert!(is_expected(transport), "{road:?}: {transport:?}"),
            (true, error) => {
                assert!(matches!(RetryError::find(error), Some(RetryError::OutcomeUnknown(_))), "{road:?}: {error:?}");
                assert!(is_expected(error.transport_error().unwrap()), "{road:?}: {error:?}");
            }
            (false, error) => panic!("{road:?}: {error:?}"),
        }
        assert_eq!((report.outcome(), report.stop()), (Outcome::Unknown, StopReason::MayHaveHappened), "{road:?}");
    }
}

fn assert_answered(came: &[Came], status: StatusCode, outcome: Outcome, stop: StopReason) {
    for Came { road, result, report, .. } in came {
        assert_eq!(result.as_ref().unwrap().status(), status, "{road:?}");
        assert_eq!((report.outcome(), report.stop()), (outcome, stop), "{road:?}");
    }
}

#[tokio::test]
async fn a_server_that_closes_after_the_request_gets_it_once() {
    let came = posts("closes after reading the full request", Fault::close_after_request, None).await;
    assert_unknown(&came, |error| !error.is_timeout() && !error.is_connect());
}

#[tokio::test]
async fn a_server_that_resets_after_the_request_gets_it_once() {
    let came = posts("RST after reading", Fault::reset_after_request, None).await;
    assert_unknown(&came, |error| !error.is_timeout() && !error.is_connect());
}

#[tokio::test]
async fn an_overload_with_a_hint_comes_back_at_once_as_it_is() {
    let came = posts("503 with Retry-After: 30", || Fault::status(503).with_retry_after(30), None).await;
    assert_answered(&came, StatusCode::SERVICE_UNAVAILABLE, Outcome::Unknown, StopReason::MayHaveHappened);
    for Came { result, report, .. } in &came {
        assert_eq!(result.as_ref().unwrap().headers()["retry-after"], "30");
        assert_eq!(report.hint(), Some(Duration::from_secs(30)));
        assert!(report.took() < Duration::from_secs(5), "{:?}", report.took());
    }
}

#[tokio::test]
async fn an_internal_error_comes_back_as_it_is() {
    let came = posts("500", || Fault::status(500), None).await;
    assert_answered(&came, StatusCode::INTERNAL_SERVER_ERROR, Outcome::Unknown, StopReason::MayHaveHappened);
}

#[tokio::test]
async fn a_method_the_server_does_not_know_is_an_answer() {
    let came = posts("501", || Fault::status(501), None).await;
    assert_answered(&came, StatusCode::NOT_IMPLEMENTED, Outcome::Answered, StopReason::AnswerIsFinal);
}

#[tokio::test]
async fn a_write_whose_redirect_leads_nowhere_is_not_taken_for_one_that_was_never_sent() {
    let dead = Dead::new();
    let came = posts("303 to a dead host", || Fault::status(303).with_header("location", &dead.url("/receipt")), None).await;
    let (followed, answered): (Vec<_>, Vec<_>) = came.into_iter().partition(|came| came.road.follows());
    assert_unknown(&followed, reqwest::Error::is_connect);
    assert_answered(&answered, StatusCode::SEE_OTHER, Outcome::Answered, StopReason::AnswerIsFinal);
}

#[tokio::test]
async fn a_write_that_the_client_gave_up_on_is_recognised_as_timed_out() {
    let came = posts("hangs, client timeout 100 ms", Fault::hang, Some(CLIENT_TIMEOUT)).await;
    assert_unknown(&came, reqwest::Error::is_timeout);
    for Came { road, result, .. } in &came {
        assert!(result.as_ref().unwrap_err().timed_out(), "{road:?}");
    }
}
