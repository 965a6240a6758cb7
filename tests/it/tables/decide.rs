//! What `decide` answers for every effect, signal and evidence, and at every limit.

use std::time::Duration;

use http::{Method, StatusCode};
use reqwest_safe_retry::policy::{
    Backoff, BodySupply, Decision, Draw, Effect, Evidence, HintSpread, InvalidHint, Jitter, Lapsed, ResendReason, RetryPolicy,
    RetryStatuses, Signal, Situation, StopReason, UnreadableHint,
};

const MS: Duration = Duration::from_millis(1);
const SECOND: Duration = Duration::from_secs(1);
const DAY: Duration = Duration::from_secs(86_400);

const REMEMBERED: Effect = Effect::KeyedWrite { remembered_for: DAY, lapsed: Lapsed::Stop };
const LAPSED: Effect = Effect::KeyedWrite { remembered_for: Duration::ZERO, lapsed: Lapsed::Stop };
const LAPSED_PROBED: Effect = Effect::KeyedWrite { remembered_for: Duration::ZERO, lapsed: Lapsed::Probe };

/// A decision without its times, short enough for a table.
fn kind(decision: &Decision) -> String {
    match decision {
        Decision::Return => "return".to_owned(),
        Decision::Resend(permit) => format!("{:?}", permit.reason()),
        Decision::Probe(_) => "probe".to_owned(),
        Decision::Stop(reason) => format!("stop {reason:?}"),
    }
}

fn decided(situation: &Situation) -> String {
    kind(&RetryPolicy::DEFAULT.decide(situation))
}

#[test]
fn every_effect_signal_and_evidence_has_the_decision_of_the_design() {
    use Evidence::{Unknown, Unprocessed};
    let busy = Signal::Answered(StatusCode::SERVICE_UNAVAILABLE);
    let columns = [
        (busy, Unknown),
        (busy, Unprocessed),
        (Signal::Failed, Unknown),
        (Signal::Failed, Unprocessed),
        (Signal::BodyLost(StatusCode::OK), Unknown),
        (Signal::KeyInUse, Unknown),
        (Signal::ProbedAbsent, Unprocessed),
        (Signal::SentBefore, Unknown),
    ];
    let repeatable = [
        "EffectRepeatable",
        "ProvenUnprocessed",
        "EffectRepeatable",
        "ProvenUnprocessed",
        "EffectRepeatable",
        "return",
        "return",
        "EffectRepeatable",
    ];
    let rows = [
        (Effect::Read, repeatable),
        (Effect::IdempotentWrite, repeatable),
        (
            REMEMBERED,
            [
                "KeyDeduplicates",
                "ProvenUnprocessed",
                "KeyDeduplicates",
                "ProvenUnprocessed",
                "KeyDeduplicates",
                "KeyDeduplicates",
                "ProbeFoundNothing",
                "KeyDeduplicates",
            ],
        ),
        (
            LAPSED,
            [
                "stop KeyExpired",
                "ProvenUnprocessed",
                "stop KeyExpired",
                "ProvenUnprocessed",
                "return",
                "stop KeyExpired",
                "ProbeFoundNothing",
                "stop KeyExpired",
            ],
        ),
        (LAPSED_PROBED, ["probe", "ProvenUnprocessed", "probe", "ProvenUnprocessed", "return", "probe", "ProbeFoundNothing", "probe"]),
        (
            Effect::ProbedWrite,
            ["probe", "ProvenUnprocessed", "probe", "ProvenUnprocessed", "return", "return", "ProbeFoundNothing", "probe"],
        ),
        (
            Effect::UnprotectedWrite,
            [
                "stop MayHaveHappened",
                "ProvenUnprocessed",
                "stop MayHaveHappened",
                "ProvenUnprocessed",
                "return",
                "return",
                "stop MayHaveHappened",
                "stop MayHaveHappened",
            ],
        ),
        (
            Effect::NeverResend,
            ["stop Disabled", "stop Disabled", "stop Disabled", "stop Disabled", "return", "return", "stop Disabled", "stop Disabled"],
        ),
    ];
    for (effect, cells) in rows {
        for ((signal, evidence), wanted) in columns.into_iter().zip(cells) {
            // A key of a day is remembered at birth; one remembered for no time has lapsed.
            let situation = Situation::new(effect, signal, evidence);
            assert_eq!(decided(&situation), wanted, "{effect:?} × {signal:?} × {evidence:?}");
        }
    }
}

#[test]
fn a_final_signal_is_settled_whatever_the_effect_and_evidence() {
    let ok = StatusCode::OK;
    let effects = [Effect::Read, Effect::IdempotentWrite, REMEMBERED, Effect::ProbedWrite, Effect::UnprotectedWrite, Effect::NeverResend];
    let settled = [
        (Signal::Answered(ok), "return"),
        (Signal::Answered(StatusCode::CREATED), "return"),
        (Signal::Answered(StatusCode::NOT_IMPLEMENTED), "return"),
        (Signal::Final(StatusCode::SERVICE_UNAVAILABLE), "return"),
        (Signal::Broken, "return"),
        (Signal::Forbidden, "stop ServerForbade"),
    ];
    for effect in effects {
        for evidence in [Evidence::Unprocessed, Evidence::Unknown] {
            for (signal, wanted) in settled {
                // A hint never makes a status retryable: it says when, not whether.
                let situation = Situation::new(effect, signal, evidence).with_hint(Ok(SECOND));
                assert_eq!(decided(&situation), wanted, "{effect:?} × {signal:?} × {evidence:?}");
            }
        }
    }
}

#[test]
fn exactly_the_default_statuses_are_worth_another_try() {
    let retried: Vec<u16> = (100..1000)
        .filter(|code| {
            let signal = Signal::Answered(StatusCode::from_u16(*code).unwrap());
            decided(&Situation::new(Effect::Read, signal, Evidence::Unknown)) != "return"
        })
        .collect();
    assert_eq!(retried, [408, 425, 429, 500, 502, 503, 504]);
}

#[test]
fn statuses_can_be_added_and_removed_one_by_one() {
    let statuses = RetryStatuses::NONE.with(StatusCode::CONFLICT).with(StatusCode::OK).without(StatusCode::OK);
    assert_eq!(statuses.iter().collect::<Vec<_>>(), [StatusCode::CONFLICT]);
    let all: RetryStatuses = (100..1000).map(|code| StatusCode::from_u16(code).unwrap()).collect();
    assert_eq!(all.iter().count(), 900);
    assert_eq!(format!("{statuses:?}"), "{409}");
}

#[test]
fn an_endpoints_verdict_replaces_the_policys_statuses() {
    let teapot = Signal::Resendable(StatusCode::IM_A_TEAPOT);
    assert_eq!(decided(&Situation::new(Effect::Read, teapot, Evidence::Unknown)), "EffectRepeatable");
    assert_eq!(decided(&Situation::new(Effect::UnprotectedWrite, teapot, Evidence::Unknown)), "stop MayHaveHappened");
}

/// The signal itself says that it may have happened.
#[test]
fn no_evidence_of_this_operation_speaks_for_what_was_sent_before() {
    for evidence in [Evidence::Unprocessed, Evidence::Unknown] {
        let before = Situation::new(Effect::UnprotectedWrite, Signal::SentBefore, evidence);
        assert_eq!((before.sends, decided(&before)), (0, "stop MayHaveHappened".to_owned()));
    }
}

#[test]
fn the_first_send_of_what_was_sent_before_and_the_first_question_need_no_pause() {
    let before = |effect| Situation::new(effect, Signal::SentBefore, Evidence::Unknown).with_draw(Draw::GREATEST);
    let policy = RetryPolicy::DEFAULT.with_attempts(1);
    let Decision::Resend(permit) = policy.decide(&before(Effect::Read)) else { panic!("not sent") };
    assert_eq!((permit.pause(), permit.reason()), (Duration::ZERO, ResendReason::EffectRepeatable));
    assert_eq!(policy.decide(&before(Effect::ProbedWrite)), Decision::Probe(Duration::ZERO));
    let once_more = RetryPolicy::DEFAULT.decide(&before(Effect::ProbedWrite).with_probes(1).with_draw(Draw::HALF));
    assert_eq!(once_more, Decision::Probe(50 * MS));
}

#[test]
fn a_spent_body_stops_a_resend_and_no_probe() {
    let spent = |effect| Situation::new(effect, Signal::Failed, Evidence::Unknown).with_body(BodySupply::Consumed);
    assert_eq!(decided(&spent(Effect::IdempotentWrite)), "stop BodyConsumed");
    assert_eq!(decided(&spent(Effect::ProbedWrite)), "probe");
    assert_eq!(decided(&spent(Effect::UnprotectedWrite)), "stop MayHaveHappened");
}

#[test]
fn a_copy_under_way_is_waited_for_as_often_as_the_policy_says() {
    let after = |copies| Situation::new(REMEMBERED, Signal::KeyInUse, Evidence::Unknown).with_sends(copies).with_key_in_use(copies);
    for waits in [0, 2, 4] {
        let policy = RetryPolicy::DEFAULT.with_key_in_use_waits(waits);
        assert_eq!(policy.key_in_use_waits(), waits);
        assert_eq!(kind(&policy.decide(&after(waits))), "KeyDeduplicates");
        assert_eq!(kind(&policy.decide(&after(waits + 1))), "stop AttemptsSpent");
        assert_eq!(kind(&policy.with_attempts(1).decide(&after(waits))), "stop AttemptsSpent");
    }
}

#[test]
fn attempts_count_the_first_send() {
    let after = |sends| Situation::new(Effect::Read, Signal::Failed, Evidence::Unknown).with_sends(sends);
    let policy = RetryPolicy::DEFAULT.with_attempts(2);
    assert_eq!(kind(&policy.decide(&after(1))), "EffectRepeatable");
    assert_eq!(kind(&policy.decide(&after(2))), "stop AttemptsSpent");
    assert_eq!(kind(&RetryPolicy::DEFAULT.with_attempts(0).decide(&after(1))), "stop AttemptsSpent");
    assert_eq!(kind(&RetryPolicy::DEFAULT.with_attempts(1).decide(&after(1))), "stop AttemptsSpent");
}

#[test]
fn there_are_at_most_as_many_probes_as_attempts() {
    let asked = |now, before| {
        let unknown = Situation::new(Effect::ProbedWrite, Signal::Failed, Evidence::Unknown);
        decided(&unknown.with_probes(now).with_earlier_probes(before))
    };
    assert_eq!(asked(2, 0), "probe");
    assert_eq!(asked(3, 0), "stop AttemptsSpent");
    assert_eq!(asked(1, 2), "stop AttemptsSpent");
    assert_eq!(asked(u32::MAX, u32::MAX), "stop AttemptsSpent");
}

#[test]
fn a_probes_backoff_goes_by_sends_and_probes() {
    let policy = RetryPolicy::DEFAULT.with_attempts(9).with_backoff(Backoff::doubling(SECOND, DAY).with_jitter(Jitter::None));
    let asked = |sends, probes| {
        let unknown = Situation::new(Effect::ProbedWrite, Signal::Failed, Evidence::Unknown);
        policy.decide(&unknown.with_sends(sends).with_probes(probes).with_time_left(DAY))
    };
    assert_eq!(asked(1, 0), Decision::Probe(SECOND));
    assert_eq!(asked(1, 1), Decision::Probe(2 * SECOND));
    assert_eq!(asked(2, 1), Decision::Probe(4 * SECOND));
}

#[test]
fn a_resend_after_an_absent_probe_needs_no_further_pause() {
    let absent = Situation::new(Effect::ProbedWrite, Signal::ProbedAbsent, Evidence::Unprocessed).with_draw(Draw::GREATEST);
    let Decision::Resend(permit) = RetryPolicy::DEFAULT.decide(&absent) else { panic!("not resent") };
    assert_eq!((permit.pause(), permit.reason()), (Duration::ZERO, ResendReason::ProbeFoundNothing));
}

/// The pause, or the reason of the stop.
fn pause(policy: &RetryPolicy, situation: &Situation) -> Result<Duration, StopReason> {
    match policy.decide(situation) {
        Decision::Resend(permit) => Ok(permit.pause()),
        Decision::Stop(reason) => Err(reason),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_pause_and_a_useful_attempt_must_end_before_the_deadline() {
    let policy = RetryPolicy::DEFAULT.with_hint_spread(HintSpread::Exact).with_least_attempt(10 * MS);
    let told = |left| Situation::new(Effect::Read, Signal::Failed, Evidence::Unknown).with_hint(Ok(SECOND)).with_time_left(left);
    assert_eq!(pause(&policy, &told(SECOND + 10 * MS + Duration::from_nanos(1))), Ok(SECOND));
    assert_eq!(pause(&policy, &told(SECOND + 10 * MS)), Err(StopReason::DeadlineTooNear));
    assert_eq!(pause(&policy, &told(Duration::ZERO)), Err(StopReason::DeadlineTooNear));
    assert_eq!(pause(&policy.with_least_attempt(Duration::MAX), &told(DAY)), Err(StopReason::DeadlineTooNear));
}

#[test]
fn the_window_applies_only_where_there_is_no_deadline() {
    let policy = RetryPolicy::DEFAULT.with_hint_spread(HintSpread::Exact);
    let told = |wait, elapsed| Situation::new(Effect::Read, Signal::Failed, Evidence::Unknown).with_hint(Ok(wait)).with_elapsed(elapsed);
    assert_eq!(pause(&policy, &told(30 * SECOND, Duration::ZERO)), Ok(30 * SECOND));
    assert_eq!(pause(&policy, &told(30 * SECOND, MS)), Err(StopReason::WindowClosed));
    assert_eq!(pause(&policy, &told(Duration::ZERO, 31 * SECOND)), Err(StopReason::WindowClosed));
    assert_eq!(pause(&policy, &told(60 * SECOND, 31 * SECOND).with_time_left(DAY)), Ok(60 * SECOND));
}

#[test]
fn a_saturated_wait_fits_nowhere() {
    let policy = RetryPolicy::DEFAULT.with_window(Duration::MAX);
    for spread in [HintSpread::Exact, HintSpread::Jittered] {
        let told = Situation::new(Effect::Read, Signal::Failed, Evidence::Unknown).with_hint(Ok(Duration::MAX)).with_draw(Draw::GREATEST);
        assert_eq!(pause(&policy.with_hint_spread(spread), &told), Err(StopReason::WindowClosed));
        assert_eq!(pause(&policy.with_hint_spread(spread), &told.with_time_left(DAY)), Err(StopReason::DeadlineTooNear));
    }
}

#[test]
fn an_unreadable_hint_stops_or_is_no_hint_as_the_policy_says() {
    let unreadable = Situation::new(Effect::Read, Signal::Failed, Evidence::Unknown).with_hint(Err(unreadable_hint()));
    assert_eq!(pause(&RetryPolicy::DEFAULT, &unreadable), Err(StopReason::UnreadableHint));
    assert_eq!(pause(&RetryPolicy::DEFAULT.with_unreadable_hint(UnreadableHint::UseBackoff), &unreadable), Ok(50 * MS));
}

fn unreadable_hint() -> InvalidHint {
    let headers = http::HeaderMap::from_iter([(http::header::RETRY_AFTER, http::HeaderValue::from_static("soon"))]);
    reqwest_safe_retry::policy::Hint::parse(&headers, std::time::SystemTime::UNIX_EPOCH).unwrap().unwrap_err()
}

#[test]
fn a_crowd_that_was_told_the_same_is_spread() {
    let told = |draw| {
        Situation::new(Effect::Read, Signal::Answered(StatusCode::SERVICE_UNAVAILABLE), Evidence::Unknown)
            .with_hint(Ok(20 * SECOND))
            .with_draw(draw)
            .with_time_left(DAY)
    };
    assert_eq!(pause(&RetryPolicy::DEFAULT, &told(Draw::LEAST)), Ok(20 * SECOND));
    assert_eq!(pause(&RetryPolicy::DEFAULT, &told(Draw::HALF)), Ok(20 * SECOND + 2500 * MS));
    // What still fits bounds the spread, never the hint.
    let tight = told(Draw::GREATEST).with_time_left(21 * SECOND + 10 * MS);
    let latest = pause(&RetryPolicy::DEFAULT, &tight).unwrap();
    assert!(latest >= 20 * SECOND && latest < 21 * SECOND, "{latest:?}");
}

#[test]
fn throttling_signals_wait_on_their_own_schedule() {
    let policy = RetryPolicy::DEFAULT
        .with_backoff(Backoff::doubling(MS, SECOND).with_jitter(Jitter::None))
        .with_throttle_backoff(Backoff::doubling(SECOND, DAY).with_jitter(Jitter::None));
    let waits = |effect, signal| pause(&policy, &Situation::new(effect, signal, Evidence::Unknown));
    assert_eq!(waits(Effect::Read, Signal::Answered(StatusCode::TOO_MANY_REQUESTS)), Ok(SECOND));
    assert_eq!(waits(Effect::Read, Signal::Answered(StatusCode::SERVICE_UNAVAILABLE)), Ok(SECOND));
    assert_eq!(waits(REMEMBERED, Signal::KeyInUse), Ok(SECOND));
    assert_eq!(waits(Effect::Read, Signal::Answered(StatusCode::BAD_GATEWAY)), Ok(MS));
    assert_eq!(waits(Effect::Read, Signal::Failed), Ok(MS));
}

#[test]
fn a_key_is_given_up_when_a_resend_could_arrive_after_it_is_forgotten() {
    let policy = RetryPolicy::DEFAULT.with_hint_spread(HintSpread::Exact).with_least_attempt(10 * MS).with_window(Duration::MAX);
    let aged = |age, lapsed| {
        let effect = Effect::KeyedWrite { remembered_for: DAY, lapsed };
        let situation = Situation::new(effect, Signal::Failed, Evidence::Unknown).with_hint(Ok(SECOND)).with_key_age(age);
        kind(&policy.decide(&situation))
    };
    let last = DAY - SECOND - 10 * MS;
    assert_eq!(aged(last - Duration::from_nanos(1), Lapsed::Stop), "KeyDeduplicates");
    assert_eq!(aged(last, Lapsed::Stop), "stop KeyExpired");
    assert_eq!(aged(last, Lapsed::Probe), "probe");
    assert_eq!(aged(Duration::MAX, Lapsed::Stop), "stop KeyExpired");
}

#[test]
fn a_key_has_to_outlive_the_attempt_that_relies_on_it() {
    let aged = |effect, age, signal| {
        let situation = Situation::new(effect, signal, Evidence::Unknown).with_key_age(age).with_draw(Draw::LEAST);
        decided(&situation.with_attempt_limit(5 * SECOND))
    };
    for signal in [Signal::Failed, Signal::SentBefore] {
        assert_eq!(aged(REMEMBERED, DAY - 5 * SECOND - Duration::from_nanos(1), signal), "KeyDeduplicates");
        assert_eq!(aged(REMEMBERED, DAY - 5 * SECOND, signal), "stop KeyExpired");
        assert_eq!(aged(Effect::KeyedWrite { remembered_for: DAY, lapsed: Lapsed::Probe }, DAY - 5 * SECOND, signal), "probe");
    }
    // What needs no key needs no memory.
    assert_eq!(aged(Effect::IdempotentWrite, Duration::MAX, Signal::Failed), "EffectRepeatable");
}

#[test]
fn the_reason_names_the_first_limit_that_fired() {
    let situation = Situation::new(LAPSED, Signal::Failed, Evidence::Unknown).with_hint(Ok(DAY)).with_time_left(SECOND);
    assert_eq!(decided(&situation.clone().with_sends(3).with_body(BodySupply::Consumed)), "stop BodyConsumed");
    assert_eq!(decided(&situation.clone().with_sends(3)), "stop AttemptsSpent");
    assert_eq!(decided(&situation), "stop DeadlineTooNear");
}

#[test]
fn only_safe_methods_read_and_only_idempotent_ones_repeat() {
    let effects = ["GET", "HEAD", "OPTIONS", "QUERY", "PUT", "DELETE", "POST", "PATCH", "CONNECT", "get"]
        .map(|name| Effect::of_method(&Method::from_bytes(name.as_bytes()).unwrap()));
    assert_eq!(effects[..4], [Effect::Read; 4]);
    assert_eq!(effects[4..6], [Effect::IdempotentWrite; 2]);
    assert_eq!(effects[6..], [Effect::UnprotectedWrite; 4]);
}

#[test]
fn a_policy_is_a_constant() {
    const STRICT: RetryPolicy = RetryPolicy::DEFAULT
        .with_attempts(2)
        .with_backoff(Backoff::doubling(MS, SECOND).with_jitter(Jitter::Equal))
        .with_throttle_backoff(Backoff::doubling(SECOND, SECOND))
        .with_window(SECOND)
        .with_least_attempt(SECOND)
        .with_statuses(RetryStatuses::THROTTLING)
        .with_hint_spread(HintSpread::Exact)
        .with_unreadable_hint(UnreadableHint::UseBackoff);
    assert_eq!(STRICT.attempts(), 2);
    assert_eq!(RetryPolicy::default(), RetryPolicy::DEFAULT);
}
