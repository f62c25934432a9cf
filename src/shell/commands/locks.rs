//! LOCK, UNLOCK, BREAK and RENEW, and the service of clients that wait for a lock.
//!
//! A lock is handed over in the scheduler's pass, never inside somebody's command:
//! what a write changed is noted ([`waiters::changed`]) and the pass is armed for
//! at once, so the next holder is granted within the same turn of the event loop.

use crate::engine::Outcome;
use crate::request::{Break, Lock, Renew, Unlock};
use crate::shell::schedule::timer;
use crate::shell::server::api::{Mode, flag};
use crate::shell::server::cell::SharedCell;
use crate::shell::server::reply::{self, LeaseAnswer};
use crate::shell::server::{counters, value};
use crate::shell::state::waiters::{self, Wait, Want};
use crate::shell::write::{Call, perform};

/// RENEW.
pub(crate) fn renew<'a>(call: &Call<'a>, ask: &Renew<'a>) {
    perform(
        call,
        |queue, env| queue.decide_renew(env, ask),
        |queue, decision| {
            reply::lease(
                call.ctx,
                decision.outcome,
                queue.view(&call.now, ask.id).as_ref(),
            );
        },
    );
}

/// UNLOCK.
pub(crate) fn unlock<'a>(call: &Call<'a>, ask: &Unlock<'a>) {
    perform(
        call,
        |queue, env| queue.decide_unlock(env, ask),
        |queue, decision| {
            reply::lease(
                call.ctx,
                decision.outcome,
                queue.view(&call.now, ask.id).as_ref(),
            );
        },
    );
}

/// BREAK.
pub(crate) fn break_lease<'a>(call: &Call<'a>, ask: &Break<'a>) {
    perform(
        call,
        |queue, env| queue.decide_break(env, ask),
        |queue, decision| {
            reply::lease(
                call.ctx,
                decision.outcome,
                queue.view(&call.now, ask.id).as_ref(),
            );
        },
    );
}

/// LOCK. Where the lock is BUSY and the caller may wait, it is put in line.
pub(crate) fn lock<'a>(call: &Call<'a>, ask: &Lock<'a>) {
    let Call { ctx, name, db, .. } = *call;
    let block_ms = ask
        .block_ms
        .filter(|_| ctx.flags() & flag::DENY_BLOCKING == 0);
    let queued = waiters::lock_waiting(db, name.bytes(), ask.id);
    let waits = SharedCell::new(false);
    perform(
        call,
        |queue, env| queue.decide_lock(env, ask, queued),
        |queue, decision| {
            queue.note_lock(decision.outcome);
            counters::LOCK_ATTEMPTS.add(1);
            counters::LOCK_BUSY.add(u64::from(decision.outcome == Outcome::Busy));
            if decision.outcome == Outcome::Busy && block_ms.is_some() {
                return waits.set(true);
            }
            reply::lease(
                ctx,
                decision.outcome,
                queue.view(&call.now, ask.id).as_ref(),
            );
        },
    );
    let Some(block_ms) = block_ms.filter(|_| waits.get()) else {
        return;
    };
    let wait = Wait {
        owner: ask.owner,
        lease_ms: Some(ask.lease_ms),
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
