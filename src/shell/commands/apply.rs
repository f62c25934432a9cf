//! `ORDER.APPLY`: the effects of a decision, carried out.
//!
//! It comes from the replication link, from an AOF being loaded, from a slot import,
//! and from our own pass (which may decide, but writes like everybody else). From a
//! client only with `apply-from-clients`. It always replicates itself as it came:
//! the AOF and the replicas of a replica need it too.

use crate::codec;
use crate::engine::lookup::AHEAD_MAX;
use crate::error::Error;
use crate::request::Apply;
use crate::shell::server::api::{Ctx, flag, is_valkey, log_once_a_second};
use crate::shell::server::cell::SharedCell;
use crate::shell::server::{counters, reply};
use crate::shell::state::{fences, settings};
use crate::shell::write::{self, Call, Done, Target, apply_counted, conclude};

/// When (monotonic) a refused APPLY was last logged.
static REFUSED_AT: SharedCell<u64> = SharedCell::new(0);
/// How an APPLY reaches them: as it came.
fn call_replicates_itself(call: &Call<'_>, _blob: &[u8]) {
    call.ctx.replicate_verbatim();
}

/// Whether a primary has decided what an APPLY carries; else a client sends it.
fn is_decided(ctx: Ctx, ours: bool) -> bool {
    if ours {
        return true;
    }
    let mut sources = flag::REPLICATED | flag::LOADING | flag::ASYNC_LOADING;
    if is_valkey() {
        sources |= flag::VALKEY_SLOT_IMPORT;
    }
    ctx.flags() & sources != 0
}

/// Counts a refused APPLY, and logs it once a second: on a replica it means that
/// the primary is newer, or that the link carries what is not ours.
pub(crate) fn refuse() {
    counters::APPLY_REFUSED.add(1);
    log_once_a_second(
        &REFUSED_AT,
        c"orderwheel: ORDER.APPLY was refused; upgrade replicas before their primary (orderwheel_apply_refused_total in INFO)",
    );
}

/// APPLY. An empty blob is a probe: everything is checked, nothing is done.
pub(crate) fn effects(call: &Call<'_>, ask: &Apply<'_>) {
    let ctx = call.ctx;
    // Once: what runs inside this APPLY is not ours any more.
    let ours = write::take_ours();
    let is_ours = ours.is_some();
    let announcements = ours.unwrap_or_default();
    let decided = is_decided(ctx, is_ours);
    if !decided && !settings::apply_from_clients() {
        refuse();
        return reply::error(ctx, &Error::ApplyNotAllowed);
    }
    let effects = match codec::decode(ask.version, ask.effects) {
        Ok(effects) => effects,
        Err(error) => {
            refuse();
            return reply::error(ctx, &error);
        }
    };
    let mut target = Target::open(call);
    let queue = match target.queue() {
        Ok(queue) => queue,
        Err(error) => {
            refuse();
            return reply::error(ctx, &error);
        }
    };
    if effects.is_empty() {
        return ctx.reply_simple(c"OK");
    }
    let mut done = Done {
        announcements,
        ..Done::default()
    };
    // From a file: what has fallen due since it was written goes by its deadline,
    // not by when its effect is read.
    let loading = ctx.flags() & (flag::LOADING | flag::ASYNC_LOADING) != 0;
    let defaults = settings::defaults();
    let limits = (!decided).then_some(&defaults);
    for some in effects.chunks(AHEAD_MAX) {
        queue.look_ahead_of(some);
        for effect in some {
            if !loading {
                apply_counted(&call.now, queue, effect, limits, &mut done.events);
            } else if !queue.replay(&call.now, effect, &defaults) {
                counters::APPLY_MISMATCH.add(1);
            }
        }
    }
    queue.end_look_ahead();
    fences::learn(queue.floor(), call.now.wall_us);
    ctx.reply_simple(c"OK");
    conclude(call, target, done, call_replicates_itself);
}
