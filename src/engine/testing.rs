//! What the tests of the engine share: whole queues, checked, digested, saved and
//! loaded, and the dice.

#![allow(
    clippy::indexing_slicing,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test that fails should fail loudly"
)]

use std::collections::{BTreeSet, HashMap};

use super::effect::LeaseKind;
use super::queue::Queue;
use super::record::Place;
use super::settings::Defaults;
use super::tables::wheel::{Filed, Wheel};
use super::views::{by_deadline, by_keep, by_lease};
use crate::codec;
use crate::testing::mix;
use crate::words::time::Now;

impl Queue {
    /// Tests that every record stands in the one place its `place` names, that
    /// the place is one its ground state allows, and every structure's own
    /// invariants. O(n).
    pub(super) fn check(&self) {
        let rows = &self.store.rows;
        let mut places: HashMap<u32, Place> = HashMap::new();
        let mut tally = super::queue::Tally::default();
        for i in 0..rows.end() {
            let Some(record) = rows.get(i) else { continue };
            assert_eq!(
                self.store.find(rows.id(i)),
                Some(i),
                "the index finds every id"
            );
            places.insert(i, record.place());
            let extra = rows.extra(i);
            let grant = extra.and_then(super::record::Extra::grant);
            let retry = extra.is_some_and(|extra| extra.retry().is_some());
            let dead = extra.is_some_and(|extra| extra.dead_at().is_some())
                || grant.is_some_and(super::record::Grant::is_last_try);
            let open = record.deadline().is_some();
            match record.place() {
                Place::Deadlines | Place::Drawn => {
                    assert!(open && !dead, "{i} waits for no deadline");
                }
                Place::Returned => assert!(open && !dead, "{i} is not claimable"),
                Place::Leases => {
                    assert!(
                        grant.is_some() || (open && retry),
                        "{i} is neither leased nor retrying"
                    );
                    *match grant {
                        None => &mut tally.retrying,
                        Some(_) if !open => &mut tally.reserved,
                        Some(grant) if grant.kind == LeaseKind::Claim => &mut tally.claims,
                        Some(_) => &mut tally.locks,
                    } += 1;
                }
                Place::Dead => assert!(open && dead, "{i} is not dead"),
                Place::Keeps => assert!(!open, "{i} is not finished"),
                Place::Nowhere | Place::Vacant => panic!("{i} stands nowhere"),
            }
        }
        assert_eq!(places.len(), self.store.len());
        assert_eq!(tally, self.busy.tally);
        let mut met = 0;
        let mut stands = |i: u32, place: Place| {
            assert_eq!(places.get(&i), Some(&place), "record {i}");
            met += 1;
        };
        check_wheel(&self.deadlines, &by_deadline(rows), |i| {
            stands(i, Place::Deadlines);
        });
        check_wheel(&self.busy.leases, &by_lease(rows), |i| {
            stands(i, Place::Leases);
        });
        check_wheel(&self.busy.keeps, &by_keep(rows), |i| {
            stands(i, Place::Keeps);
        });
        for (list, place) in [
            (&self.busy.drawn, Place::Drawn),
            (&self.busy.returned, Place::Returned),
            (&self.busy.dead, Place::Dead),
        ] {
            list.check(rows);
            let mut len = 0;
            for i in list.iter(rows) {
                stands(i, place);
                len += 1;
            }
            assert_eq!(len, list.len());
        }
        assert_eq!(met, places.len(), "each in exactly one place");
        self.check_stock();
    }
}

/// Tests a wheel and shows all that is in it.
fn check_wheel(wheel: &Wheel, records: &impl Filed, mut show: impl FnMut(u32)) {
    wheel.check(records);
    let (mut last, mut len) = (0, 0);
    wheel.for_each_in_order(records, &mut |i| {
        let time = records.filed(i);
        assert!(time >= last, "in order");
        last = time;
        len += 1;
        show(i);
        true
    });
    assert_eq!(len, wheel.len());
}

/// Ground state as a sorted list of elements.
pub(super) type Digest = Vec<(Vec<Vec<u8>>, Vec<u64>)>;

/// The ground state of a queue.
pub(super) fn digest(queue: &Queue) -> Digest {
    let mut elements = Vec::new();
    queue.digest(&mut |texts, numbers| {
        elements.push((
            texts.iter().map(|text| text.to_vec()).collect(),
            numbers.to_vec(),
        ));
    });
    elements.sort();
    elements
}

/// What a queue saves, each effect encoded, as a set: the order differs between
/// servers whose passes ran at other times.
pub(super) fn saved(queue: &Queue) -> BTreeSet<Vec<u8>> {
    let mut all = BTreeSet::new();
    queue.for_each_saved(&mut |effect| {
        let mut blob = Vec::new();
        codec::encode(effect, &mut blob).unwrap();
        assert!(all.insert(blob), "twice: {effect:?}");
        true
    });
    all
}

/// A queue loaded from what another one saves.
pub(super) fn loaded(queue: &Queue, now: &Now, defaults: &Defaults) -> Queue {
    let mut writer = codec::ChunkWriter::new();
    let mut copy = Queue::new();
    let mut chunks: Vec<Vec<u8>> = Vec::new();
    queue.for_each_saved(&mut |effect| {
        chunks.extend(writer.push(effect).map(<[u8]>::to_vec));
        true
    });
    chunks.extend(writer.finish().map(<[u8]>::to_vec));
    for chunk in &chunks {
        for effect in codec::decode_chunk(codec::VERSION, chunk).unwrap() {
            assert!(copy.replay(now, &effect, defaults), "{effect:?}");
        }
    }
    copy
}

/// Where chance comes from.
pub(super) enum Dice<'d> {
    /// A seeded generator.
    Seeded(u64),
    /// Bytes that a fuzzer has chosen; behind their end all numbers are 0.
    Chosen(&'d [u8]),
}

impl Dice<'_> {
    /// Whether all bytes were used.
    pub(super) fn is_over(&self) -> bool {
        matches!(self, Self::Chosen([]))
    }

    /// A number below `end`. Of chosen bytes it takes as few as can say one.
    pub(super) fn below(&mut self, end: u64) -> u64 {
        match self {
            Self::Seeded(seed) => mix(seed) % end,
            Self::Chosen(bytes) => {
                let wanted = (64 - (end - 1).leading_zeros()).div_ceil(8) as usize;
                let (taken, rest) = bytes.split_at(wanted.min(bytes.len()));
                *bytes = rest;
                let number = |number, byte: &u8| number << 8 | u64::from(*byte);
                taken.iter().fold(0, number) % end
            }
        }
    }

    /// True in `of_thousand` of a thousand cases.
    pub(super) fn chance(&mut self, of_thousand: u64) -> bool {
        self.below(1000) < of_thousand
    }

    /// One of a few.
    pub(super) fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.below(from.len() as u64) as usize]
    }
}

/// A number from the environment.
pub(super) fn from_environment(name: &str) -> Option<u64> {
    std::env::var(name)
        .ok()
        .map(|text| text.parse().expect("a plain number"))
}
