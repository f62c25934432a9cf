//! Percentiles of times, in little memory.
//!
//! Logarithmic buckets, four to a doubling, so a percentile is right to within
//! a quarter; the maximum is exact. The array reaches only as far as the largest
//! value seen, so a queue whose times are all short costs some hundred bytes.

/// Buckets to a doubling: 2 bits after the leading one.
const SUB_BITS: u32 = 2;

/// A count of times by size, in microseconds.
#[derive(Clone, Debug, Default)]
pub struct Histogram {
    /// Counts by bucket.
    buckets: Vec<u32>,
    /// The largest time.
    max: u64,
    /// How many times.
    total: u64,
}

/// The bucket of a time.
const fn bucket_of(us: u64) -> usize {
    if us < 1 << SUB_BITS {
        return us as usize;
    }
    let exponent = us.ilog2();
    let sub = (us >> (exponent - SUB_BITS)) & ((1 << SUB_BITS) - 1);
    (((exponent - SUB_BITS + 1) as usize) << SUB_BITS) | sub as usize
}

/// The largest time of a bucket.
const fn top_of(bucket: usize) -> u64 {
    if bucket < 1 << SUB_BITS {
        return bucket as u64;
    }
    let shift = (bucket >> SUB_BITS) as u32 - 1;
    let sub = (bucket & ((1 << SUB_BITS) - 1)) as u64;
    let low = ((1 << SUB_BITS) | sub) << shift;
    low + ((1 << shift) - 1)
}

impl Histogram {
    /// Counts a time. O(1).
    pub fn record(&mut self, us: u64) {
        // About 142 years; larger values are counted as this.
        let us = us.min(1 << 52);
        let bucket = bucket_of(us);
        if bucket >= self.buckets.len() {
            self.buckets.reserve_exact(bucket + 1 - self.buckets.len());
            self.buckets.resize(bucket + 1, 0);
        }
        if let Some(count) = self.buckets.get_mut(bucket) {
            *count = count.saturating_add(1);
        }
        self.max = self.max.max(us);
        self.total = self.total.saturating_add(1);
    }

    /// The time in milliseconds that a share of `percent` of all times does not
    /// pass, 0 when none was counted. At most 25 % too large, never above
    /// [`Histogram::max_ms`].
    pub fn percentile_ms(&self, percent: u64) -> f64 {
        let rank = (self.total.saturating_mul(percent)).div_ceil(100).max(1);
        let mut seen = 0_u64;
        for (bucket, count) in self.buckets.iter().enumerate() {
            seen += u64::from(*count);
            if seen >= rank {
                return ms(top_of(bucket).min(self.max));
            }
        }
        0.0
    }

    /// The largest time in milliseconds, 0 when none was counted.
    pub fn max_ms(&self) -> f64 {
        ms(self.max)
    }

    /// Heap bytes.
    pub fn bytes(&self) -> usize {
        self.buckets.capacity() * size_of::<u32>()
    }

    /// Adds the counts of another histogram.
    pub fn add(&mut self, other: &Self) {
        if self.buckets.len() < other.buckets.len() {
            self.buckets.resize(other.buckets.len(), 0);
        }
        for (mine, theirs) in self.buckets.iter_mut().zip(&other.buckets) {
            *mine = mine.saturating_add(*theirs);
        }
        self.max = self.max.max(other.max);
        self.total = self.total.saturating_add(other.total);
    }
}

/// Microseconds as milliseconds.
#[allow(clippy::cast_precision_loss, reason = "values are at most 2^52")]
fn ms(us: u64) -> f64 {
    us as f64 / 1000.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_join_without_gap() {
        let mut last = 0;
        for us in (0..5000).chain((13..52).flat_map(|e| [(1 << e) - 1, 1 << e, (1 << e) + 1])) {
            let bucket = bucket_of(us);
            assert!(bucket == last || bucket == last + 1 || us >= 4096, "{us}");
            assert!(top_of(bucket) >= us, "{us}");
            assert!(bucket == 0 || top_of(bucket - 1) < us, "{us}");
            last = bucket;
        }
    }

    #[test]
    fn percentiles_are_right_to_a_quarter() {
        let mut histogram = Histogram::default();
        assert!(histogram.percentile_ms(50).abs() < 1e-9);
        for us in 1..=10_000 {
            histogram.record(us);
        }
        let (p50, p99) = (histogram.percentile_ms(50), histogram.percentile_ms(99));
        assert!((5.0..=6.25).contains(&p50), "{p50}");
        assert!((9.9..=10.0).contains(&p99), "{p99}");
        assert!((histogram.max_ms() - 10.0).abs() < 1e-9);
    }
}
