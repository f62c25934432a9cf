//! Random requests: each function makes one, and has it carried out and compared
//! (`compare`). The dice are thrown in a fixed order, so a seed is a run: who adds a
//! request changes the runs of all seeds.
//!
//! Here is what requests are made of: ids, texts, fences and guards.

use super::world::World;
use crate::request::Guard;

mod batches;
mod claims;
mod locks;
mod orders;
mod queue;

pub(super) use queue::SETTINGS;

/// Fences and guards to ask with.
#[derive(Clone, Debug, Default)]
struct Asked {
    /// FROM.
    from: Vec<Vec<u8>>,
    /// IFREV.
    if_rev: Option<u64>,
    /// FENCE.
    fence: Option<u64>,
}

impl Asked {
    /// As the core takes it.
    fn guard(&self) -> Guard<'_> {
        Guard {
            from: self.from(),
            if_rev: self.if_rev,
            fence: self.fence,
        }
    }

    /// FROM alone.
    fn from(&self) -> Vec<&[u8]> {
        self.from.iter().map(Vec::as_slice).collect()
    }
}

impl World {
    /// A status.
    fn status(&mut self) -> Vec<u8> {
        match self.dice.below(self.kind.statuses) {
            0 => Vec::new(),
            n => format!("s{n}").into_bytes(),
        }
    }

    /// A status or none.
    fn maybe_status(&mut self) -> Option<Vec<u8>> {
        self.dice.chance(500).then(|| self.status())
    }

    /// A payload, result or error, or none.
    fn maybe_text(&mut self) -> Option<Vec<u8>> {
        let len = match self.dice.below(20) {
            0..=9 => return None,
            10 => 0,
            11..=17 => self.dice.below(40),
            18 => self.dice.below(260),
            _ => self.dice.below(20_000).min(self.kind.ids * 20),
        };
        let byte = self.dice.below(256) as u8;
        Some(vec![byte; len as usize])
    }

    /// The right fence, an old one, or any.
    fn fence(&mut self, n: u32) -> u64 {
        let right = self
            .records
            .get(&n)
            .and_then(|record| record.grant.as_ref())
            .map(|grant| grant.fence);
        match self.dice.below(10) {
            0 => self.dice.below(1 << 53),
            1 => self.fences.get(&n).copied().unwrap_or(0),
            2 => right.unwrap_or(1).saturating_sub(1),
            _ => right.or_else(|| self.fences.get(&n).copied()).unwrap_or(0),
        }
    }

    /// A guard, mostly none.
    fn guard(&mut self, n: u32) -> Asked {
        let mut asked = Asked::default();
        if self.dice.chance(150) {
            let right = self.records.get(&n).map(|record| record.status.clone());
            if self.dice.chance(800) {
                asked.from.extend(right);
            }
            if self.dice.chance(500) {
                asked.from.push(self.status());
            }
        }
        if self.dice.chance(70) {
            let rev = self.records.get(&n).map_or(7, |record| record.rev);
            asked.if_rev = Some(if self.dice.chance(700) { rev } else { rev + 1 });
        }
        if self.dice.chance(200) {
            asked.fence = Some(self.fence(n));
        }
        asked
    }

    /// An order, more often one of the first, and often one that is leased.
    fn any_id(&mut self) -> u32 {
        let n = self.dice.below(self.kind.ids) as u32;
        if self.dice.chance(300) { n % 20 } else { n }
    }

    /// An order whose last grant is known, if a few looks find one.
    fn granted_id(&mut self) -> u32 {
        let start = self.any_id();
        let found = self
            .records
            .range(start..)
            .take(50)
            .find(|(_, record)| record.grant.is_some());
        found.map_or(start, |(n, _)| *n)
    }
}
