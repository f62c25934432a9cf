//! Memory is given back on a thread of its own.
//!
//! A queue that is deleted, and a page that a queue has emptied, are freed here and
//! not where they were let go. Not because freeing is much work by itself, but
//! because the server's allocator may take the moment to give what it has gathered
//! back to the kernel: at three million orders a single FINISH, the one that emptied
//! the page between two free ranges, took 6 ms of `madvise`.

use std::sync::OnceLock;
use std::sync::mpsc::Sender;

use crate::engine::tables::memory::free_pages_with;
use crate::shell::server::api::guarded;

/// Starts the reaper's thread, once while the module loads: the server ties its
/// main thread to `server-cpulist` later, and a thread of that one would share its
/// cores and stop it.
pub(crate) fn start() {
    reaper();
    free_pages_with(drop_elsewhere);
}

/// The reaper's thread; `None` if it can not be made.
fn reaper() -> Option<&'static Sender<Box<dyn Send>>> {
    static REAPER: OnceLock<Option<Sender<Box<dyn Send>>>> = OnceLock::new();
    REAPER
        .get_or_init(|| {
            let (sender, receiver) = std::sync::mpsc::channel::<Box<dyn Send>>();
            let spawned = std::thread::Builder::new()
                .name("orderwheel-free".to_owned())
                .spawn(move || {
                    for corpse in receiver {
                        guarded((), || drop(corpse));
                    }
                });
            spawned.is_ok().then_some(sender)
        })
        .as_ref()
}

/// Drops something large on the reaper's thread.
pub(crate) fn drop_elsewhere(corpse: Box<dyn Send>) {
    if let Some(reaper) = reaper() {
        // A failed send hands it back, and it is dropped here.
        drop(reaper.send(corpse));
    }
}
