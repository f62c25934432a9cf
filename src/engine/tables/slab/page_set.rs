//! Which pages have room.

/// A set of page numbers that knows its smallest member: a bitmap and a bitmap
/// of its non-zero words.
#[derive(Debug, Default)]
pub(super) struct PageSet {
    /// Bit `p % 64` of word `p / 64`: page `p` is in the set.
    words: Vec<u64>,
    /// Bit `w % 64` of word `w / 64`: `words[w]` is not zero.
    summary: Vec<u64>,
}

/// Which word of a bitmap holds bit `at`, and the bit in it.
const fn word_and_bit(at: usize) -> (usize, u64) {
    (at / 64, 1 << (at % 64))
}

/// Appends zeros until `words` has a word `at`. Grows from one word by doubling.
fn reach(words: &mut Vec<u64>, at: usize) {
    while words.len() <= at {
        if words.len() == words.capacity() {
            words.reserve_exact(words.len().max(1));
        }
        words.push(0);
    }
}

impl PageSet {
    /// A set of nothing, without allocation.
    pub(super) const fn new() -> Self {
        Self {
            words: Vec::new(),
            summary: Vec::new(),
        }
    }

    /// Adds a page; adding it again changes nothing. O(1) amortized.
    pub(super) fn insert(&mut self, page: usize) {
        let (word, bit) = word_and_bit(page);
        let (top, top_bit) = word_and_bit(word);
        reach(&mut self.words, word);
        reach(&mut self.summary, top);
        if let Some(bits) = self.words.get_mut(word) {
            *bits |= bit;
        }
        if let Some(bits) = self.summary.get_mut(top) {
            *bits |= top_bit;
        }
    }

    /// Takes a page out, if it is in. O(1).
    pub(super) fn remove(&mut self, page: usize) {
        let (word, bit) = word_and_bit(page);
        let (top, top_bit) = word_and_bit(word);
        let Some(bits) = self.words.get_mut(word) else {
            return;
        };
        *bits &= !bit;
        if *bits == 0
            && let Some(bits) = self.summary.get_mut(top)
        {
            *bits &= !top_bit;
        }
    }

    /// The smallest page. O(1): the summary has one bit for 4096 pages, which
    /// is two words for ten million records.
    pub(super) fn first(&self) -> Option<usize> {
        let (top, bits) = self
            .summary
            .iter()
            .enumerate()
            .find(|(_, bits)| **bits != 0)?;
        let word = top * 64 + bits.trailing_zeros() as usize;
        let bits = self.words.get(word)?;
        Some(word * 64 + bits.trailing_zeros() as usize)
    }

    /// Whether a page is in the set.
    #[cfg(any(test, debug_assertions))]
    pub(super) fn contains(&self, page: usize) -> bool {
        let (word, bit) = word_and_bit(page);
        self.words.get(word).is_some_and(|bits| bits & bit != 0)
    }

    /// Bytes on the heap.
    pub(super) const fn bytes(&self) -> usize {
        (self.words.capacity() + self.summary.capacity()) * size_of::<u64>()
    }
}
