//! A hierarchical timing wheel that splits by need, not by time.
//!
//! The classic wheel (Varghese & Lauck 1987, "Hashed and hierarchical timing
//! wheels") has a level of 64 slots of 1 ms, one of 64 slots of 64 ms and so on.
//! As time goes by, the slot of a higher level that begins is emptied into the
//! level below. With ten million orders in the next quarter of an hour that slot
//! holds three million of them, and emptying it takes between 30 and 640 ms,
//! in which nothing else happens. So here nothing is ever due because time
//! passed a boundary:
//!
//! ```text
//!   root slot (all of time)
//!     │  a slot is a list, in the order of arrival, up to 256 records …
//!     │  … and becomes a node at the insert that would make it 257
//!     ▼
//!   node, level 3 (262 s a slot)   bits 0110 1000…   count 9000
//!     │ slot 1: list of 17 records   [·]⇄[·]⇄[·]┄
//!     │ slot 2: list of 240 records  [·]⇄[·]⇄[·]┄
//!     └ slot 4: node ─► node, level 1 (64 ms a slot)   bits 1000 0001…
//!                         │ slot 0: list of 100 records
//!                         └ slot 7: node ─► level 0 (1 ms a slot): lists of any length
//! ```
//!
//! - A node of level `L` covers `64^(L+1)` ms from its `base`, a multiple of
//!   that; its slot `d` covers the `64^L` ms whose digit `L` in base 64 is `d`.
//! - **Levels that tell nothing apart are left out.** A node is made at the
//!   highest digit in which its records differ: deadlines within one hour have
//!   four levels at most, not eight. A record that does not belong under a node
//!   puts a new node above it.
//! - A node whose count falls below 64 becomes a list again: its lists are hung
//!   together, without a look at the records. So memory follows the records
//!   also where most of them are removed before their time.
//! - Records of equal time keep the order of their arrival: they share a list,
//!   lists grow at the end, a split and a merge keep their order.
//! - There is no cursor and no idea of "now": any time can be inserted at any
//!   moment. Times from 2^48 ms on (the year 10889) count as 2^48 − 1.
//!
//! Insert and remove walk at most 8 levels. A queue of up to 256 records is one
//! list and allocates nothing; beyond, nodes of 0.8 KB stand over at least 64
//! records each, usually over a few hundred.
//!
//! Invariants ([`Wheel::check`] tests them): a list above level 0 has at most 256
//! records; every record is in the slot that its time says; a node's count is the
//! number of records below it and at least 64, its bitmap has the bits of its
//! non-empty slots; a node lies within the slot it hangs in.
//!
//! The time a record is filed under must not change while it is in the wheel.
//!
//! Deliberately absent: links from a node to the one above it (every walk comes
//! from the root and knows its way), cascades, ticks, and canceling by handle
//! alone (the record knows its time).

use super::NIL;
use std::ops::{Deref, DerefMut};

use super::list::{Linked, Links, List, relink};
use super::memory::allocated;
use super::slab::tight::{WASTE_MIN, pack};
use super::slab::{Slab, Vacant};

/// Linked records that know the time they are filed under.
pub trait Filed: Links {
    /// The time of record `i`, in milliseconds. It must stay the same while the
    /// record is in a wheel.
    fn filed(&self, i: u32) -> u64;
}

/// Bits of a digit: 64 slots a node.
const DIGIT_BITS: u32 = 6;
/// Slots of a node.
const SLOTS: usize = 1 << DIGIT_BITS;
/// Levels of the wheel.
const LEVELS: u32 = 8;
/// The last time that is told apart.
const TIME_MAX: u64 = (1 << (DIGIT_BITS * LEVELS)) - 1;
/// The most records of a list above level 0.
const LIST_MAX: u32 = 256;
/// [`LIST_MAX`], as the size of an array.
const LIST_MAX_USIZE: usize = LIST_MAX as usize;
/// A node with fewer records becomes a list. Well below [`LIST_MAX`], so that a
/// slot that swings does not split and merge at each swing.
const MERGE_BELOW: u32 = 64;
/// In place of a list's length: the slot is a node.
const IS_NODE: u32 = u32::MAX;
/// In place of a node's level: there is no node.
const VACANT_LEVEL: u8 = u8::MAX;
/// Nodes of a page of the store, as a power of two: 25 KB.
const NODE_PAGE_BITS: u32 = 5;

/// The digit of a time that level `level` tells apart, 0 to 63.
const fn digit(time: u64, level: u32) -> u8 {
    ((time >> (DIGIT_BITS * level)) & (SLOTS as u64 - 1)) as u8
}

/// The digits whose bits are set, in order.
fn digits(mut bits: u64) -> impl Iterator<Item = u8> {
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
const fn level_of(differ: u64) -> u32 {
    match differ.checked_ilog2() {
        Some(bit) => bit / DIGIT_BITS,
        None => 0,
    }
}

/// Where a node of `level` that holds `time` begins.
const fn base_of(time: u64, level: u32) -> u64 {
    let bits = DIGIT_BITS * (level + 1);
    time >> bits << bits
}

/// The time a record is filed under, as the wheel tells it apart.
fn time_of(records: &impl Filed, i: u32) -> u64 {
    records.filed(i).min(TIME_MAX)
}

/// A list of records, or a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Slot(List);

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
    const EMPTY: Self = Self(List::EMPTY);

    /// A slot that is a node.
    const fn of_node(node: u32) -> Self {
        Self(List {
            head: node,
            tail: NIL,
            len: IS_NODE,
        })
    }

    /// The node, if it is one.
    const fn node(self) -> Option<u32> {
        if self.0.len == IS_NODE {
            Some(self.0.head)
        } else {
            None
        }
    }

    /// Whether it is an empty list.
    const fn is_empty(self) -> bool {
        self.0.len == 0
    }
}

/// 64 slots of one level, 0.8 KB.
#[derive(Debug)]
struct Node {
    /// Bit `d`: slot `d` is not empty.
    bits: u64,
    /// Where it begins.
    base: u64,
    /// Records below; of a free node, the next free one.
    count: u32,
    /// Its level, or [`VACANT_LEVEL`].
    level: u8,
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
    const fn new(time: u64, level: u32) -> Self {
        Self {
            bits: 0,
            base: base_of(time, level),
            count: 0,
            level: level as u8,
            slots: [Slot::EMPTY; SLOTS],
        }
    }

    /// Its level as a number to reckon with.
    fn level(&self) -> u32 {
        u32::from(self.level)
    }

    /// Whether a time lies in it.
    fn covers(&self, time: u64) -> bool {
        base_of(time, self.level()) == self.base
    }

    /// A slot.
    #[expect(clippy::indexing_slicing, reason = "the index is masked to the length")]
    const fn slot(&self, digit: u8) -> Slot {
        self.slots[digit as usize & (SLOTS - 1)]
    }

    /// Sets a slot and its bit.
    #[expect(clippy::indexing_slicing, reason = "the index is masked to the length")]
    const fn set_slot(&mut self, digit: u8, slot: Slot) {
        let digit = digit as usize & (SLOTS - 1);
        self.slots[digit] = slot;
        if slot.is_empty() {
            self.bits &= !(1 << digit);
        } else {
            self.bits |= 1 << digit;
        }
    }

    /// Its non-empty slots from `start` on, in the order of time.
    fn filled(&self, start: u8) -> impl Iterator<Item = Slot> + use<'_> {
        digits(self.bits >> start << start).map(|digit| self.slot(digit))
    }
}

/// Where a slot is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
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
struct Way {
    /// Each node and the place it hangs in.
    steps: [(u32, Place); LEVELS as usize],
    /// How many there are.
    len: usize,
    /// The place of the list.
    end: Place,
    /// Whether the list is one of level 0, all of one millisecond.
    at_bottom: bool,
}

impl Way {
    /// The way to the root slot.
    const fn new() -> Self {
        Self {
            steps: [(NIL, Place::Root); LEVELS as usize],
            len: 0,
            end: Place::Root,
            at_bottom: false,
        }
    }

    /// Goes into a node, to one of its slots.
    fn push(&mut self, node: u32, level: u32, digit: u8) {
        if let Some(step) = self.steps.get_mut(self.len) {
            *step = (node, self.end);
            self.len += 1;
        }
        self.end = Place::In { node, digit };
        self.at_bottom = level == 0;
    }
}

/// The wheel; see the head of the file.
#[derive(Debug)]
pub struct Wheel {
    /// The slot of all time.
    root: Slot,
    /// Records in the wheel.
    len: u32,
    /// The nodes; most wheels never have one.
    nodes: Option<Box<Nodes>>,
}

/// The nodes of a wheel.
type Nodes = Slab<Node, NODE_PAGE_BITS>;

impl Default for Wheel {
    fn default() -> Self {
        Self::new()
    }
}

impl Wheel {
    /// An empty wheel, without allocation.
    pub const fn new() -> Self {
        Self {
            root: Slot::EMPTY,
            len: 0,
            nodes: None,
        }
    }

    /// Records in the wheel.
    pub const fn len(&self) -> usize {
        self.len as usize
    }

    /// Whether the wheel is empty.
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Bytes on the heap. O(1).
    pub fn bytes(&self) -> usize {
        self.nodes
            .as_ref()
            .map_or(0, |nodes| allocated(size_of::<Nodes>()) + nodes.bytes())
    }

    /// A node.
    #[inline]
    fn node(&self, number: u32) -> Option<&Node> {
        self.nodes.as_ref()?.get(number)
    }

    /// A node, to be changed.
    #[inline]
    fn node_mut(&mut self, number: u32) -> Option<&mut Node> {
        self.nodes.as_mut()?.get_mut(number)
    }

    /// How many nodes there are.
    #[cfg(any(test, debug_assertions))]
    fn node_count(&self) -> usize {
        self.nodes.as_ref().map_or(0, |nodes| nodes.len())
    }

    /// Stores a node.
    fn add_node(&mut self, node: Node) -> Option<u32> {
        self.nodes.get_or_insert_default().insert(node)
    }

    // ---- changes ------------------------------------------------------------

    /// Files record `i`, which is in no list. O(8), or O(256) when a list is split.
    pub fn insert(&mut self, records: &mut (impl Filed + Linked), i: u32) {
        let time = time_of(records, i);
        let mut place = Place::Root;
        let mut at_bottom = false;
        loop {
            let mut slot = self.slot(place);
            let node = match slot.node() {
                Some(node) => self.reach(place, node, time),
                None if slot.len < LIST_MAX || at_bottom => {
                    slot.push_back(records, i);
                    self.set_slot(place, slot);
                    self.len += 1;
                    return;
                }
                None => self.split(records, place, slot, time),
            };
            // There always is one: each node stands over 64 records and each
            // record below 8 nodes, so 2^32 records have 2^29 nodes at most and
            // the store is never full.
            let node = node.and_then(|number| Some((number, self.node_mut(number)?)));
            debug_assert!(node.is_some(), "the store of nodes is full");
            let Some((number, node)) = node else { return };
            node.count += 1;
            at_bottom = node.level == 0;
            place = Place::In {
                node: number,
                digit: digit(time, node.level()),
            };
        }
    }

    /// Takes record `i` out; false if it is not there, as far as its links tell.
    /// O(8), or O(64 + nodes below) when a node becomes a list.
    pub fn remove(&mut self, records: &mut (impl Filed + Linked), i: u32) -> bool {
        let Some(way) = self.way_to(time_of(records, i)) else {
            return false;
        };
        let mut slot = self.slot(way.end);
        if !slot.unlink(records, i) {
            return false;
        }
        self.set_slot(way.end, slot);
        self.taken(records, &way, 1);
        true
    }

    /// Takes out the earliest records whose time is at most `until`, in order of
    /// time, then arrival, and appends them to `out`: at most `max`, and only from the
    /// earliest list or the first few. Nothing is appended exactly when `max` is 0 or
    /// nothing is due, so the caller goes on until then. Their links may have any
    /// value afterwards. O(max + 256).
    pub fn take_due(
        &mut self,
        records: &mut (impl Filed + Linked),
        until: u64,
        max: usize,
        out: &mut Vec<u32>,
    ) {
        let way = self.way_to_first();
        let mut slot = self.slot(way.end);
        if slot.is_empty() || max == 0 {
            return;
        }
        let before = out.len();
        let len = slot.len as usize;
        if way.at_bottom && (len > max || len > ROOM) {
            if time_of(records, slot.head) > until {
                return;
            }
            while out.len() - before < max && !slot.is_empty() {
                let i = slot.head;
                if !slot.unlink(records, i) {
                    break;
                }
                out.push(i);
            }
            self.set_slot(way.end, slot);
        } else {
            let mut reader = Reader::new();
            let mut places = [way.end; LISTS_MAX];
            self.add_lists(&mut reader, &mut places, until, max);
            reader.read(records);
            let lists = reader.lists;
            for ((due, mut slot), place) in
                reader.sorted(|time| time <= until).zip(lists).zip(places)
            {
                let left = max.saturating_sub(out.len() - before);
                let part = due.get(..left).unwrap_or(due).iter().map(|(_, i)| *i);
                if part.len() == slot.len as usize {
                    out.extend(part);
                    self.set_slot(place, Slot::EMPTY);
                    continue;
                }
                out.extend(part.filter(|i| slot.unlink(records, *i)));
                self.set_slot(place, slot);
                // What comes after is later.
                break;
            }
        }
        let taken = out.len() - before;
        if taken > 0 {
            self.taken(records, &way, taken as u32);
        }
    }

    /// Has a reader read the list at the first of `places` and those that follow it
    /// in the same node, as many as it takes for `max` records, as far as they begin
    /// by `until`; notes their places.
    fn add_lists(
        &self,
        reader: &mut Reader,
        places: &mut [Place; LISTS_MAX],
        until: u64,
        max: usize,
    ) {
        let [first, ..] = *places;
        reader.add(self.slot(first));
        let Place::In {
            node: number,
            digit,
        } = first
        else {
            return;
        };
        let Some(node) = self.node(number) else {
            return;
        };
        let later = node.bits & (u64::MAX << digit << 1);
        for (digit, place) in digits(later).zip(places.iter_mut().skip(1)) {
            let slot = node.slot(digit);
            let start = node.base + (u64::from(digit) << (DIGIT_BITS * node.level()));
            if reader.records >= max || start > until || slot.node().is_some() || !reader.add(slot)
            {
                return;
            }
            *place = Place::In {
                node: number,
                digit,
            };
        }
    }

    /// A record of the wheel has another handle now, and its links with it. O(8).
    pub fn moved(&mut self, records: &mut (impl Filed + Linked), from: u32, to: u32) {
        relink(records, to);
        if records.prev(to) != NIL && records.next(to) != NIL {
            return;
        }
        let Some(way) = self.way_to(time_of(records, to)) else {
            return;
        };
        let mut slot = self.slot(way.end);
        slot.moved(from, to);
        self.set_slot(way.end, slot);
    }

    /// Whether it is worth to compact its nodes. O(1).
    pub fn is_sparse(&self) -> bool {
        let nodes = self.nodes.as_ref();
        nodes.is_some_and(|nodes| nodes.surplus() > WASTE_MIN)
    }

    /// One step towards nodes that take no more memory than they need, see [`pack`].
    /// False if there is none to be made.
    pub fn pack(&mut self) -> bool {
        if self.nodes.is_none() {
            return false;
        }
        pack(
            self,
            |wheel| wheel.nodes.get_or_insert_default(),
            Self::place_of,
            |wheel, place, _, to| wheel.set_slot(place, Slot::of_node(to)),
        )
    }

    /// The place a node hangs in. O(8).
    fn place_of(&self, number: u32) -> Option<Place> {
        let base = self.node(number)?.base;
        let mut place = Place::Root;
        loop {
            let above = self.slot(place).node()?;
            if above == number {
                return Some(place);
            }
            place = Place::In {
                node: above,
                digit: digit(base, self.node(above)?.level()),
            };
        }
    }

    // ---- questions ----------------------------------------------------------

    /// How many records have a time of at most `until`. O(8 * 64 + 256).
    pub fn count_until(&self, records: &impl Filed, until: u64) -> usize {
        let until = until.min(TIME_MAX);
        let mut count = 0;
        let mut slot = self.root;
        while let Some(node) = slot.node() {
            let Some(node) = self.node(node) else {
                return count;
            };
            if !node.covers(until) {
                return count
                    + if node.base <= until {
                        node.count as usize
                    } else {
                        0
                    };
            }
            let last = digit(until, node.level());
            count += digits(node.bits & ((1 << last) - 1))
                .map(|digit| self.count_in(node.slot(digit)))
                .sum::<usize>();
            slot = node.slot(last);
            if node.level == 0 {
                return count + slot.len as usize;
            }
        }
        count
            + slot
                .iter(records)
                .filter(|i| time_of(records, *i) <= until)
                .count()
    }

    /// The earliest time, `None` if the wheel is empty. O(8 + 256).
    pub fn first_time(&self, records: &impl Filed) -> Option<u64> {
        let way = self.way_to_first();
        let slot = self.slot(way.end);
        if way.at_bottom {
            return (!slot.is_empty()).then(|| time_of(records, slot.head));
        }
        slot.iter(records).map(|i| time_of(records, i)).min()
    }

    /// Appends to `out` the `n` earliest records with a time above `after`, in
    /// order of time, then arrival, and leaves them in the wheel. O(n + 256) and
    /// two cache misses a level.
    pub fn first_n(&self, records: &impl Filed, after: u64, n: usize, out: &mut Vec<u32>) {
        if after >= TIME_MAX {
            return;
        }
        let from = after + 1;
        let end = out.len().saturating_add(n);
        if out.len() < end {
            let mut walk = Walk {
                records,
                from,
                ahead: n,
                reader: Reader::new(),
                each: &mut |i| {
                    out.push(i);
                    out.len() < end
                },
            };
            self.walk(self.root, &mut walk);
        }
    }

    /// As [`Wheel::first_n`], of those with a time of at most `until`.
    pub fn first_due(&self, records: &impl Filed, until: u64, n: usize, out: &mut Vec<u32>) {
        let end = out.len().saturating_add(n);
        if out.len() < end {
            let mut walk = Walk {
                records,
                from: 0,
                ahead: n,
                reader: Reader::new(),
                each: &mut |i| {
                    let is_due = time_of(records, i) <= until;
                    if is_due {
                        out.push(i);
                    }
                    is_due && out.len() < end
                },
            };
            self.walk(self.root, &mut walk);
        }
    }

    /// Calls `f` with every record in order of time, then arrival, until it says
    /// no. O(records).
    pub fn for_each_in_order(&self, records: &impl Filed, f: &mut dyn FnMut(u32) -> bool) {
        let mut walk = Walk {
            records,
            from: 0,
            ahead: usize::MAX,
            reader: Reader::new(),
            each: f,
        };
        self.walk(self.root, &mut walk);
    }

    // ---- slots and nodes ----------------------------------------------------

    /// The slot at a place.
    fn slot(&self, place: Place) -> Slot {
        match place {
            Place::Root => self.root,
            Place::In { node, digit } => {
                self.node(node).map_or(Slot::EMPTY, |node| node.slot(digit))
            }
        }
    }

    /// Sets the slot at a place.
    fn set_slot(&mut self, place: Place, slot: Slot) {
        match place {
            Place::Root => self.root = slot,
            Place::In { node, digit } => {
                if let Some(node) = self.node_mut(node) {
                    node.set_slot(digit, slot);
                }
            }
        }
    }

    /// Records in a slot.
    fn count_in(&self, slot: Slot) -> usize {
        let count = slot.node().map_or(slot.len, |node| {
            self.node(node).map_or(0, |node| node.count)
        });
        count as usize
    }

    /// The node in the slot at `place` that `time` lies in: the one there is, or
    /// a new one above it and the time.
    fn reach(&mut self, place: Place, number: u32, time: u64) -> Option<u32> {
        let node = self.node(number)?;
        if node.covers(time) {
            return Some(number);
        }
        let (base, count) = (node.base, node.count);
        // They differ in a digit above the node's own, so this is a higher level
        // than the node's, and lower than that of the node around both.
        let level = level_of(base ^ time);
        let mut above = Node::new(time, level);
        above.set_slot(digit(base, level), Slot::of_node(number));
        above.count = count;
        let above = self.add_node(above)?;
        self.set_slot(place, Slot::of_node(above));
        Some(above)
    }

    /// Turns the list at `place` into a node of the level that tells its records
    /// and `time` apart, front to back, and returns the node.
    fn split(
        &mut self,
        records: &mut (impl Filed + Linked),
        place: Place,
        slot: Slot,
        time: u64,
    ) -> Option<u32> {
        let differ = slot
            .iter(records)
            .fold(0, |differ, i| differ | (time_of(records, i) ^ time));
        let level = level_of(differ);
        // Made in its place: it is moved once less.
        let number = self.add_node(Node::new(time, level))?;
        let node = self.node_mut(number)?;
        node.count = slot.len;
        let mut i = slot.head;
        while i != NIL {
            let next = records.next(i);
            let digit = digit(time_of(records, i), level);
            let mut part = node.slot(digit);
            part.push_back(records, i);
            node.set_slot(digit, part);
            i = next;
        }
        self.set_slot(place, Slot::of_node(number));
        Some(number)
    }

    /// Counts `taken` records less along a way; the topmost node that has become
    /// too small turns into a list.
    fn taken(&mut self, records: &mut (impl Filed + Linked), way: &Way, taken: u32) {
        self.len -= taken;
        let mut small = None;
        for (number, place) in way.steps.iter().take(way.len) {
            let Some(node) = self.node_mut(*number) else {
                return;
            };
            node.count -= taken;
            if node.count < MERGE_BELOW && small.is_none() {
                small = Some((*number, *place));
            }
        }
        if let Some((number, place)) = small {
            let list = self.merge(records, number);
            self.set_slot(place, list);
            if self.nodes.as_ref().is_some_and(|nodes| nodes.is_empty()) {
                // Its spare page as well: the next node is 193 inserts away.
                self.nodes = None;
            }
        }
    }

    /// Gives a node and those below it back and returns all of their records as
    /// one list. O(non-empty slots), of which there are fewer than 8 * 64.
    fn merge(&mut self, records: &mut (impl Filed + Linked), number: u32) -> Slot {
        let mut merged = Slot::EMPTY;
        let Some(node) = self.nodes.as_mut().and_then(|nodes| nodes.remove(number)) else {
            return merged;
        };
        for slot in node.filled(0) {
            let part = match slot.node() {
                Some(below) => self.merge(records, below),
                None => slot,
            };
            merged.append(records, *part);
        }
        merged
    }

    /// The way to the list that holds `time`, `None` if it would be outside of
    /// the nodes there are.
    fn way_to(&self, time: u64) -> Option<Way> {
        let mut way = Way::new();
        let mut slot = self.root;
        while let Some(number) = slot.node() {
            let node = self.node(number)?;
            if !node.covers(time) {
                return None;
            }
            let digit = digit(time, node.level());
            way.push(number, node.level(), digit);
            slot = node.slot(digit);
        }
        Some(way)
    }

    /// The way to the earliest list.
    fn way_to_first(&self) -> Way {
        let mut way = Way::new();
        let mut slot = self.root;
        while let Some(number) = slot.node() {
            let Some(node) = self.node(number) else {
                break;
            };
            let digit = node.bits.trailing_zeros() as u8;
            way.push(number, node.level(), digit);
            slot = node.slot(digit);
        }
        way
    }

    /// Goes through the records of a slot in order. False once it was told to stop.
    fn walk<R: Filed>(&self, slot: Slot, walk: &mut Walk<'_, R>) -> bool {
        let Some(node) = slot.node() else {
            return slot.is_empty() || (walk.reader.add(slot) && walk.read());
        };
        let Some(node) = self.node(node) else {
            return true;
        };
        let start = if walk.from <= node.base {
            0
        } else if node.covers(walk.from) {
            digit(walk.from, node.level())
        } else {
            return true;
        };
        let mut slots = node.filled(start).peekable();
        while let Some(slot) = slots.next() {
            let go_on = if slot.node().is_some() {
                self.walk(slot, walk)
            } else if node.level == 0 {
                walk.list(slot)
            } else {
                walk.reader.add(slot);
                while slots
                    .next_if(|next| {
                        walk.reader.records < walk.ahead
                            && next.node().is_none()
                            && walk.reader.add(*next)
                    })
                    .is_some()
                {}
                walk.read()
            };
            if !go_on {
                return false;
            }
        }
        true
    }

    /// Tests the invariants at the head of the file, in tests and debug builds only.
    /// O(records).
    ///
    /// # Panics
    ///
    /// If one is broken.
    #[cfg(any(test, debug_assertions))]
    pub fn check(&self, records: &impl Filed) {
        let mut nodes = 0;
        let met = self.check_slot(records, self.root, LEVELS, 0, &mut nodes);
        assert_eq!(met, self.len, "records");
        assert_eq!(nodes, self.node_count(), "nodes");
        if let Some(nodes) = &self.nodes {
            nodes.check();
        }
    }

    /// Tests a slot that covers `64^height` ms from `base` and what is below it,
    /// and returns its records.
    #[cfg(any(test, debug_assertions))]
    fn check_slot(
        &self,
        records: &impl Filed,
        slot: Slot,
        height: u32,
        base: u64,
        nodes: &mut usize,
    ) -> u32 {
        let lies_in = |time: u64| time >> (DIGIT_BITS * height) == base >> (DIGIT_BITS * height);
        let Some(number) = slot.node() else {
            assert!(
                slot.len <= LIST_MAX || height == 0,
                "a list of {} at height {height}",
                slot.len
            );
            slot.check(records);
            for i in slot.iter(records) {
                assert!(
                    lies_in(time_of(records, i)),
                    "record {i} is not where its time says"
                );
            }
            return slot.len;
        };
        *nodes += 1;
        let node = self.node(number);
        assert!(node.is_some(), "node {number} is gone");
        let Some(node) = node else { return 0 };
        assert!(
            node.level() < height && lies_in(node.base),
            "node {number} is not within its slot"
        );
        assert_eq!(
            base_of(node.base, node.level()),
            node.base,
            "base of node {number}"
        );
        assert!(
            node.count >= MERGE_BELOW,
            "node {number} has but {} records",
            node.count
        );
        let mut met = 0;
        for digit in 0..SLOTS as u8 {
            let slot = node.slot(digit);
            assert_eq!(
                node.bits >> digit & 1 == 1,
                !slot.is_empty(),
                "bit {digit} of node {number}"
            );
            let base = node.base + (u64::from(digit) << (DIGIT_BITS * node.level()));
            met += self.check_slot(records, slot, node.level(), base, nodes);
        }
        assert_eq!(met, node.count, "count of node {number}");
        met
    }
}

/// A walk through records in order.
struct Walk<'w, R> {
    /// The records.
    records: &'w R,
    /// The time it starts from.
    from: u64,
    /// How many records are wanted: so many are read at once where they lie apart.
    ahead: usize,
    /// Reads lists, and is empty between them.
    reader: Reader,
    /// Is called with each record until it says no.
    each: &'w mut dyn FnMut(u32) -> bool,
}

impl<R: Filed> Walk<'_, R> {
    /// Goes through a list of level 0.
    fn list(&mut self, slot: Slot) -> bool {
        slot.is_empty()
            || time_of(self.records, slot.head) < self.from
            || slot.iter(self.records).all(&mut *self.each)
    }

    /// Goes through the lists the reader was given.
    fn read(&mut self) -> bool {
        self.reader.read(self.records);
        let from = self.from;
        let go_on = self
            .reader
            .sorted(|time| time >= from)
            .flatten()
            .all(|(_, i)| (self.each)(*i));
        self.reader.clear();
        go_on
    }
}

/// So many lists are read at once.
const LISTS_MAX: usize = 8;
/// So many records they may have together.
const ROOM: usize = 4 * LIST_MAX_USIZE;

/// Reads lists, several at once.
///
/// A record says where the next one is, so reading a list waits for memory once a
/// record. But lists can be read from both ends, and each of them beside the others:
/// the processor then waits for up to 16 records at a time.
struct Reader {
    /// The lists, in the order of time.
    lists: [Slot; LISTS_MAX],
    /// How many there are.
    count: usize,
    /// How many records they have together.
    records: usize,
    /// Time and record of each, list by list: as long as what was read last, for
    /// mostly that is a record or two of the [`ROOM`] there is.
    entries: Vec<(u64, u32)>,
}

/// One end of a list that is being read.
#[derive(Clone, Copy)]
struct End {
    /// The next record.
    at: u32,
    /// Its entry.
    entry: usize,
    /// How many are left to read from here.
    left: u32,
    /// Whether it is read from the back.
    back: bool,
}

impl Reader {
    /// Room, and no list.
    const fn new() -> Self {
        Self {
            lists: [Slot::EMPTY; LISTS_MAX],
            count: 0,
            records: 0,
            entries: Vec::new(),
        }
    }

    /// Adds a list, later than those before, as far as there is room. False if there
    /// is none.
    fn add(&mut self, list: Slot) -> bool {
        let records = self.records + list.len as usize;
        if records > ROOM {
            return false;
        }
        let Some(place) = self.lists.get_mut(self.count) else {
            return false;
        };
        *place = list;
        self.count += 1;
        self.records = records;
        true
    }

    /// Reads all lists, each in its own order.
    fn read(&mut self, records: &impl Filed) {
        const NONE: End = End {
            at: NIL,
            entry: 0,
            left: 0,
            back: false,
        };
        self.entries.clear();
        self.entries.resize(self.records, (0, NIL));
        let mut ends = [NONE; 2 * LISTS_MAX];
        let mut start = 0;
        let lists = self.lists.iter().take(self.count);
        for (list, pair) in lists.zip(ends.chunks_exact_mut(2)) {
            let back = list.len / 2;
            let end = start + list.len as usize;
            if let [from_front, from_back] = pair {
                *from_front = End {
                    at: list.head,
                    entry: start,
                    left: list.len - back,
                    back: false,
                };
                *from_back = End {
                    at: list.tail,
                    entry: end.saturating_sub(1),
                    left: back,
                    back: true,
                };
            }
            start = end;
        }
        let mut some = true;
        while some {
            some = false;
            for end in ends.iter_mut().take(2 * self.count) {
                if end.left == 0 {
                    continue;
                }
                some = true;
                let time = time_of(records, end.at);
                if let Some(entry) = self.entries.get_mut(end.entry) {
                    *entry = (time, end.at);
                }
                end.left -= 1;
                if end.back {
                    end.at = records.prev(end.at);
                    end.entry = end.entry.saturating_sub(1);
                } else {
                    end.at = records.next(end.at);
                    end.entry += 1;
                }
            }
        }
    }

    /// The records of each list that was read whose time is wanted, in order of time,
    /// then of the list.
    fn sorted(&mut self, wanted: impl Fn(u64) -> bool) -> impl Iterator<Item = &[(u64, u32)]> {
        let mut rest = self.entries.get_mut(..self.records).unwrap_or_default();
        let lists = self.lists.iter().take(self.count);
        lists.map(move |list| {
            let all = std::mem::take(&mut rest);
            let (these, others) = all.split_at_mut(all.len().min(list.len as usize));
            rest = others;
            let mut len = 0;
            for at in 0..these.len() {
                if these.get(at).is_some_and(|(time, _)| wanted(*time)) {
                    these.swap(len, at);
                    len += 1;
                }
            }
            let these = these.get_mut(..len).unwrap_or_default();
            these.sort_by_key(|(time, _)| *time);
            &*these
        })
    }

    /// Forgets the lists.
    const fn clear(&mut self) {
        self.count = 0;
        self.records = 0;
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::testing::Run;

    /// Links and time of each record.
    #[derive(Default)]
    struct Records(Vec<(u32, u32, u64)>);

    impl Links for Records {
        fn prev(&self, i: u32) -> u32 {
            self.0[i as usize].0
        }
        fn next(&self, i: u32) -> u32 {
            self.0[i as usize].1
        }
    }
    impl Linked for Records {
        fn set_prev(&mut self, i: u32, prev: u32) {
            self.0[i as usize].0 = prev;
        }
        fn set_next(&mut self, i: u32, next: u32) {
            self.0[i as usize].1 = next;
        }
    }

    impl Filed for Records {
        fn filed(&self, i: u32) -> u64 {
            self.0[i as usize].2
        }
    }

    impl Records {
        /// Adds a record of this time and files it.
        fn add(&mut self, wheel: &mut Wheel, time: u64) -> u32 {
            self.0.push((NIL, NIL, time));
            let i = self.0.len() as u32 - 1;
            wheel.insert(self, i);
            i
        }

        /// Everything in the wheel, in order.
        fn in_order(&self, wheel: &Wheel) -> Vec<u32> {
            let mut all = Vec::new();
            wheel.for_each_in_order(self, &mut |i| {
                all.push(i);
                true
            });
            all
        }

        /// What is due, taken out in steps of at most `max`.
        fn take_all(&mut self, wheel: &mut Wheel, until: u64, max: usize) -> Vec<u32> {
            let mut taken = Vec::new();
            loop {
                let before = taken.len();
                wheel.take_due(self, until, max, &mut taken);
                assert!(taken.len() - before <= max);
                if taken.len() == before {
                    return taken;
                }
                wheel.check(self);
            }
        }
    }

    /// A time today.
    const TODAY: u64 = 1_795_958_000_123;

    #[test]
    fn level_and_slot_of_each_time_around_each_power_of_two() {
        for bit in 0..48_u32 {
            let power = 1_u64 << bit;
            assert_eq!(level_of(power), bit / 6);
            for time in power.saturating_sub(70)..=(power + 70).min(TIME_MAX) {
                // The digits are the number in base 64.
                let mut rest = time;
                for level in 0..LEVELS {
                    assert_eq!(
                        u64::from(digit(time, level)),
                        rest % 64,
                        "{time} level {level}"
                    );
                    rest /= 64;
                    let width = 64_u64.pow(level + 1);
                    assert_eq!(base_of(time, level), time / width * width);
                }
                assert_eq!(rest, 0);
                // The level that tells it from its neighbours is the highest digit that differs.
                for other in [
                    time ^ 1,
                    time ^ power,
                    time.wrapping_sub(1) & TIME_MAX,
                    (time + 1) & TIME_MAX,
                ] {
                    let highest = (0..LEVELS)
                        .rev()
                        .find(|level| digit(time, *level) != digit(other, *level));
                    assert_eq!(
                        level_of(time ^ other),
                        highest.unwrap_or(0),
                        "{time} {other}"
                    );
                }
            }
        }
        assert_eq!(
            (level_of(0), level_of(TIME_MAX), base_of(TIME_MAX, 7)),
            (0, 7, 0)
        );
    }

    #[test]
    fn two_hundred_and_fifty_six_records_are_one_list() {
        let mut wheel = Wheel::new();
        let mut records = Records::default();
        for number in 0..256 {
            records.add(&mut wheel, TODAY + number * 1_000_003 % 3_600_000);
        }
        assert_eq!(
            (wheel.bytes(), wheel.len(), wheel.node_count()),
            (0, 256, 0)
        );
        records.add(&mut wheel, TODAY);
        assert_eq!(wheel.node_count(), 1);
        wheel.check(&records);
        assert_eq!(size_of::<Node>(), 792);
        // Fewer than 64 are one list again.
        for i in 0..194 {
            assert_eq!(wheel.node_count(), 1);
            assert!(wheel.remove(&mut records, i));
            wheel.check(&records);
        }
        assert_eq!((wheel.bytes(), wheel.len()), (0, 63));
    }

    #[test]
    fn deadlines_within_an_hour_are_few_levels_deep() {
        let mut wheel = Wheel::new();
        let mut records = Records::default();
        for number in 0..100_000_u64 {
            records.add(&mut wheel, TODAY + number * 7_919_117 % 3_600_000);
        }
        wheel.check(&records);
        let depth_max = (0..100_000)
            .map(|i| wheel.way_to(records.filed(i)).unwrap().len)
            .max();
        assert!(depth_max <= Some(4), "{depth_max:?}");
        assert!(wheel.bytes() < 100_000 * 12, "{} bytes", wheel.bytes());
    }

    #[test]
    fn a_split_goes_to_the_level_that_tells_the_records_apart() {
        // Row: 256 times from a pattern, one more, the level of the first node, nodes.
        let same: fn(u64) -> u64 = |_| TODAY;
        let minute: fn(u64) -> u64 = |number| 64 * 1024 + number * 200;
        for (time, more, level, nodes) in [
            (same, TODAY, 0, 1),
            (same, TODAY ^ 1, 0, 1),
            (same, TODAY ^ 64, 1, 1),
            (same, 0, 6, 1),
            (same, TIME_MAX, 7, 1),
            (minute, 64 * 1024, 2, 1),
            (minute, TIME_MAX, 7, 1),
        ] {
            let mut wheel = Wheel::new();
            let mut records = Records::default();
            for number in 0..256 {
                records.add(&mut wheel, time(number));
            }
            records.add(&mut wheel, more);
            wheel.check(&records);
            let root = wheel.node(wheel.root.node().unwrap()).unwrap();
            assert_eq!((root.level(), wheel.node_count()), (level, nodes), "{more}");
        }
    }

    #[test]
    fn a_time_outside_of_a_node_gets_a_node_above() {
        let mut wheel = Wheel::new();
        let mut records = Records::default();
        for number in 0..300 {
            records.add(&mut wheel, TODAY + number % 40);
        }
        let inner = wheel.root.node().unwrap();
        // Further and further away, on both sides.
        for far in [
            TODAY + 100,
            TODAY + 100_000,
            TODAY - 100_000_000,
            5,
            TIME_MAX,
            u64::MAX,
        ] {
            records.add(&mut wheel, far);
            wheel.check(&records);
        }
        assert_ne!(wheel.root.node(), Some(inner));
        let order = records.in_order(&wheel);
        assert_eq!(
            (order[0], order[1], order[304], order[305]),
            (303, 302, 304, 305)
        );
        assert_eq!(wheel.first_time(&records), Some(5));
        assert_eq!(wheel.count_until(&records, u64::MAX), 306);
        assert_eq!(wheel.count_until(&records, TIME_MAX - 1), 304);
    }

    #[test]
    fn equal_times_keep_their_order_through_splits_and_merges() {
        let mut wheel = Wheel::new();
        let mut records = Records::default();
        // Three times, interleaved, far more than a list holds, then one far away.
        for number in 0..1500 {
            records.add(&mut wheel, TODAY + (number + 2) % 3 * 5000);
        }
        records.add(&mut wheel, 7);
        wheel.check(&records);
        for i in (0..1500).filter(|i| i % 50 > 1) {
            assert!(wheel.remove(&mut records, i));
        }
        wheel.check(&records);
        let mut expected: Vec<u32> = (0..1500).filter(|i| i % 50 <= 1).collect();
        expected.sort_by_key(|i| records.filed(*i));
        expected.insert(0, 1500);
        assert_eq!(records.in_order(&wheel), expected);
        assert_eq!(records.take_all(&mut wheel, u64::MAX, 7), expected);
        assert_eq!((wheel.len(), wheel.node_count()), (0, 0));
    }

    #[test]
    fn many_of_one_millisecond_are_taken_in_order_in_small_steps() {
        let mut wheel = Wheel::new();
        let mut records = Records::default();
        for _ in 0..100_000 {
            records.add(&mut wheel, TODAY);
        }
        assert_eq!(wheel.node_count(), 1);
        let mut out = Vec::new();
        wheel.take_due(&mut records, TODAY - 1, 1000, &mut out);
        wheel.take_due(&mut records, TODAY, 0, &mut out);
        assert!(out.is_empty());
        while !wheel.is_empty() {
            let before = out.len();
            wheel.take_due(&mut records, TODAY, 1000, &mut out);
            assert!((1..=1000).contains(&(out.len() - before)));
        }
        assert!(out.into_iter().eq(0..100_000));
    }

    #[test]
    fn nothing_is_taken_before_its_time() {
        for count in [1, 200, 300, 5000] {
            let mut wheel = Wheel::new();
            let mut records = Records::default();
            for number in 0..count {
                records.add(&mut wheel, TODAY + number * 31 % 500);
            }
            for until in TODAY - 2..TODAY + 502 {
                let first = wheel.first_time(&records);
                let taken = records.take_all(&mut wheel, until, 3);
                assert!(taken.iter().all(|i| records.filed(*i) == until));
                assert_eq!(first == Some(until), !taken.is_empty(), "{count} {until}");
            }
            assert!(wheel.is_empty());
        }
    }

    #[test]
    fn a_record_that_is_not_there_is_refused() {
        let mut wheel = Wheel::new();
        let mut records = Records::default();
        records.0.push((NIL, NIL, TODAY));
        assert!(!wheel.remove(&mut records, 0));
        for number in 0..300 {
            records.add(&mut wheel, TODAY + number);
        }
        assert!(!wheel.remove(&mut records, 0));
        records.0[0].2 = 3;
        assert!(!wheel.remove(&mut records, 0), "outside of every node");
        wheel.check(&records);
        wheel = Wheel::new();
        assert_eq!(
            (wheel.len(), wheel.bytes(), wheel.first_time(&records)),
            (0, 0, None)
        );
        let mut out = Vec::new();
        wheel.take_due(&mut records, u64::MAX, 10, &mut out);
        wheel.first_n(&records, 0, 10, &mut out);
        assert!(out.is_empty());
        assert_eq!(wheel.count_until(&records, u64::MAX), 0);
    }

    #[test]
    fn random_operations_against_a_sorted_map() {
        let mut run = Run::new();
        let mut wheel = Wheel::new();
        let mut records = Records::default();
        // Time and arrival to record.
        let mut model: BTreeMap<(u64, u64), u32> = BTreeMap::new();
        // Record to its key in the model.
        let mut keys: Vec<Option<(u64, u64)>> = Vec::new();
        let mut free: Vec<u32> = Vec::new();
        let mut present: Vec<u32> = Vec::new();
        let (mut target, mut spread, mut center) = (0, 1, TODAY);
        let (mut deepest, mut taken_at_bottom) = (0, 0);
        while run.step < run.steps {
            run.step += 1;
            if run.step % 3000 == 1 {
                target = [0, 100, 300, 1500, 6000][run.random.below(5) as usize];
                spread = [1, 3, 50, 5000, 900_000, 86_400_000, 1 << 40, u64::MAX]
                    [run.random.below(8) as usize];
                center = [
                    TODAY,
                    TODAY,
                    0,
                    TIME_MAX - 40,
                    (1 << 42) - 40,
                    run.random.below(TIME_MAX),
                ][run.random.below(6) as usize];
            }
            let some_time = center.saturating_add(run.random.below(spread));
            let roll = run.random.below(100);
            if roll < if present.len() < target { 70 } else { 20 } {
                let i = free.pop().unwrap_or_else(|| {
                    records.0.push((NIL, NIL, 0));
                    keys.push(None);
                    records.0.len() as u32 - 1
                });
                records.0[i as usize] = (77, 77, some_time);
                wheel.insert(&mut records, i);
                let key = (some_time.min(TIME_MAX), run.step);
                keys[i as usize] = Some(key);
                model.insert(key, i);
                present.push(i);
            } else if roll < 85 && !present.is_empty() {
                let at = run.random.below(present.len() as u64) as usize;
                let i = present.swap_remove(at);
                assert!(wheel.remove(&mut records, i));
                model.remove(&keys[i as usize].take().unwrap());
                free.push(i);
            } else if roll < 90 {
                // The next few that are due at a moment near the first.
                let until = wheel.first_time(&records).map_or(some_time, |first| {
                    [
                        first.saturating_sub(1),
                        first,
                        first + run.random.below(spread.min(100_000)),
                        some_time,
                    ][run.random.below(4) as usize]
                });
                // Mostly few, else small spreads never fill up.
                let max = [0, 1, 1, 2, 2, 5, 5, 20, 400][run.random.below(9) as usize];
                let mut out = Vec::new();
                let at_bottom = wheel.way_to_first().at_bottom;
                wheel.take_due(&mut records, until, max, &mut out);
                taken_at_bottom += u64::from(at_bottom && !out.is_empty());
                let due = model.range(..(until.saturating_add(1), 0));
                let expected: Vec<u32> = due.map(|(_, i)| *i).take(out.len()).collect();
                assert_eq!(out, expected);
                assert!(out.len() <= max);
                if out.is_empty() && max > 0 {
                    assert!(
                        model.range(..(until.saturating_add(1), 0)).next().is_none(),
                        "something is due"
                    );
                }
                for i in out {
                    model.remove(&keys[i as usize].take().unwrap());
                    free.push(i);
                }
                present.retain(|i| keys[*i as usize].is_some());
            }
            assert_eq!(wheel.len(), model.len());
            if run.step.is_multiple_of(7) {
                assert_eq!(
                    wheel.first_time(&records),
                    model.keys().next().map(|key| key.0)
                );
                let near = run.random.below(present.len().max(1) as u64) as usize;
                let near = present.get(near).map_or(0, |i| records.filed(*i));
                let far = 1 << run.random.below(48);
                let moment = [
                    near,
                    near,
                    near.saturating_add(far),
                    near.saturating_sub(far),
                    some_time,
                ][run.random.below(5) as usize]
                    .saturating_sub(run.random.below(3));
                deepest = deepest.max(wheel.way_to_first().len);
                if run.step.is_multiple_of(21) {
                    let until = model.range(..(moment.saturating_add(1), 0)).count();
                    assert_eq!(wheel.count_until(&records, moment), until);
                }
                let count = run.random.below(300) as usize;
                let mut out = vec![NIL];
                wheel.first_n(&records, moment, count, &mut out);
                let expected = model
                    .range((moment.saturating_add(1), 0)..)
                    .map(|(_, i)| *i)
                    .take(count);
                assert!(
                    out.into_iter().eq(std::iter::once(NIL).chain(expected)),
                    "after {moment}"
                );
            }
            if run.step.is_multiple_of(499) {
                wheel.check(&records);
                assert!(
                    records
                        .in_order(&wheel)
                        .into_iter()
                        .eq(model.values().copied())
                );
                let mut seen = 0;
                wheel.for_each_in_order(&records, &mut |_| {
                    seen += 1;
                    seen < 10
                });
                assert_eq!(seen, model.len().min(10));
            }
        }
        // The run has been to the places that matter.
        if run.steps >= 200_000 {
            assert!(
                deepest > 2 && taken_at_bottom > 100,
                "{deepest} {taken_at_bottom}"
            );
        }
    }
}
