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

mod tight;

use super::NIL;
use super::memory::{allocated, free_page, growth};

/// The largest block: 16 MiB.
pub const BLOCK_BYTES_MAX: usize = 1 << 24;
/// The largest block that shares a page with others.
const CLASS_BYTES_MAX: usize = 1 << 13;
/// Bytes of a page.
const PAGE_BYTES: usize = 1 << 16;
/// Bytes of a unit, in which blocks are placed and sized.
const UNIT_BYTES: usize = 8;
/// Units of a page, as a power of two.
const UNIT_BITS: u32 = 13;
/// Pages that can be addressed; the last one would hold the handle [`NIL`].
const PAGES_MAX: u32 = (1 << (32 - UNIT_BITS)) - 1;
/// Pages that can be addressed; in tests as many as the test says.
#[cfg(not(test))]
const fn pages_max() -> u32 {
    PAGES_MAX
}
#[cfg(test)]
use testing::pages_max;

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
/// Page heads of a chunk of the table, as a power of two.
const CHUNK_BITS: u32 = 10;
/// Page heads of a chunk of the table.
const CHUNK_PAGES: usize = 1 << CHUNK_BITS;
/// The end of a page's free list; units are below 8192.
const NO_UNIT: u16 = u16::MAX;
/// What a free block holds behind its link, so that a second removal is noticed
/// in debug builds.
const FREE_MARK: [u8; 6] = *b"\xfffree\xff";

/// The class of a block of `len` bytes, 0 to 63; `len` is at most [`CLASS_BYTES_MAX`].
const fn class_of(len: usize) -> u32 {
    let units = len.div_ceil(UNIT_BYTES) as u32;
    if units <= 16 {
        return units.saturating_sub(1);
    }
    // The eighth of its doubling that the last unit lies in.
    let doubling = (units - 1).ilog2();
    let eighth = ((units - 1) >> (doubling - 3)) & 7;
    16 + (doubling - 4) * 8 + eighth
}

/// Bytes of a block of a class.
const fn block_bytes(class: u32) -> usize {
    if class < 16 {
        return (class as usize + 1) * UNIT_BYTES;
    }
    let doubling = (class - 16) / 8 + 4;
    let eighth = (class - 16) % 8;
    (((8 + eighth + 1) as usize) << (doubling - 3)) * UNIT_BYTES
}

/// Bytes of all blocks that fit into a page.
const fn full_bytes(block: usize) -> usize {
    PAGE_BYTES / block * block
}

/// The head of a page, 40 bytes: the page and its place among others.
#[derive(Debug)]
struct Head {
    /// The page.
    page: Page,
    /// Next page with room of the class, next free page number, or [`NIL`].
    next: u32,
    /// The page before with room of the class, or [`NIL`].
    prev: u32,
}

impl Head {
    /// The head of a page that is in no list.
    const fn of(page: Page) -> Self {
        Self {
            page,
            next: NIL,
            prev: NIL,
        }
    }
}

/// A page.
#[derive(Debug)]
struct Page {
    /// The blocks filled so far; its capacity is the page's memory.
    data: Vec<u8>,
    /// Bytes of a block; above [`CLASS_BYTES_MAX`] the page is one block, 0: it has no memory.
    block: u32,
    /// Blocks in use.
    live: u16,
    /// Unit of the first free block, or [`NO_UNIT`].
    free: u16,
}

impl Page {
    /// A page without memory.
    const fn new() -> Self {
        Self {
            data: Vec::new(),
            block: 0,
            live: 0,
            free: NO_UNIT,
        }
    }

    /// Whether every block is in use. For pages of a class.
    fn is_full(&self) -> bool {
        self.free == NO_UNIT && self.data.len() >= full_bytes((self.block as usize).max(1))
    }

    /// The bytes of the block at `unit`.
    #[inline]
    fn range(&self, unit: usize) -> std::ops::Range<usize> {
        let start = unit * UNIT_BYTES;
        start..start + self.block as usize
    }

    /// Whether a block in use begins at `unit`, as far as can be told in O(1).
    fn holds(&self, unit: usize) -> bool {
        let range = self.range(unit);
        self.block > 0
            && self.live > 0
            && range.start.is_multiple_of(self.block as usize)
            && range.end <= self.data.len()
    }

    /// Whether the block at `unit` is in the free list. O(free blocks).
    fn is_free(&self, unit: usize) -> bool {
        let mut free = self.free;
        while free != NO_UNIT {
            if usize::from(free) == unit {
                return true;
            }
            free = self.link(free);
        }
        false
    }

    /// Stores a block and returns its unit. The page has room; a page that has
    /// not its full size yet grows by halves if it is `small`, else to that.
    fn put(&mut self, parts: &[&[u8]], small: bool) -> Option<usize> {
        let block = self.block as usize;
        let unit = if self.free == NO_UNIT {
            let start = self.data.len();
            let before = self.data.capacity();
            if start + block > before {
                let full = full_bytes(block);
                let grown = if before > 0 || small {
                    let blocks = before / block.max(1);
                    ((blocks + growth(blocks)) * block).min(full)
                } else {
                    full
                };
                self.data.reserve_exact(grown.saturating_sub(start));
            }
            for part in parts {
                self.data.extend_from_slice(part);
            }
            self.data.resize(start + block, 0);
            start / UNIT_BYTES
        } else {
            let unit = usize::from(self.free);
            self.free = self.link(self.free);
            let range = self.range(unit);
            let mut rest = self.data.get_mut(range)?;
            for part in parts {
                let (place, behind) = rest.split_at_mut_checked(part.len())?;
                place.copy_from_slice(part);
                rest = behind;
            }
            rest.fill(0);
            unit
        };
        self.live += 1;
        Some(unit)
    }

    /// Stores the one block of a page that is all of it.
    fn put_large(&mut self, parts: &[&[u8]], len: usize) {
        self.data.reserve_exact(len);
        for part in parts {
            self.data.extend_from_slice(part);
        }
        self.block = len as u32;
        self.live = 1;
    }

    /// Frees the block at `unit`, which [`Page::holds`], of a class.
    fn take(&mut self, unit: usize) {
        let range = self.range(unit);
        if cfg!(debug_assertions)
            && self.data.get(range.start + 2..range.start + 8) == Some(&FREE_MARK)
        {
            debug_assert!(!self.is_free(unit), "block at unit {unit} freed twice");
        }
        let link = self.free.to_le_bytes();
        if let Some(block) = self.data.get_mut(range)
            && let Some((place, rest)) = block.split_first_chunk_mut::<2>()
        {
            *place = link;
            if let (true, Some(mark)) = (cfg!(debug_assertions), rest.first_chunk_mut()) {
                *mark = FREE_MARK;
            }
        }
        self.free = unit as u16;
        self.live -= 1;
    }

    /// Tests the free list of a page of a class.
    #[cfg(any(test, debug_assertions))]
    fn check(&self, number: u32) {
        let mut free = 0;
        let mut unit = self.free;
        while unit != NO_UNIT {
            assert!(
                (usize::from(unit) * UNIT_BYTES).is_multiple_of(self.block as usize),
                "free block of page {number}"
            );
            free += 1;
            assert!(
                free <= PAGE_BYTES,
                "the free list of page {number} is a ring"
            );
            unit = self.link(unit);
        }
        assert_eq!(
            usize::from(self.live) + free,
            self.data.len() / (self.block as usize).max(1),
            "blocks of page {number}"
        );
    }

    /// The free block behind the free block at `unit`.
    fn link(&self, unit: u16) -> u16 {
        match self.data.get(self.range(usize::from(unit))) {
            Some([low, high, ..]) => u16::from_le_bytes([*low, *high]),
            _ => NO_UNIT,
        }
    }
}

/// What is known of the pages of a class.
#[derive(Clone, Copy, Debug)]
struct Class {
    /// First page with room and a block in use, or [`NIL`].
    room: u32,
    /// The empty page that keeps its memory, or [`NIL`].
    spare: u32,
    /// Pages with memory, the spare among them.
    pages: u32,
    /// Blocks in use.
    live: u32,
    /// Bytes of its pages.
    bytes: usize,
}

/// What is to be known of several pages.
#[derive(Debug)]
struct Rest {
    /// Bytes of the chunks.
    chunk_bytes: usize,
    /// The classes that were ever used, in order of size.
    classes: Vec<Class>,
    /// Bit `c`: class `c` is among `classes`.
    used: u64,
    /// Page heads in the table.
    pages: u32,
    /// First page number without memory, or [`NIL`].
    free_pages: u32,
    /// Pages with memory.
    mapped: u32,
    /// Bytes of all pages.
    data_bytes: usize,
}

/// An arena of several pages.
#[derive(Debug)]
struct Many {
    /// The page heads: all chunks but the last are full.
    chunks: Box<[Vec<Head>]>,
    /// What is known of them.
    rest: Box<Rest>,
}

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

/// Page number and unit of a handle.
const fn split(handle: u32) -> (u32, usize) {
    (
        handle >> UNIT_BITS,
        (handle & ((1 << UNIT_BITS) - 1)) as usize,
    )
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
        match &self.pages {
            Pages::One(_) => false,
            Pages::Many(many) => many.rest.mapped >= pages_max().saturating_sub(PAGES_KEPT_BACK),
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

impl Many {
    /// A table of one page, in use.
    fn of(page: Page) -> Self {
        let large = page.block as usize > CLASS_BYTES_MAX;
        let has_room = !large && !page.is_full();
        let data_bytes = page.data.capacity();
        let (mut classes, mut used) = (Vec::new(), 0);
        if !large {
            used = 1 << class_of(page.block as usize);
            classes.reserve_exact(2);
            classes.push(Class {
                room: if has_room { 0 } else { NIL },
                spare: NIL,
                pages: 1,
                live: u32::from(page.live),
                bytes: data_bytes,
            });
        }
        let mut chunk = Vec::with_capacity(2);
        chunk.push(Head::of(page));
        let chunk_bytes = chunk.capacity() * size_of::<Head>();
        Self {
            chunks: Box::new([chunk]),
            rest: Box::new(Rest {
                chunk_bytes,
                classes,
                used,
                pages: 1,
                free_pages: NIL,
                mapped: 1,
                data_bytes,
            }),
        }
    }

    /// A page.
    #[inline]
    fn page(&self, number: u32) -> Option<&Page> {
        Some(&self.head(number)?.page)
    }

    /// A page, to be changed.
    #[inline]
    fn page_mut(&mut self, number: u32) -> Option<&mut Page> {
        Some(&mut self.head_mut(number)?.page)
    }

    /// The head of a page.
    #[inline]
    fn head(&self, number: u32) -> Option<&Head> {
        self.chunks
            .get((number >> CHUNK_BITS) as usize)?
            .get(number as usize & (CHUNK_PAGES - 1))
    }

    /// The head of a page, to be changed.
    #[inline]
    fn head_mut(&mut self, number: u32) -> Option<&mut Head> {
        self.chunks
            .get_mut((number >> CHUNK_BITS) as usize)?
            .get_mut(number as usize & (CHUNK_PAGES - 1))
    }

    /// See [`Arena::remove`].
    fn remove(&mut self, number: u32, unit: usize) -> bool {
        let Some(page) = self.page_mut(number) else {
            return false;
        };
        if !page.holds(unit) {
            return false;
        }
        if page.block as usize > CLASS_BYTES_MAX {
            self.give_back(number);
            return true;
        }
        let class = class_of(page.block as usize);
        let was_full = page.is_full();
        page.take(unit);
        let is_empty = page.live == 0;
        if let Some(state) = self.class_mut(class) {
            state.live -= 1;
        }
        if is_empty {
            if !was_full {
                self.unlink(number, class);
            }
            self.page_emptied(number, class);
        } else if was_full {
            self.link(number, class);
        }
        true
    }

    /// Place of a class among those in use.
    const fn rank(&self, class: u32) -> usize {
        (self.rest.used & ((1 << class) - 1)).count_ones() as usize
    }

    /// What is known of a class, made if it was not used before.
    fn class_mut(&mut self, class: u32) -> Option<&mut Class> {
        let rank = self.rank(class);
        if self.rest.used & (1 << class) == 0 {
            if self.rest.classes.len() == self.rest.classes.capacity() {
                self.rest
                    .classes
                    .reserve_exact(self.rest.classes.len().max(1));
            }
            self.rest.classes.insert(
                rank,
                Class {
                    room: NIL,
                    spare: NIL,
                    pages: 0,
                    live: 0,
                    bytes: 0,
                },
            );
            self.rest.used |= 1 << class;
        }
        self.rest.classes.get_mut(rank)
    }

    /// Stores a block that shares a page.
    fn insert_small(&mut self, parts: &[&[u8]], len: usize) -> Option<u32> {
        let class = class_of(len);
        let block = block_bytes(class);
        let state = *self.class_mut(class)?;
        let number = match (state.room, state.spare) {
            (NIL, NIL) => {
                let number = self.take_page()?;
                self.class_mut(class)?.pages += 1;
                self.page_mut(number)?.block = block as u32;
                self.link(number, class);
                number
            }
            (NIL, spare) => {
                self.class_mut(class)?.spare = NIL;
                self.link(spare, class);
                spare
            }
            (room, _) => room,
        };
        let page = self.page_mut(number)?;
        let before = page.data.capacity();
        let unit = page.put(parts, state.pages == 0)?;
        let more = page.data.capacity() - before;
        let full = page.is_full();
        self.rest.data_bytes += more;
        let state = self.class_mut(class)?;
        state.live += 1;
        state.bytes += more;
        if full {
            self.unlink(number, class);
        }
        Some(number << UNIT_BITS | unit as u32)
    }

    /// Stores a block that has a page of its own.
    fn insert_large(&mut self, parts: &[&[u8]], len: usize) -> Option<u32> {
        let number = self.take_page()?;
        let page = self.page_mut(number)?;
        page.put_large(parts, len);
        let bytes = page.data.capacity();
        self.rest.data_bytes += bytes;
        Some(number << UNIT_BITS)
    }

    /// A page number without memory, `None` if all are in use.
    fn take_page(&mut self) -> Option<u32> {
        if self.rest.free_pages != NIL {
            let number = self.rest.free_pages;
            let head = self.head_mut(number)?;
            let next = head.next;
            *head = Head::of(Page::new());
            self.rest.free_pages = next;
            self.rest.mapped += 1;
            return Some(number);
        }
        if self.rest.pages >= pages_max() {
            return None;
        }
        if self
            .chunks
            .last()
            .is_none_or(|chunk| chunk.len() == CHUNK_PAGES)
        {
            // Once in 64 MiB.
            let mut chunks = std::mem::take(&mut self.chunks).into_vec();
            chunks.reserve_exact(1);
            chunks.push(Vec::new());
            self.chunks = chunks.into_boxed_slice();
        }
        let first = self.chunks.len() == 1;
        let chunk = self.chunks.last_mut()?;
        let before = chunk.capacity();
        if chunk.len() == before {
            chunk.reserve_exact(if first {
                before.clamp(1, CHUNK_PAGES / 2)
            } else {
                CHUNK_PAGES
            });
            self.rest.chunk_bytes += (chunk.capacity() - before) * size_of::<Head>();
        }
        chunk.push(Head::of(Page::new()));
        self.rest.pages += 1;
        self.rest.mapped += 1;
        Some(self.rest.pages - 1)
    }

    /// Gives the memory of a page back and frees its number. With the last page
    /// the arena gives up the table.
    fn give_back(&mut self, number: u32) {
        let free_pages = self.rest.free_pages;
        let Some(head) = self.head_mut(number) else {
            return;
        };
        let bytes = head.page.data.capacity();
        free_page(std::mem::take(&mut head.page.data));
        *head = Head {
            next: free_pages,
            ..Head::of(Page::new())
        };
        self.rest.free_pages = number;
        self.rest.data_bytes -= bytes;
        self.rest.mapped -= 1;
    }

    /// A page of a class, in no list, has lost its last block: it becomes the
    /// spare or is given back.
    fn page_emptied(&mut self, number: u32, class: u32) {
        if let Some(page) = self.page_mut(number) {
            // Forgetting the free list lets the page be filled in order again.
            page.data.clear();
            page.free = NO_UNIT;
        }
        let Some(state) = self.class_mut(class) else {
            return;
        };
        let spare = state.spare;
        let in_use = state.pages - u32::from(spare != NIL) - 1;
        if in_use > 0 && spare == NIL {
            state.spare = number;
            return;
        }
        if in_use == 0 && spare != NIL {
            state.spare = NIL;
            self.drop_page(spare, class);
        }
        self.drop_page(number, class);
    }

    /// Gives an empty page of a class back, which is in no list.
    fn drop_page(&mut self, number: u32, class: u32) {
        let bytes = self.page(number).map_or(0, |page| page.data.capacity());
        if let Some(state) = self.class_mut(class) {
            state.pages -= 1;
            state.bytes -= bytes;
        }
        self.give_back(number);
    }

    /// Puts a page at the front of its class's list of pages with room.
    fn link(&mut self, number: u32, class: u32) {
        let Some(state) = self.class_mut(class) else {
            return;
        };
        let next = state.room;
        state.room = number;
        if let Some(head) = self.head_mut(number) {
            head.prev = NIL;
            head.next = next;
        }
        if let Some(head) = self.head_mut(next) {
            head.prev = number;
        }
    }

    /// Takes a page out of its class's list of pages with room.
    fn unlink(&mut self, number: u32, class: u32) {
        let Some(head) = self.head_mut(number) else {
            return;
        };
        let (prev, next) = (head.prev, head.next);
        head.prev = NIL;
        head.next = NIL;
        if let Some(head) = self.head_mut(prev) {
            head.next = next;
        } else if let Some(state) = self.class_mut(class) {
            state.room = next;
        }
        if let Some(head) = self.head_mut(next) {
            head.prev = prev;
        }
    }

    /// See [`Arena::check`].
    #[cfg(any(test, debug_assertions))]
    fn check(&self) {
        let mut in_lists = std::collections::BTreeSet::new();
        for class in (0..64).filter(|class| self.rest.used & (1 << class) != 0) {
            let Some(state) = self.rest.classes.get(self.rank(class)) else {
                continue;
            };
            let mut before = NIL;
            let mut number = state.room;
            while let Some(head) = self.head(number) {
                let page = &head.page;
                assert_eq!(
                    page.block as usize,
                    block_bytes(class),
                    "block size of page {number}"
                );
                assert_eq!(head.prev, before, "link back from page {number}");
                assert!(in_lists.insert(number), "page {number} is in a list twice");
                assert!(
                    page.live > 0 && !page.is_full(),
                    "page {number} is not one with room"
                );
                before = number;
                number = head.next;
            }
            if let Some(page) = self.page(state.spare) {
                assert!(
                    page.live == 0 && page.data.is_empty(),
                    "the spare page {} is in use",
                    state.spare
                );
            }
            let pages = self.chunks.iter().flatten().map(|head| &head.page);
            let (mut count, mut live, mut bytes) = (0, 0, 0);
            for page in pages.filter(|page| page.block as usize == block_bytes(class)) {
                count += 1;
                live += u32::from(page.live);
                bytes += page.data.capacity();
            }
            assert_eq!(
                (count, live, bytes),
                (state.pages, state.live, state.bytes),
                "pages, blocks and bytes of class {class}"
            );
        }
        assert_eq!(
            self.rest.classes.len(),
            self.rest.used.count_ones() as usize,
            "classes"
        );
        let (mut bytes, mut mapped, mut total) = (0, 0, 0);
        for (number, head) in (0..).zip(self.chunks.iter().flatten()) {
            let page = &head.page;
            total += 1;
            bytes += page.data.capacity();
            mapped += u32::from(page.block > 0);
            if page.block == 0 || page.block as usize > CLASS_BYTES_MAX {
                continue;
            }
            page.check(number);
            let listed = in_lists.contains(&number);
            assert_eq!(
                listed,
                page.live > 0 && !page.is_full(),
                "whether page {number} is listed"
            );
        }
        assert_eq!(
            (bytes, mapped, total),
            (self.rest.data_bytes, self.rest.mapped, self.rest.pages),
            "bytes, pages in use, pages"
        );
        let mut free = 0;
        let mut number = self.rest.free_pages;
        while let Some(head) = self.head(number) {
            free += 1;
            assert!(free <= total, "the list of free pages is a ring");
            number = head.next;
        }
        assert_eq!(free + mapped, total, "free page numbers");
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::*;
    use crate::testing::Run;

    #[test]
    fn each_length_has_the_smallest_class_that_holds_it() {
        assert_eq!(
            (0..16).map(block_bytes).collect::<Vec<_>>(),
            (1..=16).map(|units| units * 8).collect::<Vec<_>>()
        );
        assert_eq!(block_bytes(63), CLASS_BYTES_MAX);
        for class in 1..64 {
            let (below, this) = (block_bytes(class - 1), block_bytes(class));
            assert!(this > below && this % 8 == 0, "class {class}");
            assert!(
                this <= below + 8 || this * 8 <= below * 9,
                "step to class {class}: {below} to {this}"
            );
            assert_eq!((class_of(below + 1), class_of(this)), (class, class));
        }
        for len in 0..=CLASS_BYTES_MAX {
            let class = class_of(len);
            assert!(block_bytes(class) >= len.max(1));
            assert!(class == 0 || block_bytes(class - 1) < len, "length {len}");
        }
    }

    #[test]
    fn one_small_block_costs_what_an_allocator_makes_of_it() {
        let mut arena = Arena::new();
        assert_eq!(arena.bytes(), 0);
        let handle = arena
            .insert(&[b"0123456789", b"", b"01234567890123"])
            .unwrap();
        assert_eq!(arena.get(handle), b"012345678901234567890123");
        assert_eq!(size_of::<Head>(), 40);
        assert_eq!((size_of::<Arena>(), arena.bytes()), (32, 32));
        assert!(arena.remove(handle));
        assert_eq!(arena.bytes(), 0);
    }

    #[test]
    fn lengths_around_every_limit_come_back_as_they_were() {
        let mut arena = Arena::new();
        let mut kept = Vec::new();
        let limits = (0..64)
            .map(block_bytes)
            .chain([PAGE_BYTES, 1 << 20, BLOCK_BYTES_MAX]);
        for len in limits
            .flat_map(|limit| [limit - 1, limit, limit + 1])
            .chain([0])
        {
            let bytes: Vec<u8> = (0..len).map(|at| (at * 7 + len) as u8).collect();
            let handle = arena.insert(&[&bytes[..len / 3], &bytes[len / 3..]]);
            assert_eq!(handle.is_some(), len <= BLOCK_BYTES_MAX, "length {len}");
            kept.extend(handle.map(|handle| (handle, bytes)));
        }
        arena.check();
        for (handle, bytes) in &kept {
            let block = arena.get(*handle);
            assert!(block.starts_with(bytes));
            assert!(
                block[bytes.len()..].iter().all(|byte| *byte == 0),
                "the rest is zero"
            );
            let size = if bytes.len() > CLASS_BYTES_MAX {
                bytes.len()
            } else {
                block_bytes(class_of(bytes.len()))
            };
            assert_eq!(block.len(), size);
        }
        for (handle, _) in kept {
            assert!(arena.remove(handle));
            arena.check();
        }
        assert_eq!(arena.bytes(), 0);
    }

    #[test]
    fn a_bad_handle_is_answered_with_nothing() {
        let mut arena = Arena::new();
        for handle in [0, 1, 1 << 13, NIL - 1, NIL] {
            assert!(arena.get(handle).is_empty() && !arena.remove(handle));
        }
        let small = arena.insert(&[&[1; 24]]).unwrap();
        let large = arena.insert(&[&[2; 9000]]).unwrap();
        for handle in [small + 3, small + 8191, large + 1, large + 8191, NIL] {
            assert!(
                arena.get(handle).is_empty() && arena.get_mut(handle).is_empty(),
                "{handle}"
            );
            assert!(!arena.remove(handle));
        }
        assert!(!arena.remove(small + 1), "not where a block begins");
        assert!(arena.remove(large) && !arena.remove(large));
        assert!(arena.remove(small) && !arena.remove(small));
    }

    #[test]
    fn a_page_of_the_smallest_blocks_is_used_to_its_last_unit() {
        let mut arena = Arena::new();
        for number in 0..8192 {
            assert_eq!(arena.insert(&[b"x"]), Some(number));
        }
        assert_eq!(arena.insert(&[b"x"]), Some(8192));
        for number in (0..8192).rev() {
            assert!(arena.remove(number));
        }
        for _ in 0..8192 {
            assert!(arena.insert(&[b"y"]).is_some());
        }
        arena.check();
        assert!(u64::from(PAGES_MAX) << UNIT_BITS < u64::from(NIL));
    }

    #[test]
    fn the_first_page_of_a_class_grows_by_halves_and_later_ones_come_whole() {
        let mut arena = Arena::new();
        let blocks = PAGE_BYTES / 24;
        for count in 1..=blocks {
            arena.insert(&[&[0; 24]]).unwrap();
            let whole = count.next_power_of_two();
            let expected = if count <= whole / 4 * 3 {
                whole / 4 * 3
            } else {
                whole
            };
            assert_eq!(arena.data_bytes(), 24 * expected.min(blocks));
        }
        arena.insert(&[&[0; 24]]).unwrap();
        assert_eq!(arena.data_bytes(), 2 * blocks * 24);
    }

    #[test]
    fn one_empty_page_of_a_class_is_kept_while_others_are_in_use() {
        let mut arena = Arena::new();
        let per_page = PAGE_BYTES / CLASS_BYTES_MAX;
        let handles: Vec<u32> = (0..3 * per_page)
            .map(|_| arena.insert(&[&[0; CLASS_BYTES_MAX]]).unwrap())
            .collect();
        let (first, rest) = handles.split_at(per_page);
        assert_eq!(arena.data_bytes(), 3 * PAGE_BYTES);
        for handle in rest {
            arena.remove(*handle);
            arena.check();
        }
        assert_eq!(arena.data_bytes(), 2 * PAGE_BYTES);
        let again = arena.insert(&[&[0; CLASS_BYTES_MAX]]).unwrap();
        assert_eq!(arena.data_bytes(), 2 * PAGE_BYTES, "the spare was used");
        arena.remove(again);
        for handle in first {
            arena.remove(*handle);
        }
        assert_eq!(arena.bytes(), 0);
    }

    #[test]
    #[should_panic(expected = "freed twice")]
    #[cfg(debug_assertions)]
    fn a_block_freed_twice_is_noticed_in_debug_builds() {
        let mut arena = Arena::new();
        let handles = [1, 2].map(|byte| arena.insert(&[&[byte; 24]]).unwrap());
        arena.remove(handles[0]);
        arena.remove(handles[0]);
    }

    #[test]
    fn random_operations_against_a_map() {
        let mut run = Run::new();
        let mut arena = Arena::new();
        let mut model: HashMap<u32, Vec<u8>> = HashMap::new();
        let mut handles: Vec<u32> = Vec::new();
        let mut target = 0;
        let mut len_max = 1;
        while run.step < run.steps {
            run.step += 1;
            if run.step % 4000 == 1 {
                target = [0, 10, 300, 5000][run.random.below(4) as usize];
                len_max = [30, 200, 2000, 20_000][run.random.below(4) as usize];
                if len_max == 20_000 {
                    target = target.min(300);
                }
            }
            if run.random.below(10) < if handles.len() < target { 8 } else { 2 } {
                let len = run.random.below(len_max) as usize;
                let fill = run.random.next() as u8;
                let cut = run.random.below(len as u64 + 1) as usize;
                let bytes: Vec<u8> = (0..len).map(|at| fill.wrapping_add(at as u8)).collect();
                let handle = arena.insert(&[&bytes[..cut], &bytes[cut..]]).unwrap();
                let rest = &arena.get(handle)[len..];
                assert!(rest.iter().all(|byte| *byte == 0), "the rest is zero");
                assert!(
                    model.insert(handle, bytes).is_none(),
                    "handle {handle} given out twice"
                );
                handles.push(handle);
            } else if !handles.is_empty() {
                let at = run.random.below(handles.len() as u64) as usize;
                let handle = handles.swap_remove(at);
                let bytes = model.remove(&handle).unwrap();
                assert!(arena.get(handle).starts_with(&bytes));
                assert!(arena.remove(handle));
            }
            if let Some(handle) =
                handles.get(run.random.below(handles.len().max(1) as u64) as usize)
            {
                let bytes = model.get_mut(handle).unwrap();
                assert!(arena.get(*handle).starts_with(bytes));
                if let (Some(ours), Some(theirs)) =
                    (arena.get_mut(*handle).first_mut(), bytes.first_mut())
                {
                    *ours = run.step as u8;
                    *theirs = run.step as u8;
                }
            }
            if run.step.is_multiple_of(1009) {
                arena.check();
            }
        }
        arena.check();
        for (handle, bytes) in &model {
            assert!(arena.get(*handle).starts_with(bytes));
        }
        for handle in handles {
            arena.remove(handle);
        }
        assert_eq!(arena.bytes(), 0);
        arena.clear();
    }
}
