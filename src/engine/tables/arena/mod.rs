//! An arena for byte blocks of any size behind `u32` handles.
//!
//! Ids, payloads and the rest of what an order carries are byte strings of a few
//! dozen bytes, by the million. Boxed one by one they cost a pointer of eight
//! bytes each and whatever the server's allocator rounds up to (32 bytes for an
//! id of 20). Here a handle costs four bytes and a block is rounded up to eight.
//!
//! ```text
//!   handle = page number << 13 | unit          (a unit is 8 bytes)
//!
//!   table      chunks of 1024 page heads, so that no growth copies more than 40 KiB
//!     │
//!     ├─► page of blocks of 24 ─► [24][24][free──┐][24][free◄┘]┄┄   up to 64 KiB
//!     ├─► page of blocks of 80 ─► [80][80][80]┄┄
//!     ├─► page of one block of 20 000 bytes
//!     └─► page without memory, in the list of free page numbers
//! ```
//!
//! A page holds blocks of one size class: steps of 8 bytes up to 128, then eight
//! steps a doubling (12.5 % and less) up to 8 KiB. A larger block has a page of
//! its own, allocated exactly. The first page of a class grows from one block by
//! halves, so that a queue with three orders stays small; later pages are
//! allocated whole. As long as one page is enough, its head stands in the arena
//! itself and there is no table: 32 bytes in all. Pages of a class with room are a doubly linked list through
//! the page heads. An empty page is given back, but for one spare as long as
//! other pages of its class are in use; the class's last block takes all with it.
//!
//! Handles address 2^32 units, 64 KiB of them to a page: 32 GiB of small blocks,
//! or half a million large ones.
//!
//! Invariants ([`Arena::check`] tests them): a page's `live` is the number of its
//! blocks in use; every block below the filled mark is in use or in the page's
//! free list; a page of a class is in the class's list exactly when it has room
//! and a block in use; the spare of a class is empty.
//!
//! Deliberately absent: the length of what a block holds (the caller's own header
//! in the block says it) and alignment (blocks are bytes). An arena that has shrunk
//! is made smaller in steps, see [`tight`].

mod classes;
mod many;
mod page;
mod tight;

use super::memory::allocated;
use classes::{CLASS_BYTES_MAX, block_bytes, class_of};
use many::{Class, Many, Rest};
use page::{Page, UNIT_BITS, split};

/// The largest block: 16 MiB.
pub const BLOCK_BYTES_MAX: usize = 1 << 24;

/// Pages that can be addressed; the last one would hold the handle [`NIL`](super::NIL).
const PAGES_MAX: u32 = (1 << (32 - UNIT_BITS)) - 1;

/// Pages that can be addressed; in tests as many as the test says.
fn pages_max() -> u32 {
    #[cfg(test)]
    let max = testing::pages_max();
    #[cfg(not(test))]
    let max = PAGES_MAX;
    max
}

/// A small arena for tests of what happens when it is full.
#[cfg(test)]
pub(in crate::engine) mod testing {
    use std::cell::Cell;

    thread_local! {
        /// See [`set_pages_max`].
        static MAX: Cell<u32> = const { Cell::new(super::PAGES_MAX) };
    }

    /// Limits all arenas of this thread, each thread runs one test.
    pub(in crate::engine) fn set_pages_max(pages: u32) {
        MAX.set(pages);
    }

    /// The limit.
    pub(super) fn pages_max() -> u32 {
        MAX.get()
    }
}

/// See [`Arena::is_nearly_full`].
const PAGES_KEPT_BACK: u32 = 4096;

/// The pages of an arena.
#[derive(Debug)]
enum Pages {
    /// At most one page, number 0; without memory it is none.
    One(Page),
    /// A table of pages.
    Many(Many),
}

/// The arena; see the head of the file.
#[derive(Debug)]
pub struct Arena {
    /// The pages.
    pages: Pages,
}

impl Default for Arena {
    fn default() -> Self {
        Self::new()
    }
}

impl Arena {
    /// An empty arena, without allocation.
    pub const fn new() -> Self {
        Self {
            pages: Pages::One(Page::new()),
        }
    }

    /// Stores the concatenation of `parts` and returns its handle. `None` if
    /// that is more than [`BLOCK_BYTES_MAX`] or all handles are in use. What is
    /// left of the block behind the parts is zero. O(bytes), and at worst the
    /// allocation of a page or the copy of half of one.
    pub fn insert(&mut self, parts: &[&[u8]]) -> Option<u32> {
        let len = parts
            .iter()
            .fold(0_usize, |len, part| len.saturating_add(part.len()));
        if len > BLOCK_BYTES_MAX {
            return None;
        }
        if let Pages::One(page) = &mut self.pages {
            if page.block == 0 && len > CLASS_BYTES_MAX {
                page.put_large(parts, len);
                return Some(0);
            }
            let block = if len > CLASS_BYTES_MAX {
                len
            } else {
                block_bytes(class_of(len))
            };
            if page.block == 0 {
                page.block = block as u32;
            }
            if page.block as usize == block && block <= CLASS_BYTES_MAX && !page.is_full() {
                return page.put(parts, true).map(|unit| unit as u32);
            }
            let page = std::mem::replace(page, Page::new());
            self.pages = Pages::Many(Many::of(page));
        }
        let Pages::Many(many) = &mut self.pages else {
            return None;
        };
        if len > CLASS_BYTES_MAX {
            many.insert_large(parts, len)
        } else {
            many.insert_small(parts, len)
        }
    }

    /// The block behind a handle: as long as its class, or as it was made if it
    /// is larger than 8 KiB. Empty for a handle that lies nowhere; a handle that
    /// was never given out but lies in a page is answered with whatever is there.
    #[inline]
    pub fn get(&self, handle: u32) -> &[u8] {
        let (number, unit) = split(handle);
        self.page(number)
            .and_then(|page| page.data.get(page.range(unit)))
            .unwrap_or_default()
    }

    /// As [`Arena::get`], to be changed.
    #[inline]
    pub fn get_mut(&mut self, handle: u32) -> &mut [u8] {
        let (number, unit) = split(handle);
        self.page_mut(number)
            .and_then(|page| {
                let range = page.range(unit);
                page.data.get_mut(range)
            })
            .unwrap_or_default()
    }

    /// Frees a block; false if there is none at this handle. Freeing a block a
    /// second time is a mistake that only debug builds notice. O(1).
    pub fn remove(&mut self, handle: u32) -> bool {
        let (number, unit) = split(handle);
        let (removed, is_empty) = match &mut self.pages {
            Pages::One(page) => {
                if number != 0 || !page.holds(unit) {
                    return false;
                }
                if page.block as usize <= CLASS_BYTES_MAX {
                    page.take(unit);
                } else {
                    page.live = 0;
                }
                (true, page.live == 0)
            }
            Pages::Many(many) => (many.remove(number, unit), many.rest.mapped == 0),
        };
        if is_empty {
            self.clear();
        }
        removed
    }

    /// Whether so many pages are in use that large blocks may soon find none. The
    /// pages kept back are for what changes, not for what is new.
    pub fn is_nearly_full(&self) -> bool {
        self.is_nearly_full_after(0)
    }

    /// Whether it may be nearly full once so many more blocks are in it, each of which
    /// may need a page of its own.
    pub fn is_nearly_full_after(&self, blocks: usize) -> bool {
        match &self.pages {
            Pages::One(_) => false,
            Pages::Many(many) => {
                let blocks = u32::try_from(blocks).unwrap_or(u32::MAX);
                let most = pages_max().saturating_sub(PAGES_KEPT_BACK);
                many.rest.mapped.saturating_add(blocks) >= most
            }
        }
    }

    /// Bytes of all pages.
    #[cfg(test)]
    fn data_bytes(&self) -> usize {
        match &self.pages {
            Pages::One(page) => page.data.capacity(),
            Pages::Many(many) => many.rest.data_bytes,
        }
    }

    /// Bytes on the heap, from the capacities of all parts; of a small arena as
    /// an allocator rounds them up. O(1).
    pub fn bytes(&self) -> usize {
        match &self.pages {
            Pages::One(page) => allocated(page.data.capacity()),
            Pages::Many(many) => {
                many.rest.data_bytes
                    + many.rest.chunk_bytes
                    + allocated(size_of_val(&*many.chunks))
                    + allocated(many.rest.classes.capacity() * size_of::<Class>())
                    + allocated(size_of::<Rest>())
            }
        }
    }

    /// Frees all blocks and gives all memory back. O(pages).
    pub fn clear(&mut self) {
        *self = Self::new();
    }

    /// The head of a page.
    #[inline]
    fn page(&self, number: u32) -> Option<&Page> {
        match &self.pages {
            Pages::One(page) => (number == 0).then_some(page),
            Pages::Many(many) => many.page(number),
        }
    }

    /// The head of a page, to be changed.
    #[inline]
    fn page_mut(&mut self, number: u32) -> Option<&mut Page> {
        match &mut self.pages {
            Pages::One(page) => (number == 0).then_some(page),
            Pages::Many(many) => many.page_mut(number),
        }
    }

    /// Tests the invariants at the head of the file, in tests and debug builds only.
    /// O(blocks).
    ///
    /// # Panics
    ///
    /// If one is broken.
    #[cfg(any(test, debug_assertions))]
    pub fn check(&self) {
        match &self.pages {
            Pages::One(page) if page.block as usize <= CLASS_BYTES_MAX => {
                assert_eq!(page.live == 0, page.data.capacity() == 0);
                assert_eq!(page.live == 0, page.block == 0);
                page.check(0);
            }
            Pages::One(page) => assert_eq!(page.live, 1, "one large block"),
            Pages::Many(many) => many.check(),
        }
    }
}

#[cfg(test)]
mod tests;
