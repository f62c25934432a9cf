//! MSCHEDULE, MFINISH, MACK, MNACK and MRENEW: each order as by itself, looked up ahead
//! as the shell does, and whatever the one before it left.

use super::super::world::World;
use crate::engine::lookup::AHEAD_MAX;
use crate::request::{Ack, Batch, Fenced, Finish, Nack, Renew, Schedule, Timed};

impl World {
    /// Compares one order after the other.
    fn compare_each<O>(
        &mut self,
        numbers: &[u32],
        orders: &[O],
        ids: &[&[u8]],
        mut compare: impl FnMut(&mut Self, u32, &O),
    ) {
        assert_eq!((numbers.len(), orders.len()), (ids.len(), ids.len()));
        for (at, (n, order)) in numbers.iter().zip(orders).enumerate() {
            if at % AHEAD_MAX == 0 {
                self.queue().look_ahead(ids[at..].iter().copied());
            }
            compare(self, *n, order);
        }
        self.queue().end_look_ahead();
        for n in numbers {
            self.compare_order(*n);
        }
    }

    /// MSCHEDULE.
    pub(in crate::engine::model) fn compare_mschedule(
        &mut self,
        numbers: &[u32],
        ask: &Batch<Schedule<'_>, Timed<'_>>,
    ) {
        let now = self.now();
        assert_eq!(self.queue().check_mschedule(&now, ask), Ok(()));
        let ids: Vec<&[u8]> = ask.orders.iter().map(|order| order.id).collect();
        self.compare_each(numbers, &ask.orders, &ids, |world, n, order| {
            let one = Schedule {
                id: order.id,
                when: order.when,
                payload: order.payload,
                ..ask.each.clone()
            };
            world.compare_schedule(n, &one);
        });
    }

    /// MFINISH.
    pub(in crate::engine::model) fn compare_mfinish(
        &mut self,
        numbers: &[u32],
        ask: &Batch<Finish<'_>, &[u8]>,
    ) {
        assert_eq!(self.queue().check_mfinish(ask), Ok(()));
        self.compare_each(numbers, &ask.orders, &ask.orders, |world, n, id| {
            let one = Finish {
                id,
                ..ask.each.clone()
            };
            world.compare_finish(n, &one);
        });
    }

    /// What MACK, MNACK and MRENEW have in common.
    fn compare_fenced(
        &mut self,
        numbers: &[u32],
        orders: &[Fenced<'_>],
        compare: impl FnMut(&mut Self, u32, &Fenced<'_>),
    ) {
        let ids: Vec<&[u8]> = orders.iter().map(|order| order.id).collect();
        let checked = self.queue().check_numbers(ids.iter().copied(), false);
        assert_eq!(checked, Ok(()));
        self.compare_each(numbers, orders, &ids, compare);
    }

    /// MACK.
    pub(in crate::engine::model) fn compare_mack(
        &mut self,
        numbers: &[u32],
        ask: &Batch<Ack<'_>, Fenced<'_>>,
    ) {
        self.compare_fenced(numbers, &ask.orders, |world, n, order| {
            let one = Ack {
                id: order.id,
                fence: order.fence,
                status: order.status.or(ask.each.status),
                ..ask.each.clone()
            };
            world.compare_ack(n, &one);
        });
    }

    /// MNACK.
    pub(in crate::engine::model) fn compare_mnack(
        &mut self,
        numbers: &[u32],
        ask: &Batch<Nack<'_>, Fenced<'_>>,
    ) {
        self.compare_fenced(numbers, &ask.orders, |world, n, order| {
            let one = Nack {
                id: order.id,
                fence: order.fence,
                ..ask.each.clone()
            };
            world.compare_nack(n, &one);
        });
    }

    /// MRENEW.
    pub(in crate::engine::model) fn compare_mrenew(
        &mut self,
        numbers: &[u32],
        ask: &Batch<Renew<'_>, Fenced<'_>>,
    ) {
        self.compare_fenced(numbers, &ask.orders, |world, n, order| {
            let one = Renew {
                id: order.id,
                fence: order.fence,
                ..ask.each
            };
            world.compare_renew(n, &one);
        });
    }
}
