//! A slab: values behind `u32` handles, in pages that never move.
//!
//! Everything else in the engine links records by handle, not by pointer, so a
//! record costs four bytes to point at and the whole structure is free of
//! `unsafe`. A plain `Vec` would do, but for its growth: at ten million records
//! one doubling copies hundreds of megabytes while every client waits. So:
//!
//! ```text
//!   handle = page number << 11 | slot
//!
//!   pages  [0]────► ┌──┬──┬──┬──┬──┬──┐   page 0 grows by halves from one slot,
//!          [1]──┐   └──┴──┴──┴──┴──┴──┘   at most 2048 slots are ever copied
//!          [2]  └─► ┌──┬──┬──┬──┬┄┄┬┄┄┐   later pages are allocated whole and
//!           │       └──┴──┴─▲┴──┴┄┄┴┄┄┘   filled from the left
//!           │          free─┘             free slots of a page are a list inside
//!           └─► no memory (given back)    the free slots, one list per page
//!
//!   room   ..0111 0110  one bit a page: has a free slot  ─┐ the lowest page with
//!   words  ......... 1  one bit a word of `room`         ─┘ room in two steps
//! ```
//!
//! Up to one page there is neither table nor room: its head stands in the slab
//! itself, 32 bytes in all, so that a queue of one order is small.
//!
//! A new value goes into the lowest page with room, so that a shrinking slab
//! empties its high pages and gives them back. One empty page keeps its memory,
//! so that a queue that swings around a page boundary does not allocate and free
//! at each swing.
//!
//! Invariants ([`Slab::check`] tests them):
//! - a page's `live` is the number of its occupied slots; its bit in `room` is
//!   set exactly when that is less than a full page (a page without memory has room);
//! - every slot below the filled mark is occupied or in the page's free list;
//! - an empty page has nothing below its filled mark, and memory only if it is the spare;
//! - the last page of the table has memory.
//!
//! A slab that has shrunk is made smaller in steps, see [`tight`].
//!
//! Deliberately absent: generations in handles (nobody keeps a handle across a
//! call that could free or move it), and iteration (see [`Slab::skip_empty`]).

pub mod tight;

use super::NIL;
use super::memory::{allocated, free_page, growth};

/// A value that can say that its slot is free.
///
/// A free slot holds the next free slot of its own page, or [`NIL`].
pub trait Vacant: Sized {
    /// A free slot whose successor in the page's free list is `next`.
    fn vacant(next: u32) -> Self;
    /// The successor if the slot is free (it may be [`NIL`]), `None` if it is occupied.
    fn next_vacant(&self) -> Option<u32>;
}

/// One page.
#[derive(Debug)]
struct Page<T> {
    /// The slots filled so far; its capacity is the page's memory.
    slots: Vec<T>,
    /// First free slot below `slots.len()`, or [`NIL`].
    free: u32,
    /// Occupied slots.
    live: u32,
}

impl<T> Page<T> {
    /// A page without memory.
    const fn new() -> Self {
        Self {
            slots: Vec::new(),
            free: NIL,
            live: 0,
        }
    }

    /// Bytes of the memory of so many slots, as an allocator rounds them up.
    const fn bytes_of(slots: usize) -> usize {
        allocated(slots * size_of::<T>())
    }

    /// Bytes of its memory.
    const fn bytes(&self) -> usize {
        Self::bytes_of(self.slots.capacity())
    }
}

/// A set of page numbers that knows its smallest member: a bitmap and a bitmap
/// of its non-zero words.
#[derive(Debug, Default)]
struct PageSet {
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
    const fn new() -> Self {
        Self {
            words: Vec::new(),
            summary: Vec::new(),
        }
    }

    /// Adds a page; adding it again changes nothing. O(1) amortized.
    fn insert(&mut self, page: usize) {
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
    fn remove(&mut self, page: usize) {
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
    fn first(&self) -> Option<usize> {
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
    fn contains(&self, page: usize) -> bool {
        let (word, bit) = word_and_bit(page);
        self.words.get(word).is_some_and(|bits| bits & bit != 0)
    }

    /// Bytes on the heap.
    const fn bytes(&self) -> usize {
        (self.words.capacity() + self.summary.capacity()) * size_of::<u64>()
    }
}

/// The pages of a slab.
#[derive(Debug)]
enum Pages<T> {
    /// At most page 0. Without values it may keep its memory.
    One(Page<T>),
    /// Two pages and more; one whose memory was given back stays as a hole.
    /// Behind those in use there may be heads for more.
    Many(Box<[Page<T>]>, Box<Rest>),
}

/// What is to be known of several pages.
#[derive(Debug)]
struct Rest {
    /// The pages with a free slot, holes among them.
    room: PageSet,
    /// Bytes of all slots with memory.
    slot_bytes: usize,
    /// Pages in use, holes among them.
    pages: usize,
    /// Occupied slots of all pages.
    live: u32,
    /// The empty page that keeps its memory, or [`NIL`].
    spare: u32,
}

impl<T> Pages<T> {
    /// A page.
    #[inline]
    fn get(&self, number: usize) -> Option<&Page<T>> {
        match self {
            Self::One(page) => (number == 0).then_some(page),
            Self::Many(pages, _) => pages.get(number),
        }
    }

    /// A page, to be changed.
    #[inline]
    fn get_mut(&mut self, number: usize) -> Option<&mut Page<T>> {
        match self {
            Self::One(page) => (number == 0).then_some(page),
            Self::Many(pages, _) => pages.get_mut(number),
        }
    }

    /// As [`Pages::get_mut`], and what is known of the pages where there are
    /// several.
    #[inline]
    fn get_both(&mut self, number: usize) -> Option<(&mut Page<T>, Option<&mut Rest>)> {
        match self {
            Self::One(page) => (number == 0).then_some((page, None)),
            Self::Many(pages, rest) => Some((pages.get_mut(number)?, Some(rest))),
        }
    }

    /// What is known of several pages.
    #[cfg(any(test, debug_assertions))]
    fn rest(&self) -> Option<&Rest> {
        match self {
            Self::One(_) => None,
            Self::Many(_, rest) => Some(rest),
        }
    }

    /// All pages.
    fn all(&self) -> &[Page<T>] {
        match self {
            Self::One(page) if page.slots.capacity() == 0 => &[],
            Self::One(page) => std::slice::from_ref(page),
            Self::Many(pages, rest) => pages.get(..rest.pages).unwrap_or(pages),
        }
    }
}

/// Gives a table of page heads another length.
fn resize<T>(table: &mut Box<[Page<T>]>, pages: usize) {
    let mut heads = std::mem::take(table).into_vec();
    heads.truncate(pages);
    heads.reserve_exact(pages.saturating_sub(heads.len()));
    heads.resize_with(pages, Page::new);
    *table = heads.into_boxed_slice();
}

/// Values behind `u32` handles; see the head of the file.
///
/// A page has `1 << PAGE_BITS` slots: 2048 unless said otherwise, fewer for
/// large values. `PAGE_BITS` is 1 to 31.
#[derive(Debug)]
pub struct Slab<T, const PAGE_BITS: u32 = 11> {
    /// The pages.
    pages: Pages<T>,
}

impl<T: Vacant + Send + 'static, const PAGE_BITS: u32> Default for Slab<T, PAGE_BITS> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T: Vacant + Send + 'static, const PAGE_BITS: u32> Slab<T, PAGE_BITS> {
    /// Slots of a page.
    const PAGE_SLOTS: usize = 1 << PAGE_BITS;
    /// Pages that can be addressed. The very last one would hold the handle
    /// [`NIL`] and is left out.
    const PAGES_MAX: usize = (1 << (32 - PAGE_BITS)) - 1;

    /// An empty slab, without allocation.
    pub const fn new() -> Self {
        Self {
            pages: Pages::One(Page::new()),
        }
    }

    /// Page number and slot of a handle.
    const fn split(handle: u32) -> (usize, usize) {
        (
            (handle >> PAGE_BITS) as usize,
            (handle & ((1 << PAGE_BITS) - 1)) as usize,
        )
    }

    /// The handle of a slot.
    const fn join(page: usize, slot: usize) -> u32 {
        ((page as u32) << PAGE_BITS) | slot as u32
    }

    /// Stores a value and returns its handle; `None` when all of the nearly
    /// 2^32 handles are in use. O(1) amortized; the worst single call allocates
    /// one page, or copies half of the first one.
    pub fn insert(&mut self, value: T) -> Option<u32> {
        self.insert_within(value, Self::PAGES_MAX)
    }

    /// [`Slab::insert`] with another limit of pages, for the test of the limit.
    fn insert_within(&mut self, value: T, pages_max: usize) -> Option<u32> {
        let number = self.page_with_room(pages_max)?;
        let (page, rest) = self.pages.get_both(number)?;
        let before = page.slots.capacity();
        let slot = if page.free == NIL {
            if page.slots.len() == before {
                let more = if number == 0 {
                    growth(before).min(Self::PAGE_SLOTS.saturating_sub(before))
                } else {
                    Self::PAGE_SLOTS
                };
                page.slots.reserve_exact(more);
            }
            page.slots.push(value);
            page.slots.len() - 1
        } else {
            let slot = page.free as usize;
            let place = page.slots.get_mut(slot)?;
            page.free = place.next_vacant().unwrap_or(NIL);
            *place = value;
            slot
        };
        page.live += 1;
        if let Some(rest) = rest {
            rest.slot_bytes = rest.slot_bytes + page.bytes() - Page::<T>::bytes_of(before);
            rest.live += 1;
            if page.live as usize == Self::PAGE_SLOTS {
                rest.room.remove(number);
            }
            if rest.spare as usize == number {
                rest.spare = NIL;
            }
        }
        Some(Self::join(number, slot))
    }

    /// The lowest page with a free slot, made if there is none.
    fn page_with_room(&mut self, pages_max: usize) -> Option<usize> {
        if let Pages::One(page) = &mut self.pages {
            if (page.live as usize) < Self::PAGE_SLOTS {
                return Some(0);
            }
            if pages_max < 2 {
                return None;
            }
            let page = std::mem::replace(page, Page::new());
            let rest = Rest {
                room: PageSet::new(),
                slot_bytes: page.bytes(),
                pages: 1,
                live: page.live,
                spare: NIL,
            };
            self.pages = Pages::Many(Box::new([page]), Box::new(rest));
        }
        let Pages::Many(pages, rest) = &mut self.pages else {
            return None;
        };
        if let Some(number) = rest.room.first() {
            return Some(number);
        }
        let number = rest.pages;
        if number >= pages_max {
            return None;
        }
        if number == pages.len() {
            resize(pages, number * 2);
        }
        // Without memory at first.
        rest.pages += 1;
        rest.room.insert(number);
        Some(number)
    }

    /// Takes a value out and frees its handle; `None` if the handle is free or
    /// was never given out. O(1) amortized.
    pub fn remove(&mut self, handle: u32) -> Option<T> {
        let (number, slot) = Self::split(handle);
        let (page, rest) = self.pages.get_both(number)?;
        let place = page.slots.get_mut(slot)?;
        if place.next_vacant().is_some() {
            return None;
        }
        let value = std::mem::replace(place, T::vacant(page.free));
        page.free = slot as u32;
        page.live -= 1;
        let emptied = page.live == 0;
        if emptied {
            // Forgetting the free list lets the page be filled in order again.
            page.slots.clear();
            page.free = NIL;
        }
        if let Some(rest) = rest {
            rest.live -= 1;
            rest.room.insert(number);
            if emptied {
                self.page_emptied(number);
            }
        }
        Some(value)
    }

    /// The value behind a handle; `None` if the handle is free or was never
    /// given out. O(1): page, bounds, slot, and a look at the slot itself.
    #[inline]
    pub fn get(&self, handle: u32) -> Option<&T> {
        let (number, slot) = Self::split(handle);
        let value = self.pages.get(number)?.slots.get(slot)?;
        if value.next_vacant().is_some() {
            return None;
        }
        Some(value)
    }

    /// As [`Slab::get`], to be changed.
    #[inline]
    pub fn get_mut(&mut self, handle: u32) -> Option<&mut T> {
        let (number, slot) = Self::split(handle);
        let value = self.pages.get_mut(number)?.slots.get_mut(slot)?;
        if value.next_vacant().is_some() {
            return None;
        }
        Some(value)
    }

    /// How many values are stored.
    pub fn len(&self) -> usize {
        match &self.pages {
            Pages::One(page) => page.live as usize,
            Pages::Many(_, rest) => rest.live as usize,
        }
    }

    /// Whether nothing is stored.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Bytes of all slots with memory.
    fn slot_bytes(&self) -> usize {
        match &self.pages {
            Pages::One(page) => page.bytes(),
            Pages::Many(_, rest) => rest.slot_bytes,
        }
    }

    /// Bytes on the heap, from the capacities of all parts and as an allocator
    /// rounds them up. What the values themselves own is not in it. O(1).
    pub fn bytes(&self) -> usize {
        match &self.pages {
            Pages::One(_) => self.slot_bytes(),
            Pages::Many(pages, rest) => {
                rest.slot_bytes
                    + allocated(size_of_val(&**pages))
                    + allocated(size_of::<Rest>())
                    + rest.room.bytes()
            }
        }
    }

    /// One past the highest handle that can be in use; 0 when there is none. A
    /// scan goes down from here, so that values that are moved to lower handles
    /// meanwhile are met later or twice, never missed. O(1).
    pub fn end(&self) -> u32 {
        let pages = self.pages.all();
        pages.last().map_or(0, |last| {
            Self::join(pages.len() - 1, 0) + last.slots.len() as u32
        })
    }

    /// The next bound of a scan that goes down: the largest `j <= bound` so that
    /// `j - 1` lies in a page with values, 0 if there is none. Use it after each
    /// step, else holes cost a look per slot. O(empty pages skipped).
    pub fn skip_empty(&self, bound: u32) -> u32 {
        let mut bound = bound.min(self.end());
        while let Some(below) = bound.checked_sub(1) {
            let (number, _) = Self::split(below);
            let start = Self::join(number, 0);
            match self.pages.get(number) {
                Some(page) if page.live > 0 => return bound.min(start + page.slots.len() as u32),
                _ => bound = start,
            }
        }
        0
    }

    /// One of several pages has lost its last value: it becomes the spare or
    /// gives its memory back. The lower one of two stays, as that is where
    /// values go next.
    fn page_emptied(&mut self, number: usize) {
        let Pages::Many(_, rest) = &mut self.pages else {
            return;
        };
        if rest.spare == NIL {
            rest.spare = number as u32;
        } else {
            let keep = (rest.spare as usize).min(number);
            let give = (rest.spare as usize).max(number);
            rest.spare = keep as u32;
            self.give_back(give);
        }
        if let Pages::Many(_, rest) = &mut self.pages
            && rest.live == 0
            && rest.spare != 0
        {
            // The next value goes to page 0, so this page is of no use.
            let spare = std::mem::replace(&mut rest.spare, NIL);
            self.give_back(spare as usize);
        }
    }

    /// Gives the memory of an empty page, one of several, back and shortens the
    /// table. A page 0 that is left alone moves back into the slab.
    fn give_back(&mut self, number: usize) {
        let Pages::Many(pages, rest) = &mut self.pages else {
            return;
        };
        if let Some(page) = pages.get_mut(number) {
            rest.slot_bytes -= page.bytes();
            free_page(std::mem::take(&mut page.slots));
        }
        while let Some(last) = rest.pages.checked_sub(1)
            && pages
                .get(last)
                .is_none_or(|page| page.slots.capacity() == 0)
        {
            rest.pages = last;
            rest.room.remove(last);
        }
        if rest.pages < 2 {
            let page = pages.first_mut();
            let page = page.map_or(Page::new(), |page| std::mem::replace(page, Page::new()));
            self.pages = Pages::One(page);
        } else if rest.pages * 4 <= pages.len() {
            resize(pages, rest.pages * 2);
        }
    }

    /// Tests the invariants at the head of the file, in tests and debug builds only.
    /// O(slots).
    ///
    /// # Panics
    ///
    /// If one is broken.
    #[cfg(any(test, debug_assertions))]
    pub fn check(&self) {
        let mut live = 0;
        let mut bytes = 0;
        let pages = self.pages.all();
        for (number, page) in pages.iter().enumerate() {
            let occupied = page
                .slots
                .iter()
                .filter(|slot| slot.next_vacant().is_none())
                .count();
            assert_eq!(occupied, page.live as usize, "live count of page {number}");
            let mut free = 0;
            let mut slot = page.free;
            while slot != NIL {
                let next = page.slots.get(slot as usize).and_then(T::next_vacant);
                assert!(
                    next.is_some(),
                    "slot {slot} in the free list of page {number} is not free"
                );
                slot = next.unwrap_or(NIL);
                free += 1;
                assert!(
                    free <= Self::PAGE_SLOTS,
                    "the free list of page {number} is a ring"
                );
            }
            assert_eq!(occupied + free, page.slots.len(), "slots of page {number}");
            assert!(
                self.pages.rest().is_none_or(|rest| {
                    rest.room.contains(number) == (occupied < Self::PAGE_SLOTS)
                }),
                "room bit of page {number}"
            );
            assert!(
                page.slots.capacity() <= Self::PAGE_SLOTS,
                "capacity of page {number}"
            );
            if occupied == 0 && page.slots.capacity() > 0 {
                let spare = self.pages.rest().map_or(0, |rest| rest.spare);
                assert_eq!(
                    spare as usize, number,
                    "empty page {number} kept its memory"
                );
            }
            live += occupied;
            bytes += page.bytes();
        }
        assert_eq!(live, self.len(), "live count");
        assert_eq!(bytes, self.slot_bytes(), "bytes");
        assert!(
            pages.last().is_none_or(|last| last.slots.capacity() > 0),
            "the last page has no memory"
        );
        assert_eq!(
            pages.len() > 1,
            self.pages.rest().is_some(),
            "a table belongs to several pages"
        );
        assert!(
            self.pages
                .rest()
                .and_then(|rest| rest.room.first())
                .is_none_or(|number| number < pages.len()),
            "room beyond the last page"
        );
    }
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use super::*;
    use crate::testing::Run;

    /// A value with a reason to be dropped, or a free slot.
    #[derive(Debug, PartialEq)]
    enum Cell {
        Free(u32),
        Value(Box<u64>),
    }

    impl Vacant for Cell {
        fn vacant(next: u32) -> Self {
            Self::Free(next)
        }
        fn next_vacant(&self) -> Option<u32> {
            match self {
                Self::Free(next) => Some(*next),
                Self::Value(_) => None,
            }
        }
    }

    fn cell(value: u64) -> Cell {
        Cell::Value(Box::new(value))
    }

    #[test]
    fn nothing_is_allocated_before_the_first_value() {
        let slab: Slab<Cell> = Slab::new();
        assert_eq!(
            (slab.bytes(), slab.len(), slab.end(), slab.skip_empty(NIL)),
            (0, 0, 0, 0)
        );
        assert!(slab.get(0).is_none() && slab.get(NIL).is_none());
        slab.check();
    }

    #[test]
    fn the_first_page_grows_by_halves_and_later_ones_come_whole() {
        let mut slab: Slab<Cell> = Slab::new();
        for count in 1..=2048_usize {
            assert_eq!(slab.insert(cell(count as u64)), Some(count as u32 - 1));
            let whole = count.next_power_of_two();
            let expected = if count <= whole / 4 * 3 {
                whole / 4 * 3
            } else {
                whole
            };
            assert_eq!(slab.slot_bytes(), expected * size_of::<Cell>());
        }
        let full = slab.slot_bytes();
        assert_eq!(slab.insert(cell(0)), Some(2048));
        assert_eq!(slab.slot_bytes(), 2 * full);
        assert_eq!(slab.end(), 2049);
        slab.check();
    }

    #[test]
    fn a_small_slab_is_small() {
        let mut slab: Slab<Cell> = Slab::new();
        slab.insert(cell(1));
        assert!(
            size_of_val(&slab) <= 32 && slab.bytes() <= allocated(size_of::<Cell>()),
            "{} and {} bytes",
            size_of_val(&slab),
            slab.bytes()
        );
    }

    #[test]
    fn values_go_to_the_lowest_page_with_room() {
        let mut slab: Slab<Cell, 2> = Slab::new();
        for value in 0..40 {
            slab.insert(cell(value));
        }
        // Row: free these, in this order; the next inserts get these handles.
        for (freed, given) in [
            (vec![37, 17, 6], vec![6, 17, 37, 40]),
            (vec![5, 4], vec![4, 5]),
            (vec![0, 1, 2, 3], vec![0, 1, 2, 3]),
        ] {
            for handle in freed {
                assert!(slab.remove(handle).is_some());
            }
            for handle in given {
                assert_eq!(slab.insert(cell(7)), Some(handle));
            }
            slab.check();
        }
    }

    #[test]
    fn one_empty_page_is_kept_and_the_rest_given_back() {
        let mut slab: Slab<Cell, 2> = Slab::new();
        for value in 0..16 {
            slab.insert(cell(value));
        }
        let page = 4 * size_of::<Cell>();
        assert_eq!(slab.slot_bytes(), 4 * page);
        // Swinging around a boundary allocates nothing.
        for _ in 0..10 {
            for handle in 12..16 {
                slab.remove(handle);
            }
            assert_eq!(slab.slot_bytes(), 4 * page);
            for handle in 12..16 {
                assert_eq!(slab.insert(cell(1)), Some(handle));
            }
        }
        for handle in 4..12 {
            slab.remove(handle);
        }
        assert_eq!(
            slab.slot_bytes(),
            3 * page,
            "page 1 is the spare, page 2 is gone"
        );
        assert_eq!(
            (
                slab.skip_empty(12),
                slab.skip_empty(13),
                slab.skip_empty(NIL)
            ),
            (4, 13, 16)
        );
        for handle in 12..16 {
            slab.remove(handle);
        }
        assert_eq!((slab.slot_bytes(), slab.end()), (2 * page, 4));
        for handle in 0..4 {
            slab.remove(handle);
        }
        assert_eq!((slab.slot_bytes(), slab.end()), (page, 0));
        assert!(slab.pages.rest().is_none(), "the table goes too");
        slab.check();
    }

    #[test]
    fn a_full_slab_says_so_and_takes_values_again_when_one_is_freed() {
        let mut slab: Slab<Cell, 2> = Slab::new();
        for handle in 0..8 {
            assert_eq!(slab.insert_within(cell(1), 2), Some(handle));
        }
        assert_eq!(slab.insert_within(cell(1), 2), None);
        slab.remove(3);
        assert_eq!(slab.insert_within(cell(1), 2), Some(3));
        assert!(Slab::<Cell>::PAGES_MAX as u64 * 2048 < u64::from(NIL));
        assert!(Slab::<Cell, 1>::PAGES_MAX as u64 * 2 < u64::from(NIL) + 1);
    }

    #[test]
    fn a_handle_that_is_free_or_unknown_is_refused() {
        let mut slab: Slab<Cell> = Slab::new();
        let handle = slab.insert(cell(5)).unwrap();
        let other = slab.insert(cell(6)).unwrap();
        assert_eq!(slab.remove(handle), Some(cell(5)));
        assert_eq!(slab.remove(handle), None);
        assert!(slab.get(handle).is_none() && slab.get_mut(handle).is_none());
        for unknown in [2, 2047, 2048, NIL - 1, NIL] {
            assert_eq!(slab.remove(unknown), None);
            assert!(slab.get(unknown).is_none());
        }
        assert_eq!(slab.get(other), Some(&cell(6)));
    }

    #[test]
    fn a_page_set_knows_its_smallest_page() {
        let mut run = Run::new();
        let mut set = PageSet::new();
        let mut model = BTreeSet::new();
        while run.step < run.steps / 5 {
            run.step += 1;
            let spread = [64, 4096, 100_000][run.random.below(3) as usize];
            let page = run.random.below(spread) as usize;
            if run.random.below(3) == 0 {
                set.insert(page);
                model.insert(page);
            } else {
                let page = model.first().copied().unwrap_or(page);
                set.remove(page);
                model.remove(&page);
            }
            assert_eq!(set.first(), model.first().copied());
        }
    }

    /// Random inserts and removes against a map, in waves so that pages empty.
    fn random_against_a_map<const PAGE_BITS: u32>(values_max: usize, check_every: u64) {
        let mut run = Run::new();
        let mut slab: Slab<Cell, PAGE_BITS> = Slab::new();
        let mut model: BTreeMap<u32, u64> = BTreeMap::new();
        let mut growing = true;
        while run.step < run.steps {
            run.step += 1;
            if model.is_empty() {
                growing = true;
            } else if model.len() >= values_max {
                growing = false;
            }
            if run.random.below(8) < if growing { 6 } else { 2 } {
                let value = run.random.next();
                let handle = slab.insert(cell(value)).unwrap();
                assert!(
                    model.insert(handle, value).is_none(),
                    "handle {handle} given out twice"
                );
            } else {
                let handle = run.random.below(u64::from(slab.end()) + 2) as u32;
                // Half the time the nearest one in use, so that removals succeed.
                let handle = model
                    .range(handle..)
                    .next()
                    .map_or(handle, |(near, _)| *near);
                assert_eq!(slab.remove(handle), model.remove(&handle).map(cell));
            }
            let probe = run.random.below(u64::from(slab.end()) + 2) as u32;
            assert_eq!(
                slab.get(probe),
                model.get(&probe).copied().map(cell).as_ref()
            );
            assert_eq!(slab.len(), model.len());
            if run.step.is_multiple_of(check_every) {
                slab.check();
                // A scan from high to low meets everything, in order.
                let mut met = Vec::new();
                let mut bound = slab.skip_empty(NIL);
                while bound > 0 {
                    bound -= 1;
                    met.extend(slab.get(bound).map(|_| bound));
                    bound = slab.skip_empty(bound);
                }
                assert!(met.iter().eq(model.keys().rev()));
            }
        }
        slab = Slab::new();
        assert_eq!((slab.len(), slab.bytes()), (0, 0));
    }

    #[test]
    fn random_operations_with_tiny_pages() {
        random_against_a_map::<1>(200, 97);
        random_against_a_map::<3>(2000, 997);
    }

    #[test]
    fn random_operations_with_the_usual_pages() {
        random_against_a_map::<11>(20_000, 9973);
    }
}
