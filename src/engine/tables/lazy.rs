//! A part that most queues never need, made when it is first changed.
//!
//! A queue of one waiting order has no leases, no lists and no histograms. What
//! is not there reads as its blank, so nobody asks whether it is there; the first
//! mutable use makes it. So a `&mut self` method should look before it writes.

use std::ops::{Deref, DerefMut};

use super::memory::allocated;

/// A value that reads as a blank before it is first changed.
pub trait Blank: Default + 'static {
    /// The blank: equal to the default.
    fn blank() -> &'static Self;
}

/// A part that is made when it is first changed.
#[derive(Clone, Debug, Default)]
pub struct Lazy<T>(Option<Box<T>>);

impl<T> Lazy<T> {
    /// Not made yet.
    pub const fn new() -> Self {
        Self(None)
    }

    /// The part, if it was made.
    pub fn made(&self) -> Option<&T> {
        self.0.as_deref()
    }

    /// Whether it was made.
    pub const fn is_made(&self) -> bool {
        self.0.is_some()
    }

    /// Bytes of the part itself, as an allocator rounds them up.
    pub const fn bytes(&self) -> usize {
        if self.0.is_some() {
            allocated(size_of::<T>())
        } else {
            0
        }
    }
}

impl<T: Blank> Deref for Lazy<T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        match &self.0 {
            Some(part) => part,
            None => T::blank(),
        }
    }
}

impl<T: Blank> DerefMut for Lazy<T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        self.0.get_or_insert_default()
    }
}
