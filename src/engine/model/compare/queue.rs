//! REQUEUE and PURGE; CONFIG, PAUSE and RESUME.

use std::collections::BTreeSet;

use super::super::world::World;
use crate::engine::decide::Env;
use crate::engine::effect::{Effect, Requeued};
use crate::engine::settings::Setting;
use crate::request::{Configure, Pause, Purge, Requeue};
use crate::words::state::State;

impl World {
    /// REQUEUE.
    pub(in crate::engine::model) fn compare_requeue(&mut self, ask: &Requeue<'_>) {
        let (now, active) = (self.now(), self.active);
        self.queue().advance(&now, &mut || true);
        let mut env = Env {
            now,
            numbers: &mut self.numbers,
            defaults: &self.defaults,
        };
        let has_one = |id: &[u8]| id.contains(&b'1');
        let swept = self.servers[active]
            .queue
            .decide_requeue(&mut env, ask, &has_one)
            .unwrap();
        self.queue().sweep_on(&swept);
        let wanted = self.to_requeue(ask, &has_one);
        let (way, all, most) = match ask {
            Requeue::Ids(ids) => ("requeue: by id", ids.len(), ids.len()),
            Requeue::Next(ask) => {
                let way = match ask.state {
                    _ if ask.is_filtered() => "requeue: filtered",
                    State::Retrying => "requeue: retrying",
                    _ => "requeue",
                };
                (way, self.in_state(ask.state).len(), ask.count as usize)
            }
        };
        let done = wanted.len().min(most);
        assert!(swept.done <= done as u64, "{ask:?}");
        // A walk with a filter may stop before; by id, one that is named twice moves once.
        if way != "requeue: filtered" {
            assert_eq!(swept.done, done as u64, "{ask:?}");
        }
        // A state that is not asked for in words has no orders to move.
        assert_eq!(swept.left, all as u64 - swept.done, "{ask:?}");
        assert_eq!(swept.effect.is_some(), swept.done > 0, "P12");
        let Some(effect) = swept.effect else { return };
        let Effect::Requeue { rev, orders } = &effect else {
            panic!("{effect:?}")
        };
        assert_eq!(orders.len() as u64, swept.done);
        assert_eq!(*rev, self.next_rev_of_many());
        let mut seen = BTreeSet::new();
        for Requeued { id, attempt } in orders {
            let n = self.numbers_of[&**id];
            assert!(wanted.contains(&n) && seen.insert(n), "requeued: {n}");
            // A dead order begins anew; one that was going to be tried again goes on.
            let tries = match self.state(n) {
                State::Retrying => self.records[&n].attempt,
                _ => 0,
            };
            assert_eq!(*attempt, tries, "{n}");
            self.requeued(n, *rev, tries);
            self.count(way);
        }
        self.carry(&effect);
    }

    /// PURGE.
    pub(in crate::engine::model) fn compare_purge(&mut self, ask: &Purge<'_>) {
        let (now, count) = (self.now(), ask.count);
        let matches = |id: &[u8]| ask.pattern.is_none() || id.contains(&b'1');
        self.queue().advance(&now, &mut || true);
        let swept = self.queue().decide_purge(&now, ask, &matches);
        self.queue().sweep_on(&swept);
        let takes = !matches!(ask.state, State::Leased | State::Reserved);
        let wanted = self.to_purge(ask, &matches);
        let in_state = self.in_state(ask.state).len() as u64;
        assert!(swept.done <= wanted.len() as u64 && swept.done <= u64::from(count));
        assert!(takes || swept.done == 0, "a lease was taken away");
        // With as many looks as there are records, all are found.
        let all = wanted.len().min(count as usize) as u64;
        if self.kind.is_exact() {
            assert_eq!(swept.left, in_state - swept.done);
            // A pattern makes a look dearer, by less than this.
            let looks = self.ids.len() * if ask.pattern.is_some() { 4 } else { 1 };
            if takes && count as usize * 10 >= looks {
                assert_eq!(swept.done, all, "{ask:?}");
            }
        }
        let Some(effect) = swept.effect else {
            assert_eq!(swept.done, 0, "P12");
            return;
        };
        let Effect::Forget { ids } = &effect else {
            panic!("{effect:?}")
        };
        assert_eq!(ids.len() as u64, swept.done);
        for id in ids {
            let n = self.numbers_of[&**id];
            assert!(wanted.contains(&n), "purged: {n}");
            assert!(self.records.remove(&n).is_some(), "purged twice: {n}");
            self.paid.remove(&n);
            self.count("purge");
        }
        self.carry(&effect);
    }

    /// PAUSE.
    pub(in crate::engine::model) fn compare_pause(&mut self, ask: &Pause<'_>) {
        let env = Env {
            now: self.now(),
            numbers: &mut self.numbers,
            defaults: &self.defaults,
        };
        let queue = &self.servers[self.active].queue;
        let Some(effect) = queue.decide_pause(&env, ask).1 else {
            return;
        };
        self.carry(&effect);
        self.paused(ask.ms);
    }

    /// RESUME.
    pub(in crate::engine::model) fn compare_resume(&mut self) {
        let now = self.now();
        let effect = self.queue().decide_resume(&now).1;
        assert_eq!(effect.is_some(), self.pause.is_some(), "P12");
        self.carry_all(effect.as_slice());
        self.pause = None;
    }

    /// The floor, which a restored queue may raise.
    pub(in crate::engine::model) fn raise_floor(&mut self, floor: u64) {
        self.carry(&Effect::Floor(floor));
        self.floor = floor;
    }

    /// CONFIG, of this setting where it is of one.
    pub(in crate::engine::model) fn compare_configure(
        &mut self,
        setting: Setting,
        value: u64,
        ask: &Configure<'_>,
    ) {
        let decided = self.queue().decide_configure(ask);
        let (own, transitions) = (self.own.clone(), self.transitions);
        if !self.configured(setting, value, ask) {
            assert!(decided.is_err(), "{ask:?}");
            self.count("bad setting");
            return;
        }
        let effects = decided.unwrap();
        let changed = (own, transitions) != (self.own.clone(), self.transitions);
        assert!(!changed || !effects.is_empty());
        assert!(changed || matches!(ask, Configure::Set(_)) || effects.is_empty());
        self.carry_all(&effects);
    }
}
