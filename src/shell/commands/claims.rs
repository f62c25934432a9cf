//! CLAIM.

use std::cell::Cell;

use crate::engine::effect::Effect;
use crate::error::Error;
use crate::request::{Claim, Pick};
use crate::shell::schedule::timer;
use crate::shell::server::api::{Mode, flag};
use crate::shell::server::{reply, value};
use crate::shell::state::waiters::{self, Wait, Want};
use crate::shell::write::{Call, Write, perform};

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
    // Where it is to wait: whether that is, or may be, the brake's doing.
    let waits = Cell::new(None);
    perform(call, |write| {
        // Who would wait does not pass by those who wait already. Nor does anybody where
        // what they wait for is handed out little by little.
        let has_turns = block.is_some() || write.decide(|queue, env| queue.is_braked(env.defaults));
        let in_line = has_turns && waiters::first(db, name.bytes()).is_some();
        let (done, held_back) = if in_line {
            let held_back = write.decide(|queue, env| queue.is_held_back(env, ask));
            (false, held_back)
        } else {
            hand_out(call, ask, write)?
        };
        if held_back {
            write.note_held_back();
        }
        match block {
            _ if done => {}
            Some(_) => waits.set(Some(held_back)),
            None => ctx.reply_array(0),
        }
        Ok(())
    });
    let Some(((count, ms), held_back)) = block.zip(waits.get()) else {
        return;
    };
    let wait = Wait {
        owner: ask.owner,
        lease_ms: ask.lease_ms,
        session: ask.session,
        want: Want::Claim { count, held_back },
        block_ms: ms,
    };
    if !waiters::wait(ctx, name, db, wait) {
        return ctx.reply_array(0);
    }
    value::with_queue(ctx, name, Mode::Quiet, |queue| {
        timer::touch(db, name.bytes(), queue, &call.now);
    });
}

/// Claims what there is, and replies. Whether it has: there is no reply where there is
/// nothing; and whether the brake has kept something back.
fn hand_out(
    call: &Call<'_>,
    ask: &Claim<'_>,
    write: &mut Write<'_, '_>,
) -> Result<(bool, bool), Error> {
    write.queue.advance(&call.now, &mut call.budget());
    let claimed = write.decide(|queue, env| queue.decide_claim(env, ask))?;
    let Some(effect) = &claimed.effect else {
        return Ok((false, claimed.held_back));
    };
    write.announce(claimed.announcements);
    write.queue.expect(&claimed.picks);
    write.carry_out(effect)?;
    write.spend(effect);
    write.queue.note_late(&call.now, &claimed.late_us);
    if ask.session
        && let Effect::Claim { grants, .. } = effect
    {
        for granted in grants {
            write.bind(&granted.id);
        }
    }
    call.ctx.reply_array(claimed.picks.len());
    for pick in &claimed.picks {
        match write.queue.view_at(&call.now, *pick) {
            Some(view) => reply::claimed(call.ctx, &view),
            None => call.ctx.reply_null(),
        }
    }
    Ok((true, claimed.held_back))
}
