//! The two clocks, as values.
//!
//! The engine never reads a clock. Whoever calls it reads both clocks once per
//! command or pass and hands them in as [`Now`]. Deadlines, keep ends and pause
//! ends are moments on the wall clock ([`WallMs`]): they are what a shop wrote
//! down. Leases and retry waits are lengths of time: while the process lives
//! they end on the monotonic clock ([`MonoMs`]), so that a wall clock that is
//! set back or forward neither stretches nor cuts them. Only wall moments are
//! stored, replicated and shown; [`Now::to_mono`] turns one into a monotonic
//! end when it is applied or loaded.

use serde::{Deserialize, Serialize};

/// The last millisecond of the year 9999, the latest deadline that is accepted.
pub const WALL_MS_MAX: WallMs = WallMs(253_402_300_799_999);

/// The largest moment of either clock, in milliseconds (as wall time the year
/// 10889). Whatever is reckoned from a deadline or a clock stops here, and every
/// reader takes it: 48 bits, less the one value by which a record says "none".
pub const MOMENT_MAX: u64 = (1 << 48) - 2;

/// A moment on the wall clock, in milliseconds since the Unix epoch.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
pub struct WallMs(pub u64);

/// A moment on the monotonic clock, in milliseconds since some start that is
/// the same for the life of the process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MonoMs(pub u64);

/// Both clocks, read once.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Now {
    /// Wall clock, microseconds since the Unix epoch.
    pub wall_us: u64,
    /// Monotonic clock, microseconds since the process's own start.
    pub mono_us: u64,
}

impl Now {
    /// The wall clock rounded down: a deadline is due from this value on.
    pub const fn wall_ms(&self) -> WallMs {
        WallMs(self.wall_us / 1000)
    }

    /// The wall clock rounded up: relative times count from here, so that none
    /// is shorter than asked for.
    pub const fn wall_ms_ceil(&self) -> WallMs {
        WallMs(self.wall_us.div_ceil(1000))
    }

    /// The monotonic clock rounded down: a lease is over from this value on.
    pub const fn mono_ms(&self) -> MonoMs {
        MonoMs(self.mono_us / 1000)
    }

    /// The monotonic clock rounded up: leases count from here.
    pub const fn mono_ms_ceil(&self) -> MonoMs {
        MonoMs(self.mono_us.div_ceil(1000))
    }

    /// Where the stored wall moment `end` lies on the monotonic clock, seen
    /// from now: as far ahead as it is ahead on the wall clock, but `length_ms`
    /// at most, and never before now. The length is that of the lease or wait
    /// which ends there: whatever the wall clock did since it was stored, or on
    /// another server, no more than that can be left. The same `Now` that made
    /// `end` as `wall_ms_ceil() + n` gets exactly `mono_ms_ceil() + n` back.
    pub const fn to_mono(&self, end: WallMs, length_ms: u64) -> MonoMs {
        let ahead = end.0.saturating_sub(self.wall_ms_ceil().0);
        if end.0 <= self.wall_ms().0 || length_ms == 0 {
            // Already over: any moment that has passed says so.
            return MonoMs(0);
        }
        let ahead = if ahead < length_ms { ahead } else { length_ms };
        let end = self.mono_ms_ceil().0.saturating_add(ahead);
        MonoMs(if end < MOMENT_MAX { end } else { MOMENT_MAX })
    }
}

impl WallMs {
    /// Whether the moment has come. This one line decides the boundary for
    /// deadlines, keep ends and pause ends alike.
    pub const fn is_due(self, now: &Now) -> bool {
        self.0 <= now.wall_ms().0
    }

    /// This moment `ms` later, stopping at [`MOMENT_MAX`].
    #[must_use]
    pub const fn plus(self, ms: u64) -> Self {
        let sum = self.0.saturating_add(ms);
        Self(if sum < MOMENT_MAX { sum } else { MOMENT_MAX })
    }

    /// Milliseconds from `since` until this moment: the length of a lease or
    /// wait that ends here. A `since` of 0 is one that nobody knows: no limit.
    pub const fn length_since(self, since: Self) -> u64 {
        if since.0 == 0 {
            return u64::MAX;
        }
        self.0.saturating_sub(since.0)
    }
}

impl MonoMs {
    /// Whether the moment has come: a lease or retry wait that ends here is over.
    pub const fn is_over(self, now: &Now) -> bool {
        self.0 <= now.mono_ms().0
    }

    /// Milliseconds from now until this moment: 0 once it has come, at least 1
    /// before, and exactly `n` for a lease of `n` at the moment of its grant.
    pub const fn left(self, now: &Now) -> u64 {
        if self.is_over(now) {
            return 0;
        }
        let left = self.0.saturating_sub(now.mono_ms_ceil().0);
        if left == 0 { 1 } else { left }
    }
}
