//! Carrying effects out. Total: an effect for a record that is not there
//! changes nothing and says so, one whose bytes find no room is carried out without, it is never an error, because the stream it came
//! in must go on. A primary applies what it decided, replicas and loaders what
//! they are told; all end with equal ground state.

use std::sync::Arc;

use super::effect::{
    AfterTry, Base, Bytes, Effect, Ended, FinishedBy, Granted, LeaseKind, Whole, WholeGrant,
    WholeLife, WholePhase,
};
use super::ending::Ending;
use super::meters::Meters;
use super::outcome::{Event, EventKind};
use super::queue::{Entry, Pause, Queue};
use super::record::{Grant, Phase, Place, Record, Retry};
use super::settings::{Defaults, Setting};
use crate::words::time::{Now, WallMs};

/// Where effects come from.
#[derive(Clone, Copy, Debug)]
enum Source<'d> {
    /// They happen now, here or on the primary.
    Live,
    /// They happened before, and come back from disk or in a dump: what has fallen due
    /// since goes by its deadline, and nothing that is left of a lease passes the limits
    /// of today.
    Disk(&'d Defaults),
}

impl Source<'_> {
    /// How a record comes to its place: as `live` says, or from disk.
    const fn entry(self, live: Entry) -> Entry {
        match self {
            Self::Live => live,
            Self::Disk(_) => Entry::Loaded,
        }
    }
}

/// The times of a grant as an effect carries them.
#[derive(Clone, Copy)]
struct GrantTimes {
    /// When it was made; 0: not known.
    made: WallMs,
    /// When it was made or last renewed; 0: not known.
    since: WallMs,
    /// When it ends.
    end: WallMs,
    /// What renewals cannot pass.
    cap: WallMs,
}

/// Copies bytes into a box of their own.
fn boxed(bytes: &Bytes<'_>) -> Box<[u8]> {
    (**bytes).into()
}

impl Queue {
    /// Carries an effect out and notes the events that it raises. Returns false
    /// if it named a record that is not there, or there was no room for its bytes. O(1) for each record named.
    pub fn apply<'e>(
        &mut self,
        now: &Now,
        effect: &Effect<'e>,
        events: &mut Vec<Event<'e>>,
    ) -> bool {
        self.carry_out(now, effect, events, Source::Live)
    }

    /// As [`Queue::apply`], for effects that were carried out before and come
    /// back from disk: what has fallen due since goes by its deadline, nothing
    /// is counted or timed again, and of a lease no more is left than its length,
    /// `lease-ms-max` and, of a lock, `lock-ms-max`.
    pub fn replay(&mut self, now: &Now, effect: &Effect<'_>, defaults: &Defaults) -> bool {
        self.replaying = true;
        let known = self.carry_out(now, effect, &mut Vec::new(), Source::Disk(defaults));
        self.replaying = false;
        known
    }

    /// The most that may be left of a lease, milliseconds. Here and now the decision has
    /// seen to it.
    fn lease_ms_max(&self, kind: LeaseKind, source: Source<'_>) -> u64 {
        match (source, kind) {
            (Source::Live, _) => u64::MAX,
            (Source::Disk(defaults), LeaseKind::Claim) => defaults.lease_ms_max,
            (Source::Disk(defaults), LeaseKind::Lock) => self
                .setting(Setting::LockMsMax, defaults)
                .min(defaults.lease_ms_max),
        }
    }

    /// A grant as it is applied: its ends on the monotonic clock are no further ahead
    /// than the lease and its cap are long, whatever the wall clock says.
    fn grant(
        &self,
        now: &Now,
        source: Source<'_>,
        kind: LeaseKind,
        owner: Arc<[u8]>,
        fence: u64,
        times: GrantTimes,
    ) -> Grant {
        let GrantTimes {
            made,
            since,
            end,
            cap,
        } = times;
        let ms_max = self.lease_ms_max(kind, source);
        let cap_mono = now.to_mono(cap, cap.length_since(made).min(ms_max));
        let end_mono = now.to_mono(end, end.length_since(since).min(ms_max));
        Grant {
            owner,
            fence,
            made,
            since,
            end,
            cap,
            end_mono,
            cap_mono,
            made_us: now.mono_us,
            holds: 1,
            kind,
            last_try: false,
            has_name: true,
        }
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
        source: Source<'_>,
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
            Effect::Finish {
                id,
                rev,
                status,
                result,
                keep_end,
                creates,
                by,
                at,
                by_holder,
            } => {
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
                let payload = payload.as_ref().filter(|_| open);
                let fits = payload.is_none_or(|payload| self.store.set_second(i, Some(payload)));
                raise(events, EventKind::Status, id);
                fits
            }
            Effect::Claim {
                owner,
                since,
                end,
                cap,
                grants,
            } => {
                let owner = owner.shared();
                let times = GrantTimes {
                    made: *since,
                    since: *since,
                    end: *end,
                    cap: *cap,
                };
                let mut all = true;
                let mut has_name = true;
                for granted in grants {
                    if self.grant_claim(now, source, (&owner, has_name), times, granted) {
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
                untried,
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
            Effect::Renew {
                id,
                rev,
                since,
                end,
            } => self.regrant(now, source, id, *rev, (*since, *end), None),
            Effect::Hold {
                id,
                rev,
                holds,
                since,
                end,
            } => self.regrant(now, source, id, *rev, (*since, *end), Some(*holds)),
            Effect::Lock {
                id,
                owner,
                fence,
                since,
                end,
                cap,
                fp,
                creates,
            } => {
                self.lapse_said(now, id);
                let found = if *creates {
                    self.fresh(id)
                } else {
                    self.taken_open(id)
                };
                let Some(i) = found else { return false };
                let times = GrantTimes {
                    made: *since,
                    since: *since,
                    end: *end,
                    cap: *cap,
                };
                let owner = owner.shared();
                let grant = self.grant(now, source, LeaseKind::Lock, owner, *fence, times);
                self.store.with_extra(i, |extra| {
                    extra.phase = Phase::Granted(grant);
                    extra.fp = fp.as_ref().map(boxed);
                });
                self.label(i, *fence, None);
                self.file(i, now, source.entry(Entry::Back));
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
                    Ended::Claim { then, untried } => self.fail(i, now, *then, *untried),
                    Ended::Lock => {
                        if let Some(grant) = self.store.rows.grant(i) {
                            let took = now.mono_us.saturating_sub(grant.made_us);
                            self.meter(|meters| meters.lock_hold.record(took));
                        }
                        // The fingerprint was that of the request which gave up: another
                        // may try now.
                        self.store.with_extra(i, |extra| {
                            extra.phase = Phase::Plain;
                            extra.fp = None;
                        });
                    }
                }
                self.label(i, *rev, None);
                if has_deadline {
                    self.file(i, now, source.entry(Entry::Back));
                } else {
                    self.store.remove(i);
                }
                raise(events, EventKind::Unlock, id);
                true
            }
            Effect::Forget { ids } => {
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
                        extra.phase = Phase::Plain;
                        extra.fp = None;
                    });
                    self.label(i, *rev, None);
                    self.file(i, now, source.entry(Entry::Back));
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
            Effect::Restore(whole) => self.restore(now, whole, source),
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
        source: Source<'_>,
        (owner, has_name): (&Arc<[u8]>, bool),
        times: GrantTimes,
        granted: &Granted<'_>,
    ) -> bool {
        let Some(i) = self.waiting(&granted.id) else {
            return false;
        };
        self.lapse_said(now, &granted.id);
        let since = self.claimable_since(i);
        let waited = now.wall_us.saturating_sub(since.0.saturating_mul(1000));
        self.meter(|meters| {
            meters.claimed += 1;
            meters.claim_wait.record(waited);
        });
        self.lift(i);
        let (kind, fence) = (LeaseKind::Claim, granted.fence);
        let grant = Grant {
            last_try: granted.last_try,
            has_name,
            ..self.grant(now, source, kind, Arc::clone(owner), fence, times)
        };
        self.store.with_extra(i, |extra| {
            extra.attempt = granted.attempt;
            extra.phase = Phase::Granted(grant);
            extra.fp = None;
        });
        self.label(i, granted.fence, None);
        self.file(i, now, Entry::Back);
        true
    }

    /// Ends the claim of a record as a failed try, or as none (`untried`). The record
    /// is lifted, or dead and to stay so.
    fn fail(&mut self, i: u32, now: &Now, then: AfterTry, untried: bool) {
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

    /// Forgets the last grant of an order, whose lease is over. Its state and its
    /// place among the claimable stay what the lapse has made of them.
    fn forget_grant(&mut self, i: u32, now: &Now) {
        let rows = &self.store.rows;
        let Some(record) = rows.get(i).filter(|record| record.deadline().is_some()) else {
            return;
        };
        let place = record.place();
        let Some(grant) = rows.grant(i) else { return };
        let after = if grant.is_last_try() {
            Phase::Dead(grant.end)
        } else {
            Phase::Plain
        };
        if place == Place::Leases {
            self.lift(i);
            self.settle(i, now);
        }
        self.store.with_extra(i, |extra| {
            extra.phase = after;
            extra.fp = None;
        });
        if let Some(record) = self.store.rows.get_mut(i) {
            record.set_lapsed(false);
        }
    }

    /// Gives the last grant another end, which does not pass its cap, and another
    /// count of holds.
    fn regrant(
        &mut self,
        now: &Now,
        source: Source<'_>,
        id: &[u8],
        rev: u64,
        (since, end): (WallMs, WallMs),
        holds: Option<u32>,
    ) -> bool {
        let Some(i) = self.store.find(id) else {
            return false;
        };
        let Some(kind) = self.store.rows.grant(i).map(|grant| grant.kind) else {
            return false;
        };
        let ms_max = self.lease_ms_max(kind, source);
        let end_mono = now.to_mono(end, end.length_since(since).min(ms_max));
        self.lift(i);
        self.store.with_extra(i, |extra| {
            if let Some(grant) = extra.grant_mut() {
                grant.since = since;
                grant.end = end;
                grant.end_mono = end_mono.min(grant.cap_mono);
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
    fn restore(&mut self, now: &Now, whole: &Whole<'_>, source: Source<'_>) -> bool {
        let Some(i) = self.fresh(&whole.id) else {
            return false;
        };
        let fits = match &whole.life {
            WholeLife::Finished {
                keep_end,
                result,
                ending,
            } => {
                let ending = ending.as_ref().map(|ending| Ending {
                    at: ending.at,
                    deadline: ending.deadline,
                    attempt: ending.attempt,
                    holder: ending
                        .holder
                        .as_ref()
                        .map(|holder| (holder.kind, &*holder.owner)),
                });
                let fits = self.store.set_result(i, result.as_deref(), ending.as_ref());
                if let Some(record) = self.store.rows.get_mut(i) {
                    record.set_finished(*keep_end);
                }
                fits
            }
            WholeLife::Open {
                deadline,
                payload,
                attempt,
                error,
                phase,
            } => {
                let fits = self.store.set_second(i, payload.as_deref());
                if let Some(record) = self.store.rows.get_mut(i) {
                    record.set_deadline(*deadline);
                }
                let phase = self.restored_phase(now, phase, source);
                if *attempt > 0 || error.is_some() || !matches!(phase, Phase::Plain) {
                    self.store.with_extra(i, |extra| {
                        extra.attempt = *attempt;
                        extra.error = error.as_ref().map(boxed);
                        extra.phase = phase;
                    });
                }
                fits
            }
        };
        if !fits {
            self.store.remove(i);
            return false;
        }
        if let Some(fp) = &whole.fp {
            self.store.with_extra(i, |extra| extra.fp = Some(boxed(fp)));
        }
        self.label(i, whole.rev, Some(&whole.status));
        self.file(i, now, Entry::Loaded);
        true
    }

    /// What the last grant of a whole record has come to, as this process judges it.
    fn restored_phase(&mut self, now: &Now, phase: &WholePhase<'_>, source: Source<'_>) -> Phase {
        match phase {
            WholePhase::Plain => Phase::Plain,
            WholePhase::Dead(at) => Phase::Dead(*at),
            WholePhase::Retrying { since, at } => Phase::Retrying(Retry {
                since: *since,
                at: *at,
                mono: now.to_mono(*at, at.length_since(*since)),
            }),
            WholePhase::Granted(WholeGrant {
                kind,
                owner,
                fence,
                made,
                since,
                end,
                cap,
                holds,
                last_try,
            }) => {
                self.floor = self.floor.max(*fence);
                let times = GrantTimes {
                    made: *made,
                    since: *since,
                    end: *end,
                    cap: *cap,
                };
                Phase::Granted(Grant {
                    holds: *holds,
                    last_try: *last_try,
                    ..self.grant(now, source, *kind, owner.shared(), *fence, times)
                })
            }
        }
    }
}

/// Notes an event.
fn raise<'e>(events: &mut Vec<Event<'e>>, kind: EventKind, id: &Bytes<'e>) {
    events.push(Event {
        kind,
        id: id.clone(),
    });
}
