//! The two clocks, read once per command or pass.
//!
//! Wall time comes from `gettimeofday`, as the server's own does: a deadline is
//! then due exactly when the server's `TIME` says so. Monotonic time counts from
//! the first reading in this process.

use std::sync::OnceLock;

use crate::words::time::Now;

/// Both clocks.
pub(crate) fn now() -> Now {
    Now {
        wall_us: wall_us(),
        mono_us: mono_us(),
    }
}

/// Microseconds since the Unix epoch, 0 before it.
pub(crate) fn wall_us() -> u64 {
    let mut time = libc::timeval {
        tv_sec: 0,
        tv_usec: 0,
    };
    // SAFETY: the pointer is to a local; no time zone is asked for.
    unsafe { libc::gettimeofday(&raw mut time, std::ptr::null_mut()) };
    let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
    seconds
        .saturating_mul(1_000_000)
        .saturating_add(u64::try_from(time.tv_usec).unwrap_or(0))
}

/// Microseconds since this process first asked; never goes back.
pub(crate) fn mono_us() -> u64 {
    static START: OnceLock<u64> = OnceLock::new();
    let raw = raw_mono_us();
    // A lease that ended before the first reading still has a value below now.
    raw.saturating_sub(*START.get_or_init(|| raw.saturating_sub(1_000_000)))
}

/// The monotonic clock of the machine, in microseconds.
fn raw_mono_us() -> u64 {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: the pointer is to a local.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut time) };
    let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
    seconds
        .saturating_mul(1_000_000)
        .saturating_add(u64::try_from(time.tv_nsec).unwrap_or(0) / 1000)
}
