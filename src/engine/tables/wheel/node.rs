//! What a wheel is made of: slots, nodes of 64 slots, and paths down to a list.

use std::ops::{Deref, DerefMut};

use crate::engine::tables::NIL;
use crate::engine::tables::list::List;
use crate::engine::tables::slab::Vacant;

/// Bits of a digit: 64 slots a node.
pub(super) const DIGIT_BITS: u32 = 6;

/// Slots of a node.
pub(super) const SLOTS: usize = 1 << DIGIT_BITS;

/// Levels of the wheel.
pub(super) const LEVELS: u32 = 8;

/// The last time that is told apart.
pub(super) const TIME_MAX: u64 = (1 << (DIGIT_BITS * LEVELS)) - 1;

/// In place of a list's length: the slot is a node.
const IS_NODE: u32 = u32::MAX;

/// In place of a node's level: there is no node.
const VACANT_LEVEL: u8 = u8::MAX;

/// The digit of a time that level `level` tells apart, 0 to 63.
pub(super) const fn digit(time: u64, level: u32) -> u8 {
    ((time >> (DIGIT_BITS * level)) & (SLOTS as u64 - 1)) as u8
}

/// The digits whose bits are set, in order.
pub(super) fn digits(mut bits: u64) -> impl Iterator<Item = u8> {
    std::iter::from_fn(move || {
        if bits == 0 {
            return None;
        }
        let digit = bits.trailing_zeros() as u8;
        bits &= bits - 1;
        Some(digit)
    })
}

/// The level that tells two times apart, given the bits in which they differ.
/// Equal times are in one slot of level 0.
pub(super) const fn level_of(differ: u64) -> u32 {
    match differ.checked_ilog2() {
        Some(bit) => bit / DIGIT_BITS,
        None => 0,
    }
}

/// Where a node of `level` that holds `time` begins.
pub(super) const fn base_of(time: u64, level: u32) -> u64 {
    let bits = DIGIT_BITS * (level + 1);
    time >> bits << bits
}

/// A list of records, or a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Slot(List);

impl Deref for Slot {
    type Target = List;

    /// The list. Of a node the head is the node, the length [`IS_NODE`].
    #[inline]
    fn deref(&self) -> &List {
        &self.0
    }
}

impl DerefMut for Slot {
    #[inline]
    fn deref_mut(&mut self) -> &mut List {
        &mut self.0
    }
}

impl Slot {
    /// An empty list.
    pub(super) const EMPTY: Self = Self(List::EMPTY);

    /// A slot that is a node.
    pub(super) const fn of_node(node: u32) -> Self {
        Self(List {
            head: node,
            tail: NIL,
            len: IS_NODE,
        })
    }

    /// The node, if it is one.
    pub(super) const fn node(self) -> Option<u32> {
        if self.0.len == IS_NODE {
            Some(self.0.head)
        } else {
            None
        }
    }

    /// Whether it is an empty list.
    pub(super) const fn is_empty(self) -> bool {
        self.0.len == 0
    }
}

/// 64 slots of one level, 0.8 KB.
#[derive(Debug)]
pub(super) struct Node {
    /// Bit `d`: slot `d` is not empty.
    pub(super) bits: u64,
    /// Where it begins.
    pub(super) base: u64,
    /// Records below; of a free node, the next free one.
    pub(super) count: u32,
    /// Its level, or [`VACANT_LEVEL`].
    pub(super) level: u8,
    /// The slots.
    slots: [Slot; SLOTS],
}

impl Vacant for Node {
    fn vacant(next: u32) -> Self {
        Self {
            bits: 0,
            base: 0,
            count: next,
            level: VACANT_LEVEL,
            slots: [Slot::EMPTY; SLOTS],
        }
    }
    fn next_vacant(&self) -> Option<u32> {
        (self.level == VACANT_LEVEL).then_some(self.count)
    }
}

impl Node {
    /// An empty node of `level` where `time` lies in it.
    pub(super) const fn new(time: u64, level: u32) -> Self {
        Self {
            bits: 0,
            base: base_of(time, level),
            count: 0,
            level: level as u8,
            slots: [Slot::EMPTY; SLOTS],
        }
    }

    /// Its level as a number to reckon with.
    pub(super) fn level(&self) -> u32 {
        u32::from(self.level)
    }

    /// Whether a time lies in it.
    pub(super) fn covers(&self, time: u64) -> bool {
        base_of(time, self.level()) == self.base
    }

    /// A slot.
    #[expect(clippy::indexing_slicing, reason = "the index is masked to the length")]
    pub(super) const fn slot(&self, digit: u8) -> Slot {
        self.slots[digit as usize & (SLOTS - 1)]
    }

    /// Sets a slot and its bit.
    #[expect(clippy::indexing_slicing, reason = "the index is masked to the length")]
    pub(super) const fn set_slot(&mut self, digit: u8, slot: Slot) {
        let digit = digit as usize & (SLOTS - 1);
        self.slots[digit] = slot;
        if slot.is_empty() {
            self.bits &= !(1 << digit);
        } else {
            self.bits |= 1 << digit;
        }
    }

    /// Its non-empty slots from `start` on, in the order of time.
    pub(super) fn filled(&self, start: u8) -> impl Iterator<Item = Slot> + use<'_> {
        digits(self.bits >> start << start).map(|digit| self.slot(digit))
    }
}

/// Where a slot is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// The root slot.
    Root,
    /// A slot of a node.
    In {
        /// The node.
        node: u32,
        /// Its slot.
        digit: u8,
    },
}

/// The nodes from the root down to a list.
pub(super) struct Path {
    /// Each node and the place it hangs in.
    pub(super) steps: [(u32, Place); LEVELS as usize],
    /// How many there are.
    pub(super) len: usize,
    /// The place of the list.
    pub(super) end: Place,
    /// Whether the list is one of level 0, all of one millisecond.
    pub(super) at_bottom: bool,
}

impl Path {
    /// The way to the root slot.
    pub(super) const fn new() -> Self {
        Self {
            steps: [(NIL, Place::Root); LEVELS as usize],
            len: 0,
            end: Place::Root,
            at_bottom: false,
        }
    }

    /// Goes into a node, to one of its slots.
    pub(super) fn push(&mut self, node: u32, level: u32, digit: u8) {
        if let Some(step) = self.steps.get_mut(self.len) {
            *step = (node, self.end);
            self.len += 1;
        }
        self.end = Place::In { node, digit };
        self.at_bottom = level == 0;
    }
}
