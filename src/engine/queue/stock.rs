//! How many orders are in each state, and how many are overdue, in numbers that can be
//! read at once: for the gauges of all queues together.
//!
//! Time moves nothing in the wheels, so how many of their records are due is known by
//! counting alone, in O(256). [`Queue::take_stock`] counts, and notes the moment; from
//! then on every record that comes into a wheel or leaves it is held against that
//! moment. So [`Queue::gauges`] is right for the moment of the last stocktaking, and for
//! everything written since, in O(1) and without a clock.
//!
//! What stands outside the wheel of deadlines and has one (drawn, returned, leased,
//! retrying, dead) is counted by deadline, see [`Seconds`](crate::engine::tables::seconds::Seconds): those that have passed are
//! overdue. What waits in the wheel costs nothing.

use super::time::Duty;
use super::{NEVER, Queue};
use crate::engine::record::Record;
use crate::engine::tables::seconds::second_end;
use crate::engine::views::{by_deadline, by_keep};
use crate::words::state::State;
use crate::words::time::{Now, WallMs};

/// How long after something has fallen due stock is taken, milliseconds, where nothing
/// else asks for a look at that moment.
const STOCK_MS: u64 = 500;

/// What was due at a moment.
#[derive(Clone, Copy, Debug)]
pub(in crate::engine) struct Due {
    /// The moment, wall milliseconds.
    until: u64,
    /// How many records of the wheel of deadlines were due then and are there now.
    deadlines: u32,
    /// How many records of the wheel of keep ends were over then and are there now.
    keeps: u32,
    /// The earliest deadline in the wheel, [`NEVER`] if it was ahead then.
    first: u64,
    /// The record of that deadline has left, and `first` may be too early.
    first_left: bool,
}

impl Due {
    /// No moment, nothing due.
    pub(in crate::engine) const NONE: Self = Self {
        until: 0,
        deadlines: 0,
        keeps: 0,
        first: NEVER,
        first_left: false,
    };
}

/// Counts of a queue.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Gauges {
    /// Orders by state, in the order of [`State::LISTED`].
    pub states: [u64; State::LISTED.len()],
    /// Orders whose deadline has passed and that are not finished.
    pub overdue: u64,
    /// Claims that are live.
    pub live_claims: u64,
    /// Leases that end with a connection.
    pub session_leases: u64,
    /// Since when the oldest claimable order has been claimable, rounded up to the end
    /// of its second.
    pub oldest_expired: Option<WallMs>,
    /// The earliest deadline of those that are overdue, rounded up likewise.
    pub oldest_overdue: Option<WallMs>,
}

impl Queue {
    /// Counts what is due now: to be called when a deadline has passed, or the clock was
    /// set. O(256).
    pub fn take_stock(&mut self, now: &Now) {
        let wall = now.wall_ms().0;
        let view = by_deadline(&self.store.rows);
        let first = self.deadlines.first_time(&view).filter(|at| *at <= wall);
        if !self.busy.is_made() && first.is_none() {
            return;
        }
        let deadlines = first.map_or(0, |_| self.deadlines.count_until(&view, wall));
        let keeps = self
            .busy
            .keeps
            .count_until(&by_keep(&self.store.rows), wall);
        let busy = &mut *self.busy;
        busy.due = Due {
            until: wall,
            // No wheel holds more than 2^32.
            deadlines: u32::try_from(deadlines).unwrap_or(u32::MAX),
            keeps: u32::try_from(keeps).unwrap_or(u32::MAX),
            first: first.unwrap_or(NEVER),
            first_left: false,
        };
        busy.outside.advance(wall);
        if busy.meters.is_made() {
            busy.meters.times.trim(now);
        }
    }

    /// When to take stock next, where passes do what `duty` says: [`Queue::next_wake`]
    /// does not ask for the sake of the counts. `None`: not before something is written.
    pub fn stock_wake(&self, now: &Now, duty: Duty) -> Option<WallMs> {
        let rows = &self.store.rows;
        let wall = now.wall_ms();
        let mut first: Option<u64> = self.busy.outside.first_after(wall.0);
        let mut next = Vec::new();
        if duty == Duty::Advance || self.is_paused(now) {
            self.deadlines
                .first_n(&by_deadline(rows), wall.0, 1, &mut next);
            let deadline = next.first().and_then(|i| rows.get(*i)?.deadline());
            first = first.into_iter().chain(deadline.map(|at| at.0)).min();
        }
        if duty == Duty::Advance {
            next.clear();
            self.busy
                .keeps
                .first_n(&by_keep(rows), wall.0, 1, &mut next);
            let end = next.first().and_then(|i| rows.get(*i)?.keep_end());
            first = first.into_iter().chain(end.map(|at| at.0)).min();
        }
        let trim_in_ms = self.busy.meters.times.trim_in_ms(now);
        let trim = trim_in_ms.map(|ms| wall.plus(ms.max(1)));
        let stock = first.map(|at| WallMs(at).plus(STOCK_MS));
        stock.into_iter().chain(trim).min()
    }

    /// Sees to it that [`Queue::gauges`] can be read after a change. O(1), or O(256) where
    /// the first of the due orders has left the wheel.
    pub fn settle_gauges(&mut self) {
        if !self.busy.due.first_left {
            return;
        }
        let until = self.busy.due.until;
        let first = self.deadlines.first_time(&by_deadline(&self.store.rows));
        let due = &mut self.busy.due;
        due.first = first.filter(|at| *at <= until).unwrap_or(NEVER);
        due.first_left = false;
    }

    /// The counts, as of the last [`Queue::take_stock`] and everything written since,
    /// after [`Queue::settle_gauges`]. O(1), but O(log n) for the oldest.
    pub fn gauges(&self) -> Gauges {
        let (waiting, busy) = (self.deadlines.len() as u64, &*self.busy);
        if !self.busy.is_made() {
            let states = State::LISTED.map(|state| match state {
                State::Scheduled => waiting,
                _ => 0,
            });
            return Gauges {
                states,
                ..Gauges::default()
            };
        }
        let (due, over) = (u64::from(busy.due.deadlines), u64::from(busy.due.keeps));
        let lists = (busy.drawn.len() + busy.returned.len()) as u64;
        let claims = u64::from(busy.tally.claims);
        let states = State::LISTED.map(|state| match state {
            State::Missing => 0,
            State::Scheduled => waiting.saturating_sub(due),
            State::Expired => due + lists,
            State::Leased => claims + u64::from(busy.tally.locks),
            State::Retrying => u64::from(busy.tally.retrying),
            State::Dead => busy.dead.len() as u64,
            State::Finished => (busy.keeps.len() as u64).saturating_sub(over),
            State::Reserved => u64::from(busy.tally.reserved),
        });
        let first_due = Some(busy.due.first).filter(|first| *first != NEVER);
        let fronts = [busy.drawn.front(), busy.returned.front()];
        let since = |i: u32| self.claimable_since(i).0;
        let expired = fronts.into_iter().flatten().map(since).chain(first_due);
        let outside = busy
            .outside
            .first()
            .filter(|at| *at <= busy.outside.until());
        let oldest = |at: u64| WallMs(second_end(at));
        Gauges {
            states,
            overdue: due + busy.outside.passed(),
            live_claims: claims,
            session_leases: self.session_leases(),
            oldest_expired: expired.min().map(oldest),
            oldest_overdue: outside.into_iter().chain(first_due).min().map(oldest),
        }
    }

    /// How many orders are overdue: their deadline has passed and they are not finished.
    /// O(256).
    pub(in crate::engine) fn overdue(&self, now: &Now) -> u64 {
        let wall = now.wall_ms().0;
        let due = self
            .deadlines
            .count_until(&by_deadline(&self.store.rows), wall);
        due as u64 + self.busy.outside.count(wall)
    }

    /// How long the oldest of them has been overdue, milliseconds, up to a second less;
    /// 0 if there is none. O(256).
    pub(in crate::engine) fn oldest_overdue_ms(&self, now: &Now) -> u64 {
        let wall = now.wall_ms().0;
        let first = self.deadlines.first_time(&by_deadline(&self.store.rows));
        let first = first.into_iter().chain(self.busy.outside.first()).min();
        first.map_or(0, |first| wall.saturating_sub(first))
    }

    /// A record with this deadline is put into the wheel of deadlines. O(1).
    pub(super) fn deadline_came(&mut self, deadline: WallMs) {
        if deadline.0 <= self.busy.due.until {
            let due = &mut self.busy.due;
            due.deadlines = due.deadlines.saturating_add(1);
            due.first = due.first.min(deadline.0);
        }
    }

    /// A record with this deadline is taken out of it. O(1).
    pub(super) fn deadline_left(&mut self, deadline: WallMs) {
        if self.busy.is_made() && deadline.0 <= self.busy.due.until {
            let due = &mut self.busy.due;
            due.deadlines = due.deadlines.saturating_sub(1);
            due.first_left |= deadline.0 == due.first;
        }
    }

    /// A record that is filed under this time is put into the wheel of keep ends. O(1).
    pub(super) fn keep_came(&mut self, end: u64) {
        if end <= self.busy.due.until {
            let due = &mut self.busy.due;
            due.keeps = due.keeps.saturating_add(1);
        }
    }

    /// A record that is filed under this time is taken out of it. O(1).
    pub(super) fn keep_left(&mut self, end: u64) {
        if end <= self.busy.due.until {
            let due = &mut self.busy.due;
            due.keeps = due.keeps.saturating_sub(1);
        }
    }

    /// A record is put into a place outside of the wheels of deadlines and keep ends.
    /// O(log n).
    pub(super) fn went_outside(&mut self, i: u32, now: &Now) {
        let Some(deadline) = self.store.rows.get(i).and_then(Record::deadline) else {
            return;
        };
        let wall = now.wall_ms();
        let outside = &mut self.busy.outside;
        if outside.is_empty() || (outside.until() < deadline.0 && deadline <= wall) {
            outside.advance(wall.0);
        }
        outside.add(deadline.0);
        if deadline > wall {
            self.hint_at(deadline.plus(STOCK_MS));
        }
    }

    /// A record is taken out of such a place. O(log n).
    pub(super) fn left_outside(&mut self, i: u32) {
        if let Some(deadline) = self.store.rows.get(i).and_then(Record::deadline) {
            self.busy.outside.remove(deadline.0);
        }
    }

    /// Counts everything anew and holds it against what was counted, in tests and debug
    /// builds only. O(n).
    ///
    /// # Panics
    ///
    /// If they differ.
    #[cfg(any(test, fuzzing, debug_assertions))]
    pub fn check_stock(&self) {
        use crate::engine::record::Place;
        let (rows, busy) = (&self.store.rows, &*self.busy);
        let (due, outside) = (&busy.due, &busy.outside);
        if self.busy.is_made() {
            let deadlines = self.deadlines.count_until(&by_deadline(rows), due.until);
            assert_eq!(deadlines, due.deadlines as usize, "due in the wheel");
            let keeps = busy.keeps.count_until(&by_keep(rows), due.until);
            assert_eq!(keeps, due.keeps as usize, "over in the wheel of keep ends");
            let first = self.deadlines.first_time(&by_deadline(rows));
            let first = first.filter(|at| *at <= due.until).unwrap_or(NEVER);
            assert!(
                due.first_left || first == due.first,
                "the first that is due"
            );
        }
        let there = (0..rows.end())
            .filter_map(|i| rows.get(i))
            .filter(|record| {
                let wheel = [
                    Place::Deadlines,
                    Place::Keeps,
                    Place::Nowhere,
                    Place::Vacant,
                ];
                !wheel.contains(&record.place()) && record.deadline().is_some()
            });
        assert_eq!(there.count() as u64, outside.count(u64::MAX), "outside");
    }
}
