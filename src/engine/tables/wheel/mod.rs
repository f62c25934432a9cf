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
//! from the root and knows its path), cascades, ticks, and canceling by handle
//! alone (the record knows its time).

#[cfg(any(test, debug_assertions))]
mod check;
mod node;
mod reader;
mod walk;

use super::NIL;
use super::list::{Linked, Links, relink};
use super::memory::allocated;
use super::slab::Slab;
use super::slab::tight::{WASTE_MIN, pack};
use node::{DIGIT_BITS, Node, Path, Place, Slot, TIME_MAX, digit, digits, level_of};
use reader::{LISTS_MAX, ROOM, Reader};

/// Linked records that know the time they are filed under.
pub trait Filed: Links {
    /// The time of record `i`, in milliseconds. It must stay the same while the
    /// record is in a wheel.
    fn filed(&self, i: u32) -> u64;
}

/// The most records of a list above level 0.
const LIST_MAX: u32 = 256;

/// [`LIST_MAX`], as the size of an array.
const LIST_MAX_USIZE: usize = LIST_MAX as usize;

/// A node with fewer records becomes a list. Well below [`LIST_MAX`], so that a
/// slot that swings does not split and merge at each swing.
const MERGE_BELOW: u32 = 64;

/// Nodes of a page of the store, as a power of two: 25 KB.
const NODE_PAGE_BITS: u32 = 5;

/// The time a record is filed under, as the wheel tells it apart.
fn time_of(records: &impl Filed, i: u32) -> u64 {
    records.filed(i).min(TIME_MAX)
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
        let Some(path) = self.path_to(time_of(records, i)) else {
            return false;
        };
        let mut slot = self.slot(path.end);
        if !slot.unlink(records, i) {
            return false;
        }
        self.set_slot(path.end, slot);
        self.taken(records, &path, 1);
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
        let path = self.path_to_first();
        let mut slot = self.slot(path.end);
        if slot.is_empty() || max == 0 {
            return;
        }
        let before = out.len();
        let len = slot.len as usize;
        if path.at_bottom && (len > max || len > ROOM) {
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
            self.set_slot(path.end, slot);
        } else {
            let mut reader = Reader::new();
            let mut places = [path.end; LISTS_MAX];
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
            self.taken(records, &path, taken as u32);
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
        let Some(path) = self.path_to(time_of(records, to)) else {
            return;
        };
        let mut slot = self.slot(path.end);
        slot.moved(from, to);
        self.set_slot(path.end, slot);
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
    fn taken(&mut self, records: &mut (impl Filed + Linked), path: &Path, taken: u32) {
        self.len -= taken;
        let mut small = None;
        for (number, place) in path.steps.iter().take(path.len) {
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
    fn path_to(&self, time: u64) -> Option<Path> {
        let mut path = Path::new();
        let mut slot = self.root;
        while let Some(number) = slot.node() {
            let node = self.node(number)?;
            if !node.covers(time) {
                return None;
            }
            let digit = digit(time, node.level());
            path.push(number, node.level(), digit);
            slot = node.slot(digit);
        }
        Some(path)
    }

    /// The way to the earliest list.
    fn path_to_first(&self) -> Path {
        let mut path = Path::new();
        let mut slot = self.root;
        while let Some(number) = slot.node() {
            let Some(node) = self.node(number) else {
                break;
            };
            let digit = node.bits.trailing_zeros() as u8;
            path.push(number, node.level(), digit);
            slot = node.slot(digit);
        }
        path
    }
}

#[cfg(test)]
mod tests;
