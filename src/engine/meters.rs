//! What a queue counts: totals and times since its key lives in this process.
//! Not ground state: neither saved nor replicated nor digested.

use super::queue::Queue;
use super::tables::lazy::Blank;
use super::times::{MINUTE_MS, Taken, Times, Timing};
use crate::words::time::Now;

/// How many times a queue keeps for [`Queue::take_times`].
const TAKEN_MAX: usize = 1 << 16;

/// Totals and times of a queue.
#[derive(Clone, Debug, Default)]
pub struct Meters {
    /// Orders created or moved. (A queue counts the latest of these by itself.)
    pub scheduled: u64,
    /// Orders finished by FINISH.
    pub finished: u64,
    /// Claims granted.
    pub claimed: u64,
    /// Orders finished by ACK or MACK.
    pub acked: u64,
    /// Claims handed back.
    pub nacked: u64,
    /// Leases that ended without a word from their holder.
    pub lapsed: u64,
    /// Orders that became dead.
    pub dead: u64,
    /// Dead orders dropped because there were too many.
    pub dead_dropped: u64,
    /// Answers STALE.
    pub stale: u64,
    /// CLAIMs that the brake has kept orders back from.
    pub held_back: u64,
    /// LOCKs asked for.
    pub lock_attempts: u64,
    /// LOCKs granted.
    pub lock_acquired: u64,
    /// LOCKs answered BUSY.
    pub lock_busy: u64,
    /// How long things took.
    pub times: Times,
    /// Of which reset of the times these are the ones since.
    pub resets: u32,
}

impl Meters {
    /// Nothing counted.
    const NONE: Self = Self {
        scheduled: 0,
        finished: 0,
        claimed: 0,
        acked: 0,
        nacked: 0,
        lapsed: 0,
        dead: 0,
        dead_dropped: 0,
        stale: 0,
        held_back: 0,
        lock_attempts: 0,
        lock_acquired: 0,
        lock_busy: 0,
        times: Times::NONE,
        resets: 0,
    };
}

impl Blank for Meters {
    fn blank() -> &'static Self {
        static BLANK: Meters = Meters::NONE;
        &BLANK
    }
}

impl Meters {
    /// The totals under their names in STATS and INFO; what was added later stands at the
    /// end of STATS.
    pub fn totals(&self) -> [(&'static str, u64); 12] {
        [
            ("scheduled_total", self.scheduled),
            ("finished_total", self.finished),
            ("claimed_total", self.claimed),
            ("acked_total", self.acked),
            ("nacked_total", self.nacked),
            ("lapsed_total", self.lapsed),
            ("dead_total", self.dead),
            ("dead_dropped_total", self.dead_dropped),
            ("stale_total", self.stale),
            ("lock_attempt_total", self.lock_attempts),
            ("lock_acquired_total", self.lock_acquired),
            ("lock_busy_total", self.lock_busy),
        ]
    }

    /// Heap bytes, as an allocator rounds them up. O(the slices of a minute).
    pub fn bytes(&self) -> usize {
        self.times.bytes()
    }
}

impl Queue {
    /// Dead orders that were dropped, since the queue lives in this process. O(1).
    pub fn dead_dropped(&self) -> u64 {
        self.busy.meters.dead_dropped
    }

    /// What it has counted in all. O(1).
    pub fn totals(&self) -> [(&'static str, u64); 12] {
        let mut totals = self.busy.meters.totals();
        if let Some((_, scheduled)) = totals.first_mut() {
            *scheduled += u64::from(self.scheduled);
        }
        totals
    }

    /// Takes a time that has ended now; [`Queue::take_times`] counts it. O(1).
    pub(super) fn time(&mut self, now: &Now, timing: Timing, us: u64) {
        if self.replaying {
            return;
        }
        let taken = Taken::new(timing, us, now);
        let busy = &mut *self.busy;
        if busy.taken.len() < TAKEN_MAX {
            taken.note(&mut busy.taken);
        } else {
            busy.meters.times.record(taken);
        }
        // For the memory of the minute to be given back.
        self.hint_at(now.wall_ms().plus(MINUTE_MS));
    }

    /// Counts the times that were taken since the last call, and gives them out: for
    /// those of all queues together. Of more than 65,536 different ones the later ones
    /// are not given out. To be called after all that takes times.
    pub fn take_times(&mut self) -> Vec<Taken> {
        if self.busy.made().is_none_or(|busy| busy.taken.is_empty()) {
            return Vec::new();
        }
        let busy = &mut *self.busy;
        for taken in &busy.taken {
            busy.meters.times.record(*taken);
        }
        std::mem::take(&mut busy.taken)
    }

    /// Forgets the times that were taken before there had been so many resets: called
    /// with the same number before and after all that takes times. O(1).
    pub fn reset_times(&mut self, resets: u32) {
        if let Some(meters) = self.busy.made().and_then(|busy| busy.meters.made())
            && meters.resets != resets
        {
            self.busy.meters.times.clear();
            self.busy.meters.resets = resets;
        }
    }

    /// Notes that all times were taken since there had been so many resets. O(1).
    pub fn note_resets(&mut self, resets: u32) {
        if let Some(meters) = self.busy.made().and_then(|busy| busy.meters.made())
            && meters.resets != resets
        {
            self.busy.meters.resets = resets;
        }
    }
}
