//! The decision: whatever the policy and the situation, it sends nothing again that could do harm,
//! and nothing too early or too late.

use std::time::Duration;

use reqwest_safe_retry::policy::{BodySupply, Decision, Effect, Evidence, ResendPermit, ResendReason, RetryPolicy, Signal, Situation};

use super::situations::Bytes;

/// Input: a policy and a situation, as [`Bytes`] reads them.
pub fn check(data: &[u8]) {
    let mut bytes = Bytes::new(data);
    let (policy, situation) = (bytes.policy(), bytes.situation());
    let decision = policy.decide(&situation);
    assert_eq!(decision, policy.decide(&situation), "the same situation, another decision");
    match &decision {
        Decision::Resend(permit) => {
            in_time(&policy, &situation, permit.pause());
            within_the_attempts(&policy, &situation);
            harmless(&policy, &situation, permit);
        }
        Decision::Probe(pause) => {
            in_time(&policy, &situation, *pause);
            within_the_attempts(&policy, &situation);
            assert!(situation.probes.saturating_add(situation.earlier_probes) < policy.attempts());
            let asks = matches!(situation.effect, Effect::ProbedWrite | Effect::KeyedWrite { .. });
            // No evidence of this operation speaks for what was sent before it.
            let open = situation.evidence == Evidence::Unknown || matches!(situation.signal, Signal::KeyInUse | Signal::SentBefore);
            assert!(asks && open, "nothing to ask about: {situation:?}");
        }
        Decision::Return | Decision::Stop(_) => {}
    }
    less_spent_never_forbids(&policy, &situation, &decision);
    proof_never_forbids(&policy, &situation, &decision);
    more_time_never_forbids(&policy, &situation, &decision);
    let _table = policy.explain().to_string();
}

/// Never shorter than the hint, never past the deadline or the window.
fn in_time(policy: &RetryPolicy, situation: &Situation, pause: Duration) {
    if let Some(Ok(hint)) = situation.hint {
        assert!(pause >= hint, "{pause:?} is earlier than asked: {situation:?}");
    }
    if situation.time_left == Duration::MAX {
        let end = situation.elapsed.checked_add(pause);
        assert!(end.is_some_and(|end| end <= policy.window()), "{pause:?} passes the window: {situation:?}");
    } else {
        let end = pause.checked_add(policy.least_attempt());
        assert!(end.is_some_and(|end| end < situation.time_left), "{pause:?} passes the deadline: {situation:?}");
    }
}

fn within_the_attempts(policy: &RetryPolicy, situation: &Situation) {
    let tries = situation.sends.saturating_sub(situation.key_in_use);
    let waits = situation.signal == Signal::KeyInUse && situation.key_in_use <= policy.key_in_use_waits() && policy.attempts() > 1;
    assert!(waits || tries < policy.attempts(), "{situation:?}");
}

fn harmless(policy: &RetryPolicy, situation: &Situation, permit: &ResendPermit) {
    assert_eq!(situation.body, BodySupply::Replayable, "{situation:?}");
    let arrival = situation.key_age.checked_add(permit.pause()).and_then(|age| age.checked_add(policy.least_attempt()));
    let holds = match (permit.reason(), situation.effect) {
        (ResendReason::ProvenUnprocessed, effect) => situation.evidence == Evidence::Unprocessed && effect != Effect::NeverResend,
        (ResendReason::EffectRepeatable, Effect::Read | Effect::IdempotentWrite) => true,
        (ResendReason::KeyDeduplicates, Effect::KeyedWrite { remembered_for, .. }) => arrival.is_some_and(|age| age < remembered_for),
        (ResendReason::ProbeFoundNothing, Effect::KeyedWrite { .. } | Effect::ProbedWrite) => situation.signal == Signal::ProbedAbsent,
        _ => false,
    };
    assert!(holds, "{:?} protects nothing here: {situation:?}", permit.reason());
    let age = situation.key_age.saturating_add(permit.pause());
    assert!(permit.still_holds(situation.effect, age), "the permit ends before its pause: {situation:?}");
}

/// Whether something is sent or asked.
fn goes_on(decision: &Decision) -> bool {
    matches!(decision, Decision::Resend(_) | Decision::Probe(_))
}

fn less_spent_never_forbids(policy: &RetryPolicy, situation: &Situation, decision: &Decision) {
    let fewer = situation.clone().with_sends(situation.sends.saturating_sub(1)).with_probes(situation.probes.saturating_sub(1));
    let before = policy.decide(&fewer);
    assert!(!goes_on(decision) || goes_on(&before), "{before:?} with fewer sends, {decision:?} with more: {situation:?}");
}

fn proof_never_forbids(policy: &RetryPolicy, situation: &Situation, decision: &Decision) {
    let mut proven = situation.clone();
    proven.evidence = Evidence::Unprocessed;
    let with_proof = policy.decide(&proven);
    // Asking takes no body, sending does.
    let sends = matches!(decision, Decision::Resend(_));
    assert!(!sends || matches!(with_proof, Decision::Resend(_)), "{with_proof:?} with proof, {decision:?} without: {situation:?}");
}

/// But of a key, which may lapse in the longer pause that longer time allows.
fn more_time_never_forbids(policy: &RetryPolicy, situation: &Situation, decision: &Decision) {
    if situation.time_left == Duration::MAX || matches!(situation.effect, Effect::KeyedWrite { .. }) {
        return;
    }
    let longest = Duration::MAX - Duration::from_nanos(1);
    let with_more = policy.decide(&situation.clone().with_time_left(situation.time_left.saturating_mul(2).min(longest)));
    assert!(!goes_on(decision) || goes_on(&with_more), "{with_more:?} with more time, {decision:?} with less: {situation:?}");
}
