//! Tests of `slab`.

use std::collections::{BTreeMap, BTreeSet};

use super::*;
use crate::testing::Run;

/// A value with a reason to be dropped, or a free slot.
#[derive(Debug, PartialEq)]
enum Cell {
    Free(u32),
    Value(Box<u64>),
}

impl Vacant for Cell {
    fn vacant(next: u32) -> Self {
        Self::Free(next)
    }
    fn next_vacant(&self) -> Option<u32> {
        match self {
            Self::Free(next) => Some(*next),
            Self::Value(_) => None,
        }
    }
}

fn cell(value: u64) -> Cell {
    Cell::Value(Box::new(value))
}

#[test]
fn nothing_is_allocated_before_the_first_value() {
    let slab: Slab<Cell> = Slab::new();
    assert_eq!(
        (slab.bytes(), slab.len(), slab.end(), slab.skip_empty(NIL)),
        (0, 0, 0, 0)
    );
    assert!(slab.get(0).is_none() && slab.get(NIL).is_none());
    slab.check();
}

#[test]
fn the_first_page_grows_by_halves_and_later_ones_come_whole() {
    let mut slab: Slab<Cell> = Slab::new();
    for count in 1..=2048_usize {
        assert_eq!(slab.insert(cell(count as u64)), Some(count as u32 - 1));
        let whole = count.next_power_of_two();
        let expected = if count <= whole / 4 * 3 {
            whole / 4 * 3
        } else {
            whole
        };
        assert_eq!(slab.slot_bytes(), expected * size_of::<Cell>());
    }
    let full = slab.slot_bytes();
    assert_eq!(slab.insert(cell(0)), Some(2048));
    assert_eq!(slab.slot_bytes(), 2 * full);
    assert_eq!(slab.end(), 2049);
    slab.check();
}

#[test]
fn a_small_slab_is_small() {
    let mut slab: Slab<Cell> = Slab::new();
    slab.insert(cell(1));
    assert!(
        size_of_val(&slab) <= 32 && slab.bytes() <= allocated(size_of::<Cell>()),
        "{} and {} bytes",
        size_of_val(&slab),
        slab.bytes()
    );
}

#[test]
fn values_go_to_the_lowest_page_with_room() {
    let mut slab: Slab<Cell, 2> = Slab::new();
    for value in 0..40 {
        slab.insert(cell(value));
    }
    // Row: free these, in this order; the next inserts get these handles.
    for (freed, given) in [
        (vec![37, 17, 6], vec![6, 17, 37, 40]),
        (vec![5, 4], vec![4, 5]),
        (vec![0, 1, 2, 3], vec![0, 1, 2, 3]),
    ] {
        for handle in freed {
            assert!(slab.remove(handle).is_some());
        }
        for handle in given {
            assert_eq!(slab.insert(cell(7)), Some(handle));
        }
        slab.check();
    }
}

#[test]
fn one_empty_page_is_kept_and_the_rest_given_back() {
    let mut slab: Slab<Cell, 2> = Slab::new();
    for value in 0..16 {
        slab.insert(cell(value));
    }
    let page = 4 * size_of::<Cell>();
    assert_eq!(slab.slot_bytes(), 4 * page);
    // Swinging around a boundary allocates nothing.
    for _ in 0..10 {
        for handle in 12..16 {
            slab.remove(handle);
        }
        assert_eq!(slab.slot_bytes(), 4 * page);
        for handle in 12..16 {
            assert_eq!(slab.insert(cell(1)), Some(handle));
        }
    }
    for handle in 4..12 {
        slab.remove(handle);
    }
    assert_eq!(
        slab.slot_bytes(),
        3 * page,
        "page 1 is the spare, page 2 is gone"
    );
    assert_eq!(
        (
            slab.skip_empty(12),
            slab.skip_empty(13),
            slab.skip_empty(NIL)
        ),
        (4, 13, 16)
    );
    for handle in 12..16 {
        slab.remove(handle);
    }
    assert_eq!((slab.slot_bytes(), slab.end()), (2 * page, 4));
    for handle in 0..4 {
        slab.remove(handle);
    }
    assert_eq!((slab.slot_bytes(), slab.end()), (page, 0));
    assert!(slab.pages.rest().is_none(), "the table goes too");
    slab.check();
}

#[test]
fn a_full_slab_says_so_and_takes_values_again_when_one_is_freed() {
    let mut slab: Slab<Cell, 2> = Slab::new();
    for handle in 0..8 {
        assert_eq!(slab.insert_within(cell(1), 2), Some(handle));
    }
    assert_eq!(slab.insert_within(cell(1), 2), None);
    slab.remove(3);
    assert_eq!(slab.insert_within(cell(1), 2), Some(3));
    assert!(Slab::<Cell>::PAGES_MAX as u64 * 2048 < u64::from(NIL));
    assert!(Slab::<Cell, 1>::PAGES_MAX as u64 * 2 < u64::from(NIL) + 1);
}

#[test]
fn a_handle_that_is_free_or_unknown_is_refused() {
    let mut slab: Slab<Cell> = Slab::new();
    let handle = slab.insert(cell(5)).unwrap();
    let other = slab.insert(cell(6)).unwrap();
    assert_eq!(slab.remove(handle), Some(cell(5)));
    assert_eq!(slab.remove(handle), None);
    assert!(slab.get(handle).is_none() && slab.get_mut(handle).is_none());
    for unknown in [2, 2047, 2048, NIL - 1, NIL] {
        assert_eq!(slab.remove(unknown), None);
        assert!(slab.get(unknown).is_none());
    }
    assert_eq!(slab.get(other), Some(&cell(6)));
}

#[test]
fn a_page_set_knows_its_smallest_page() {
    let mut run = Run::new();
    let mut set = PageSet::new();
    let mut model = BTreeSet::new();
    while run.step < run.steps / 5 {
        run.step += 1;
        let spread = [64, 4096, 100_000][run.random.below(3) as usize];
        let page = run.random.below(spread) as usize;
        if run.random.below(3) == 0 {
            set.insert(page);
            model.insert(page);
        } else {
            let page = model.first().copied().unwrap_or(page);
            set.remove(page);
            model.remove(&page);
        }
        assert_eq!(set.first(), model.first().copied());
    }
}

/// Random inserts and removes against a map, in waves so that pages empty.
fn random_against_a_map<const PAGE_BITS: u32>(values_max: usize, check_every: u64) {
    let mut run = Run::new();
    let mut slab: Slab<Cell, PAGE_BITS> = Slab::new();
    let mut model: BTreeMap<u32, u64> = BTreeMap::new();
    let mut growing = true;
    while run.step < run.steps {
        run.step += 1;
        if model.is_empty() {
            growing = true;
        } else if model.len() >= values_max {
            growing = false;
        }
        if run.random.below(8) < if growing { 6 } else { 2 } {
            let value = run.random.next();
            let handle = slab.insert(cell(value)).unwrap();
            assert!(
                model.insert(handle, value).is_none(),
                "handle {handle} given out twice"
            );
        } else {
            let handle = run.random.below(u64::from(slab.end()) + 2) as u32;
            // Half the time the nearest one in use, so that removals succeed.
            let handle = model
                .range(handle..)
                .next()
                .map_or(handle, |(near, _)| *near);
            assert_eq!(slab.remove(handle), model.remove(&handle).map(cell));
        }
        let probe = run.random.below(u64::from(slab.end()) + 2) as u32;
        assert_eq!(
            slab.get(probe),
            model.get(&probe).copied().map(cell).as_ref()
        );
        assert_eq!(slab.len(), model.len());
        if run.step.is_multiple_of(check_every) {
            slab.check();
            // A scan from high to low meets everything, in order.
            let mut met = Vec::new();
            let mut bound = slab.skip_empty(NIL);
            while bound > 0 {
                bound -= 1;
                met.extend(slab.get(bound).map(|_| bound));
                bound = slab.skip_empty(bound);
            }
            assert!(met.iter().eq(model.keys().rev()));
        }
    }
    slab = Slab::new();
    assert_eq!((slab.len(), slab.bytes()), (0, 0));
}

#[test]
fn random_operations_with_tiny_pages() {
    random_against_a_map::<1>(200, 97);
    random_against_a_map::<3>(2000, 997);
}

#[test]
fn random_operations_with_the_usual_pages() {
    random_against_a_map::<11>(20_000, 9973);
}
