//! Where a record stands: lifted out of its structure, and filed into another.

use super::time::forget_wake;
use super::{Queue, Wake};
use crate::engine::effect::LeaseKind;
use crate::engine::record::{Place, Record};
use crate::engine::tables::wheel::Filed;
use crate::engine::views::{by_deadline, by_keep, by_lease};
use crate::words::time::{Now, WallMs};

/// How a record comes to its place. Where its deadline has passed, that decides
/// since when it is claimable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::engine) enum Entry {
    /// Scheduled or moved: since its deadline, or since now if that is earlier.
    Scheduled,
    /// Handed back, released, requeued: since now.
    Back,
    /// From disk: since its deadline.
    Loaded,
}

/// Whether a record in this place is neither in the wheel of deadlines nor in that of
/// keep ends.
const fn is_outside(place: Place) -> bool {
    matches!(
        place,
        Place::Leases | Place::Drawn | Place::Returned | Place::Dead
    )
}

impl Queue {
    /// Takes a record out of where it stands, before it is changed.
    pub(in crate::engine) fn lift(&mut self, i: u32) {
        let Some(record) = self.store.rows.get(i) else {
            return;
        };
        let (place, announced) = (record.place(), record.is_announced());
        let deadline = record.deadline().unwrap_or_default();
        let rows = &mut self.store.rows;
        match place {
            Place::Nowhere | Place::Vacant => return,
            Place::Deadlines => {
                self.deadlines.remove(&mut by_deadline(rows), i);
                self.deadline_left(deadline);
            }
            Place::Keeps => {
                self.busy.keeps.remove(&mut by_keep(rows), i);
                self.keep_left(by_keep(&self.store.rows).filed(i));
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
    pub(super) fn lifted(&mut self, i: u32, place: Place) {
        if is_outside(place) {
            self.left_outside(i);
        }
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
    pub(super) fn tally_of(&mut self, i: u32) -> Option<&mut u32> {
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
    pub(super) fn stand(&mut self, i: u32, place: Place, now: &Now) {
        if let Some(record) = self.store.rows.get_mut(i) {
            record.set_place(place);
        }
        if is_outside(place) {
            self.went_outside(i, now);
        }
    }

    /// Puts a record that was lifted and changed where it belongs.
    pub(in crate::engine) fn file(&mut self, i: u32, now: &Now, entry: Entry) {
        let Some(record) = self.store.rows.get(i) else {
            return;
        };
        let (deadline, keep_end) = (record.deadline(), record.keep_end());
        let extra = self.store.rows.extra(i);
        let leased = extra.is_some_and(|extra| extra.grant().is_some());
        let dead = extra.is_some_and(|extra| extra.dead_at().is_some());
        let retrying = extra.is_some_and(|extra| extra.retry().is_some());
        if keep_end.is_some() || (deadline.is_none() && !leased) {
            self.file_keep(i, now);
        } else if leased || retrying {
            self.stand(i, Place::Leases, now);
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
            self.file_dead(i, now);
        } else if let Some(deadline) = deadline {
            let by_deadline = match entry {
                Entry::Loaded => true,
                Entry::Scheduled => deadline >= now.wall_ms(),
                Entry::Back => deadline > now.wall_ms(),
            };
            if by_deadline {
                self.file_deadline(i, deadline, now);
            } else {
                self.file_returned(i, now, now.wall_ms());
            }
        }
    }

    /// Notes that there is something to do at `wall`.
    pub(in crate::engine) fn hint_at(&mut self, wall: WallMs) {
        self.hint = Wake::of(self.hint.wall_ms().min(wall.0));
    }

    /// Files a record by its deadline.
    fn file_deadline(&mut self, i: u32, deadline: WallMs, now: &Now) {
        self.stand(i, Place::Deadlines, now);
        self.deadlines
            .insert(&mut by_deadline(&mut self.store.rows), i);
        self.deadline_came(deadline);
        self.hint_at(deadline);
    }

    /// Files a record by its keep end, or by the end of its lapsed lock.
    fn file_keep(&mut self, i: u32, now: &Now) {
        self.stand(i, Place::Keeps, now);
        self.busy
            .keeps
            .insert(&mut by_keep(&mut self.store.rows), i);
        self.keep_came(by_keep(&self.store.rows).filed(i));
        let rows = &self.store.rows;
        let end = rows
            .get(i)
            .and_then(Record::keep_end)
            .or_else(|| rows.grant(i).map(|grant| grant.end));
        self.hint_at(forget_wake(end.unwrap_or_default()));
    }

    /// Files a dead record.
    fn file_dead(&mut self, i: u32, now: &Now) {
        self.stand(i, Place::Dead, now);
        self.busy.dead.push_back(&mut self.store.rows, i);
        self.hint_at(WallMs(0));
    }

    /// Files a record that has been claimable since `since` by other ways than its
    /// deadline; since now where that is still to come: the wall clock was set back since
    /// it was written down, and what becomes claimable later is not to be handed out
    /// before it.
    fn file_returned(&mut self, i: u32, now: &Now, since: WallMs) {
        let since = since.min(now.wall_ms());
        self.stand(i, Place::Returned, now);
        self.store.with_extra(i, |extra| extra.ready_at = since);
        self.busy.returned.push_back(&mut self.store.rows, i);
        self.note_due(i);
        self.hint_at(WallMs(0));
    }

    /// Puts a record whose lease or retry wait has ended where that leads.
    pub(in crate::engine) fn settle(&mut self, i: u32, now: &Now) {
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
                Some(deadline) => self.file_deadline(i, deadline, now),
                None => self.file_returned(i, now, retry_at.max(deadline).unwrap_or_default()),
            }
            return;
        };
        let (end, last_try) = (grant.end, grant.is_last_try());
        self.unbind_lapsed(i);
        let Some(deadline) = deadline else {
            // A reserved id lives and dies with its lock.
            self.busy.lapsed = true;
            self.busy.meters.lapsed += 1;
            self.file_keep(i, now);
            return;
        };
        self.busy.lapsed = true;
        self.busy.meters.lapsed += 1;
        if last_try {
            self.busy.meters.dead += 1;
            self.file_dead(i, now);
        } else if end < deadline || !deadline.is_due(now) {
            // What makes it claimable is its deadline, which may have passed too
            // since. (A claimed order comes here if the wall clock was set back.)
            self.busy.notices.push(self.store.rows.id(i).into());
            self.file_deadline(i, deadline, now);
            self.hint_at(WallMs(0));
            return;
        } else {
            self.file_returned(i, now, end);
        }
        if let Some(record) = self.store.rows.get_mut(i) {
            record.set_lapsed(true);
        }
    }

    /// Puts a record that is no longer due (the wall clock was set back) back
    /// into the wheel.
    pub(in crate::engine) fn refile(&mut self, i: u32, now: &Now) {
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
        self.file_deadline(i, deadline, now);
    }
}
