//! Vendors' waits and vetoes where they count: in what is sent, and when.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use reqwest_middleware::{ClientWithMiddleware, RequestBuilder};
use reqwest_safe_retry::{
    Answer, Deadline, Endpoint, KeyContract, Outcome, RetryErrorExt as _, StopReason, Verdict,
    hints::HintSources,
    presets,
    testing::{Scripted, Step},
};

use crate::support::scripted::{Ended, URL, client, end, hasty, millis, seconds, steady};

/// What came out of one request to a peer that answers with this and then with 200, how often it
/// was sent, and the pauses between.
async fn run(
    sources: HintSources,
    first: Step,
    request: impl FnOnce(&ClientWithMiddleware) -> RequestBuilder,
) -> (Ended, usize, Vec<Duration>) {
    let peer = Scripted::new([first, Step::status(200)]);
    let retry = hasty().with_hints(sources).with_deadline(seconds(10_000));
    let ended = end(request(&client(retry, &peer))).await;
    (ended, peer.sends(), peer.pauses())
}

/// The pause before the resend of a GET.
async fn pause(sources: HintSources, first: Step) -> Duration {
    let (ended, sends, pauses) = run(sources, first, |client| client.get(URL)).await;
    assert_eq!((ended.status(), sends), (200, 2));
    pauses[0]
}

const ADVICE: HintSources = HintSources::STANDARD.with_vetoes();

fn now() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap()
}

/// An answer whose server says what time it is, so that nothing depends on when the test runs.
fn dated(step: Step, unix_time: Duration) -> Step {
    step.with_header("date", &httpdate::fmt_http_date(UNIX_EPOCH + unix_time))
}

// ===== vetoes =====

#[tokio::test(start_paused = true)]
async fn a_veto_ends_the_operation_with_its_answer() {
    for veto in ["x-should-retry", "stripe-should-retry"] {
        let first = || Step::status(503).with_header(veto, "false").with_body("no use");
        let (ended, sends, _) = run(ADVICE, first(), |client| client.get(URL)).await;
        assert_eq!(
            (ended.report.stop(), ended.report.outcome(), ended.took),
            (StopReason::ServerForbade, Outcome::Answered, Duration::ZERO)
        );
        assert_eq!((sends, ended.result.unwrap().text().await.unwrap().as_str()), (1, "no use"));

        let keyed = |client: &ClientWithMiddleware| client.post(URL).with_extension(Endpoint::keyed_write(KeyContract::STRIPE));
        let (ended, sends, _) = run(ADVICE, first(), keyed).await;
        assert_eq!((sends, ended.status()), (1, 503));
        assert_eq!((ended.report.stop(), ended.report.outcome()), (StopReason::ServerForbade, Outcome::Unknown), "a veto proves nothing");
    }
}

#[tokio::test(start_paused = true)]
async fn a_veto_is_heard_only_where_it_is_asked_for() {
    let (ended, sends, _) =
        run(HintSources::STANDARD, Step::status(503).with_header("x-should-retry", "false"), |client| client.get(URL)).await;
    assert_eq!((ended.status(), sends), (200, 2));
    let (ended, sends, _) =
        run(HintSources::STANDARD, Step::status(400).with_header("x-should-retry", "true"), |client| client.get(URL)).await;
    assert_eq!((ended.status(), sends), (400, 1));
}

#[tokio::test(start_paused = true)]
async fn a_server_that_says_retry_protects_no_write() {
    for endpoint in [None, Some(Endpoint::unprotected_write())] {
        let first = Step::status(500).with_header("x-should-retry", "true");
        let (ended, sends, _) = run(ADVICE, first, |client| match endpoint {
            Some(endpoint) => client.post(URL).with_extension(endpoint),
            None => client.post(URL),
        })
        .await;
        assert_eq!((ended.status(), sends, ended.report.stop()), (500, 1, StopReason::MayHaveHappened));
        assert_eq!(ended.report.outcome(), Outcome::Unknown);
    }
}

#[tokio::test(start_paused = true)]
async fn a_server_that_says_retry_opens_failures_that_are_final_otherwise() {
    for status in [400, 409, 501] {
        let (ended, sends, _) = run(ADVICE, Step::status(status).with_header("x-should-retry", "true"), |client| client.get(URL)).await;
        assert_eq!((ended.status(), sends), (200, 2), "{status}");
    }
    let (ended, sends, _) = run(ADVICE, Step::status(400).with_header("stripe-should-retry", "true"), |client| {
        client.post(URL).with_extension(Endpoint::keyed_write(KeyContract::ietf(seconds(60_000))))
    })
    .await;
    assert_eq!((ended.status(), sends), (200, 2), "a key protects");
}

#[tokio::test(start_paused = true)]
async fn a_word_about_retrying_makes_no_failure_of_an_answer() {
    for said in ["true", "false", "perhaps"] {
        for status in [200, 201, 304] {
            let peer = Scripted::new([Step::status(status).with_header("x-should-retry", said)]);
            let ended = end(client(hasty().with_hints(ADVICE), &peer).get(URL)).await;
            assert_eq!((ended.status(), peer.sends()), (status, 1));
            assert_eq!((ended.report.stop(), ended.report.outcome()), (StopReason::AnswerIsFinal, Outcome::Answered), "{status} {said}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_veto_ends_the_wait_for_a_key_in_use() {
    let keyed = || Endpoint::keyed_write(KeyContract::STRIPE);
    let conflict = || Step::status(409).with_header("stripe-should-retry", "false");
    let (ended, sends, _) = run(ADVICE, conflict(), |client| client.post(URL).with_extension(keyed())).await;
    assert_eq!((ended.status(), sends, ended.report.stop()), (409, 1, StopReason::ServerForbade));
    let (ended, sends, _) = run(HintSources::STANDARD, conflict(), |client| client.post(URL).with_extension(keyed())).await;
    assert_eq!((ended.status(), sends), (200, 2));
}

#[tokio::test(start_paused = true)]
async fn a_replay_is_final_whatever_the_server_says_about_retrying() {
    let replay = Step::status(500).with_header("idempotent-replayed", "true").with_header("stripe-should-retry", "true");
    let (ended, sends, _) = run(ADVICE, replay, |client| client.post(URL).with_extension(Endpoint::keyed_write(KeyContract::STRIPE))).await;
    assert_eq!((ended.status(), sends), (500, 1));
}

#[tokio::test(start_paused = true)]
async fn the_endpoints_own_verdict_beats_the_servers_veto() {
    let stubborn = Endpoint::read().classified_by(|answer| (answer.status() == 503).then_some(Verdict::Resendable));
    let (ended, sends, _) =
        run(ADVICE, Step::status(503).with_header("x-should-retry", "false"), |client| client.get(URL).with_extension(stubborn)).await;
    assert_eq!((ended.status(), sends), (200, 2));
}

// ===== waits =====

#[tokio::test(start_paused = true)]
async fn milliseconds_are_milliseconds_and_go_first_where_they_are_read() {
    let exact = HintSources::STANDARD.with_milliseconds();
    for field in ["retry-after-ms", "x-ms-retry-after-ms", "x-amz-retry-after"] {
        let both = || Step::status(503).with_header(field, "1500").with_header("retry-after", "1");
        assert_eq!(pause(exact, both()).await, millis(1500), "{field}");
        assert_eq!(pause(HintSources::STANDARD, both()).await, seconds(1), "{field}");
        assert_eq!(pause(exact, Step::status(503).with_header(field, "250")).await, millis(250), "{field}");
    }
    assert_eq!(pause(exact, Step::status(503).with_header("retry-after", "2")).await, millis(2000));
    let dated = dated(Step::status(503), now()).with_header("retry-after", &httpdate::fmt_http_date(UNIX_EPOCH + now() + seconds(5)));
    assert!((seconds(5)..=seconds(6)).contains(&pause(exact, dated).await));
}

#[tokio::test(start_paused = true)]
async fn a_quota_that_is_used_up_says_when_to_come_back() {
    let quota = || Step::status(429).with_header("ratelimit", r#""minute";r=0;t=40, "day";r=9000;t=3600"#);
    assert_eq!(pause(HintSources::STANDARD.with_rate_limit(), quota()).await, seconds(40));
    assert_eq!(pause(HintSources::STANDARD, quota()).await, Duration::ZERO, "backoff, at its least");
    let both = quota().with_header("retry-after", "3");
    assert_eq!(pause(HintSources::ALL, both).await, seconds(3));
    let malformed = Step::status(429).with_header("ratelimit", "minute;r=0;t=40");
    assert_eq!(pause(HintSources::ALL, malformed).await, Duration::ZERO);
}

#[tokio::test(start_paused = true)]
async fn a_reset_is_waited_for_in_seconds_or_until_its_unix_time() {
    let reset = |value: &str| dated(Step::status(429), now()).with_header("x-ratelimit-reset", value);
    let read = HintSources::STANDARD.with_rate_limit_reset();
    assert_eq!(pause(read, reset("90")).await, seconds(90));
    let until = (now() + seconds(90)).as_secs().to_string();
    assert!((seconds(89)..=seconds(91)).contains(&pause(read, reset(&until)).await));
    assert_eq!(pause(HintSources::STANDARD, reset("90")).await, Duration::ZERO);
    assert_eq!(pause(read, reset("90").with_header("x-ratelimit-remaining", "5")).await, Duration::ZERO, "there is some left");
}

#[tokio::test(start_paused = true)]
async fn a_vendors_wait_that_does_not_fit_returns_the_answer_at_once() {
    let peer = Scripted::new([Step::status(429).with_header("retry-after-ms", "20001")]);
    let retry = hasty().with_hints(HintSources::ALL).with_deadline(seconds(20));
    let ended = end(client(retry, &peer).get(URL)).await;
    assert_eq!((ended.status(), ended.report.stop(), ended.took), (429, StopReason::DeadlineTooNear, Duration::ZERO));
    assert_eq!((ended.report.hint(), peer.sends()), (Some(millis(20_001)), 1));
}

#[tokio::test(start_paused = true)]
async fn what_the_endpoint_reads_beats_what_the_client_reads() {
    let vetoed = || Step::status(503).with_header("x-should-retry", "false").with_header("retry-after-ms", "250");
    let deaf = |client: &ClientWithMiddleware| client.get(URL).with_extension(Endpoint::read().with_hints(HintSources::STANDARD));
    let (_, sends, pauses) = run(HintSources::ALL, vetoed(), deaf).await;
    assert_eq!((sends, pauses), (2, vec![Duration::ZERO]));
    let hearing = |client: &ClientWithMiddleware| client.get(URL).with_extension(Endpoint::read().with_hints(HintSources::ALL));
    assert_eq!(run(HintSources::STANDARD, vetoed(), hearing).await.1, 1);
}

// ===== GitHub =====

/// What came out of one GET to GitHub.
async fn github(steps: impl IntoIterator<Item = Step>) -> (Ended, Scripted) {
    let peer = Scripted::new(steps);
    let request = client(hasty().with_deadline(seconds(4000)), &peer).get("http://api.github.test/user");
    (end(request.with_extension(presets::github(Endpoint::read()))).await, peer)
}

#[tokio::test(start_paused = true)]
async fn a_used_up_quota_of_github_is_waited_for_until_its_reset() {
    for status in [403, 429] {
        let now = now();
        let used_up = dated(Step::status(status), now)
            .with_header("x-ratelimit-remaining", "0")
            .with_header("x-ratelimit-reset", &(now.as_secs() + 1800).to_string());
        let (ended, peer) = github([used_up, Step::status(200)]).await;
        assert_eq!(ended.status(), 200, "{status}");
        peer.assert_pauses([seconds(1800)]);
    }
}

/// There is no other sign of GitHub's second limit.
#[tokio::test(start_paused = true)]
async fn a_403_of_github_with_a_wait_is_waited_for_and_the_wait_goes_before_the_reset() {
    let told = Step::status(403).with_header("retry-after", "60").with_header("x-ratelimit-remaining", "57");
    let (ended, peer) = github([told, Step::status(200)]).await;
    assert_eq!(ended.status(), 200);
    peer.assert_pauses([seconds(60)]);
}

#[tokio::test(start_paused = true)]
async fn a_403_of_github_that_asks_for_no_wait_is_never_sent_again() {
    for remaining in [None, Some("57")] {
        let plain = Step::status(403).with_header("x-ratelimit-reset", "4102444800");
        let (ended, peer) = github([match remaining {
            Some(remaining) => plain.with_header("x-ratelimit-remaining", remaining),
            None => plain,
        }])
        .await;
        assert_eq!((ended.status(), ended.report.stop(), peer.sends()), (403, StopReason::AnswerIsFinal, 1), "{remaining:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_429_of_github_without_a_wait_is_not_tried_within_the_minute_it_asks_for() {
    let (ended, peer) = github([Step::status(429), Step::status(200)]).await;
    assert_eq!((ended.status(), ended.report.stop(), peer.sends()), (429, StopReason::ServerForbade, 1));
}

/// One way of retrying does not switch off the others.
#[tokio::test(start_paused = true)]
async fn refused_connections_and_broken_gateways_of_github_are_still_tried_again() {
    for step in [Step::refused(), Step::fails(), Step::status(502)] {
        let (ended, peer) = github([step.clone(), Step::status(200)]).await;
        assert_eq!((ended.status(), peer.sends()), (200, 2), "{step:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_throttled_write_to_github_is_not_sent_again_without_protection() {
    let told = Step::status(403).with_header("retry-after", "60");
    let peer = Scripted::new([told, Step::status(200)]);
    let ended =
        end(client(hasty().with_deadline(seconds(4000)), &peer).post(URL).with_extension(presets::github(Endpoint::unprotected_write())))
            .await;
    assert_eq!((ended.status(), peer.sends(), ended.report.hint()), (403, 1, Some(seconds(60))));
    assert!(ended.result.is_ok_and(|response| response.status() == 403));
}

// ===== Twilio =====

#[tokio::test(start_paused = true)]
async fn a_429_of_twilio_is_no_message_sent_and_anything_else_may_be_one() {
    for (step, sends) in [(Step::status(429), 2), (Step::status(503), 1), (Step::fails(), 1), (Step::refused(), 2)] {
        let peer = Scripted::new([step.clone(), Step::status(201)]);
        let sent = end(client(hasty(), &peer).post(URL).with_extension(presets::twilio_write())).await;
        assert_eq!(peer.sends(), sends, "{step:?}");
        assert!(sends == 2 || sent.report.outcome() == Outcome::Unknown);
        assert!(sent.result.is_ok() || sent.error().safe_retry().is_some());
    }
}

/// A wait that the server writes into the body is a wait like any other.
#[tokio::test(start_paused = true)]
async fn a_wait_in_the_body_is_kept_and_the_longer_one_counts() {
    let google = r#"{"error":{"details":[{"retryDelay":"12s"}]}}"#;
    let telegram = r#"{"ok":false,"parameters":{"retry_after":5}}"#;
    for (body, header, wait) in [(google, None, 12), (google, Some("30"), 30), (google, Some("1"), 12), (telegram, None, 5)] {
        let refused = Step::status(429).with_body(body);
        let refused = header.map_or(refused.clone(), |seconds| refused.with_header("retry-after", seconds));
        let peer = Scripted::new([refused, Step::status(200)]);
        let read_wait = |answer: &Answer<'_>| presets::google_retry_delay(answer).max(presets::retry_after_in_body(answer));
        let endpoint = Endpoint::read().reading_body(1024).waits_read_by(read_wait);
        let ended = end(client(steady(), &peer).get(URL).with_extension(endpoint).with_extension(Deadline::after(seconds(600)))).await;
        assert_eq!(ended.status(), 200);
        assert!(peer.pauses()[0] >= seconds(wait), "{body} {header:?}: {:?}", peer.pauses());
        assert_eq!(ended.report.hint(), Some(seconds(wait)));
    }
    let peer = Scripted::new([Step::status(429).with_header("retry-after", "soon").with_body(google), Step::status(200)]);
    let endpoint = Endpoint::read().reading_body(1024).waits_read_by(presets::google_retry_delay);
    let ended = end(client(steady(), &peer).get(URL).with_extension(endpoint).with_extension(Deadline::after(seconds(600)))).await;
    assert_eq!(ended.report.stop(), StopReason::UnreadableHint, "what cannot be read may ask for more");
}
