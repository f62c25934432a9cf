//! Counts of times by fixed bounds, which those of several servers can be added to.
//!
//! A [`Histogram`](super::histogram::Histogram) answers percentiles, and percentiles do not
//! add up. These do, because the bounds are the same everywhere: round numbers of
//! milliseconds, from a tenth of one to a day.

/// A bound: its name in milliseconds, and microseconds. A time that is not above it counts.
type Bound = (&'static str, u64);

/// All bounds, upwards. What is above the last counts in `le_inf` alone.
pub const BOUNDS: [Bound; 23] = [
    ("le_0.1", 100),
    ("le_0.25", 250),
    ("le_0.5", 500),
    ("le_1", 1_000),
    ("le_2.5", 2_500),
    ("le_5", 5_000),
    ("le_10", 10_000),
    ("le_25", 25_000),
    ("le_50", 50_000),
    ("le_100", 100_000),
    ("le_250", 250_000),
    ("le_500", 500_000),
    ("le_1000", 1_000_000),
    ("le_2500", 2_500_000),
    ("le_5000", 5_000_000),
    ("le_10000", 10_000_000),
    ("le_30000", 30_000_000),
    ("le_60000", 60_000_000),
    ("le_300000", 300_000_000),
    ("le_900000", 900_000_000),
    ("le_3600000", 3_600_000_000),
    ("le_14400000", 14_400_000_000),
    ("le_86400000", 86_400_000_000),
];

/// The bound of a time: the first that it is not above, or their number. O(log bounds).
pub fn bound_of(us: u64) -> u8 {
    BOUNDS.partition_point(|(_, bound)| *bound < us) as u8
}

/// Counts by bound.
#[derive(Clone, Debug)]
pub struct Buckets {
    /// How many times have each bound; the last: none.
    counts: [u64; BOUNDS.len() + 1],
    /// All times together, microseconds.
    sum_us: u64,
}

impl Buckets {
    /// Nothing counted.
    pub const NONE: Self = Self {
        counts: [0; BOUNDS.len() + 1],
        sum_us: 0,
    };

    /// Counts `count` times of one bound, `sum_us` together. O(1).
    pub fn record(&mut self, bound: u8, count: u32, sum_us: u64) {
        if let Some(counted) = self.counts.get_mut(usize::from(bound)) {
            *counted = counted.saturating_add(u64::from(count));
            self.sum_us = self.sum_us.saturating_add(sum_us);
        }
    }

    /// The name of each bound and how many times are not above it, upwards; the last one
    /// counts all of them.
    pub fn cumulative(&self) -> impl Iterator<Item = (&'static str, u64)> {
        let names = BOUNDS.iter().map(|(name, _)| *name).chain(["le_inf"]);
        names.zip(&self.counts).scan(0_u64, |sum, (name, count)| {
            *sum = sum.saturating_add(*count);
            Some((name, *sum))
        })
    }

    /// All times together, microseconds.
    pub const fn sum_us(&self) -> u64 {
        self.sum_us
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_counts_below_its_bound_and_all_that_are_larger() {
        let mut buckets = Buckets::NONE;
        assert!(buckets.cumulative().all(|(_, count)| count == 0));
        for us in [0, 100, 101, 250, 2_500_000, 2_500_001] {
            buckets.record(bound_of(us), 1, us);
        }
        buckets.record(bound_of(u64::MAX), 3, 7);
        let all: Vec<_> = buckets.cumulative().collect();
        let at = |name| all.iter().find(|(bound, _)| *bound == name).unwrap().1;
        assert_eq!((at("le_0.1"), at("le_0.25"), at("le_1000")), (2, 4, 4));
        assert_eq!((at("le_2500"), at("le_5000")), (5, 6));
        assert_eq!((at("le_86400000"), at("le_inf")), (6, 9));
        assert!(all.is_sorted_by_key(|(_, count)| *count));
        assert_eq!(all.len(), BOUNDS.len() + 1);
        assert_eq!(buckets.sum_us(), 100 + 101 + 250 + 5_000_001 + 7);
    }

    #[test]
    fn a_name_says_the_milliseconds_of_its_bound() {
        for (name, us) in BOUNDS {
            let (ms, part) = (us / 1_000, us % 1_000);
            let said = match part {
                0 => format!("le_{ms}"),
                part => format!("le_{ms}.{part:03}"),
            };
            let said = said.trim_end_matches(if part == 0 { '_' } else { '0' });
            assert_eq!(said, name);
            assert_eq!(BOUNDS[usize::from(bound_of(us))].1, us);
            assert_eq!(bound_of(us) + 1, bound_of(us + 1));
        }
        assert!(BOUNDS.is_sorted_by_key(|(_, us)| *us));
    }

    #[test]
    fn what_it_has_counted_stays_counted_at_the_end_of_numbers() {
        let mut buckets = Buckets::NONE;
        buckets.record(3, 5, u64::MAX - 1);
        buckets.record(3, 5, 9);
        assert_eq!(buckets.sum_us(), u64::MAX);
        assert_eq!(buckets.cumulative().last(), Some(("le_inf", 10)));
    }
}
