//! What time brings: passes that advance, announce and forget, and when the next one is
//! to be.

use std::collections::{BTreeMap, BTreeSet};

use super::run::Often;
use super::world::World;
use crate::engine::effect::Effect;
use crate::engine::outcome::{Announcement, EventKind};
use crate::engine::queue::Duty;
use crate::words::state::State;

impl World {
    /// A pass or a part of one, as the run has it.
    pub(super) fn pass(&mut self) {
        let exact = self.kind.is_exact();
        for server in 0..2 {
            // Whatever the run is like: nothing of a compaction shows.
            if self.dice.chance(20) {
                let mut budget = self.dice.below(4);
                self.servers[server].queue.compact_all(&mut || {
                    budget = budget.saturating_sub(1);
                    budget > 0
                });
            }
            let often = self.kind.advance;
            let now = self.servers[server].now();
            if often == Often::Always {
                assert!(self.servers[server].queue.advance(&now, &mut || true));
            } else if often == Often::Sometimes && self.dice.chance(100) {
                let mut budget = self.dice.below(4);
                self.servers[server].queue.advance(&now, &mut || {
                    budget = budget.saturating_sub(1);
                    budget > 0
                });
            }
        }
        if exact && self.kind.announce == Often::Always {
            self.announce_exactly();
        } else if self.kind.announce == Often::Always
            || (self.kind.announce == Often::Sometimes && self.dice.chance(100))
        {
            self.announce();
        }
        if exact && self.kind.announce == Often::Always {
            let now = self.now();
            self.armed = self
                .queue()
                .next_wake(&now, Duty::All)
                .map_or(u64::MAX, |wake| wake.0);
            self.check_wake();
        }
    }

    /// What was filed since the last pass has asked for a wake that is early
    /// enough.
    pub(super) fn check_armed(&mut self) {
        let (now, wall) = (self.now(), self.wall());
        let hint = self.queue().take_hint();
        self.armed = self.armed.min(hint);
        let exact = self
            .queue()
            .next_wake(&now, Duty::All)
            .map_or(u64::MAX, |wake| wake.0);
        let armed = self.armed;
        assert!(
            armed <= exact.max(wall),
            "armed for {armed}, and {exact} is to be done"
        );
    }

    /// The exact wake is the exact one, right after a pass.
    fn check_wake(&mut self) {
        let (now, wall, active) = (self.now(), self.wall(), self.active);
        let exact = self
            .queue()
            .next_wake(&now, Duty::All)
            .map_or(u64::MAX, |wake| wake.0);
        let mut first = u64::MAX;
        for record in self.records.values() {
            let grant_end = record.grant.as_ref().map(|grant| grant.end);
            let at = match record.state(&now, active) {
                State::Scheduled => record.deadline.unwrap(),
                State::Leased | State::Reserved => grant_end.unwrap(),
                State::Retrying => record.retry.unwrap().0,
                // What was reserved is forgotten in the pass that finds it lapsed.
                State::Finished | State::Missing => record
                    .keep_end
                    .map_or(0, |end| end.div_ceil(256).saturating_mul(256)),
                State::Expired | State::Dead if !record.announced => 0,
                State::Expired | State::Dead => u64::MAX,
            };
            first = first.min(at);
        }
        // A lease end can be a millisecond early: both clocks are rounded.
        let (exact, first) = (exact.max(wall), first.max(wall));
        assert!(
            exact == first || exact + 1 == first,
            "wake at {exact}, not {first} (now {wall})"
        );
    }

    /// Takes one announcement into account.
    pub(super) fn announced(&mut self, one: &Announcement) {
        let n = self.numbers_of[&*one.id];
        let state = self.state(n);
        match one.kind {
            EventKind::Lapsed => {
                let credit = self.credit.entry(n).or_default();
                assert!(*credit > 0, "lapsed without a lapse: {n}");
                *credit -= 1;
                self.count("lapsed");
            }
            EventKind::Expired | EventKind::Dead => {
                let expected = if one.kind == EventKind::Expired {
                    State::Expired
                } else {
                    State::Dead
                };
                assert_eq!(state, expected, "announced: {one:?}");
                let record = self.records.get_mut(&n).unwrap();
                assert!(
                    !record.announced || self.stepped,
                    "announced twice: {one:?}"
                );
                record.announced = true;
                self.count(if expected == State::Dead {
                    "dead"
                } else {
                    "expired"
                });
            }
            _ => panic!("{one:?}"),
        }
    }

    /// Announces some or all.
    fn announce(&mut self) {
        let now = self.now();
        let max = self.dice.pick(&[1, 3, 100_000]) as usize;
        let mut list = Vec::new();
        let caught_up = self.queue().advance(&now, &mut || true);
        assert!(caught_up);
        let backlog = self.queue().announce_backlog(&now);
        self.queue().announce(&now, max, &mut list);
        assert!(list.is_empty() || !self.is_paused(), "announced in a pause");
        assert!(list.is_empty() || backlog > 0);
        for one in &list {
            self.announced(one);
        }
        if max > 1000 && !self.is_paused() {
            for (n, record) in &self.records {
                let waits = matches!(
                    record.state(&now, self.active),
                    State::Expired | State::Dead
                );
                assert!(
                    record.announced || !waits,
                    "never announced: {n} {record:?}"
                );
            }
            // Of those that were set back, some may be due again.
            assert!(self.stepped || self.servers[self.active].queue.announce_backlog(&now) == 0);
        }
    }

    /// Announces all and knows exactly what that must be.
    fn announce_exactly(&mut self) {
        let (now, active) = (self.now(), self.active);
        let mut expected = BTreeSet::new();
        let mut since = BTreeMap::new();
        for (n, record) in &mut self.records {
            let state = record.state(&now, active);
            if record.deadline.is_some()
                && let Some(grant) = &mut record.grant
                && grant.over[active] <= now.mono_us / 1000
                && !grant.said
            {
                grant.said = true;
                expected.insert((1, *n));
            }
            match state {
                State::Expired if !record.announced => {
                    expected.insert((2, *n));
                    since.insert(*n, record.since());
                }
                State::Dead if !record.announced => {
                    expected.insert((3, *n));
                }
                _ => {}
            }
        }
        let mut list = Vec::new();
        self.queue().announce(&now, usize::MAX, &mut list);
        let mut latest = 0;
        for one in &list {
            let n = self.numbers_of[&*one.id];
            let number = match one.kind {
                EventKind::Lapsed => 1,
                EventKind::Expired => 2,
                EventKind::Dead => 3,
                _ => panic!("{one:?}"),
            };
            assert!(
                expected.remove(&(number, n)),
                "not to be announced, or twice: {one:?}"
            );
            if number == 2 {
                assert!(since[&n] >= latest, "announced out of order");
                latest = since[&n];
            }
            self.announced(one);
        }
        assert_eq!(expected, BTreeSet::new(), "not announced");
        assert_eq!(self.servers[active].queue.announce_backlog(&now), 0);
    }

    /// Forgets what is to be forgotten.
    pub(super) fn forget(&mut self) {
        let (now, active) = (self.now(), self.active);
        let max = self.dice.pick(&[1, 3, 100]) as usize;
        let all = self.dice.chance(500);
        self.queue().advance(&now, &mut || true);
        while let Some(effect) = self.servers[active]
            .queue
            .due_forget(&now, &self.defaults, max)
        {
            match &effect {
                Effect::Forget { ids } => {
                    assert!((1..=max).contains(&ids.len()));
                    for id in ids {
                        let n = self.numbers_of[&**id];
                        match self.state(n) {
                            State::Missing => {}
                            State::Dead => {
                                let dead = self
                                    .records
                                    .values()
                                    .filter(|r| r.state(&now, active) == State::Dead)
                                    .count();
                                assert!(
                                    self.dead_max().is_some_and(|most| dead as u64 > most),
                                    "dropped for no reason"
                                );
                                self.count("dead dropped");
                            }
                            other => panic!("forgot an order that is {other:?}"),
                        }
                        assert!(self.records.remove(&n).is_some());
                        self.paid.remove(&n);
                        self.count("forgotten");
                    }
                }
                Effect::Pause { on: false, .. } => {
                    assert!(
                        self.pause
                            .is_some_and(|until| until.is_some_and(|until| until <= self.wall()))
                    );
                    self.pause = None;
                }
                other => panic!("{other:?}"),
            }
            self.carry(&effect);
            if !all {
                return;
            }
        }
        let mut dead = 0;
        for (n, record) in &self.records {
            let state = record.state(&now, active);
            dead += u64::from(state == State::Dead);
            assert!(
                state != State::Missing || self.stepped || !self.kind.is_exact(),
                "{n} is still there"
            );
        }
        assert!(
            self.dead_max().is_none_or(|most| dead <= most),
            "too many dead"
        );
    }
}
