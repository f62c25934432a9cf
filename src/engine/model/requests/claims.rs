//! CLAIM, ACK and NACK. Each returns the order it touched.

use super::super::world::World;
use crate::request::{Ack, Again, Claim, Nack, Pick};

impl World {
    /// CLAIM, of the next ones or of one.
    pub(in crate::engine::model) fn claim(&mut self) -> u32 {
        let one = self.dice.chance(250).then(|| self.any_id());
        let count = self.dice.pick(&[1, 1, 2, 5, 100, 1000]);
        let lease_ms = self
            .dice
            .pick(&[None, Some(1), Some(10), Some(200), Some(30_000)]);
        let owner = self.dice.pick(&[
            &b"one"[..],
            b"two",
            b"somebody with quite a long name, who takes his time",
        ]);
        let id = one.map(|n| self.ids[n as usize].clone());
        let pick = match &id {
            Some(id) => Pick::Id(id),
            None => Pick::Next {
                count,
                block_ms: None,
            },
        };
        // A pass that is cut short may hand out less, never more or wrongly.
        let patient = self.kind.is_exact() || self.dice.chance(900);
        let ask = Claim {
            owner,
            lease_ms,
            pick,
            session: false,
        };
        self.compare_claim(one, &ask, patient)
    }

    /// ACK.
    pub(in crate::engine::model) fn ack(&mut self) -> u32 {
        let n = self.granted_id();
        let (fence, asked) = (self.fence(n), self.guard(n));
        let (status, result) = (self.maybe_status(), self.maybe_text());
        let keep_ms = self.dice.pick(&[None, Some(0), Some(30)]);
        let ask = Ack {
            id: &self.ids[n as usize].clone(),
            fence,
            from: asked.from(),
            status: status.as_deref(),
            result: result.as_deref(),
            keep_ms,
        };
        self.compare_ack(n, &ask);
        n
    }

    /// NACK.
    pub(in crate::engine::model) fn nack(&mut self) -> u32 {
        let n = self.granted_id();
        let fence = self.fence(n);
        let again = match self.dice.below(10) {
            0..=3 => Again::Backoff,
            4 | 5 => Again::Delay(0),
            6 | 7 => Again::Delay(self.dice.below(50)),
            8 => Again::Delay(self.dice.below(1 << 40)),
            _ => Again::Dead,
        };
        let error = self.maybe_text().map(|mut text| {
            text.truncate(256);
            text
        });
        let untried = again != Again::Dead && self.dice.chance(300);
        let ask = Nack {
            id: &self.ids[n as usize].clone(),
            fence,
            again,
            error: error.as_deref(),
            untried,
        };
        self.compare_nack(n, &ask);
        n
    }
}
