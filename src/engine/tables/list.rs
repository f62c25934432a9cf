//! A list threaded through its records: the links are in the records themselves, so it
//! costs nothing per record, and a record can leave from the middle in O(1). A record is
//! in one list at a time.

use super::NIL;

/// Records with two links to other records of the same kind.
///
/// A link to a record that is not there reads as [`NIL`].
pub trait Links {
    /// The record before `i` in its list, or [`NIL`].
    fn prev(&self, i: u32) -> u32;
    /// The record behind `i` in its list, or [`NIL`].
    fn next(&self, i: u32) -> u32;
}

/// [`Links`] that can be set. Setting one of a record that is not there does nothing.
pub trait Linked: Links {
    /// Sets the record before `i`.
    fn set_prev(&mut self, i: u32, prev: u32);
    /// Sets the record behind `i`.
    fn set_next(&mut self, i: u32, next: u32);
}

/// Has the records beside record `i`, which has come here with its links, point to
/// it. O(1).
pub fn relink(links: &mut impl Linked, i: u32) {
    let (prev, next) = (links.prev(i), links.next(i));
    if prev != NIL {
        links.set_next(prev, i);
    }
    if next != NIL {
        links.set_prev(next, i);
    }
}

/// The ends of a list, and how long it is. 12 bytes, no heap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct List {
    /// First record, or [`NIL`].
    pub head: u32,
    /// Last record, or [`NIL`].
    pub tail: u32,
    /// How many records.
    pub len: u32,
}

impl List {
    /// An empty list.
    pub const EMPTY: Self = Self {
        head: NIL,
        tail: NIL,
        len: 0,
    };

    /// Hangs a record on at the end. It is in no list. O(1).
    pub fn push_back(&mut self, records: &mut impl Linked, i: u32) {
        records.set_prev(i, self.tail);
        records.set_next(i, NIL);
        if self.tail == NIL {
            self.head = i;
        } else {
            records.set_next(self.tail, i);
        }
        self.tail = i;
        self.len += 1;
    }

    /// Takes a record out; false if it is not in this list, as far as its links tell.
    /// O(1).
    pub fn unlink(&mut self, records: &mut impl Linked, i: u32) -> bool {
        let prev = records.prev(i);
        let next = records.next(i);
        if self.len == 0 || (prev == NIL && self.head != i) || (next == NIL && self.tail != i) {
            return false;
        }
        if prev == NIL {
            self.head = next;
        } else {
            records.set_next(prev, next);
        }
        if next == NIL {
            self.tail = prev;
        } else {
            records.set_prev(next, prev);
        }
        records.set_prev(i, NIL);
        records.set_next(i, NIL);
        self.len -= 1;
        true
    }

    /// Hangs another list on at the end of this one. O(1).
    pub fn append(&mut self, records: &mut impl Linked, other: Self) {
        if other.len == 0 {
            return;
        }
        if self.len == 0 {
            *self = other;
            return;
        }
        records.set_next(self.tail, other.head);
        records.set_prev(other.head, self.tail);
        self.tail = other.tail;
        self.len += other.len;
    }

    /// A record that stands at an end has another handle now. O(1).
    pub const fn moved(&mut self, from: u32, to: u32) {
        if self.head == from {
            self.head = to;
        }
        if self.tail == from {
            self.tail = to;
        }
    }

    /// The records from front to back.
    pub fn iter<R: Links>(self, records: &R) -> impl Iterator<Item = u32> + use<'_, R> {
        let some = |i: u32| (i != NIL).then_some(i);
        std::iter::successors(some(self.head), move |i| some(records.next(*i)))
    }

    /// Tests that links, ends and length agree, in tests and debug builds only. O(records).
    ///
    /// # Panics
    ///
    /// If they do not.
    #[cfg(any(test, debug_assertions))]
    pub fn check(self, records: &impl Links) {
        let (mut before, mut len) = (NIL, 0);
        for i in self.iter(records) {
            assert_eq!(records.prev(i), before, "link back from {i}");
            len += 1;
            assert!(len <= self.len, "more records than counted, or a ring");
            before = i;
        }
        assert_eq!((before, len), (self.tail, self.len), "tail and length");
    }
}
