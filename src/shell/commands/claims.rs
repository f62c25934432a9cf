//! CLAIM and MACK: commands on many orders.

use crate::engine::lookup::AHEAD_MAX;
use crate::request::{Ack, Claim, Mack, Pick};
use crate::shell::schedule::timer;
use crate::shell::server::api::{Mode, flag};
use crate::shell::server::{reply, value};
use crate::shell::state::settings;
use crate::shell::state::waiters::{self, Wait, Want};
use crate::shell::write::{self, Call, Done, Target, call_replicates, carry_out, conclude};

/// MACK: each pair as an ACK of its own, one effect blob for all.
pub(super) fn acknowledge_many<'a>(call: &Call<'a>, ask: Mack<'a>) {
    let mut target = Target::open(call);
    let Some(queue) = target.queue_or_refuse(call) else {
        return;
    };
    let mut one = Ack {
        id: b"",
        fence: 0,
        from: ask.from,
        status: ask.status,
        result: None,
        keep_ms: ask.keep_ms,
    };
    let defaults = settings::defaults();
    let mut done = Done::default();
    let mut outcomes = Vec::with_capacity(ask.pairs.len());
    let mut failed = None;
    for (at, (id, fence)) in ask.pairs.iter().enumerate() {
        if at.is_multiple_of(AHEAD_MAX) {
            let ahead = ask.pairs.iter().skip(at).map(|(id, _)| *id);
            queue.look_ahead(ahead);
        }
        (one.id, one.fence) = (id, *fence);
        let decided = write::decide(call.now, &defaults, |env| queue.decide_ack(env, &one));
        let carried = decided.and_then(|decision| {
            write::note(queue, decision.outcome);
            if let Some(effect) = &decision.effect {
                carry_out(call, queue, effect, &mut done)?;
            }
            Ok(decision.outcome)
        });
        match carried {
            Ok(outcome) => outcomes.push(outcome),
            Err(error) => {
                // The number line ends at this pair; those before it are done.
                failed = Some(error);
                break;
            }
        }
    }
    queue.end_look_ahead();
    match failed {
        None => reply::outcomes(call.ctx, &outcomes),
        Some(error) => reply::error(call.ctx, &error),
    }
    if !done.blob.is_empty() {
        conclude(call, target, done, call_replicates);
    }
}

/// CLAIM.
pub(super) fn claim_orders(call: &Call<'_>, ask: &Claim<'_>) {
    let Call { ctx, name, db, .. } = *call;
    let block = match ask.pick {
        Pick::Next {
            count,
            block_ms: Some(ms),
        } if ctx.flags() & flag::DENY_BLOCKING == 0 => Some((count, ms)),
        Pick::Next { .. } | Pick::Id(_) => None,
    };
    let mut target = Target::open(call);
    let Some(queue) = target.queue_or_refuse(call) else {
        return;
    };
    // Who would wait does not pass by those who wait already.
    if block.is_none() || waiters::first(db, name.bytes()).is_none() {
        queue.advance(&call.now, &mut call.budget());
        let claimed = match write::decide(call.now, &settings::defaults(), |env| {
            queue.decide_claim(env, ask)
        }) {
            Ok(claimed) => claimed,
            Err(error) => return reply::error(ctx, &error),
        };
        if let Some(effect) = &claimed.effect {
            let mut done = Done {
                announcements: claimed.announcements,
                ..Done::default()
            };
            queue.expect(&claimed.picks);
            if let Err(error) = carry_out(call, queue, effect, &mut done) {
                return reply::error(ctx, &error);
            }
            queue.note_late(&claimed.late_us);
            ctx.reply_array(claimed.picks.len());
            for pick in &claimed.picks {
                match queue.view_at(&call.now, *pick) {
                    Some(view) => reply::claimed(ctx, &view),
                    None => ctx.reply_null(),
                }
            }
            return conclude(call, target, done, call_replicates);
        }
    }
    let Some((count, ms)) = block else {
        return ctx.reply_array(0);
    };
    drop(target);
    let wait = Wait {
        owner: ask.owner,
        lease_ms: ask.lease_ms,
        want: Want::Claim { count },
        block_ms: ms,
    };
    if !waiters::wait(ctx, name, db, wait) {
        return ctx.reply_array(0);
    }
    value::with_queue(ctx, name, Mode::Quiet, |queue| {
        timer::touch(db, name.bytes(), queue, &call.now);
    });
}
