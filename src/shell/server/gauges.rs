//! The gauges and times of all queues together, kept as they change.
//!
//! Whoever changes a queue does so within a [`Watch`]: what the queue's own counts are
//! before is taken off the sums, and what they are after is added. So INFO reads the
//! sums and looks at no queue, however many there are. The ages are the largest of all
//! queues: for them each queue stands, with the second of its oldest order, in a
//! multiset.
//!
//! A queue is counted for as long as the server owns it: [`add`] where it comes (stored,
//! loaded, copied), [`remove`] where it is freed, which happens on any thread. Nothing of
//! it is noted elsewhere: what to take off is what the queue itself says.
//!
//! What falls due by time alone changes nothing in a queue; a pass that looks at it takes
//! stock ([`Queue::take_stock`]).

use std::ops::{Deref, DerefMut};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, PoisonError};

use crate::engine::tables::seconds::Seconds;
use crate::engine::times::{ByBounds, Named, Times, Timing};
use crate::engine::{Gauges, Queue};
use crate::shell::server::cell::Shared;
use crate::words::state::State;
use crate::words::time::{Now, WallMs};

/// The sums.
struct Sums {
    /// Orders by state.
    states: [u64; State::LISTED.len()],
    /// Orders that are overdue.
    overdue: u64,
    /// Claims that are live.
    live_claims: u64,
    /// Leases that end with a connection.
    session_leases: u64,
    /// The queues that have a claimable order, by the oldest of them.
    oldest_expired: Seconds,
    /// The queues that have an overdue order, by the oldest of them.
    oldest_overdue: Seconds,
}

/// Of all queues that the server owns.
static SUMS: Mutex<Sums> = Mutex::new(Sums {
    states: [0; State::LISTED.len()],
    overdue: 0,
    live_claims: 0,
    session_leases: 0,
    oldest_expired: Seconds::new(),
    oldest_overdue: Seconds::new(),
});

/// The times of all queues, also of those that are gone.
static TIMES: Shared<Times> = Shared::new(Times::NONE);

/// The same by fixed bounds.
static BY_BOUNDS: Shared<ByBounds> = Shared::new(ByBounds::NONE);

/// How often the times were reset.
static RESETS: AtomicU32 = AtomicU32::new(0);

impl Sums {
    /// Puts one queue's counts in the place of others.
    fn replace(&mut self, before: &Gauges, after: &Gauges) {
        let moved = |sum: &mut u64, before: u64, after: u64| {
            *sum = sum.wrapping_add(after).wrapping_sub(before);
        };
        let states = before.states.iter().zip(&after.states);
        for (sum, (before, after)) in self.states.iter_mut().zip(states) {
            moved(sum, *before, *after);
        }
        moved(&mut self.overdue, before.overdue, after.overdue);
        moved(&mut self.live_claims, before.live_claims, after.live_claims);
        let bound = (before.session_leases, after.session_leases);
        moved(&mut self.session_leases, bound.0, bound.1);
        let aged = |ages: &mut Seconds, before: Option<WallMs>, after: Option<WallMs>| {
            if before != after {
                if let Some(at) = after {
                    ages.add(at.0);
                }
                if let Some(at) = before {
                    ages.remove(at.0);
                }
            }
        };
        let expired = (before.oldest_expired, after.oldest_expired);
        aged(&mut self.oldest_expired, expired.0, expired.1);
        let overdue = (before.oldest_overdue, after.oldest_overdue);
        aged(&mut self.oldest_overdue, overdue.0, overdue.1);
    }
}

/// See [`Sums::replace`]. On any thread.
fn replace(before: &Gauges, after: &Gauges) {
    if before != after {
        let mut sums = SUMS.lock().unwrap_or_else(PoisonError::into_inner);
        sums.replace(before, after);
    }
}

/// A queue belongs to the server from now on.
pub(crate) fn add(queue: &mut Queue) {
    queue.settle_gauges();
    replace(&Gauges::default(), &queue.gauges());
}

/// A queue is being freed. On any thread.
pub(crate) fn remove(queue: &Queue) {
    replace(&queue.gauges(), &Gauges::default());
}

/// A queue that is looked at, and may be changed.
pub(crate) struct Watch<'q> {
    /// The queue.
    queue: &'q mut Queue,
    /// Its counts before; `None` for one that the server does not own.
    before: Option<Gauges>,
}

impl<'q> Watch<'q> {
    /// A queue that the server owns.
    pub(crate) fn of(queue: &'q mut Queue) -> Self {
        let before = Some(queue.gauges());
        queue.reset_times(RESETS.load(Ordering::Relaxed));
        Self { queue, before }
    }

    /// A queue that is not stored yet: it is counted when it is.
    pub(crate) const fn fresh(queue: &'q mut Queue) -> Self {
        Self {
            queue,
            before: None,
        }
    }
}

impl Deref for Watch<'_> {
    type Target = Queue;

    fn deref(&self) -> &Queue {
        self.queue
    }
}

impl DerefMut for Watch<'_> {
    fn deref_mut(&mut self) -> &mut Queue {
        self.queue
    }
}

/// Also where a panic unwinds: what was changed is counted.
impl Drop for Watch<'_> {
    fn drop(&mut self) {
        self.queue.settle_gauges();
        if let Some(before) = &self.before {
            replace(before, &self.queue.gauges());
        }
        let taken = self.queue.take_times();
        if !taken.is_empty() {
            BY_BOUNDS.with(|counts| taken.iter().for_each(|taken| counts.record(taken)));
            TIMES.with(|times| taken.into_iter().for_each(|taken| times.record(taken)));
        }
        self.queue.note_resets(RESETS.load(Ordering::Relaxed));
    }
}

/// The counts of all queues under their names in INFO; ages in milliseconds, up to a
/// second less than they are. O(log queues).
pub(crate) fn counts(now: &Now) -> Vec<(&'static str, u64)> {
    let sums = SUMS.lock().unwrap_or_else(PoisonError::into_inner);
    let states = State::LISTED.iter().zip(sums.states);
    let mut counts: Vec<_> = states.map(|(state, sum)| (state.word(), sum)).collect();
    let age = |ages: &Seconds| {
        let first = ages.first();
        first.map_or(0, |first| now.wall_ms().0.saturating_sub(first))
    };
    counts.extend([
        ("orders", sums.states.iter().sum()),
        ("live_claims", sums.live_claims),
        ("session_leases", sums.session_leases),
        ("overdue", sums.overdue),
        ("oldest_expired_ms", age(&sums.oldest_expired)),
        ("oldest_overdue_ms", age(&sums.oldest_overdue)),
    ]);
    counts
}

/// The percentiles of all queues together under their names in INFO, milliseconds:
/// since the start, then of the last minute.
pub(crate) fn times(now: &Now) -> Vec<Named> {
    let named = TIMES.with(|times| {
        times.trim(now);
        let mut named = times.since_start(&Timing::ALL);
        named.extend(times.of_minute(now));
        named
    });
    named.unwrap_or_default()
}

/// The times of all queues together by fixed bounds, for the time of a call.
pub(crate) fn with_bounds(show: impl FnOnce(&ByBounds)) {
    BY_BOUNDS.with(|counts| show(counts));
}

/// Forgets all times: those of all queues together now, those of each queue before
/// anything is read of them or added to them.
pub(crate) fn reset_times() {
    RESETS.fetch_add(1, Ordering::Relaxed);
    TIMES.with(Times::clear);
    BY_BOUNDS.with(ByBounds::clear);
}
