//! State of the module that every callback shares.
//!
//! The server runs one callback at a time: whoever calls into the module holds
//! the server's lock. So shared state needs no lock of its own, only protection
//! against itself: a callback that runs inside another one. [`Shared`] gives that:
//! a closure at a time, and nothing but `None` to the one that comes in between.
//! Closures are short and call nothing that can run other code, so that none does
//! come: where one did, debug builds stop, and INFO counts it
//! (`reentries_total`), for what it was to do was not done.

use std::cell::{Cell, RefCell};

use crate::shell::server::counters;

/// A value that is used under the server's lock.
pub(crate) struct Shared<T> {
    /// The value, with the note whether it is in use.
    value: RefCell<T>,
}

// SAFETY: only callbacks that hold the server's lock touch it (not `free`, which
// runs on any thread; a forked child has a copy of its own), so there is never
// more than one thread in it, and the lock orders them. The threads differ: another
// module's may hold the lock and call a command. So the value must be `Send`.
unsafe impl<T: Send> Sync for Shared<T> {}

impl<T> Shared<T> {
    /// Wraps `value`.
    pub(crate) const fn new(value: T) -> Self {
        Self {
            value: RefCell::new(value),
        }
    }

    /// Runs `body` with the value; `None`, and nothing is run, while it is in use
    /// further up the stack, which is a fault of this module.
    pub(crate) fn with<R>(&self, body: impl FnOnce(&mut T) -> R) -> Option<R> {
        let Ok(mut value) = self.value.try_borrow_mut() else {
            counters::REENTRIES.add(1);
            debug_assert!(false, "shared state is used within its own use");
            return None;
        };
        Some(body(&mut value))
    }
}

/// A small value that is read and written whole, under the server's lock.
pub(crate) struct SharedCell<T> {
    /// The value.
    value: Cell<T>,
}

// SAFETY: as for `Shared`.
unsafe impl<T: Send> Sync for SharedCell<T> {}

impl<T: Copy> SharedCell<T> {
    /// Wraps `value`.
    pub(crate) const fn new(value: T) -> Self {
        Self {
            value: Cell::new(value),
        }
    }

    /// A copy of the value.
    pub(crate) fn get(&self) -> T {
        self.value.get()
    }

    /// Replaces it.
    pub(crate) fn set(&self, value: T) {
        self.value.set(value);
    }
}

#[cfg(test)]
mod tests {
    use std::panic::{AssertUnwindSafe, catch_unwind};

    use super::Shared;
    use crate::shell::server::counters;

    #[test]
    fn use_within_use_is_refused_and_counted() {
        let shared = Shared::new(1);
        let before = counters::REENTRIES.get();
        let inner = shared.with(|value| {
            *value = 2;
            catch_unwind(AssertUnwindSafe(|| shared.with(|value| *value = 3)))
        });
        // A debug build stops where it happens; else it is not done, and that is told.
        let stopped = inner.is_some_and(|inner| !matches!(inner, Ok(Some(()))));
        assert!(stopped);
        assert_eq!(counters::REENTRIES.get(), before + 1);
        assert_eq!(
            shared.with(|value| *value),
            Some(2),
            "and it can be used again"
        );
    }
}
