//! How long things took: percentiles since the start, and of the last minute.
//!
//! The last minute is cut into slices of ten seconds of the monotonic clock, six and the
//! one under way. So a time counts for 60 s at least and for less than 70 s. A slice is
//! made with its first time; those that are over go with the next time that is counted,
//! or when [`Queue::take_stock`](super::Queue::take_stock) comes by. Slices begin at the
//! same moments everywhere in a process, so those of many queues could be added.

use super::tables::buckets::{Buckets, bound_of};
use super::tables::histogram::{Histogram, is_one_bucket};
use super::tables::memory::allocated;
use crate::words::time::Now;

/// The length of a slice, microseconds.
const SLICE_US: u64 = 10_000_000;
/// How many slices before the one under way count as the last minute.
const SLICES: u32 = 6;
/// After so many milliseconds nothing counts as of the last minute any more.
pub const MINUTE_MS: u64 = (SLICES as u64 + 1) * SLICE_US / 1_000;

/// What is timed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Timing {
    /// Claimable to announced or claimed, whichever came first.
    Lateness,
    /// Claimable to claimed.
    ClaimWait,
    /// Claim to ACK or FINISH.
    Close,
    /// LOCK asked for to granted.
    LockWait,
    /// Lock granted to its end.
    LockHold,
    /// A deadline that has passed to the ACK or FINISH.
    OverdueClose,
}

/// The names of p50, p99 and maximum of one timing.
macro_rules! names {
    ($name:literal, $end:literal) => {
        [
            concat!($name, "_ms_p50", $end),
            concat!($name, "_ms_p99", $end),
            concat!($name, "_ms_max", $end),
        ]
    };
}

/// A name in STATS and INFO, and its value in milliseconds.
pub type Named = (&'static str, f64);

impl Timing {
    /// All, in the order in which they were added to STATS.
    pub const ALL: [Self; 6] = [
        Self::Lateness,
        Self::ClaimWait,
        Self::Close,
        Self::LockWait,
        Self::LockHold,
        Self::OverdueClose,
    ];

    /// The name that the others begin with.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Lateness => "lateness_ms",
            Self::ClaimWait => "claim_wait_ms",
            Self::Close => "close_ms",
            Self::LockWait => "lock_wait_ms",
            Self::LockHold => "lock_hold_ms",
            Self::OverdueClose => "overdue_close_ms",
        }
    }

    /// Names of the percentiles since the start.
    const fn names(self) -> [&'static str; 3] {
        match self {
            Self::Lateness => names!("lateness", ""),
            Self::ClaimWait => names!("claim_wait", ""),
            Self::Close => names!("close", ""),
            Self::LockWait => names!("lock_wait", ""),
            Self::LockHold => names!("lock_hold", ""),
            Self::OverdueClose => names!("overdue_close", ""),
        }
    }

    /// Names of the percentiles of the last minute.
    const fn minute_names(self) -> [&'static str; 3] {
        match self {
            Self::Lateness => names!("lateness", "_1m"),
            Self::ClaimWait => names!("claim_wait", "_1m"),
            Self::Close => names!("close", "_1m"),
            Self::LockWait => names!("lock_wait", "_1m"),
            Self::LockHold => names!("lock_hold", "_1m"),
            Self::OverdueClose => names!("overdue_close", "_1m"),
        }
    }
}

/// A time that was taken, or several that no histogram tells apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Taken {
    /// How long it took, microseconds; of several, the longest.
    pub us: u64,
    /// Of all of them together, microseconds.
    sum_us: u64,
    /// The slice in which it ended.
    slice: u32,
    /// How many there were.
    count: u32,
    /// The bound of each, see [`bound_of`].
    bound: u8,
    /// What was timed.
    pub timing: Timing,
}

impl Taken {
    /// A time that has ended now.
    pub fn new(timing: Timing, us: u64, now: &Now) -> Self {
        Self {
            us,
            sum_us: us,
            slice: slice_of(now),
            count: 1,
            bound: bound_of(us),
            timing,
        }
    }

    /// Whether a histogram would count both alike. A command on many orders takes
    /// times that are much the same.
    fn is_like(&self, other: &Self) -> bool {
        self.timing == other.timing
            && self.slice == other.slice
            && self.bound == other.bound
            && is_one_bucket(self.us, other.us)
    }

    /// Puts a time into a list: to one like it among the last few, or at its end. O(1).
    pub fn note(self, list: &mut Vec<Self>) {
        let last_few = list.iter_mut().rev().take(Timing::ALL.len());
        for taken in last_few {
            if taken.is_like(&self) {
                taken.us = taken.us.max(self.us);
                taken.sum_us = taken.sum_us.saturating_add(self.sum_us);
                taken.count = taken.count.saturating_add(self.count);
                return;
            }
        }
        list.push(self);
    }
}

/// The slice that is under way.
fn slice_of(now: &Now) -> u32 {
    u32::try_from(now.mono_us / SLICE_US).unwrap_or(u32::MAX)
}

/// The times of one timing in one slice.
#[derive(Clone, Debug)]
struct Recent {
    /// The times.
    times: Histogram,
    /// The slice.
    slice: u32,
    /// What was timed.
    timing: Timing,
}

impl Recent {
    /// Whether it counts as of the last minute while `slice` is under way.
    const fn is_of_minute(&self, slice: u32) -> bool {
        self.slice.saturating_add(SLICES) >= slice
    }
}

/// Times of a queue, or of all queues together. No heap before the first.
#[derive(Clone, Debug, Default)]
pub struct Times {
    /// Since the start, by timing.
    all: [Histogram; Timing::ALL.len()],
    /// Of the last minute, in order of slices; 42 at most.
    recent: Vec<Recent>,
}

impl Times {
    /// None.
    pub const NONE: Self = Self {
        all: [const { Histogram::NONE }; Timing::ALL.len()],
        recent: Vec::new(),
    };

    /// Counts what was taken. O(1).
    pub fn record(&mut self, taken: Taken) {
        let Taken {
            us,
            slice,
            count,
            timing,
            ..
        } = taken;
        if let Some(times) = self.all.get_mut(timing as usize) {
            times.record(us, count);
        }
        if self.recent.last().is_none_or(|last| last.slice < slice) {
            self.recent.retain(|recent| recent.is_of_minute(slice));
        }
        let same = |recent: &&mut Recent| recent.timing == timing && recent.slice == slice;
        if let Some(recent) = self.recent.iter_mut().rev().find(same) {
            return recent.times.record(us, count);
        }
        let mut times = Histogram::NONE;
        times.record(us, count);
        self.recent.push(Recent {
            times,
            slice,
            timing,
        });
    }

    /// Percentiles since the start: p50, p99 and maximum of the `which`, in that order.
    pub fn since_start(&self, which: &[Timing]) -> Vec<Named> {
        let named = |timing: &Timing| {
            let times = self.all.get(*timing as usize).unwrap_or(&Histogram::NONE);
            named(timing.names(), times)
        };
        which.iter().flat_map(named).collect()
    }

    /// Percentiles of the last minute, of all timings. O(the slices of a minute).
    pub fn of_minute(&self, now: &Now) -> Vec<Named> {
        let slice = slice_of(now);
        let named = |timing: Timing| {
            let mut sum = Histogram::NONE;
            for recent in &self.recent {
                if recent.timing == timing && recent.is_of_minute(slice) {
                    sum.add(&recent.times);
                }
            }
            named(timing.minute_names(), &sum)
        };
        Timing::ALL.into_iter().flat_map(named).collect()
    }

    /// Gives back what is no longer of the last minute. O(1).
    pub fn trim(&mut self, now: &Now) {
        let slice = slice_of(now);
        if self
            .recent
            .first()
            .is_none_or(|first| first.is_of_minute(slice))
        {
            return;
        }
        self.recent.retain(|recent| recent.is_of_minute(slice));
        if self.recent.is_empty() {
            self.recent = Vec::new();
        }
    }

    /// In how many milliseconds [`Times::trim`] gives all of the last minute back; `None`
    /// if there is nothing to be given back.
    pub fn trim_in_ms(&self, now: &Now) -> Option<u64> {
        let last = self.recent.last()?.slice;
        let end_us = (u64::from(last) + u64::from(SLICES) + 1).saturating_mul(SLICE_US);
        Some(end_us.saturating_sub(now.mono_us).div_ceil(1_000))
    }

    /// Forgets all times.
    pub fn clear(&mut self) {
        *self = Self::NONE;
    }

    /// Heap bytes, as an allocator rounds them up. O(the slices of a minute).
    pub fn bytes(&self) -> usize {
        let recent = self.recent.iter().map(|recent| recent.times.bytes());
        self.all.iter().map(Histogram::bytes).sum::<usize>()
            + allocated(self.recent.capacity() * size_of::<Recent>())
            + recent.sum::<usize>()
    }
}

/// Times of all queues together by fixed bounds, since the start.
#[derive(Clone, Debug)]
pub struct ByBounds([Buckets; Timing::ALL.len()]);

impl ByBounds {
    /// None.
    pub const NONE: Self = Self([const { Buckets::NONE }; Timing::ALL.len()]);

    /// Counts what was taken. O(1).
    pub fn record(&mut self, taken: &Taken) {
        if let Some(buckets) = self.0.get_mut(taken.timing as usize) {
            buckets.record(taken.bound, taken.count, taken.sum_us);
        }
    }

    /// Each timing with what was counted of it.
    pub fn each(&self) -> impl Iterator<Item = (Timing, &Buckets)> {
        Timing::ALL.into_iter().zip(&self.0)
    }

    /// Forgets all times.
    pub fn clear(&mut self) {
        *self = Self::NONE;
    }
}

/// The figures of one timing under these names.
fn named(names: [&'static str; 3], times: &Histogram) -> [Named; 3] {
    let [p50, p99, max] = names;
    [
        (p50, times.percentile_ms(50)),
        (p99, times.percentile_ms(99)),
        (max, times.max_ms()),
    ]
}
