//! A multiset of moments, counted by second: how many have passed, and the first.
//!
//! What is ahead is kept to the millisecond, so that the count is exact at any moment.
//! A second that is over as a whole becomes one entry, under its last millisecond: so a
//! million moments of one hour take 3,600 entries at most, and one that has passed reads
//! as up to a second younger than it is, never as older.
//!
//! ```text
//!   over:  [11.999]×80,000  [12.999]×3     under way, ahead:  [13.204]×1  [13.711]×2  [40.500]×1
//!                                                                     ▲ until: 3 more than those over
//! ```
//!
//! How many have passed is a sum that [`Seconds::advance`] moves on, also back: after a
//! step back of the clock the seconds that were over are ahead again, as a whole.

use std::collections::BTreeMap;

use super::memory::allocated;

/// Milliseconds of a second.
const SECOND_MS: u64 = 1_000;

/// Moments, and how many of them have passed. Moments are milliseconds, up to 2^48.
#[derive(Clone, Debug, Default)]
pub struct Seconds {
    /// How many there are of each moment, or of a second under its last millisecond.
    counts: BTreeMap<u64, u32>,
    /// The moment up to which they are summed.
    until: u64,
    /// How many are at `until` or before.
    passed: u64,
}

/// The last millisecond of the second of a moment.
pub const fn second_end(at: u64) -> u64 {
    at / SECOND_MS * SECOND_MS + (SECOND_MS - 1)
}

impl Seconds {
    /// Nothing counted. No heap.
    pub const fn new() -> Self {
        Self {
            counts: BTreeMap::new(),
            until: 0,
            passed: 0,
        }
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.counts.is_empty()
    }

    /// The moment up to which they are summed.
    pub const fn until(&self) -> u64 {
        self.until
    }

    /// How many have passed at [`Seconds::until`]. O(1).
    pub const fn passed(&self) -> u64 {
        self.passed
    }

    /// How many have passed at `now`. O(log n), and as many entries as lie between
    /// that and [`Seconds::until`].
    pub fn count(&self, now: u64) -> u64 {
        if now >= self.until {
            self.passed + self.between(self.until, now)
        } else {
            self.passed.saturating_sub(self.between(now, self.until))
        }
    }

    /// The first moment of all, rounded up to the end of its second where that is over.
    /// O(log n).
    pub fn first(&self) -> Option<u64> {
        self.counts.first_key_value().map(|(at, _)| *at)
    }

    /// The first moment after `now`. O(log n).
    pub fn first_after(&self, now: u64) -> Option<u64> {
        let from = now.checked_add(1)?;
        self.counts.range(from..).next().map(|(at, _)| *at)
    }

    /// Counts a moment. O(log n).
    pub fn add(&mut self, at: u64) {
        let end = second_end(at);
        let key = if end <= self.until { end } else { at };
        let count = self.counts.entry(key).or_default();
        *count = count.saturating_add(1);
        if key <= self.until {
            self.passed += 1;
        }
    }

    /// Counts a moment no more, that was counted before. O(log n).
    pub fn remove(&mut self, at: u64) {
        let end = second_end(at);
        // Of a second that was over before the clock was set back, and is not now, only
        // the end may be known.
        let is_known = end > self.until && self.counts.contains_key(&at);
        let key = if is_known { at } else { end };
        let Some(count) = self.counts.get_mut(&key) else {
            debug_assert!(false, "a moment that was not counted: {at}");
            return;
        };
        *count -= 1;
        if *count == 0 {
            self.counts.remove(&key);
        }
        if key <= self.until {
            self.passed = self.passed.saturating_sub(1);
        }
    }

    /// Sums up to `now`, whether that is later or earlier than before. O(log n) for each
    /// entry between; each is gathered into its second once.
    pub fn advance(&mut self, now: u64) {
        self.passed = self.count(now);
        // A second is over with its last millisecond.
        let seconds = |at: u64| at.saturating_add(1) / SECOND_MS;
        let (before, over) = (seconds(self.until), seconds(now));
        self.until = now;
        if before >= over || self.counts.is_empty() {
            return;
        }
        let late = self
            .counts
            .range(before * SECOND_MS..over * SECOND_MS)
            .filter(|(at, _)| **at != second_end(**at));
        let single: Vec<(u64, u32)> = late.map(|(at, count)| (*at, *count)).collect();
        for (at, count) in single {
            self.counts.remove(&at);
            let all = self.counts.entry(second_end(at)).or_default();
            *all = all.saturating_add(count);
        }
    }

    /// Heap bytes, as an allocator rounds them up: exact up to 11 entries, beyond that
    /// about, for the nodes of the map are between half full and full. O(1).
    pub fn bytes(&self) -> usize {
        /// The entries of a node, its parent, its place there, its length.
        const LEAF: usize = allocated(11 * (8 + 4) + 8 + 4);
        /// A node that is not the last has 12 more pointers.
        const INNER: usize = allocated(11 * (8 + 4) + 8 + 4 + 12 * 8);
        match self.counts.len() {
            0 => 0,
            1..=11 => LEAF,
            many => many.div_ceil(7) * LEAF + many.div_ceil(7 * 7) * INNER,
        }
    }

    /// How many moments lie after `from`, up to `to`.
    fn between(&self, from: u64, to: u64) -> u64 {
        let Some(from) = from.checked_add(1).filter(|from| *from <= to) else {
            return 0;
        };
        let counts = self.counts.range(from..=to);
        counts.map(|(_, count)| u64::from(*count)).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::{Seconds, second_end};
    use crate::testing::Run;

    #[test]
    fn what_is_ahead_is_told_to_the_millisecond_and_what_is_over_by_the_second() {
        let mut seconds = Seconds::new();
        for at in [1_500, 1_501, 1_501, 2_999, 40_000] {
            seconds.add(at);
        }
        assert_eq!((seconds.passed(), seconds.first()), (0, Some(1_500)));
        let counts: Vec<u64> = [1_499, 1_500, 1_501, 3_000, 40_000]
            .map(|now| seconds.count(now))
            .into();
        assert_eq!(counts, [0, 1, 3, 4, 5]);
        seconds.advance(1_500);
        assert_eq!((seconds.passed(), seconds.first()), (1, Some(1_500)));
        assert_eq!(seconds.first_after(1_500), Some(1_501));
        seconds.advance(2_000);
        assert_eq!((seconds.passed(), seconds.first()), (3, Some(1_999)));
        seconds.add(1_200);
        seconds.remove(1_501);
        assert_eq!((seconds.passed(), seconds.counts.len()), (3, 3));
    }

    #[test]
    fn a_million_of_one_hour_take_an_entry_a_second() {
        let mut seconds = Seconds::new();
        seconds.advance(3_600_000);
        for n in 0..1_000_000_u64 {
            seconds.add(n * 7_919 % 3_600_000);
        }
        assert_eq!((seconds.passed(), seconds.counts.len()), (1_000_000, 3_600));
        assert!(seconds.bytes() < 130_000, "{}", seconds.bytes());
    }

    #[test]
    fn agrees_with_a_list_however_the_clock_goes() {
        let mut run = Run::new();
        for _ in 0..200 {
            let (mut seconds, mut list) = (Seconds::new(), Vec::new());
            let mut now = 100_000_u64;
            for _ in 0..300 {
                match run.random.below(8) {
                    0..=2 => {
                        let at = now - 5_000 + run.random.below(10_000);
                        list.push(at);
                        seconds.add(at);
                    }
                    3 | 4 if !list.is_empty() => {
                        let n = run.random.below(list.len() as u64) as usize;
                        seconds.remove(list.swap_remove(n));
                    }
                    5 => now = now + 2_000 - run.random.below(4_000),
                    _ => now += run.random.below(300),
                }
                seconds.advance(now);
                let count = |until: u64| list.iter().filter(|at| **at <= until).count() as u64;
                // Of the second that is under way a clock that was set back knows less.
                let (least, most) = (count(now / 1_000 * 1_000 - 1), count(second_end(now)));
                let passed = seconds.passed();
                assert!(
                    (least..=most).contains(&passed),
                    "{passed} of {least} to {most}"
                );
                assert_eq!(seconds.count(now + 100_000), list.len() as u64);
                let first = list.iter().min().copied();
                let off = seconds
                    .first()
                    .zip(first)
                    .map(|(found, first)| found - first);
                assert!(off.is_none_or(|off| off < 1_000), "{off:?}");
                assert_eq!(seconds.is_empty(), list.is_empty());
            }
        }
    }
}
