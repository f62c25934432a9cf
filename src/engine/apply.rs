//! Carrying effects out. Total: an effect for a record that is not there
//! changes nothing and says so, it is never an error, because the stream it came
//! in must go on. A primary applies what it decided, replicas and loaders what
//! they are told; all end with equal ground state.

use std::sync::Arc;

use super::effect::{
    AfterTry, Base, Bytes, Effect, Ended, FinishedBy, Granted, LeaseKind, Whole, WholeLife,
};
use super::meters::Meters;
use super::outcome::{Event, EventKind};
use super::queue::{Entry, Pause, Queue};
use super::record::{Grant, Place, Record, Retry};
use super::store::SECOND_BYTES_MAX;
use super::time::{Now, WallMs};

/// Copies bytes into a box of their own.
fn boxed(bytes: &Bytes<'_>) -> Box<[u8]> {
    (**bytes).into()
}

impl Queue {
    /// Carries an effect out and notes the events that it raises. Returns false
    /// if it named a record that is not there. O(1) for each record named.
    pub fn apply<'e>(
        &mut self,
        now: &Now,
        effect: &Effect<'e>,
        events: &mut Vec<Event<'e>>,
    ) -> bool {
        self.carry_out(now, effect, events, false)
    }

    /// As [`Queue::apply`], for effects that were carried out before and come
    /// back from disk: what has fallen due since goes by its deadline, and nothing
    /// is counted or timed again.
    pub fn replay(&mut self, now: &Now, effect: &Effect<'_>) -> bool {
        self.replaying = true;
        let known = self.carry_out(now, effect, &mut Vec::new(), true);
        self.replaying = false;
        known
    }

    /// Counts something, unless it was counted when it happened.
    fn meter(&mut self, count: impl FnOnce(&mut Meters)) {
        if !self.replaying {
            count(&mut self.busy.meters);
        }
    }

    /// See [`Queue::apply`] and [`Queue::replay`].
    fn carry_out<'e>(
        &mut self,
        now: &Now,
        effect: &Effect<'e>,
        events: &mut Vec<Event<'e>>,
        loading: bool,
    ) -> bool {
        match effect {
            Effect::Schedule {
                id,
                deadline,
                rev,
                status,
                payload,
                base,
            } => {
                let found = if *base == Base::Fresh {
                    self.fresh(id)
                } else {
                    self.taken(id)
                };
                let Some(i) = found else { return false };
                self.move_deadline(i, *deadline, *base == Base::RecordAndLock);
                self.label(i, *rev, status.as_ref());
                if let Some(payload) = payload {
                    self.store.set_second(i, Some(payload));
                }
                self.file(i, now, entry(loading, Entry::Scheduled));
                if !self.replaying {
                    self.count_scheduled();
                }
                raise(events, EventKind::Schedule, id);
                true
            }
            Effect::Finish {
                id,
                rev,
                status,
                result,
                keep_end,
                creates,
                by,
            } => {
                let found = if *creates {
                    self.fresh(id)
                } else {
                    self.taken(id)
                };
                let Some(i) = found else { return false };
                self.meter_finish(i, now, *by);
                self.finish(i, *keep_end, result.as_deref());
                self.label(i, *rev, status.as_ref());
                if keep_end.is_some() {
                    self.file(i, now, entry(loading, Entry::Back));
                } else {
                    self.store.remove(i);
                }
                let kind = if *by == FinishedBy::Ack {
                    EventKind::Ack
                } else {
                    EventKind::Finish
                };
                raise(events, kind, id);
                true
            }
            Effect::Status {
                id,
                rev,
                status,
                payload,
                ends_grant,
            } => {
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
                if let Some(payload) = payload.as_ref().filter(|_| open) {
                    self.store.set_second(i, Some(payload));
                }
                raise(events, EventKind::Status, id);
                true
            }
            Effect::Claim {
                owner,
                end,
                cap,
                grants,
            } => {
                let owner = owner.shared();
                let mut all = true;
                let mut has_name = true;
                for granted in grants {
                    if self.grant_claim(now, (&owner, has_name), (*end, *cap), granted) {
                        has_name = false;
                        raise(events, EventKind::Claim, &granted.id);
                    } else {
                        all = false;
                    }
                }
                self.store.end_look_ahead();
                all
            }
            Effect::Nack {
                id,
                rev,
                then,
                error,
            } => {
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
                self.fail(i, now, *then);
                if let Some(error) = error {
                    self.store
                        .with_extra(i, |extra| extra.error = Some(boxed(error)));
                }
                self.label(i, *rev, None);
                if !stays_dead {
                    self.file(i, now, entry(loading, Entry::Back));
                }
                self.meter(|meters| meters.nacked += 1);
                raise(events, EventKind::Nack, id);
                true
            }
            Effect::Renew { id, rev, end } => self.regrant(now, id, *rev, *end, None),
            Effect::Hold {
                id,
                rev,
                holds,
                end,
            } => self.regrant(now, id, *rev, *end, Some(*holds)),
            Effect::Lock {
                id,
                owner,
                fence,
                end,
                cap,
                fp,
                creates,
            } => {
                let found = if *creates {
                    self.fresh(id)
                } else {
                    self.taken_open(id)
                };
                let Some(i) = found else { return false };
                let grant = Grant {
                    owner: owner.shared(),
                    fence: *fence,
                    end: *end,
                    cap: *cap,
                    end_mono: now.to_mono(*end),
                    cap_mono: now.to_mono(*cap),
                    made_us: now.mono_us,
                    holds: 1,
                    kind: LeaseKind::Lock,
                    last_try: false,
                    has_name: true,
                };
                self.store.with_extra(i, |extra| {
                    extra.grant = Some(grant);
                    extra.retry = None;
                    extra.dead_at = None;
                    extra.fp = fp.as_ref().map(boxed);
                });
                self.label(i, *fence, None);
                self.file(i, now, entry(loading, Entry::Back));
                self.meter(|meters| meters.lock_acquired += 1);
                raise(events, EventKind::Lock, id);
                true
            }
            Effect::Release { id, rev, ended } => {
                let Some(i) = self.taken_open(id) else {
                    return false;
                };
                let has_deadline = self
                    .store
                    .rows
                    .get(i)
                    .is_some_and(|record| record.deadline().is_some());
                match ended {
                    Ended::Claim(then) => self.fail(i, now, *then),
                    Ended::Lock => {
                        if let Some(grant) = self.store.rows.grant(i) {
                            let took = now.mono_us.saturating_sub(grant.made_us);
                            self.meter(|meters| meters.lock_hold.record(took));
                        }
                        // The fingerprint was that of the request which gave up: another
                        // may try now.
                        self.store.with_extra(i, |extra| {
                            extra.grant = None;
                            extra.fp = None;
                        });
                    }
                }
                self.label(i, *rev, None);
                if has_deadline {
                    self.file(i, now, entry(loading, Entry::Back));
                } else {
                    self.store.remove(i);
                }
                raise(events, EventKind::Unlock, id);
                true
            }
            Effect::Forget { ids } => {
                let mut all = true;
                for id in ids {
                    match self.store.find(id) {
                        Some(i) => self.forget(i),
                        None => all = false,
                    }
                }
                all
            }
            Effect::Requeue { rev, ids } => {
                let mut all = true;
                for id in ids {
                    let Some(i) = self.waiting(id) else {
                        all = false;
                        continue;
                    };
                    self.lift(i);
                    self.store.with_extra(i, |extra| {
                        extra.attempt = 0;
                        extra.grant = None;
                        extra.fp = None;
                        extra.dead_at = None;
                        extra.retry = None;
                    });
                    self.label(i, *rev, None);
                    self.file(i, now, entry(loading, Entry::Back));
                }
                all
            }
            Effect::Configure { name, value } => {
                let mut own = self.busy.own.take().unwrap_or_default();
                let known = own.configure(name, value.as_deref());
                self.busy.own = (!own.is_empty()).then_some(own);
                self.wake_now();
                known
            }
            Effect::Pause { on, until, reason } => {
                self.busy.pause = on.then(|| {
                    Box::new(Pause {
                        until: *until,
                        reason: boxed(reason),
                    })
                });
                self.wake_now();
                true
            }
            Effect::Floor(number) => {
                self.floor = self.floor.max(*number);
                true
            }
            Effect::Restore(whole) => self.restore(now, whole),
        }
    }

    /// An empty record under `id`, whatever was there, in no place.
    fn fresh(&mut self, id: &[u8]) -> Option<u32> {
        if let Some(i) = self.store.find(id) {
            self.lift(i);
            self.store.remove(i);
        }
        self.store.create(id)
    }

    /// The record under `id`, lifted out of its place.
    fn taken(&mut self, id: &[u8]) -> Option<u32> {
        let i = self.store.find(id)?;
        self.lift(i);
        Some(i)
    }

    /// The record under `id` if it has a deadline: only such an order can be
    /// claimed, handed back or requeued. What was decided on one that was replaced
    /// since (a stream that is replayed, or made up) would make a finished order
    /// with a lease, which no file can hold.
    fn waiting(&self, id: &[u8]) -> Option<u32> {
        let i = self.store.find(id)?;
        self.store.rows.get(i)?.deadline().map(|_| i)
    }

    /// The record under `id`, lifted out of its place, if it is not finished: it can
    /// be locked, and its lease released.
    fn taken_open(&mut self, id: &[u8]) -> Option<u32> {
        let i = self.store.find(id)?;
        if self.store.rows.get(i)?.is_finished() {
            return None;
        }
        self.lift(i);
        Some(i)
    }

    /// Sets rev and, where given, status; the floor follows the rev.
    fn label(&mut self, i: u32, rev: u64, status: Option<&Bytes<'_>>) {
        self.floor = self.floor.max(rev);
        if let Some(record) = self.store.rows.get_mut(i) {
            record.set_rev(rev);
        }
        if let Some(status) = status {
            self.store.set_status(i, status);
        }
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
                extra.retry = None;
                extra.dead_at = None;
                extra.error = None;
                if !keeps_lock {
                    extra.grant = None;
                    extra.fp = None;
                }
            });
        }
        if let Some(record) = self.store.rows.get_mut(i) {
            record.set_deadline(Some(deadline));
        }
    }

    /// Puts the finish mark on a lifted record and frees what a finished order
    /// does not need.
    fn finish(&mut self, i: u32, keep_end: Option<WallMs>, result: Option<&[u8]>) {
        if self.store.rows.extra(i).is_some() {
            self.store.with_extra(i, |extra| {
                extra.attempt = 0;
                extra.retry = None;
                extra.dead_at = None;
                extra.error = None;
                extra.grant = None;
            });
        }
        self.store.set_second(i, result);
        if let Some(record) = self.store.rows.get_mut(i) {
            record.set_finished(keep_end.unwrap_or_default());
        }
    }

    /// Counts a finish, and how long the claim or lock that it ends took.
    fn meter_finish(&mut self, i: u32, now: &Now, by: FinishedBy) {
        match by {
            FinishedBy::Finish => self.meter(|meters| meters.finished += 1),
            FinishedBy::Ack => self.meter(|meters| meters.acked += 1),
        }
        if let Some(grant) = self.store.rows.grant(i) {
            let (kind, took) = (grant.kind, now.mono_us.saturating_sub(grant.made_us));
            match kind {
                LeaseKind::Claim => self.meter(|meters| meters.close.record(took)),
                LeaseKind::Lock => self.meter(|meters| meters.lock_hold.record(took)),
            }
        }
    }

    /// Grants one claim.
    fn grant_claim(
        &mut self,
        now: &Now,
        (owner, has_name): (&Arc<[u8]>, bool),
        end_cap: (WallMs, WallMs),
        granted: &Granted<'_>,
    ) -> bool {
        let Some(i) = self.waiting(&granted.id) else {
            return false;
        };
        let since = self.claimable_since(i);
        let waited = now.wall_us.saturating_sub(since.0.saturating_mul(1000));
        self.meter(|meters| {
            meters.claimed += 1;
            meters.claim_wait.record(waited);
        });
        self.lift(i);
        let (end, cap) = end_cap;
        let grant = Grant {
            owner: Arc::clone(owner),
            fence: granted.fence,
            end,
            cap,
            end_mono: now.to_mono(end),
            cap_mono: now.to_mono(cap),
            made_us: now.mono_us,
            holds: 1,
            kind: LeaseKind::Claim,
            last_try: granted.last_try,
            has_name,
        };
        self.store.with_extra(i, |extra| {
            extra.attempt = granted.attempt;
            extra.grant = Some(grant);
            extra.fp = None;
            extra.retry = None;
            extra.dead_at = None;
        });
        self.label(i, granted.fence, None);
        self.file(i, now, Entry::Back);
        true
    }

    /// Ends the claim of a record as a failed try. The record is lifted, or dead
    /// and to stay so.
    fn fail(&mut self, i: u32, now: &Now, then: AfterTry) {
        let is_dead = self
            .store
            .rows
            .get(i)
            .is_some_and(|record| record.place() == Place::Dead);
        if matches!(then, AfterTry::Dead(_)) && !is_dead {
            self.meter(|meters| meters.dead += 1);
        }
        self.store.with_extra(i, |extra| {
            extra.grant = None;
            (extra.retry, extra.dead_at) = match then {
                AfterTry::Now => (None, None),
                AfterTry::At(at) => (
                    Some(Retry {
                        at,
                        mono: now.to_mono(at),
                    }),
                    None,
                ),
                AfterTry::Dead(at) => (None, Some(at)),
            };
        });
    }

    /// Forgets the last grant of an order, whose lease is over. Its state and its
    /// place among the claimable stay what the lapse has made of them.
    fn forget_grant(&mut self, i: u32, now: &Now) {
        let rows = &self.store.rows;
        let Some(record) = rows.get(i).filter(|record| record.deadline().is_some()) else {
            return;
        };
        let place = record.place();
        let Some(grant) = rows.grant(i) else { return };
        let dead_at = (grant.kind == LeaseKind::Claim && grant.last_try).then_some(grant.end);
        if place == Place::Leases {
            self.lift(i);
            self.settle(i, now);
        }
        self.store.with_extra(i, |extra| {
            extra.grant = None;
            extra.fp = None;
            extra.dead_at = extra.dead_at.or(dead_at);
        });
        if let Some(record) = self.store.rows.get_mut(i) {
            record.set_lapsed(false);
        }
    }

    /// Gives the last grant another end, and another count of holds.
    fn regrant(&mut self, now: &Now, id: &[u8], rev: u64, end: WallMs, holds: Option<u32>) -> bool {
        let Some(i) = self.store.find(id) else {
            return false;
        };
        if self.store.rows.grant(i).is_none() {
            return false;
        }
        self.lift(i);
        self.store.with_extra(i, |extra| {
            if let Some(grant) = &mut extra.grant {
                grant.end = end;
                grant.end_mono = now.to_mono(end);
                grant.holds = holds.unwrap_or(grant.holds);
            }
        });
        self.label(i, rev, None);
        self.file(i, now, Entry::Back);
        true
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

    /// Makes a record from all of its ground state.
    fn restore(&mut self, now: &Now, whole: &Whole<'_>) -> bool {
        let Some(i) = self.fresh(&whole.id) else {
            return false;
        };
        let second = match &whole.life {
            WholeLife::Open { payload, .. } => payload,
            WholeLife::Finished { result, .. } => result,
        };
        if second
            .as_ref()
            .is_some_and(|second| second.len() > SECOND_BYTES_MAX)
        {
            self.store.remove(i);
            return false;
        }
        self.store.set_second(i, second.as_deref());
        match &whole.life {
            WholeLife::Finished { keep_end, .. } => {
                if let Some(record) = self.store.rows.get_mut(i) {
                    record.set_finished(*keep_end);
                }
            }
            WholeLife::Open {
                deadline,
                retry_at,
                dead_at,
                attempt,
                error,
                grant,
                ..
            } => {
                // No decision leaves a grant beside a retry wait or death, or both of
                // these. Bytes from elsewhere may say so: then the grant counts, else
                // death, so that no record's state and place disagree.
                let dead_at = dead_at.filter(|_| grant.is_none());
                let retry_at = retry_at.filter(|_| grant.is_none() && dead_at.is_none());
                if let Some(record) = self.store.rows.get_mut(i) {
                    record.set_deadline(*deadline);
                }
                let plain = retry_at.is_none()
                    && dead_at.is_none()
                    && *attempt == 0
                    && error.is_none()
                    && grant.is_none();
                if !plain {
                    self.store.with_extra(i, |extra| {
                        extra.attempt = *attempt;
                        extra.retry = retry_at.map(|at| Retry {
                            at,
                            mono: now.to_mono(at),
                        });
                        extra.dead_at = dead_at;
                        extra.error = error.as_ref().map(boxed);
                        extra.grant = grant.as_ref().map(|grant| Grant {
                            owner: grant.owner.shared(),
                            fence: grant.fence,
                            end: grant.end,
                            cap: grant.cap,
                            end_mono: now.to_mono(grant.end),
                            cap_mono: now.to_mono(grant.cap),
                            made_us: now.mono_us,
                            holds: grant.holds,
                            kind: grant.kind,
                            last_try: grant.last_try,
                            has_name: true,
                        });
                    });
                    if let Some(grant) = grant {
                        self.floor = self.floor.max(grant.fence);
                    }
                }
            }
        }
        if let Some(fp) = &whole.fp {
            self.store.with_extra(i, |extra| extra.fp = Some(boxed(fp)));
        }
        self.label(i, whole.rev, Some(&whole.status));
        self.file(i, now, Entry::Loaded);
        true
    }
}

/// How a record comes to its place: from disk, or as `live` says.
const fn entry(loading: bool, live: Entry) -> Entry {
    if loading { Entry::Loaded } else { live }
}

/// Notes an event.
fn raise<'e>(events: &mut Vec<Event<'e>>, kind: EventKind, id: &Bytes<'e>) {
    events.push(Event {
        kind,
        id: id.clone(),
    });
}
