//! LOCK, UNLOCK, BREAK, RENEW and RELEASE.

use std::collections::BTreeMap;

use super::super::world::World;
use super::record::{Grant, Record, left, mono_of};
use crate::engine::effect::{AfterTry, Bytes, Effect, LeaseKind};
use crate::engine::outcome::Outcome;
use crate::engine::settings::Setting;
use crate::request::{Lock, Renew};
use crate::words::state::State;
use crate::words::time::WallMs;

impl World {
    /// What is said to one who waits for a lock, if he need not wait longer.
    pub(in crate::engine::model) fn waiter_told(&self, n: u32, ask: &Lock<'_>) -> Option<Outcome> {
        let (was, wall, fp) = (self.state(n), self.wall(), ask.fp);
        if ask.must_exist && matches!(was, State::Missing | State::Reserved) {
            return Some(Outcome::Missing);
        }
        let known = self.records.get(&n).filter(|_| was != State::Missing);
        let late = matches!(was, State::Retrying | State::Dead)
            || known.is_some_and(|record| record.deadline.is_some_and(|at| at <= wall));
        let mismatch = known.is_some_and(|record| {
            fp.is_some_and(|fp| record.fp.as_ref().is_some_and(|old| old != fp))
        });
        if mismatch {
            Some(Outcome::Mismatch)
        } else if was == State::Finished {
            Some(Outcome::Finished)
        } else {
            late.then_some(Outcome::Expired)
        }
    }

    /// What LOCK is to say; `queued`: others wait for it.
    pub(in crate::engine::model) fn lock_outcome(
        &self,
        n: u32,
        ask: &Lock<'_>,
        queued: bool,
    ) -> Outcome {
        match self.waiter_told(n, ask) {
            Some(told @ (Outcome::Missing | Outcome::Mismatch | Outcome::Finished)) => told,
            _ if matches!(self.state(n), State::Leased | State::Reserved) => {
                let grant = self.records[&n].grant.as_ref().unwrap();
                if grant.kind == LeaseKind::Lock && grant.owner == ask.owner {
                    Outcome::Held
                } else {
                    Outcome::Busy
                }
            }
            Some(told) => told,
            None if queued => Outcome::Busy,
            None => Outcome::Ok,
        }
    }

    /// What is left of an order whose lock is taken again by its owner.
    pub(in crate::engine::model) fn held(&mut self, n: u32, ask: &Lock<'_>) {
        let (now, active) = (self.now(), self.active);
        let grant = self.records[&n].grant.as_ref().unwrap();
        let rest = left(grant.over[active], &now);
        let wanted = ask
            .lease_ms
            .min(left(grant.cap_over[active], &now))
            .max(rest);
        let holds = grant.holds + u32::from(ask.reentrant);
        self.regrant(n, now.wall_us.div_ceil(1000) + wanted, Some(holds));
    }

    /// What is left of an order that is locked now, and the effect that this must be.
    pub(in crate::engine::model) fn locked<'a>(&mut self, n: u32, ask: &Lock<'a>) -> Effect<'a> {
        let (was, ceil) = (self.state(n), self.now().wall_us.div_ceil(1000));
        let cap_ms = ask
            .max_ms
            .unwrap_or(u64::MAX)
            .min(self.setting(Setting::LockMsMax))
            .min(self.defaults.lease_ms_max);
        let fence = self.next_fence(n);
        let (end, cap) = (ceil + ask.lease_ms.min(cap_ms), ceil + cap_ms);
        let nows = self.nows();
        let mut record = match self.records.remove(&n) {
            Some(record) if was != State::Missing => record,
            _ => Record::default(),
        };
        assert!(fence > record.rev, "revs grow");
        record.rev = fence;
        record.announced = false;
        record.retry = None;
        record.fp = ask.fp.map(<[u8]>::to_vec);
        record.grant = Some(Grant {
            kind: LeaseKind::Lock,
            owner: ask.owner.to_vec(),
            fence,
            made: ceil,
            since: ceil,
            end,
            over: nows.map(|now| mono_of(end, end - ceil, &now)),
            cap,
            cap_over: nows.map(|now| mono_of(cap, cap - ceil, &now)),
            holds: 1,
            last_try: false,
            said: false,
        });
        self.records.insert(n, record);
        *self.credit.entry(n).or_default() += 1;
        Effect::Lock {
            id: Bytes::of(ask.id),
            owner: Bytes::of(ask.owner),
            fence,
            since: WallMs(ceil),
            end: WallMs(end),
            cap: WallMs(cap),
            fp: ask.fp.map(Bytes::of),
            creates: was == State::Missing,
        }
    }

    /// The orders that an owner holds now, and when each lease is over.
    pub(in crate::engine::model) fn leases_of(&self, owner: &[u8]) -> BTreeMap<u32, u64> {
        let (now, active) = (self.now(), self.active);
        let of = |record: &Record| {
            let grant = record.grant.as_ref()?;
            let live = matches!(record.state(&now, active), State::Leased | State::Reserved);
            (live && grant.owner == owner).then_some(grant.over[active])
        };
        self.records
            .iter()
            .filter_map(|(n, record)| Some((*n, of(record)?)))
            .collect()
    }

    /// What is left of an order whose lease is over at once, as if its time had come.
    pub(in crate::engine::model) fn lapsed_now(&mut self, n: u32) {
        let (wall, nows) = (self.wall(), self.nows());
        let grant = self
            .records
            .get_mut(&n)
            .and_then(|record| record.grant.as_mut());
        let grant = grant.expect("it has a lease");
        grant.end = grant.end.min(wall);
        for (over, now) in grant.over.iter_mut().zip(nows) {
            *over = (*over).min(now.mono_us / 1000);
        }
    }

    /// What RENEW is to say.
    pub(in crate::engine::model) fn renew_outcome(&self, n: u32, fence: u64) -> Outcome {
        let (now, active) = (self.now(), self.active);
        let grant = self
            .records
            .get(&n)
            .and_then(|record| record.grant.as_ref());
        match (self.state(n), grant) {
            (State::Missing, _) => Outcome::Missing,
            (_, None) => Outcome::Gone,
            (_, Some(grant)) if grant.fence != fence => Outcome::Stale,
            (_, Some(grant)) if grant.over[active] <= now.mono_us / 1000 => Outcome::Gone,
            _ => Outcome::Ok,
        }
    }

    /// What is left of an order whose lease is renewed now.
    pub(in crate::engine::model) fn lease_renewed(&mut self, n: u32, ask: &Renew<'_>) {
        let (now, active) = (self.now(), self.active);
        let grant = self.records[&n].grant.as_ref().unwrap();
        let rest = left(grant.over[active], &now);
        let wanted = if ask.shorten {
            ask.lease_ms.min(rest)
        } else {
            ask.lease_ms.max(rest)
        };
        let end = now.wall_us.div_ceil(1000) + wanted.min(left(grant.cap_over[active], &now));
        self.regrant(n, end, None);
    }

    /// Gives the last grant another end, and another number of holds.
    fn regrant(&mut self, n: u32, end: u64, holds: Option<u32>) {
        let (rev, nows) = (self.next_rev(n), self.nows());
        let ceil = self.now().wall_us.div_ceil(1000);
        let record = self.records.get_mut(&n).unwrap();
        record.rev = rev;
        let grant = record.grant.as_mut().unwrap();
        let since = ceil;
        let cap_over = grant.cap_over;
        grant.since = since;
        grant.end = end;
        grant.over = nows.map(|now| mono_of(end, end - since, &now));
        for (over, cap) in grant.over.iter_mut().zip(cap_over) {
            *over = cap.min(*over);
        }
        grant.holds = holds.unwrap_or(grant.holds);
    }

    /// What is said to one who wants to end the lease with this fence, or any.
    pub(in crate::engine::model) fn end_of_lease(&self, n: u32, fence: Option<u64>) -> Outcome {
        if self.state(n) == State::Missing {
            return Outcome::Missing;
        }
        match &self.records[&n].grant {
            None => Outcome::Gone,
            Some(grant) if fence.is_some_and(|fence| fence != grant.fence) => Outcome::Stale,
            Some(grant) if grant.over[self.active] <= self.now().mono_us / 1000 => Outcome::Gone,
            Some(_) => Outcome::Ok,
        }
    }

    /// What UNLOCK is to say.
    pub(in crate::engine::model) fn unlock_outcome(&self, n: u32, fence: u64) -> Outcome {
        match self.end_of_lease(n, Some(fence)) {
            Outcome::Ok => match &self.records[&n].grant {
                Some(grant) if grant.kind == LeaseKind::Lock && grant.holds > 1 => Outcome::Held,
                _ => Outcome::Ok,
            },
            other => other,
        }
    }

    /// What is left of an order whose lock is held once less now.
    pub(in crate::engine::model) fn held_once_less(&mut self, n: u32) {
        let now = self.now();
        let grant = self.records[&n].grant.as_ref().unwrap();
        let end = now.wall_us.div_ceil(1000) + left(grant.over[self.active], &now);
        let holds = grant.holds - 1;
        self.regrant(n, end, Some(holds));
    }

    /// What is left of an order whose live lease is ended; of a claim, the try counts or
    /// not.
    pub(in crate::engine::model) fn release(&mut self, n: u32, was: State, untried: bool) {
        let (wall, rev) = (self.wall(), self.next_rev(n));
        let grant = self.records[&n].grant.clone().unwrap();
        if was == State::Reserved {
            self.records.remove(&n);
        } else if grant.kind == LeaseKind::Claim {
            let then = if grant.last_try && !untried {
                AfterTry::Dead(WallMs(wall))
            } else {
                AfterTry::Now
            };
            self.fail(n, then, rev, untried);
        } else {
            self.seq += 1;
            let seq = self.seq;
            let record = self.records.get_mut(&n).unwrap();
            record.rev = rev;
            record.grant = None;
            record.fp = None;
            record.announced = false;
            record.since = wall.max(record.deadline.unwrap());
            record.plain = record.deadline.unwrap() > wall;
            record.seq = seq;
        }
    }
}
