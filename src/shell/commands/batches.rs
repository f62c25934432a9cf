//! MSCHEDULE, MFINISH, MACK, MNACK and MRENEW: many requests of one kind.

use crate::engine::lookup::AHEAD_MAX;
use crate::engine::{Outcome, Queue};
use crate::error::Error;
use crate::request::{Ack, Batch, Fenced, Finish, Nack, Renew, Schedule, Timed};
use crate::shell::server::reply;
use crate::shell::write::{Call, Write, perform};

/// Settles the orders one after the other, each as by itself, with one blob of effects
/// for all, and answers with their outcomes. `check` is asked before the first one:
/// whatever can be an error.
fn each<'a, O>(
    call: &Call<'a>,
    orders: &[O],
    id: impl Fn(&O) -> &'a [u8],
    check: impl FnOnce(&Queue) -> Result<(), Error>,
    mut settle: impl FnMut(&mut Write<'_, 'a>, &O) -> Result<Outcome, Error>,
) {
    perform(call, |write| {
        check(write.queue)?;
        let mut outcomes = Vec::with_capacity(orders.len());
        let ended = orders.chunks(AHEAD_MAX).try_for_each(|some| {
            write.queue.look_ahead(some.iter().map(&id));
            some.iter().try_for_each(|order| {
                outcomes.push(settle(write, order)?);
                Ok(())
            })
        });
        write.queue.end_look_ahead();
        ended?;
        reply::outcomes(call.ctx, &outcomes);
        Ok(())
    });
}

/// MSCHEDULE.
pub(super) fn schedule<'a>(call: &Call<'a>, ask: &Batch<Schedule<'a>, Timed<'a>>) {
    let mut one = ask.each.clone();
    each(
        call,
        &ask.orders,
        |order| order.id,
        |queue| queue.check_mschedule(&call.now, ask),
        |write, order| {
            (one.id, one.when, one.payload) = (order.id, order.when, order.payload);
            let decision = write.settle(|queue, env| queue.decide_schedule(env, &one))?;
            Ok(decision.outcome)
        },
    );
}

/// MFINISH.
pub(super) fn finish<'a>(call: &Call<'a>, ask: &Batch<Finish<'a>, &'a [u8]>) {
    let mut one = ask.each.clone();
    each(
        call,
        &ask.orders,
        |id| id,
        |queue| queue.check_mfinish(ask),
        |write, id| {
            one.id = id;
            let decision = write.settle(|queue, env| queue.decide_finish(env, &one))?;
            Ok(decision.outcome)
        },
    );
}

/// MACK.
pub(super) fn acknowledge<'a>(call: &Call<'a>, ask: &Batch<Ack<'a>, Fenced<'a>>) {
    let mut one = ask.each.clone();
    fenced(call, &ask.orders, |write, order| {
        (one.id, one.fence) = (order.id, order.fence);
        one.status = order.status.or(ask.each.status);
        let decision = write.settle(|queue, env| queue.decide_ack(env, &one))?;
        Ok(decision.outcome)
    });
}

/// MNACK.
pub(super) fn hand_back<'a>(call: &Call<'a>, ask: &Batch<Nack<'a>, Fenced<'a>>) {
    let mut one = ask.each.clone();
    fenced(call, &ask.orders, |write, order| {
        (one.id, one.fence) = (order.id, order.fence);
        let decision = write.settle(|queue, env| queue.decide_nack(env, &one))?;
        Ok(decision.outcome)
    });
}

/// MRENEW.
pub(super) fn renew<'a>(call: &Call<'a>, ask: &Batch<Renew<'a>, Fenced<'a>>) {
    let mut one = ask.each;
    fenced(call, &ask.orders, |write, order| {
        (one.id, one.fence) = (order.id, order.fence);
        let decision = write.settle(|queue, env| queue.decide_renew(env, &one))?;
        if one.session && decision.effect.is_some() {
            write.bind(one.id);
        }
        Ok(decision.outcome)
    });
}

/// A batch on leases.
fn fenced<'a>(
    call: &Call<'a>,
    orders: &[Fenced<'a>],
    settle: impl FnMut(&mut Write<'_, 'a>, &Fenced<'a>) -> Result<Outcome, Error>,
) {
    each(
        call,
        orders,
        |order| order.id,
        |queue| queue.check_numbers(orders.iter().map(|order| order.id), false),
        settle,
    );
}
