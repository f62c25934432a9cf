//! The sizes of blocks, and of pages full of them.

use super::page::UNIT_BYTES;

/// The largest block that shares a page with others.
pub(super) const CLASS_BYTES_MAX: usize = 1 << 13;

/// Bytes of a page.
pub(super) const PAGE_BYTES: usize = 1 << 16;

/// The class of a block of `len` bytes, 0 to 63; `len` is at most [`CLASS_BYTES_MAX`].
pub(super) const fn class_of(len: usize) -> u32 {
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
pub(super) const fn block_bytes(class: u32) -> usize {
    if class < 16 {
        return (class as usize + 1) * UNIT_BYTES;
    }
    let doubling = (class - 16) / 8 + 4;
    let eighth = (class - 16) % 8;
    (((8 + eighth + 1) as usize) << (doubling - 3)) * UNIT_BYTES
}

/// Bytes of all blocks that fit into a page.
pub(super) const fn full_bytes(block: usize) -> usize {
    PAGE_BYTES / block * block
}
