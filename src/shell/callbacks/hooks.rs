//! What the server tells of keys and of itself.
//!
//! Queues come to a name by more ways than our commands: loading, RESTORE, RENAME,
//! MOVE, COPY. Each raises a keyspace event after the value stands there; names
//! are lost in the type's `unlink` callback, in FLUSHDB and FLUSHALL (which call
//! nothing for each key) and in SWAPDB.

use std::ffi::{CStr, c_char, c_int, c_void};

use redis_module::raw;

use crate::shell::schedule::timer;
use crate::shell::server::api::{Ctx, Level, Mode, Name, OK, Text, api, guarded, log};
use crate::shell::server::cell::SharedCell;
use crate::shell::server::{clock, evicting, reply, resets, value};
use crate::shell::state::events;

/// Whether a queue was loaded whose `loaded` event is still to come. Every key of
/// a file raises that event; only those after one of ours need a look.
static LOADED: SharedCell<bool> = SharedCell::new(false);

/// Whether the words of the replies were asked for.
static PREPARED: SharedCell<bool> = SharedCell::new(false);

/// A queue was read: the `loaded` event of its key follows, unless the server
/// drops it (an expired key) or it came from RESTORE.
pub(crate) fn note_loaded(_io: *mut raw::RedisModuleIO) {
    LOADED.set(true);
}

/// Subscribes to everything. A server that lacks one of the events just never
/// raises it.
pub(crate) fn subscribe(ctx: Ctx) {
    if let Some(call) = api!(RedisModule_SubscribeToKeyspaceEvents) {
        let classes = raw::REDISMODULE_NOTIFY_GENERIC | raw::REDISMODULE_NOTIFY_LOADED;
        // SAFETY: called while the module loads.
        unsafe { call(ctx.as_ptr(), classes, Some(on_key_event)) };
    }
    let events: [(u64, raw::RedisModuleEventCallback); 6] = [
        (raw::REDISMODULE_EVENT_FLUSHDB, Some(on_flush)),
        (raw::REDISMODULE_EVENT_SWAPDB, Some(on_swap)),
        (
            raw::REDISMODULE_EVENT_REPLICATION_ROLE_CHANGED,
            Some(on_role),
        ),
        (raw::REDISMODULE_EVENT_LOADING, Some(on_loading)),
        (raw::REDISMODULE_EVENT_CRON_LOOP, Some(on_cron)),
        (raw::REDISMODULE_EVENT_MODULE_CHANGE, Some(on_module)),
    ];
    let Some(call) = api!(RedisModule_SubscribeToServerEvent) else {
        return;
    };
    for (id, callback) in events {
        let event = raw::RedisModuleEvent { id, dataver: 1 };
        // SAFETY: called while the module loads.
        if unsafe { call(ctx.as_ptr(), event, callback) } != OK {
            log(
                Level::Warning,
                c"orderwheel: the server does not tell of one of its events",
            );
        }
    }
}

/// A keyspace event. The key's string may live on the server's stack: only its
/// bytes are read, and a fresh string is made for opening it.
unsafe extern "C" fn on_key_event(
    ctx: *mut raw::RedisModuleCtx,
    _class: c_int,
    event: *const c_char,
    key: *mut raw::RedisModuleString,
) -> c_int {
    guarded(OK, || {
        // SAFETY: the server gives a C string.
        let event = unsafe { CStr::from_ptr(event) };
        let came = match event.to_bytes() {
            b"loaded" => {
                let ours = LOADED.get();
                LOADED.set(false);
                ours
            }
            b"restore" | b"rename_to" | b"move_to" | b"copy_to" => true,
            _ => false,
        };
        if !came {
            return OK;
        }
        // SAFETY: the server's context for this callback.
        let ctx = unsafe { Ctx::new(ctx) };
        // SAFETY: lent for this callback.
        let key = unsafe { Name::new(key) }.bytes();
        if let Some(name) = Text::new(key) {
            value::with_queue_in(ctx, name.name(), Mode::Quiet, |db, queue| {
                timer::register(db, key, queue, &clock::now());
            });
        }
        OK
    })
}

/// A database is emptied.
unsafe extern "C" fn on_flush(
    _ctx: *mut raw::RedisModuleCtx,
    _event: raw::RedisModuleEvent,
    sub: u64,
    data: *mut c_void,
) {
    guarded((), || {
        if sub != raw::REDISMODULE_SUBEVENT_FLUSHDB_START || data.is_null() {
            return;
        }
        // SAFETY: the server gives this record with this event.
        let flush = unsafe { &*data.cast::<raw::RedisModuleFlushInfo>() };
        timer::flushed((flush.dbnum >= 0).then_some(flush.dbnum));
    });
}

/// Two databases were swapped.
unsafe extern "C" fn on_swap(
    _ctx: *mut raw::RedisModuleCtx,
    _event: raw::RedisModuleEvent,
    _sub: u64,
    data: *mut c_void,
) {
    guarded((), || {
        if data.is_null() {
            return;
        }
        // SAFETY: the server gives this record with this event.
        let swap = unsafe { &*data.cast::<raw::RedisModuleSwapDbInfo>() };
        timer::swapped(swap.dbnum_first, swap.dbnum_second);
    });
}

/// This server became primary or replica.
unsafe extern "C" fn on_role(
    _ctx: *mut raw::RedisModuleCtx,
    _event: raw::RedisModuleEvent,
    sub: u64,
    _data: *mut c_void,
) {
    guarded((), || {
        if sub == raw::REDISMODULE_EVENT_REPLROLECHANGED_NOW_MASTER {
            timer::promoted();
        }
        // Of a new replica each pass asks for the role. Leases end by time alone there.
        if sub == raw::REDISMODULE_EVENT_REPLROLECHANGED_NOW_REPLICA {
            timer::demoted();
        }
    });
}

/// A dataset was loaded, or loading one failed.
unsafe extern "C" fn on_loading(
    _ctx: *mut raw::RedisModuleCtx,
    _event: raw::RedisModuleEvent,
    sub: u64,
    _data: *mut c_void,
) {
    guarded((), || {
        if sub == raw::REDISMODULE_SUBEVENT_LOADING_ENDED {
            timer::loaded();
        }
    });
}

/// Has the server tell of connections that close; each costs a call then.
pub(crate) fn watch_clients() {
    let (Some(call), Some(ctx)) = (api!(RedisModule_SubscribeToServerEvent), timer::detached())
    else {
        return;
    };
    let event = raw::RedisModuleEvent {
        id: raw::REDISMODULE_EVENT_CLIENT_CHANGE,
        dataver: 1,
    };
    // SAFETY: a context of this module; the callback lives as long as it.
    if unsafe { call(ctx.as_ptr(), event, Some(on_client)) } != OK {
        log(
            Level::Warning,
            c"orderwheel: the server does not tell of connections that close, SESSION has no effect",
        );
    }
}

/// A client came or went, maybe in the middle of somebody's command: only a note is taken.
unsafe extern "C" fn on_client(
    _ctx: *mut raw::RedisModuleCtx,
    _event: raw::RedisModuleEvent,
    sub: u64,
    data: *mut c_void,
) {
    guarded((), || {
        if sub != raw::REDISMODULE_SUBEVENT_CLIENT_CHANGE_DISCONNECTED || data.is_null() {
            return;
        }
        // SAFETY: the server gives this record with this event.
        let client = unsafe { &*data.cast::<raw::RedisModuleClientInfo>() };
        timer::disconnected(client.id);
    });
}

/// A module was loaded or unloaded.
unsafe extern "C" fn on_module(
    _ctx: *mut raw::RedisModuleCtx,
    _event: raw::RedisModuleEvent,
    _sub: u64,
    _data: *mut c_void,
) {
    guarded((), events::changed);
}

/// The server's cron.
unsafe extern "C" fn on_cron(
    ctx: *mut raw::RedisModuleCtx,
    _event: raw::RedisModuleEvent,
    _sub: u64,
    _data: *mut c_void,
) {
    // SAFETY: the server's context for this callback.
    let ctx = unsafe { Ctx::new(ctx) };
    guarded((), || events::on_cron(ctx));
    guarded((), || {
        if !PREPARED.get() {
            PREPARED.set(true);
            reply::prepare(ctx);
        }
    });
    guarded((), timer::on_cron);
    guarded((), || resets::on_cron(ctx));
    guarded((), || evicting::look(ctx));
}
