//! Several pages: which has room for a block of a class, and which memory is kept.

use super::classes::{CLASS_BYTES_MAX, block_bytes, class_of};
use super::page::{Head, NO_UNIT, Page, UNIT_BITS};
use super::pages_max;
use crate::engine::tables::NIL;
use crate::engine::tables::memory::free_page;

/// Page heads of a chunk of the table, as a power of two.
const CHUNK_BITS: u32 = 10;

/// Page heads of a chunk of the table.
const CHUNK_PAGES: usize = 1 << CHUNK_BITS;

/// What is known of the pages of a class.
#[derive(Clone, Copy, Debug)]
pub(super) struct Class {
    /// First page with room and a block in use, or [`NIL`].
    pub(super) room: u32,
    /// The empty page that keeps its memory, or [`NIL`].
    pub(super) spare: u32,
    /// Pages with memory, the spare among them.
    pub(super) pages: u32,
    /// Blocks in use.
    pub(super) live: u32,
    /// Bytes of its pages.
    pub(super) bytes: usize,
}

/// What is to be known of several pages.
#[derive(Debug)]
pub(super) struct Rest {
    /// Bytes of the chunks.
    pub(super) chunk_bytes: usize,
    /// The classes that were ever used, in order of size.
    pub(super) classes: Vec<Class>,
    /// Bit `c`: class `c` is among `classes`.
    pub(super) used: u64,
    /// Page heads in the table.
    pub(super) pages: u32,
    /// First page number without memory, or [`NIL`].
    free_pages: u32,
    /// Pages with memory.
    pub(super) mapped: u32,
    /// Bytes of all pages.
    pub(super) data_bytes: usize,
}

/// An arena of several pages.
#[derive(Debug)]
pub(super) struct Many {
    /// The page heads: all chunks but the last are full.
    pub(super) chunks: Box<[Vec<Head>]>,
    /// What is known of them.
    pub(super) rest: Box<Rest>,
}

impl Many {
    /// A table of one page, in use.
    pub(super) fn of(page: Page) -> Self {
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
    pub(super) fn page(&self, number: u32) -> Option<&Page> {
        Some(&self.head(number)?.page)
    }

    /// A page, to be changed.
    #[inline]
    pub(super) fn page_mut(&mut self, number: u32) -> Option<&mut Page> {
        Some(&mut self.head_mut(number)?.page)
    }

    /// The head of a page.
    #[inline]
    pub(super) fn head(&self, number: u32) -> Option<&Head> {
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

    /// See [`Arena::remove`](super::Arena::remove).
    pub(super) fn remove(&mut self, number: u32, unit: usize) -> bool {
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
    pub(super) const fn rank(&self, class: u32) -> usize {
        (self.rest.used & ((1 << class) - 1)).count_ones() as usize
    }

    /// What is known of a class, made if it was not used before.
    pub(super) fn class_mut(&mut self, class: u32) -> Option<&mut Class> {
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
    pub(super) fn insert_small(&mut self, parts: &[&[u8]], len: usize) -> Option<u32> {
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
    pub(super) fn insert_large(&mut self, parts: &[&[u8]], len: usize) -> Option<u32> {
        let number = self.take_page()?;
        let page = self.page_mut(number)?;
        page.put_large(parts, len);
        let bytes = page.data.capacity();
        self.rest.data_bytes += bytes;
        Some(number << UNIT_BITS)
    }

    /// A page number without memory, `None` if all are in use.
    pub(super) fn take_page(&mut self) -> Option<u32> {
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
    pub(super) fn drop_page(&mut self, number: u32, class: u32) {
        let bytes = self.page(number).map_or(0, |page| page.data.capacity());
        if let Some(state) = self.class_mut(class) {
            state.pages -= 1;
            state.bytes -= bytes;
        }
        self.give_back(number);
    }

    /// Puts a page at the front of its class's list of pages with room.
    pub(super) fn link(&mut self, number: u32, class: u32) {
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
    pub(super) fn unlink(&mut self, number: u32, class: u32) {
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

    /// See [`Arena::check`](super::Arena::check).
    #[cfg(any(test, debug_assertions))]
    pub(super) fn check(&self) {
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
