//! Everything, now and then: both servers and what they save, SCAN, NEXT and STATS.

use std::collections::BTreeMap;

use super::super::requests::SETTINGS;
use super::super::world::World;
use crate::engine::effect::LeaseKind;
use crate::engine::testing::{digest, loaded, saved};
use crate::engine::view::StatValue;
use crate::request::Scan;
use crate::words::state::State;
use crate::words::time::Now;

impl World {
    /// Everything.
    pub(in crate::engine::model) fn compare_all(&mut self) {
        for n in 0..self.ids.len() as u32 {
            self.compare_order(n);
        }
        let (now, active) = (self.now(), self.active);
        let [one, two] = &self.servers;
        one.queue.check();
        two.queue.check();
        let digest_of_one = digest(&one.queue);
        assert_eq!(digest_of_one, digest(&two.queue), "P9: primary and replica");
        let saved_of_one = saved(&one.queue);
        assert_eq!(saved_of_one, saved(&two.queue));
        let copy = loaded(&one.queue, &one.now(), &self.defaults);
        copy.check();
        assert_eq!(digest_of_one, digest(&copy), "P9: loaded");
        assert_eq!(saved_of_one, saved(&copy));
        for server in &self.servers {
            assert_eq!(
                (server.queue.len(), server.queue.floor()),
                (self.records.len(), self.floor)
            );
            let idle = self.records.is_empty()
                && self.own.is_empty()
                && !self.transitions
                && self.pause.is_none();
            assert_eq!(server.queue.is_empty(), idle);
        }
        // SCAN, in calls of any size, shows what is there.
        let mut listed = BTreeMap::new();
        let mut cursor = 0;
        loop {
            let count = 1 + self.dice.below(30) as u32;
            let ask = Scan {
                cursor,
                state: None,
                status: None,
                pattern: None,
                count,
                owner: None,
            };
            let (next, rows) = self.servers[active].queue.scan(&now, &ask, &|_| true);
            for row in rows {
                let before = listed.insert(self.numbers_of[&row.id], row.state);
                assert_eq!(before, None, "listed twice though nothing changed");
            }
            if next == 0 {
                break;
            }
            cursor = next;
        }
        let expected: BTreeMap<u32, State> = self
            .records
            .iter()
            .map(|(n, record)| (*n, record.state(&now, active)))
            .filter(|(_, state)| *state != State::Missing)
            .collect();
        assert_eq!(listed, expected);
        // Whatever the clock did: counts and lists follow it as records do.
        self.queue().advance(&now, &mut || true);
        self.compare_next(&now);
        self.compare_counts(&now, &expected);
        if self.kind.is_exact() {
            self.compare_stats(&now, &expected);
        }
    }

    /// NEXT.
    fn compare_next(&mut self, now: &Now) {
        let mut scheduled: Vec<(u64, u64, u32)> = self
            .records
            .iter()
            .filter(|(_, record)| record.state(now, self.active) == State::Scheduled)
            .map(|(n, record)| (record.deadline.unwrap(), record.seq, *n))
            .collect();
        scheduled.sort_unstable();
        for count in [1, 7, usize::MAX] {
            let rows = self.servers[self.active]
                .queue
                .next(now, count.min(self.ids.len()));
            assert_eq!(rows.len(), count.min(scheduled.len()));
            let mut before = (0, 0);
            for ((id, deadline), (expected, _, _)) in rows.iter().zip(&scheduled) {
                let n = self.numbers_of[id];
                let record = &self.records[&n];
                assert_eq!(deadline.0, *expected);
                assert_eq!(
                    (record.deadline, record.state(now, self.active)),
                    (Some(deadline.0), State::Scheduled)
                );
                // Ties in schedule order, where no lapsed lock stood in between.
                if record.grant.is_none() && record.plain && !self.stepped {
                    assert!(
                        before.0 != deadline.0 || before.1 < record.seq,
                        "tie out of order"
                    );
                    before = (deadline.0, record.seq);
                }
            }
        }
    }

    /// The numbers of STATS by name.
    fn stats(&self, now: &Now) -> impl Fn(&str) -> i64 + use<> {
        let queue = &self.servers[self.active].queue;
        let answer = queue.stats(now, &self.defaults, (3, 4));
        move |name| match answer.iter().find(|(field, _)| *field == name) {
            Some((_, StatValue::Int(value))) => *value,
            other => panic!("{name}: {other:?}"),
        }
    }

    /// The counts of STATS.
    fn compare_counts(&self, now: &Now, states: &BTreeMap<u32, State>) {
        let value = self.stats(now);
        for state in State::LISTED {
            let count = states.values().filter(|other| **other == state).count();
            assert_eq!(value(state.word()), count as i64, "{}", state.word());
        }
        assert_eq!(value("orders"), states.len() as i64);
        let claims = |(n, state): &(&u32, &State)| {
            **state == State::Leased
                && self.records[n]
                    .grant
                    .as_ref()
                    .is_some_and(|grant| grant.kind == LeaseKind::Claim)
        };
        assert_eq!(
            value("live_claims"),
            states.iter().filter(claims).count() as i64
        );
    }

    /// What else STATS says.
    fn compare_stats(&self, now: &Now, states: &BTreeMap<u32, State>) {
        let (value, wall) = (self.stats(now), now.wall_us / 1000);
        let in_state = |wanted: State| {
            states
                .iter()
                .filter(move |(_, state)| **state == wanted)
                .map(|(n, _)| *n)
        };
        let next = in_state(State::Scheduled)
            .map(|n| self.records[&n].deadline.unwrap())
            .min();
        assert_eq!(value("next_deadline"), next.map_or(-1, |next| next as i64));
        let oldest = in_state(State::Expired)
            .map(|n| self.records[&n].since())
            .min();
        assert_eq!(
            value("oldest_expired_ms"),
            oldest.map_or(0, |oldest| (wall - oldest) as i64)
        );
        assert_eq!(
            (
                value("behind_ms"),
                value("claim_waiters"),
                value("lock_waiters")
            ),
            (0, 3, 4)
        );
        for (setting, value_of) in SETTINGS.map(|(setting, _)| (setting, self.setting(setting))) {
            assert_eq!(value(setting.name()), value_of as i64);
        }
    }
}
