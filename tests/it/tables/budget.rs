//! Budgets against the tables of other systems (`data/retry_budgets.json` names its sources) and in
//! outages.

#![expect(clippy::disallowed_methods, reason = "an instant to count from; nothing here lets time pass")]

use std::time::{Duration, Instant};

use reqwest_safe_retry::policy::{AdaptiveLimits, AdaptiveThrottle, BudgetLimits, Draw, TokenBucket};
use serde_json::Value;

use crate::support::load::Load;

fn vectors(pointer: &str) -> Value {
    let mut file: Value = serde_json::from_str(include_str!("../../data/retry_budgets.json")).unwrap();
    file.pointer_mut(pointer).unwrap().take()
}

fn table(pointer: &str) -> Vec<Value> {
    vectors(pointer).as_array().unwrap().clone()
}

fn number(row: &Value, name: &str) -> u32 {
    row[name].as_u64().and_then(|number| number.try_into().ok()).unwrap_or_else(|| panic!("{name} in {row}"))
}

/// Their "percent" is a ratio.
fn share(row: &Value) -> BudgetLimits {
    BudgetLimits::per_million((row["percent"].as_f64().unwrap() * 1e6).round() as u32)
}

/// A reserve for `ttl` seconds, as Finagle and tower have it.
fn limits(row: &Value) -> BudgetLimits {
    let (ttl, per_second) = (number(row, "ttl_s"), number(row, "min_per_s"));
    share(row).with_reserve(ttl * per_second, per_second).with_memory(Duration::from_secs(ttl.into()))
}

/// With the clock frozen: deposit once, then withdraw once if possible, over and over.
fn granted(limits: BudgetLimits, operations: u32) -> u32 {
    let now = Instant::now();
    let mut bucket = TokenBucket::new(limits, now);
    (0..operations)
        .map(|_| {
            bucket.deposit(now);
            u32::from(bucket.withdraw(now).is_some())
        })
        .sum()
}

// ===== tables =====

#[test]
fn finagle_grants_the_same_number() {
    for row in table("/finagle/cases") {
        let (ours, theirs) = (granted(limits(&row), 10_000), number(&row, "allowed"));
        assert!(ours.abs_diff(theirs) <= number(&row, "tolerance"), "{ours} for {row}");
    }
}

#[test]
fn finagle_saves_the_same_balance() {
    let row = vectors("/finagle/deposit_all_first");
    let now = Instant::now();
    let mut bucket = TokenBucket::new(share(&row).with_reserve(0, 0), now);
    (0..number(&row, "deposits")).for_each(|_| bucket.deposit(now));
    assert_eq!(bucket.balance(now), u64::from(number(&row, "balance")));
}

#[test]
fn tower_forgets_and_remembers_the_same_deposits() {
    for row in table("/tower/cases") {
        let (deposits, withdrawn_at): (&[u64], u64) = match row["name"].as_str().unwrap() {
            "empty" | "reserve 5/s" => (&[], 0),
            "leaky: deposit, wait 3 s" => (&[0], 3000),
            "two deposits, 901 ms later" => (&[0, 0], 901),
            "deposits at 0, 301, 1102 ms: first expired, 2nd+3rd suffice" => (&[0, 301, 1102], 1102),
            unknown => panic!("a new row: {unknown}"),
        };
        let start = Instant::now();
        let mut bucket = TokenBucket::new(limits(&row), start);
        deposits.iter().for_each(|millis| bucket.deposit(start + Duration::from_millis(*millis)));
        let balance = bucket.balance(start + Duration::from_millis(withdrawn_at));
        match row["withdraw"].as_bool() {
            Some(granted) => assert_eq!(balance, u64::from(granted), "{row}"),
            None => assert_eq!(balance, u64::from(number(&row, "withdrawals")), "{row}"),
        }
    }
}

#[test]
fn a_share_is_exact_where_tower_rounds_it_up() {
    for row in table("/tower/defect_measured_here/rows") {
        let exact = share(&row).share() / 100; // of 10 000 operations
        assert!(number(&row, "allowed") >= exact);
        assert_eq!(granted(share(&row).with_reserve(0, 0), 10_000), exact, "{row}");
    }
}

#[test]
fn every_share_grants_what_it_says() {
    for percent in [10, 20, 30, 60, 90, 150_u16] {
        let now = Instant::now();
        let mut bucket = TokenBucket::new(BudgetLimits::percent(percent).with_reserve(0, 0), now);
        (0..1_000).for_each(|_| bucket.deposit(now));
        assert_eq!(bucket.balance(now), u64::from(percent) * 10, "{percent} %");
    }
}

/// Draws just below and exactly at the probability tell both counts of the formula, without looking
/// inside.
fn assert_refuses_below(throttle: &AdaptiveThrottle, requests: u32, accepts: u32, now: Instant) {
    let excess = u128::from(requests.saturating_sub(2 * accepts));
    let bound = (excess << 64).div_ceil(u128::from(requests) + 1) as u64;
    assert!(throttle.clone().withdraw(now, Draw::new(bound)).is_some(), "{requests} requests, {accepts} accepted");
    if let Some(below) = bound.checked_sub(1) {
        assert!(throttle.clone().withdraw(now, Draw::new(below)).is_none(), "{requests} requests, {accepts} accepted");
    }
}

#[test]
fn adaptive_limits_are_what_they_were_given() {
    let limits = AdaptiveLimits::percent(150).with_window(Duration::from_secs(7));
    assert_eq!((limits.requests_percent(), limits.window()), (150, Duration::from_secs(7)));
    assert_eq!(AdaptiveLimits::percent(200), AdaptiveLimits::DEFAULT);
}

#[test]
fn gax_refuses_by_the_same_chance() {
    let now = Instant::now();
    let mut throttle = AdaptiveThrottle::new(AdaptiveLimits::DEFAULT, now);
    for row in table("/gax/adaptive/steps") {
        match row["event"].as_str().unwrap() {
            "start" => {}
            "retryable failure" => throttle.requested(now),
            "success" | "permanent failure (server answered)" => {
                throttle.requested(now);
                throttle.accepted(now);
            }
            unknown => panic!("a new event: {unknown}"),
        }
        assert_refuses_below(&throttle, number(&row, "requests"), number(&row, "accepts"), now);
    }
}

#[test]
fn gax_refuses_the_same_draws_after_one_failure() {
    for row in table("/gax/adaptive/one_failure") {
        let now = Instant::now();
        let mut throttle = AdaptiveThrottle::new(AdaptiveLimits::DEFAULT, now);
        throttle.requested(now);
        let draw = Draw::new((row["u"].as_f64().unwrap() * 2_f64.powi(64)) as u64);
        assert_eq!(throttle.withdraw(now, draw).is_none(), row["throttle"].as_bool().unwrap(), "{row}");
    }
}

#[test]
fn a_healthy_server_is_never_throttled_not_even_by_the_least_draw() {
    let now = Instant::now();
    let mut throttle = AdaptiveThrottle::new(AdaptiveLimits::DEFAULT, now);
    for _ in 0..1_000 {
        throttle.requested(now);
        throttle.accepted(now);
        assert!(throttle.clone().withdraw(now, Draw::LEAST).is_some());
    }
}

// ===== outages =====

#[test]
fn an_outage_adds_at_most_the_share_the_reserve_and_a_little_time() {
    for failing_percent in [10, 30, 50, 100] {
        for per_second in [1, 7, 100, 10_000] {
            let start = Instant::now();
            let mut bucket = TokenBucket::new(BudgetLimits::DEFAULT, start);
            let (requests, end) = Load { per_second, operations: 10_000, failing_percent }.run(&mut bucket, start);
            let bound = 12_000 + 10 + (end - start).as_secs() + 1;
            assert!(requests <= bound, "{requests} > {bound}: {failing_percent} % of {per_second}/s fail");
        }
    }
}

#[test]
fn rare_faults_are_all_resent() {
    let start = Instant::now();
    let mut bucket = TokenBucket::new(BudgetLimits::DEFAULT, start);
    let (requests, _) = Load { per_second: 100, operations: 10_000, failing_percent: 10 }.run(&mut bucket, start);
    let unlimited = Load { per_second: 100, operations: 10_000, failing_percent: 10 }
        .run(&mut TokenBucket::new(BudgetLimits::UNLIMITED, start), start)
        .0;
    assert_eq!(requests, unlimited);
}

#[test]
fn a_long_success_does_not_save_up_for_a_flood() {
    let start = Instant::now();
    let mut bucket = TokenBucket::new(BudgetLimits::DEFAULT, start);
    let (_, outage) = Load { per_second: 100, operations: 100_000, failing_percent: 0 }.run(&mut bucket, start);
    let (requests, end) = Load { per_second: 100, operations: 6_000, failing_percent: 100 }.run(&mut bucket, outage);
    let just_before = 10 * 100 / 5; // a fifth of ten seconds
    let bound = 7_200 + just_before + 10 + (end - outage).as_secs() + 1;
    assert!(requests <= bound, "{requests} > {bound}");
}

// ===== the handle =====

#[cfg(feature = "middleware")]
mod handle {
    use reqwest_safe_retry::policy::{AdaptiveLimits, BudgetLimits};
    use reqwest_safe_retry::{RetryBudget, ScopeKey};

    #[test]
    fn a_new_budget_has_its_reserve_on_every_origin() {
        let url = "https://api.example/orders".parse().unwrap();
        assert_eq!(RetryBudget::default().balance(&url), 10);
        assert_eq!(RetryBudget::new(BudgetLimits::percent(0).with_reserve(0, 0)).balance(&url), 0);
        assert!(RetryBudget::new(BudgetLimits::UNLIMITED).balance(&url) > 1_000_000_000);
        assert_eq!(RetryBudget::adaptive(AdaptiveLimits::DEFAULT).balance_of(ScopeKey::of("api")), 1);
    }

    #[test]
    fn a_budget_never_prints_what_it_is_kept_for() {
        let budget = RetryBudget::default().scoped_by(|request| ScopeKey::origin(request.url()));
        assert_eq!(format!("{budget:?}"), "RetryBudget { origins: 0 }");
        assert_eq!(format!("{:?}", ScopeKey::of("secret")), "ScopeKey(..)");
    }
}
