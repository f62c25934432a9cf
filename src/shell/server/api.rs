//! The module API of the server, each call wrapped once.
//!
//! Everything unsafe about talking to the server is here, in `datatype` (which
//! boxes and unboxes the value) and in the few lines of each callback that turn
//! raw pointers into the types below. The crate `redis_module` gives the
//! bindings; its own wrappers are not used where user bytes pass: several of
//! them treat text as a format or panic on a NUL byte.
//!
//! A call that an older server does not have is a null pointer: each wrapper
//! then does nothing and returns its neutral value.
//!
//! # Who runs when
//! These calls may run other code, our own commands included, before they
//! return: [`Ctx::call_apply`], [`Ctx::notify`], [`Key::open`] (a key that has
//! expired is deleted by it, which calls `unlink` and raises events),
//! [`Key::delete`], [`Blocked::unblock`], and storing a value
//! (`value::put`: the old one is unlinked). No reference into a queue is alive
//! across one of them; one into a queue that [`Key::open`] found is taken after it.

use std::ffi::{CStr, c_char, c_int, c_long, c_longlong, c_void};
use std::marker::PhantomData;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr;

use redis_module::raw;

use crate::shell::server::cell::SharedCell;
use crate::shell::server::{clock, counters};

/// The function pointer of one API call, or `None` where the server lacks it.
macro_rules! api {
    ($name:ident) => {{
        // SAFETY: the pointers are written once, while the module loads, and
        // only read afterwards; reading one copies it.
        unsafe { raw::$name }
    }};
}
pub(crate) use api;

/// What the server calls success.
pub(crate) const OK: c_int = raw::REDISMODULE_OK as c_int;
/// What the server calls failure.
pub(crate) const ERR: c_int = raw::REDISMODULE_ERR as c_int;

/// Flags of [`Ctx::flags`].
pub(crate) mod flag {
    use redis_module::raw;
    use std::ffi::c_int;

    /// This server is a primary.
    pub(in crate::shell) const MASTER: c_int = raw::REDISMODULE_CTX_FLAGS_MASTER.cast_signed();
    /// The command came over the replication link.
    pub(in crate::shell) const REPLICATED: c_int =
        raw::REDISMODULE_CTX_FLAGS_REPLICATED.cast_signed();
    /// A dataset is being loaded.
    pub(in crate::shell) const LOADING: c_int = raw::REDISMODULE_CTX_FLAGS_LOADING.cast_signed();
    /// The caller can not be blocked (MULTI, scripts, other modules).
    pub(in crate::shell) const DENY_BLOCKING: c_int =
        raw::REDISMODULE_CTX_FLAGS_DENY_BLOCKING.cast_signed();
    /// The caller speaks RESP3.
    pub(in crate::shell) const RESP3: c_int = raw::REDISMODULE_CTX_FLAGS_RESP3.cast_signed();
    /// A dataset is being loaded beside the old one.
    pub(in crate::shell) const ASYNC_LOADING: c_int =
        raw::REDISMODULE_CTX_FLAGS_ASYNC_LOADING.cast_signed();
    /// A child process writes a file or sends one.
    pub(in crate::shell) const ACTIVE_CHILD: c_int =
        raw::REDISMODULE_CTX_FLAGS_ACTIVE_CHILD.cast_signed();
    /// Keys may be evicted when memory is full.
    pub(in crate::shell) const EVICT: c_int = raw::REDISMODULE_CTX_FLAGS_EVICT.cast_signed();
    /// Valkey 9: the command comes from an atomic slot import. Another meaning
    /// on Redis: ask [`super::is_valkey`] first.
    pub(in crate::shell) const VALKEY_SLOT_IMPORT: c_int = 1 << 25;
}

/// Severity of a line in the server's log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Level {
    /// Worth knowing.
    Notice,
    /// Worth acting upon.
    Warning,
}

/// Writes `text` to the server's log. The text is never used as a format. May
/// be called from any thread.
pub(crate) fn log(level: Level, text: &CStr) {
    let Some(call) = api!(RedisModule_Log) else {
        return;
    };
    let level = match level {
        Level::Notice => c"notice",
        Level::Warning => c"warning",
    };
    // SAFETY: constant "%s" with one C string; a null context is allowed.
    unsafe {
        call(
            ptr::null_mut(),
            level.as_ptr(),
            c"%s".as_ptr(),
            text.as_ptr(),
        );
    }
}

/// Writes a text that was put together from numbers and constants of ours.
pub(crate) fn log_text(level: Level, text: String) {
    if let Ok(text) = std::ffi::CString::new(text) {
        log(level, &text);
    }
}

/// Runs the body of an entry from C: a panic does not cross into the server but
/// is counted (by the panic hook) and gives `fallback`.
pub(crate) fn guarded<R>(fallback: R, body: impl FnOnce() -> R) -> R {
    catch_unwind(AssertUnwindSafe(body)).unwrap_or(fallback)
}

/// Installs a panic hook that counts and logs a fixed line. The default one
/// allocates a backtrace through libc, which kills servers whose libc has
/// another malloc than the one the module's `free` is bound to; and it prints a
/// message that may hold a caller's bytes.
pub(crate) fn install_panic_hook() {
    std::panic::set_hook(Box::new(|_| {
        counters::PANICS.add(1);
        log(Level::Warning, c"orderwheel: an internal error was caught; please report it (orderwheel_panics_total in INFO counts them)");
    }));
}

/// Whether the server is Valkey. Several flag bits and event numbers mean other
/// things there, and the version number does not tell.
pub(crate) fn is_valkey() -> bool {
    static VALKEY: std::sync::OnceLock<bool> = std::sync::OnceLock::new();
    *VALKEY.get_or_init(|| {
        let Some(call) = api!(RedisModule_GetApi) else {
            return false;
        };
        let mut found: *mut c_void = ptr::null_mut();
        // SAFETY: a C string, and room for one pointer.
        unsafe { call(c"ValkeyModule_Alloc".as_ptr(), (&raw mut found).cast()) == OK }
    })
}

/// Whether replicating is forbidden right now (CLIENT PAUSE, failover, shutdown):
/// doing it nevertheless ends the server.
pub(crate) fn replication_is_paused() -> bool {
    // SAFETY: no arguments.
    api!(RedisModule_AvoidReplicaTraffic).is_some_and(|call| unsafe { call() } != 0)
}

/// A string of the server that somebody else owns and keeps for `'a`. As a bare
/// pointer in memory, so that a command's `argv` is a slice of them.
#[derive(Clone, Copy)]
#[repr(transparent)]
pub(crate) struct Name<'a> {
    /// The string; never null.
    raw: *mut raw::RedisModuleString,
    /// For how long it is lent.
    lent: PhantomData<&'a raw::RedisModuleString>,
}

impl<'a> Name<'a> {
    /// Wraps a string that is lent by the server.
    ///
    /// # Safety
    /// `raw` is a valid string that lives, unchanged, for `'a`.
    pub(crate) const unsafe fn new(raw: *mut raw::RedisModuleString) -> Self {
        Self {
            raw,
            lent: PhantomData,
        }
    }

    /// The string for the server's calls.
    pub(crate) const fn as_ptr(self) -> *mut raw::RedisModuleString {
        self.raw
    }

    /// Its bytes.
    pub(crate) fn bytes(self) -> &'a [u8] {
        let mut len = 0;
        let Some(call) = api!(RedisModule_StringPtrLen) else {
            return &[];
        };
        // SAFETY: the string is valid (contract of `new`).
        let bytes = unsafe { call(self.raw, &raw mut len) };
        if bytes.is_null() {
            return &[];
        }
        // SAFETY: the server says so many bytes are there; they live for `'a`.
        unsafe { std::slice::from_raw_parts(bytes.cast(), len) }
    }
}

/// A string of the server that we own.
pub(crate) struct Text {
    /// The string.
    raw: *mut raw::RedisModuleString,
}

impl Text {
    /// Makes one from any bytes. `None` only where the server lacks the call.
    pub(crate) fn new(bytes: &[u8]) -> Option<Self> {
        let call = api!(RedisModule_CreateString)?;
        // SAFETY: a null context is allowed: the string is ours to free.
        let raw = unsafe { call(ptr::null_mut(), bytes.as_ptr().cast(), bytes.len()) };
        (!raw.is_null()).then_some(Self { raw })
    }

    /// Lends it.
    pub(crate) const fn name(&self) -> Name<'_> {
        // SAFETY: the string lives as long as `self`.
        unsafe { Name::new(self.raw) }
    }
}

impl Drop for Text {
    fn drop(&mut self) {
        if let Some(call) = api!(RedisModule_FreeString) {
            // SAFETY: made by `new`, with a null context, and freed once.
            unsafe { call(ptr::null_mut(), self.raw) }
        }
    }
}

/// The context of one callback.
#[derive(Clone, Copy)]
pub(crate) struct Ctx {
    /// The context.
    raw: *mut raw::RedisModuleCtx,
}

impl Ctx {
    /// Wraps the context of a callback.
    ///
    /// # Safety
    /// `raw` is the context the server gave to the running callback (or a
    /// detached one), the server's lock is held, and the value is not kept
    /// longer than the callback runs.
    pub(crate) const unsafe fn new(raw: *mut raw::RedisModuleCtx) -> Self {
        Self { raw }
    }

    /// The context for the server's calls.
    pub(crate) const fn as_ptr(self) -> *mut raw::RedisModuleCtx {
        self.raw
    }

    /// What is going on, see [`flag`].
    pub(crate) fn flags(self) -> c_int {
        // SAFETY: the context is valid (contract of `new`), here and below.
        api!(RedisModule_GetContextFlags).map_or(0, |call| unsafe { call(self.raw) })
    }

    /// The selected database.
    pub(crate) fn db(self) -> i32 {
        // SAFETY: see `flags`.
        api!(RedisModule_GetSelectedDb).map_or(0, |call| unsafe { call(self.raw) })
    }

    /// Selects a database. False if there is none of this number.
    pub(crate) fn select(self, db: i32) -> bool {
        // SAFETY: see `flags`.
        api!(RedisModule_SelectDb).is_some_and(|call| unsafe { call(self.raw, db) } == OK)
    }

    /// The id of the client that called, 0 for none.
    pub(crate) fn client_id(self) -> u64 {
        // SAFETY: see `flags`.
        api!(RedisModule_GetClientId).map_or(0, |call| unsafe { call(self.raw) })
    }

    /// Replicates `ORDER.APPLY name 1 blob` to replicas and AOF.
    pub(crate) fn replicate_apply(self, name: Name<'_>, version: &CStr, blob: &[u8]) {
        let Some(call) = api!(RedisModule_Replicate) else {
            return;
        };
        // SAFETY: the format names a string, a C string and a buffer with its length.
        unsafe {
            call(
                self.raw,
                c"ORDER.APPLY".as_ptr(),
                c"scb".as_ptr(),
                name.as_ptr(),
                version.as_ptr(),
                blob.as_ptr().cast::<c_char>(),
                blob.len(),
            );
        }
    }

    /// Replicates the running command as it came.
    pub(crate) fn replicate_verbatim(self) {
        if let Some(call) = api!(RedisModule_ReplicateVerbatim) {
            // SAFETY: see `flags`; only used in commands.
            unsafe { call(self.raw) };
        }
    }

    /// Calls `ORDER.APPLY name 1 blob` as a write that replicates, with every
    /// check the server makes for a script's write (role, slot, cluster state,
    /// min-replicas, disk errors). Returns whether it was carried out. Runs
    /// other code.
    pub(crate) fn call_apply(self, name: Name<'_>, version: &CStr, blob: &[u8]) -> bool {
        let Some(call) = api!(RedisModule_Call) else {
            return false;
        };
        // SAFETY: as in `replicate_apply`; the letters before are flags.
        let reply = unsafe {
            call(
                self.raw,
                c"ORDER.APPLY".as_ptr(),
                c"!SEscb".as_ptr(),
                name.as_ptr(),
                version.as_ptr(),
                blob.as_ptr().cast::<c_char>(),
                blob.len(),
            )
        };
        if reply.is_null() {
            return false;
        }
        let kind = api!(RedisModule_CallReplyType).map_or(
            raw::REDISMODULE_REPLY_UNKNOWN as c_int,
            |call| {
                // SAFETY: the reply was just given to us.
                unsafe { call(reply) }
            },
        );
        if let Some(free) = api!(RedisModule_FreeCallReply) {
            // SAFETY: freed once.
            unsafe { free(reply) }
        }
        kind == raw::REDISMODULE_REPLY_STRING as c_int
    }

    /// How many modules are loaded, this one included. `None` if the server does
    /// not say.
    pub(crate) fn count_modules(self) -> Option<usize> {
        let call = api!(RedisModule_Call)?;
        let free = api!(RedisModule_FreeCallReply)?;
        let length = api!(RedisModule_CallReplyLength)?;
        // SAFETY: constant C strings, as the format says.
        let reply = unsafe {
            call(
                self.raw,
                c"MODULE".as_ptr(),
                c"c".as_ptr(),
                c"LIST".as_ptr(),
            )
        };
        if reply.is_null() {
            return None;
        }
        // SAFETY: the reply was just given to us. Of an error or a number the
        // length is 0 or one that no list has.
        let count = unsafe { length(reply) };
        // SAFETY: freed once.
        unsafe { free(reply) };
        (1..=1024).contains(&count).then_some(count)
    }

    /// Raises a keyspace event of the module class for any key name. Runs other
    /// code.
    pub(crate) fn notify(self, class: c_int, event: &CStr, name: Name<'_>) {
        if let Some(call) = api!(RedisModule_NotifyKeyspaceEvent) {
            // SAFETY: see `flags`; the name is valid.
            unsafe { call(self.raw, class, event.as_ptr(), name.as_ptr()) };
        }
    }

    /// Tells WATCH and client-side caching that the key was changed.
    pub(crate) fn signal_modified(self, name: Name<'_>) {
        if let Some(call) = api!(RedisModule_SignalModifiedKey) {
            // SAFETY: see `flags`; the name is valid.
            unsafe { call(self.raw, name.as_ptr()) };
        }
    }

    /// Whether a client of this id is connected.
    pub(crate) fn client_lives(id: u64) -> bool {
        // SAFETY: a null record asks for existence alone.
        api!(RedisModule_GetClientInfoById)
            .is_none_or(|call| unsafe { call(ptr::null_mut(), id) } == OK)
    }

    /// Starts a timer that runs `callback` once in `ms` milliseconds.
    pub(crate) fn start_timer(self, ms: u64, callback: raw::RedisModuleTimerProc) -> Option<u64> {
        let call = api!(RedisModule_CreateTimer)?;
        // SAFETY: the callback takes no data.
        Some(unsafe {
            call(
                self.raw,
                i64::try_from(ms).unwrap_or(i64::MAX),
                callback,
                ptr::null_mut(),
            )
        })
    }

    /// Stops a timer. Never called by a timer for itself: the server frees the
    /// timer again when its callback returns.
    pub(crate) fn stop_timer(self, id: u64) {
        if let Some(call) = api!(RedisModule_StopTimer) {
            // SAFETY: no data is wanted back.
            unsafe { call(self.raw, id, ptr::null_mut()) };
        }
    }
}

/// A context that lives as long as the module, for use where the server gives none.
#[derive(Clone, Copy)]
pub(crate) struct Detached {
    /// The context; null before [`Self::make`].
    raw: *mut raw::RedisModuleCtx,
}

// SAFETY: only passed to the server, under its lock, on whichever thread holds that:
// nothing here follows it.
unsafe impl Send for Detached {}

impl Detached {
    /// None yet.
    pub(crate) const fn none() -> Self {
        Self {
            raw: ptr::null_mut(),
        }
    }

    /// Makes one, which is kept for ever. `ctx` is that of `OnLoad`.
    pub(crate) fn make(ctx: Ctx) -> Self {
        let Some(call) = api!(RedisModule_GetDetachedThreadSafeContext) else {
            return Self::none();
        };
        // SAFETY: the context is valid (contract of `Ctx::new`).
        let raw = unsafe { call(ctx.raw) };
        Self { raw }
    }

    /// The context, if there is one. The server's lock is held, as in every callback.
    pub(crate) fn ctx(self) -> Option<Ctx> {
        // SAFETY: made in `make`, lives for ever, and the server's lock is held.
        (!self.raw.is_null()).then(|| unsafe { Ctx::new(self.raw) })
    }
}

/// Replies. None of them runs other code.
impl Ctx {
    /// An array of `len` elements follows.
    pub(crate) fn reply_array(self, len: usize) {
        if let Some(call) = api!(RedisModule_ReplyWithArray) {
            // SAFETY: see `flags`, here and in the other replies.
            unsafe { call(self.raw, c_long::try_from(len).unwrap_or(0)) };
        }
    }

    /// A map of `len` pairs follows (RESP2: a flat array).
    pub(crate) fn reply_map(self, len: usize) {
        let Some(call) = api!(RedisModule_ReplyWithMap) else {
            return self.reply_array(len.saturating_mul(2));
        };
        // SAFETY: see `reply_array`.
        unsafe { call(self.raw, c_long::try_from(len).unwrap_or(0)) };
    }

    /// A byte string.
    pub(crate) fn reply_bytes(self, bytes: &[u8]) {
        if let Some(call) = api!(RedisModule_ReplyWithStringBuffer) {
            // SAFETY: see `reply_array`.
            unsafe { call(self.raw, bytes.as_ptr().cast(), bytes.len()) };
        }
    }

    /// A number.
    pub(crate) fn reply_int(self, value: i64) {
        if let Some(call) = api!(RedisModule_ReplyWithLongLong) {
            // SAFETY: see `reply_array`.
            unsafe { call(self.raw, c_longlong::from(value)) };
        }
    }

    /// A number with a fraction.
    pub(crate) fn reply_real(self, value: f64) {
        if let Some(call) = api!(RedisModule_ReplyWithDouble) {
            // SAFETY: see `reply_array`.
            unsafe { call(self.raw, value) };
        }
    }

    /// Nothing.
    pub(crate) fn reply_null(self) {
        if let Some(call) = api!(RedisModule_ReplyWithNull) {
            // SAFETY: see `reply_array`.
            unsafe { call(self.raw) };
        }
    }

    /// A status word.
    pub(crate) fn reply_simple(self, word: &CStr) {
        if let Some(call) = api!(RedisModule_ReplyWithSimpleString) {
            // SAFETY: see `reply_array`.
            unsafe { call(self.raw, word.as_ptr()) };
        }
    }

    /// An error line.
    pub(crate) fn reply_error(self, line: &CStr) {
        if let Some(call) = api!(RedisModule_ReplyWithError) {
            // SAFETY: see `reply_array`.
            unsafe { call(self.raw, line.as_ptr()) };
        }
    }
}

/// How a key is opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    /// For a reading command: counts as an access.
    Read,
    /// For a writing command.
    Write,
    /// For our own housekeeping: leaves access time and statistics alone.
    Quiet,
}

/// An open key. Closed when dropped; close it before anything that runs other
/// code, for the server's own pointer in it dies with the value.
pub(crate) struct Key {
    /// The key; null for a missing key opened for reading.
    raw: *mut raw::RedisModuleKey,
}

impl Key {
    /// Opens a key.
    pub(crate) fn open(ctx: Ctx, name: Name<'_>, mode: Mode) -> Self {
        let mode = match mode {
            Mode::Read => raw::REDISMODULE_READ,
            Mode::Write => raw::REDISMODULE_READ | raw::REDISMODULE_WRITE,
            // Bits an older server does not know are ignored by it.
            Mode::Quiet => {
                raw::REDISMODULE_READ
                    | raw::REDISMODULE_OPEN_KEY_NOTOUCH
                    | raw::REDISMODULE_OPEN_KEY_NONOTIFY
                    | raw::REDISMODULE_OPEN_KEY_NOSTATS
            }
        };
        let Some(call) = api!(RedisModule_OpenKey) else {
            return Self {
                raw: ptr::null_mut(),
            };
        };
        // SAFETY: context and name are valid.
        let raw = unsafe { call(ctx.as_ptr(), name.as_ptr(), mode.cast_signed()) };
        Self { raw }
    }

    /// The key for the server's calls; null for a missing one.
    pub(crate) const fn as_ptr(&self) -> *mut raw::RedisModuleKey {
        self.raw
    }

    /// Whether there is no such key.
    pub(crate) fn is_missing(&self) -> bool {
        if self.raw.is_null() {
            return true;
        }
        // SAFETY: the key is open.
        api!(RedisModule_KeyType)
            .is_none_or(|call| unsafe { call(self.raw) } == raw::REDISMODULE_KEYTYPE_EMPTY as c_int)
    }

    /// Deletes the key (opened for writing). Runs other code.
    pub(crate) fn delete(&mut self) {
        if let Some(call) = api!(RedisModule_DeleteKey) {
            // SAFETY: the key is open.
            unsafe { call(self.raw) };
        }
    }
}

impl Drop for Key {
    fn drop(&mut self) {
        if self.raw.is_null() {
            return;
        }
        if let Some(call) = api!(RedisModule_CloseKey) {
            // SAFETY: closed once.
            unsafe { call(self.raw) }
        }
    }
}

/// A callback that is called like a command.
type CommandLike = unsafe extern "C" fn(
    *mut raw::RedisModuleCtx,
    *mut *mut raw::RedisModuleString,
    c_int,
) -> c_int;

/// The callbacks for a blocked client.
#[derive(Clone, Copy)]
pub(crate) struct BlockedCalls {
    /// The key was signalled.
    pub(crate) reply: CommandLike,
    /// The time is over, or the client was woken.
    pub(crate) timeout: CommandLike,
    /// The server has done with the client.
    pub(crate) free: unsafe extern "C" fn(*mut raw::RedisModuleCtx, *mut c_void),
    /// The client went away.
    pub(crate) gone:
        unsafe extern "C" fn(*mut raw::RedisModuleCtx, *mut raw::RedisModuleBlockedClient),
}

/// A blocked client.
#[derive(Clone, Copy)]
pub(crate) struct Blocked {
    /// The server's handle: valid until `free_privdata` has run for it.
    raw: *mut raw::RedisModuleBlockedClient,
}

// SAFETY: only a handle that is passed back to the server, under its lock, on whichever
// thread holds that: nothing here follows it.
unsafe impl Send for Blocked {}

impl Blocked {
    /// Blocks the caller on `name`, without limit for 0 ms. `ticket` comes back
    /// as private data in every callback. `None` where the server refuses.
    pub(crate) fn on_key(
        ctx: Ctx,
        name: Name<'_>,
        ms: u64,
        ticket: usize,
        calls: BlockedCalls,
    ) -> Option<Self> {
        let call = api!(RedisModule_BlockClientOnKeys)?;
        let mut keys = [name.as_ptr()];
        let ms = c_longlong::try_from(ms).unwrap_or(c_longlong::MAX);
        let data = ptr::without_provenance_mut::<c_void>(ticket);
        // SAFETY: the context belongs to a running command; the private data is
        // a number that is never followed.
        let raw = unsafe {
            call(
                ctx.as_ptr(),
                Some(calls.reply),
                Some(calls.timeout),
                Some(calls.free),
                ms,
                keys.as_mut_ptr(),
                1,
                data,
            )
        };
        if raw.is_null() {
            return None;
        }
        if let Some(call) = api!(RedisModule_SetDisconnectCallback) {
            // SAFETY: the handle was just given to us.
            unsafe { call(raw, Some(calls.gone)) }
        }
        Some(Self { raw })
    }

    /// The ticket in a callback for a blocked client; 0 where there is none.
    pub(crate) fn ticket(ctx: Ctx) -> usize {
        // SAFETY: the context belongs to such a callback.
        api!(RedisModule_GetBlockedClientPrivateData)
            .map_or(0, |call| unsafe { call(ctx.as_ptr()) }.addr())
    }

    /// Wakes this one client: its timeout callback prints what is stored for its
    /// ticket, within the call (Redis 7.0) or before the same turn of the event
    /// loop sleeps. Runs other code.
    pub(crate) fn unblock(self) {
        if let Some(call) = api!(RedisModule_UnblockClient) {
            // SAFETY: the handle is valid (see the field); the private data of a
            // client that is blocked on keys stays what it is.
            unsafe { call(self.raw, ptr::null_mut()) };
        }
    }
}

/// Warnings that a caller can provoke are logged once in this time, microseconds.
const LOG_EVERY_US: u64 = 1_000_000;

/// Logs a warning, unless the last one noted in `at` (monotonic microseconds) is
/// less than a second old: a caller can not flood the log.
pub(crate) fn log_once_a_second(at: &SharedCell<u64>, text: &CStr) {
    let now_us = clock::mono_us();
    if at.get() == 0 || now_us.saturating_sub(at.get()) >= LOG_EVERY_US {
        at.set(now_us.max(1));
        log(Level::Warning, text);
    }
}
