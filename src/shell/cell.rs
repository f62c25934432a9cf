//! State of the module that every callback shares.
//!
//! The server runs one callback at a time: whoever calls into the module holds
//! the server's lock. So shared state needs no lock of its own, only protection
//! against itself: a callback that runs inside another one. [`Shared`] gives that:
//! a closure at a time, and nothing but `None` to the one that comes in between.
//! Closures are short and call nothing that can run other code.

use std::cell::{Cell, RefCell};

/// A value that is used under the server's lock.
pub(super) struct Shared<T> {
    /// The value, with the note whether it is in use.
    value: RefCell<T>,
}

// SAFETY: only callbacks that hold the server's lock touch it (not `free`, which
// runs on any thread; a forked child has a copy of its own), so there is never
// more than one thread in it, and the lock orders them.
unsafe impl<T> Sync for Shared<T> {}

impl<T> Shared<T> {
    /// Wraps `value`.
    pub(super) const fn new(value: T) -> Self {
        Self {
            value: RefCell::new(value),
        }
    }

    /// Runs `body` with the value; `None`, and nothing is run, while it is in use
    /// further up the stack.
    pub(super) fn with<R>(&self, body: impl FnOnce(&mut T) -> R) -> Option<R> {
        self.value
            .try_borrow_mut()
            .ok()
            .map(|mut value| body(&mut value))
    }
}

/// A small value that is read and written whole, under the server's lock.
pub(super) struct SharedCell<T> {
    /// The value.
    value: Cell<T>,
}

// SAFETY: as for `Shared`.
unsafe impl<T> Sync for SharedCell<T> {}

impl<T: Copy> SharedCell<T> {
    /// Wraps `value`.
    pub(super) const fn new(value: T) -> Self {
        Self {
            value: Cell::new(value),
        }
    }

    /// A copy of the value.
    pub(super) fn get(&self) -> T {
        self.value.get()
    }

    /// Replaces it.
    pub(super) fn set(&self, value: T) {
        self.value.set(value);
    }
}
