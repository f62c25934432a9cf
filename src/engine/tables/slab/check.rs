//! The invariants of a slab, for tests and debug builds.

use super::{Slab, Vacant};
use crate::engine::tables::NIL;

impl<T: Vacant + Send + 'static, const PAGE_BITS: u32> Slab<T, PAGE_BITS> {
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
