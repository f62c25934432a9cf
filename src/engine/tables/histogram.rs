//! Percentiles of times, in little memory.
//!
//! Logarithmic buckets, four to a doubling, so a percentile is right to within
//! a quarter; the maximum is exact. The array reaches from the smallest to the
//! largest value seen and is made with the first, so a queue without times costs
//! a pointer and one whose times are alike some hundred bytes.

use super::memory::allocated;

/// Buckets to a doubling: 2 bits after the leading one.
const SUB_BITS: u32 = 2;

/// A count of times by size, in microseconds.
#[derive(Clone, Debug, Default)]
pub struct Histogram(Option<Box<Times>>);

/// What was counted.
#[derive(Clone, Debug, Default)]
struct Times {
    /// Counts by bucket, from bucket `first` on.
    buckets: Vec<u32>,
    /// The bucket of the smallest time.
    first: usize,
    /// The largest time.
    max: u64,
    /// How many times.
    total: u64,
}

impl Times {
    /// Adds to the count of a bucket. O(1) but for the few times that it is
    /// beyond those there are.
    fn add(&mut self, bucket: usize, times: u32) {
        if self.buckets.is_empty() {
            self.first = bucket;
        }
        if bucket < self.first {
            let more = self.first - bucket;
            self.buckets.reserve_exact(more);
            self.buckets.splice(0..0, std::iter::repeat_n(0, more));
            self.first = bucket;
        }
        let at = bucket - self.first;
        if at >= self.buckets.len() {
            self.buckets.reserve_exact(at + 1 - self.buckets.len());
            self.buckets.resize(at + 1, 0);
        }
        if let Some(count) = self.buckets.get_mut(at) {
            *count = count.saturating_add(times);
        }
    }
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

/// Larger times, of more than some 142 years, are counted as this.
const US_MAX: u64 = 1 << 52;

/// Whether two times are counted in the same bucket.
pub fn is_one_bucket(one: u64, other: u64) -> bool {
    one == other || bucket_of(one.min(US_MAX)) == bucket_of(other.min(US_MAX))
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
    /// Nothing counted.
    pub const NONE: Self = Self(None);

    /// Counts a time, `count` times over. O(1).
    pub fn record(&mut self, us: u64, count: u32) {
        let us = us.min(US_MAX);
        let times = self.0.get_or_insert_default();
        times.add(bucket_of(us), count);
        times.max = times.max.max(us);
        times.total = times.total.saturating_add(u64::from(count));
    }

    /// The time in milliseconds that a share of `percent` of all times does not
    /// pass, 0 when none was counted. At most 25 % too large, never above
    /// [`Histogram::max_ms`].
    pub fn percentile_ms(&self, percent: u64) -> f64 {
        let Some(times) = &self.0 else { return 0.0 };
        let rank = (times.total.saturating_mul(percent)).div_ceil(100).max(1);
        let mut seen = 0_u64;
        for (bucket, count) in (times.first..).zip(&times.buckets) {
            seen += u64::from(*count);
            if seen >= rank {
                return ms(top_of(bucket).min(times.max));
            }
        }
        0.0
    }

    /// The largest time in milliseconds, 0 when none was counted.
    pub fn max_ms(&self) -> f64 {
        self.0.as_ref().map_or(0.0, |times| ms(times.max))
    }

    /// Heap bytes, as an allocator rounds them up.
    pub fn bytes(&self) -> usize {
        self.0.as_ref().map_or(0, |times| {
            allocated(size_of::<Times>()) + allocated(times.buckets.capacity() * size_of::<u32>())
        })
    }

    /// Adds the counts of another histogram.
    pub fn add(&mut self, other: &Self) {
        let Some(theirs) = &other.0 else { return };
        let mine = self.0.get_or_insert_default();
        for (bucket, count) in (theirs.first..).zip(&theirs.buckets) {
            mine.add(bucket, *count);
        }
        mine.max = mine.max.max(theirs.max);
        mine.total = mine.total.saturating_add(theirs.total);
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
            histogram.record(us, 1);
        }
        let (p50, p99) = (histogram.percentile_ms(50), histogram.percentile_ms(99));
        assert!((5.0..=6.25).contains(&p50), "{p50}");
        assert!((9.9..=10.0).contains(&p99), "{p99}");
        assert!((histogram.max_ms() - 10.0).abs() < 1e-9);
    }

    #[test]
    fn the_buckets_reach_from_the_smallest_to_the_largest_time() {
        let mut histogram = Histogram::default();
        assert_eq!(histogram.bytes(), 0);
        histogram.record(60_000_000, 1);
        assert_eq!(histogram.bytes(), 48 + 16);
        let mut sum = Histogram::default();
        for us in [50_000_000, 70_000_000, 60_000_000, 1] {
            histogram.record(us, 1);
            sum.add(&histogram);
        }
        assert!((histogram.percentile_ms(20) - 0.001).abs() < 1e-9);
        assert!((60_000.0..=70_000.0).contains(&histogram.percentile_ms(80)));
        assert!((sum.max_ms() - 70_000.0).abs() < 1e-9);
        assert!((50_000.0..=62_500.0).contains(&sum.percentile_ms(30)));
    }
}
