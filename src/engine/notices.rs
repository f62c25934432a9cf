//! What is still to be said: ids of orders in the order in which it came up, each of
//! which can also be taken out of turn.
//!
//! A lock that lapses leaves a notice here until it is announced. Where the order
//! is locked again or forgotten before its turn, it is said then, so a notice is
//! found by id, too. An id may have several notices (its lock lapsed twice): the last
//! is the one that is taken, the others wait for their turns.
//!
//! Invariant: each number in `last` is one of `turns`, under the same id.

use std::borrow::Borrow;
use std::collections::BTreeMap;
use std::sync::Arc;

use super::tables::lazy::Blank;
use super::tables::memory::allocated;

/// So many notices there are at most; of more, the world is not told. On a replica
/// nobody fetches them, so there must be a limit.
const NOTICES_MAX: usize = 1 << 16;

/// About what the two maps take for a notice: two entries of 24 bytes, in nodes that
/// are two thirds full.
const ENTRY_BYTES: usize = 72;

/// The notices; see the head of the file. `K` is an id.
#[derive(Debug)]
pub struct Notices<K = Arc<[u8]>> {
    /// Ids by turn.
    turns: BTreeMap<u64, K>,
    /// The last turn of each id.
    last: BTreeMap<K, u64>,
    /// The turn of the next notice.
    next: u64,
}

impl<K> Notices<K> {
    /// None.
    pub const fn new() -> Self {
        Self {
            turns: BTreeMap::new(),
            last: BTreeMap::new(),
            next: 0,
        }
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.turns.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.turns.is_empty()
    }
}

impl<K> Default for Notices<K> {
    fn default() -> Self {
        Self::new()
    }
}

impl<K: Clone + Ord> Notices<K> {
    /// Notes an id, if there is room. O(log n).
    pub fn push(&mut self, id: K) {
        if self.turns.len() < NOTICES_MAX {
            self.turns.insert(self.next, id.clone());
            self.last.insert(id, self.next);
            self.next += 1;
        }
    }

    /// Takes the notice whose turn it is. O(log n).
    pub fn pop(&mut self) -> Option<K> {
        let (turn, id) = self.turns.pop_first()?;
        if self.last.get(&id) == Some(&turn) {
            self.last.remove(&id);
        }
        Some(id)
    }

    /// Whether there is a notice of this id. O(log n).
    pub fn has<Q: Ord + ?Sized>(&self, id: &Q) -> bool
    where
        K: Borrow<Q>,
    {
        self.last.contains_key(id)
    }

    /// Takes the last notice of this id. O(log n).
    pub fn take<Q: Ord + ?Sized>(&mut self, id: &Q) -> Option<K>
    where
        K: Borrow<Q>,
    {
        let turn = self.last.remove(id)?;
        self.turns.remove(&turn)
    }
}

impl Blank for Notices {
    fn blank() -> &'static Self {
        static BLANK: Notices = Notices::new();
        &BLANK
    }
}

impl Notices {
    /// Heap bytes, about. O(n).
    pub fn bytes(&self) -> usize {
        /// What is before the bytes of a shared text.
        const COUNTS: usize = 2 * size_of::<usize>();
        let ids = self.turns.values().map(|id| allocated(COUNTS + id.len()));
        ids.sum::<usize>() + self.turns.len() * ENTRY_BYTES
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::cmp::Ordering;
    use std::collections::VecDeque;

    use super::*;
    use crate::testing::Run;

    thread_local! {
        /// How many ids were looked at.
        static LOOKS: Cell<usize> = const { Cell::new(0) };
    }

    /// An id that counts how often it is compared.
    #[derive(Clone, Debug, Eq)]
    struct Counted(u32);

    impl PartialEq for Counted {
        fn eq(&self, other: &Self) -> bool {
            self.cmp(other) == Ordering::Equal
        }
    }
    impl PartialOrd for Counted {
        fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
            Some(self.cmp(other))
        }
    }
    impl Ord for Counted {
        fn cmp(&self, other: &Self) -> Ordering {
            LOOKS.set(LOOKS.get() + 1);
            self.0.cmp(&other.0)
        }
    }

    /// A pass forgets 256 ids at a time and asks for each: with as many notices as
    /// there can be, that is some hundred looks an id, not 65,536.
    #[test]
    fn a_notice_is_found_without_a_walk() {
        let mut notices = Notices::new();
        for id in 0..NOTICES_MAX as u32 + 9 {
            notices.push(Counted(id.reverse_bits()));
        }
        assert_eq!(notices.len(), NOTICES_MAX);
        LOOKS.set(0);
        for id in (0..128_u32).map(|n| n * 500) {
            assert!(notices.has(&Counted(id.reverse_bits())));
            assert!(notices.take(&Counted(id.reverse_bits())).is_some());
            assert!(notices.take(&Counted(id.reverse_bits() | 1)).is_none());
        }
        assert!(LOOKS.get() < 384 * 120, "{} looks", LOOKS.get());
        assert_eq!(notices.len(), NOTICES_MAX - 128);
        assert_eq!(notices.pop().map(|id| id.0), Some(1_u32.reverse_bits()));
    }

    #[test]
    fn random_operations_against_a_deque() {
        let mut run = Run::new();
        let mut notices: Notices = Notices::new();
        let mut model: VecDeque<u64> = VecDeque::new();
        let id_of = |n: u64| -> Arc<[u8]> { n.to_le_bytes().as_slice().into() };
        while run.step < run.steps {
            run.step += 1;
            let id = run.random.below(30);
            match run.random.below(5) {
                0 | 1 => {
                    notices.push(id_of(id));
                    model.push_back(id);
                }
                2 | 3 => assert_eq!(notices.pop(), model.pop_front().map(id_of)),
                _ => {
                    let at = model.iter().rposition(|noted| *noted == id);
                    // Of several notices only the last is known by its id.
                    let has = notices.has(&*id_of(id));
                    assert!(!has || at.is_some());
                    assert_eq!(notices.take(&*id_of(id)).is_some(), has);
                    if let Some(at) = at.filter(|_| has) {
                        model.remove(at);
                    }
                }
            }
            assert_eq!(notices.len(), model.len());
            assert_eq!(notices.is_empty(), model.is_empty());
            assert!(notices.last.len() <= notices.turns.len());
        }
    }
}
