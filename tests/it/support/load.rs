//! A load for a budget.

use std::time::{Duration, Instant};

use reqwest_safe_retry::policy::TokenBucket;

/// Operations at an even rate, of which some fail each time they are sent, with at most three
/// sends.
pub(crate) struct Load {
    pub(crate) per_second: u32,
    pub(crate) operations: u32,
    pub(crate) failing_percent: u32,
}

impl Load {
    /// Every request of it, and the time it took.
    pub(crate) fn run(&self, bucket: &mut TokenBucket, start: Instant) -> (u64, Instant) {
        let mut now = start;
        let mut requests = 0;
        for operation in 0..self.operations {
            now = start + Duration::from_secs(1) * operation / self.per_second;
            bucket.deposit(now);
            requests += 1;
            for _resend in 0..2 {
                // A fixed pattern over the requests: 37 and 100 have no common factor.
                let failed = requests * 37 % 100 < u64::from(self.failing_percent);
                if !failed || bucket.withdraw(now).is_none() {
                    break;
                }
                requests += 1;
            }
        }
        (requests, now)
    }
}
