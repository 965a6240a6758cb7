//! Durations, counted in buckets: a million of them take no more room than ten.

use std::time::Duration;

/// 16 buckets for each doubling of a microsecond, so that a quantile is exact to 1/16.
const STEPS: u32 = 16;
const BUCKETS: usize = 40 * STEPS as usize;

pub(crate) struct Histogram {
    counts: Vec<u64>,
    most: Duration,
}

impl Histogram {
    pub(crate) fn new() -> Self {
        Self { counts: vec![0; BUCKETS], most: Duration::ZERO }
    }

    pub(crate) fn add(&mut self, duration: Duration) {
        let bucket = bucket(duration).min(BUCKETS - 1);
        self.counts[bucket] += 1;
        self.most = self.most.max(duration);
    }

    pub(crate) fn count(&self) -> u64 {
        self.counts.iter().sum()
    }

    pub(crate) const fn most(&self) -> Duration {
        self.most
    }

    /// What so many percent do not exceed.
    pub(crate) fn percentile(&self, percent: u64) -> Duration {
        let wanted = (self.count() * percent).div_ceil(100);
        let mut seen = 0;
        for (bucket, count) in self.counts.iter().enumerate() {
            seen += count;
            if seen >= wanted && *count > 0 {
                return upper_end(bucket).min(self.most);
            }
        }
        Duration::ZERO
    }
}

fn bucket(duration: Duration) -> usize {
    let micros = u64::try_from(duration.as_micros()).unwrap_or(u64::MAX).max(1);
    let doubling = micros.ilog2();
    let step = ((micros - (1 << doubling)) * u64::from(STEPS)) >> doubling;
    (doubling * STEPS) as usize + usize::try_from(step).unwrap_or_default()
}

fn upper_end(bucket: usize) -> Duration {
    let (doubling, step) = (bucket / STEPS as usize, bucket % STEPS as usize);
    let base = 1_u64 << doubling.min(62);
    Duration::from_micros(base + base / u64::from(STEPS) * (step as u64 + 1))
}
