//! Strings of the server: lent to us, or our own.

use std::ffi::CStr;
use std::marker::PhantomData;
use std::mem::ManuallyDrop;
use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering};

use redis_module::raw;

use super::call::api;

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

/// A string of the server that is made when it is first used and kept for ever.
pub(crate) struct Kept {
    /// Its bytes.
    bytes: &'static CStr,
    /// The string; null before its first use.
    raw: AtomicPtr<raw::RedisModuleString>,
}

impl Kept {
    /// A string of these bytes.
    pub(crate) const fn new(bytes: &'static CStr) -> Self {
        Self {
            bytes,
            raw: AtomicPtr::new(ptr::null_mut()),
        }
    }

    /// Its bytes.
    pub(crate) const fn text(&self) -> &'static CStr {
        self.bytes
    }

    /// Lends it. `None` only where the server lacks the call. Under the server's lock.
    pub(crate) fn name(&self) -> Option<Name<'static>> {
        let mut raw = self.raw.load(Ordering::Relaxed);
        if raw.is_null() {
            let made = ManuallyDrop::new(Text::new(self.bytes.to_bytes())?);
            raw = made.raw;
            self.raw.store(raw, Ordering::Relaxed);
        }
        // SAFETY: made above and never freed.
        Some(unsafe { Name::new(raw) })
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
