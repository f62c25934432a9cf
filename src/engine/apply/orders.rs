//! Effects on orders: made, moved, finished, handed back, forgotten.

use std::sync::Arc;

use super::{Source, boxed, raise};
use crate::engine::effect::{AfterTry, Base, Effect, FinishedBy, LeaseKind, Requeued};
use crate::engine::ending::Ending;
use crate::engine::outcome::{Event, EventKind};
use crate::engine::queue::{Entry, Queue};
use crate::engine::record::{Phase, Place, Record, Retry};
use crate::engine::times::Timing;
use crate::words::time::{Now, WallMs};

impl Queue {
    /// Makes an order, or moves its deadline.
    pub(super) fn apply_schedule<'e>(
        &mut self,
        now: &Now,
        effect: &Effect<'e>,
        events: &mut Vec<Event<'e>>,
        source: Source<'_>,
    ) -> bool {
        let Effect::Schedule {
            id,
            deadline,
            rev,
            status,
            payload,
            base,
        } = effect
        else {
            return false;
        };
        let found = if *base == Base::Fresh {
            self.fresh(id)
        } else {
            self.taken(id)
        };
        let Some(i) = found else { return false };
        self.move_deadline(i, *deadline, *base == Base::RecordAndLock);
        self.label(i, *rev, status.as_ref());
        let fits = payload
            .as_ref()
            .is_none_or(|payload| self.store.set_second(i, Some(payload)));
        self.file(i, now, source.entry(Entry::Scheduled));
        if !self.replaying {
            self.count_scheduled();
        }
        raise(events, EventKind::Schedule, id);
        fits
    }

    /// Finishes an order, and keeps or removes it.
    pub(super) fn apply_finish<'e>(
        &mut self,
        now: &Now,
        effect: &Effect<'e>,
        events: &mut Vec<Event<'e>>,
        source: Source<'_>,
    ) -> bool {
        let Effect::Finish {
            id,
            rev,
            status,
            result,
            keep_end,
            creates,
            by,
            at,
            by_holder,
        } = effect
        else {
            return false;
        };
        let found = if *creates {
            self.fresh(id)
        } else {
            self.taken(id)
        };
        let Some(i) = found else { return false };
        self.meter_finish(i, now, *by);
        let fits = self.finish(i, *keep_end, result.as_deref(), (*at, *by_holder));
        self.label(i, *rev, status.as_ref());
        if keep_end.is_some() {
            self.file(i, now, source.entry(Entry::Back));
        } else {
            self.store.remove(i);
        }
        let kind = if *by == FinishedBy::Ack {
            EventKind::Ack
        } else {
            EventKind::Finish
        };
        raise(events, kind, id);
        fits
    }

    /// Sets the status of an order.
    pub(super) fn apply_status<'e>(
        &mut self,
        now: &Now,
        effect: &Effect<'e>,
        events: &mut Vec<Event<'e>>,
    ) -> bool {
        let Effect::Status {
            id,
            rev,
            status,
            payload,
            ends_grant,
        } = effect
        else {
            return false;
        };
        let Some(i) = self.store.find(id) else {
            return false;
        };
        if *ends_grant {
            self.forget_grant(i, now);
        }
        self.label(i, *rev, Some(status));
        let open = self
            .store
            .rows
            .get(i)
            .is_some_and(|record| !record.is_finished());
        let payload = payload.as_ref().filter(|_| open);
        let fits = payload.is_none_or(|payload| self.store.set_second(i, Some(payload)));
        raise(events, EventKind::Status, id);
        fits
    }

    /// Hands an order back.
    pub(super) fn apply_nack<'e>(
        &mut self,
        now: &Now,
        effect: &Effect<'e>,
        events: &mut Vec<Event<'e>>,
        source: Source<'_>,
    ) -> bool {
        let Effect::Nack {
            id,
            rev,
            then,
            error,
            untried,
        } = effect
        else {
            return false;
        };
        let Some(i) = self.waiting(id) else {
            return false;
        };
        // The late word of a holder whose last try has lapsed: the order
        // is dead already, and that was counted and maybe announced.
        let stays_dead = matches!(then, AfterTry::Dead(_))
            && self
                .store
                .rows
                .get(i)
                .is_some_and(|record| record.place() == Place::Dead);
        if !stays_dead {
            self.lift(i);
        } else if let Some(record) = self.store.rows.get_mut(i) {
            record.set_lapsed(false);
        }
        self.fail(i, now, *then, *untried);
        if let Some(error) = error {
            self.store
                .with_extra(i, |extra| extra.error = Some(boxed(error)));
        }
        self.label(i, *rev, None);
        if !stays_dead {
            self.file(i, now, source.entry(Entry::Back));
        }
        self.meter(|meters| meters.nacked += 1);
        raise(events, EventKind::Nack, id);
        true
    }

    /// Removes records. O(ids).
    pub(super) fn apply_forget(&mut self, now: &Now, effect: &Effect<'_>) -> bool {
        let Effect::Forget { ids } = effect else {
            return false;
        };
        let mut all = true;
        for id in ids {
            self.lapse_said(now, id);
            match self.store.find(id) {
                Some(i) => self.forget(i),
                None => all = false,
            }
        }
        all
    }

    /// Brings dead and retrying orders back. O(orders).
    pub(super) fn apply_requeue(
        &mut self,
        now: &Now,
        effect: &Effect<'_>,
        source: Source<'_>,
    ) -> bool {
        let Effect::Requeue { rev, orders } = effect else {
            return false;
        };
        let mut all = true;
        for Requeued { id, attempt } in orders {
            let Some(i) = self.waiting(id) else {
                all = false;
                continue;
            };
            self.lift(i);
            self.store.with_extra(i, |extra| {
                extra.attempt = *attempt;
                extra.phase = Phase::Plain;
                extra.fp = None;
            });
            self.label(i, *rev, None);
            self.file(i, now, source.entry(Entry::Back));
        }
        all
    }

    /// Gives a lifted record a deadline and takes off what belonged to the old
    /// one; the last grant and its fingerprint too, unless the lock is kept.
    fn move_deadline(&mut self, i: u32, deadline: WallMs, keeps_lock: bool) {
        let was_finished = self.store.rows.get(i).is_some_and(Record::is_finished);
        if was_finished {
            // What is in the payload's place is the result.
            self.store.set_second(i, None);
        }
        if self.store.rows.extra(i).is_some() {
            self.store.with_extra(i, |extra| {
                extra.attempt = 0;
                extra.error = None;
                if !keeps_lock {
                    extra.phase = Phase::Plain;
                    extra.fp = None;
                }
            });
        }
        if let Some(record) = self.store.rows.get_mut(i) {
            record.set_deadline(Some(deadline));
        }
    }

    /// Puts the finish mark on a lifted record, notes how it was finished, and frees
    /// what a finished order does not need. False if the result finds no room: then it is
    /// finished without.
    fn finish(
        &mut self,
        i: u32,
        keep_end: Option<WallMs>,
        result: Option<&[u8]>,
        (at, by_holder): (WallMs, bool),
    ) -> bool {
        let Some(keep_end) = keep_end else {
            // It goes at once.
            return true;
        };
        let deadline = self.store.rows.get(i).and_then(Record::deadline);
        let extra = self.store.rows.extra(i);
        let attempt = extra.map_or(0, |extra| extra.attempt);
        let grant = extra.and_then(|extra| extra.grant().filter(|_| by_holder));
        let holder = grant.map(|grant| (grant.kind, Arc::clone(&grant.owner)));
        let ending = Ending {
            at,
            deadline,
            attempt,
            holder: holder.as_ref().map(|(kind, owner)| (*kind, &**owner)),
        };
        if extra.is_some() {
            self.store.with_extra(i, |extra| {
                extra.attempt = 0;
                extra.error = None;
                extra.phase = Phase::Plain;
            });
        }
        let ending = (at != WallMs(0)).then_some(&ending);
        let fits = self.store.set_result(i, result, ending);
        if !fits && !self.store.set_result(i, None, ending) {
            // What is in the result's place is the payload.
            self.store.set_result(i, None, None);
        }
        if let Some(record) = self.store.rows.get_mut(i) {
            record.set_finished(keep_end);
        }
        fits
    }

    /// Counts a finish, how long the claim or lock that it ends took, and how long after
    /// its deadline it comes.
    fn meter_finish(&mut self, i: u32, now: &Now, by: FinishedBy) {
        match by {
            FinishedBy::Finish => self.meter(|meters| meters.finished += 1),
            FinishedBy::Ack => self.meter(|meters| meters.acked += 1),
        }
        if let Some(grant) = self.store.rows.grant(i) {
            let (kind, took) = (grant.kind, now.mono_us.saturating_sub(grant.made_us));
            match kind {
                LeaseKind::Claim => self.time(now, Timing::Close, took),
                LeaseKind::Lock => self.time(now, Timing::LockHold, took),
            }
        }
        let deadline = self.store.rows.get(i).and_then(Record::deadline);
        if let Some(deadline) = deadline.filter(|deadline| deadline.is_due(now)) {
            let late_us = now.wall_us.saturating_sub(deadline.0.saturating_mul(1000));
            self.time(now, Timing::OverdueClose, late_us);
        }
    }

    /// Ends the claim of a record as a failed try, or as none (`untried`). The record
    /// is lifted, or dead and to stay so.
    pub(super) fn fail(&mut self, i: u32, now: &Now, then: AfterTry, untried: bool) {
        let is_dead = self
            .store
            .rows
            .get(i)
            .is_some_and(|record| record.place() == Place::Dead);
        if matches!(then, AfterTry::Dead(_)) && !is_dead {
            self.meter(|meters| meters.dead += 1);
        }
        self.store.with_extra(i, |extra| {
            extra.attempt = extra.attempt.saturating_sub(u32::from(untried));
            extra.phase = match then {
                AfterTry::Now => Phase::Plain,
                AfterTry::At { since, at } => Phase::Retrying(Retry {
                    since,
                    at,
                    mono: now.to_mono(at, at.length_since(since)),
                }),
                AfterTry::Dead(at) => Phase::Dead(at),
            };
        });
    }

    /// Removes a record.
    fn forget(&mut self, i: u32) {
        if self
            .store
            .rows
            .get(i)
            .is_some_and(|record| record.place() == Place::Dead)
        {
            self.meter(|meters| meters.dead_dropped += 1);
        }
        self.lift(i);
        self.store.remove(i);
    }
}
