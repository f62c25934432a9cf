//! An alarm clock that wakes the event loop at a moment, not at a millisecond.
//!
//! The server's timers go by whole milliseconds from the moment they are set, and
//! so does the wait of its event loop: what falls due is noticed 0.5 ms late on
//! average and 1 to 2 ms late at worst. A timer descriptor of the kernel that the
//! event loop watches ends the wait on time. That is all it does: it has the
//! scheduler's timer run within the same turn of the loop. The work itself is never
//! done in the descriptor's callback, for there the server can not replicate (it
//! ends with an assertion), and the callback also comes while a script is
//! running over its time or a dataset is being loaded.
//!
//! Where there is no such clock (not Linux, or the server refuses the
//! descriptor), the timer alone wakes the loop.

/// What the alarm calls when it rings: on the main thread, under the server's lock,
/// where nothing may be written or replicated.
type Ring = fn();

/// The clock: a timer descriptor of the kernel.
#[cfg(target_os = "linux")]
mod clock {
    use std::ffi::{c_int, c_void};
    use std::mem::size_of;
    use std::ptr;
    use std::sync::OnceLock;

    use redis_module::raw;

    use super::Ring;
    use crate::shell::server::api::{self, api, guarded};

    /// What to call.
    static RING: OnceLock<Ring> = OnceLock::new();
    /// The timer descriptor, kept for as long as the process lives.
    static DESCRIPTOR: OnceLock<c_int> = OnceLock::new();

    /// Makes the clock and has the event loop watch it.
    pub(crate) fn start(ring: Ring) {
        let Some(watch) = api!(RedisModule_EventLoopAdd) else {
            return;
        };
        if RING.set(ring).is_err() {
            return;
        }
        // The wall clock: deadlines are moments of it, and the kernel moves an
        // absolute timer along when the clock is set.
        // SAFETY: no memory is handed over.
        let fd = unsafe {
            libc::timerfd_create(libc::CLOCK_REALTIME, libc::TFD_NONBLOCK | libc::TFD_CLOEXEC)
        };
        if fd < 0 {
            return;
        }
        let readable = raw::REDISMODULE_EVENTLOOP_READABLE.cast_signed();
        // SAFETY: an open descriptor; the callback takes no data.
        if unsafe { watch(fd, readable, Some(on_ring), ptr::null_mut()) } == api::OK {
            // Set once: `start` is called once, while the module loads.
            let _ = DESCRIPTOR.set(fd);
        } else {
            // SAFETY: opened above, and known to nobody else.
            unsafe { libc::close(fd) };
        }
    }

    /// Sets the alarm to a moment of the wall clock, in place of the one before. One
    /// system call.
    pub(crate) fn set(wall_ms: u64) {
        let Some(fd) = DESCRIPTOR.get() else {
            return;
        };
        let at = libc::itimerspec {
            it_interval: libc::timespec {
                tv_sec: 0,
                tv_nsec: 0,
            },
            it_value: libc::timespec {
                tv_sec: libc::time_t::try_from(wall_ms / 1000).unwrap_or(libc::time_t::MAX),
                // Below 10^9; a moment of all zeros would switch the alarm off.
                tv_nsec: (wall_ms % 1000 * 1_000_000).max(1).cast_signed(),
            },
        };
        // SAFETY: an open descriptor and a value that outlives the call; what was
        // set before is not asked for. A refusal leaves the timer alone.
        unsafe {
            libc::timerfd_settime(*fd, libc::TFD_TIMER_ABSTIME, &raw const at, ptr::null_mut())
        };
    }

    /// The event loop's callback.
    unsafe extern "C" fn on_ring(fd: c_int, _data: *mut c_void, _mask: c_int) {
        guarded((), || {
            let mut rings = 0_u64;
            // Read, or the loop would never sleep again.
            // SAFETY: room for the eight bytes that such a descriptor gives.
            unsafe { libc::read(fd, (&raw mut rings).cast(), size_of::<u64>()) };
            if let Some(ring) = RING.get() {
                ring();
            }
        });
    }
}

/// No clock.
#[cfg(not(target_os = "linux"))]
mod clock {
    use super::Ring;

    /// There is no such clock here.
    pub(crate) fn start(_ring: Ring) {}

    /// There is none to set.
    pub(crate) fn set(_wall_ms: u64) {}
}

pub(crate) use clock::{set, start};
