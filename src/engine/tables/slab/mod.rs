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

#[cfg(any(test, debug_assertions))]
mod check;
mod page_set;
mod pages;
pub mod tight;

use super::NIL;
use super::memory::{allocated, free_page, growth};
use page_set::PageSet;
use pages::{Page, Pages, Rest, resize};

/// A value that can say that its slot is free.
///
/// A free slot holds the next free slot of its own page, or [`NIL`].
pub trait Vacant: Sized {
    /// A free slot whose successor in the page's free list is `next`.
    fn vacant(next: u32) -> Self;
    /// The successor if the slot is free (it may be [`NIL`]), `None` if it is occupied.
    fn next_vacant(&self) -> Option<u32>;
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
}

#[cfg(test)]
mod tests;
