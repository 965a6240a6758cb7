//! Policies and situations out of bytes: every input gives one, and small changes of the input make
//! small changes of it.

use std::time::Duration;

use http::StatusCode;
use reqwest_safe_retry::policy::{
    Backoff, BodySupply, Draw, Effect, Evidence, Hint, HintSpread, InvalidHint, Jitter, Lapsed, RetryPolicy, RetryStatuses, Signal,
    Situation, UnreadableHint,
};

/// What is left of an input. Beyond its end there are zeros.
pub(crate) struct Bytes<'a>(&'a [u8]);

impl<'a> Bytes<'a> {
    pub(crate) fn new(data: &'a [u8]) -> Self {
        Self(data)
    }

    fn byte(&mut self) -> u8 {
        let Some((byte, rest)) = self.0.split_first() else { return 0 };
        self.0 = rest;
        *byte
    }

    fn number(&mut self) -> u64 {
        (0..8).fold(0, |number, _| number << 8 | u64::from(self.byte()))
    }

    fn choice<T: Copy, const N: usize>(&mut self, choices: [T; N]) -> T {
        choices[usize::from(self.byte()) % N]
    }

    /// Durations of every magnitude, and those that mean something.
    fn duration(&mut self) -> Duration {
        match self.byte() % 6 {
            0 => Duration::ZERO,
            1 => Duration::MAX,
            2 => Duration::from_millis(u64::from(self.byte()) * 100),
            3 => Duration::from_secs(u64::from(self.byte()) * 60),
            4 => Duration::from_nanos(self.number()),
            _ => Duration::from_secs(self.number()),
        }
    }

    fn status(&mut self) -> StatusCode {
        let usual = [200, 201, 408, 409, 425, 429, 500, 502, 503, 504];
        let code = match self.byte() {
            usual_one if usual_one < 200 => usual[usize::from(usual_one) % usual.len()],
            _ => 100 + (self.number() % 900) as u16, // below 1000 by the modulus
        };
        StatusCode::from_u16(code).unwrap_or(StatusCode::OK)
    }

    fn small(&mut self) -> u32 {
        match self.byte() {
            255 => u32::MAX,
            few => u32::from(few % 8),
        }
    }

    fn draw(&mut self) -> Draw {
        match self.byte() % 4 {
            0 => Draw::LEAST,
            1 => Draw::HALF,
            2 => Draw::GREATEST,
            _ => Draw::new(self.number()),
        }
    }

    fn backoff(&mut self) -> Backoff {
        Backoff::doubling(self.duration(), self.duration()).with_jitter(self.choice([Jitter::Full, Jitter::Equal, Jitter::None]))
    }

    pub(crate) fn policy(&mut self) -> RetryPolicy {
        match self.byte() % 4 {
            0 => RetryPolicy::DEFAULT,
            1 => RetryPolicy::ARTICLE,
            _ => RetryPolicy::DEFAULT
                .with_attempts(self.small())
                .with_backoff(self.backoff())
                .with_throttle_backoff(self.backoff())
                .with_window(self.duration())
                .with_least_attempt(self.duration())
                .with_statuses(self.choice([RetryStatuses::DEFAULT, RetryStatuses::NONE, RetryStatuses::THROTTLING]).with(self.status()))
                .with_hint_spread(self.choice([HintSpread::Exact, HintSpread::Jittered]))
                .with_unreadable_hint(self.choice([UnreadableHint::Stop, UnreadableHint::UseBackoff])),
        }
    }

    pub(crate) fn effect(&mut self) -> Effect {
        match self.byte() % 6 {
            0 => Effect::Read,
            1 => Effect::IdempotentWrite,
            2 => Effect::KeyedWrite { remembered_for: self.duration(), lapsed: self.choice([Lapsed::Stop, Lapsed::Probe]) },
            3 => Effect::ProbedWrite,
            4 => Effect::UnprotectedWrite,
            _ => Effect::NeverResend,
        }
    }

    fn signal(&mut self) -> Signal {
        match self.byte() % 11 {
            0 => Signal::Answered(self.status()),
            1 => Signal::Final(self.status()),
            2 => Signal::Resendable(self.status()),
            3 => Signal::KeyInUse,
            4 => Signal::Failed,
            5 => Signal::Broken,
            6 => Signal::BodyLost(self.status()),
            7 => Signal::Forbidden,
            8 => Signal::Overloaded(self.status()),
            9 => Signal::ProbedAbsent,
            _ => Signal::SentBefore,
        }
    }

    pub(crate) fn situation(&mut self) -> Situation {
        Situation::new(self.effect(), self.signal(), self.choice([Evidence::Unprocessed, Evidence::Unknown]))
            .with_hint(self.hint())
            .with_sends(self.small())
            .with_probes(self.small())
            .with_earlier_probes(self.small())
            .with_elapsed(self.duration())
            .with_key_age(self.duration())
            .with_time_left(self.duration())
            .with_body(self.choice([BodySupply::Replayable, BodySupply::Consumed]))
            .with_draw(self.draw())
            .with_attempt_limit(self.duration())
    }

    fn hint(&mut self) -> Option<Result<Duration, InvalidHint>> {
        match self.byte() % 3 {
            0 => None,
            1 => Some(Ok(self.duration())),
            // Nobody outside can make the error but by an unreadable hint.
            _ => Hint::parse(
                &[(http::header::RETRY_AFTER, http::HeaderValue::from_static("soon"))].into_iter().collect(),
                std::time::UNIX_EPOCH,
            ),
        }
    }
}
