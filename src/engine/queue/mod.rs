//! A queue: the value under one key. Its records stand in derived structures by
//! what time will do to them:
//!
//! ```text
//!                     ┌ Deadlines  wheel, wall clock   scheduled, and expired until drawn
//!        ┌ claimable ─┼ Drawn      list, by deadline   expired, drawn for announcing
//! record ┤            └ Returned   list, by arrival    claimable by lapse, retry, release, late creation
//!        ├ Leases     wheel, monotonic clock           live claims and locks, retry waits
//!        ├ Dead       list, oldest first               dead
//!        └ Keeps      wheel, wall clock                finished and kept, reserved and lapsed
//! ```
//!
//! **Nothing fires.** A deadline that passes moves nothing: an expired order is
//! one whose deadline in the wheel is not later than now, and a claim takes it
//! from there. So a million orders that fall due in one millisecond are all
//! claimable in that millisecond, at no cost. What a pass does in its own time
//! is to announce them: it draws them from the wheel in order, as many as it may
//! announce. Leases and retry waits that end are moved by [`Queue::advance`].
//!
//! Invariants:
//! - a record stands in exactly one place, the one its `place` names;
//! - a record with a last grant or retry wait stands in `Leases` until `advance`
//!   has settled it;
//! - in each list everything before the cursor is announced, nothing after it;
//!   what stands in `Deadlines` is never announced;
//! - places depend on when `advance` ran, answers do not: those come from
//!   [`super::rows::Rows::state`].
//!
//! Deliberately absent: a drain, and any cascade by time (see `wheel`).

use super::compact::Calm;
use super::effect::Effect;
use super::meters::Meters;
use super::notices::Notices;
use super::outcome::Outcome;
use super::session::Sessions;
use super::settings::{Defaults, Overrides, Setting};
use super::store::Store;
use super::tables::fifo::Fifo;
use super::tables::lazy::{Blank, Lazy};
use super::tables::memory::allocated;
use super::tables::seconds::Seconds;
use super::tables::wheel::Wheel;
use super::times::{Taken, Timing};
use crate::words::time::{MOMENT_MAX, Now, WallMs};

mod announce;
mod brake;
mod file;
mod stock;
mod time;

use brake::Brake;
pub(super) use file::Entry;
pub use stock::Gauges;
pub use time::Duty;

/// "No time": nothing to wake up for.
pub const NEVER: u64 = u64::MAX;

/// A pause.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Pause {
    /// When it ends; `None`: at RESUME.
    pub(super) until: Option<WallMs>,
    /// Why.
    pub(super) reason: Box<[u8]>,
}

/// How many records of each kind stand in `Leases`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Tally {
    /// Claims.
    pub(super) claims: u32,
    /// Locks of orders that have a deadline.
    pub(super) locks: u32,
    /// Locks of ids that have none.
    pub(super) reserved: u32,
    /// Retry waits.
    pub(super) retrying: u32,
}

/// How far a walk over `drawn`, then `returned`, has got; see [`Queue::undraw`].
#[derive(Clone, Copy, Debug)]
struct Undrawing {
    /// The next record to look at, `NIL` at the end. Whoever gives records other
    /// handles ends the walk; it begins anew.
    at: u32,
    /// What the walk has left behind is due at this moment.
    wall: WallMs,
}

/// What only queues have in which more happens than that orders wait for their
/// deadlines.
#[derive(Debug)]
pub(super) struct Busy {
    /// See [`Place::Leases`](super::record::Place::Leases).
    pub(super) leases: Wheel,
    /// See [`Place::Keeps`](super::record::Place::Keeps).
    pub(super) keeps: Wheel,
    /// See [`Place::Drawn`](super::record::Place::Drawn).
    pub(super) drawn: Fifo,
    /// See [`Place::Returned`](super::record::Place::Returned).
    pub(super) returned: Fifo,
    /// See [`Place::Dead`](super::record::Place::Dead).
    pub(super) dead: Fifo,
    /// What stands in `Leases`.
    pub(super) tally: Tally,
    /// Where a PURGE or REQUEUE with a filter goes on.
    pub(super) sweep_at: u32,
    /// Whether a lease has lapsed since [`Queue::take_lapsed`].
    lapsed: bool,
    /// The pause. Ground.
    pub(super) pause: Option<Box<Pause>>,
    /// The settings of its own. Ground.
    pub(super) own: Option<Box<Overrides>>,
    /// Orders that went back to their deadline by a lapse which has not been
    /// announced.
    pub(super) notices: Lazy<Notices>,
    /// No order of `drawn` and `returned` has a later deadline: as long as the wall
    /// clock is not before it, all of them are due.
    latest: WallMs,
    /// A walk over both that looks for orders which are not due any more.
    undrawing: Option<Undrawing>,
    /// Totals and times, but for [`Queue::scheduled`].
    pub(super) meters: Lazy<Meters>,
    /// Leases that end with a connection.
    pub(super) sessions: Lazy<Sessions>,
    /// What may be handed out now, where that is limited; `None`: as much as ever.
    brake: Option<Box<Brake>>,
    /// The times that were taken since [`Queue::take_times`].
    pub(super) taken: Vec<Taken>,
    /// What was due when stock was last taken.
    due: stock::Due,
    /// What stands neither in the wheel of deadlines nor in that of keep ends, by
    /// deadline.
    outside: Seconds,
    /// Whether it is worth while to move it together.
    pub(super) calm: Calm,
}

impl Busy {
    /// Nothing.
    const NONE: Self = Self {
        leases: Wheel::new(),
        keeps: Wheel::new(),
        drawn: Fifo::new(),
        returned: Fifo::new(),
        dead: Fifo::new(),
        tally: Tally {
            claims: 0,
            locks: 0,
            reserved: 0,
            retrying: 0,
        },
        sweep_at: 0,
        lapsed: false,
        pause: None,
        own: None,
        notices: Lazy::new(),
        latest: WallMs(0),
        undrawing: None,
        meters: Lazy::new(),
        sessions: Lazy::new(),
        brake: None,
        taken: Vec::new(),
        due: stock::Due::NONE,
        outside: Seconds::new(),
        calm: Calm::UNKNOWN,
    };
}

impl Default for Busy {
    fn default() -> Self {
        Self::NONE
    }
}

impl Blank for Busy {
    fn blank() -> &'static Self {
        static BLANK: Busy = Busy::NONE;
        &BLANK
    }
}

/// The value under one key. Small: a key may hold a single order.
#[derive(Debug)]
pub struct Queue {
    /// The records.
    pub(super) store: Store,
    /// See [`Place::Deadlines`](super::record::Place::Deadlines).
    pub(super) deadlines: Wheel,
    /// The other places, and what else is rare.
    pub(super) busy: Lazy<Busy>,
    /// Highest number in the queue: no later grant is at or below it. Ground.
    pub(super) floor: u64,
    /// Earliest wake among what was filed since [`Queue::take_hint`].
    hint: Wake,
    /// For the scheduler: the wake it has this queue filed under.
    armed: Wake,
    /// Orders created or moved that the meters do not know of.
    pub(super) scheduled: u16,
    /// Effects come back from disk: nothing is counted.
    pub(super) replaying: bool,
    /// The parts whose compaction has begun and is not at its end, as bits.
    pub(super) compacting: u8,
}

/// A wake in six bytes.
#[derive(Clone, Copy, Debug)]
struct Wake([u16; 3]);

impl Wake {
    /// Stands for [`NEVER`].
    const NEVER: Self = Self([u16::MAX; 3]);

    /// The last wake that is told apart.
    const LAST: u64 = MOMENT_MAX;

    /// Wall milliseconds, or [`NEVER`].
    const fn of(wall_ms: u64) -> Self {
        if wall_ms == NEVER {
            return Self::NEVER;
        }
        let ms = if wall_ms < Self::LAST {
            wall_ms
        } else {
            Self::LAST
        };
        Self([ms as u16, (ms >> 16) as u16, (ms >> 32) as u16])
    }

    /// What it was made of.
    const fn wall_ms(self) -> u64 {
        let [low, middle, high] = self.0;
        let ms = low as u64 | (middle as u64) << 16 | (high as u64) << 32;
        if ms > Self::LAST { NEVER } else { ms }
    }
}

impl Default for Queue {
    fn default() -> Self {
        Self::new()
    }
}

impl Queue {
    /// An empty queue.
    pub fn new() -> Self {
        Self {
            store: Store::new(),
            deadlines: Wheel::new(),
            busy: Lazy::new(),
            floor: 0,
            hint: Wake::NEVER,
            armed: Wake::NEVER,
            scheduled: 0,
            replaying: false,
            compacting: 0,
        }
    }

    /// Whether nothing is in it that would be missed: then its key goes.
    pub fn is_empty(&self) -> bool {
        self.store.is_empty() && self.busy.own.is_none() && self.busy.pause.is_none()
    }

    /// How many records, those that already read as missing included.
    pub fn len(&self) -> usize {
        self.store.len()
    }

    /// Highest number in the queue.
    pub fn floor(&self) -> u64 {
        self.floor
    }

    /// Prepares for the commands on these ids, which are to come next and in this
    /// order: what they will read is read for all of them at once. As many as
    /// [`AHEAD_MAX`](super::lookup::AHEAD_MAX) are looked at.
    pub fn look_ahead<'i>(&mut self, ids: impl Iterator<Item = &'i [u8]>) {
        self.store.look_ahead(ids);
    }

    /// As [`Queue::look_ahead`], for effects that are to be applied.
    pub fn look_ahead_of(&mut self, effects: &[Effect<'_>]) {
        let mut ids = Vec::new();
        for effect in effects {
            effect.each_id(&mut |id| ids.push(id));
        }
        self.store.look_ahead(ids.into_iter());
    }

    /// Gives back what [`Queue::look_ahead`] has left.
    pub fn end_look_ahead(&mut self) {
        self.store.end_look_ahead();
    }

    /// Bytes it takes, itself included, as an allocator rounds them up. O(1) but
    /// for what is to be announced of lapsed locks, and statuses.
    pub fn bytes(&self) -> usize {
        let busy = self.busy.made().map_or(0, |busy| {
            busy.meters.bytes()
                + busy.meters.made().map_or(0, Meters::bytes)
                + allocated(busy.taken.capacity() * size_of::<Taken>())
                + busy.outside.bytes()
                + busy.leases.bytes()
                + busy.keeps.bytes()
                + busy.notices.bytes()
                + busy.notices.made().map_or(0, Notices::bytes)
                + busy.sessions.bytes()
                + busy.sessions.made().map_or(0, Sessions::bytes)
                + busy.pause.as_ref().map_or(0, |pause| {
                    allocated(size_of::<Pause>()) + allocated(pause.reason.len())
                })
                + busy.own.as_ref().map_or(0, |own| own.bytes())
                + busy
                    .brake
                    .as_ref()
                    .map_or(0, |_| allocated(size_of::<Brake>()))
        });
        allocated(size_of::<Self>())
            + self.store.bytes()
            + self.deadlines.bytes()
            + self.busy.bytes()
            + busy
    }

    /// What a setting comes to here.
    pub fn setting(&self, setting: Setting, defaults: &Defaults) -> u64 {
        self.busy
            .own
            .as_ref()
            .and_then(|own| own.get(setting))
            .unwrap_or_else(|| defaults.get(setting))
    }

    /// Counts an answer.
    pub fn note(&mut self, outcome: Outcome) {
        if outcome == Outcome::Stale {
            self.busy.meters.stale += 1;
        }
    }

    /// Counts an answer to LOCK.
    pub fn note_lock(&mut self, outcome: Outcome) {
        self.busy.meters.lock_attempts += 1;
        if outcome == Outcome::Busy {
            self.busy.meters.lock_busy += 1;
        }
    }

    /// Counts how long a client waited for a lock it was granted, microseconds.
    pub fn note_lock_wait(&mut self, now: &Now, waited_us: u64) {
        self.time(now, Timing::LockWait, waited_us);
    }

    /// Counts how late orders were that were claimed before they were announced,
    /// microseconds.
    pub fn note_late(&mut self, now: &Now, late_us: &[u64]) {
        for late_us in late_us {
            self.time(now, Timing::Lateness, *late_us);
        }
    }

    /// Prepares for a claim of these records, which is to be carried out next: what it
    /// will read is read for all of them at once.
    pub fn expect(&mut self, picks: &[u32]) {
        self.store.expect_records(picks);
    }

    /// Counts an order that was created or moved.
    pub(super) fn count_scheduled(&mut self) {
        if let Some(more) = self.scheduled.checked_add(1) {
            self.scheduled = more;
        } else {
            self.busy.meters.scheduled += u64::from(self.scheduled) + 1;
            self.scheduled = 0;
        }
    }

    /// Whether it is paused.
    pub fn is_paused(&self, now: &Now) -> bool {
        self.busy
            .pause
            .as_ref()
            .is_some_and(|pause| !pause.until.is_some_and(|until| until.is_due(now)))
    }

    /// The wake the scheduler has noted here.
    pub fn armed(&self) -> u64 {
        self.armed.wall_ms()
    }

    /// Notes the wake for the scheduler.
    pub fn set_armed(&mut self, wall_ms: u64) {
        self.armed = Wake::of(wall_ms);
    }

    /// The earliest wall millisecond for which something was filed since the
    /// last call, [`NEVER`] if nothing was.
    pub fn take_hint(&mut self) -> u64 {
        std::mem::replace(&mut self.hint, Wake::NEVER).wall_ms()
    }

    /// Whether a lease has lapsed since the last call.
    pub fn take_lapsed(&mut self) -> bool {
        self.busy.lapsed && std::mem::take(&mut self.busy.lapsed)
    }
}
