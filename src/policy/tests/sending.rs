//! What is asked once more at the moment of sending: a pause may take longer than planned.

use std::time::Duration;

use crate::policy::{Decision, Effect, Evidence, Lapsed, ResendPermit, RetryPolicy, Signal, Situation, StopReason, every_variant};

const HOUR: Duration = Duration::from_secs(60 * 60);
const INSTANT: Duration = Duration::from_nanos(1);
const KEYED: Effect = Effect::KeyedWrite { remembered_for: HOUR, lapsed: Lapsed::Stop };

fn permit(effect: Effect, evidence: Evidence) -> ResendPermit {
    let decision = RetryPolicy::DEFAULT.decide(&Situation::new(effect, Signal::Failed, evidence));
    let Decision::Resend(permit) = decision else { panic!("{effect:?}, {evidence:?}: {decision:?}") };
    permit
}

#[test]
fn an_attempt_that_a_pause_has_left_too_little_time_is_not_started() {
    let policy = RetryPolicy::DEFAULT.with_least_attempt(HOUR);
    assert_eq!(policy.still_worth_sending(HOUR), Ok(()));
    assert_eq!(policy.still_worth_sending(HOUR - INSTANT), Err(StopReason::DeadlineTooNear));
    let eager = policy.with_least_attempt(Duration::ZERO);
    assert_eq!(eager.still_worth_sending(INSTANT), Ok(()));
    assert_eq!(eager.still_worth_sending(Duration::ZERO), Err(StopReason::DeadlineTooNear));
}

#[test]
fn a_key_lapses_when_the_server_may_have_forgotten_it_and_no_other_effect_has_one() {
    assert!(!KEYED.key_has_lapsed(HOUR - INSTANT));
    assert!(KEYED.key_has_lapsed(HOUR));
    let keyless = every_variant!(Effect {
        Read => Effect::Read,
        IdempotentWrite => Effect::IdempotentWrite,
        KeyedWrite => KEYED.without_key(),
        ProbedWrite => Effect::ProbedWrite,
        UnprotectedWrite => Effect::UnprotectedWrite,
        NeverResend => Effect::NeverResend,
    });
    assert!(keyless.into_iter().all(|effect| !effect.key_has_lapsed(Duration::MAX)));
}

#[test]
fn a_permit_that_rests_on_the_key_ends_with_it_and_no_other_does() {
    let rests_on_the_key = permit(KEYED, Evidence::Unknown);
    let least = RetryPolicy::DEFAULT.least_attempt();
    assert!(rests_on_the_key.still_holds(KEYED, HOUR - least - INSTANT));
    assert!(!rests_on_the_key.still_holds(KEYED, HOUR - least));
    assert!(permit(KEYED, Evidence::Unprocessed).still_holds(KEYED, Duration::MAX));
    assert!(permit(Effect::Read, Evidence::Unknown).still_holds(Effect::Read, Duration::MAX));
}
