//! Clients that are blocked on a key.

use std::ffi::{c_int, c_longlong, c_void};
use std::ptr;

use redis_module::raw;

use super::call::api;
use super::context::Ctx;
use super::text::Name;

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
