//! What memory costs: how an allocator rounds, how pages grow, and who frees them.

use std::sync::OnceLock;

/// Who frees the pages that are given back.
static FREE_PAGES: OnceLock<fn(Box<dyn Send>)> = OnceLock::new();

/// Has the pages that tables give back freed by `free`, on a thread that may wait:
/// freeing a large block can take milliseconds. To be called once; false if it was
/// before. Without it they are freed where they are emptied.
pub fn free_pages_with(free: fn(Box<dyn Send>)) -> bool {
    FREE_PAGES.set(free).is_ok()
}

/// Frees a page, a large one as [`free_pages_with`] says.
pub(super) fn free_page<T: Send + 'static>(page: Vec<T>) {
    /// From here on an allocator maps blocks by pages of memory.
    const LARGE_BYTES: usize = 16 << 10;
    if page.capacity() * size_of::<T>() >= LARGE_BYTES
        && let Some(free) = FREE_PAGES.get()
    {
        free(Box::new(page));
    }
}

/// How many slots a page of `slots` grows by: half of the power of two that is
/// not above, so 1, 2, 3, 4, 6, 8, 12, 16 …, which wastes a quarter at most and
/// meets the sizes in which allocators deal.
pub(super) const fn growth(slots: usize) -> usize {
    match slots.checked_ilog2() {
        None | Some(0) => 1,
        Some(log) => 1 << (log - 1),
    }
}

/// Bytes that an allocation of `bytes` takes: what jemalloc, the servers' own
/// allocator, rounds up to. Four sizes to a doubling, steps of 16 at least.
pub(crate) const fn allocated(bytes: usize) -> usize {
    match bytes.checked_sub(1) {
        None => 0,
        Some(last) if last < 128 => (last / 16 + 1) * 16,
        Some(last) => {
            let step = 1 << (last.ilog2() - 2);
            (last / step + 1) * step
        }
    }
}
