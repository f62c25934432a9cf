//! CONFIG, PAUSE, RESUME, REQUEUE and PURGE: commands on a queue as a whole.

use crate::codec;
use crate::engine::control::Swept;
use crate::engine::effect::Effect;
use crate::engine::{Env, Queue};
use crate::error::Error;
use crate::request::{Configure, Pause, Purge};
use crate::shell::server::reply;
use crate::shell::write::{Call, perform};
use crate::words::glob;

/// Lets `decide` say what to do, does all of it or nothing, and answers.
fn run<'a>(
    call: &Call<'a>,
    decide: impl FnOnce(&mut Queue, &mut Env<'_>) -> Result<Vec<Effect<'a>>, Error>,
    answer: impl FnOnce(),
) {
    perform(call, |write| {
        let effects = write.decide(decide)?;
        effects.iter().try_for_each(codec::check)?;
        for effect in &effects {
            write.carry_out(effect)?;
        }
        answer();
        Ok(())
    });
}

/// CONFIG.
pub(crate) fn configure<'a>(call: &Call<'a>, ask: &Configure<'a>) {
    if let Configure::Get(only) = ask {
        return perform(call, |write| {
            let settings = write.decide(|queue, env| queue.settings(env.defaults, *only))?;
            reply::settings(call.ctx, &settings);
            Ok(())
        });
    }
    run(
        call,
        |queue, _| queue.decide_configure(ask),
        || call.ctx.reply_simple(c"OK"),
    );
}

/// PAUSE.
pub(crate) fn pause<'a>(call: &Call<'a>, ask: &Pause<'a>) {
    run(
        call,
        |queue, env| Ok(vec![queue.decide_pause(env, ask)]),
        || call.ctx.reply_simple(c"OK"),
    );
}

/// RESUME.
pub(crate) fn resume(call: &Call<'_>) {
    run(
        call,
        |queue, _| Ok(queue.decide_resume().into_iter().collect()),
        || call.ctx.reply_simple(c"OK"),
    );
}

/// REQUEUE.
pub(crate) fn requeue(call: &Call<'_>, count: u32) {
    sweep(call, |queue, env| {
        queue.advance(&call.now, &mut call.budget());
        queue.decide_requeue(env, count as usize)
    });
}

/// PURGE.
pub(crate) fn purge(call: &Call<'_>, ask: &Purge<'_>) {
    sweep(call, |queue, _| {
        queue.advance(&call.now, &mut call.budget());
        let matches = |id: &[u8]| ask.pattern.is_none_or(|pattern| glob::matches(pattern, id));
        let swept = queue.decide_purge(&call.now, ask, &matches);
        queue.purge_on(&swept);
        Ok(swept)
    });
}

/// A command that answers `[done, left]`.
fn sweep(call: &Call<'_>, decide: impl FnOnce(&mut Queue, &mut Env<'_>) -> Result<Swept, Error>) {
    let counts = std::cell::Cell::new((0, 0));
    run(
        call,
        |queue, env| {
            let swept = decide(queue, env)?;
            counts.set((swept.done, swept.left));
            Ok(swept.effect.into_iter().collect())
        },
        || {
            let (done, left) = counts.get();
            reply::swept(call.ctx, done, left);
        },
    );
}
