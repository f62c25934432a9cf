//! The records as a wheel sees them: linked, and each filed under one of its times.

use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};

use super::record::Record;
use super::rows::Rows;
use super::tables::list::{Linked, Links};
use super::tables::wheel::Filed;

/// Which of its times a record is filed under.
pub trait Time {
    /// That time of record `i`, in milliseconds.
    fn of(rows: &Rows, i: u32) -> u64;
}

/// The deadline; for the wheel of deadlines.
#[derive(Debug)]
pub struct Deadline;
/// The end of the lease, else of the retry wait; for the wheel of leases.
#[derive(Debug)]
pub struct Lease;
/// The keep end; for the wheel of keep ends.
#[derive(Debug)]
pub struct Keep;

/// Records filed under `T`: behind a `&Rows` for questions, behind a `&mut Rows` for
/// changes.
pub struct View<T, R>(R, PhantomData<T>);

/// The records by deadline.
pub const fn by_deadline<R: Deref<Target = Rows>>(rows: R) -> View<Deadline, R> {
    View(rows, PhantomData)
}

/// The records by the end of their lease or retry wait.
pub const fn by_lease<R: Deref<Target = Rows>>(rows: R) -> View<Lease, R> {
    View(rows, PhantomData)
}

/// The records by keep end.
pub const fn by_keep<R: Deref<Target = Rows>>(rows: R) -> View<Keep, R> {
    View(rows, PhantomData)
}

impl<T, R: Deref<Target = Rows>> Links for View<T, R> {
    #[inline]
    fn prev(&self, i: u32) -> u32 {
        self.0.prev(i)
    }
    #[inline]
    fn next(&self, i: u32) -> u32 {
        self.0.next(i)
    }
}

impl<T, R: DerefMut<Target = Rows>> Linked for View<T, R> {
    #[inline]
    fn set_prev(&mut self, i: u32, prev: u32) {
        self.0.set_prev(i, prev);
    }
    #[inline]
    fn set_next(&mut self, i: u32, next: u32) {
        self.0.set_next(i, next);
    }
}

impl<T: Time, R: Deref<Target = Rows>> Filed for View<T, R> {
    #[inline]
    fn filed(&self, i: u32) -> u64 {
        T::of(&self.0, i)
    }
}

impl Time for Deadline {
    #[inline]
    fn of(rows: &Rows, i: u32) -> u64 {
        rows.get(i)
            .and_then(Record::deadline)
            .map_or(0, |deadline| deadline.0)
    }
}

impl Time for Lease {
    #[inline]
    fn of(rows: &Rows, i: u32) -> u64 {
        rows.extra(i)
            .and_then(|extra| {
                extra
                    .grant()
                    .map(|grant| grant.end_mono)
                    .or(extra.retry().map(|retry| retry.mono))
            })
            .map_or(0, |mono| mono.0)
    }
}

/// One that was reserved is over by the monotonic clock, whatever the wall clock says
/// of its lock's end: it stands before all others.
impl Time for Keep {
    #[inline]
    fn of(rows: &Rows, i: u32) -> u64 {
        let keep_end = rows.get(i).and_then(Record::keep_end);
        // 1 at least: a walk that starts after 0 finds all.
        keep_end.map_or(1, |end| end.0.max(1))
    }
}
