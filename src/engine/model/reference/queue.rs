//! REQUEUE and PURGE; CONFIG, PAUSE and RESUME.

use std::collections::BTreeSet;

use super::super::world::World;
use super::TRANSITIONS;
use crate::engine::settings::Setting;
use crate::request::{Configure, Purge, Requeue};
use crate::words::state::State;

impl World {
    /// The orders in a state.
    pub(in crate::engine::model) fn in_state(&self, state: State) -> BTreeSet<u32> {
        let (now, active) = (self.now(), self.active);
        self.records
            .iter()
            .filter(|(_, record)| record.state(&now, active) == state)
            .map(|(n, _)| *n)
            .collect()
    }

    /// The number of a write on many orders.
    pub(in crate::engine::model) fn next_rev_of_many(&mut self) -> u64 {
        let rev = (self.floor + 1).max(self.last).max(self.now().wall_us);
        self.learn(rev);
        self.floor = rev;
        rev
    }

    /// The orders that a REQUEUE without an end would bring back.
    pub(in crate::engine::model) fn to_requeue(
        &self,
        ask: &Requeue<'_>,
        matches: &dyn Fn(&[u8]) -> bool,
    ) -> BTreeSet<u32> {
        let is_moved = |n: &u32| matches!(self.state(*n), State::Dead | State::Retrying);
        match ask {
            Requeue::Ids(ids) => {
                let named = ids.iter().map(|id| self.numbers_of[*id]);
                named.filter(is_moved).collect()
            }
            Requeue::Next(ask) => {
                let matches = |id: &[u8]| ask.pattern.is_none() || matches(id);
                let mut wanted = self.to_purge(ask, &matches);
                wanted.retain(is_moved);
                wanted
            }
        }
    }

    /// What is left of an order that is requeued now, with so many tries behind it.
    pub(in crate::engine::model) fn requeued(&mut self, n: u32, rev: u64, tries: u32) {
        let wall = self.wall();
        let record = self.records.get_mut(&n).unwrap();
        assert!(rev > record.rev, "revs grow");
        record.attempt = tries;
        record.grant = None;
        record.fp = None;
        record.dead = false;
        record.retry = None;
        record.announced = false;
        record.rev = rev;
        record.since = wall.max(record.deadline.unwrap());
        record.plain = false;
    }

    /// The orders that a PURGE without an end would take.
    pub(in crate::engine::model) fn to_purge(
        &self,
        ask: &Purge<'_>,
        matches: &dyn Fn(&[u8]) -> bool,
    ) -> BTreeSet<u32> {
        let mut wanted = self.in_state(ask.state);
        wanted.retain(|n| {
            ask.status
                .is_none_or(|status| *status == self.records[n].status)
                && matches(&self.ids[*n as usize])
        });
        wanted
    }

    /// The queue is paused now.
    pub(in crate::engine::model) fn paused(&mut self, ms: Option<u64>) {
        let now = self.now();
        self.pause = Some(ms.map(|ms| now.wall_us.div_ceil(1000) + ms));
    }

    /// What is set once CONFIG has set `setting` to `value`, or reset what it says; false
    /// if it is to be refused.
    pub(in crate::engine::model) fn configured(
        &mut self,
        setting: Setting,
        value: u64,
        ask: &Configure<'_>,
    ) -> bool {
        match ask {
            Configure::Set(pairs) => {
                if pairs.len() > 1 && pairs[1].1 != TRANSITIONS {
                    return false;
                }
                self.own.insert(setting, value);
                self.transitions |= pairs.len() > 1;
            }
            Configure::Reset(Some(b"transitions")) => self.transitions = false,
            Configure::Reset(Some(_)) => {
                self.own.remove(&setting);
            }
            Configure::Reset(None) => {
                self.own.clear();
                self.transitions = false;
            }
            Configure::Get(_) => {}
        }
        true
    }
}
