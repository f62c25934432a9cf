//! Fences and revs: one number line, a hybrid logical clock.
//!
//! A fence is the number of a lease grant, a rev the number of an order's last
//! write. Both are microseconds since the Unix epoch where the clock allows it
//! and larger where it does not, so they only grow, also over restarts. They end at
//! [`NUMBER_END`], below the 2^53 up to which Lua, PHP and JavaScript count exactly.

/// Numbers at or above this are malformed: 2^52 µs is the year 2112, and
/// everything below 2^53 is exact in a double.
pub const NUMBER_END: u64 = 1 << 52;

/// How far ahead of the wall clock a number from elsewhere (RDB, RESTORE,
/// replication) may pull the server's own numbers: one hour, in microseconds.
pub const FOREIGN_AHEAD_US_MAX: u64 = 3_600_000_000;

/// Numbers further ahead are handed out without a look at each other from here on:
/// 2^40 before the end, so that no queue is led to the end by another one.
const FAR_END: u64 = NUMBER_END - (1 << 40);

/// The server's number generator.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Numbers {
    /// The largest number this server knows to be in use, of those that it follows.
    last: u64,
    /// The largest number known to be in use among those that it does not follow, 0
    /// when there is none, [`FAR_END`] at most. Queues that far ahead of the clock
    /// share it: a queue and its COPY begin with equal floors.
    far: u64,
}

impl Numbers {
    /// A generator that has given out nothing yet.
    pub const fn new() -> Self {
        Self { last: 0, far: 0 }
    }

    /// The largest number known to be in use, 0 when there is none.
    pub const fn last(&self) -> u64 {
        self.last
    }

    /// A number for a lease grant: `max(last + 1, now, floor + 1)`, larger than
    /// every number of the queue and every grant of this server. Where the floor
    /// is one that was not followed when it was learnt, other queues do not follow the
    /// number either, but for those that are as far ahead: there it is above all
    /// that was handed out to any of them, up to [`FAR_END`]. `None` when the number
    /// line is used up (a queue that was restored with a number just below
    /// [`NUMBER_END`]).
    pub fn grant(&mut self, now_us: u64, floor: u64) -> Option<u64> {
        let own = self.last.saturating_add(1).max(now_us);
        let mut number = own.max(floor.saturating_add(1));
        let is_own = number == own;
        if !is_own && is_far(number, now_us) && number <= FAR_END {
            number = number.max(self.far.saturating_add(1));
        }
        if number >= NUMBER_END {
            return None;
        }
        if is_own {
            self.last = number;
        } else {
            // Not followed: other queues would run ahead of the clock by it.
            let _followed = self.learn(number, now_us);
        }
        Some(number)
    }

    /// A number for a plain write to an order whose rev is `order_rev`:
    /// `max(order_rev + 1, last, now)`. Unlike a grant it takes no step of its own,
    /// so a million writes a second do not run ahead of the clock; but what was
    /// given out is known, so that an id that is forgotten and made again (which
    /// takes a number as a grant does) never has a rev twice. `None` as for
    /// [`Numbers::grant`].
    pub fn write(&mut self, now_us: u64, order_rev: u64) -> Option<u64> {
        let number = order_rev.saturating_add(1).max(self.last).max(now_us);
        if number >= NUMBER_END {
            return None;
        }
        // Not followed where the order's own rev is far ahead of the clock.
        let _followed = self.learn(number, now_us);
        Some(number)
    }

    /// Takes note of a number that was given out elsewhere. Returns false when
    /// it is more than [`FOREIGN_AHEAD_US_MAX`] ahead of the clock and is not followed:
    /// then it stays a matter of its queue, whose floor keeps it, and of those that
    /// are as far ahead.
    pub fn learn(&mut self, number: u64, now_us: u64) -> bool {
        if is_far(number, now_us) {
            if number <= FAR_END {
                self.far = self.far.max(number);
            }
            return false;
        }
        self.last = self.last.max(number);
        true
    }

    /// Moves `guard_us` ahead of the clock and of everything known, at start and
    /// promotion: what the server before this one gave out and we never saw lies
    /// below.
    pub fn guard(&mut self, now_us: u64, guard_us: u64) {
        self.last = self.last.max(now_us).saturating_add(guard_us);
        if self.far != 0 {
            self.far = self.far.saturating_add(guard_us).min(FAR_END);
        }
    }
}

/// Whether a number is too far ahead of the clock to be followed.
const fn is_far(number: u64, now_us: u64) -> bool {
    number > now_us.saturating_add(FOREIGN_AHEAD_US_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_floor_far_ahead_is_passed_in_its_queue_alone() {
        let now_us = 1_700_000_000_000_000;
        let far = now_us + FOREIGN_AHEAD_US_MAX + 10;
        let mut numbers = Numbers::new();
        assert!(!numbers.learn(far, now_us));
        assert_eq!(numbers.grant(now_us, far), Some(far + 1));
        assert_eq!(
            numbers.grant(now_us, 0),
            Some(now_us),
            "another queue goes by the clock"
        );
        assert_eq!(numbers.grant(now_us, far + 1), Some(far + 2));
        // A floor that may be followed is.
        let near = now_us + FOREIGN_AHEAD_US_MAX - 10;
        assert_eq!(numbers.grant(now_us, near), Some(near + 1));
        assert_eq!(numbers.grant(now_us, 0), Some(near + 2));
        // And what was given out here counts, however far the clock is set back.
        assert_eq!(numbers.grant(1, 0), Some(near + 3));
        assert_eq!(numbers.grant(1, 0), Some(near + 4));
        assert_eq!(numbers.grant(1, NUMBER_END - 2), Some(NUMBER_END - 1));
        assert_eq!(numbers.grant(1, NUMBER_END - 1), None);
    }
}
