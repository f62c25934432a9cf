//! CLAIM and MACK: commands on many orders.

use std::cell::Cell;

use crate::engine::lookup::AHEAD_MAX;
use crate::error::Error;
use crate::request::{Ack, Claim, Mack, Pick};
use crate::shell::schedule::timer;
use crate::shell::server::api::{Mode, flag};
use crate::shell::server::{reply, value};
use crate::shell::state::waiters::{self, Wait, Want};
use crate::shell::write::{Call, Write, perform};

/// MACK: each pair as an ACK of its own, one effect blob for all.
pub(super) fn acknowledge_many<'a>(call: &Call<'a>, ask: Mack<'a>) {
    let Mack {
        pairs,
        from,
        status,
        keep_ms,
    } = ask;
    let mut one = Ack {
        id: b"",
        fence: 0,
        from,
        status,
        result: None,
        keep_ms,
    };
    perform(call, |write| {
        let mut outcomes = Vec::with_capacity(pairs.len());
        // Where the number line ends, those before are done.
        let ended = pairs.iter().enumerate().try_for_each(|(at, (id, fence))| {
            if at.is_multiple_of(AHEAD_MAX) {
                let ahead = pairs.iter().skip(at).map(|(id, _)| *id);
                write.queue.look_ahead(ahead);
            }
            (one.id, one.fence) = (id, *fence);
            let decision = write.settle(|queue, env| queue.decide_ack(env, &one))?;
            outcomes.push(decision.outcome);
            Ok(())
        });
        write.queue.end_look_ahead();
        ended?;
        reply::outcomes(call.ctx, &outcomes);
        Ok(())
    });
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
    let waits = Cell::new(false);
    perform(call, |write| {
        // Who would wait does not pass by those who wait already.
        let in_line = block.is_some() && waiters::first(db, name.bytes()).is_some();
        if !in_line && hand_out(call, ask, write)? {
            return Ok(());
        }
        match block {
            Some(_) => waits.set(true),
            None => ctx.reply_array(0),
        }
        Ok(())
    });
    let Some((count, ms)) = block.filter(|_| waits.get()) else {
        return;
    };
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

/// Claims what there is, and replies. False, and no reply, where there is nothing.
fn hand_out(call: &Call<'_>, ask: &Claim<'_>, write: &mut Write<'_, '_>) -> Result<bool, Error> {
    write.queue.advance(&call.now, &mut call.budget());
    let claimed = write.decide(|queue, env| queue.decide_claim(env, ask))?;
    let Some(effect) = &claimed.effect else {
        return Ok(false);
    };
    write.announce(claimed.announcements);
    write.queue.expect(&claimed.picks);
    write.carry_out(effect)?;
    write.queue.note_late(&call.now, &claimed.late_us);
    call.ctx.reply_array(claimed.picks.len());
    for pick in &claimed.picks {
        match write.queue.view_at(&call.now, *pick) {
            Some(view) => reply::claimed(call.ctx, &view),
            None => call.ctx.reply_null(),
        }
    }
    Ok(true)
}
