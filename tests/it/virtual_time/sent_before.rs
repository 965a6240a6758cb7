//! Carrying on after a crash: what an earlier process may have sent is decided about before anything
//! goes out.

use std::{
    sync::{Arc, Mutex},
    time::SystemTime,
};

use reqwest_middleware::{ClientWithMiddleware, RequestBuilder};
use reqwest_safe_retry::{
    BudgetLimits, Cause, Cooldown, Endpoint, Evidence, HoldsBack, IdempotencyKey, KeyContract, Misuse, Observer, Outcome, ReportSlot,
    RetryBudget, RetryError, RetryErrorExt as _, RetryPolicy, RetryReport, SentBefore, StopReason, Unmarked,
    policy::{Decision, KeyFormat, KeySource, ResendReason, Signal, Situation},
    presets,
    report::{Decided, Found},
    testing::{Scripted, Step},
};
use tokio::time::{Duration, Instant, timeout};

use crate::support::scripted::{Ended, Says, ScriptedProbe, URL, client, end, millis, seconds, steady};

const DAY: Duration = seconds(24 * 60 * 60);
const HOUR: Duration = seconds(60 * 60);

fn ago(time: Duration) -> SystemTime {
    SystemTime::now() - time
}

fn post(client: &ClientWithMiddleware, endpoint: Endpoint) -> RequestBuilder {
    client.post(URL).body("one coffee").with_extension(endpoint)
}

/// The same, an hour after somebody wrote down that it would be sent.
fn again(client: &ClientWithMiddleware, endpoint: Endpoint) -> RequestBuilder {
    post(client, endpoint).with_extension(SentBefore::since(ago(HOUR)))
}

fn key() -> IdempotencyKey {
    IdempotencyKey::parse("order-2041").unwrap()
}

fn payment() -> Endpoint {
    Endpoint::keyed_write(KeyContract::STRIPE)
}

/// A server that remembers keys for this long.
fn remembering(time: Duration) -> Endpoint {
    Endpoint::keyed_write(KeyContract::new(KeyContract::STRIPE.header().clone(), KeyFormat::Bare, time))
}

/// What was decided before the first attempt.
fn first_decision(ended: &Ended) -> Option<ResendReason> {
    let before = ended.report.sent_before().unwrap();
    assert_eq!((before.number(), before.signal(), before.cause()), (0, Signal::SentBefore, Cause::SentBefore));
    assert_eq!((before.evidence(), before.sends(), before.status()), (Evidence::Unknown, 0, None));
    before.resend()
}

fn found(ended: &Ended) -> Vec<(u32, Found, Duration)> {
    ended.report.probes().iter().map(|probe| (probe.after_attempt(), probe.found(), probe.started())).collect()
}

fn assert_unsent_and_unknown(ended: &Ended, peer: &Scripted, stop: StopReason) {
    assert!(matches!(ended.error().safe_retry(), Some(RetryError::OutcomeUnknown(_))), "{:?}", ended.result);
    assert_eq!((ended.report.stop(), ended.report.outcome(), ended.error().evidence()), (stop, Outcome::Unknown, Evidence::Unknown));
    assert!(ended.report.attempts().is_empty() && !ended.report.key_was_sent());
    peer.assert_sends(0);
}

fn assert_expired(ended: &Ended, peer: &Scripted) {
    assert!(matches!(ended.error().safe_retry(), Some(RetryError::Misused(Misuse::KeyExpired))), "{:?}", ended.result);
    assert_eq!((ended.report.outcome(), ended.error().evidence()), (Outcome::Unknown, Evidence::Unknown));
    peer.assert_sends(0);
}

// ===== the rows =====

#[tokio::test(start_paused = true)]
async fn reads_and_idempotent_writes_are_sent_at_once_with_all_their_attempts() {
    for endpoint in [Endpoint::read(), Endpoint::idempotent_write()] {
        let peer = Scripted::new([Step::fails(), Step::fails(), Step::status(200)]);
        let ended = end(again(&client(steady(), &peer), endpoint)).await;
        assert_eq!((ended.status(), first_decision(&ended)), (200, Some(ResendReason::EffectRepeatable)));
        assert_eq!(ended.report.sent_before().unwrap().pause(), Some(Duration::ZERO));
        assert_eq!(ended.report.attempts().len(), 3);
        peer.assert_pauses([millis(50), millis(100)]);
    }
}

#[tokio::test(start_paused = true)]
async fn the_first_send_is_had_where_the_policy_allows_only_one() {
    let peer = Scripted::answering(200);
    let endpoint = Endpoint::idempotent_write().with_policy(RetryPolicy::DEFAULT.with_attempts(1));
    assert_eq!(end(again(&client(steady(), &peer), endpoint)).await.status(), 200);
    peer.assert_sends(1);
}

#[tokio::test(start_paused = true)]
async fn a_keyed_write_is_sent_under_the_key_of_then_while_it_is_remembered() {
    let peer = Scripted::new([Step::fails(), Step::status(201)]);
    let ended = end(again(&client(steady(), &peer), payment()).with_extension(key())).await;
    assert_eq!((ended.status(), first_decision(&ended)), (201, Some(ResendReason::KeyDeduplicates)));
    assert!(peer.requests().iter().all(|sent| sent.header("idempotency-key").unwrap() == "order-2041"));
    peer.assert_sends(2);

    // In a header it is the same key.
    let peer = Scripted::answering(201);
    let ended = end(again(&client(steady(), &peer), payment()).header("idempotency-key", "order-2041")).await;
    assert_eq!((ended.status(), first_decision(&ended)), (201, Some(ResendReason::KeyDeduplicates)));
}

#[tokio::test(start_paused = true)]
async fn the_earlier_of_since_and_the_keys_own_first_use_wins() {
    let (early, late) = (ago(HOUR), ago(seconds(60)));
    for (since, first_used) in [(early, late), (late, early)] {
        let peer = Scripted::new([Step::refused()]);
        let request = post(&client(steady(), &peer), Endpoint::keyed_write(presets::oasis(DAY)));
        let of_then = IdempotencyKey::random().first_used(first_used);
        let ended = end(request.with_extension(of_then).with_extension(SentBefore::since(since))).await;
        assert!(matches!(ended.error().safe_retry(), Some(RetryError::OutcomeUnknown(_))), "a refusal now proves nothing about then");
        assert_eq!(ended.error().safe_retry().unwrap().key().unwrap().first_use(), Some(early));
        let sent = peer.requests();
        assert_eq!(sent[0].header("repeatability-first-sent").unwrap(), httpdate::fmt_http_date(early).as_str());

        let peer = Scripted::answering(201);
        let request = post(&client(steady(), &peer), remembering(seconds(600))).with_extension(key().first_used(first_used));
        assert_expired(&end(request.with_extension(SentBefore::since(since))).await, &peer);
    }
}

#[tokio::test(start_paused = true)]
async fn a_lapsed_key_is_not_sent_and_without_a_probe_that_is_the_end() {
    let peer = Scripted::answering(201);
    let ended = end(again(&client(steady(), &peer), remembering(seconds(600))).with_extension(key())).await;
    assert_expired(&ended, &peer);
}

#[tokio::test(start_paused = true)]
async fn a_lapsed_key_makes_its_probe_be_asked() {
    let lapsed = |probe: &ScriptedProbe| remembering(seconds(600)).probed_by(probe.clone());
    let old = || key().first_used(ago(HOUR));
    for sent_before in [true, false] {
        for (says, outcome, sends) in
            [(Says::Applied, Outcome::Reconciled, 0), (Says::Absent, Outcome::Answered, 1), (Says::Undecided, Outcome::Unknown, 0)]
        {
            let (peer, probe) = (Scripted::answering(201), ScriptedProbe::new([says]));
            let client = client(steady(), &peer);
            let request = if sent_before {
                again(&client, lapsed(&probe)).with_extension(key())
            } else {
                post(&client, lapsed(&probe)).with_extension(old())
            };
            let ended = end(request).await;
            assert_eq!((ended.report.outcome(), peer.sends()), (outcome, sends), "{says:?}");
            if sends == 1 {
                assert_eq!(first_decision(&ended), Some(ResendReason::ProbeFoundNothing));
                assert_eq!(peer.requests()[0].header("idempotency-key").unwrap(), "order-2041");
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_probed_write_is_asked_about_first_and_not_sent_if_it_was_applied() {
    let (peer, probe) = (Scripted::answering(201), ScriptedProbe::new([Says::Applied]));
    let began = Instant::now();
    let ended = end(again(&client(steady(), &peer), Endpoint::probed_write(probe.clone()))).await;
    assert_eq!((ended.status(), ended.report.outcome()), (201, Outcome::Reconciled));
    assert_eq!(probe.asked(), [began]);
    assert_eq!(first_decision(&ended), None);
    assert!(RetryReport::of(ended.response()).unwrap().attempts().is_empty());
    peer.assert_sends(0);
}

/// However long ago it was written down: the earlier process may have sent until its end.
#[tokio::test(start_paused = true)]
async fn absent_counts_once_the_settling_time_has_passed_since_the_restart() {
    let (peer, probe) = (Scripted::answering(201), ScriptedProbe::new([Says::Absent]));
    let ended = end(again(&client(steady(), &peer), Endpoint::probed_write(probe.clone()))).await;
    assert_eq!((ended.status(), first_decision(&ended)), (201, Some(ResendReason::ProbeFoundNothing)));
    assert_eq!(found(&ended)[0], (0, Found::InProgress, Duration::ZERO));
    let (asked_about, absent, asked) = found(&ended)[1];
    assert!((asked_about, absent) == (0, Found::Absent) && asked >= seconds(5), "{asked:?}");
    peer.assert_sends(1);
}

/// The wait of a cool-down is time since the restart as well.
#[tokio::test(start_paused = true)]
async fn settling_counts_from_the_start_of_the_operation_also_when_it_was_held_back() {
    let (peer, probe) = (Scripted::answering(201), ScriptedProbe::new([Says::Absent]));
    let cooldown = Cooldown::new().holding_back(HoldsBack::FirstSendsToo);
    let request = reqwest::Request::new(http::Method::POST, URL.parse().unwrap());
    cooldown.note(cooldown.scope(&request), Instant::now() + seconds(6));
    let ended = end(again(&client(steady().with_shared_cooldown(cooldown), &peer), Endpoint::probed_write(probe.clone()))).await;
    assert_eq!((ended.status(), found(&ended).len()), (201, 1));
}

#[tokio::test(start_paused = true)]
async fn what_is_in_progress_is_asked_about_again_after_a_pause_and_never_sent() {
    let (peer, probe) = (Scripted::answering(201), ScriptedProbe::new([Says::InProgress]));
    let ended = end(again(&client(steady(), &peer), Endpoint::probed_write(probe.clone()))).await;
    assert_unsent_and_unknown(&ended, &peer, StopReason::AttemptsSpent);
    let asked: Vec<_> = found(&ended).into_iter().map(|(_, _, asked)| asked).collect();
    assert_eq!(asked, [0, 50, 150, 150].map(millis), "the last of them is the last look");
}

#[tokio::test(start_paused = true)]
async fn a_probe_that_cannot_tell_leaves_it_unknown_and_unsent() {
    for says in [Says::Undecided, Says::Hangs] {
        let (peer, probe) = (Scripted::answering(201), ScriptedProbe::new([says]));
        let ended = end(again(&client(steady(), &peer), Endpoint::probed_write(probe).with_deadline(seconds(10)))).await;
        assert_unsent_and_unknown(&ended, &peer, StopReason::ProbeUndecided);
    }
}

#[tokio::test(start_paused = true)]
async fn what_nothing_protects_is_not_sent_and_its_outcome_is_unknown() {
    for (endpoint, stop) in [(Endpoint::unprotected_write(), StopReason::MayHaveHappened), (Endpoint::never_resend(), StopReason::Disabled)]
    {
        let peer = Scripted::answering(201);
        let ended = end(again(&client(steady(), &peer), endpoint)).await;
        assert_unsent_and_unknown(&ended, &peer, stop);
        assert_eq!((ended.took, first_decision(&ended)), (Duration::ZERO, None));
    }
    // The method alone says as much.
    let peer = Scripted::answering(201);
    let ended = end(client(steady(), &peer).post(URL).with_extension(SentBefore::since(ago(HOUR)))).await;
    assert_unsent_and_unknown(&ended, &peer, StopReason::MayHaveHappened);
}

/// A client that leaves unmarked requests alone does not leave this one alone.
#[tokio::test(start_paused = true)]
async fn strictly_opt_in_clients_are_told_by_it_that_they_are_meant() {
    let peer = Scripted::answering(201);
    let client = client(steady().with_unmarked(Unmarked::Untouched), &peer);
    let ended = end(client.post(URL).with_extension(SentBefore::since(ago(HOUR)))).await;
    assert_unsent_and_unknown(&ended, &peer, StopReason::MayHaveHappened);
}

// ===== keys that cannot be the one of then =====

#[tokio::test(start_paused = true)]
async fn a_key_that_is_made_now_does_not_protect_what_was_sent_before() {
    let peer = Scripted::answering(201);
    let ended = end(again(&client(steady(), &peer), payment())).await;
    assert_unsent_and_unknown(&ended, &peer, StopReason::MayHaveHappened);
    assert!(ended.error().safe_retry().unwrap().key().is_none(), "whoever tried again with it would order twice");

    let (peer, probe) = (Scripted::new([Step::fails(), Step::status(201)]), ScriptedProbe::new([Says::Absent]));
    let endpoint = payment().probed_by(probe.clone()).settling(Duration::ZERO);
    let ended = end(again(&client(steady(), &peer), endpoint)).await;
    assert_eq!((ended.status(), first_decision(&ended)), (201, Some(ResendReason::ProbeFoundNothing)));
    peer.assert_sends(2);
}

#[tokio::test(start_paused = true)]
async fn a_misuse_does_not_say_that_what_was_sent_before_did_not_happen() {
    let peer = Scripted::answering(201);
    let must = Endpoint::keyed_write(KeyContract::STRIPE.with_source(KeySource::CallerMust));
    let ended = end(again(&client(steady(), &peer), must)).await;
    assert!(matches!(ended.error().safe_retry(), Some(RetryError::Misused(Misuse::MissingKey))));
    assert_eq!((ended.report.outcome(), ended.report.evidence()), (Outcome::Unknown, Evidence::Unknown));
}

// ===== clocks =====

/// A little ahead is another clock, more is no time at all.
#[tokio::test(start_paused = true)]
async fn a_first_use_in_the_future_counts_as_now_or_as_forgotten() {
    for (ahead, is_sent) in [(seconds(0), true), (seconds(290), true), (seconds(310), false), (DAY, false)] {
        let then = SystemTime::now() + ahead;
        for sent_before in [true, false] {
            let carrying = |request: RequestBuilder| {
                if sent_before {
                    request.with_extension(key()).with_extension(SentBefore::since(then))
                } else {
                    request.with_extension(key().first_used(then))
                }
            };
            let peer = Scripted::answering(201);
            let ended = end(carrying(post(&client(steady(), &peer), remembering(HOUR)))).await;
            if is_sent {
                assert_eq!((ended.status(), first_decision(&ended)), (201, Some(ResendReason::KeyDeduplicates)), "{ahead:?}");
            } else {
                assert_expired(&ended, &peer);
            }

            let (peer, probe) = (Scripted::answering(201), ScriptedProbe::new([Says::Applied]));
            let ended = end(carrying(post(&client(steady(), &peer), remembering(HOUR).probed_by(probe.clone())))).await;
            assert_eq!((ended.status(), peer.sends(), probe.times()), (201, usize::from(is_sent), usize::from(!is_sent)), "{ahead:?}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_since_in_the_future_changes_nothing_where_no_key_has_an_age() {
    let tomorrow = || SentBefore::since(SystemTime::now() + DAY);
    let (peer, probe) = (Scripted::answering(201), ScriptedProbe::new([Says::Absent]));
    let ended = end(post(&client(steady(), &peer), Endpoint::probed_write(probe)).with_extension(tomorrow())).await;
    assert_eq!((ended.status(), found(&ended).len()), (201, 2));
    let peer = Scripted::answering(201);
    let ended = end(post(&client(steady(), &peer), Endpoint::unprotected_write()).with_extension(tomorrow())).await;
    assert_unsent_and_unknown(&ended, &peer, StopReason::MayHaveHappened);
}

// ===== keys that lapse on the way =====

#[tokio::test(start_paused = true)]
async fn nothing_is_sent_under_a_key_that_may_lapse_before_its_attempt_has_ended() {
    let brief = || remembering(seconds(5));
    for (limit, sends) in [(seconds(4), 2), (seconds(5), 1), (seconds(60), 1)] {
        let peer = Scripted::new([Step::fails(), Step::status(201)]);
        let ended = end(post(&client(steady(), &peer), brief().with_attempt_limit(limit))).await;
        assert_eq!(peer.sends(), sends, "{limit:?}");
        if sends == 1 {
            assert_eq!((ended.report.stop(), ended.report.outcome()), (StopReason::KeyExpired, Outcome::Unknown));
        }
        // The first send of what was sent before is one more.
        let (peer, probe) = (Scripted::answering(201), ScriptedProbe::new([Says::Applied]));
        let request = post(&client(steady(), &peer), brief().with_attempt_limit(limit).probed_by(probe));
        let ended = end(request.with_extension(key()).with_extension(SentBefore::since(SystemTime::now()))).await;
        assert_eq!((ended.status(), peer.sends()), (201, sends - 1), "{limit:?}");
    }
}

/// The server has seen it, whatever became of the operation.
#[tokio::test(start_paused = true)]
async fn a_key_keeps_its_first_use_when_a_probe_has_found_nothing() {
    let probe = ScriptedProbe::new([Says::Absent]);
    let endpoint = remembering(seconds(5)).probed_by(probe).settling(Duration::ZERO);
    let peer = Scripted::new([Step::fails().after(seconds(6)), Step::refused()]);
    let before = SystemTime::now();
    let ended = end(post(&client(steady(), &peer), endpoint)).await;
    assert!(matches!(ended.error().safe_retry(), Some(RetryError::Unprocessed(_))));
    for key in [ended.error().safe_retry().unwrap().key().unwrap(), ended.report.key().unwrap()] {
        assert!((before..=SystemTime::now()).contains(&key.first_use().unwrap()));
    }
}

// ===== everything else stays as it is =====

#[tokio::test(start_paused = true)]
async fn a_body_that_exists_once_is_sent_once() {
    let stream = || reqwest::Body::wrap_stream(futures_util::stream::iter([Ok::<_, std::io::Error>("one coffee")]));
    let peer = Scripted::answering(201);
    let request = client(steady(), &peer).post(URL).body(stream()).with_extension(payment()).with_extension(key());
    let ended = end(request.with_extension(SentBefore::since(ago(HOUR)))).await;
    assert_eq!((ended.status(), peer.requests()[0].body()), (201, &b"one coffee"[..]));

    let (peer, probe) = (Scripted::new([Step::fails()]), ScriptedProbe::new([Says::Absent]));
    let endpoint = Endpoint::probed_write(probe).settling(Duration::ZERO);
    let request = client(steady(), &peer).post(URL).body(stream()).with_extension(endpoint);
    let ended = end(request.with_extension(SentBefore::since(ago(HOUR)))).await;
    assert_eq!((ended.report.stop(), peer.sends()), (StopReason::BodyConsumed, 1));
}

#[tokio::test(start_paused = true)]
async fn the_first_send_and_the_questions_before_it_are_free_and_who_sends_nothing_earns_nothing() {
    let balance = |budget: &RetryBudget| budget.balance(&URL.parse().unwrap());
    let broke = || RetryBudget::new(BudgetLimits::percent(100).with_reserve(0, 0));

    let (budget, peer) = (broke(), Scripted::answering(201));
    let probe = ScriptedProbe::new([Says::Absent]);
    let ended = end(again(&client(steady().with_budget(budget.clone()), &peer), Endpoint::probed_write(probe))).await;
    assert_eq!((ended.status(), found(&ended).len(), balance(&budget)), (201, 2, 1));

    let (budget, peer) = (broke(), Scripted::answering(201));
    let ended = end(again(&client(steady().with_budget(budget.clone()), &peer), Endpoint::unprotected_write())).await;
    assert_unsent_and_unknown(&ended, &peer, StopReason::MayHaveHappened);
    assert_eq!(balance(&budget), 0);
}

#[tokio::test(start_paused = true)]
async fn no_time_and_no_patience_leave_it_as_unknown_as_it_was() {
    let peer = Scripted::answering(201);
    let late = end(again(&client(steady(), &peer), payment().with_deadline(Duration::ZERO)).with_extension(key())).await;
    assert!(matches!(late.error().safe_retry(), Some(RetryError::OutcomeUnknown(_))) && late.error().timed_out());
    assert_eq!((late.report.outcome(), late.report.stop()), (Outcome::Unknown, StopReason::DeadlineTooNear));

    let (slot, probe) = (ReportSlot::new(), ScriptedProbe::new([Says::Hangs]));
    let request = again(&client(steady(), &peer), Endpoint::probed_write(probe)).with_extension(slot.clone());
    assert!(timeout(seconds(1), request.send()).await.is_err());
    let report = slot.take().unwrap();
    assert_eq!((report.outcome(), report.stop()), (Outcome::Unknown, StopReason::Cancelled));
    peer.assert_sends(0);
}

/// The answer may be the echo of what the earlier process did.
#[tokio::test(start_paused = true)]
async fn a_conflict_after_it_is_no_plain_answer() {
    let peer = Scripted::answering(409);
    let ended = end(again(&client(steady(), &peer), Endpoint::idempotent_write())).await;
    assert_eq!((ended.status(), ended.report.outcome()), (409, Outcome::AnsweredAfterUnknown));
}

// ===== what is told =====

#[tokio::test(start_paused = true)]
async fn the_report_tells_it_and_stands_in_the_answer() {
    let (peer, probe) = (Scripted::answering(201), ScriptedProbe::new([Says::InProgress, Says::Absent]));
    let endpoint = Endpoint::probed_write(probe).settling(Duration::ZERO).with_deadline(seconds(20));
    let ended = end(again(&client(steady(), &peer), endpoint)).await;
    let wanted = "POST http://peer.test:80
       at  attempt  signal          evidence         pause  time left  decision
  0.000 s  –        sent before     unknown        0.050 s   18.000 s  ask the probe
  0.000 s  probe    in progress     unknown              –          –  ask the probe
  0.050 s  probe    no trace of it  not processed        –          –  send again: the probe found no trace
  0.050 s  #1       201             answered             –   17.950 s  done: the answer is final
  outcome  answered, after 1 attempt and 2 probes in 0.050 s, 19.950 s left";
    assert_eq!(RetryReport::of(ended.response()).unwrap().to_string(), wanted);

    let ended = end(again(&client(steady(), &peer), Endpoint::unprotected_write())).await;
    let wanted = "POST http://peer.test:80
       at  attempt  signal       evidence  pause  time left  decision
  0.000 s  –        sent before  unknown       –          –  stop: it may have happened
  outcome  unknown whether it happened, nothing was sent in 0.000 s";
    assert_eq!(ended.report.to_string(), wanted);
    #[cfg(feature = "serde")]
    assert_eq!(serde_json::to_value(&ended.report).unwrap()["sent_before"]["signal"], "SentBefore");
}

#[derive(Clone, Default)]
struct Trace(Arc<Mutex<Vec<(Situation, bool, u32)>>>);

impl Observer for Trace {
    fn decided(&self, decided: &Decided<'_>) {
        let replays = *decided.decision() == RetryPolicy::DEFAULT.decide(decided.situation());
        self.0.lock().unwrap().push((decided.situation().clone(), replays, decided.attempt().number()));
    }
}

#[tokio::test(start_paused = true)]
async fn the_decision_before_the_first_attempt_is_told_and_replays() {
    let (trace, peer) = (Trace::default(), Scripted::answering(201));
    let client = client(steady().with_observer(trace.clone()), &peer);
    let ended = end(again(&client, payment().with_attempt_limit(seconds(3))).with_extension(key())).await;
    assert_eq!(ended.status(), 201);
    let told = trace.0.lock().unwrap();
    let [(before, true, 0), (after, true, 1)] = &told[..] else { panic!("{told:?}") };
    assert_eq!((before.signal, before.sends, before.evidence), (Signal::SentBefore, 0, Evidence::Unknown));
    assert!(before.key_age >= HOUR && before.attempt_limit == seconds(3));
    assert_eq!(after.sends, 1);
    assert!(matches!(RetryPolicy::DEFAULT.decide(before), Decision::Resend(_)));
}
