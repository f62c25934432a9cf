//! The reference: what the rules of the design make of a request, read off the records
//! one by one. It knows no structure of the core and draws no dice.
//!
//! For each command there is the outcome it must have, and, by its name as a thing
//! done, what is left of the record. Here is what they share: the state of an order,
//! numbers, settings, and the guards.

use super::world::World;
use crate::engine::number::NUMBER_END;
use crate::engine::outcome::Outcome;
use crate::engine::settings::Setting;
use crate::request::Guard;
use crate::words::state::State;

mod claims;
mod locks;
mod orders;
mod queue;
pub(super) mod record;

/// The allowed changes of status where there are any.
pub(super) const TRANSITIONS: &[u8] = b"s1>s2 s2>s3 >s1 s3>s1";

impl World {
    /// State of an order on the primary.
    pub(super) fn state(&self, n: u32) -> State {
        self.records.get(&n).map_or(State::Missing, |record| {
            record.state(&self.now(), self.active)
        })
    }

    /// What a setting comes to.
    pub(super) fn setting(&self, setting: Setting) -> u64 {
        self.own
            .get(&setting)
            .copied()
            .unwrap_or_else(|| self.defaults.get(setting))
    }

    /// How many dead orders are kept at most.
    pub(super) fn dead_max(&self) -> Option<u64> {
        Some(self.setting(Setting::DeadMax)).filter(|most| *most > 0)
    }

    /// Whether the queue is paused.
    pub(super) fn is_paused(&self) -> bool {
        self.pause
            .is_some_and(|until| until.is_none_or(|until| until > self.wall()))
    }

    /// The number of a plain write.
    fn next_rev(&mut self, n: u32) -> u64 {
        let old = self.records.get(&n).map_or(0, |record| record.rev);
        let rev = if self.state(n) == State::Missing {
            self.next_grant()
        } else {
            let rev = (old + 1).max(self.last).max(self.now().wall_us);
            self.learn(rev);
            rev
        };
        assert!(rev > old, "revs grow");
        self.floor = self.floor.max(rev);
        rev
    }

    /// Takes note of a number: what is far ahead of the clock is known to queues alone
    /// that are as far ahead.
    pub(super) fn learn(&mut self, number: u64) {
        if number <= self.now().wall_us + 3_600_000_000 {
            self.last = self.last.max(number);
        } else if number <= NUMBER_END - (1 << 40) {
            self.far = self.far.max(number);
        }
    }

    /// The number of a grant, or of an order that is made.
    fn next_grant(&mut self) -> u64 {
        let now_us = self.now().wall_us;
        let own = (self.last + 1).max(now_us);
        if own > self.floor {
            self.last = own;
            return own;
        }
        let mut number = self.floor + 1;
        if number > now_us + 3_600_000_000 && number <= NUMBER_END - (1 << 40) {
            number = number.max(self.far + 1);
        }
        self.learn(number);
        number
    }

    /// The number of a grant.
    fn next_fence(&mut self, n: u32) -> u64 {
        let fence = self.next_grant();
        self.floor = fence;
        let before = self.fences.insert(n, fence);
        assert!(before.is_none_or(|before| before < fence), "P4");
        fence
    }

    /// Fence, lease, rev, status, transitions: the first that is in the way.
    fn in_way(&self, n: u32, guard: &Guard<'_>, to: Option<&[u8]>) -> Option<Outcome> {
        let record = &self.records[&n];
        let state = self.state(n);
        if let Some(fence) = guard.fence {
            if record
                .grant
                .as_ref()
                .is_none_or(|grant| grant.fence != fence)
            {
                return Some(Outcome::Stale);
            }
        } else if matches!(state, State::Leased | State::Reserved) {
            return Some(Outcome::Leased);
        }
        if guard.if_rev.is_some_and(|rev| rev != record.rev) {
            return Some(Outcome::Stale);
        }
        if !guard.from.is_empty() && !guard.from.contains(&record.status.as_slice()) {
            return Some(Outcome::State);
        }
        if self.transitions
            && let Some(to) = to
            && *to != record.status
        {
            let change = [record.status.as_slice(), b">", to].concat();
            if !TRANSITIONS
                .split(|byte| *byte == b' ')
                .any(|one| one == change)
            {
                return Some(Outcome::State);
            }
        }
        None
    }
}
