//! What the server's INFO section shows: counters since the module was loaded.
//!
//! They are plain numbers that any thread may read; all but [`PANICS`] are
//! written under the server's lock alone, so adding needs no locked instruction.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::engine::EventKind;

/// A number that only grows, or is set.
pub(super) struct Counter(AtomicU64);

impl Counter {
    /// Zero.
    pub(super) const fn new() -> Self {
        Self(AtomicU64::new(0))
    }

    /// Adds `more`.
    pub(super) fn add(&self, more: u64) {
        self.0
            .store(self.get().wrapping_add(more), Ordering::Relaxed);
    }

    /// Raises it to `value` if that is more.
    pub(super) fn raise(&self, value: u64) {
        if value > self.get() {
            self.set(value);
        }
    }

    /// Sets it.
    pub(super) fn set(&self, value: u64) {
        self.0.store(value, Ordering::Relaxed);
    }

    /// Its value.
    pub(super) fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// Panics that were caught.
pub(super) static PANICS: Counter = Counter::new();
/// Runs of the scheduler's timer.
pub(super) static TIMER_RUNS: Counter = Counter::new();
/// Those of them that the alarm brought about.
pub(super) static ALARM_RUNS: Counter = Counter::new();
/// The longest pass, in microseconds.
pub(super) static PASS_US_MAX: Counter = Counter::new();
/// Events that time raised and that were published.
pub(super) static ANNOUNCED: Counter = Counter::new();
/// Steps of the wall clock that were noticed.
pub(super) static CLOCK_STEPS: Counter = Counter::new();
/// The last of them in milliseconds, as two's complement.
pub(super) static LAST_CLOCK_STEP_MS: Counter = Counter::new();
/// Numbers met that were too far ahead to follow.
pub(super) static FENCE_AHEAD: Counter = Counter::new();
/// APPLY commands refused (from a client, or of an unknown version or form).
pub(super) static APPLY_REFUSED: Counter = Counter::new();
/// Effects for an order that was not there.
pub(super) static APPLY_MISMATCH: Counter = Counter::new();
/// Uses of shared state within its own use, see `cell`: what was to be done there was
/// not. A fault of this module.
pub(super) static REENTRIES: Counter = Counter::new();
/// Grants to waiting clients.
pub(super) static WAITERS_SERVED: Counter = Counter::new();

/// Orders created or moved.
pub(super) static SCHEDULED: Counter = Counter::new();
/// Orders finished by FINISH.
pub(super) static FINISHED: Counter = Counter::new();
/// Claims granted.
pub(super) static CLAIMED: Counter = Counter::new();
/// Claims acknowledged.
pub(super) static ACKED: Counter = Counter::new();
/// Claims handed back.
pub(super) static NACKED: Counter = Counter::new();
/// Leases that ended without a word, as announced.
pub(super) static LAPSED: Counter = Counter::new();
/// Orders that became dead, as announced.
pub(super) static DEAD: Counter = Counter::new();
/// Dead orders that were dropped: because there were too many, or by PURGE.
pub(super) static DEAD_DROPPED: Counter = Counter::new();
/// LOCKs asked for.
pub(super) static LOCK_ATTEMPTS: Counter = Counter::new();
/// LOCKs granted.
pub(super) static LOCK_ACQUIRED: Counter = Counter::new();
/// LOCKs answered BUSY.
pub(super) static LOCK_BUSY: Counter = Counter::new();
/// Writes refused because their fence or rev was an old one.
pub(super) static STALE: Counter = Counter::new();

/// Counts an event that was raised.
pub(super) fn count(kind: EventKind) {
    match kind {
        EventKind::Schedule => SCHEDULED.add(1),
        EventKind::Finish => FINISHED.add(1),
        EventKind::Claim => CLAIMED.add(1),
        EventKind::Ack => ACKED.add(1),
        EventKind::Nack => NACKED.add(1),
        EventKind::Lapsed => LAPSED.add(1),
        EventKind::Dead => DEAD.add(1),
        EventKind::Lock => LOCK_ACQUIRED.add(1),
        EventKind::Status | EventKind::Unlock | EventKind::Expired => {}
    }
}
