//! LOCK, UNLOCK, BREAK, RENEW and RELEASE.

use super::super::world::World;
use crate::engine::effect::{Effect, LeaseOf};
use crate::engine::outcome::Outcome;
use crate::request::{Break, Lock, Release, Renew, Unlock};
use crate::words::state::State;

impl World {
    /// RENEW.
    pub(in crate::engine::model) fn compare_renew(&mut self, n: u32, ask: &Renew<'_>) {
        let decided = self.ask(|queue, env| queue.decide_renew(env, ask));
        let (was, outcome) = (self.state(n), self.renew_outcome(n, ask.fence));
        if self.judge(n, decided, outcome, was) {
            self.lease_renewed(n, ask);
            self.is_within_its_cap(n);
        }
    }

    /// The last grant ends when its cap does at the latest.
    fn is_within_its_cap(&self, n: u32) {
        let grant = self.records[&n].grant.as_ref().unwrap();
        let active = self.active;
        assert!(
            grant.over[active] <= grant.cap_over[active],
            "P5: past its cap"
        );
    }

    /// LOCK; `queued`: others wait for it.
    pub(in crate::engine::model) fn compare_lock(&mut self, n: u32, ask: &Lock<'_>, queued: bool) {
        let (now, active) = (self.now(), self.active);
        let waiter = self
            .queue()
            .lock_waiter_outcome(&now, ask.id, ask.fp, ask.must_exist);
        let decided = self.ask(|queue, env| queue.decide_lock(env, ask, queued));
        let told = self.waiter_told(n, ask);
        assert_eq!(waiter, told, "order {n}: one who waits");
        let (was, outcome) = (self.state(n), self.lock_outcome(n, ask, queued));
        let effect = decided.as_ref().unwrap().effect.clone();
        if !self.judge(n, decided, outcome, was) {
            return;
        }
        if outcome == Outcome::Held {
            let over = |world: &Self| world.records[&n].grant.as_ref().unwrap().over[active];
            let before = over(self);
            self.held(n, ask);
            assert!(over(self) >= before, "never shortened");
            self.is_within_its_cap(n);
            return;
        }
        assert_eq!(effect, Some(self.locked(n, ask)));
        self.count("lock");
    }

    /// RELEASE. Returns those whose leases were ended.
    pub(in crate::engine::model) fn compare_release(&mut self, ask: &Release<'_>) -> Vec<u32> {
        let (now, active) = (self.now(), self.active);
        let swept = self.queue().decide_release(&now, ask);
        let mut live = self.leases_of(ask.owner);
        let done = live.len().min(ask.count as usize);
        assert_eq!(
            (swept.done, swept.left),
            (done as u64, (live.len() - done) as u64)
        );
        let Some(effect) = swept.effect else {
            assert_eq!(done, 0, "P12");
            return Vec::new();
        };
        let Effect::Lapse { end, leases } = &effect else {
            panic!("{effect:?}")
        };
        assert_eq!((end.0, leases.len()), (self.wall(), done));
        let mut ended = Vec::new();
        for LeaseOf { id, fence } in leases {
            let n = self.numbers_of[&**id];
            let grant = self.records[&n].grant.as_ref().unwrap();
            assert_eq!(grant.fence, *fence);
            // Those that end first come first.
            let over = live.remove(&n).expect("a live lease of this owner");
            assert!(
                live.values().all(|other| *other >= over),
                "{n} before its turn"
            );
            ended.push(n);
            self.count("release");
        }
        for n in &ended {
            self.lapsed_now(*n);
            assert!(!matches!(
                self.records[n].state(&now, active),
                State::Leased | State::Reserved
            ));
        }
        self.carry(&effect);
        ended
    }

    /// UNLOCK.
    pub(in crate::engine::model) fn compare_unlock(&mut self, n: u32, ask: &Unlock<'_>) {
        let decided = self.ask(|queue, env| queue.decide_unlock(env, ask));
        let (was, outcome) = (self.state(n), self.unlock_outcome(n, ask.fence));
        if self.judge(n, decided, outcome, was) {
            if outcome == Outcome::Held {
                self.held_once_less(n);
                return;
            }
            self.release(n, was, true);
            self.count("unlock");
        }
    }

    /// BREAK.
    pub(in crate::engine::model) fn compare_break(&mut self, n: u32, ask: &Break<'_>) {
        let decided = self.ask(|queue, env| queue.decide_break(env, ask));
        let (was, outcome) = (self.state(n), self.end_of_lease(n, ask.fence));
        if self.judge(n, decided, outcome, was) {
            self.release(n, was, false);
            self.count("break");
        }
    }
}
