//! A page of an arena: blocks of one size, or one large block.

#[cfg(any(test, debug_assertions))]
use super::classes::PAGE_BYTES;
use super::classes::full_bytes;
use crate::engine::tables::NIL;
use crate::engine::tables::memory::growth;

/// Bytes of a unit, in which blocks are placed and sized.
pub(super) const UNIT_BYTES: usize = 8;

/// Units of a page, as a power of two.
pub(super) const UNIT_BITS: u32 = 13;

/// The end of a page's free list; units are below 8192.
pub(super) const NO_UNIT: u16 = u16::MAX;

/// What a free block holds behind its link, so that a second removal is noticed
/// in debug builds.
const FREE_MARK: [u8; 6] = *b"\xfffree\xff";

/// The head of a page, 40 bytes: the page and its place among others.
#[derive(Debug)]
pub(super) struct Head {
    /// The page.
    pub(super) page: Page,
    /// Next page with room of the class, next free page number, or [`NIL`].
    pub(super) next: u32,
    /// The page before with room of the class, or [`NIL`].
    pub(super) prev: u32,
}

impl Head {
    /// The head of a page that is in no list.
    pub(super) const fn of(page: Page) -> Self {
        Self {
            page,
            next: NIL,
            prev: NIL,
        }
    }
}

/// A page.
#[derive(Debug)]
pub(super) struct Page {
    /// The blocks filled so far; its capacity is the page's memory.
    pub(super) data: Vec<u8>,
    /// Bytes of a block; above [`CLASS_BYTES_MAX`](super::classes::CLASS_BYTES_MAX) the page is one block, 0: it has no memory.
    pub(super) block: u32,
    /// Blocks in use.
    pub(super) live: u16,
    /// Unit of the first free block, or [`NO_UNIT`].
    pub(super) free: u16,
}

impl Page {
    /// A page without memory.
    pub(super) const fn new() -> Self {
        Self {
            data: Vec::new(),
            block: 0,
            live: 0,
            free: NO_UNIT,
        }
    }

    /// Whether every block is in use. For pages of a class.
    pub(super) fn is_full(&self) -> bool {
        self.free == NO_UNIT && self.data.len() >= full_bytes((self.block as usize).max(1))
    }

    /// The bytes of the block at `unit`.
    #[inline]
    pub(super) fn range(&self, unit: usize) -> std::ops::Range<usize> {
        let start = unit * UNIT_BYTES;
        start..start + self.block as usize
    }

    /// Whether a block in use begins at `unit`, as far as can be told in O(1).
    pub(super) fn holds(&self, unit: usize) -> bool {
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
    pub(super) fn put(&mut self, parts: &[&[u8]], small: bool) -> Option<usize> {
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
    pub(super) fn put_large(&mut self, parts: &[&[u8]], len: usize) {
        self.data.reserve_exact(len);
        for part in parts {
            self.data.extend_from_slice(part);
        }
        self.block = len as u32;
        self.live = 1;
    }

    /// Frees the block at `unit`, which [`Page::holds`], of a class.
    pub(super) fn take(&mut self, unit: usize) {
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
    pub(super) fn check(&self, number: u32) {
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
    pub(super) fn link(&self, unit: u16) -> u16 {
        match self.data.get(self.range(usize::from(unit))) {
            Some([low, high, ..]) => u16::from_le_bytes([*low, *high]),
            _ => NO_UNIT,
        }
    }
}

/// Page number and unit of a handle.
pub(super) const fn split(handle: u32) -> (u32, usize) {
    (
        handle >> UNIT_BITS,
        (handle & ((1 << UNIT_BITS) - 1)) as usize,
    )
}
