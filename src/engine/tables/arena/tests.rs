//! Tests of `arena`.

use std::collections::HashMap;

use super::*;
use crate::engine::tables::NIL;
use crate::engine::tables::arena::classes::PAGE_BYTES;
use crate::engine::tables::arena::page::Head;
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
        if let Some(handle) = handles.get(run.random.below(handles.len().max(1) as u64) as usize) {
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
