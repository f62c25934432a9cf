//! LOCK, UNLOCK, BREAK, RENEW and RELEASE. Each returns the order it touched.

use super::super::world::World;
use crate::request::{Break, Lock, Release, Renew, Unlock};

/// Those whose leases are ended by RELEASE: of claims, of locks, of nobody.
const OWNERS: [&[u8]; 3] = [b"closer", b"payer", b"nobody"];

impl World {
    /// RENEW.
    pub(in crate::engine::model) fn renew(&mut self) -> u32 {
        let n = self.granted_id();
        let (fence, shorten) = (self.fence(n), self.dice.chance(400));
        let lease_ms = 1 + self.dice.pick(&[0, 5, 100, 29_999]);
        let ask = Renew {
            id: &self.ids[n as usize].clone(),
            fence,
            lease_ms,
            shorten,
            session: false,
        };
        self.compare_renew(n, &ask);
        n
    }

    /// LOCK.
    pub(in crate::engine::model) fn lock(&mut self) -> u32 {
        // One with a fingerprint is rare among many.
        let locked = || self.records.iter().find(|(_, record)| record.fp.is_some());
        let n = if self.dice.chance(20)
            && let Some((n, _)) = locked()
        {
            *n
        } else if self.dice.chance(600) {
            self.granted_id()
        } else {
            self.any_id()
        };
        let owner = self.dice.pick(&[&b"payer"[..], b"payer", b"another payer"]);
        let fp = self
            .dice
            .pick(&[None, None, Some(&b"one"[..]), Some(b"two")]);
        let lease_ms = 1 + self.dice.below(80);
        let max_ms = self
            .dice
            .pick(&[None, None, Some(1), Some(60), Some(30_000)]);
        let (reentrant, queued) = (self.dice.chance(500), self.dice.chance(100));
        let must_exist = self.dice.chance(200);
        let ask = Lock {
            id: &self.ids[n as usize].clone(),
            owner,
            lease_ms,
            reentrant,
            max_ms,
            fp,
            block_ms: None,
            must_exist,
            session: false,
        };
        self.compare_lock(n, &ask, queued);
        n
    }

    /// RELEASE. Returns one of those it touched.
    pub(in crate::engine::model) fn release_owner(&mut self) -> Option<u32> {
        let owner = self.dice.pick(&OWNERS);
        let count = self.dice.pick(&[1, 1, 3, 1000]);
        self.compare_release(&Release { owner, count }).pop()
    }

    /// UNLOCK.
    pub(in crate::engine::model) fn unlock(&mut self) -> u32 {
        let n = self.granted_id();
        let fence = self.fence(n);
        let ask = Unlock {
            id: &self.ids[n as usize].clone(),
            fence,
        };
        self.compare_unlock(n, &ask);
        n
    }

    /// BREAK.
    pub(in crate::engine::model) fn break_lease(&mut self) -> u32 {
        let n = self.granted_id();
        let fence = self.dice.chance(400).then(|| self.fence(n));
        let ask = Break {
            id: &self.ids[n as usize].clone(),
            fence,
        };
        self.compare_break(n, &ask);
        n
    }
}
