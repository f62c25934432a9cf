//! The pages of a slab: one that stands in the slab itself, or a table of them.

use super::page_set::PageSet;
use crate::engine::tables::NIL;
use crate::engine::tables::memory::allocated;

/// One page.
#[derive(Debug)]
pub(super) struct Page<T> {
    /// The slots filled so far; its capacity is the page's memory.
    pub(super) slots: Vec<T>,
    /// First free slot below `slots.len()`, or [`NIL`].
    pub(super) free: u32,
    /// Occupied slots.
    pub(super) live: u32,
}

impl<T> Page<T> {
    /// A page without memory.
    pub(super) const fn new() -> Self {
        Self {
            slots: Vec::new(),
            free: NIL,
            live: 0,
        }
    }

    /// Bytes of the memory of so many slots, as an allocator rounds them up.
    pub(super) const fn bytes_of(slots: usize) -> usize {
        allocated(slots * size_of::<T>())
    }

    /// Bytes of its memory.
    pub(super) const fn bytes(&self) -> usize {
        Self::bytes_of(self.slots.capacity())
    }
}

/// The pages of a slab.
#[derive(Debug)]
pub(super) enum Pages<T> {
    /// At most page 0. Without values it may keep its memory.
    One(Page<T>),
    /// Two pages and more; one whose memory was given back stays as a hole.
    /// Behind those in use there may be heads for more.
    Many(Box<[Page<T>]>, Box<Rest>),
}

/// What is to be known of several pages.
#[derive(Debug)]
pub(super) struct Rest {
    /// The pages with a free slot, holes among them.
    pub(super) room: PageSet,
    /// Bytes of all slots with memory.
    pub(super) slot_bytes: usize,
    /// Pages in use, holes among them.
    pub(super) pages: usize,
    /// Occupied slots of all pages.
    pub(super) live: u32,
    /// The empty page that keeps its memory, or [`NIL`].
    pub(super) spare: u32,
}

impl<T> Pages<T> {
    /// A page.
    #[inline]
    pub(super) fn get(&self, number: usize) -> Option<&Page<T>> {
        match self {
            Self::One(page) => (number == 0).then_some(page),
            Self::Many(pages, _) => pages.get(number),
        }
    }

    /// A page, to be changed.
    #[inline]
    pub(super) fn get_mut(&mut self, number: usize) -> Option<&mut Page<T>> {
        match self {
            Self::One(page) => (number == 0).then_some(page),
            Self::Many(pages, _) => pages.get_mut(number),
        }
    }

    /// As [`Pages::get_mut`], and what is known of the pages where there are
    /// several.
    #[inline]
    pub(super) fn get_both(&mut self, number: usize) -> Option<(&mut Page<T>, Option<&mut Rest>)> {
        match self {
            Self::One(page) => (number == 0).then_some((page, None)),
            Self::Many(pages, rest) => Some((pages.get_mut(number)?, Some(rest))),
        }
    }

    /// What is known of several pages.
    #[cfg(any(test, debug_assertions))]
    pub(super) fn rest(&self) -> Option<&Rest> {
        match self {
            Self::One(_) => None,
            Self::Many(_, rest) => Some(rest),
        }
    }

    /// All pages.
    pub(super) fn all(&self) -> &[Page<T>] {
        match self {
            Self::One(page) if page.slots.capacity() == 0 => &[],
            Self::One(page) => std::slice::from_ref(page),
            Self::Many(pages, rest) => pages.get(..rest.pages).unwrap_or(pages),
        }
    }
}

/// Gives a table of page heads another length.
pub(super) fn resize<T>(table: &mut Box<[Page<T>]>, pages: usize) {
    let mut heads = std::mem::take(table).into_vec();
    heads.truncate(pages);
    heads.reserve_exact(pages.saturating_sub(heads.len()));
    heads.resize_with(pages, Page::new);
    *table = heads.into_boxed_slice();
}
