//! A slab that has shrunk gives memory back: its values move from the highest
//! handles into the lowest free ones, a few in each step.
//!
//! ```text
//!   before   [a·b·c···] [·d······] [e····f··]        three pages
//!   a step   [afbec···] [·d······]                   the last one is gone
//!   the end  [afbecd]                                page 0 takes what it needs
//! ```
//!
//! Values only ever move down. So a scan that goes down from [`Slab::end`] meets
//! whatever is there all the time at least once, however many steps are made
//! meanwhile: what it has not met yet lies below it, and stays there.
//!
//! The slab does not know who holds its handles. [`pack`] is told who refers to a
//! value before it moves, and has that corrected after it.
//!
//! *Tight* is what a slab would take that never held more than it does now.
//! *Loose* is more than that: a step can be made. *Sparse* is more than would be
//! tight for seven quarters of its values: worth beginning. That is at most the
//! double, by pages and sizes of pages; a slab that breathes within it is left alone.

use super::super::NIL;
use super::super::memory::free_page;
use super::pages::{Page, Pages};
use super::{Slab, Vacant};

/// So many values move in one step of a compaction at most.
pub const MOVES_MAX: usize = 64;

/// Bytes that are not worth a compaction, in any one structure.
pub const WASTE_MIN: usize = 1 << 10;

/// For so many values a structure may have room before it is sparse.
pub const fn roomy(live: usize) -> usize {
    live * 7 / 4
}

/// The size to which a first page grows for so many slots, see
/// [`growth`](super::super::memory::growth): a power of two, or one and a half.
pub const fn grown(slots: usize) -> usize {
    match slots.checked_ilog2() {
        None => 0,
        Some(log) => {
            let whole = 1_usize << log;
            if slots == whole {
                whole
            } else if slots <= whole + whole / 2 {
                whole + whole / 2
            } else {
                whole * 2
            }
        }
    }
}

/// One step towards a tight slab, which is part of `whole`: at most [`MOVES_MAX`]
/// values move, one after the other. Nothing is done where it is not loose. `owner` says who refers to the value of a
/// handle, and `relink(whole, owner, from, to)` corrects that. False if nothing
/// could be done. O([`MOVES_MAX`]) owners, O(slots of a page) looks.
pub fn pack<S, O, T, const PAGE_BITS: u32>(
    whole: &mut S,
    slab: impl Fn(&mut S) -> &mut Slab<T, PAGE_BITS>,
    owner: impl Fn(&S, u32) -> Option<O>,
    relink: impl Fn(&mut S, O, u32, u32),
) -> bool
where
    T: Vacant + Send + 'static,
{
    if !slab(whole).is_loose() {
        return false;
    }
    let before = slab(whole).bytes();
    slab(whole).tidy();
    let mut moved = false;
    for from in slab(whole).highest(MOVES_MAX) {
        let owner = owner(whole, from);
        debug_assert!(owner.is_some(), "nobody refers to {from}");
        let Some(owner) = owner else { break };
        let Some(to) = slab(whole).lower(from) else {
            break;
        };
        relink(whole, owner, from, to);
        moved = true;
    }
    slab(whole).tidy();
    moved || slab(whole).bytes() < before
}

impl<T: Vacant + Send + 'static, const PAGE_BITS: u32> Slab<T, PAGE_BITS> {
    /// Bytes of the slots of a slab that never held more values than these.
    const fn tight_bytes(live: usize) -> usize {
        if live <= Self::PAGE_SLOTS {
            Page::<T>::bytes_of(grown(live))
        } else {
            live.div_ceil(Self::PAGE_SLOTS) * Page::<T>::bytes_of(Self::PAGE_SLOTS)
        }
    }

    /// Whether it takes more memory than a slab that never held more. O(1).
    fn is_loose(&self) -> bool {
        self.slot_bytes() > Self::tight_bytes(self.len())
    }

    /// Bytes by which it is more than roomy. O(1).
    pub fn surplus(&self) -> usize {
        let roomy = Self::tight_bytes(roomy(self.len()));
        self.slot_bytes().saturating_sub(roomy)
    }

    /// The highest handles in use, from the highest down: at most `max`, and of one
    /// page only. O(slots of a page).
    fn highest(&self, max: usize) -> Vec<u32> {
        let pages = self.pages.all();
        let Some(page) = pages.last() else {
            return Vec::new();
        };
        let slots = page.slots.iter().enumerate().rev();
        slots
            .filter(|(_, value)| value.next_vacant().is_none())
            .take(max)
            .map(|(slot, _)| Self::join(pages.len() - 1, slot))
            .collect()
    }

    /// Moves a value to a lower handle, where there is one: of several pages into
    /// the lowest with room, within page 0 into a free slot. There the slab is
    /// whole again only after [`Slab::tidy`]. O(1).
    fn lower(&mut self, from: u32) -> Option<u32> {
        let (number, slot) = Self::split(from);
        match &mut self.pages {
            Pages::Many(_, rest) => {
                rest.room.first().filter(|room| *room < number)?;
                let value = self.remove(from)?;
                self.insert(value)
            }
            Pages::One(page) => {
                let to = page.free;
                // Also where there is none: that is the highest of all numbers.
                if number != 0 || to >= from {
                    return None;
                }
                let next = page.slots.get(to as usize)?.next_vacant()?;
                let place = page.slots.get_mut(slot)?;
                if place.next_vacant().is_some() {
                    return None;
                }
                // In no list: lower slots are to be found first.
                let value = std::mem::replace(place, T::vacant(NIL));
                *page.slots.get_mut(to as usize)? = value;
                page.free = next;
                Some(to)
            }
        }
    }

    /// Gives back what no value stands in the way of. Of several pages that is the
    /// spare one; page 0 alone loses the free slots at its end, and memory beyond
    /// what is tight; the others are listed from the lowest on. O(slots of a page).
    fn tidy(&mut self) {
        match &mut self.pages {
            Pages::Many(_, rest) => {
                let spare = std::mem::replace(&mut rest.spare, NIL);
                if spare != NIL {
                    self.give_back(spare as usize);
                }
            }
            Pages::One(page) => {
                while page
                    .slots
                    .pop_if(|value| value.next_vacant().is_some())
                    .is_some()
                {}
                page.free = NIL;
                for (slot, place) in page.slots.iter_mut().enumerate().rev() {
                    if place.next_vacant().is_some() {
                        *place = T::vacant(page.free);
                        page.free = slot as u32;
                    }
                }
                if page.live == 0 {
                    free_page(std::mem::take(&mut page.slots));
                } else if page.slots.len() <= grown(page.live as usize) {
                    page.slots.shrink_to(grown(page.live as usize));
                }
            }
        }
    }
}
