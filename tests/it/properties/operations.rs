//! Every operation of up to four attempts: each signal with each evidence after each attempt, each
//! verdict after each probe, a key that lapses in an attempt or in a pause, and the same for what an
//! earlier process may have sent. The decisions are the real ones; the bookkeeping is the loop's, and
//! so small that it can be compared by eye.
//!
//! What is counted is the harm: how often the operation can have been applied at most, in the worst
//! world that the evidence leaves.

use std::{collections::BTreeSet, time::Duration};

use http::StatusCode;
use reqwest_safe_retry::policy::{
    Decision, Effect, Ending, Evidence, History, Lapsed, LastAnswer, Outcome, ResendPermit, ResendReason, RetryPolicy, Signal, Situation,
    StopReason,
};

const MEMORY: Duration = Duration::from_secs(3600);
const MOST_SENDS: u32 = 4;
const POLICY: RetryPolicy = RetryPolicy::DEFAULT.with_attempts(MOST_SENDS).with_key_in_use_waits(0).with_window(Duration::MAX);
/// One of the sends of a keyed write may have found an earlier copy still being processed.
const KEYED_POLICY: RetryPolicy = POLICY.with_attempts(MOST_SENDS - 1).with_key_in_use_waits(1);

const SIGNALS: [Signal; 9] = [
    Signal::Answered(StatusCode::OK),
    Signal::Answered(StatusCode::SERVICE_UNAVAILABLE),
    Signal::Final(StatusCode::CONFLICT),
    Signal::Resendable(StatusCode::CONFLICT),
    Signal::KeyInUse,
    Signal::Failed,
    Signal::Broken,
    Signal::BodyLost(StatusCode::OK),
    Signal::Forbidden,
];
const EVIDENCE: [Evidence; 2] = [Evidence::Unprocessed, Evidence::Unknown];

/// What a probe finds, but for *applied*, after which nothing is sent.
#[derive(Clone, Copy)]
enum Found {
    Absent,
    InProgress,
    Undecided,
}

const FOUND: [Found; 3] = [Found::Absent, Found::InProgress, Found::Undecided];

/// How long an attempt or a pause can last: at most so long that the server forgets the key
/// meanwhile.
fn durations(effect: Effect) -> &'static [Duration] {
    match effect {
        Effect::KeyedWrite { .. } => &[Duration::ZERO, MEMORY],
        _ => &[Duration::ZERO],
    }
}

/// One operation on its way: the loop's bookkeeping, and what may have become of it.
#[derive(Clone)]
struct Operation {
    effect: Effect,
    sends: u32,
    key_in_use: u32,
    probes: u32,
    earlier_probes: u32,
    evidence: Evidence,
    followed_unknown: bool,
    age: Duration,
    /// The sends that can have been applied, by the age of the key when they went out.
    open_sends: Vec<Duration>,
}

/// Everything that was seen, to know that the model is not empty.
#[derive(Default)]
struct Seen {
    ends: u32,
    reasons: BTreeSet<String>,
    stops: BTreeSet<String>,
    most_sends: u32,
}

impl Operation {
    fn new(effect: Effect) -> Self {
        Self {
            effect,
            sends: 0,
            key_in_use: 0,
            probes: 0,
            earlier_probes: 0,
            evidence: Evidence::Unprocessed,
            followed_unknown: false,
            age: Duration::ZERO,
            open_sends: vec![],
        }
    }

    /// An operation that an earlier process sent, with a result that nobody knows.
    fn sent_before(effect: Effect, age: Duration) -> Self {
        Self { evidence: Evidence::Unknown, followed_unknown: true, age, open_sends: vec![Duration::ZERO], ..Self::new(effect) }
    }

    /// What comes first: what nobody can have sent yet is sent, about the rest something is decided.
    fn begin(&self, seen: &mut Seen) {
        match self.evidence {
            Evidence::Unprocessed => self.send(seen),
            Evidence::Unknown => self.decide(Signal::SentBefore, seen),
        }
    }

    /// Sends, with everything that can come back.
    fn send(&self, seen: &mut Seen) {
        for signal in SIGNALS {
            for evidence in EVIDENCE {
                for lasts in durations(self.effect) {
                    let mut sent = self.clone();
                    sent.sends += 1;
                    sent.key_in_use += u32::from(signal == Signal::KeyInUse);
                    sent.earlier_probes += std::mem::take(&mut sent.probes);
                    sent.followed_unknown |= sent.sends > 1 && sent.evidence == Evidence::Unknown;
                    sent.evidence = sent.evidence.max(evidence);
                    if evidence == Evidence::Unknown {
                        sent.open_sends.push(sent.age);
                    }
                    sent.age += *lasts;
                    sent.is_harmless();
                    sent.decide(signal, seen);
                }
            }
        }
    }

    fn decide(&self, signal: Signal, seen: &mut Seen) {
        seen.most_sends = seen.most_sends.max(self.sends);
        let situation = Situation::new(self.effect, signal, self.evidence)
            .with_sends(self.sends)
            .with_key_in_use(self.key_in_use)
            .with_probes(self.probes)
            .with_earlier_probes(self.earlier_probes)
            .with_elapsed(self.age)
            .with_key_age(self.age);
        let policy = match self.effect {
            Effect::KeyedWrite { .. } => KEYED_POLICY,
            _ => POLICY,
        };
        match policy.decide(&situation) {
            Decision::Return if signal == Signal::Broken => self.stop(StopReason::Broken, signal, seen),
            Decision::Return => self.stop(StopReason::AnswerIsFinal, signal, seen),
            Decision::Stop(reason) => self.stop(reason, signal, seen),
            Decision::Probe(pause) => self.probe(signal, pause, seen),
            Decision::Resend(permit) => self.resend(signal, &permit, seen),
        }
    }

    /// Pauses, as long as planned or much longer, and sends if the permit still holds.
    fn resend(&self, signal: Signal, permit: &ResendPermit, seen: &mut Seen) {
        seen.reasons.insert(format!("{:?}", permit.reason()));
        assert_eq!(
            permit.reason() == ResendReason::ProbeFoundNothing,
            signal == Signal::ProbedAbsent,
            "{:?} after {signal:?}",
            permit.reason()
        );
        for lasts in durations(self.effect) {
            let mut paused = self.clone();
            paused.age += permit.pause() + *lasts;
            if permit.still_holds(paused.effect, paused.age) {
                if permit.reason() == ResendReason::KeyDeduplicates {
                    assert!(matches!(paused.effect, Effect::KeyedWrite { .. }) && paused.age < MEMORY, "the key may be forgotten");
                }
                paused.send(seen);
            } else {
                paused.stop(StopReason::KeyExpired, signal, seen);
            }
        }
    }

    /// Asks. A probe is honest: what it finds absent was not applied.
    fn probe(&self, signal: Signal, pause: Duration, seen: &mut Seen) {
        for found in FOUND {
            let mut asked = self.clone();
            asked.age += pause;
            asked.probes += 1;
            match found {
                Found::Absent => {
                    asked.evidence = Evidence::Unprocessed;
                    asked.followed_unknown = false;
                    asked.open_sends.clear();
                    asked.decide(Signal::ProbedAbsent, seen);
                }
                Found::InProgress => asked.decide(signal, seen),
                Found::Undecided => asked.stop(StopReason::ProbeUndecided, signal, seen),
            }
        }
    }

    /// How often it can have been applied: copies under a key that the server remembered from the
    /// first of them are one.
    fn applied_at_most(&self) -> usize {
        let Some(first) = self.open_sends.first() else { return 0 };
        match self.effect {
            Effect::Read => 0,
            Effect::IdempotentWrite => 1,
            Effect::KeyedWrite { .. } => 1 + self.open_sends.iter().filter(|age| **age >= *first + MEMORY).count(),
            _ => self.open_sends.len(),
        }
    }

    fn is_harmless(&self) {
        let most = self.applied_at_most();
        assert!(most <= 1, "{:?} can have been applied {most} times after {} sends", self.effect, self.sends);
    }

    fn stop(&self, reason: StopReason, signal: Signal, seen: &mut Seen) {
        seen.ends += 1;
        seen.stops.insert(format!("{reason:?}"));
        self.is_harmless();
        let history = match (self.effect.is_write(), self.followed_unknown) {
            (false, _) => History::Read,
            (true, false) => History::Write,
            (true, true) => History::WriteAfterUnknown,
        };
        let answer = LastAnswer::of(signal, signal.status());
        let outcome = Outcome::of(&Ending::new(reason, answer, history, self.evidence));
        if self.effect.is_write() && outcome == Outcome::Unprocessed {
            assert!(self.open_sends.is_empty(), "called unprocessed, and {} sends may have been applied", self.open_sends.len());
        }
    }
}

fn every_end_of(operations: impl IntoIterator<Item = Operation>) -> Seen {
    let mut seen = Seen::default();
    for operation in operations {
        operation.begin(&mut seen);
    }
    assert!(seen.most_sends <= MOST_SENDS);
    seen
}

fn names<T: std::fmt::Debug>(values: impl IntoIterator<Item = T>) -> BTreeSet<String> {
    values.into_iter().map(|value| format!("{value:?}")).collect()
}

#[test]
fn no_sequence_leads_from_unknown_to_a_second_unprotected_send() {
    let seen = every_end_of([Operation::new(Effect::UnprotectedWrite)]);
    assert_eq!(seen.reasons, names([ResendReason::ProvenUnprocessed]));
    assert_eq!(
        seen.stops,
        names([
            StopReason::AnswerIsFinal,
            StopReason::AttemptsSpent,
            StopReason::Broken,
            StopReason::MayHaveHappened,
            StopReason::ServerForbade
        ])
    );
    assert_eq!(seen.most_sends, MOST_SENDS);
}

#[test]
fn no_sequence_sends_a_keyed_write_again_under_a_key_that_may_be_forgotten() {
    let keyed = |lapsed| Effect::KeyedWrite { remembered_for: MEMORY, lapsed };
    let without_probe = every_end_of([Operation::new(keyed(Lapsed::Stop)), Operation::sent_before(keyed(Lapsed::Stop), MEMORY / 2)]);
    assert_eq!(without_probe.reasons, names([ResendReason::KeyDeduplicates, ResendReason::ProvenUnprocessed]));
    assert!(without_probe.stops.contains("KeyExpired"));
    let with_probe = every_end_of([Operation::new(keyed(Lapsed::Probe)), Operation::sent_before(keyed(Lapsed::Probe), MEMORY / 2)]);
    assert_eq!(
        with_probe.reasons,
        names([ResendReason::KeyDeduplicates, ResendReason::ProvenUnprocessed, ResendReason::ProbeFoundNothing])
    );
}

#[test]
fn no_sequence_sends_under_a_key_that_the_server_may_have_forgotten_since_an_earlier_process_sent_it() {
    let lapsed = |lapsed| Operation::sent_before(Effect::KeyedWrite { remembered_for: MEMORY, lapsed }, MEMORY);
    let without_probe = every_end_of([lapsed(Lapsed::Stop)]);
    assert_eq!((without_probe.stops, without_probe.most_sends), (names([StopReason::KeyExpired]), 0));
    let with_probe = every_end_of([lapsed(Lapsed::Probe)]);
    assert!(!with_probe.reasons.contains("KeyDeduplicates"));
    assert_eq!(with_probe.most_sends, POLICY.attempts());
}

#[test]
fn no_sequence_sends_what_an_earlier_process_may_have_sent_unprotected() {
    for (effect, stop) in [(Effect::UnprotectedWrite, StopReason::MayHaveHappened), (Effect::NeverResend, StopReason::Disabled)] {
        let seen = every_end_of([Operation::sent_before(effect, Duration::ZERO)]);
        assert_eq!((seen.stops, seen.most_sends), (names([stop]), 0));
    }
}

#[test]
fn what_an_earlier_process_may_have_sent_has_all_its_attempts_where_something_protects_it() {
    for (effect, reason) in [
        (Effect::Read, ResendReason::EffectRepeatable),
        (Effect::IdempotentWrite, ResendReason::EffectRepeatable),
        (Effect::KeyedWrite { remembered_for: MEMORY, lapsed: Lapsed::Stop }, ResendReason::KeyDeduplicates),
        (Effect::ProbedWrite, ResendReason::ProbeFoundNothing),
    ] {
        let seen = every_end_of([Operation::sent_before(effect, Duration::ZERO)]);
        assert!(seen.reasons.contains(&format!("{reason:?}")), "{effect:?}");
        assert_eq!(seen.most_sends, POLICY.attempts(), "{effect:?}");
    }
}

#[test]
fn no_sequence_sends_a_probed_write_again_but_after_a_probe_that_found_nothing() {
    let seen = every_end_of([Operation::new(Effect::ProbedWrite)]);
    assert_eq!(seen.reasons, names([ResendReason::ProvenUnprocessed, ResendReason::ProbeFoundNothing]));
    assert!(seen.stops.contains("ProbeUndecided"));
    assert_eq!(seen.most_sends, MOST_SENDS);
}

#[test]
fn no_sequence_sends_again_what_must_not_be() {
    let seen = every_end_of([Operation::new(Effect::NeverResend)]);
    assert_eq!((seen.reasons, seen.most_sends), (BTreeSet::new(), 1));
}

#[test]
fn reads_and_idempotent_writes_never_ask() {
    let seen = every_end_of([Operation::new(Effect::Read), Operation::new(Effect::IdempotentWrite)]);
    assert_eq!(seen.reasons, names([ResendReason::EffectRepeatable, ResendReason::ProvenUnprocessed]));
    assert!(!seen.stops.contains("ProbeUndecided"));
}
