//! How the server's functions are called, and what every entry from C is wrapped in.

use std::ffi::{c_int, c_void};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr;

use redis_module::raw;

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

/// Flags of [`Ctx::flags`](super::context::Ctx::flags).
pub(crate) mod flag {
    use redis_module::raw;
    use std::ffi::c_int;

    /// The command comes from a script or a function.
    pub(in crate::shell) const SCRIPT: c_int = raw::REDISMODULE_CTX_FLAGS_LUA.cast_signed();
    /// The command is one of a transaction.
    pub(in crate::shell) const MULTI: c_int = raw::REDISMODULE_CTX_FLAGS_MULTI.cast_signed();
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

/// Runs the body of an entry from C: a panic does not cross into the server but
/// is counted (by the panic hook) and gives `fallback`.
pub(crate) fn guarded<R>(fallback: R, body: impl FnOnce() -> R) -> R {
    catch_unwind(AssertUnwindSafe(body)).unwrap_or(fallback)
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
