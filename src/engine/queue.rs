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

use std::sync::Arc;

use super::effect::{Bytes, Effect, LeaseKind};
use super::meters::Meters;
use super::notices::Notices;
use super::outcome::{Announcement, EventKind, Outcome};
use super::record::{Place, Record};
use super::settings::{Defaults, Own, Setting};
use super::store::Store;
use super::tables::NIL;
use super::tables::fifo::Fifo;
use super::tables::lazy::{Blank, Lazy};
use super::tables::memory::allocated;
use super::tables::wheel::Wheel;
use super::views::{by_deadline, by_keep, by_lease};
use crate::words::state::State;
use crate::words::time::{MOMENT_MAX, Now, WallMs};

/// How many records one small step moves at most.
const STEP: usize = 64;
/// How many records are drawn at once at most: a list of the wheel.
const DRAW_MAX: usize = 256;

/// Kept records are forgotten in batches: their wake is rounded up to this many
/// milliseconds. They read as missing at once, so only memory waits.
const FORGET_EVERY_MS: u64 = 256;

/// "No time": nothing to wake up for.
pub const NEVER: u64 = u64::MAX;

/// What a pass may do in a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Duty {
    /// End leases and retry waits: a replica.
    Advance,
    /// Also grant and forget; announcements are held back.
    AllButAnnounce,
    /// Everything.
    All,
}

/// How a record comes to its place. Where its deadline has passed, that decides
/// since when it is claimable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Entry {
    /// Scheduled or moved: since its deadline, or since now if that is earlier.
    Scheduled,
    /// Handed back, released, requeued: since now.
    Back,
    /// From disk: since its deadline.
    Loaded,
}

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
#[derive(Debug, Default)]
pub(super) struct Busy {
    /// See [`Place::Leases`].
    pub(super) leases: Wheel,
    /// See [`Place::Keeps`].
    pub(super) keeps: Wheel,
    /// See [`Place::Drawn`].
    pub(super) drawn: Fifo,
    /// See [`Place::Returned`].
    pub(super) returned: Fifo,
    /// See [`Place::Dead`].
    pub(super) dead: Fifo,
    /// What stands in `Leases`.
    pub(super) tally: Tally,
    /// Where PURGE goes on.
    pub(super) purge_at: u32,
    /// Whether a lease has lapsed since [`Queue::take_lapsed`].
    lapsed: bool,
    /// The pause. Ground.
    pub(super) pause: Option<Box<Pause>>,
    /// The settings of its own. Ground.
    pub(super) own: Option<Box<Own>>,
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
        purge_at: 0,
        lapsed: false,
        pause: None,
        own: None,
        notices: Lazy::new(),
        latest: WallMs(0),
        undrawing: None,
        meters: Lazy::new(),
    };
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
    /// See [`Place::Deadlines`].
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
    scheduled: u16,
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
                + busy.leases.bytes()
                + busy.keeps.bytes()
                + busy.notices.bytes()
                + busy.notices.made().map_or(0, Notices::bytes)
                + busy.pause.as_ref().map_or(0, |pause| {
                    allocated(size_of::<Pause>()) + allocated(pause.reason.len())
                })
                + busy.own.as_ref().map_or(0, |own| own.bytes())
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
    pub fn note_lock_wait(&mut self, waited_us: u64) {
        self.busy.meters.lock_wait.record(waited_us);
    }

    /// Counts how late orders were that were claimed before they were announced,
    /// microseconds.
    pub fn note_late(&mut self, late_us: &[u64]) {
        for late_us in late_us {
            self.busy.meters.lateness.record(*late_us);
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

    /// Adds what it has counted to `sum`.
    pub fn add_meters_to(&self, sum: &mut Meters) {
        sum.scheduled += u64::from(self.scheduled);
        if let Some(meters) = self.busy.meters.made() {
            sum.add(meters);
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

    /// Takes a record out of where it stands, before it is changed.
    pub(super) fn lift(&mut self, i: u32) {
        let Some(record) = self.store.rows.get(i) else {
            return;
        };
        let (place, announced) = (record.place(), record.is_announced());
        let rows = &mut self.store.rows;
        match place {
            Place::Nowhere | Place::Vacant => return,
            Place::Deadlines => {
                self.deadlines.remove(&mut by_deadline(rows), i);
            }
            Place::Keeps => {
                self.busy.keeps.remove(&mut by_keep(rows), i);
            }
            Place::Drawn | Place::Returned => {
                let next = self.after(i);
                let (rows, busy) = (&mut self.store.rows, &mut *self.busy);
                if let Some(walk) = busy.undrawing.as_mut().filter(|walk| walk.at == i) {
                    walk.at = next;
                }
                let list = match place {
                    Place::Drawn => &mut busy.drawn,
                    _ => &mut busy.returned,
                };
                list.remove(rows, i, announced);
            }
            Place::Dead => self.busy.dead.remove(rows, i, announced),
            Place::Leases => {
                if let Some(count) = self.tally_of(i) {
                    *count = count.saturating_sub(1);
                }
                self.busy
                    .leases
                    .remove(&mut by_lease(&mut self.store.rows), i);
            }
        }
        self.lifted(i, place);
    }

    /// Clears what belonged to the place a record was in.
    fn lifted(&mut self, i: u32, place: Place) {
        if let Some(record) = self.store.rows.get_mut(i) {
            record.set_place(Place::Nowhere);
            record.set_announced(false);
            record.set_lapsed(false);
        }
        if place == Place::Returned && self.store.rows.extra(i).is_some() {
            self.store.with_extra(i, |extra| extra.ready_at = WallMs(0));
        }
    }

    /// The counter of a record that stands in `Leases`, or is to.
    fn tally_of(&mut self, i: u32) -> Option<&mut u32> {
        let extra = self.store.rows.extra(i)?;
        let has_deadline = self.store.rows.get(i)?.deadline().is_some();
        Some(match extra.grant() {
            None => &mut self.busy.tally.retrying,
            Some(_) if !has_deadline => &mut self.busy.tally.reserved,
            Some(grant) if grant.kind == LeaseKind::Claim => &mut self.busy.tally.claims,
            Some(_) => &mut self.busy.tally.locks,
        })
    }

    /// Marks the place of a record.
    fn stand(&mut self, i: u32, place: Place) {
        if let Some(record) = self.store.rows.get_mut(i) {
            record.set_place(place);
        }
    }

    /// Puts a record that was lifted and changed where it belongs.
    pub(super) fn file(&mut self, i: u32, now: &Now, entry: Entry) {
        let Some(record) = self.store.rows.get(i) else {
            return;
        };
        let (deadline, keep_end) = (record.deadline(), record.keep_end());
        let extra = self.store.rows.extra(i);
        let leased = extra.is_some_and(|extra| extra.grant().is_some());
        let dead = extra.is_some_and(|extra| extra.dead_at().is_some());
        let retrying = extra.is_some_and(|extra| extra.retry().is_some());
        if keep_end.is_some() || (deadline.is_none() && !leased) {
            self.file_keep(i);
        } else if leased || retrying {
            self.stand(i, Place::Leases);
            if let Some(count) = self.tally_of(i) {
                *count = count.saturating_add(1);
            }
            self.busy
                .leases
                .insert(&mut by_lease(&mut self.store.rows), i);
            let mono = self.store.rows.extra(i).and_then(|extra| {
                extra
                    .grant()
                    .map(|grant| grant.end_mono)
                    .or(extra.retry().map(|retry| retry.mono))
            });
            if let Some(mono) = mono {
                self.hint_at(now.wall_ms().plus(mono.left(now)));
            }
        } else if dead {
            self.file_dead(i);
        } else if let Some(deadline) = deadline {
            let by_deadline = match entry {
                Entry::Loaded => true,
                Entry::Scheduled => deadline >= now.wall_ms(),
                Entry::Back => deadline > now.wall_ms(),
            };
            if by_deadline {
                self.file_deadline(i, deadline);
            } else {
                self.file_returned(i, now.wall_ms());
            }
        }
    }

    /// Asks for a pass now.
    pub(super) fn wake_now(&mut self) {
        self.hint_at(WallMs(0));
    }

    /// Notes that there is something to do at `wall`.
    fn hint_at(&mut self, wall: WallMs) {
        self.hint = Wake::of(self.hint.wall_ms().min(wall.0));
    }

    /// Files a record by its deadline.
    fn file_deadline(&mut self, i: u32, deadline: WallMs) {
        self.stand(i, Place::Deadlines);
        self.deadlines
            .insert(&mut by_deadline(&mut self.store.rows), i);
        self.hint_at(deadline);
    }

    /// Files a record by its keep end, or by the end of its lapsed lock.
    fn file_keep(&mut self, i: u32) {
        self.stand(i, Place::Keeps);
        self.busy
            .keeps
            .insert(&mut by_keep(&mut self.store.rows), i);
        let rows = &self.store.rows;
        let end = rows
            .get(i)
            .and_then(Record::keep_end)
            .or_else(|| rows.grant(i).map(|grant| grant.end));
        self.hint_at(forget_wake(end.unwrap_or_default()));
    }

    /// Files a dead record.
    fn file_dead(&mut self, i: u32) {
        self.stand(i, Place::Dead);
        self.busy.dead.push_back(&mut self.store.rows, i);
        self.hint_at(WallMs(0));
    }

    /// Files a record that has been claimable since `since` by other ways than
    /// its deadline.
    fn file_returned(&mut self, i: u32, since: WallMs) {
        self.stand(i, Place::Returned);
        self.store.with_extra(i, |extra| extra.ready_at = since);
        self.busy.returned.push_back(&mut self.store.rows, i);
        self.note_due(i);
        self.hint_at(WallMs(0));
    }

    /// Notes the deadline of an order that was put into `drawn` or `returned`.
    fn note_due(&mut self, i: u32) {
        let deadline = self.store.rows.get(i).and_then(Record::deadline);
        let deadline = deadline.unwrap_or_default();
        let busy = &mut *self.busy;
        busy.latest = busy.latest.max(deadline);
        if let Some(walk) = &mut busy.undrawing {
            walk.wall = walk.wall.max(deadline);
        }
    }

    /// Ends a walk of [`Queue::undraw`] that was not done: a record has another handle.
    pub(super) fn end_undrawing(&mut self) {
        if self.busy.undrawing.is_some() {
            self.busy.undrawing = None;
        }
    }

    /// Moves derived structures on to now: ended leases and retry waits become
    /// what they lead to, and what a step back of the wall clock has made undue goes
    /// back to its deadline. `more` is asked between small steps; false stops.
    /// Returns whether it has caught up. Changes no ground state, so replicas
    /// call it too.
    pub fn advance(&mut self, now: &Now, more: &mut dyn FnMut() -> bool) -> bool {
        let mut due = Vec::new();
        while self
            .busy
            .leases
            .first_time(&by_lease(&self.store.rows))
            .is_some_and(|first| first <= now.mono_ms().0)
        {
            if !more() {
                return false;
            }
            self.busy.leases.take_due(
                &mut by_lease(&mut self.store.rows),
                now.mono_ms().0,
                STEP,
                &mut due,
            );
            if due.is_empty() {
                break;
            }
            for i in due.drain(..) {
                if let Some(count) = self.tally_of(i) {
                    *count = count.saturating_sub(1);
                }
                self.lifted(i, Place::Leases);
                self.settle(i, now);
            }
        }
        while now.wall_ms() < self.busy.latest {
            if !more() {
                return false;
            }
            self.undraw(now);
        }
        true
    }

    /// After a step back of the wall clock: looks at the next few orders of `drawn` and
    /// `returned` and sends those that are not due any more back to their deadlines.
    /// Neither list is in order of deadlines for certain (a lapsed lock is drawn after
    /// what was due later), so the walk goes over both, once for each step back past
    /// a deadline in them. At its end [`Busy::latest`] is no later than now.
    fn undraw(&mut self, now: &Now) {
        let wall = now.wall_ms();
        let goes_on = self.busy.undrawing.take().filter(|walk| walk.wall <= wall);
        let first = self.busy.drawn.front().or(self.busy.returned.front());
        let mut at = goes_on.map_or(first.unwrap_or(NIL), |walk| walk.at);
        for _ in 0..STEP {
            let deadline = self.store.rows.get(at).and_then(Record::deadline);
            let next = self.after(at);
            if deadline.is_some_and(|deadline| deadline > wall) {
                self.refile(at);
            }
            at = next;
            if at == NIL {
                self.busy.latest = wall;
                return;
            }
        }
        self.busy.undrawing = Some(Undrawing { at, wall });
    }

    /// The order behind this one in `drawn` followed by `returned`.
    fn after(&self, i: u32) -> u32 {
        match self.store.rows.get(i) {
            Some(record) if record.next != NIL => record.next,
            Some(record) if record.place() == Place::Drawn => {
                self.busy.returned.front().unwrap_or(NIL)
            }
            _ => NIL,
        }
    }

    /// Puts a record whose lease or retry wait has ended where that leads.
    pub(super) fn settle(&mut self, i: u32, now: &Now) {
        let Some(record) = self.store.rows.get(i) else {
            return;
        };
        let deadline = record.deadline();
        let Some(extra) = self.store.rows.extra(i) else {
            return;
        };
        let retry_at = extra.retry().map(|retry| retry.at);
        let Some(grant) = extra.grant() else {
            // It may be ahead again: the wall clock was set back meanwhile.
            match deadline.filter(|deadline| !deadline.is_due(now)) {
                Some(deadline) => self.file_deadline(i, deadline),
                None => self.file_returned(i, retry_at.max(deadline).unwrap_or_default()),
            }
            return;
        };
        let (end, last_try) = (grant.end, grant.is_last_try());
        let Some(deadline) = deadline else {
            // A reserved id lives and dies with its lock.
            self.busy.lapsed = true;
            self.busy.meters.lapsed += 1;
            self.file_keep(i);
            return;
        };
        self.busy.lapsed = true;
        self.busy.meters.lapsed += 1;
        if last_try {
            self.busy.meters.dead += 1;
            self.file_dead(i);
        } else if end < deadline || !deadline.is_due(now) {
            // What makes it claimable is its deadline, which may have passed too
            // since. (A claimed order comes here if the wall clock was set back.)
            self.busy.notices.push(self.store.rows.id(i).into());
            self.file_deadline(i, deadline);
            self.hint_at(WallMs(0));
            return;
        } else {
            self.file_returned(i, end);
        }
        if let Some(record) = self.store.rows.get_mut(i) {
            record.set_lapsed(true);
        }
    }

    /// Draws due orders from the wheel, at least one if one is due and about
    /// `want` at most.
    fn draw(&mut self, now: &Now, want: usize) {
        let mut due = Vec::new();
        self.deadlines.take_due(
            &mut by_deadline(&mut self.store.rows),
            now.wall_ms().0,
            want.clamp(1, DRAW_MAX),
            &mut due,
        );
        for i in &due {
            self.stand(*i, Place::Drawn);
            self.busy.drawn.push_back(&mut self.store.rows, *i);
            self.note_due(*i);
        }
    }

    /// Since when an order of `Drawn` or `Returned` has been claimable.
    pub(super) fn claimable_since(&self, i: u32) -> WallMs {
        let rows = &self.store.rows;
        let Some(record) = rows.get(i) else {
            return WallMs(0);
        };
        match record.place() {
            Place::Returned => rows.extra(i).map_or(WallMs(0), |extra| extra.ready_at),
            _ => record.deadline().unwrap_or_default(),
        }
    }

    /// Of two claimable orders (either may be `NIL`), the one that became
    /// claimable first; drawn before returned in the same millisecond.
    pub(super) fn earlier(&self, drawn: u32, returned: u32) -> u32 {
        if drawn == NIL {
            return returned;
        }
        if returned == NIL || self.claimable_since(drawn) <= self.claimable_since(returned) {
            return drawn;
        }
        returned
    }

    /// Puts a record that is no longer due (the wall clock was set back) back
    /// into the wheel.
    pub(super) fn refile(&mut self, i: u32) {
        let Some(record) = self.store.rows.get(i) else {
            return;
        };
        let Some(deadline) = record.deadline() else {
            return;
        };
        if record.is_lapsed() && !record.is_announced() {
            self.busy.notices.push(self.store.rows.id(i).into());
        }
        self.lift(i);
        self.file_deadline(i, deadline);
    }

    /// Something can be claimed now, as far as [`Queue::advance`] has got.
    pub fn claimable(&self, now: &Now, defaults: &Defaults) -> bool {
        let full = self.setting(Setting::MaxLeased, defaults);
        if self.is_paused(now) || (full != 0 && u64::from(self.busy.tally.claims) >= full) {
            return false;
        }
        !self.busy.drawn.is_empty()
            || !self.busy.returned.is_empty()
            || self
                .deadlines
                .first_time(&by_deadline(&self.store.rows))
                .is_some_and(|first| WallMs(first).is_due(now))
    }

    /// Whether an announcement is due.
    fn has_unannounced(&self) -> bool {
        self.busy.drawn.unannounced() > 0
            || self.busy.returned.unannounced() > 0
            || self.busy.dead.unannounced() > 0
            || !self.busy.notices.is_empty()
    }

    /// How many orders are to be announced and were not yet.
    pub fn announce_backlog(&self, now: &Now) -> u64 {
        let due = self
            .deadlines
            .count_until(&by_deadline(&self.store.rows), now.wall_ms().0);
        let lists = self.busy.drawn.unannounced()
            + self.busy.returned.unannounced()
            + self.busy.dead.unannounced();
        (due + lists + self.busy.notices.len()) as u64
    }

    /// Gives out the next announcements in order, for at most `max` orders, and
    /// counts them as made. Nothing while paused.
    pub fn announce(&mut self, now: &Now, max: usize, out: &mut Vec<Announcement>) {
        if self.is_paused(now) {
            return;
        }
        for _ in 0..max {
            if !self.busy.notices.is_empty()
                && let Some(id) = self.busy.notices.pop()
            {
                out.push(Announcement {
                    kind: EventKind::Lapsed,
                    id,
                });
                continue;
            }
            if let Some(i) = self.busy.dead.next_unannounced() {
                self.busy.dead.mark_announced(&self.store.rows);
                self.announced(i, now, out);
                continue;
            }
            if self.busy.drawn.next_unannounced().is_none() {
                self.draw(now, max);
            }
            let drawn = self.busy.drawn.next_unannounced().unwrap_or(NIL);
            let i = self.earlier(drawn, self.busy.returned.next_unannounced().unwrap_or(NIL));
            if i == NIL {
                return;
            }
            if self.store.rows.state(i, now) != State::Expired {
                self.refile(i);
                continue;
            }
            if i == drawn {
                self.busy.drawn.mark_announced(&self.store.rows);
            } else {
                self.busy.returned.mark_announced(&self.store.rows);
            }
            self.announced(i, now, out);
        }
    }

    /// Says what there is to say of one record and marks it announced.
    pub(super) fn announced(&mut self, i: u32, now: &Now, out: &mut Vec<Announcement>) {
        let Some(record) = self.store.rows.get_mut(i) else {
            return;
        };
        record.set_announced(true);
        let (lapsed, place) = (record.is_lapsed(), record.place());
        let id: Arc<[u8]> = self.store.rows.id(i).into();
        if lapsed {
            out.push(Announcement {
                kind: EventKind::Lapsed,
                id: id.clone(),
            });
        }
        if place == Place::Drawn {
            let since = self.claimable_since(i);
            self.busy
                .meters
                .lateness
                .record(now.wall_us.saturating_sub(since.0.saturating_mul(1000)));
        }
        let kind = if place == Place::Dead {
            EventKind::Dead
        } else {
            EventKind::Expired
        };
        out.push(Announcement { kind, id });
    }

    /// What is to be said before this effect is carried out: that the lock which stood
    /// where another one is granted, or where the record goes, has lapsed. Nothing
    /// while paused. (For a claim, [`Queue::decide_claim`] says it.) O(log n) for each
    /// order named.
    pub fn lapses_before(&self, now: &Now, effect: &Effect<'_>) -> Vec<Announcement> {
        let ids: &[Bytes<'_>] = match effect {
            Effect::Lock { id, .. } => std::slice::from_ref(id),
            Effect::Forget { ids } => ids,
            _ => return Vec::new(),
        };
        if self.is_paused(now) {
            return Vec::new();
        }
        let lapsed = ids
            .iter()
            .filter(|id| self.busy.notices.has(&***id) || self.is_lapsed_reservation(now, id));
        lapsed
            .map(|id| Announcement {
                kind: EventKind::Lapsed,
                id: id.shared(),
            })
            .collect()
    }

    /// Whether an id was reserved by a lock that has lapsed, and is there yet.
    fn is_lapsed_reservation(&self, now: &Now, id: &[u8]) -> bool {
        let lapsed = || {
            let i = self.store.find(id)?;
            let (grant, record) = (self.store.rows.grant(i)?, self.store.rows.get(i)?);
            let is_reservation = record.deadline().is_none() && record.keep_end().is_none();
            Some(is_reservation && grant.end_mono.is_over(now))
        };
        lapsed().unwrap_or(false)
    }

    /// A grant is made, or a record goes, before which [`Queue::lapses_before`] was said.
    pub(super) fn lapse_said(&mut self, now: &Now, id: &[u8]) {
        if !self.busy.notices.is_empty() && !self.is_paused(now) {
            self.busy.notices.take(id);
        }
    }

    /// Counts everything unclaimed as not announced, after a promotion. O(n) in
    /// what this server itself had announced and nobody claimed since: nothing
    /// on a replica that was never primary.
    pub fn announce_again(&mut self) {
        if self.busy.is_made() {
            let busy = &mut *self.busy;
            for list in [&mut busy.drawn, &mut busy.returned, &mut busy.dead] {
                let mut at = list.front().unwrap_or(NIL);
                while let Some(record) = self.store.rows.get_mut(at)
                    && record.is_announced()
                {
                    record.set_announced(false);
                    at = record.next;
                }
                list.announce_again();
            }
            // What lapsed while another server was primary was its to say.
            busy.notices = Lazy::new();
        }
        self.hint_at(WallMs(0));
    }

    /// What is to be removed now, as one effect of at most `max` ids: finished
    /// orders past their keep end, reserved ids past their lock, dead orders
    /// above `dead-max`; or the end of a pause.
    pub fn due_forget(
        &mut self,
        now: &Now,
        defaults: &Defaults,
        max: usize,
    ) -> Option<Effect<'static>> {
        if let Some(pause) = &self.busy.pause
            && pause.until.is_some_and(|until| until.is_due(now))
        {
            return Some(Effect::Pause {
                on: false,
                until: None,
                reason: Bytes::of(b""),
            });
        }
        let mut handles = Vec::new();
        self.busy
            .keeps
            .first_n(&by_keep(&self.store.rows), 0, max, &mut handles);
        handles.retain(|i| self.store.rows.state(*i, now) == State::Missing);
        if handles.is_empty() {
            let dead_max = self.setting(Setting::DeadMax, defaults);
            let too_many = match dead_max {
                0 => 0,
                most => (self.busy.dead.len() as u64).saturating_sub(most),
            };
            let count = usize::try_from(too_many).unwrap_or(usize::MAX).min(max);
            handles.extend(self.busy.dead.iter(&self.store.rows).take(count));
        }
        if handles.is_empty() {
            return None;
        }
        let ids = handles
            .iter()
            .map(|i| Bytes::copied(self.store.rows.id(*i)))
            .collect();
        Some(Effect::Forget { ids })
    }

    /// The earliest wall millisecond at which a pass that may do what `duty` says
    /// has something to do here; a value that has passed means now.
    pub fn next_wake(&self, now: &Now, duty: Duty) -> Option<WallMs> {
        let leases = self
            .busy
            .leases
            .first_time(&by_lease(&self.store.rows))
            .map(|mono| {
                let left = crate::words::time::MonoMs(mono).left(now);
                now.wall_ms().plus(left)
            });
        if now.wall_ms() < self.busy.latest {
            return Some(WallMs(0));
        }
        if duty == Duty::Advance {
            return leases;
        }
        let mut wake = leases;
        let mut sooner = |at: Option<WallMs>| wake = wake.into_iter().chain(at).min();
        if self.is_paused(now) {
            sooner(self.busy.pause.as_ref().and_then(|pause| pause.until));
        } else {
            if self.busy.pause.is_some() || (duty == Duty::All && self.has_unannounced()) {
                return Some(WallMs(0));
            }
            let rows = &self.store.rows;
            if duty == Duty::All {
                sooner(self.deadlines.first_time(&by_deadline(rows)).map(WallMs));
            } else {
                // What is due already waits to be announced; the next one is ahead.
                let mut next = Vec::new();
                let view = by_deadline(rows);
                self.deadlines.first_n(&view, now.wall_ms().0, 1, &mut next);
                sooner(next.first().and_then(|i| rows.get(*i)?.deadline()));
            }
        }
        sooner(
            self.busy
                .keeps
                .first_time(&by_keep(&self.store.rows))
                .map(|end| forget_wake(WallMs(end))),
        );
        wake
    }
}

/// When a record that ends at `end` is forgotten.
fn forget_wake(end: WallMs) -> WallMs {
    WallMs(
        end.0
            .div_ceil(FORGET_EVERY_MS)
            .saturating_mul(FORGET_EVERY_MS),
    )
}
