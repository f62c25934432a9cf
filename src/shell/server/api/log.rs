//! Lines in the server's log.

use std::ffi::CStr;
use std::ptr;

use redis_module::raw;

use super::call::api;
use crate::shell::server::cell::SharedCell;
use crate::shell::server::{clock, counters};

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
