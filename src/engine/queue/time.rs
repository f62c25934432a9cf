//! What time does to the records, and when there is something to do next.

use super::{Queue, Undrawing};
use crate::engine::effect::{Bytes, Effect};
use crate::engine::record::{Place, Record};
use crate::engine::settings::{Defaults, Setting};
use crate::engine::tables::NIL;
use crate::engine::views::{by_deadline, by_keep, by_lease};
use crate::words::state::State;
use crate::words::time::{Now, WallMs};

/// How many records one small step moves at most.
const STEP: usize = 64;

/// How many records are drawn at once at most: a list of the wheel.
const DRAW_MAX: usize = 256;

/// Kept records are forgotten in batches: their wake is rounded up to this many
/// milliseconds. They read as missing at once, so only memory waits.
const FORGET_EVERY_MS: u64 = 256;

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

impl Queue {
    /// Asks for a pass now.
    pub(in crate::engine) fn wake_now(&mut self) {
        self.hint_at(WallMs(0));
    }

    /// Notes the deadline of an order that was put into `drawn` or `returned`.
    pub(super) fn note_due(&mut self, i: u32) {
        let deadline = self.store.rows.get(i).and_then(Record::deadline);
        let deadline = deadline.unwrap_or_default();
        let busy = &mut *self.busy;
        busy.latest = busy.latest.max(deadline);
        if let Some(walk) = &mut busy.undrawing {
            walk.wall = walk.wall.max(deadline);
        }
    }

    /// Ends a walk of [`Queue::undraw`] that was not done: a record has another handle.
    pub(in crate::engine) fn end_undrawing(&mut self) {
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
    /// a deadline in them. At its end [`Busy::latest`](super::Busy::latest) is no later than now.
    fn undraw(&mut self, now: &Now) {
        let wall = now.wall_ms();
        let goes_on = self.busy.undrawing.take().filter(|walk| walk.wall <= wall);
        let first = self.busy.drawn.front().or(self.busy.returned.front());
        let mut at = goes_on.map_or(first.unwrap_or(NIL), |walk| walk.at);
        for _ in 0..STEP {
            let deadline = self.store.rows.get(at).and_then(Record::deadline);
            let next = self.after(at);
            if deadline.is_some_and(|deadline| deadline > wall) {
                self.refile(at, now);
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
    pub(super) fn after(&self, i: u32) -> u32 {
        match self.store.rows.get(i) {
            Some(record) if record.next != NIL => record.next,
            Some(record) if record.place() == Place::Drawn => {
                self.busy.returned.front().unwrap_or(NIL)
            }
            _ => NIL,
        }
    }

    /// Draws due orders from the wheel, at least one if one is due and about
    /// `want` at most.
    pub(super) fn draw(&mut self, now: &Now, want: usize) {
        let mut due = Vec::new();
        self.deadlines.take_due(
            &mut by_deadline(&mut self.store.rows),
            now.wall_ms().0,
            want.clamp(1, DRAW_MAX),
            &mut due,
        );
        for i in &due {
            let deadline = self.store.rows.get(*i).and_then(Record::deadline);
            self.deadline_left(deadline.unwrap_or_default());
            self.stand(*i, Place::Drawn, now);
            self.busy.drawn.push_back(&mut self.store.rows, *i);
            self.note_due(*i);
        }
    }

    /// Since when an order of `Drawn` or `Returned` has been claimable.
    pub(in crate::engine) fn claimable_since(&self, i: u32) -> WallMs {
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
    pub(in crate::engine) fn earlier(&self, drawn: u32, returned: u32) -> u32 {
        if drawn == NIL {
            return returned;
        }
        if returned == NIL || self.claimable_since(drawn) <= self.claimable_since(returned) {
            return drawn;
        }
        returned
    }

    /// Something can be claimed now, as far as [`Queue::advance`] has got.
    pub fn claimable(&self, now: &Now, defaults: &Defaults) -> bool {
        self.claim_wake(now, defaults)
            .is_some_and(|wake| wake.is_due(now))
    }

    /// Something could be claimed now but for the brake, as far as [`Queue::advance`] has
    /// got.
    pub(super) fn has_claimable(&self, now: &Now, defaults: &Defaults) -> bool {
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
pub(super) fn forget_wake(end: WallMs) -> WallMs {
    WallMs(
        end.0
            .div_ceil(FORGET_EVERY_MS)
            .saturating_mul(FORGET_EVERY_MS),
    )
}
