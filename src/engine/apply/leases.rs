//! Effects on leases: claims and locks granted, renewed and ended.

use std::sync::Arc;

use super::{Source, boxed, raise};
use crate::engine::effect::{Effect, Ended, Granted, LeaseKind, LeaseOf};
use crate::engine::outcome::{Event, EventKind};
use crate::engine::queue::{Entry, Queue};
use crate::engine::record::{Grant, Phase, Place, Record};
use crate::engine::settings::Setting;
use crate::engine::times::Timing;
use crate::words::time::{Now, WallMs};

/// The times of a grant as an effect carries them.
#[derive(Clone, Copy)]
pub(super) struct GrantTimes {
    /// When it was made; 0: not known.
    pub(super) made: WallMs,
    /// When it was made or last renewed; 0: not known.
    pub(super) since: WallMs,
    /// When it ends.
    pub(super) end: WallMs,
    /// What renewals cannot pass.
    pub(super) cap: WallMs,
}

impl GrantTimes {
    /// Those of a grant that is made at `since`.
    const fn new(since: WallMs, end: WallMs, cap: WallMs) -> Self {
        Self {
            made: since,
            since,
            end,
            cap,
        }
    }
}

impl Queue {
    /// The most that may be left of a lease, milliseconds. Here and now the decision has
    /// seen to it.
    fn lease_ms_max(&self, kind: LeaseKind, source: Source<'_>) -> u64 {
        match (source, kind) {
            (Source::Live, _) => u64::MAX,
            (Source::Told(limits) | Source::Disk(limits), LeaseKind::Claim) => limits.lease_ms_max,
            (Source::Told(limits) | Source::Disk(limits), LeaseKind::Lock) => self
                .setting(Setting::LockMsMax, limits)
                .min(limits.lease_ms_max),
        }
    }

    /// A grant as it is applied: its ends on the monotonic clock are no further ahead
    /// than the lease and its cap are long, whatever the wall clock says.
    pub(super) fn grant(
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

    /// Grants claims, as many as the records allow.
    pub(super) fn apply_claim<'e>(
        &mut self,
        now: &Now,
        effect: &Effect<'e>,
        events: &mut Vec<Event<'e>>,
        source: Source<'_>,
    ) -> bool {
        let Effect::Claim {
            owner,
            since,
            end,
            cap,
            grants,
        } = effect
        else {
            return false;
        };
        let owner = owner.shared();
        let times = GrantTimes::new(*since, *end, *cap);
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

    /// Grants a lock.
    pub(super) fn apply_lock<'e>(
        &mut self,
        now: &Now,
        effect: &Effect<'e>,
        events: &mut Vec<Event<'e>>,
        source: Source<'_>,
    ) -> bool {
        let Effect::Lock {
            id,
            owner,
            fence,
            since,
            end,
            cap,
            fp,
            creates,
        } = effect
        else {
            return false;
        };
        self.lapse_said(now, id);
        let found = if *creates {
            self.fresh(id)
        } else {
            self.taken_open(id)
        };
        let Some(i) = found else { return false };
        let times = GrantTimes::new(*since, *end, *cap);
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

    /// Ends a grant before its time.
    pub(super) fn apply_release<'e>(
        &mut self,
        now: &Now,
        effect: &Effect<'e>,
        events: &mut Vec<Event<'e>>,
        source: Source<'_>,
    ) -> bool {
        let Effect::Release { id, rev, ended } = effect else {
            return false;
        };
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
                    self.time(now, Timing::LockHold, took);
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
        self.meter(|meters| meters.claimed += 1);
        self.time(now, Timing::ClaimWait, waited);
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

    /// Forgets the last grant of an order, whose lease is over. Its state and its
    /// place among the claimable stay what the lapse has made of them.
    pub(super) fn forget_grant(&mut self, i: u32, now: &Now) {
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

    /// Lets leases lapse at `end`. O(leases).
    ///
    /// What is saved and replicated of it depends on the effect alone: a server by whose
    /// clock the lease was over already stores the same end. Nothing but that is done
    /// here; what the lapse leads to is for [`Queue::advance`], as with any other.
    pub(super) fn apply_lapse(&mut self, now: &Now, end: WallMs, leases: &[LeaseOf<'_>]) -> bool {
        let mut all = true;
        for LeaseOf { id, fence } in leases {
            let found = self.store.find(id).filter(|i| {
                let grant = self.store.rows.grant(*i);
                grant.is_some_and(|grant| grant.fence == *fence)
            });
            let Some(i) = found else {
                all = false;
                continue;
            };
            let place = self.store.rows.get(i).map(Record::place);
            // Else its lapse is settled already.
            let waits = place == Some(Place::Leases);
            if waits {
                self.lift(i);
            }
            self.store.with_extra(i, |extra| {
                if let Some(grant) = extra.grant_mut() {
                    grant.end = grant.end.min(end);
                    grant.end_mono = grant.end_mono.min(now.mono_ms());
                }
            });
            if waits {
                self.file(i, now, Entry::Back);
            }
        }
        all
    }

    /// Gives the last grant another end, which does not pass its cap, and another
    /// count of holds.
    pub(super) fn regrant(
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
}
