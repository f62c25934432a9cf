//! A first-in first-out list threaded through the records, with a cursor that
//! says how far it has been announced.
//!
//! The claimable orders of a queue stand here in the order in which they became
//! claimable. The links are in the records themselves (the same two that the
//! wheel uses: a record is in one structure at a time), so the list costs
//! nothing per record, and a record can leave from the middle in O(1).
//!
//! ```text
//!   head                   cursor         tail
//!    ▼                       ▼              ▼
//!   [a] ⇄ [b] ⇄ [c] ⇄ [d] ⇄ [e] ⇄ [f] ⇄ [g]
//!   └───── announced ─────┘ └── not yet ──┘
//! ```
//!
//! Everything before the cursor is announced, nothing from it on. A record that
//! leaves from the middle does not know on which side it stood, so the caller
//! keeps a mark in the record as well and hands it in.
//!
//! Invariants ([`Fifo::check`] tests them): `len` is the number of records,
//! `unannounced` the number of those from the cursor on; the cursor is in the
//! list, or [`NIL`] when everything is announced.
//!
//! Deliberately absent: any order but arrival, and any knowledge of records
//! beyond their links.

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

/// The list; see the head of the file. 20 bytes, no heap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fifo {
    /// First record, or [`NIL`].
    head: u32,
    /// Last record, or [`NIL`].
    tail: u32,
    /// Records in the list.
    len: u32,
    /// First record that is not announced, or [`NIL`].
    cursor: u32,
    /// Records in the list that are not announced.
    unannounced: u32,
}

impl Default for Fifo {
    fn default() -> Self {
        Self::new()
    }
}

impl Fifo {
    /// An empty list.
    pub const fn new() -> Self {
        Self {
            head: NIL,
            tail: NIL,
            len: 0,
            cursor: NIL,
            unannounced: 0,
        }
    }

    /// Records in the list.
    pub const fn len(&self) -> usize {
        self.len as usize
    }

    /// Whether the list is empty.
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Records in the list that are not announced.
    pub const fn unannounced(&self) -> usize {
        self.unannounced as usize
    }

    /// The first record.
    pub const fn front(&self) -> Option<u32> {
        if self.head == NIL {
            None
        } else {
            Some(self.head)
        }
    }

    /// The last record, or [`NIL`].
    pub const fn back(&self) -> u32 {
        self.tail
    }

    /// The record at the cursor: the first that is not announced.
    pub const fn next_unannounced(&self) -> Option<u32> {
        if self.cursor == NIL {
            None
        } else {
            Some(self.cursor)
        }
    }

    /// Puts a record that is not announced at the end. It is in no list. O(1).
    pub fn push_back(&mut self, links: &mut impl Linked, i: u32) {
        self.link_back(links, i);
        self.unannounced += 1;
        if self.cursor == NIL {
            self.cursor = i;
        }
    }

    /// Puts a record that is announced already at the end; it is in no list.
    /// Returns whether it stands there as announced: it does unless others
    /// before it are not, which the order of announcements does not allow. Then
    /// it counts as not announced, and the caller marks it so. O(1).
    pub fn push_back_announced(&mut self, links: &mut impl Linked, i: u32) -> bool {
        if self.cursor != NIL {
            self.push_back(links, i);
            return false;
        }
        self.link_back(links, i);
        true
    }

    /// Takes a record of this list out; `announced` is its mark. O(1).
    pub fn remove(&mut self, links: &mut impl Linked, i: u32, announced: bool) {
        let prev = links.prev(i);
        let next = links.next(i);
        if prev == NIL {
            debug_assert_eq!(self.head, i, "a record of another list");
            self.head = next;
        } else {
            links.set_next(prev, next);
        }
        if next == NIL {
            debug_assert_eq!(self.tail, i, "a record of another list");
            self.tail = prev;
        } else {
            links.set_prev(next, prev);
        }
        links.set_prev(i, NIL);
        links.set_next(i, NIL);
        self.len = self.len.saturating_sub(1);
        if !announced {
            self.unannounced = self.unannounced.saturating_sub(1);
        }
        if self.cursor == i {
            self.cursor = next;
        }
    }

    /// Takes the first record out; `announced` tells its mark. O(1).
    pub fn pop_front<L: Linked>(
        &mut self,
        links: &mut L,
        announced: impl FnOnce(&L, u32) -> bool,
    ) -> Option<u32> {
        let first = self.front()?;
        let announced = announced(links, first);
        self.remove(links, first, announced);
        Some(first)
    }

    /// Moves the cursor on by one and returns the record it was at, which counts
    /// as announced now and is to be marked so. O(1).
    pub fn mark_announced(&mut self, links: &impl Links) -> Option<u32> {
        let i = self.next_unannounced()?;
        self.unannounced = self.unannounced.saturating_sub(1);
        self.cursor = links.next(i);
        Some(i)
    }

    /// A record of this list has another handle now, and its links with it. O(1).
    pub fn moved(&mut self, links: &mut impl Linked, from: u32, to: u32) {
        relink(links, to);
        for end in [&mut self.head, &mut self.tail, &mut self.cursor] {
            if *end == from {
                *end = to;
            }
        }
    }

    /// Counts everything as not announced. The caller takes the marks of those
    /// before the cursor away, which are at the front of the list. O(1).
    pub const fn announce_again(&mut self) {
        self.cursor = self.head;
        self.unannounced = self.len;
    }

    /// The records from front to back.
    pub fn iter<'l, L: Links>(&self, links: &'l L) -> impl Iterator<Item = u32> + use<'l, L> {
        let some = |i: u32| (i != NIL).then_some(i);
        std::iter::successors(some(self.head), move |i| some(links.next(*i)))
    }

    /// Forgets all records, and leaves them as they are. O(1).
    pub const fn clear(&mut self) {
        *self = Self::new();
    }

    /// Hangs a record on at the end.
    fn link_back(&mut self, links: &mut impl Linked, i: u32) {
        links.set_prev(i, self.tail);
        links.set_next(i, NIL);
        if self.tail == NIL {
            self.head = i;
        } else {
            links.set_next(self.tail, i);
        }
        self.tail = i;
        self.len += 1;
    }

    /// Tests the invariants at the head of the file, in tests and debug builds only.
    /// O(records).
    ///
    /// # Panics
    ///
    /// If one is broken.
    #[cfg(any(test, debug_assertions))]
    pub fn check(&self, links: &impl Links) {
        let (mut before, mut len, mut unannounced) = (NIL, 0, 0);
        let mut i = self.head;
        while i != NIL {
            assert_eq!(links.prev(i), before, "link back from {i}");
            unannounced += u32::from(unannounced > 0 || i == self.cursor);
            len += 1;
            assert!(len <= self.len, "more records than counted, or a ring");
            before = i;
            i = links.next(i);
        }
        assert_eq!((before, len), (self.tail, self.len), "tail and length");
        assert_eq!(unannounced, self.unannounced, "records from the cursor on");
        assert_eq!(
            unannounced > 0,
            self.cursor != NIL,
            "the cursor is not in the list"
        );
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use super::*;
    use crate::testing::Run;

    /// Links of each record.
    struct Records(Vec<(u32, u32)>);

    impl Records {
        fn new(count: usize) -> Self {
            Self(vec![(NIL, NIL); count])
        }
    }

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

    #[test]
    fn what_comes_first_leaves_first() {
        let mut records = Records::new(4);
        let mut fifo = Fifo::new();
        assert_eq!((fifo.front(), fifo.next_unannounced()), (None, None));
        for i in 0..4 {
            fifo.push_back(&mut records, i);
        }
        assert_eq!((fifo.len(), fifo.unannounced()), (4, 4));
        for i in 0..4 {
            assert_eq!(fifo.front(), Some(i));
            assert_eq!(fifo.pop_front(&mut records, |_, _| false), Some(i));
            fifo.check(&records);
        }
        assert_eq!(fifo.pop_front(&mut records, |_, _| false), None);
        assert_eq!(fifo, Fifo::new());
    }

    #[test]
    fn the_cursor_survives_every_removal_around_it() {
        // Row: how many of five are announced, which is removed, where the cursor is then, how many are left to announce.
        for (announced, removed, cursor, left) in [
            (0, 0, Some(1), 4),
            (0, 4, Some(0), 4),
            (2, 1, Some(2), 3),
            (2, 2, Some(3), 2),
            (2, 3, Some(2), 2),
            (4, 4, None, 0),
            (4, 3, Some(4), 1),
            (5, 2, None, 0),
        ] {
            let mut records = Records::new(5);
            let mut fifo = Fifo::new();
            for i in 0..5 {
                fifo.push_back(&mut records, i);
            }
            for i in 0..announced {
                assert_eq!(fifo.mark_announced(&records), Some(i));
            }
            fifo.remove(&mut records, removed, removed < announced);
            fifo.check(&records);
            assert_eq!(
                (fifo.next_unannounced(), fifo.unannounced()),
                (cursor, left),
                "{announced} {removed}"
            );
        }
    }

    #[test]
    fn who_comes_announced_stays_so_unless_others_wait_before_it() {
        let mut records = Records::new(4);
        let mut fifo = Fifo::new();
        fifo.push_back(&mut records, 0);
        fifo.mark_announced(&records);
        assert!(fifo.push_back_announced(&mut records, 1));
        assert_eq!((fifo.next_unannounced(), fifo.unannounced()), (None, 0));
        fifo.push_back(&mut records, 2);
        assert!(!fifo.push_back_announced(&mut records, 3));
        assert_eq!((fifo.next_unannounced(), fifo.unannounced()), (Some(2), 2));
        fifo.check(&records);
        assert_eq!(fifo.mark_announced(&records), Some(2));
        assert_eq!(fifo.mark_announced(&records), Some(3));
        assert_eq!(fifo.mark_announced(&records), None);
    }

    #[test]
    fn a_promotion_announces_everything_again() {
        let mut records = Records::new(3);
        let mut fifo = Fifo::new();
        fifo.announce_again();
        assert_eq!(fifo, Fifo::new());
        for i in 0..3 {
            fifo.push_back(&mut records, i);
        }
        for announced in 0..=3 {
            for _ in 0..announced {
                fifo.mark_announced(&records);
            }
            fifo.announce_again();
            assert_eq!((fifo.next_unannounced(), fifo.unannounced()), (Some(0), 3));
            fifo.check(&records);
        }
        fifo.clear();
        assert_eq!(fifo, Fifo::new());
    }

    #[test]
    fn random_operations_against_a_deque() {
        const RECORDS: usize = 200;
        let mut run = Run::new();
        let mut records = Records::new(RECORDS);
        let mut fifo = Fifo::new();
        // Record and whether it is announced.
        let mut model: VecDeque<(u32, bool)> = VecDeque::new();
        let mut free: Vec<u32> = (0..RECORDS as u32).collect();
        while run.step < run.steps {
            run.step += 1;
            match run.random.below(20) {
                0..=6 => {
                    if let Some(i) = free.pop() {
                        let mut announced = run.random.below(3) == 0;
                        if announced {
                            announced = model.iter().all(|(_, announced)| *announced);
                            assert_eq!(fifo.push_back_announced(&mut records, i), announced);
                        } else {
                            fifo.push_back(&mut records, i);
                        }
                        model.push_back((i, announced));
                    }
                }
                7..=10 if !model.is_empty() => {
                    let at = run.random.below(model.len() as u64) as usize;
                    let (i, announced) = model.remove(at).unwrap();
                    fifo.remove(&mut records, i, announced);
                    free.push(i);
                }
                11..=12 => {
                    let first = model.pop_front();
                    let popped = fifo.pop_front(&mut records, |_, i| {
                        assert_eq!(first.map(|first| first.0), Some(i));
                        first.is_some_and(|first| first.1)
                    });
                    assert_eq!(popped, first.map(|first| first.0));
                    free.extend(popped);
                }
                13 if run.random.below(50) == 0 => {
                    fifo.announce_again();
                    for entry in &mut model {
                        entry.1 = false;
                    }
                }
                _ => {
                    let first = model.iter_mut().find(|(_, announced)| !announced);
                    let expected = first.map(|first| {
                        first.1 = true;
                        first.0
                    });
                    assert_eq!(fifo.next_unannounced(), expected);
                    assert_eq!(fifo.mark_announced(&records), expected);
                }
            }
            assert_eq!(fifo.len(), model.len());
            assert_eq!(fifo.front(), model.front().map(|(i, _)| *i));
            let unannounced = model.iter().filter(|(_, announced)| !announced).count();
            assert_eq!(fifo.unannounced(), unannounced);
            if run.step.is_multiple_of(64) {
                fifo.check(&records);
                assert!(fifo.iter(&records).eq(model.iter().map(|(i, _)| *i)));
            }
        }
    }
}
