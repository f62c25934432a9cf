//! An arena that has shrunk gives memory back: in each class, the blocks of a page
//! with room move to another one, until at most one page has room.
//!
//! ```text
//!   pages with room   [··a·b···] ─► [c··d····] ─► [·e······]
//!                      filled first  emptied next
//!   one that is left  [a···b·c·····] is emptied into a smaller one  [abc·]
//! ```
//!
//! Which page is emptied says the list of pages with room, so nothing need be
//! remembered between two steps. The arena does not know who holds its handles:
//! whoever has [`Arena::movable`] told him what moves next corrects that.
//!
//! *Tight*, *loose* and *sparse* as in [`super::super::slab::tight`]; here loose is an
//! eighth more than tight, so that pages which are nearly full are left alone.

use super::super::NIL;
use super::super::slab::tight::{WASTE_MIN, grown, roomy};
use super::classes::{CLASS_BYTES_MAX, block_bytes, class_of, full_bytes};
use super::many::{Class, Many};
use super::page::{NO_UNIT, Page, UNIT_BITS, UNIT_BYTES, split};
use super::{Arena, Pages};

/// Bytes of a class's pages that never held more than `live` blocks. No class: nothing.
const fn tight_bytes(block: usize, live: usize) -> usize {
    if block == 0 {
        return 0;
    }
    let full = full_bytes(block);
    let pages = (live * block).div_ceil(full);
    let grown = grown(live) * block;
    if pages > 1 {
        pages * full
    } else if grown < full {
        grown
    } else {
        full
    }
}

/// What is used of a class.
#[derive(Clone, Copy, Debug, Default)]
struct Use {
    /// Bytes of a block.
    block: usize,
    /// Blocks in use.
    live: usize,
    /// Bytes of its pages.
    bytes: usize,
}

impl Use {
    /// Whether a compaction that has begun goes on here.
    fn is_loose(&self) -> bool {
        let tight = tight_bytes(self.block, self.live);
        self.bytes > tight + tight / 8
    }

    /// Bytes by which it is more than roomy, or less.
    fn surplus(&self) -> isize {
        let roomy = tight_bytes(self.block, roomy(self.live));
        self.bytes.cast_signed() - roomy.cast_signed()
    }
}

impl Page {
    /// The units of at most `max` blocks in use, of a page of a class. O(blocks).
    fn in_use(&self, max: usize) -> Vec<usize> {
        let step = self.block as usize / UNIT_BYTES;
        let blocks = self.data.len() / (self.block as usize).max(1);
        let mut is_free = vec![false; blocks];
        let mut unit = self.free;
        while unit != NO_UNIT {
            if let Some(is_free) = is_free.get_mut(usize::from(unit) / step.max(1)) {
                *is_free = true;
            }
            unit = self.link(unit);
        }
        let blocks = is_free.iter().enumerate().filter(|(_, is_free)| !**is_free);
        blocks.take(max).map(|(at, _)| at * step).collect()
    }

    /// What is used of it as the only page of a class; nothing of a block of its own.
    fn use_of(&self) -> Use {
        let block = self.block as usize;
        if block == 0 || block > CLASS_BYTES_MAX {
            return Use::default();
        }
        Use {
            block,
            live: usize::from(self.live),
            bytes: self.data.capacity(),
        }
    }
}

impl Arena {
    /// Whether a class takes more memory than its blocks need. O(64).
    fn is_loose(&self) -> bool {
        match &self.pages {
            Pages::One(page) => page.use_of().is_loose(),
            Pages::Many(many) => many.uses().any(|(_, class)| class.is_loose()),
        }
    }

    /// Whether a compaction is worth it: by all classes together, as few blocks of one
    /// come and go. O(64).
    pub fn is_sparse(&self) -> bool {
        match &self.pages {
            Pages::One(page) => page.use_of().surplus() > WASTE_MIN.cast_signed(),
            Pages::Many(many) => {
                let surplus: isize = many.uses().map(|(_, class)| class.surplus()).sum();
                surplus > WASTE_MIN.cast_signed()
            }
        }
    }

    /// Gives back an empty page of a loose class, or says which blocks are to move
    /// next: at most `max` of one page. O(blocks of a page + 64).
    pub fn movable(&mut self, max: usize) -> Vec<u32> {
        if !self.is_loose() {
            return Vec::new();
        }
        if let Pages::One(page) = &mut self.pages {
            let page = std::mem::replace(page, Page::new());
            self.pages = Pages::Many(Many::of(page));
        }
        match &mut self.pages {
            Pages::Many(many) => many.movable(max),
            Pages::One(_) => Vec::new(),
        }
    }

    /// Moves a block of a class to another page of it and returns the new handle;
    /// `None` if it would gain nothing. O(bytes).
    pub fn shift(&mut self, from: u32) -> Option<u32> {
        match &mut self.pages {
            Pages::Many(many) => many.shift(from),
            Pages::One(_) => None,
        }
    }
}

impl Many {
    /// The classes that were used, and what is used of them.
    fn uses(&self) -> impl Iterator<Item = (u32, Use)> + use<'_> {
        let classes = (0..u64::BITS).filter(|class| self.rest.used & (1 << class) != 0);
        classes.zip(&self.rest.classes).map(|(class, state)| {
            let used = Use {
                block: block_bytes(class),
                live: state.live as usize,
                bytes: state.bytes,
            };
            (class, used)
        })
    }

    /// What is known of a class that was used.
    fn class(&self, class: u32) -> Option<&Class> {
        self.rest.classes.get(self.rank(class))
    }

    /// See [`Arena::movable`].
    fn movable(&mut self, max: usize) -> Vec<u32> {
        let loose = |(class, used): (u32, Use)| used.is_loose().then_some(class);
        let loose: Vec<u32> = self.uses().filter_map(loose).collect();
        for class in loose {
            let Some(state) = self.class_mut(class) else {
                continue;
            };
            let first = state.room;
            let spare = std::mem::replace(&mut state.spare, NIL);
            if spare != NIL {
                self.drop_page(spare, class);
                return Vec::new();
            }
            let behind = self.head(first).map_or(NIL, |head| head.next);
            let number = if behind == NIL { first } else { behind };
            let units = self.page(number).map(|page| page.in_use(max));
            let handle = |unit| number << UNIT_BITS | unit as u32;
            let handles: Vec<u32> = units.into_iter().flatten().map(handle).collect();
            if !handles.is_empty() {
                return handles;
            }
        }
        Vec::new()
    }

    /// See [`Arena::shift`].
    fn shift(&mut self, from: u32) -> Option<u32> {
        let (number, unit) = split(from);
        let page = self.page(number)?;
        let block = page.block as usize;
        if block > CLASS_BYTES_MAX || !page.holds(unit) {
            return None;
        }
        let bytes = page.data.get(page.range(unit))?.to_vec();
        let class = class_of(block);
        if self.class(class)?.room == number {
            self.make_another_first(number, class)?;
        }
        let to = self.insert_small(&[&bytes], bytes.len())?;
        self.remove(number, unit);
        Some(to)
    }

    /// Puts another page of a class before page `number`, which is the first with
    /// room: the one behind it, or where it is all that is left a new one of the
    /// size that is needed.
    fn make_another_first(&mut self, number: u32, class: u32) -> Option<()> {
        let behind = self.head(number)?.next;
        if behind != NIL {
            self.unlink(behind, class);
            self.link(behind, class);
            return Some(());
        }
        let state = self.class(class)?;
        let (block, bytes) = (block_bytes(class), state.bytes);
        let tight = tight_bytes(block, state.live as usize);
        if state.pages > 1 || bytes <= tight {
            return None;
        }
        let made = self.take_page()?;
        let page = self.page_mut(made)?;
        page.block = block as u32;
        page.data.reserve_exact(tight);
        let bytes = page.data.capacity();
        self.rest.data_bytes += bytes;
        let state = self.class_mut(class)?;
        state.pages += 1;
        state.bytes += bytes;
        self.link(made, class);
        Some(())
    }
}
