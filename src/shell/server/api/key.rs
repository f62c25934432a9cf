//! An open key.

use std::ffi::c_int;
use std::ptr;

use redis_module::raw;

use super::call::api;
use super::context::Ctx;
use super::text::Name;

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

    /// The database it is in; `None` for a missing one.
    pub(crate) fn db(&self) -> Option<i32> {
        if self.raw.is_null() {
            return None;
        }
        // SAFETY: the key is open.
        api!(RedisModule_GetDbIdFromModuleKey).map(|call| unsafe { call(self.raw) })
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
