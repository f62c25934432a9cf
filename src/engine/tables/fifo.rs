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
use super::list::{Linked, Links, List, relink};

/// The list; see the head of the file. 20 bytes, no heap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fifo {
    /// The records.
    list: List,
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

/// A handle, if it is one.
const fn some(i: u32) -> Option<u32> {
    if i == NIL { None } else { Some(i) }
}

impl Fifo {
    /// An empty list.
    pub const fn new() -> Self {
        Self {
            list: List::EMPTY,
            cursor: NIL,
            unannounced: 0,
        }
    }

    /// Records in the list.
    pub const fn len(&self) -> usize {
        self.list.len as usize
    }

    /// Whether the list is empty.
    pub const fn is_empty(&self) -> bool {
        self.list.len == 0
    }

    /// Records in the list that are not announced.
    pub const fn unannounced(&self) -> usize {
        self.unannounced as usize
    }

    /// The first record.
    pub const fn front(&self) -> Option<u32> {
        some(self.list.head)
    }

    /// The last record, or [`NIL`].
    pub const fn back(&self) -> u32 {
        self.list.tail
    }

    /// The record at the cursor: the first that is not announced.
    pub const fn next_unannounced(&self) -> Option<u32> {
        some(self.cursor)
    }

    /// Puts a record that is not announced at the end. It is in no list. O(1).
    pub fn push_back(&mut self, links: &mut impl Linked, i: u32) {
        self.list.push_back(links, i);
        self.unannounced += 1;
        if self.cursor == NIL {
            self.cursor = i;
        }
    }

    /// Takes a record of this list out; `announced` is its mark. O(1).
    pub fn remove(&mut self, links: &mut impl Linked, i: u32, announced: bool) {
        let next = links.next(i);
        let was_here = self.list.unlink(links, i);
        debug_assert!(was_here, "a record of another list");
        if !announced {
            self.unannounced = self.unannounced.saturating_sub(1);
        }
        if self.cursor == i {
            self.cursor = next;
        }
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
        self.list.moved(from, to);
        if self.cursor == from {
            self.cursor = to;
        }
    }

    /// Counts everything as not announced. The caller takes the marks of those
    /// before the cursor away, which are at the front of the list. O(1).
    pub const fn announce_again(&mut self) {
        self.cursor = self.list.head;
        self.unannounced = self.list.len;
    }

    /// The records from front to back.
    pub fn iter<'l, L: Links>(&self, links: &'l L) -> impl Iterator<Item = u32> + use<'l, L> {
        self.list.iter(links)
    }

    /// Tests the invariants at the head of the file, in tests and debug builds only.
    /// O(records).
    ///
    /// # Panics
    ///
    /// If one is broken.
    #[cfg(any(test, debug_assertions))]
    pub fn check(&self, links: &impl Links) {
        self.list.check(links);
        let from_cursor = self.iter(links).skip_while(|i| *i != self.cursor);
        let unannounced = from_cursor.count();
        assert_eq!(
            unannounced,
            self.unannounced(),
            "records from the cursor on"
        );
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
            fifo.remove(&mut records, i, false);
            fifo.check(&records);
        }
        assert_eq!(fifo.front(), None);
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
                        fifo.push_back(&mut records, i);
                        model.push_back((i, false));
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
                    assert_eq!(fifo.front(), first.map(|first| first.0));
                    if let Some((i, announced)) = first {
                        fifo.remove(&mut records, i, announced);
                        free.push(i);
                    }
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
