//! The article's own function, run on 400 inputs: `RetryPolicy::ARTICLE` decides the same.

use std::time::Duration;

use http::{Method, StatusCode};
use reqwest_safe_retry::policy::{
    Backoff, Decision, Draw, Effect, Evidence, HintSpread, Lapsed, RetryPolicy, Signal, Situation, StopReason,
};
use serde_json::Value;

const LONG: Duration = Duration::from_secs(365 * 24 * 60 * 60);

struct Row<'a>(&'a Value);

impl Row<'_> {
    fn text(&self, name: &str) -> &str {
        self.0["input"][name].as_str().unwrap()
    }

    fn number(&self, name: &str) -> u64 {
        self.0["input"][name].as_u64().unwrap()
    }

    fn millis(&self, name: &str) -> Duration {
        Duration::from_millis(self.number(name))
    }

    fn says(&self, name: &str) -> bool {
        self.0["input"][name].as_bool().unwrap()
    }

    fn effect(&self) -> Effect {
        let of_method = Effect::of_method(&Method::from_bytes(self.text("method").as_bytes()).unwrap());
        match (of_method, self.says("idempotencyKey"), self.says("statusEndpoint")) {
            (Effect::UnprotectedWrite, true, _) => Effect::KeyedWrite { remembered_for: LONG, lapsed: Lapsed::Stop },
            (Effect::UnprotectedWrite, false, true) => Effect::ProbedWrite,
            (effect, _, _) => effect,
        }
    }

    fn signal(&self) -> Signal {
        match self.0["input"]["status"].as_u64() {
            _ if self.says("transportError") => Signal::Failed,
            Some(status) => Signal::Answered(StatusCode::from_u16(u16::try_from(status).unwrap()).unwrap()),
            None => Signal::Answered(StatusCode::OK),
        }
    }

    fn draw(&self) -> Draw {
        let unit = self.0["input"]["randomUnit"].as_f64().unwrap();
        if unit >= 1.0 { Draw::GREATEST } else { Draw::new((unit * 2_f64.powi(64)) as u64) }
    }

    fn policy(&self) -> RetryPolicy {
        let attempts = u32::try_from(self.number("maxAttempts")).unwrap() + 1;
        let backoff = Backoff::doubling(self.millis("baseMs"), self.millis("capMs"));
        RetryPolicy::ARTICLE
            .with_attempts(attempts)
            .with_backoff(backoff)
            .with_throttle_backoff(backoff)
            .with_hint_spread(HintSpread::Exact)
    }

    fn situation(&self) -> Situation {
        let left = self.0["input"]["deadlineMs"].as_i64().unwrap() - self.0["input"]["nowMs"].as_i64().unwrap();
        Situation::new(self.effect(), self.signal(), Evidence::Unknown)
            .with_sends(u32::try_from(self.number("attempt")).unwrap() + 1)
            .with_time_left(Duration::from_millis(u64::try_from(left).unwrap_or(0)))
            .with_hint(self.0["input"]["retryAfterMs"].as_u64().map(|wait| Ok(Duration::from_millis(wait))))
            .with_draw(self.draw())
    }

    /// What the article's function would say of our decision; `None` where its pause lies within
    /// the millisecond that it floors away.
    fn disagreement(&self) -> Option<String> {
        let decision = self.policy().decide(&self.situation());
        let wanted = &self.0["expected"];
        let agreed = match (&decision, wanted["retry"].as_bool().unwrap(), wanted["reason"].as_str()) {
            (Decision::Resend(permit), true, _) => {
                self.is_wanted(permit.pause(), "delayMs") && self.is_wanted(permit.backoff(), "backoffMs")
            }
            (Decision::Probe(pause), true, _) => self.effect() == Effect::ProbedWrite && self.is_wanted(*pause, "delayMs"),
            (Decision::Return, false, Some("not-transient")) => true,
            // The one wanted difference: a final status of an unprotected write is its answer.
            (Decision::Return, false, Some("unknown-result")) => {
                self.effect() == Effect::UnprotectedWrite && self.signal() != Signal::Failed
            }
            (Decision::Stop(StopReason::MayHaveHappened), false, Some("unknown-result")) => true,
            (Decision::Stop(StopReason::AttemptsSpent), false, Some("max-attempts")) => true,
            (Decision::Stop(StopReason::DeadlineTooNear), false, Some("deadline-exhausted")) => true,
            _ => false,
        };
        (!agreed).then(|| format!("{decision:?} for {}", self.0))
    }

    /// Within a millisecond: the article's function floors to whole ones.
    fn is_wanted(&self, pause: Duration, field: &str) -> bool {
        let wanted = Duration::from_secs_f64(self.0["expected"][field].as_f64().unwrap() / 1000.0);
        pause.abs_diff(wanted) <= Duration::from_millis(1)
    }
}

#[test]
fn the_article_policy_decides_as_the_article() {
    let rows: Vec<Value> = serde_json::from_str(include_str!("../../data/plan_retry.json")).unwrap();
    let wrong: Vec<_> = rows.iter().filter_map(|row| Row(row).disagreement()).collect();
    assert_eq!(rows.len(), 400);
    assert!(wrong.is_empty(), "{} rows differ:\n{}", wrong.len(), wrong.join("\n"));
}
