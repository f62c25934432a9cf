//! The data type `ordrwheel`: how the server saves, loads, copies, frees and
//! measures a queue. The only place that boxes and unboxes the value.
//!
//! Saved form (encoding version 0): the codec's version, then strings of encoded
//! effects of at most 64 KiB each (unless one effect is longer), then an empty
//! string. So a reader never needs to trust a count or length, and the end is
//! known. The effects are those that rebuild the queue, in order: settings,
//! pause, floor, then every record whole.
//!
//! Threads: `free` runs on any thread and touches nothing but the value; saving
//! and rewriting may run in a forked child; the rest runs under the server's lock.

use std::ffi::{CStr, c_int, c_void};
use std::sync::atomic::{AtomicU32, Ordering};

use redis_module::native_types::RedisType;
use redis_module::raw;

use crate::codec::{self, ChunkWriter};
use crate::engine::Queue;
use crate::engine::effect::Effect;
use crate::engine::lookup::AHEAD_MAX;
use crate::shell::callbacks::hooks;
use crate::shell::schedule::timer;
use crate::shell::server::api::{Ctx, Name, api, guarded, is_valkey, log_once_a_second};
use crate::shell::server::cell::SharedCell;
use crate::shell::server::{clock, gauges, reaper};
use crate::shell::state::{fences, settings};
use crate::shell::write::VERSION;

/// Version of the saved form. Old ones stay readable for ever.
const ENCODING: c_int = 0;

/// So many records a queue may hold to be dropped where it is; a larger one goes
/// to a thread of its own, so that DEL and FLUSHALL stall nobody.
const DROP_AT_ONCE_MAX: usize = 64;

/// What the server keeps of a module's value: an object (16 bytes) and a pointer
/// with its type (16).
const SERVER_BYTES: usize = 32;

/// The server's own process, to tell a forked child from it.
static PROCESS: AtomicU32 = AtomicU32::new(0);

/// When (monotonic) an unreadable queue was last logged.
static UNREADABLE_AT: SharedCell<u64> = SharedCell::new(0);

/// The registered type.
pub(crate) static TYPE: RedisType = RedisType::new(
    "ordrwheel",
    ENCODING,
    raw::RedisModuleTypeMethods {
        version: raw::REDISMODULE_TYPE_METHOD_VERSION as u64,
        rdb_load: Some(load),
        rdb_save: Some(save),
        aof_rewrite: Some(rewrite),
        free: Some(free),
        digest: Some(digest),
        mem_usage2: Some(mem_usage),
        free_effort2: Some(free_effort),
        unlink2: Some(unlink),
        copy2: Some(copy),
        // The forms without context are never called where the others exist.
        mem_usage: None,
        free_effort: None,
        unlink: None,
        copy: None,
        // Nothing global is saved: an RDB file with it could not be loaded
        // without the module, and fences and timers follow from the keys.
        aux_load: None,
        aux_save: None,
        aux_save_triggers: 0,
        aux_save2: None,
        // The store's pages are full malloc classes that fill and empty as a
        // whole; there is little for active defragmentation to gain, and its
        // callback may not be interrupted.
        defrag: None,
    },
);

/// Reads a queue: from an RDB file, a DUMP payload, a full resynchronization.
/// Removes nothing, whatever the clock says, so that all servers hold the same.
/// Returns null, and the server gives up, for whatever is not exactly ours.
unsafe extern "C" fn load(io: *mut raw::RedisModuleIO, encoding: c_int) -> *mut c_void {
    guarded(std::ptr::null_mut(), || {
        let read = if encoding == ENCODING {
            load_queue(io)
        } else {
            Err(Unreadable::Newer)
        };
        let queue = match read {
            Ok(queue) => queue,
            Err(why) => {
                log_once_a_second(&UNREADABLE_AT, why.text());
                return std::ptr::null_mut();
            }
        };
        fences::learn(queue.floor(), clock::wall_us());
        hooks::note_loaded(io);
        handed_over(queue)
    })
}

/// Why a saved queue is not read.
enum Unreadable {
    /// A later version of the module has saved it.
    Newer,
    /// It is not what any version saves.
    Damaged,
}

impl Unreadable {
    /// The line in the log: who reads it has to know whether the file or the module is
    /// to blame.
    fn text(&self) -> &'static CStr {
        match self {
            Self::Newer => {
                c"orderwheel: a saved queue is of a newer version than this module, it cannot be read"
            }
            Self::Damaged => c"orderwheel: a saved queue is damaged, it cannot be read",
        }
    }
}

/// The body of [`load`].
fn load_queue(io: *mut raw::RedisModuleIO) -> Result<Queue, Unreadable> {
    let version = raw::load_unsigned(io).map_err(|_| Unreadable::Damaged)?;
    if version > codec::VERSION {
        return Err(Unreadable::Newer);
    }
    let now = clock::now();
    let defaults = settings::defaults();
    let mut queue = Queue::new();
    loop {
        let chunk = raw::load_string_buffer(io).map_err(|_| Unreadable::Damaged)?;
        if chunk.as_ref().is_empty() {
            return Ok(queue);
        }
        for some in codec::decode_chunk(version, chunk.as_ref())
            .map_err(|_| Unreadable::Damaged)?
            .chunks(AHEAD_MAX)
        {
            queue.look_ahead_of(some);
            for effect in some {
                queue.replay(&now, effect, &defaults);
            }
        }
        queue.end_look_ahead();
    }
}

/// Writes a queue.
unsafe extern "C" fn save(io: *mut raw::RedisModuleIO, value: *mut c_void) {
    let done = guarded(false, || {
        // SAFETY: a value of our type; nobody changes it meanwhile (the server's
        // lock, or a copy in the forked child).
        let queue = unsafe { &*value.cast::<Queue>() };
        raw::save_unsigned(io, codec::VERSION);
        each_chunk(queue, &mut |chunk| raw::save_slice(io, chunk));
        raw::save_slice(io, b"");
        true
    });
    if !done {
        give_up_in_child();
    }
}

/// Writes the commands that rebuild a queue: for AOF rewrites and, on Valkey 9,
/// for atomic slot migration. Lossless.
unsafe extern "C" fn rewrite(
    io: *mut raw::RedisModuleIO,
    key: *mut raw::RedisModuleString,
    value: *mut c_void,
) {
    let done = guarded(false, || {
        // SAFETY: as in `save`.
        let queue = unsafe { &*value.cast::<Queue>() };
        let Some(call) = api!(RedisModule_EmitAOF) else {
            return false;
        };
        each_chunk(queue, &mut |chunk| {
            // SAFETY: the format names a string, a C string and a buffer with its length.
            unsafe {
                call(
                    io,
                    c"ORDER.APPLY".as_ptr(),
                    c"scb".as_ptr(),
                    key,
                    VERSION.text().as_ptr(),
                    chunk.as_ptr().cast::<std::ffi::c_char>(),
                    chunk.len(),
                );
            }
        });
        true
    });
    if !done {
        give_up_in_child();
    }
}

/// Gives out everything that rebuilds `queue`, as encoded chunks.
fn each_chunk(queue: &Queue, sink: &mut dyn FnMut(&[u8])) {
    let mut writer = ChunkWriter::new();
    queue.for_each_saved(&mut |effect| {
        if let Some(chunk) = writer.push(effect) {
            sink(chunk);
        }
        true
    });
    if let Some(chunk) = writer.finish() {
        sink(chunk);
    }
}

/// Saving has no way to report an error. A panic in it that went unnoticed would
/// replace a good file by a bad one, so the forked child that saves ends itself:
/// the server then reports that saving failed. In the server's own process
/// (SAVE, DUMP) the entry is left without its end and can not be loaded.
fn give_up_in_child() {
    if std::process::id() != PROCESS.load(Ordering::Relaxed) {
        // SAFETY: ends the child at once, as the server's own children do.
        unsafe { libc::_exit(1) }
    }
}

/// Frees a queue. On any thread; plain DEL and FLUSHALL SYNC call it on the main
/// one.
unsafe extern "C" fn free(value: *mut c_void) {
    guarded((), || {
        // SAFETY: a value of our type, boxed by us, that the server has done with.
        let queue = unsafe { Box::from_raw(value.cast::<Queue>()) };
        gauges::remove(&queue);
        if queue.len() > DROP_AT_ONCE_MAX {
            reaper::drop_elsewhere(queue);
        }
    });
}

/// Tells how much work freeing is; above 64 the server may do it on a thread.
unsafe extern "C" fn free_effort(
    _ctx: *mut raw::RedisModuleKeyOptCtx,
    value: *const c_void,
) -> usize {
    // SAFETY: a value of our type, under the server's lock.
    guarded(1, || unsafe { &*value.cast::<Queue>() }.len().max(1))
}

/// Bytes of a queue, for MEMORY USAGE: itself, what the server keeps of a
/// module's value beside the key, and the scheduler's entry. Exact, O(1): the
/// samples are not needed.
unsafe extern "C" fn mem_usage(
    ctx: *mut raw::RedisModuleKeyOptCtx,
    value: *const c_void,
    _samples: usize,
) -> usize {
    guarded(0, || {
        // SAFETY: as in `free_effort`.
        let queue = unsafe { &*value.cast::<Queue>() };
        let share = api!(RedisModule_GetDbIdFromOptCtx).map_or(0, |get_db| {
            // SAFETY: the context of this callback.
            timer::share(unsafe { get_db(ctx) })
        });
        queue.bytes() + SERVER_BYTES + share
    })
}

/// The key loses its value (deleted, overwritten, renamed, moved away): the
/// scheduler forgets the name. What lives on comes back through the hooks.
unsafe extern "C" fn unlink(ctx: *mut raw::RedisModuleKeyOptCtx, _value: *const c_void) {
    guarded((), || {
        let (Some(get_db), Some(get_name)) = (
            api!(RedisModule_GetDbIdFromOptCtx),
            api!(RedisModule_GetKeyNameFromOptCtx),
        ) else {
            return;
        };
        // SAFETY: the context of this callback.
        let db = unsafe { get_db(ctx) };
        // SAFETY: as above.
        let name = unsafe { get_name(ctx) };
        if name.is_null() {
            return;
        }
        // SAFETY: lent for this callback; only its bytes are read, for the
        // string may live on the server's stack.
        let name = unsafe { Name::new(name.cast_mut()) };
        timer::forget(db, name.bytes());
    });
}

/// Copies a queue for COPY: leases and fences too.
unsafe extern "C" fn copy(
    _ctx: *mut raw::RedisModuleKeyOptCtx,
    value: *const c_void,
) -> *mut c_void {
    guarded(std::ptr::null_mut(), || {
        // SAFETY: as in `free_effort`.
        let source = unsafe { &*value.cast::<Queue>() };
        let (now, defaults) = (clock::now(), settings::defaults());
        let mut queue = Queue::new();
        source.for_each_saved(&mut |effect: &Effect<'_>| {
            queue.replay(&now, effect, &defaults);
            true
        });
        handed_over(queue)
    })
}

/// A queue that is the server's from now on.
fn handed_over(queue: Queue) -> *mut c_void {
    let mut queue = Box::new(queue);
    queue.take_stock(&clock::now());
    gauges::add(&mut queue);
    Box::into_raw(queue).cast()
}

/// Feeds everything that is ground state to DEBUG DIGEST: equal on primary,
/// replica, and after any way of saving and loading.
unsafe extern "C" fn digest(digest: *mut raw::RedisModuleDigest, value: *mut c_void) {
    guarded((), || {
        let (Some(bytes_call), Some(number_call), Some(end_call)) = (
            api!(RedisModule_DigestAddStringBuffer),
            api!(RedisModule_DigestAddLongLong),
            api!(RedisModule_DigestEndSequence),
        ) else {
            return;
        };
        // SAFETY: as in `free_effort`.
        let queue = unsafe { &*value.cast::<Queue>() };
        queue.digest(&mut |texts: &[&[u8]], numbers: &[u64]| {
            for text in texts {
                // SAFETY: the digest of this callback, here and below.
                unsafe { bytes_call(digest, text.as_ptr().cast(), text.len()) }
            }
            for number in numbers {
                // SAFETY: see above.
                unsafe { number_call(digest, number.cast_signed()) }
            }
            // SAFETY: see above.
            unsafe { end_call(digest) }
        });
    });
}

/// Tells the server how the module behaves.
pub(crate) fn set_options(ctx: Ctx) {
    /// Valkey: our AOF form is complete enough for atomic slot migration.
    const VALKEY_HANDLE_ATOMIC_SLOT_MIGRATION: c_int = 1 << 5;
    let Some(call) = api!(RedisModule_SetModuleOptions) else {
        return;
    };
    let mut options = raw::REDISMODULE_OPTIONS_HANDLE_IO_ERRORS.cast_signed()
        | raw::REDISMODULE_OPTION_NO_IMPLICIT_SIGNAL_MODIFIED.cast_signed();
    if is_valkey() {
        options |= VALKEY_HANDLE_ATOMIC_SLOT_MIGRATION;
    }
    // SAFETY: called while the module loads.
    unsafe { call(ctx.as_ptr(), options) }
}
