//! Compaction: a queue that has shrunk gives memory back, in small steps.
//!
//! Pages are given back when nothing is left in them, and of a million orders of
//! which nine in ten were finished here and there something is left in nearly all.
//! So what is left moves together: records, their rare parts, their bytes, the
//! nodes of the wheels, the spilled lines of the index. Whoever refers to what
//! has moved is corrected in the same step:
//!
//! ```text
//!   record ◄── the two beside it, or the ends and the cursor of its list
//!          ◄── the index (found by the hash of its id)
//!   extra  ◄── its record (found by the id in its bytes)
//!   bytes  ◄── their record or its extra (likewise)
//!   node   ◄── the slot above it (found by its base)
//!   line   ◄── the one before it (found by the hash of one of its records)
//! ```
//!
//! Nothing of it shows. No order of any list changes, no time, no ground state,
//! and nothing is replicated: each server does it by itself. Records move from
//! high handles to low ones, and SCAN and PURGE go that way too, so an order that
//! is there all the time is met at least once, see [`super::tables::slab::tight`]. Handles
//! are never kept between two commands.
//!
//! It begins where a part takes what would do for seven quarters of what is in it,
//! and ends where the part takes what it needs: so a queue that breathes is left
//! alone, and on average at most some one order moves for each that has gone. A queue
//! that is being emptied is left alone too, see [`Calm`]: its pages come free by
//! themselves, and what was moved would be gone a moment later.
//!
//! Deliberately absent: the table of the arena's page heads (40 bytes for each 64
//! KiB there ever were), and home lines of the index (removals merge them).

use super::queue::Queue;
use super::record::{Place, Record};
use super::rows::split_block;
use super::store::Store;
use super::tables::slab::tight::{MOVES_MAX, WASTE_MIN, pack};
use super::views::{by_deadline, by_keep, by_lease};
use crate::words::time::Now;

/// How long a sparse queue is watched before anything in it moves, milliseconds.
const WATCH_MS: u64 = 1_000;
/// A queue that loses more than this part of its orders in [`WATCH_MS`] is being
/// emptied. At that pace ten million become ten thousand in four minutes, so it does
/// not put a compaction off for ever.
const EMPTYING: usize = 32;

/// Whether a sparse queue has kept its size for a while.
#[derive(Clone, Copy, Debug)]
pub(super) struct Calm {
    /// When (monotonic) its orders were counted, milliseconds.
    at_ms: u64,
    /// How many there were.
    orders: usize,
    /// Whether they had hardly become fewer since the count before.
    steady: bool,
}

impl Calm {
    /// Nothing is known.
    pub(super) const UNKNOWN: Self = Self {
        at_ms: 0,
        orders: 0,
        steady: false,
    };

    /// Counts again where it is time. In how many milliseconds something may move: 0
    /// is now.
    fn look(&mut self, now_ms: u64, orders: usize) -> u64 {
        let since_ms = now_ms.saturating_sub(self.at_ms);
        if since_ms >= WATCH_MS {
            let gone = self.orders.saturating_sub(orders);
            // What was counted long ago says nothing of now.
            let is_fresh = since_ms <= 2 * WATCH_MS;
            *self = Self {
                at_ms: now_ms,
                orders,
                steady: is_fresh && gone <= self.orders / EMPTYING,
            };
        }
        if self.steady {
            return 0;
        }
        WATCH_MS.saturating_sub(now_ms.saturating_sub(self.at_ms))
    }
}

/// A part of a queue that is compacted by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    /// The nodes of the wheel of deadlines.
    Deadlines,
    /// The nodes of the wheel of leases.
    Leases,
    /// The nodes of the wheel of keep ends.
    Keeps,
    /// The records.
    Records,
    /// The lines of the index.
    Lookup,
    /// The rare parts of records.
    Extras,
    /// Ids and payloads.
    Blocks,
}

impl Part {
    /// All parts, in the order in which they are compacted.
    const ALL: [Self; 7] = [
        Self::Deadlines,
        Self::Leases,
        Self::Keeps,
        Self::Records,
        Self::Lookup,
        Self::Extras,
        Self::Blocks,
    ];

    /// Its bit in [`Queue::compacting`].
    const fn bit(self) -> u8 {
        1 << self as u8
    }
}

impl Queue {
    /// Whether [`Queue::compact`] has something to do: a part takes about twice as
    /// much memory as it needs, or its compaction has begun. O(1), that is 64 classes
    /// of blocks at most.
    pub fn is_sparse(&self) -> bool {
        self.compacting != 0 || Part::ALL.iter().any(|part| self.is_part_sparse(*part))
    }

    /// In how many milliseconds [`Queue::compact`] is worth while: 0 is now, `None` as
    /// long as nothing changes. O(1).
    pub fn compact_in(&mut self, now: &Now) -> Option<u64> {
        if !self.is_sparse() {
            return None;
        }
        let orders = self.store.len();
        Some(self.busy.calm.look(now.mono_us / 1000, orders))
    }

    /// Moves together what lies scattered, where that is worth it. `more` is asked
    /// after each step, which moves at most 64 values of one kind; false stops.
    /// Returns whether it has come to the end. Changes no ground state and no answer.
    pub fn compact(&mut self, more: &mut dyn FnMut() -> bool) -> bool {
        for part in Part::ALL {
            if self.is_part_sparse(part) {
                self.compacting |= part.bit();
            }
        }
        for part in Part::ALL {
            while self.compacting & part.bit() != 0 {
                if !self.pack(part) {
                    self.compacting &= !part.bit();
                } else if !more() {
                    return false;
                }
            }
        }
        true
    }

    /// As [`Queue::compact`], of all parts, whether it is worth it or not.
    #[cfg(test)]
    pub fn compact_all(&mut self, more: &mut dyn FnMut() -> bool) -> bool {
        self.compacting = Part::ALL.iter().fold(0, |bits, part| bits | part.bit());
        self.compact(more)
    }

    /// The parts that are worth a compaction.
    #[cfg(test)]
    pub fn sparse_parts(&self) -> String {
        let parts = Part::ALL.iter();
        let sparse: Vec<&Part> = parts.filter(|part| self.is_part_sparse(**part)).collect();
        format!("{sparse:?}")
    }

    /// Whether a part is worth a compaction.
    fn is_part_sparse(&self, part: Part) -> bool {
        let (rows, busy) = (&self.store.rows, self.busy.made());
        match part {
            Part::Deadlines => self.deadlines.is_sparse(),
            Part::Leases => busy.is_some_and(|busy| busy.leases.is_sparse()),
            Part::Keeps => busy.is_some_and(|busy| busy.keeps.is_sparse()),
            Part::Records => rows.slab.surplus() > WASTE_MIN,
            Part::Lookup => {
                let lookup = self.store.lookup.as_ref();
                lookup.is_some_and(|lookup| lookup.is_sparse())
            }
            Part::Extras => {
                let extras = rows.extras.made();
                extras.is_some_and(|extras| extras.slab.surplus() > WASTE_MIN)
            }
            Part::Blocks => rows.arena.is_sparse(),
        }
    }

    /// One step of the compaction of a part; false if nothing is left to be done.
    fn pack(&mut self, part: Part) -> bool {
        match part {
            Part::Deadlines => self.deadlines.pack(),
            Part::Leases => self.busy.is_made() && self.busy.leases.pack(),
            Part::Keeps => self.busy.is_made() && self.busy.keeps.pack(),
            Part::Records => self.pack_records(),
            Part::Lookup => {
                let Store { rows, lookup, .. } = &mut self.store;
                lookup.as_mut().is_some_and(|lookup| lookup.pack(rows))
            }
            Part::Extras => self.store.pack_extras(),
            Part::Blocks => self.store.pack_blocks(),
        }
    }

    /// A step that moves records; false if there is none to be made.
    fn pack_records(&mut self) -> bool {
        pack(
            self,
            |queue| &mut queue.store.rows.slab,
            |_, _| Some(()),
            |queue, (), from, to| queue.record_moved(from, to),
        )
    }

    /// Corrects what refers to a record that has moved.
    fn record_moved(&mut self, from: u32, to: u32) {
        self.end_undrawing();
        let Store { rows, lookup, .. } = &mut self.store;
        if let Some(lookup) = lookup {
            lookup.moved(rows, from, to);
        }
        match rows.get(to).map_or(Place::Vacant, Record::place) {
            Place::Deadlines => self.deadlines.moved(&mut by_deadline(rows), from, to),
            Place::Leases => self.busy.leases.moved(&mut by_lease(rows), from, to),
            Place::Keeps => self.busy.keeps.moved(&mut by_keep(rows), from, to),
            Place::Drawn => self.busy.drawn.moved(rows, from, to),
            Place::Returned => self.busy.returned.moved(rows, from, to),
            Place::Dead => self.busy.dead.moved(rows, from, to),
            Place::Nowhere | Place::Vacant => {}
        }
    }
}

impl Store {
    /// A step that moves rare parts; false if there is none to be made.
    fn pack_extras(&mut self) -> bool {
        if !self.rows.extras.is_made() {
            return false;
        }
        pack(
            self,
            |store| &mut store.rows.extras.slab,
            |store, at| {
                let i = store.owner_of(store.rows.extras.slab.get(at)?.bytes)?;
                let record = store.rows.get(i)?;
                (record.has_extra() && record.body == at).then_some(i)
            },
            |store, i, _, to| {
                if let Some(record) = store.rows.get_mut(i) {
                    record.body = to;
                }
            },
        )
    }

    /// A step that moves ids and payloads; false if there is none to be made.
    fn pack_blocks(&mut self) -> bool {
        let before = self.rows.arena.bytes();
        let mut moved = false;
        for from in self.rows.arena.movable(MOVES_MAX) {
            let owner = self.owner_of(from);
            debug_assert!(owner.is_some(), "nobody refers to block {from}");
            let Some(i) = owner else { break };
            let Some(to) = self.rows.arena.shift(from) else {
                break;
            };
            self.set_bytes(i, to);
            moved = true;
        }
        moved || self.rows.arena.bytes() < before
    }

    /// The record whose bytes lie in this block: by the id in it, which lies
    /// elsewhere where there is a second part. O(1).
    fn owner_of(&self, bytes: u32) -> Option<u32> {
        let rows = &self.rows;
        let block = rows.arena.get(bytes);
        [false, true].into_iter().find_map(|has_second| {
            let (id, _) = split_block(block, has_second);
            let i = self.seek(id)?;
            (rows.bytes_of(rows.get(i)?) == bytes).then_some(i)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::Calm;

    /// What is said to these counts, each `(millisecond, orders)`.
    fn said(counts: &[(u64, usize)]) -> Vec<u64> {
        let mut calm = Calm::UNKNOWN;
        let look = |(at, orders): &(u64, usize)| calm.look(*at, *orders);
        counts.iter().map(look).collect()
    }

    #[test]
    fn a_queue_that_keeps_its_size_is_moved_together_after_a_second() {
        let counts = [(5_000, 640), (5_400, 640), (6_000, 640), (6_001, 600)];
        assert_eq!(said(&counts), [1_000, 600, 0, 0]);
        // One part in 32 may go in a second; it may grow.
        assert_eq!(said(&[(5_000, 640), (6_000, 620)]), [1_000, 0]);
        assert_eq!(said(&[(5_000, 640), (6_000, 9_000)]), [1_000, 0]);
        assert_eq!(said(&[(5_000, 0), (6_000, 0)]), [1_000, 0]);
    }

    #[test]
    fn a_queue_that_is_being_emptied_is_left_alone_until_it_is_not() {
        let counts = [
            (5_000, 640),
            (6_000, 619),
            (6_300, 500),
            (7_000, 300),
            (8_000, 300),
            (9_000, 200),
            (9_500, 200),
            (10_000, 200),
        ];
        assert_eq!(said(&counts), [1_000, 1_000, 700, 1_000, 0, 1_000, 500, 0]);
    }

    #[test]
    fn what_was_counted_long_ago_says_nothing() {
        let counts = [(5_000, 640), (7_001, 640), (8_001, 640), (30_000, 640)];
        assert_eq!(said(&counts), [1_000, 1_000, 0, 1_000]);
    }
}
