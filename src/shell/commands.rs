//! The commands: read the arguments, open the key, let the engine decide, and
//! perform what it says.
//!
//! Every write goes the same way, and the order of its steps matters:
//!
//! 1. read the arguments ([`parse`]): errors come before the key is looked at;
//! 2. open the key; `decide`, `apply` and the reply, with the queue borrowed;
//! 3. file the queue in the scheduler's agenda; the borrow ends here;
//! 4. replicate the effects as one `ORDER.APPLY`;
//! 5. store a new queue, or delete one that became empty; close the key;
//! 6. signal the key as modified; raise the events.
//!
//! From 5 on other code may run: modules that listen to events may call commands
//! of ours for the same key. Nothing is borrowed any more, and what they do is
//! replicated after what was done here.
//!
//! A command that decides on no effect replicates, signals and raises nothing,
//! and makes no key. No command waits, looks at the clock twice, or does more than
//! `tick-budget-us` of catching up.

#![allow(
    clippy::similar_names,
    reason = "argv, argc and args are what everybody calls them"
)]

use std::ffi::{CStr, c_int};

use redis_module::raw;

use super::buffer::Spare;
use super::cell::Shared;
use super::datatype::{self, Found, VERSION_TEXT, look};
use super::ffi::{Ctx, Key, Level, Mode, Name, OK, Text, api, flag, guarded, log};
use super::reply::LeaseAnswer;
use super::waiters::{Wait, Want};
use super::{
    apply, audience, clock, control, counters, locks, numbers, pass, reply, scheduler, settings,
    waiters,
};
use crate::codec;
use crate::engine::effect::Effect;
use crate::engine::lookup::AHEAD_MAX;
use crate::engine::{Announcement, Decision, Env, Event, EventKind, Outcome, Queue};
use crate::error::Error;
use crate::request::{Ack, Claim, Mack, Pick, Request, Scan, Verb, parse};
use crate::words::glob;
use crate::words::time::Now;

/// Keyspace events of the module class.
pub(super) const CLASS_MODULE: c_int = raw::REDISMODULE_NOTIFY_MODULE;
/// Keyspace events of keys in general.
const CLASS_GENERIC: c_int = raw::REDISMODULE_NOTIFY_GENERIC;

/// More arguments than this are kept on the heap.
const ARGS_INLINE: usize = 24;

/// The buffer effects are encoded into, kept from command to command.
static BLOB: Shared<Spare> = Shared::new(Spare::new(codec::CHUNK_BYTES));

/// The kept buffer, to encode effects into.
pub(super) fn take_blob() -> Vec<u8> {
    BLOB.with(Spare::take).unwrap_or_default()
}

/// Keeps the buffer for the next one.
pub(super) fn give_back_blob(blob: Vec<u8>) {
    BLOB.with(|kept| kept.give_back(blob));
}

/// A callback for each command.
macro_rules! entries {
    ($($name:ident => $verb:ident),* $(,)?) => {
        $(
            /// The command of this name, see [`enter`].
            unsafe extern "C" fn $name(
                ctx: *mut raw::RedisModuleCtx,
                argv: *mut *mut raw::RedisModuleString,
                argc: c_int,
            ) -> c_int {
                // SAFETY: what the server gives to a command.
                unsafe { enter(ctx, argv, argc, Verb::$verb) }
            }
        )*
    };
}

entries! {
    schedule => Schedule, finish => Finish, status => Status, claim => Claim, ack => Ack, mack => Mack,
    nack => Nack, renew => Renew, lock => Lock, unlock => Unlock, break_lease => Break, config => Config,
    pause => Pause, resume => Resume, requeue => Requeue, purge => Purge, get => Get, pttl => Pttl, next => Next, scan => Scan, stats => Stats,
    apply => Apply,
}

/// Name, callback and flags of every command. deny-oom only where an order grows:
/// finishing must work when memory is full.
const COMMANDS: [(&CStr, raw::RedisModuleCmdFunc, &CStr); 22] = [
    (c"order.schedule", Some(schedule), c"write deny-oom fast"),
    (c"order.finish", Some(finish), c"write fast"),
    (c"order.status", Some(status), c"write deny-oom fast"),
    (c"order.claim", Some(claim), c"write blocking"),
    (c"order.ack", Some(ack), c"write fast"),
    (c"order.mack", Some(mack), c"write"),
    (c"order.nack", Some(nack), c"write fast"),
    (c"order.renew", Some(renew), c"write fast"),
    (c"order.lock", Some(lock), c"write deny-oom fast blocking"),
    (c"order.unlock", Some(unlock), c"write fast"),
    (c"order.break", Some(break_lease), c"write fast"),
    (c"order.config", Some(config), c"write"),
    (c"order.pause", Some(pause), c"write fast"),
    (c"order.resume", Some(resume), c"write fast"),
    (c"order.requeue", Some(requeue), c"write"),
    (c"order.purge", Some(purge), c"write"),
    (c"order.get", Some(get), c"readonly fast"),
    (c"order.pttl", Some(pttl), c"readonly fast"),
    (c"order.next", Some(next), c"readonly"),
    (c"order.scan", Some(scan), c"readonly"),
    (c"order.stats", Some(stats), c"readonly"),
    (c"order.apply", Some(apply), c"write"),
];

/// Registers every command. False if the server refuses one.
pub(super) fn register(ctx: Ctx) -> bool {
    let Some(call) = api!(RedisModule_CreateCommand) else {
        return false;
    };
    COMMANDS.iter().all(|(name, callback, flags)| {
        // SAFETY: called while the module loads; the key is argument 1.
        unsafe {
            call(
                ctx.as_ptr(),
                name.as_ptr(),
                *callback,
                flags.as_ptr(),
                1,
                1,
                1,
            ) == OK
        }
    })
}

/// Every command's name and flags.
pub(super) fn names_and_flags() -> impl Iterator<Item = (&'static CStr, &'static CStr)> {
    COMMANDS.iter().map(|(name, _, flags)| (*name, *flags))
}

/// What a command knows from its start.
pub(super) struct Call<'a> {
    /// The server's context.
    pub(super) ctx: Ctx,
    /// The key.
    pub(super) name: Name<'a>,
    /// Its database.
    pub(super) db: i32,
    /// The clocks.
    pub(super) now: Now,
}

impl Call<'_> {
    /// A question whether there is time left to catch up.
    pub(super) fn budget(&self) -> impl FnMut() -> bool + use<> {
        let end_us = self
            .now
            .mono_us
            .saturating_add(settings::TICK_BUDGET_US.get());
        move || clock::mono_us() < end_us
    }
}

/// The body of every command.
///
/// # Safety
/// The arguments are those the server gave to a command.
unsafe fn enter(
    ctx: *mut raw::RedisModuleCtx,
    argv: *mut *mut raw::RedisModuleString,
    argc: c_int,
    verb: Verb,
) -> c_int {
    // SAFETY: the server's context for this command.
    let ctx = unsafe { Ctx::new(ctx) };
    // What can panic comes before the reply: `conclude` has a guard of its own.
    let done = guarded(false, || {
        let argc = usize::try_from(argc).unwrap_or(0);
        // SAFETY: so many strings are there, alive and unchanged until the
        // command returns.
        let argv = unsafe { std::slice::from_raw_parts(argv.cast::<Name<'_>>(), argc) };
        with_args(argv, |args| run(ctx, argv, args, verb));
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
    let Some(name) = argv.get(1) else {
        return reply::error(ctx, &Error::Internal);
    };
    let call = Call {
        ctx,
        name: *name,
        db: ctx.db(),
        now: clock::now(),
    };
    match request {
        Request::Schedule(ask) => {
            write(&call, ask.id, |queue, env| queue.decide_schedule(env, &ask));
        }
        Request::Finish(ask) => write(&call, ask.id, |queue, env| queue.decide_finish(env, &ask)),
        Request::Status(ask) => write(&call, ask.id, |queue, env| queue.decide_status(env, &ask)),
        Request::Ack(ask) => write(&call, ask.id, |queue, env| queue.decide_ack(env, &ask)),
        Request::Nack(ask) => write(&call, ask.id, |queue, env| queue.decide_nack(env, &ask)),
        Request::Renew(ask) => locks::renew(&call, &ask),
        Request::Lock(ask) => locks::lock(&call, &ask),
        Request::Unlock(ask) => locks::unlock(&call, &ask),
        Request::Break(ask) => locks::break_lease(&call, &ask),
        Request::Config(ask) => control::configure(&call, &ask),
        Request::Pause(ask) => control::pause(&call, &ask),
        Request::Resume => control::resume(&call),
        Request::Requeue { count } => control::requeue(&call, count),
        Request::Purge(ask) => control::purge(&call, &ask),
        Request::Mack(ask) => acknowledge_many(&call, ask),
        Request::Claim(ask) => claim_orders(&call, &ask),
        Request::Apply(ask) => apply::effects(&call, &ask),
        Request::Get { id } => read(&call, |queue| {
            match queue.and_then(|queue| queue.view(&call.now, id)) {
                Some(view) => reply::map(ctx, &view),
                None => ctx.reply_null(),
            }
        }),
        Request::Pttl { id } => read(&call, |queue| {
            let view = queue.as_ref().and_then(|queue| queue.view(&call.now, id));
            reply::pttl(ctx, &call.now, view.as_ref());
        }),
        Request::Next { count } => read(&call, |queue| {
            let orders = queue.map(|queue| {
                queue.advance(&call.now, &mut call.budget());
                queue.next(&call.now, count as usize)
            });
            reply::next(ctx, orders.as_deref().unwrap_or(&[]));
        }),
        Request::Scan(ask) => read(&call, |queue| scan_orders(&call, &ask, queue)),
        Request::Stats => read(&call, |queue| {
            let mut none = None;
            let queue = queue.unwrap_or_else(|| none.insert(Queue::new()));
            queue.advance(&call.now, &mut call.budget());
            let waiting = waiters::count(call.db, call.name.bytes());
            reply::stats(ctx, &queue.stats(&call.now, &settings::defaults(), waiting));
        }),
    }
}

/// A reading command: `body` replies, with the queue, if there is one.
fn read(call: &Call<'_>, body: impl FnOnce(Option<&mut Queue>)) {
    let mut key = Key::open(call.ctx, call.name, Mode::Read);
    match look(&mut key) {
        Found::Queue(queue) => body(Some(queue)),
        Found::Missing => body(None),
        Found::Other => reply::error(call.ctx, &Error::WrongType),
    }
}

/// SCAN.
fn scan_orders(call: &Call<'_>, ask: &Scan<'_>, queue: Option<&mut Queue>) {
    let matches = |id: &[u8]| ask.pattern.is_none_or(|pattern| glob::matches(pattern, id));
    let (cursor, rows) = queue.map_or((0, Vec::new()), |queue| {
        queue.scan(&call.now, ask, &matches)
    });
    reply::scan(call.ctx, cursor, &rows);
}

/// What a writing command found under its key: the open key, and a queue of its
/// own where there was none.
pub(super) struct Target {
    /// The key, open for writing.
    key: Key,
    /// The queue to be stored if it does not stay empty.
    fresh: Option<Queue>,
}

impl Target {
    /// Opens the key of a command.
    pub(super) fn open(call: &Call<'_>) -> Self {
        Self {
            key: Key::open(call.ctx, call.name, Mode::Write),
            fresh: None,
        }
    }

    /// The queue: the one that is there or a fresh one.
    pub(super) fn queue(&mut self) -> Result<&mut Queue, Error> {
        match look(&mut self.key) {
            Found::Queue(queue) => Ok(queue),
            Found::Missing => Ok(self.fresh.get_or_insert_default()),
            Found::Other => Err(Error::WrongType),
        }
    }
}

/// What a command has done, to be told to the world.
#[derive(Default)]
pub(super) struct Done<'e> {
    /// The effects, encoded.
    pub(super) blob: Vec<u8>,
    /// What time had brought before and nobody was told of.
    pub(super) announcements: Vec<Announcement>,
    /// The events of the effects.
    pub(super) events: Vec<Event<'e>>,
}

/// A command on one order that answers with the order reply.
fn write<'a>(
    call: &Call<'a>,
    id: &[u8],
    decide: impl FnOnce(&Queue, &mut Env<'_>) -> Result<Decision<'a>, Error>,
) {
    perform(call, decide, |queue, decision| {
        let view = queue.view(&call.now, id);
        reply::order(call.ctx, decision.outcome, decision.was, view.as_ref());
    });
}

/// Decides, applies, replies, and performs the rest.
pub(super) fn perform<'a>(
    call: &Call<'a>,
    decide: impl FnOnce(&Queue, &mut Env<'_>) -> Result<Decision<'a>, Error>,
    answer: impl FnOnce(&mut Queue, &Decision<'a>),
) {
    let mut target = Target::open(call);
    let queue = match target.queue() {
        Ok(queue) => queue,
        Err(error) => return reply::error(call.ctx, &error),
    };
    let decided = numbers::with(|numbers| {
        decide(
            queue,
            &mut Env {
                now: call.now,
                numbers,
                defaults: &settings::defaults(),
            },
        )
    });
    let decision = match decided {
        Ok(decision) => decision,
        Err(error) => return reply::error(call.ctx, &error),
    };
    note(queue, decision.outcome);
    let mut done = Done::default();
    if let Some(effect) = &decision.effect
        && let Err(error) = carry_out(call, queue, effect, &mut done)
    {
        return reply::error(call.ctx, &error);
    }
    answer(queue, &decision);
    if decision.effect.is_some() {
        conclude(call, target, done, call_replicates);
    }
}

/// Counts an answer.
fn note(queue: &mut Queue, outcome: Outcome) {
    queue.note(outcome);
    if outcome == Outcome::Stale {
        counters::STALE.add(1);
    }
}

/// Applies one effect and notes what is to be told of it. It is encoded first: what
/// could not be read back is refused, and nothing is done.
pub(super) fn carry_out<'e>(
    call: &Call<'_>,
    queue: &mut Queue,
    effect: &Effect<'e>,
    done: &mut Done<'e>,
) -> Result<(), Error> {
    if done.blob.capacity() == 0 {
        done.blob = take_blob();
    }
    codec::encode(effect, &mut done.blob)?;
    if let Effect::Finish {
        id,
        status,
        result,
        keep_end: None,
        ..
    } = effect
        && waiters::lock_waiting(call.db, call.name.bytes(), id)
    {
        let old = queue.view(&call.now, id).map(|view| view.status.to_vec());
        let status = status.as_deref().or(old.as_deref()).unwrap_or_default();
        let answer = LeaseAnswer::finished(status, result.as_deref());
        waiters::finished(call.db, call.name.bytes(), id, &answer);
    }
    done.announcements
        .extend(queue.lapses_before(&call.now, effect));
    apply_counted(&call.now, queue, effect, &mut done.events);
    effect.each_id(&mut |id| waiters::changed(call.db, call.name.bytes(), id));
    Ok(())
}

/// Applies one effect, and counts what no event tells of.
pub(super) fn apply_counted<'e>(
    now: &Now,
    queue: &mut Queue,
    effect: &Effect<'e>,
    events: &mut Vec<Event<'e>>,
) {
    let dropped = queue.dead_dropped();
    if !queue.apply(now, effect, events) {
        counters::APPLY_MISMATCH.add(1);
    }
    counters::DEAD_DROPPED.add(queue.dead_dropped().saturating_sub(dropped));
}

/// How what was done reaches replicas and AOF: as an APPLY of its effects.
pub(super) fn call_replicates(call: &Call<'_>, blob: &[u8]) {
    call.ctx.replicate_apply(call.name, VERSION_TEXT, blob);
}

/// Everything that follows the reply: steps 3 to 6 of the module's text. Has a
/// guard of its own, so that no second reply is written for a panic.
pub(super) fn conclude(
    call: &Call<'_>,
    target: Target,
    done: Done<'_>,
    replicate: fn(&Call<'_>, &[u8]),
) {
    guarded((), || {
        let Target { mut key, mut fresh } = target;
        let was_missing = fresh.is_some();
        let empty = {
            let queue = match (&mut fresh, look(&mut key)) {
                (Some(queue), _) | (None, Found::Queue(queue)) => queue,
                (None, Found::Missing | Found::Other) => return,
            };
            let empty = queue.is_empty();
            if !empty {
                scheduler::touch(call.db, call.name.bytes(), queue, &call.now);
            }
            empty
        };
        replicate(call, &done.blob);
        let deleted = empty && !was_missing;
        if deleted {
            key.delete();
        } else if let Some(queue) = fresh.filter(|_| !empty)
            && !datatype::put(&mut key, queue)
        {
            log(
                Level::Warning,
                c"orderwheel: the server refused to store a queue",
            );
        }
        drop(key);
        if !(empty && was_missing) {
            call.ctx.signal_modified(call.name);
        }
        pass::publish(call.ctx, call.name, &done.announcements);
        for Event { kind, id } in &done.events {
            counters::count(*kind);
            notify_order(call.ctx, call.name, *kind, id);
        }
        if deleted {
            call.ctx.notify(CLASS_GENERIC, c"del", call.name);
        }
        give_back_blob(done.blob);
    });
}

/// Raises one event under `<queue>:<id>`, if anybody can hear it. Runs other code.
pub(super) fn notify_order(ctx: Ctx, name: Name<'_>, kind: EventKind, id: &[u8]) {
    /// Names up to this length need no heap.
    const INLINE: usize = 512;
    if !audience::is_there() {
        return;
    }
    let queue = name.bytes();
    let text = if queue.len().saturating_add(id.len()) < INLINE {
        let mut buffer = [0_u8; INLINE];
        let mut len = 0_usize;
        for part in [queue, b":", id] {
            if let Some(to) = buffer.get_mut(len..len.saturating_add(part.len())) {
                to.copy_from_slice(part);
            }
            len = len.saturating_add(part.len());
        }
        Text::new(buffer.get(..len).unwrap_or(&[]))
    } else {
        Text::new(&[queue, b":", id].concat())
    };
    if let Some(text) = text {
        ctx.notify(CLASS_MODULE, kind.name(), text.name());
    }
}

/// MACK: each pair as an ACK of its own, one effect blob for all.
fn acknowledge_many<'a>(call: &Call<'a>, ask: Mack<'a>) {
    let mut target = Target::open(call);
    let queue = match target.queue() {
        Ok(queue) => queue,
        Err(error) => return reply::error(call.ctx, &error),
    };
    let defaults = settings::defaults();
    let mut one = Ack {
        id: b"",
        fence: 0,
        from: ask.from,
        status: ask.status,
        result: None,
        keep_ms: ask.keep_ms,
    };
    let mut done = Done::default();
    let mut outcomes = Vec::with_capacity(ask.pairs.len());
    let mut failed = None;
    for (at, (id, fence)) in ask.pairs.iter().enumerate() {
        if at.is_multiple_of(AHEAD_MAX) {
            let ahead = ask.pairs.iter().skip(at).map(|(id, _)| *id);
            queue.look_ahead(ahead);
        }
        (one.id, one.fence) = (id, *fence);
        let decided = numbers::with(|numbers| {
            queue.decide_ack(
                &mut Env {
                    now: call.now,
                    numbers,
                    defaults: &defaults,
                },
                &one,
            )
        });
        let carried = decided.and_then(|decision| {
            note(queue, decision.outcome);
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
fn claim_orders(call: &Call<'_>, ask: &Claim<'_>) {
    let Call { ctx, name, db, .. } = *call;
    let block = match ask.pick {
        Pick::Next {
            count,
            block_ms: Some(ms),
        } if ctx.flags() & flag::DENY_BLOCKING == 0 => Some((count, ms)),
        Pick::Next { .. } | Pick::Id(_) => None,
    };
    let mut target = Target::open(call);
    let queue = match target.queue() {
        Ok(queue) => queue,
        Err(error) => return reply::error(ctx, &error),
    };
    // Who would wait does not pass by those who wait already.
    if block.is_none() || waiters::first(db, name.bytes()).is_none() {
        let defaults = settings::defaults();
        queue.advance(&call.now, &mut call.budget());
        let claimed = numbers::with(|numbers| {
            queue.decide_claim(
                &mut Env {
                    now: call.now,
                    numbers,
                    defaults: &defaults,
                },
                ask,
            )
        });
        let claimed = match claimed {
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
    datatype::with_queue(ctx, name, Mode::Quiet, |queue| {
        scheduler::touch(db, name.bytes(), queue, &call.now);
    });
}
