//! LOCK, UNLOCK, BREAK and RENEW, and the service of clients that wait for a lock.
//!
//! A lock is handed over in the scheduler's pass, never inside somebody's command:
//! what a write changed is noted ([`waiters::changed`]) and the pass is armed for
//! at once, so the next holder is granted within the same turn of the event loop.

use std::cell::Cell;

use crate::engine::{Decision, Env, Outcome, Queue};
use crate::error::Error;
use crate::request::{Break, Lock, Renew, Unlock};
use crate::shell::schedule::timer;
use crate::shell::server::api::{Mode, flag};
use crate::shell::server::reply::{self, LeaseAnswer};
use crate::shell::server::{counters, value};
use crate::shell::state::waiters::{self, Wait, Want};
use crate::shell::write::{Call, perform};

/// A command on one order that answers with the lease reply.
fn write<'a>(
    call: &Call<'a>,
    id: &[u8],
    decide: impl FnOnce(&Queue, &mut Env<'_>) -> Result<Decision<'a>, Error>,
) {
    perform(call, |write| {
        let decision = write.settle(decide)?;
        let view = write.queue.view(&call.now, id);
        reply::lease(call.ctx, decision.outcome, view.as_ref());
        Ok(())
    });
}

/// RENEW.
pub(crate) fn renew<'a>(call: &Call<'a>, ask: &Renew<'a>) {
    perform(call, |write| {
        let decision = write.settle(|queue, env| queue.decide_renew(env, ask))?;
        if ask.session && decision.effect.is_some() {
            write.bind(ask.id);
        }
        let view = write.queue.view(&call.now, ask.id);
        reply::lease(call.ctx, decision.outcome, view.as_ref());
        Ok(())
    });
}

/// UNLOCK.
pub(crate) fn unlock<'a>(call: &Call<'a>, ask: &Unlock<'a>) {
    write(call, ask.id, |queue, env| queue.decide_unlock(env, ask));
}

/// BREAK.
pub(crate) fn break_lease<'a>(call: &Call<'a>, ask: &Break<'a>) {
    write(call, ask.id, |queue, env| queue.decide_break(env, ask));
}

/// LOCK. Where the lock is BUSY and the caller may wait, it is put in line.
pub(crate) fn lock<'a>(call: &Call<'a>, ask: &Lock<'a>) {
    let Call { ctx, name, db, .. } = *call;
    let block_ms = ask
        .block_ms
        .filter(|_| ctx.flags() & flag::DENY_BLOCKING == 0);
    let queued = waiters::lock_waiting(db, name.bytes(), ask.id);
    let waits = Cell::new(false);
    perform(call, |write| {
        let decision = write.settle(|queue, env| queue.decide_lock(env, ask, queued))?;
        let is_busy = decision.outcome == Outcome::Busy;
        if ask.session && decision.effect.is_some() {
            write.bind(ask.id);
        }
        write.queue.note_lock(decision.outcome);
        counters::LOCK_ATTEMPTS.add(1);
        counters::LOCK_BUSY.add(u64::from(is_busy));
        if is_busy && block_ms.is_some() {
            waits.set(true);
            return Ok(());
        }
        let view = write.queue.view(&call.now, ask.id);
        reply::lease(ctx, decision.outcome, view.as_ref());
        Ok(())
    });
    let Some(block_ms) = block_ms.filter(|_| waits.get()) else {
        return;
    };
    let wait = Wait {
        owner: ask.owner,
        lease_ms: Some(ask.lease_ms),
        session: ask.session,
        want: Want::lock(ask),
        block_ms,
    };
    if !waiters::wait(ctx, name, db, wait) {
        let answer = value::with_queue(ctx, name, Mode::Quiet, |queue| {
            LeaseAnswer::of(Outcome::Busy, queue.view(&call.now, ask.id).as_ref())
        });
        return reply::lease_answer(
            ctx,
            &answer.unwrap_or_else(|| LeaseAnswer::of(Outcome::Busy, None)),
        );
    }
    // When its holder's lease ends, or the deadline comes: the pass finds out.
    timer::file_now(db, name.bytes());
}
