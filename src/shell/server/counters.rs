//! What the server's INFO section shows: counters since the module was loaded.
//!
//! They are plain numbers that any thread may read; all but [`PANICS`] are
//! written under the server's lock alone, so adding needs no locked instruction.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::engine::EventKind;

/// A number that only grows, or is set.
pub(crate) struct Counter(AtomicU64);

impl Counter {
    /// Zero.
    pub(crate) const fn new() -> Self {
        Self(AtomicU64::new(0))
    }

    /// Adds `more`.
    pub(crate) fn add(&self, more: u64) {
        self.0
            .store(self.get().wrapping_add(more), Ordering::Relaxed);
    }

    /// Raises it to `value` if that is more.
    pub(crate) fn raise(&self, value: u64) {
        if value > self.get() {
            self.set(value);
        }
    }

    /// Sets it.
    pub(crate) fn set(&self, value: u64) {
        self.0.store(value, Ordering::Relaxed);
    }

    /// Its value.
    pub(crate) fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// Panics that were caught.
pub(crate) static PANICS: Counter = Counter::new();
/// Runs of the scheduler's timer.
pub(crate) static TIMER_RUNS: Counter = Counter::new();
/// Those of them that the alarm brought about.
pub(crate) static ALARM_RUNS: Counter = Counter::new();
/// The longest pass, in microseconds.
pub(crate) static PASS_US_MAX: Counter = Counter::new();
/// Events that time raised and that were published.
pub(crate) static ANNOUNCED: Counter = Counter::new();
/// Steps of the wall clock that were noticed.
pub(crate) static CLOCK_STEPS: Counter = Counter::new();
/// The last of them in milliseconds, as two's complement.
pub(crate) static LAST_CLOCK_STEP_MS: Counter = Counter::new();
/// Numbers met that were too far ahead to follow.
pub(crate) static FENCE_AHEAD: Counter = Counter::new();
/// APPLY commands refused (from a client, or of an unknown version or form).
pub(crate) static APPLY_REFUSED: Counter = Counter::new();
/// Effects for an order that was not there.
pub(crate) static APPLY_MISMATCH: Counter = Counter::new();
/// Uses of shared state within its own use, see `cell`: what was to be done there was
/// not. A fault of this module.
pub(crate) static REENTRIES: Counter = Counter::new();
/// Grants to waiting clients.
pub(crate) static WAITERS_SERVED: Counter = Counter::new();

/// Orders created or moved.
pub(crate) static SCHEDULED: Counter = Counter::new();
/// Orders finished by FINISH.
pub(crate) static FINISHED: Counter = Counter::new();
/// Claims granted.
pub(crate) static CLAIMED: Counter = Counter::new();
/// Claims acknowledged.
pub(crate) static ACKED: Counter = Counter::new();
/// Claims handed back.
pub(crate) static NACKED: Counter = Counter::new();
/// Leases that ended without a word, as announced.
pub(crate) static LAPSED: Counter = Counter::new();
/// Orders that became dead, as announced.
pub(crate) static DEAD: Counter = Counter::new();
/// Dead orders that were dropped: because there were too many, or by PURGE.
pub(crate) static DEAD_DROPPED: Counter = Counter::new();
/// LOCKs asked for.
pub(crate) static LOCK_ATTEMPTS: Counter = Counter::new();
/// LOCKs granted.
pub(crate) static LOCK_ACQUIRED: Counter = Counter::new();
/// LOCKs answered BUSY.
pub(crate) static LOCK_BUSY: Counter = Counter::new();
/// Leases ended because the connection of their holder closed.
pub(crate) static DISCONNECT_RELEASED: Counter = Counter::new();
/// CLAIMs that a brake has kept orders back from.
pub(crate) static CLAIMS_HELD_BACK: Counter = Counter::new();
/// Writes refused because their fence or rev was an old one.
pub(crate) static STALE: Counter = Counter::new();

/// Counts an event that was raised.
pub(crate) fn count(kind: EventKind) {
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
