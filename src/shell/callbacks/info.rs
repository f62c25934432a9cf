//! The sections `orderwheel` and `orderwheel_histograms` of INFO.
//!
//! The server puts `orderwheel_` before each name. Totals are counters since the
//! module was loaded, which no queue that goes takes anything from: they only grow.
//! Gauges and percentiles are those of all queues together, kept as they change
//! ([`gauges`]): no queue is looked at. The histograms have a section and a line each, so
//! that the first stays readable; who asks for `orderwheel` gets both.
//! In a crash report, which is written from a signal handler, only the counters
//! appear: they take no memory and look at no key.

use std::ffi::{CStr, CString, c_int};

use redis_module::raw;

use crate::engine::tables::buckets::Buckets;
use crate::shell::schedule::timer;
use crate::shell::server::api::{Ctx, api, guarded};
use crate::shell::server::counters::{self, Counter};
use crate::shell::server::{clock, evicting, gauges, resets};
use crate::shell::state::waiters;

/// Registers the section, in place of the crate's own (which adds a backtrace to
/// crash reports, see `api::install_panic_hook`).
pub(crate) fn register(ctx: Ctx) {
    if let Some(call) = api!(RedisModule_RegisterInfoFunc) {
        // SAFETY: called while the module loads.
        unsafe { call(ctx.as_ptr(), Some(info)) };
    }
}

/// The fields being written.
struct Fields {
    /// The server's context.
    ctx: *mut raw::RedisModuleInfoCtx,
}

impl Fields {
    /// A count.
    fn count(&self, name: &CStr, value: u64) {
        if let Some(call) = api!(RedisModule_InfoAddFieldULongLong) {
            // SAFETY: the context of this callback; the name is a C string.
            unsafe { call(self.ctx, name.as_ptr(), value) };
        }
    }

    /// A counter.
    fn counter(&self, name: &CStr, counter: &Counter) {
        self.count(name, counter.get());
    }

    /// A number that may be negative.
    fn signed(&self, name: &CStr, value: i64) {
        if let Some(call) = api!(RedisModule_InfoAddFieldLongLong) {
            // SAFETY: as in `count`.
            unsafe { call(self.ctx, name.as_ptr(), value) };
        }
    }

    /// A time in milliseconds.
    fn real(&self, name: &CStr, value: f64) {
        // The server's own form has 17 digits; what is measured has microseconds.
        if let Ok(text) = CString::new(format!("{value:.3}")) {
            self.text(name, &text);
        }
    }

    /// Begins a section of that name, in the module's own if it is none. Whether it was
    /// asked for; if not, the server takes no field of it.
    fn section(&self, name: Option<&CStr>) -> bool {
        let name = name.map_or(std::ptr::null(), CStr::as_ptr);
        // SAFETY: the context of this callback; the name is a C string, or there is none.
        let begun = api!(RedisModule_InfoAddSection).map(|call| unsafe { call(self.ctx, name) });
        begun == Some(raw::REDISMODULE_OK as c_int)
    }

    /// A field of several counts, and their sum in milliseconds.
    fn histogram(&self, name: &CStr, buckets: &Buckets) {
        let (Some(begin), Some(end)) = (
            api!(RedisModule_InfoBeginDictField),
            api!(RedisModule_InfoEndDictField),
        ) else {
            return;
        };
        // SAFETY: as in `count`.
        unsafe { begin(self.ctx, name.as_ptr()) };
        for (bound, count) in buckets.cumulative() {
            if let Ok(bound) = CString::new(bound) {
                self.count(&bound, count);
            }
        }
        let sum = buckets.sum_us();
        if let Ok(sum) = CString::new(format!("{}.{:03}", sum / 1_000, sum % 1_000)) {
            self.text(c"sum", &sum);
        }
        // SAFETY: as in `count`; a field was begun.
        unsafe { end(self.ctx) };
    }

    /// A text of ours.
    fn text(&self, name: &CStr, value: &CStr) {
        if let Some(call) = api!(RedisModule_InfoAddFieldCString) {
            // SAFETY: as in `count`; the value is a C string.
            unsafe { call(self.ctx, name.as_ptr(), value.as_ptr()) };
        }
    }
}

/// The callback: INFO, or a crash report.
unsafe extern "C" fn info(ctx: *mut raw::RedisModuleInfoCtx, for_crash_report: c_int) {
    guarded((), || {
        let fields = Fields { ctx };
        let for_crash_report = for_crash_report != 0;
        if fields.section(None) {
            figures(&fields, for_crash_report);
        }
        if !for_crash_report && fields.section(Some(c"histograms")) {
            histograms(&fields);
        }
    });
}

/// The section `orderwheel`.
fn figures(fields: &Fields, for_crash_report: bool) {
    let (queues, backlog) = timer::totals();
    fields.text(c"version", VERSION);
    fields.count(c"queues", queues);
    fields.counter(c"timer_runs_total", &counters::TIMER_RUNS);
    fields.counter(c"alarm_runs_total", &counters::ALARM_RUNS);
    fields.counter(c"pass_us_max", &counters::PASS_US_MAX);
    fields.counter(c"announced_total", &counters::ANNOUNCED);
    fields.count(c"announce_backlog", backlog);
    fields.counter(c"clock_steps_total", &counters::CLOCK_STEPS);
    fields.signed(
        c"last_clock_step_ms",
        counters::LAST_CLOCK_STEP_MS.get().cast_signed(),
    );
    fields.counter(c"fence_ahead_total", &counters::FENCE_AHEAD);
    fields.counter(c"apply_refused_total", &counters::APPLY_REFUSED);
    fields.counter(c"apply_mismatch_total", &counters::APPLY_MISMATCH);
    fields.counter(c"panics_total", &counters::PANICS);
    fields.counter(c"reentries_total", &counters::REENTRIES);
    fields.counter(c"waiters_served_total", &counters::WAITERS_SERVED);
    fields.counter(c"scheduled_total", &counters::SCHEDULED);
    fields.counter(c"finished_total", &counters::FINISHED);
    fields.counter(c"claimed_total", &counters::CLAIMED);
    fields.counter(c"acked_total", &counters::ACKED);
    fields.counter(c"nacked_total", &counters::NACKED);
    fields.counter(c"lapsed_total", &counters::LAPSED);
    fields.counter(c"dead_total", &counters::DEAD);
    fields.counter(c"stale_total", &counters::STALE);
    fields.counter(c"dead_dropped_total", &counters::DEAD_DROPPED);
    fields.counter(c"lock_attempt_total", &counters::LOCK_ATTEMPTS);
    fields.counter(c"lock_acquired_total", &counters::LOCK_ACQUIRED);
    fields.counter(c"lock_busy_total", &counters::LOCK_BUSY);
    fields.counter(c"disconnect_released_total", &counters::DISCONNECT_RELEASED);
    fields.counter(c"claims_held_back_total", &counters::CLAIMS_HELD_BACK);
    if for_crash_report {
        return;
    }
    let may_evict = timer::detached().is_some_and(evicting::may_evict);
    fields.count(c"evicting_policy", u64::from(may_evict));
    let (claims, locks) = waiters::count_all();
    fields.count(c"claim_waiters", claims);
    fields.count(c"lock_waiters", locks);
    if let Some(ctx) = timer::detached() {
        resets::look(ctx);
    }
    let now = clock::now();
    for (name, value) in gauges::counts(&now) {
        if let Ok(name) = CString::new(name) {
            fields.count(&name, value);
        }
    }
    for (name, value) in gauges::times(&now) {
        if let Ok(name) = CString::new(name) {
            fields.real(&name, value);
        }
    }
}

/// The section `orderwheel_histograms`.
fn histograms(fields: &Fields) {
    if let Some(ctx) = timer::detached() {
        resets::look(ctx);
    }
    gauges::with_bounds(|counts| {
        for (timing, buckets) in counts.each() {
            if let Ok(name) = CString::new(timing.name()) {
                fields.histogram(&name, buckets);
            }
        }
    });
}

/// The module's version.
const VERSION: &CStr =
    match CStr::from_bytes_with_nul(concat!(env!("CARGO_PKG_VERSION"), "\0").as_bytes()) {
        Ok(version) => version,
        Err(_) => c"",
    };
