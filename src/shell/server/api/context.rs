//! The server's context: what can be asked and done in it.

use std::ffi::{CStr, c_char, c_int, c_long, c_longlong};
use std::ptr;

use redis_module::raw;

use super::call::{OK, api};
use super::text::Name;

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

    /// What is going on, see [`flag`](super::call::flag).
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

    /// Replicates `ORDER.APPLY name version blob` to replicas and AOF.
    pub(crate) fn replicate_apply(self, name: Name<'_>, version: Name<'_>, blob: &[u8]) {
        let Some(call) = api!(RedisModule_Replicate) else {
            return;
        };
        // SAFETY: the format names two strings and a buffer with its length.
        unsafe {
            call(
                self.raw,
                c"ORDER.APPLY".as_ptr(),
                c"ssb".as_ptr(),
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

    /// Calls `ORDER.APPLY name version blob` as a write that replicates, with every
    /// check the server makes for a script's write (role, slot, cluster state,
    /// min-replicas, disk errors). Returns whether it was carried out. Runs
    /// other code.
    pub(crate) fn call_apply(self, name: Name<'_>, version: Name<'_>, blob: &[u8]) -> bool {
        let Some(call) = api!(RedisModule_Call) else {
            return false;
        };
        // SAFETY: as in `replicate_apply`; the letters before are flags.
        let reply = unsafe {
            call(
                self.raw,
                c"ORDER.APPLY".as_ptr(),
                c"!SEssb".as_ptr(),
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

    /// Four counters of the server that only grow until CONFIG RESETSTAT. `None` if it
    /// does not say. Builds a section of INFO.
    pub(crate) fn server_counters(self) -> Option<[u64; 4]> {
        const FIELDS: [&CStr; 4] = [
            c"total_commands_processed",
            c"total_connections_received",
            c"total_net_input_bytes",
            c"keyspace_hits",
        ];
        let read = api!(RedisModule_GetServerInfo)?;
        let field = api!(RedisModule_ServerInfoGetFieldUnsigned)?;
        let free = api!(RedisModule_FreeServerInfo)?;
        // SAFETY: the name of a section, a C string.
        let info = unsafe { read(self.raw, c"stats".as_ptr()) };
        if info.is_null() {
            return None;
        }
        let mut failed = 0;
        let counters = FIELDS.map(|name| {
            let mut error = 0;
            // SAFETY: what was just given to us; a C string; room for the error.
            let value = unsafe { field(info, name.as_ptr(), &raw mut error) };
            failed |= error;
            value
        });
        // SAFETY: freed once.
        unsafe { free(self.raw, info) };
        (failed == 0).then_some(counters)
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
