//! CLAIM, ACK and NACK.

use super::super::world::World;
use super::record::{Grant, Record, mono_of};
use crate::engine::effect::{AfterTry, LeaseKind};
use crate::engine::outcome::Outcome;
use crate::engine::settings::Setting;
use crate::request::{Ack, Again, Claim, Guard, Nack, Pick};
use crate::words::state::State;
use crate::words::time::WallMs;

impl World {
    /// How many orders may be claimed besides those that are.
    pub(in crate::engine::model) fn room(&self) -> usize {
        let (now, active) = (self.now(), self.active);
        let live = |record: &&Record| {
            record.state(&now, active) == State::Leased
                && record
                    .grant
                    .as_ref()
                    .is_some_and(|grant| grant.kind == LeaseKind::Claim)
        };
        let max_leased = self.setting(Setting::MaxLeased);
        if max_leased == 0 {
            usize::MAX
        } else {
            (max_leased as usize).saturating_sub(self.records.values().filter(live).count())
        }
    }

    /// Since when each claimable order is that, the first one first.
    pub(in crate::engine::model) fn claimable(&self) -> Vec<u64> {
        let (now, active) = (self.now(), self.active);
        let mut claimable: Vec<u64> = self
            .records
            .values()
            .filter(|record| record.state(&now, active) == State::Expired)
            .map(Record::since)
            .collect();
        claimable.sort_unstable();
        claimable
    }

    /// How many orders CLAIM is to give; of one order, its number is told.
    pub(in crate::engine::model) fn claim_count(&self, one: Option<u32>, ask: &Claim<'_>) -> usize {
        let room = self.room();
        match (one, ask.pick) {
            _ if self.is_paused() => 0,
            (Some(n), _) => usize::from(self.state(n) == State::Expired).min(room),
            (None, Pick::Next { count, .. }) => {
                self.claimable().len().min(count as usize).min(room)
            }
            (None, Pick::Id(id)) => panic!("which one is {id:?}?"),
        }
    }

    /// The length of the lease that a CLAIM gives.
    pub(in crate::engine::model) fn claim_ms(&self, ask: &Claim<'_>) -> u64 {
        ask.lease_ms
            .unwrap_or_else(|| self.setting(Setting::LeaseMs))
            .min(self.defaults.lease_ms_max)
    }

    /// What is left of an order that is claimed until `end` now: its fence, the try, and
    /// whether that is the last one.
    pub(in crate::engine::model) fn claimed(
        &mut self,
        n: u32,
        owner: &[u8],
        end: u64,
    ) -> (u64, u32, bool) {
        let (ceil, nows) = (self.now().wall_us.div_ceil(1000), self.nows());
        let cap = ceil + self.defaults.lease_ms_max;
        let fence = self.next_fence(n);
        let last_allowed = self.setting(Setting::MaxAttempts);
        let record = self.records.get_mut(&n).unwrap();
        record.attempt += 1;
        let last_try = last_allowed != 0 && u64::from(record.attempt) >= last_allowed;
        assert!(fence > record.rev, "revs grow");
        record.rev = fence;
        record.fp = None;
        record.grant = Some(Grant {
            kind: LeaseKind::Claim,
            owner: owner.to_vec(),
            fence,
            made: ceil,
            since: ceil,
            end,
            over: nows.map(|now| mono_of(end, end - ceil, &now)),
            cap,
            cap_over: nows.map(|now| mono_of(cap, cap - ceil, &now)),
            holds: 1,
            last_try,
            said: false,
        });
        record.retry = None;
        record.dead = false;
        record.announced = false;
        let attempt = record.attempt;
        *self.credit.entry(n).or_default() += 1;
        (fence, attempt, last_try)
    }

    /// What ACK is to say. What it leaves is what FINISH leaves.
    pub(in crate::engine::model) fn ack_outcome(&self, n: u32, ask: &Ack<'_>) -> Outcome {
        let guard = Guard {
            from: ask.from.clone(),
            if_rev: None,
            fence: Some(ask.fence),
        };
        match self.state(n) {
            State::Missing => Outcome::Missing,
            State::Finished => Outcome::Finished,
            _ => self.in_way(n, &guard, ask.status).unwrap_or(Outcome::Ok),
        }
    }

    /// What NACK is to say.
    pub(in crate::engine::model) fn nack_outcome(&self, n: u32, fence: u64) -> Outcome {
        let grant = self
            .records
            .get(&n)
            .and_then(|record| record.grant.as_ref());
        match (self.state(n), grant) {
            (State::Missing, _) => Outcome::Missing,
            (State::Finished, _) => Outcome::Finished,
            (_, Some(grant)) if grant.fence == fence => {
                if grant.kind == LeaseKind::Lock {
                    Outcome::State
                } else {
                    Outcome::Ok
                }
            }
            _ => Outcome::Stale,
        }
    }

    /// What comes after a try that is handed back; of a backoff, without its jitter.
    pub(in crate::engine::model) fn after_nack(&self, n: u32, ask: &Nack<'_>) -> AfterTry {
        let last_try = self.records[&n].grant.as_ref().unwrap().last_try && !ask.untried;
        let since = WallMs(self.now().wall_us.div_ceil(1000));
        let wait = |ms: u64| match ms {
            0 => AfterTry::Now,
            ms => AfterTry::At {
                since,
                at: WallMs(since.0 + ms),
            },
        };
        match ask.again {
            _ if last_try => AfterTry::Dead(WallMs(self.wall())),
            Again::Dead => AfterTry::Dead(WallMs(self.wall())),
            Again::Delay(ms) => wait(ms),
            Again::Backoff => {
                let doubled = u128::from(self.setting(Setting::BackoffMs))
                    * (1 << (self.records[&n].attempt - u32::from(ask.untried))
                        .saturating_sub(1)
                        .min(60));
                wait(doubled.min(u128::from(self.setting(Setting::BackoffMsMax))) as u64)
            }
        }
    }

    /// What is left of an order that is handed back now.
    pub(in crate::engine::model) fn nacked(&mut self, n: u32, ask: &Nack<'_>, then: AfterTry) {
        let rev = self.next_rev(n);
        self.fail(n, then, rev, ask.untried);
        if let Some(error) = ask.error {
            self.records.get_mut(&n).unwrap().error = Some(error.to_vec());
        }
    }

    /// Ends the claim of a record as a failed try, or as none.
    pub(super) fn fail(&mut self, n: u32, then: AfterTry, rev: u64, untried: bool) {
        let (wall, nows) = (self.wall(), self.nows());
        let was_dead = self.state(n) == State::Dead;
        let record = self.records.get_mut(&n).unwrap();
        record.rev = rev;
        record.grant = None;
        record.dead = matches!(then, AfterTry::Dead(_));
        record.retry = match then {
            AfterTry::At { since, at } => {
                record.retry_since = since.0;
                let length = at.0 - since.0;
                Some((at.0, nows.map(|now| mono_of(at.0, length, &now))))
            }
            _ => None,
        };
        record.attempt -= u32::from(untried);
        record.plain = false;
        record.since = wall.max(record.deadline.unwrap());
        // Who was dead and stays so does not die again.
        record.announced &= was_dead && record.dead;
    }
}
