//! What an observer wrote down: a situation as JSON, read back, leads to the same decision.

use reqwest_safe_retry::policy::{RetryPolicy, Situation};

use super::situations::Bytes;

/// Input: a situation as JSON; what is no JSON is a policy and a situation, as [`Bytes`] reads them.
pub fn check(data: &[u8]) {
    let mut bytes = Bytes::new(data);
    match serde_json::from_slice(data) {
        Ok(situation) => [RetryPolicy::DEFAULT, RetryPolicy::ARTICLE].iter().for_each(|policy| replays(policy, &situation)),
        Err(_) => replays(&bytes.policy(), &bytes.situation()),
    }
}

fn replays(policy: &RetryPolicy, situation: &Situation) {
    let written = json(situation);
    let read: Situation = serde_json::from_str(&written).unwrap_or_else(|error| panic!("{error}: {written}"));
    assert_eq!(&read, situation, "{written}");
    let (now, then) = (policy.decide(&read), policy.decide(situation));
    assert_eq!(json(&now), json(&then), "{written}");
}

fn json(value: &impl serde::Serialize) -> String {
    serde_json::to_string(value).unwrap_or_else(|error| panic!("cannot be written down: {error}"))
}
