//! The server's settings, `orderwheel.*` in CONFIG and redis.conf, and the
//! server-wide defaults of the queues' own.
//!
//! Each is a number that the server reads and writes through two small
//! functions; ranges are enforced by the server, which also words the errors.
//! Values are read with every command, so they are plain atomics.

use std::ffi::{CStr, c_char, c_int, c_longlong, c_uint, c_void};
use std::sync::atomic::{AtomicI64, Ordering};

use redis_module::raw;

use crate::engine::{Defaults, Setting};
use crate::request::Limits;
use crate::shell::server::api::{Ctx, OK, api, guarded};
use crate::shell::server::cell::{Shared, SharedCell};
use crate::words::limits::SECOND_BYTES_MAX;

/// A year in milliseconds: a longer time is a mistyped unit.
const YEAR_MS: i64 = 31_536_000_000;
/// The largest payload: larger ones do not fit the store's blocks.
const PAYLOAD_BYTES_END: i64 = SECOND_BYTES_MAX.cast_signed() as i64;

/// One numeric setting.
pub(crate) struct Number {
    /// Its name after `orderwheel.`.
    name: &'static CStr,
    /// Its value where nobody set another.
    default: i64,
    /// Its smallest value.
    min: i64,
    /// Its largest value.
    max: i64,
    /// Whether it may be given as an amount of memory (`64kb`).
    memory: bool,
    /// Its value.
    value: AtomicI64,
}

impl Number {
    /// A setting at its default.
    const fn new(name: &'static CStr, default: i64, min: i64, max: i64) -> Self {
        Self {
            name,
            default,
            min,
            max,
            memory: false,
            value: AtomicI64::new(default),
        }
    }

    /// The server's default of a queue's setting, under the same name.
    const fn of_queue(name: &'static CStr, setting: Setting) -> Self {
        let (min, max) = setting.range();
        // All three are far below 2^63, as the test of this file holds.
        Self::new(
            name,
            setting.default_value().cast_signed(),
            min.cast_signed(),
            max.cast_signed(),
        )
    }

    /// Its value; never negative.
    pub(crate) fn get(&self) -> u64 {
        self.value.load(Ordering::Relaxed).unsigned_abs()
    }
}

/// How long one pass of the scheduler works, microseconds.
pub(crate) static TICK_BUDGET_US: Number = Number::new(c"tick-budget-us", 1_000, 100, 1_000_000);
/// How many time-raised events are published a second, 0 without limit.
pub(crate) static ANNOUNCE_PER_S_MAX: Number =
    Number::new(c"announce-per-s-max", 100_000, 0, 1_000_000_000);
/// How long after a start or promotion what was overdue then is announced, milliseconds.
pub(crate) static ANNOUNCE_AFTER_START_MS: Number =
    Number::new(c"announce-after-start-ms", 3_000, 0, 3_600_000);
/// The longest payload or result, bytes.
pub(crate) static PAYLOAD_BYTES_MAX: Number = Number {
    memory: true,
    ..Number::new(c"payload-bytes-max", 65_536, 0, PAYLOAD_BYTES_END)
};
/// How far fences are pushed ahead at start and promotion, milliseconds.
pub(crate) static FENCE_GUARD_MS: Number = Number::new(c"fence-guard-ms", 10_000, 0, 600_000);
/// The longest lease, milliseconds.
pub(crate) static LEASE_MS_MAX: Number = Number::new(c"lease-ms-max", 86_400_000, 1, YEAR_MS);
/// Whether clients may call ORDER.APPLY.
static APPLY_FROM_CLIENTS: AtomicI64 = AtomicI64::new(0);

/// The defaults of the queues' settings, in the order of [`Setting::ALL`].
static OF_QUEUES: [Number; 9] = [
    Number::of_queue(c"lease-ms", Setting::LeaseMs),
    Number::of_queue(c"lock-ms-max", Setting::LockMsMax),
    Number::of_queue(c"max-attempts", Setting::MaxAttempts),
    Number::of_queue(c"backoff-ms", Setting::BackoffMs),
    Number::of_queue(c"backoff-ms-max", Setting::BackoffMsMax),
    Number::of_queue(c"keep-ms", Setting::KeepMs),
    Number::of_queue(c"max-leased", Setting::MaxLeased),
    Number::of_queue(c"dead-max", Setting::DeadMax),
    Number::of_queue(c"claims-per-s-max", Setting::ClaimsPerSMax),
];

/// The server's own settings.
static OF_SERVER: [&Number; 6] = [
    &TICK_BUDGET_US,
    &ANNOUNCE_PER_S_MAX,
    &ANNOUNCE_AFTER_START_MS,
    &PAYLOAD_BYTES_MAX,
    &FENCE_GUARD_MS,
    &LEASE_MS_MAX,
];

/// Whether clients may call ORDER.APPLY.
pub(crate) fn apply_from_clients() -> bool {
    APPLY_FROM_CLIENTS.load(Ordering::Relaxed) != 0
}

/// The limits the grammar needs.
pub(crate) fn limits() -> Limits {
    Limits {
        lease_ms_max: LEASE_MS_MAX.get(),
        payload_bytes_max: PAYLOAD_BYTES_MAX.get(),
    }
}

/// What is to be done when a number was set: handed in by whoever stands above.
static CHANGED: SharedCell<Option<fn()>> = SharedCell::new(None);

/// The defaults decisions need: built once after a change, as every command reads
/// them. `None` since a setting was changed.
static DEFAULTS: Shared<Option<Defaults>> = Shared::new(None);

/// The defaults decisions need.
pub(crate) fn defaults() -> Defaults {
    DEFAULTS
        .with(|kept| kept.get_or_insert_with(built).clone())
        .unwrap_or_else(built)
}

/// Builds them from the settings.
fn built() -> Defaults {
    let mut defaults = Defaults::default();
    defaults.lease_ms_max = LEASE_MS_MAX.get();
    for (setting, number) in Setting::ALL.into_iter().zip(&OF_QUEUES) {
        defaults.set(setting, number.get());
    }
    defaults
}

/// Registers every setting and lets the server load what redis.conf or CONFIG
/// gave for them. False if the server refuses.
pub(crate) fn register(ctx: Ctx, changed: fn()) -> bool {
    CHANGED.set(Some(changed));
    let Some(number_call) = api!(RedisModule_RegisterNumericConfig) else {
        return false;
    };
    for number in OF_SERVER.into_iter().chain(&OF_QUEUES) {
        let flags = if number.memory {
            raw::REDISMODULE_CONFIG_MEMORY as c_uint
        } else {
            0
        };
        let data = std::ptr::from_ref(&number.value)
            .cast_mut()
            .cast::<c_void>();
        // SAFETY: called while the module loads; the name is a C string, the data
        // is a static atomic that the two functions only load and store.
        let done = unsafe {
            number_call(
                ctx.as_ptr(),
                number.name.as_ptr(),
                number.default,
                flags,
                number.min,
                number.max,
                Some(get_number),
                Some(set_number),
                None,
                data,
            )
        };
        if done != OK {
            return false;
        }
    }
    let Some(bool_call) = api!(RedisModule_RegisterBoolConfig) else {
        return false;
    };
    let data = (&raw const APPLY_FROM_CLIENTS).cast_mut().cast::<c_void>();
    // SAFETY: as above.
    let done = unsafe {
        bool_call(
            ctx.as_ptr(),
            c"apply-from-clients".as_ptr(),
            0,
            0,
            Some(get_bool),
            Some(set_bool),
            None,
            data,
        )
    };
    if done != OK {
        return false;
    }
    // SAFETY: called once, after all registrations.
    api!(RedisModule_LoadConfigs).is_some_and(|call| unsafe { call(ctx.as_ptr()) } == OK)
}

/// The atomic behind the server's private data.
///
/// # Safety
/// `data` is what [`register`] gave.
unsafe fn value<'a>(data: *mut c_void) -> &'a AtomicI64 {
    // SAFETY: a static atomic (contract).
    unsafe { &*data.cast::<AtomicI64>() }
}

/// Gives the server a number's value.
unsafe extern "C" fn get_number(_name: *const c_char, data: *mut c_void) -> c_longlong {
    // SAFETY: the data `register` gave.
    unsafe { value(data) }.load(Ordering::Relaxed)
}

/// Takes a number's new value, which the server has checked.
unsafe extern "C" fn set_number(
    _name: *const c_char,
    new: c_longlong,
    data: *mut c_void,
    _error: *mut *mut raw::RedisModuleString,
) -> c_int {
    // SAFETY: the data `register` gave.
    unsafe { value(data) }.store(new, Ordering::Relaxed);
    guarded((), || {
        DEFAULTS.with(|kept| *kept = None);
    });
    // With a larger `max-leased` or `claims-per-s-max` there is room for those who wait.
    guarded((), || {
        if let Some(changed) = CHANGED.get() {
            changed();
        }
    });
    OK
}

/// Gives the server a switch's value.
unsafe extern "C" fn get_bool(_name: *const c_char, data: *mut c_void) -> c_int {
    // SAFETY: the data `register` gave.
    c_int::from(unsafe { value(data) }.load(Ordering::Relaxed) != 0)
}

/// Takes a switch's new value.
unsafe extern "C" fn set_bool(
    _name: *const c_char,
    new: c_int,
    data: *mut c_void,
    _error: *mut *mut raw::RedisModuleString,
) -> c_int {
    // SAFETY: the data `register` gave.
    unsafe { value(data) }.store(i64::from(new), Ordering::Relaxed);
    OK
}

#[cfg(test)]
mod tests {
    use super::{OF_QUEUES, OF_SERVER};
    use crate::engine::Setting;

    #[test]
    fn every_default_is_within_its_range() {
        for number in OF_SERVER.into_iter().chain(&OF_QUEUES) {
            assert!(
                0 <= number.min && number.min <= number.default && number.default <= number.max
            );
        }
    }

    #[test]
    fn the_queues_defaults_stand_under_their_names() {
        for (setting, number) in Setting::ALL.into_iter().zip(&OF_QUEUES) {
            assert_eq!(number.name.to_str(), Ok(setting.name()));
            assert_eq!(number.get(), setting.default_value());
        }
    }
}
