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
use crate::shell::server::api::{Ctx, Level, flag, is_valkey, log_once_a_second, log_text};
use crate::shell::server::cell::SharedCell;
use crate::shell::server::{counters, reply};
use crate::shell::state::{fences, settings};
use crate::shell::write::{self, Call};

/// When (monotonic) a refused APPLY was last logged.
static REFUSED_AT: SharedCell<u64> = SharedCell::new(0);

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

/// Ends the server while it loads an AOF that is not to be read, as the server itself does with
/// a file it cannot read: an error would be passed over, and what follows would be done to queues
/// that lack what came before.
fn give_up(error: &Error) -> ! {
    let why = match error {
        Error::ApplyVersion { version, newest } => {
            format!(
                "is of a newer version ({version}) than this module, which reads up to {newest}"
            )
        }
        other => format!(
            "is damaged ({})",
            other.to_string().trim_start_matches("ERR ")
        ),
    };
    log_text(
        Level::Warning,
        format!("orderwheel: the append only file {why}; the server does not start with it"),
    );
    std::process::exit(1)
}

/// APPLY. An empty blob is a probe: everything is checked, nothing is done.
pub(crate) fn effects(call: &Call<'_>, ask: &Apply<'_>) {
    if let Err(error) = carry_out(call, ask) {
        refuse();
        reply::error(call.ctx, &error);
    }
}

/// The same; an error changes nothing.
fn carry_out(call: &Call<'_>, ask: &Apply<'_>) -> Result<(), Error> {
    let ctx = call.ctx;
    // Once: what runs inside this APPLY is not ours any more.
    let ours = write::take_ours();
    let is_ours = ours.is_some();
    let decided = is_decided(ctx, is_ours);
    if !decided && !settings::apply_from_clients() {
        return Err(Error::ApplyNotAllowed);
    }
    let flags = ctx.flags() & (flag::LOADING | flag::ASYNC_LOADING);
    let loading = flags != 0;
    let effects = match codec::decode(ask.version, ask.effects) {
        Ok(effects) => effects,
        // Beside a load that is asynchronous clients are served: theirs is an error.
        Err(error) if flags == flag::LOADING => give_up(&error),
        Err(error) => return Err(error),
    };
    let defaults = settings::defaults();
    let limits = (!decided).then_some(&defaults);
    write::perform_or(call, |write| {
        if !effects.is_empty() {
            write.announce(ours.unwrap_or_default());
        }
        for some in effects.chunks(AHEAD_MAX) {
            write.queue.look_ahead_of(some);
            for effect in some {
                if loading {
                    write.replay(effect);
                } else {
                    write.carry_out_told(effect, limits);
                    if is_ours {
                        write.spend(effect);
                    }
                }
            }
        }
        write.queue.end_look_ahead();
        fences::learn(write.queue.floor(), call.now.wall_us);
        ctx.reply_simple(c"OK");
        Ok(())
    })
}
