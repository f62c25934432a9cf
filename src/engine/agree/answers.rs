//! What must agree: every question with GET, and what is left of each lease with what
//! was left of it before.

use std::collections::BTreeMap;

use super::IDS;
use super::life::Life;
use crate::engine::effect::LeaseKind;
use crate::engine::view::StatValue;
use crate::request::{Configure, Scan};
use crate::words::state::State;

impl Life {
    /// What is left of each live lease, milliseconds.
    pub(super) fn leases(&self) -> BTreeMap<&'static [u8], u64> {
        let left = |id: &&'static [u8]| {
            let view = self.queue.view(&self.now(), id)?;
            Some((*id, view.lease_ms?))
        };
        IDS.iter().filter_map(left).collect()
    }

    /// The length of each last grant, live or over, milliseconds: from when it was made
    /// or renewed until its end.
    pub(super) fn lengths(&self) -> BTreeMap<&'static [u8], u64> {
        let length = |id: &&'static [u8]| {
            let i = self.queue.store.find(id)?;
            let grant = self.queue.store.rows.grant(i)?;
            Some((*id, grant.end.0 - grant.since.0))
        };
        IDS.iter().filter_map(length).collect()
    }

    /// No lease has more left than `most` says, and none is there of which it says
    /// nothing.
    pub(super) fn no_lease_grows(&self, most: &BTreeMap<&'static [u8], u64>) {
        for (id, left) in self.leases() {
            let most = most.get(id).copied();
            assert!(
                most.is_some_and(|most| left <= most),
                "{}: {left} ms left of {most:?}",
                id.escape_ascii()
            );
        }
    }

    /// All questions are answered alike.
    pub(super) fn agrees(&mut self) {
        let now = self.now();
        assert!(self.queue.advance(&now, &mut || true), "no limit");
        self.queue.check();
        // GET.
        let mut met: BTreeMap<Vec<u8>, State> = BTreeMap::new();
        let mut scheduled = Vec::new();
        for id in IDS {
            let Some(view) = self.queue.view(&now, id) else {
                continue;
            };
            met.insert(id.to_vec(), view.state);
            if view.state == State::Scheduled {
                scheduled.push((view.deadline.unwrap(), id.to_vec()));
            }
        }
        // SCAN.
        let ask = Scan {
            cursor: 0,
            state: None,
            status: None,
            pattern: None,
            count: 100,
            owner: None,
        };
        let (cursor, rows) = self.queue.scan(&now, &ask, &|_| true);
        assert_eq!(cursor, 0);
        let listed: BTreeMap<_, _> = rows.into_iter().map(|row| (row.id, row.state)).collect();
        assert_eq!(listed, met, "SCAN and GET");
        // STATS.
        let stats = self.queue.stats(&now, &self.defaults, (0, 0));
        let value = |name: &str| match stats.iter().find(|(field, _)| *field == name) {
            Some((_, StatValue::Int(value))) => *value,
            other => panic!("{other:?}"),
        };
        for state in State::LISTED {
            let orders = met.values().filter(|one| **one == state).count();
            assert_eq!(value(state.word()), orders as i64, "STATS {}", state.word());
        }
        assert_eq!(value("orders"), met.len() as i64);
        assert_eq!(value("behind_ms"), 0);
        let claims = |id: &&&[u8]| {
            self.queue.view(&now, id).is_some_and(|view| {
                view.state == State::Leased && view.kind == Some(LeaseKind::Claim)
            })
        };
        assert_eq!(
            value("live_claims"),
            IDS.iter().filter(claims).count() as i64
        );
        // NEXT.
        let mut next: Vec<_> = self
            .queue
            .next(&now, 100)
            .into_iter()
            .map(|(id, deadline)| (deadline, id))
            .collect();
        assert!(next.is_sorted_by_key(|(deadline, _)| *deadline));
        next.sort();
        scheduled.sort();
        assert_eq!(next, scheduled, "NEXT and GET");
        let first = scheduled.first().map(|(deadline, _)| deadline.0 as i64);
        assert_eq!(value("next_deadline"), first.unwrap_or(-1));
        // CLAIM.
        self.let_claims_go();
        let mut claimed = self.claim(100, None);
        claimed.sort();
        met.retain(|_, state| *state == State::Expired);
        assert!(
            claimed.iter().eq(met.keys()),
            "CLAIM gave {claimed:?} of {met:?}"
        );
    }

    /// Takes away what holds a CLAIM back.
    fn let_claims_go(&mut self) {
        for effect in self
            .queue
            .decide_configure(&Configure::Set(vec![(b"max-leased", b"0")]))
            .unwrap()
        {
            self.carry(&effect);
        }
        if let Some(effect) = self.queue.decide_resume(&self.now()).1 {
            self.carry(&effect);
        }
    }
}
