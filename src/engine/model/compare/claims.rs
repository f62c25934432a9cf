//! CLAIM, ACK and NACK.

use std::collections::BTreeSet;

use super::super::world::World;
use crate::engine::decide::Env;
use crate::engine::effect::{AfterTry, Effect};
use crate::engine::outcome::{Announcement, EventKind};
use crate::request::{Ack, Again, Claim, Nack};
use crate::words::state::State;

impl World {
    /// CLAIM; of one order, its number is told. `patient`: after a pass that is not cut
    /// short. Returns an order it touched.
    pub(in crate::engine::model) fn compare_claim(
        &mut self,
        one: Option<u32>,
        ask: &Claim<'_>,
        patient: bool,
    ) -> u32 {
        let (now, active) = (self.now(), self.active);
        let mut env = Env {
            now,
            numbers: &mut self.numbers,
            defaults: &self.defaults,
        };
        let queue = &mut self.servers[active].queue;
        queue.advance(&now, &mut || patient);
        let claimed = queue.decide_claim(&mut env, ask).unwrap();

        let (expected, room) = (self.claim_count(one, ask), self.room());
        if patient {
            assert_eq!(
                claimed.picks.len(),
                expected,
                "{:?}, {one:?}, room {room}",
                ask.pick
            );
        } else {
            assert!(claimed.picks.len() <= expected);
        }
        let Some(effect) = claimed.effect else {
            assert!(claimed.picks.is_empty() && claimed.announcements.is_empty());
            self.count("claim: none");
            return one.unwrap_or(0);
        };
        self.count("claim: some");
        let Effect::Claim {
            owner: granted_to,
            since,
            end,
            cap,
            grants,
        } = &effect
        else {
            panic!("{effect:?}")
        };
        assert_eq!(
            (&**granted_to, grants.len()),
            (ask.owner, claimed.picks.len())
        );
        self.heard(&claimed.announcements, claimed.late_us.len());
        let ceil = now.wall_us.div_ceil(1000);
        assert_eq!(
            (since.0, end.0, cap.0),
            (
                ceil,
                ceil + self.claim_ms(ask),
                ceil + self.defaults.lease_ms_max
            )
        );
        let claimable = self.claimable();
        let mut touched = 0;
        let (mut before, mut seen): (Option<(u64, u64)>, BTreeSet<u32>) = (None, BTreeSet::new());
        for (at, (granted, i)) in grants.iter().zip(&claimed.picks).enumerate() {
            let view = self.servers[active].queue.view_at(&now, *i).unwrap();
            assert_eq!((view.id, view.state), (&*granted.id, State::Expired));
            let n = self.numbers_of[&*granted.id];
            touched = n;
            assert!(seen.insert(n), "granted twice");
            assert_eq!(self.state(n), State::Expired, "granted: {n}");
            assert!(!self.paid.contains(&n), "closed after it was paid");
            let record = &self.records[&n];
            assert!(record.announced, "claimed and never announced");
            assert!(one.is_none_or(|one| one == n));
            if self.kind.is_exact() && one.is_none() {
                assert_eq!(record.since(), claimable[at], "out of order");
                if record.plain && record.grant.is_none() && record.retry.is_none() {
                    let key = (record.since(), record.seq);
                    assert!(
                        before.is_none_or(|before| before.0 != key.0 || before.1 < key.1),
                        "tie out of order"
                    );
                    before = Some(key);
                }
            }
            assert_eq!(
                (granted.fence, granted.attempt, granted.last_try),
                self.claimed(n, ask.owner, end.0)
            );
        }
        self.carry(&effect);
        touched
    }

    /// What nobody had been told of is said by the CLAIM that takes it.
    fn heard(&mut self, announcements: &[Announcement], late: usize) {
        let expired = |said: &&Announcement| said.kind == EventKind::Expired;
        let unheard = announcements.iter().filter(expired).count();
        assert_eq!(late, unheard);
        let mut told: BTreeSet<u32> = BTreeSet::new();
        for said in announcements {
            let n = self.numbers_of[&*said.id];
            if said.kind == EventKind::Expired {
                assert!(told.insert(n), "told twice");
            }
            self.announced(said);
        }
    }

    /// ACK.
    pub(in crate::engine::model) fn compare_ack(&mut self, n: u32, ask: &Ack<'_>) {
        let decided = self.ask(|queue, env| queue.decide_ack(env, ask));
        let (was, outcome) = (self.state(n), self.ack_outcome(n, ask));
        if self.judge(n, decided, outcome, was) {
            self.finished(n, ask.status, ask.result, ask.keep_ms, true);
        }
    }

    /// NACK.
    pub(in crate::engine::model) fn compare_nack(&mut self, n: u32, ask: &Nack<'_>) {
        let decided = self.ask(|queue, env| queue.decide_nack(env, ask));
        let (was, outcome) = (self.state(n), self.nack_outcome(n, ask.fence));
        let said = match &decided.as_ref().unwrap().effect {
            Some(Effect::Nack { then, untried, .. }) => {
                assert_eq!(*untried, ask.untried);
                Some(*then)
            }
            _ => None,
        };
        if self.judge(n, decided, outcome, was) {
            let (said, mut then) = (said.unwrap(), self.after_nack(n, ask));
            if ask.again == Again::Backoff
                && let AfterTry::At { since, at } = &mut then
                && let AfterTry::At { at: said, .. } = said
            {
                let (waits, wait) = (said.0 - since.0, at.0 - since.0);
                assert!(
                    waits >= 1 && waits.abs_diff(wait) <= wait / 10,
                    "waits {waits} for {wait}"
                );
                *at = said;
            }
            assert_eq!(said, then);
            self.nacked(n, ask, then);
        }
    }
}
