//! What no load gets out of a budget.

#![expect(clippy::disallowed_methods, reason = "an instant to count from; nothing here lets time pass")]

use std::time::Instant;

use proptest::prelude::*;
use reqwest_safe_retry::policy::{BudgetLimits, TokenBucket};

use crate::support::load::Load;

proptest! {
    #[test]
    fn no_load_spends_more_than_the_bound(
        percent in 0..200_u16, reserve in 0..50_u32, refill in 0..50_u32,
        per_second in 1..2_000_u32, operations in 1..3_000_u32, failing_percent in 0..=100_u32,
    ) {
        let start = Instant::now();
        let mut bucket = TokenBucket::new(BudgetLimits::percent(percent).with_reserve(reserve, refill), start);
        let (requests, end) = Load { per_second, operations, failing_percent }.run(&mut bucket, start);
        let resends = requests - u64::from(operations);
        let time = (end - start).as_micros() as u64 * u64::from(refill);
        let bound = u64::from(percent) * 10_000 * u64::from(operations) + u64::from(reserve) * 1_000_000 + time;
        prop_assert!(resends * 1_000_000 <= bound, "{resends} resends");
    }
}
