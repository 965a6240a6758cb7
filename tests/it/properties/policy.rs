//! What holds for every situation, backoff and draw.

use std::time::Duration;

use http::StatusCode;
use proptest::{prelude::*, test_runner::FileFailurePersistence};
use reqwest_safe_retry::policy::{
    Backoff, BodySupply, Decision, Draw, Effect, Evidence, HintSpread, Jitter, Lapsed, ResendReason, RetryPolicy, Signal, Situation,
};

/// Durations of every magnitude, the extremes included.
fn any_duration() -> impl Strategy<Value = Duration> {
    prop_oneof![
        Just(Duration::ZERO),
        Just(Duration::MAX),
        (0..10_000_u64).prop_map(Duration::from_millis),
        (0..100_000_u64).prop_map(Duration::from_secs),
        any::<u64>().prop_map(Duration::from_nanos),
        any::<u64>().prop_map(Duration::from_secs),
    ]
}

fn any_draw() -> impl Strategy<Value = Draw> {
    prop_oneof![Just(Draw::LEAST), Just(Draw::HALF), Just(Draw::GREATEST), any::<u64>().prop_map(Draw::new)]
}

fn any_jitter() -> impl Strategy<Value = Jitter> {
    prop_oneof![Just(Jitter::Full), Just(Jitter::Equal), Just(Jitter::None)]
}

fn any_backoff() -> impl Strategy<Value = Backoff> {
    (any_duration(), any_duration(), any_jitter()).prop_map(|(first, cap, jitter)| Backoff::doubling(first, cap).with_jitter(jitter))
}

fn any_effect() -> impl Strategy<Value = Effect> {
    prop_oneof![
        Just(Effect::Read),
        Just(Effect::IdempotentWrite),
        (any_duration(), prop_oneof![Just(Lapsed::Stop), Just(Lapsed::Probe)])
            .prop_map(|(remembered_for, lapsed)| Effect::KeyedWrite { remembered_for, lapsed }),
        Just(Effect::ProbedWrite),
        Just(Effect::UnprotectedWrite),
        Just(Effect::NeverResend),
    ]
}

fn any_signal() -> impl Strategy<Value = Signal> {
    let status = (100..1000_u16).prop_map(|code| StatusCode::from_u16(code).unwrap());
    let usual = prop_oneof![Just(429_u16), Just(503), Just(500), Just(425)].prop_map(|code| StatusCode::from_u16(code).unwrap());
    prop_oneof![
        usual.prop_map(Signal::Answered),
        status.clone().prop_map(Signal::Answered),
        status.clone().prop_map(Signal::Final),
        status.clone().prop_map(Signal::Resendable),
        status.clone().prop_map(Signal::Overloaded),
        status.prop_map(Signal::BodyLost),
        Just(Signal::KeyInUse),
        Just(Signal::Failed),
        Just(Signal::Broken),
        Just(Signal::Forbidden),
        Just(Signal::ProbedAbsent),
        Just(Signal::SentBefore),
    ]
}

prop_compose! {
    fn any_situation()(
        effect in any_effect(), signal in any_signal(), evidence in prop_oneof![Just(Evidence::Unprocessed), Just(Evidence::Unknown)],
        hint in proptest::option::of(any_duration()), sends in prop_oneof![1..6_u32, any::<u32>()], probes in 0..4_u32, earlier in 0..4_u32,
        elapsed in any_duration(), key_age in any_duration(), time_left in any_duration(), attempt_limit in any_duration(),
        body in prop_oneof![4 => Just(BodySupply::Replayable), 1 => Just(BodySupply::Consumed)], draw in any_draw(),
    ) -> Situation {
        Situation::new(effect, signal, evidence)
            .with_hint(hint.map(Ok)).with_sends(sends).with_probes(probes).with_earlier_probes(earlier)
            .with_elapsed(elapsed).with_key_age(key_age).with_time_left(time_left).with_attempt_limit(attempt_limit)
            .with_body(body).with_draw(draw)
    }
}

prop_compose! {
    fn any_policy()(
        attempts in 0..8_u32, backoff in any_backoff(), throttle in any_backoff(), window in any_duration(), least in any_duration(),
        spread in prop_oneof![Just(HintSpread::Exact), Just(HintSpread::Jittered)],
    ) -> RetryPolicy {
        RetryPolicy::DEFAULT.with_attempts(attempts).with_backoff(backoff).with_throttle_backoff(throttle)
            .with_window(window).with_least_attempt(least).with_hint_spread(spread)
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1000, failure_persistence: Some(Box::new(FileFailurePersistence::WithSource("regressions"))), ..ProptestConfig::default() })]

    /// One limit for every kind of pause.
    #[test]
    fn a_pause_is_never_below_the_hint_and_never_past_the_limit(policy in any_policy(), situation in any_situation()) {
        let pause = match policy.decide(&situation) {
            Decision::Resend(permit) => permit.pause(),
            Decision::Probe(pause) => pause,
            Decision::Return | Decision::Stop(_) => return Ok(()),
        };
        if let Some(Ok(hint)) = situation.hint {
            prop_assert!(pause >= hint, "{pause:?} is earlier than {hint:?}");
        }
        if situation.time_left == Duration::MAX {
            prop_assert!(situation.elapsed.saturating_add(pause) <= policy.window());
        } else {
            prop_assert!(pause.saturating_add(policy.least_attempt()) < situation.time_left);
        }
        prop_assert!(pause < Duration::MAX);
    }

    #[test]
    fn nothing_is_sent_or_asked_beyond_the_attempts(policy in any_policy(), situation in any_situation()) {
        if matches!(policy.decide(&situation), Decision::Resend(_) | Decision::Probe(_)) {
            let tries = situation.sends.saturating_sub(situation.key_in_use);
            let waits = situation.signal == Signal::KeyInUse && situation.key_in_use <= policy.key_in_use_waits();
            prop_assert!(tries < policy.attempts() || (waits && policy.attempts() > 1));
        }
        if matches!(policy.decide(&situation), Decision::Probe(_)) {
            prop_assert!(situation.probes.saturating_add(situation.earlier_probes) < policy.attempts());
        }
    }

    #[test]
    fn a_write_that_may_have_happened_is_resent_only_under_protection(policy in any_policy(), situation in any_situation()) {
        if let Decision::Resend(_) = policy.decide(&situation) {
            let unprocessed = situation.evidence == Evidence::Unprocessed && situation.signal != Signal::SentBefore;
            let proven_harmless = unprocessed || situation.signal == Signal::ProbedAbsent;
            let protected = match situation.effect {
                Effect::Read | Effect::IdempotentWrite => true,
                Effect::KeyedWrite { remembered_for, .. } => {
                    proven_harmless || situation.key_age < remembered_for
                }
                Effect::ProbedWrite => proven_harmless,
                Effect::UnprotectedWrite => unprocessed,
                Effect::NeverResend => false,
                _ => false,
            };
            prop_assert!(protected, "{situation:?}");
            prop_assert_eq!(situation.body, BodySupply::Replayable);
        }
    }

    #[test]
    fn a_key_is_relied_on_only_where_it_outlives_the_attempt(policy in any_policy(), situation in any_situation()) {
        if let (Decision::Resend(permit), Effect::KeyedWrite { remembered_for, .. }) = (policy.decide(&situation), situation.effect) {
            let limit = if situation.attempt_limit == Duration::MAX { Duration::ZERO } else { situation.attempt_limit };
            let ends = situation.key_age.saturating_add(permit.pause()).saturating_add(limit);
            prop_assert!(permit.reason() != ResendReason::KeyDeduplicates || ends < remembered_for);
        }
    }

    #[test]
    fn the_same_situation_gives_the_same_decision(policy in any_policy(), situation in any_situation()) {
        prop_assert_eq!(policy.decide(&situation), policy.decide(&situation));
    }

    #[test]
    fn more_time_never_forbids_what_less_time_allowed(policy in any_policy(), situation in any_situation(), more in any_duration()) {
        let situation = situation.with_hint(None).with_time_left(more / 2);
        let longer = more.min(Duration::MAX - Duration::from_nanos(1));
        let resends = |situation: &Situation| matches!(policy.decide(situation), Decision::Resend(_) | Decision::Probe(_));
        prop_assert!(!resends(&situation) || resends(&situation.clone().with_time_left(longer)));
    }

    #[test]
    fn backoff_stays_below_its_cap_for_every_input(backoff in any_backoff(), resend in any::<u32>(), draw in any_draw(), first in any_duration(), cap in any_duration()) {
        prop_assert!(backoff.pause(resend, draw) <= backoff.bound(resend));
        prop_assert!(Backoff::doubling(first, cap).bound(resend) <= cap);
    }

    #[test]
    fn backoff_before_jitter_never_falls(backoff in any_backoff(), resend in any::<u32>()) {
        prop_assert!(backoff.bound(resend) <= backoff.bound(resend.saturating_add(1)));
    }

    #[test]
    fn a_greater_draw_never_means_an_earlier_resend(backoff in any_backoff(), resend in any::<u32>(), one in any::<u64>(), other in any::<u64>()) {
        let (less, more) = (one.min(other), one.max(other));
        prop_assert!(backoff.pause(resend, Draw::new(less)) <= backoff.pause(resend, Draw::new(more)));
    }
}

#[test]
fn the_exact_schedule_without_jitter_is_the_published_one() {
    let seconds = Duration::from_secs;
    // hashicorp/go-retryablehttp client_test.go: min · 2^n, capped; n counts from zero.
    for (n, wanted) in [(0, 1), (1, 2), (2, 4), (3, 8), (63, 300), (128, 300)] {
        assert_eq!(Backoff::doubling(seconds(1), seconds(300)).bound(n + 1), seconds(wanted));
    }
    // googleapis/google-cloud-rust exponential_backoff.rs: full jitter between nothing and the
    // bound.
    let gax = Backoff::doubling(seconds(10), seconds(10));
    for (attempt, draw, wanted) in [(1, Draw::LEAST, Duration::ZERO), (2, Draw::HALF, seconds(5))] {
        assert_eq!(gax.pause(attempt, draw), wanted);
    }
    assert!(gax.pause(3, Draw::GREATEST) > seconds(10) - Duration::from_millis(1));
    // The article's figures: 100, 200, 400, 800, 800 ms.
    let article = Backoff::doubling(Duration::from_millis(100), Duration::from_millis(800)).with_jitter(Jitter::None);
    assert_eq!([1, 2, 3, 4, 5].map(|resend| article.pause(resend, Draw::HALF).as_millis()), [100, 200, 400, 800, 800]);
}

/// There is no factor that could be wrong.
#[test]
fn extremes_neither_overflow_nor_wrap_to_zero() {
    for first in [Duration::from_nanos(1), Duration::from_secs(1), Duration::MAX] {
        let backoff = Backoff::doubling(first, Duration::MAX);
        assert_eq!(backoff.bound(u32::MAX), Duration::MAX);
        assert!(backoff.pause(u32::MAX, Draw::GREATEST) > Duration::MAX / 2);
    }
    assert_eq!(Backoff::doubling(Duration::ZERO, Duration::MAX).bound(u32::MAX), Duration::ZERO);
    assert_eq!(Backoff::doubling(Duration::MAX, Duration::ZERO).pause(0, Draw::GREATEST), Duration::ZERO);
    assert_eq!(Backoff::doubling(Duration::from_secs(1), Duration::MAX).bound(0), Duration::from_secs(1));
}

#[test]
fn jitter_leaves_no_pile_at_the_cap_nor_anywhere_else() {
    let cap = Duration::from_secs(20);
    for jitter in [Jitter::Full, Jitter::Equal] {
        let backoff = Backoff::doubling(Duration::from_millis(100), cap).with_jitter(jitter);
        let mut counts = [0_u32; 200];
        let mut bits = 0x9e37_79b9_7f4a_7c15_u64;
        for _ in 0..100_000 {
            bits = bits.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let pause = backoff.pause(40, Draw::new(bits));
            assert!(pause < cap);
            counts[usize::try_from(pause.as_millis() / 100).unwrap()] += 1;
        }
        let most = counts.iter().max().unwrap();
        assert!(*most < 1_500, "{jitter:?}: {most} of 100000 in one hundredth");
    }
}
