//! Memory is given back on a thread of its own.
//!
//! A queue that is deleted, and a large block that a queue has emptied, are freed
//! here and not where they were let go. Not because freeing is much work by
//! itself, but because the server's allocator may take the moment to give what it
//! has gathered back to the kernel: at three million orders a single FINISH, the
//! one that emptied the page between two free ranges, took 6 ms of `madvise`.
//!
//! Small blocks are freed where they are, and everything is in a forked child,
//! which has no other thread.

use std::alloc::{GlobalAlloc, Layout};
use std::cell::Cell;
use std::sync::OnceLock;
use std::sync::mpsc::Sender;

use super::ffi::guarded;
use super::info;

/// The server's allocator. It does not exist outside a server, where tests run.
#[cfg(not(test))]
const SERVERS: redis_module::alloc::RedisAlloc = redis_module::alloc::RedisAlloc;
/// What stands for it under test.
#[cfg(test)]
const SERVERS: std::alloc::System = std::alloc::System;

/// Blocks of so many bytes and more are freed on the reaper's thread: what the
/// allocator maps by pages, and so all pages of a queue's tables.
const LARGE_BYTES: usize = 16 << 10;

/// Something to be freed.
enum Corpse {
    /// A value to be dropped.
    Value(Box<dyn Send>),
    /// A block of memory, and how it was asked for.
    Block(Block),
}

/// A block of memory that nobody uses any more.
struct Block {
    /// Where it is.
    start: *mut u8,
    /// How it was asked for.
    layout: Layout,
}

// SAFETY: whoever has the block owns it, and the server's allocator frees on any
// thread.
unsafe impl Send for Block {}

thread_local! {
    /// This thread is the reaper's.
    static IS_REAPER: Cell<bool> = const { Cell::new(false) };
}

/// Starts the reaper's thread, once while the module loads: the server ties its
/// main thread to `server-cpulist` later, and a thread of that one would share its
/// cores and stop it.
pub(super) fn start() {
    reaper();
}

/// The reaper's thread; `None` if it can not be made.
fn reaper() -> Option<&'static Sender<Corpse>> {
    static REAPER: OnceLock<Option<Sender<Corpse>>> = OnceLock::new();
    REAPER
        .get_or_init(|| {
            let (sender, receiver) = std::sync::mpsc::channel();
            let spawned = std::thread::Builder::new()
                .name("orderwheel-free".to_owned())
                .spawn(move || {
                    IS_REAPER.set(true);
                    for corpse in receiver {
                        guarded((), || match corpse {
                            Corpse::Value(value) => drop(value),
                            Corpse::Block(block) => {
                                // SAFETY: given up by its owner, with the layout
                                // it was made with, see `dealloc` below.
                                unsafe { SERVERS.dealloc(block.start, block.layout) };
                            }
                        });
                    }
                });
            spawned.is_ok().then_some(sender)
        })
        .as_ref()
}

/// Drops something large on the reaper's thread.
pub(super) fn drop_elsewhere(corpse: Box<dyn Send>) {
    if let Some(reaper) = reaper() {
        // A failed send hands it back, and it is dropped here.
        drop(reaper.send(Corpse::Value(corpse)));
    }
}

/// The server's allocator, so that `used_memory` and `maxmemory` see what the
/// module takes; large blocks are freed on the reaper's thread.
pub(crate) struct Allocator;

// SAFETY: all memory comes from and goes back to the server's allocator, each
// block once and with the layout it was asked for.
unsafe impl GlobalAlloc for Allocator {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller's promises are handed on.
        unsafe { SERVERS.alloc(layout) }
    }

    unsafe fn dealloc(&self, start: *mut u8, layout: Layout) {
        if layout.size() >= LARGE_BYTES
            && !IS_REAPER.try_with(Cell::get).unwrap_or(true)
            // A forked child has but one thread.
            && std::process::id() == info::process_id()
            && let Some(reaper) = reaper()
        {
            let sent = reaper.send(Corpse::Block(Block { start, layout }));
            if sent.is_ok() {
                return;
            }
        }
        // SAFETY: the caller's promises are handed on; if the block was sent, it
        // did not arrive.
        unsafe { SERVERS.dealloc(start, layout) };
    }
}
