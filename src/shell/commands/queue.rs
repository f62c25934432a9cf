//! CONFIG, PAUSE, RESUME, REQUEUE, RELEASE and PURGE: commands on a queue as a whole.

use crate::codec;
use crate::engine::control::Swept;
use crate::engine::effect::Effect;
use crate::engine::{Env, Outcome, Queue};
use crate::error::Error;
use crate::request::{Configure, Pause, Purge, Release, Requeue};
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
    hold(call, |queue, env| queue.decide_pause(env, ask));
}

/// RESUME.
pub(crate) fn resume(call: &Call<'_>) {
    hold(call, |queue, env| queue.decide_resume(&env.now));
}

/// A command on the pause: `OK`, or the outcome that says why not.
fn hold<'a>(
    call: &Call<'a>,
    decide: impl FnOnce(&Queue, &Env<'_>) -> (Outcome, Option<Effect<'a>>),
) {
    perform(call, |write| {
        write.queue.advance(&call.now, &mut call.budget());
        let (outcome, effect) = write.decide(|queue, env| decide(queue, env));
        if let Some(effect) = &effect {
            write.carry_out(effect)?;
        }
        match outcome {
            Outcome::Ok => call.ctx.reply_simple(c"OK"),
            other => call.ctx.reply_bytes(other.word().as_bytes()),
        }
        Ok(())
    });
}

/// REQUEUE.
pub(crate) fn requeue(call: &Call<'_>, ask: &Requeue<'_>) {
    let pattern = match ask {
        Requeue::Next(ask) => ask.pattern,
        Requeue::Ids(_) => None,
    };
    sweep(call, |queue, env| {
        queue.advance(&call.now, &mut call.budget());
        let matches = |id: &[u8]| pattern.is_none_or(|pattern| glob::matches(pattern, id));
        let swept = queue.decide_requeue(env, ask, &matches)?;
        queue.sweep_on(&swept);
        Ok(swept)
    });
}

/// RELEASE.
pub(crate) fn release(call: &Call<'_>, ask: &Release<'_>) {
    sweep(call, |queue, _| Ok(queue.decide_release(&call.now, ask)));
}

/// PURGE.
pub(crate) fn purge(call: &Call<'_>, ask: &Purge<'_>) {
    sweep(call, |queue, _| {
        queue.advance(&call.now, &mut call.budget());
        let matches = |id: &[u8]| ask.pattern.is_none_or(|pattern| glob::matches(pattern, id));
        let swept = queue.decide_purge(&call.now, ask, &matches);
        queue.sweep_on(&swept);
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
