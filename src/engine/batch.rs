//! Batches: what is held against the queue before the first order of one is decided.
//!
//! The orders of a batch are decided one after the other, each as by itself: the second
//! with the same id meets what the first one made. An error of one in the middle would
//! leave those before it done, so what can be an error is looked for before: a deadline
//! that is too far, no room, no numbers left.

use super::decide::deadline_of;
use super::number::NUMBER_END;
use super::queue::Queue;
use crate::error::Error;
use crate::request::{Batch, Finish, Mode, Schedule, Timed};
use crate::words::time::Now;

impl Queue {
    /// Whether every order of an MSCHEDULE can be decided. O(orders).
    ///
    /// # Errors
    /// What a single SCHEDULE would answer, with the order's place; a full queue and
    /// used-up numbers also where only some of the orders would meet them.
    pub fn check_mschedule(
        &self,
        now: &Now,
        ask: &Batch<Schedule<'_>, Timed<'_>>,
    ) -> Result<(), Error> {
        for (place, order) in (1..).zip(&ask.orders) {
            deadline_of(order.when, now).map_err(|error| Error::InList {
                place,
                error: Box::new(error),
            })?;
        }
        let creates = ask.each.mode != Mode::Move;
        if creates || ask.each.payload.is_some() {
            self.check_room(ask.orders.len())?;
        }
        self.check_numbers(ask.orders.iter().map(|order| order.id), creates)
    }

    /// The same of an MFINISH.
    ///
    /// # Errors
    /// As for [`Queue::check_mschedule`].
    pub fn check_mfinish(&self, ask: &Batch<Finish<'_>, &[u8]>) -> Result<(), Error> {
        if ask.each.create {
            self.check_room(ask.orders.len())?;
        }
        self.check_numbers(ask.orders.iter().copied(), ask.each.create)
    }

    /// Whether so many new orders find room.
    fn check_room(&self, orders: usize) -> Result<(), Error> {
        if self.store.has_room_for(orders) {
            Ok(())
        } else {
            Err(Error::QueueFull)
        }
    }

    /// Whether there are numbers for a write to each of these orders; `creates`: also to
    /// those that are not there. O(1) but for a queue that was restored with numbers at
    /// the end of the line.
    ///
    /// # Errors
    /// [`Error::NumbersUsedUp`].
    pub fn check_numbers<'i>(
        &self,
        ids: impl ExactSizeIterator<Item = &'i [u8]>,
        creates: bool,
    ) -> Result<(), Error> {
        // None of the orders has a rev above the floor, and each takes one number.
        let more = ids.len() as u64;
        if self.floor.saturating_add(more) < NUMBER_END {
            return Ok(());
        }
        let rev = |id: &[u8]| Some(self.store.rows.get(self.store.seek(id)?)?.rev());
        for id in ids {
            let used_up = match rev(id) {
                Some(rev) => rev.saturating_add(more) >= NUMBER_END,
                None => creates,
            };
            if used_up {
                return Err(Error::NumbersUsedUp);
            }
        }
        Ok(())
    }
}
