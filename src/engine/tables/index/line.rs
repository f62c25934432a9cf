//! A line of the index: one cache line of entries.

use crate::engine::tables::NIL;
use crate::engine::tables::slab::Vacant;

/// Entries of a line.
const LINE_ENTRIES: usize = 10;

/// The lowest hash bit of a print.
pub(super) const PRINT_SHIFT: u32 = 12;

/// The part of a hash that an entry keeps, bits 12 to 27; see the head of the
/// file. The bucket is chosen by the bottom bits.
pub(super) const fn print_of(hash: u64) -> u16 {
    (hash >> PRINT_SHIFT) as u16
}

/// A record and the print of its hash.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Entry {
    /// The record.
    pub(super) handle: u32,
    /// [`print_of`] its hash.
    pub(super) print: u16,
}

/// Ten entries, from the left, and where more are: one cache line.
#[derive(Clone, Copy, Debug)]
pub(super) struct Line {
    /// The prints; those of free places mean nothing.
    prints: [u16; LINE_ENTRIES],
    /// The records, [`NIL`] for a free place.
    pub(super) handles: [u32; LINE_ENTRIES],
    /// The spilled line behind this one, or [`NIL`]; of a vacant one, the next.
    pub(super) next: u32,
}

impl Line {
    /// A line without entries.
    pub(super) const EMPTY: Self = Self {
        prints: [0; LINE_ENTRIES],
        handles: [NIL; LINE_ENTRIES],
        next: NIL,
    };

    /// The places, as bits, whose print is this one. Free places may be among them.
    #[inline]
    fn hits(&self, print: u16) -> u32 {
        let mut hits = 0;
        for (place, mine) in self.prints.iter().enumerate() {
            hits |= u32::from(*mine == print) << place;
        }
        hits
    }

    /// The records whose print is this one.
    #[inline]
    pub(super) fn matches(&self, print: u16) -> impl Iterator<Item = u32> + use<'_> {
        let mut hits = self.hits(print);
        std::iter::from_fn(move || {
            let handle = self.handles.get(hits.trailing_zeros() as usize)?;
            hits &= hits - 1;
            Some(*handle)
        })
        .filter(|handle| *handle != NIL)
    }

    /// Its entries.
    pub(super) fn entries(&self) -> impl Iterator<Item = Entry> + use<'_> {
        self.handles
            .iter()
            .zip(&self.prints)
            .take_while(|(handle, _)| **handle != NIL)
            .map(|(handle, print)| Entry {
                handle: *handle,
                print: *print,
            })
    }

    /// Puts an entry into the first free place; false if there is none.
    pub(super) fn push(&mut self, entry: Entry) -> bool {
        let Some(place) = self.handles.iter().position(|handle| *handle == NIL) else {
            return false;
        };
        self.set(place, entry);
        true
    }

    /// Takes the last entry out.
    pub(super) fn pop(&mut self) -> Option<Entry> {
        let place = self.handles.iter().rposition(|handle| *handle != NIL)?;
        let print = *self.prints.get(place)?;
        let handle = std::mem::replace(self.handles.get_mut(place)?, NIL);
        Some(Entry { handle, print })
    }

    /// Puts an entry into a place.
    pub(super) fn set(&mut self, place: usize, entry: Entry) {
        if let (Some(handle), Some(print)) =
            (self.handles.get_mut(place), self.prints.get_mut(place))
        {
            (*handle, *print) = (entry.handle, entry.print);
        }
    }

    /// Whether it has one entry and no more.
    pub(super) fn has_one(&self) -> bool {
        !self.is_empty() && self.handles.get(1) == Some(&NIL)
    }

    /// Whether it has no entry.
    fn is_empty(&self) -> bool {
        self.handles.first() == Some(&NIL)
    }
}

impl Vacant for Line {
    fn vacant(next: u32) -> Self {
        Self {
            next,
            ..Self::EMPTY
        }
    }

    fn next_vacant(&self) -> Option<u32> {
        self.is_empty().then_some(self.next)
    }
}
