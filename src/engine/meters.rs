//! What a queue counts: totals and times since its key lives in this process.
//! Not ground state: neither saved nor replicated nor digested.

use super::queue::Queue;
use super::tables::histogram::Histogram;
use super::tables::lazy::Blank;

/// Totals and times of a queue, or of all queues together.
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
    /// Deadline to announced or claimed, whichever came first.
    pub lateness: Histogram,
    /// Claimable to claimed.
    pub claim_wait: Histogram,
    /// Claim to ACK.
    pub close: Histogram,
    /// LOCK asked for to granted.
    pub lock_wait: Histogram,
    /// Lock granted to its end.
    pub lock_hold: Histogram,
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
        lateness: Histogram::NONE,
        claim_wait: Histogram::NONE,
        close: Histogram::NONE,
        lock_wait: Histogram::NONE,
        lock_hold: Histogram::NONE,
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

    /// The times under their names in STATS and INFO: p50, p99 and maximum in
    /// milliseconds.
    pub fn times(&self) -> [(&'static str, f64); 15] {
        let named = [
            (
                ["lateness_ms_p50", "lateness_ms_p99", "lateness_ms_max"],
                &self.lateness,
            ),
            (
                [
                    "claim_wait_ms_p50",
                    "claim_wait_ms_p99",
                    "claim_wait_ms_max",
                ],
                &self.claim_wait,
            ),
            (
                ["close_ms_p50", "close_ms_p99", "close_ms_max"],
                &self.close,
            ),
            (
                ["lock_wait_ms_p50", "lock_wait_ms_p99", "lock_wait_ms_max"],
                &self.lock_wait,
            ),
            (
                ["lock_hold_ms_p50", "lock_hold_ms_p99", "lock_hold_ms_max"],
                &self.lock_hold,
            ),
        ];
        let mut times = [("", 0.0); 15];
        let values = named.iter().flat_map(|([p50, p99, max], times)| {
            [
                (*p50, times.percentile_ms(50)),
                (*p99, times.percentile_ms(99)),
                (*max, times.max_ms()),
            ]
        });
        for (place, value) in times.iter_mut().zip(values) {
            *place = value;
        }
        times
    }

    /// Adds what another counted.
    pub fn add(&mut self, other: &Self) {
        self.scheduled += other.scheduled;
        self.finished += other.finished;
        self.claimed += other.claimed;
        self.acked += other.acked;
        self.nacked += other.nacked;
        self.lapsed += other.lapsed;
        self.dead += other.dead;
        self.dead_dropped += other.dead_dropped;
        self.stale += other.stale;
        self.held_back += other.held_back;
        self.lock_attempts += other.lock_attempts;
        self.lock_acquired += other.lock_acquired;
        self.lock_busy += other.lock_busy;
        self.lateness.add(&other.lateness);
        self.claim_wait.add(&other.claim_wait);
        self.close.add(&other.close);
        self.lock_wait.add(&other.lock_wait);
        self.lock_hold.add(&other.lock_hold);
    }

    /// Heap bytes, as an allocator rounds them up.
    pub fn bytes(&self) -> usize {
        self.lateness.bytes()
            + self.claim_wait.bytes()
            + self.close.bytes()
            + self.lock_wait.bytes()
            + self.lock_hold.bytes()
    }
}

impl Queue {
    /// Dead orders that were dropped, since the queue lives in this process. O(1).
    pub fn dead_dropped(&self) -> u64 {
        self.busy.meters.dead_dropped
    }
}
