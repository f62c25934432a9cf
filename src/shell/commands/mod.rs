//! What a client asks: the commands, from the arguments to the reply.
//!
//! | file | what is in it |
//! |---|---|
//! | this one | registration, reading the arguments, commands that read |
//! | `locks`, `claims`, `queue` | LOCK and its family; CLAIM; CONFIG to PURGE |
//! | `batches` | MSCHEDULE, MFINISH, MACK, MNACK, MRENEW |
//! | `apply` | ORDER.APPLY: effects from elsewhere, and our own |
//! | `table` | the one table of commands |
//! | `help` | ORDER.HELP, made from the table |
//! | `arguments`, `describe`, `acl` | COMMAND DOCS and key specifications; the categories of ACL |
//!
//! A command that writes goes through [`write`](crate::shell::write). One that decides on
//! no effect replicates, signals and raises nothing, and makes no key. No command waits,
//! looks at the clock twice, or does more than `tick-budget-us` of catching up.

#![allow(
    clippy::similar_names,
    reason = "argv, argc and args are what everybody calls them"
)]

pub(crate) mod acl;
mod apply;
mod arguments;
mod batches;
mod claims;
pub(crate) mod describe;
mod help;
mod locks;
mod queue;
mod table;

use std::ffi::{CString, c_int};

use redis_module::raw;

use self::table::COMMANDS;
use crate::engine::{Decision, Env, Queue};
use crate::error::Error;
use crate::request::{Request, Scan, Verb, parse};
use crate::shell::server::api::{Ctx, Key, Mode, Name, OK, api, flag, guarded};
use crate::shell::server::gauges::Watch;
use crate::shell::server::value::{self, Found};
use crate::shell::server::{clock, reply, resets};
use crate::shell::state::{settings, waiters};
use crate::shell::write::{Call, perform};
use crate::words::glob;

/// More arguments than this are kept on the heap.
const ARGS_INLINE: usize = 24;

/// What the server calls for a command.
type Entry = unsafe extern "C" fn(
    *mut raw::RedisModuleCtx,
    *mut *mut raw::RedisModuleString,
    c_int,
) -> c_int;

/// An entry for each number.
macro_rules! entries {
    ($($number:literal)*) => {
        [$(enter::<$number>),*]
    };
}

/// The entry of each command, in the order of [`Verb::ALL`].
const ENTRIES: [Entry; Verb::ALL.len()] =
    entries![0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26];

/// Registers every command. False if the server refuses one.
pub(crate) fn register(ctx: Ctx) -> bool {
    let Some(call) = api!(RedisModule_CreateCommand) else {
        return false;
    };
    let all = COMMANDS.iter().all(|row| {
        let Ok(name) = CString::new(row.verb.command()) else {
            return false;
        };
        let entry = ENTRIES.get(row.verb as usize).copied();
        let flags = row.flags.as_ptr();
        // SAFETY: called while the module loads; the server copies; the key is argument 1.
        unsafe { call(ctx.as_ptr(), name.as_ptr(), entry, flags, 1, 1, 1) == OK }
    });
    all && help::register(ctx)
}

/// The entry of the command with this number among [`Verb::ALL`].
///
/// # Safety
/// The arguments are those the server gave to a command.
unsafe extern "C" fn enter<const VERB: usize>(
    ctx: *mut raw::RedisModuleCtx,
    argv: *mut *mut raw::RedisModuleString,
    argc: c_int,
) -> c_int {
    // SAFETY: the server's context for this command.
    let ctx = unsafe { Ctx::new(ctx) };
    // What can panic comes before the reply: `conclude` has a guard of its own.
    let done = guarded(false, || {
        let argc = usize::try_from(argc).unwrap_or(0);
        // SAFETY: so many strings are there, alive and unchanged until the
        // command returns.
        let argv = unsafe { std::slice::from_raw_parts(argv.cast::<Name<'_>>(), argc) };
        let Some(verb) = Verb::ALL.get(VERB) else {
            return false;
        };
        with_args(argv, |args| run(ctx, argv, args, *verb));
        true
    });
    if !done {
        reply::error(ctx, &Error::Internal);
    }
    OK
}

/// Runs `body` with the bytes of the arguments, kept on the stack where they are few.
fn with_args<'a>(argv: &[Name<'a>], body: impl FnOnce(&[&'a [u8]])) {
    if argv.len() > ARGS_INLINE {
        let args: Vec<&'a [u8]> = argv.iter().map(|name| name.bytes()).collect();
        return body(&args);
    }
    let mut args: [&'a [u8]; ARGS_INLINE] = [&[]; ARGS_INLINE];
    for (arg, name) in args.iter_mut().zip(argv) {
        *arg = name.bytes();
    }
    body(args.get(..argv.len()).unwrap_or(&[]));
}

/// Reads the arguments and does what they ask for.
fn run<'a>(ctx: Ctx, argv: &[Name<'a>], args: &[&'a [u8]], verb: Verb) {
    let request = match parse(verb, args, &settings::limits()) {
        Ok(request) => request,
        Err(error) => {
            if verb == Verb::Apply {
                apply::refuse();
            }
            return reply::error(ctx, &error);
        }
    };
    if request.is_of_session() && !has_connection(ctx) {
        return reply::error(ctx, &Error::SessionNeedsConnection);
    }
    let Some(name) = argv.get(1) else {
        return reply::error(ctx, &Error::Internal);
    };
    let call = Call {
        ctx,
        name: *name,
        db: ctx.db(),
        now: clock::now(),
    };
    answer(&call, request);
}

/// Whether whoever calls has a connection of its own. A script, a function and another
/// module's call have a client that is not there. On Valkey 9 the server says it is; but it
/// may not be blocked, and that is so for a connection only in MULTI.
fn has_connection(ctx: Ctx) -> bool {
    let flags = ctx.flags();
    let may_block = flags & flag::DENY_BLOCKING == 0;
    let in_multi = flags & flag::MULTI != 0 && flags & flag::SCRIPT == 0;
    (may_block || in_multi) && Ctx::client_lives(ctx.client_id())
}

/// Does what a request asks for, and replies.
fn answer<'a>(call: &Call<'a>, request: Request<'a>) {
    let ctx = call.ctx;
    match request {
        Request::Schedule(ask) => {
            write(call, ask.id, |queue, env| queue.decide_schedule(env, &ask));
        }
        Request::Finish(ask) => write(call, ask.id, |queue, env| queue.decide_finish(env, &ask)),
        Request::Status(ask) => write(call, ask.id, |queue, env| queue.decide_status(env, &ask)),
        Request::Ack(ask) => write(call, ask.id, |queue, env| queue.decide_ack(env, &ask)),
        Request::Nack(ask) => write(call, ask.id, |queue, env| queue.decide_nack(env, &ask)),
        Request::Renew(ask) => locks::renew(call, &ask),
        Request::Lock(ask) => locks::lock(call, &ask),
        Request::Unlock(ask) => locks::unlock(call, &ask),
        Request::Break(ask) => locks::break_lease(call, &ask),
        Request::Config(ask) => queue::configure(call, &ask),
        Request::Pause(ask) => queue::pause(call, &ask),
        Request::Resume => queue::resume(call),
        Request::Requeue(ask) => queue::requeue(call, &ask),
        Request::Release(ask) => queue::release(call, &ask),
        Request::Purge(ask) => queue::purge(call, &ask),
        Request::Mack(ask) => batches::acknowledge(call, &ask),
        Request::Mschedule(ask) => batches::schedule(call, &ask),
        Request::Mfinish(ask) => batches::finish(call, &ask),
        Request::Mnack(ask) => batches::hand_back(call, &ask),
        Request::Mrenew(ask) => batches::renew(call, &ask),
        Request::Claim(ask) => claims::claim_orders(call, &ask),
        Request::Apply(ask) => apply::effects(call, &ask),
        Request::Get { id } => read(call, |queue| {
            match queue.and_then(|queue| queue.view(&call.now, id)) {
                Some(view) => reply::map(ctx, &view),
                None => ctx.reply_null(),
            }
        }),
        Request::Pttl { id } => read(call, |queue| {
            let view = queue.as_ref().and_then(|queue| queue.view(&call.now, id));
            reply::pttl(ctx, &call.now, view.as_ref());
        }),
        Request::Next { count } => read(call, |queue| {
            let orders = queue.map(|queue| {
                queue.advance(&call.now, &mut call.budget());
                queue.next(&call.now, count as usize)
            });
            reply::next(ctx, orders.as_deref().unwrap_or(&[]));
        }),
        Request::Scan(ask) => read(call, |queue| scan_orders(call, &ask, queue)),
        Request::Stats => {
            resets::look(ctx);
            stats(call);
        }
    }
}

/// A reading command: `body` replies, with the queue, if there is one.
fn read(call: &Call<'_>, body: impl FnOnce(Option<&mut Queue>)) {
    let mut key = Key::open(call.ctx, call.name, Mode::Read);
    match value::look(&mut key) {
        Found::Queue(queue) => body(Some(&mut Watch::of(queue))),
        Found::Missing => body(None),
        Found::Other => reply::error(call.ctx, &Error::WrongType),
    }
}

/// STATS.
fn stats(call: &Call<'_>) {
    read(call, |queue| {
        let mut none = None;
        let queue = queue.unwrap_or_else(|| none.insert(Queue::new()));
        queue.advance(&call.now, &mut call.budget());
        queue.take_stock(&call.now);
        let waiting = waiters::count(call.db, call.name.bytes());
        let stats = queue.stats(&call.now, &settings::defaults(), waiting);
        reply::stats(call.ctx, &stats);
    });
}

/// SCAN.
fn scan_orders(call: &Call<'_>, ask: &Scan<'_>, queue: Option<&mut Queue>) {
    let matches = |id: &[u8]| ask.pattern.is_none_or(|pattern| glob::matches(pattern, id));
    let (cursor, rows) = queue.map_or((0, Vec::new()), |queue| {
        queue.scan(&call.now, ask, &matches)
    });
    reply::scan(call.ctx, cursor, &rows);
}

/// A command on one order that answers with the order reply.
fn write<'a>(
    call: &Call<'a>,
    id: &[u8],
    decide: impl FnOnce(&Queue, &mut Env<'_>) -> Result<Decision<'a>, Error>,
) {
    perform(call, |write| {
        let Decision { outcome, was, .. } = write.settle(decide)?;
        let view = write.queue.view(&call.now, id);
        reply::order(call.ctx, outcome, was, view.as_ref());
        Ok(())
    });
}
