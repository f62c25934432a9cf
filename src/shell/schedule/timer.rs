//! The one server timer: when the next pass runs, and over which queues.
//!
//! ```text
//!   commands ── touch ────► agenda ──► timer ──► pass
//!   hooks ──── register ──►   ▲                   │
//!                             └─── when to look ──┘
//! ```
//!
//! Commands and hooks file queues; the timer is set for the earliest, and with it
//! the alarm that has it run on time ([`alarm`]). A walk over all queues, in steps,
//! follows a promotion, a load, a step of the wall clock, and a caught panic.
//!
//! Each queue notes the wake it is filed under (`armed`): a command files it again
//! only for an earlier one. An entry that comes too early costs a look. One that is
//! lost is not made up for until somebody writes something that is due earlier
//! still: so an entry goes only with its queue (`unlink`, FLUSHDB), or when a
//! primary finds the key gone; never because a read on a replica found nothing.
//!
//! # Rules
//! - The timer never stops itself: its id is forgotten first thing in its callback.
//! - While a pass runs nobody sets the timer; the end of the pass does.
//! - The server's timer counts wall time but sleeps monotonic time: after a step
//!   back of the wall clock it would sleep through the step. [`on_cron`] notices.

use std::ffi::c_void;
use std::sync::Arc;

use redis_module::raw;

use crate::engine::{Duty, Queue};
use crate::shell::schedule::agenda::{Agenda, Cursor, NEVER};
use crate::shell::schedule::alarm;
use crate::shell::server::api::{Ctx, Detached, Level, Mode, Text, guarded, log_text};
use crate::shell::server::cell::{Shared, SharedCell};
use crate::shell::server::{clock, counters, reaper, value};
use crate::shell::state::{fences, sessions, settings, waiters};
use crate::words::time::Now;

/// A difference between the clocks' progress that counts as a step, microseconds.
const STEP_US: u64 = 50_000;
/// The longest time a timer is set for, milliseconds. The server reckons the next
/// call of its timers in microseconds of 32 bits (`processTimeEvents` of ae.c in
/// Redis 7.0): above 35 minutes that overflows, and the event loop spins until the
/// timer is due.
const SLEEP_MS_MAX: u64 = 1_800_000;

/// When a queue that has shrunk is compacted, milliseconds after that was noticed:
/// those that soon grow again are left alone.
const COMPACT_AFTER_MS: u64 = 1_000;

/// All queues and their wakes.
pub(crate) static AGENDA: Shared<Agenda> = Shared::new(Agenda::new());

/// Everything else.
static STATE: Shared<State> = Shared::new(State {
    timer: None,
    in_pass: false,
    hold_until_us: 0,
    sweep: None,
    cron_at: None,
    recovery: Recovery::new(),
});

/// What the timer runs: the pass. It stands above, so it is handed in at the start.
static PASS: SharedCell<Option<fn(Ctx)>> = SharedCell::new(None);

/// For starting and stopping the timer where the server gives no context (`unlink`).
static DETACHED: SharedCell<Detached> = SharedCell::new(Detached::none());

/// The alarm was set for a connection that closed, and no pass has come since.
static RINGS: SharedCell<bool> = SharedCell::new(false);

/// A walk over all queues, a few in each pass.
struct Sweep {
    /// Where it is.
    last: Option<Cursor>,
    /// After a promotion: what is unclaimed counts as unannounced.
    again: bool,
}

/// How long after a walk the next one may follow that makes up for a panic,
/// microseconds: a queue whose every look panics must not keep the server busy.
const RECOVER_US: u64 = 1_000_000;

/// Whether there is a panic to make up for: what was on the way to the agenda when it
/// unwound is lost, and only a walk finds which queues that was.
struct Recovery {
    /// Panics that have been made up for.
    seen: u64,
    /// When (monotonic) the last walk for one began, microseconds.
    at_us: u64,
}

impl Recovery {
    /// Nothing to make up for.
    const fn new() -> Self {
        Self { seen: 0, at_us: 0 }
    }

    /// Whether a walk is to begin now, where `panics` have been caught so far.
    fn is_due(&mut self, panics: u64, now_us: u64) -> bool {
        let due = panics != self.seen && now_us.saturating_sub(self.at_us) >= RECOVER_US;
        if due {
            *self = Self {
                seen: panics,
                at_us: now_us,
            };
        }
        due
    }
}

/// What the scheduler remembers between runs.
struct State {
    /// The running timer and the wall millisecond it is set for.
    timer: Option<(u64, u64)>,
    /// A pass is running: it sets the timer at its end.
    in_pass: bool,
    /// Until when (monotonic) queues that were overdue at the start are not announced.
    hold_until_us: u64,
    /// The walk that is going on.
    sweep: Option<Sweep>,
    /// The clocks at the last run of the server's cron.
    cron_at: Option<Now>,
    /// Panics that are to be made up for.
    recovery: Recovery,
}

/// Starts the scheduler: called once while the module loads.
pub(crate) fn start(ctx: Ctx, pass: fn(Ctx)) {
    PASS.set(Some(pass));
    DETACHED.set(Detached::make(ctx));
    alarm::start(on_alarm);
    hold();
}

/// From now on, for `announce-after-start-ms`, what is overdue is not announced.
fn hold() {
    let until = clock::mono_us()
        .saturating_add(settings::ANNOUNCE_AFTER_START_MS.get().saturating_mul(1000));
    STATE.with(|state| state.hold_until_us = until);
}

/// Number of queues, and of announcements that are held back.
pub(crate) fn totals() -> (u64, u64) {
    AGENDA
        .with(|agenda| (agenda.queues(), agenda.backlog()))
        .unwrap_or((0, 0))
}

/// Bytes that the scheduler spends on a queue of a database, on average.
pub(crate) fn share(db: i32) -> usize {
    AGENDA.with(|agenda| agenda.share(db)).unwrap_or(0)
}

/// When those who wait for orders of a queue can be served, if anybody does.
fn claim_wake(db: i32, key: &[u8], queue: &Queue, now: &Now) -> u64 {
    let is_awaited = waiters::waiting(db, key);
    let wake = is_awaited.then(|| queue.claim_wake(now, &settings::defaults()));
    wake.flatten().map_or(NEVER, |wake| wake.0)
}

/// A queue was changed: files it if it has to be looked at earlier than it is
/// filed for. O(1) where it has not, O(log queues) else.
pub(crate) fn touch(db: i32, key: &[u8], queue: &mut Queue, now: &Now) {
    let mut wake = queue.take_hint();
    wake = wake.min(claim_wake(db, key, queue, now));
    wake = wake.min(waiters::lock_wake(db, key).unwrap_or(NEVER));
    // Where a pass comes before that anyway nobody need ask.
    let compact_at = now.wall_ms().0.saturating_add(COMPACT_AFTER_MS);
    if compact_at < wake.min(queue.armed()) && queue.is_sparse() {
        wake = compact_at;
    }
    // One that is filed too early, for what has changed since, costs a look: harmless.
    if wake < queue.armed() {
        queue.set_armed(wake);
        file(db, key, wake);
    }
}

/// A queue came to this name: files it.
pub(crate) fn register(db: i32, key: &[u8], queue: &mut Queue, now: &Now) {
    queue.take_hint();
    queue.take_stock(now);
    let mut wake = queue.next_wake(now, Duty::All).map_or(NEVER, |wake| wake.0);
    wake = wake.min(claim_wake(db, key, queue, now));
    let overdue = wake <= now.wall_ms().0;
    let stock = queue.stock_wake(now, Duty::All);
    wake = wake.min(stock.map_or(NEVER, |wake| wake.0));
    if queue.is_sparse() {
        wake = wake.min(now.wall_ms().0.saturating_add(COMPACT_AFTER_MS));
    }
    if waiters::lock_wake(db, key).is_some() {
        // Another queue under the name they wait for.
        waiters::all_changed(db, key);
        wake = 0;
    }
    if sessions::came(db, key, queue) {
        wake = 0;
    }
    queue.set_armed(wake);
    let holding = STATE
        .with(|state| state.hold_until_us > now.mono_us)
        .unwrap_or(false);
    AGENDA.with(|agenda| {
        agenda.file(db, key, wake);
        agenda.hold(db, key, overdue && holding);
    });
    arm();
}

/// Files a queue without looking at it.
fn file(db: i32, key: &[u8], wake: u64) {
    AGENDA.with(|agenda| agenda.file(db, key, wake));
    arm();
}

/// A queue is no longer under this name.
pub(crate) fn forget(db: i32, key: &[u8]) {
    AGENDA.with(|agenda| agenda.drop_key(db, key));
    sessions::forget(db, key);
    locks_are_free(db, key);
}

/// The queue that clients wait for locks of is gone: what they wait for is free.
fn locks_are_free(db: i32, key: &[u8]) {
    if waiters::lock_wake(db, key).is_some() {
        waiters::all_changed(db, key);
        file(db, key, 0);
    }
}

/// Has a queue looked at in the next pass, whether it is there or not.
pub(crate) fn file_now(db: i32, key: &[u8]) {
    file(db, key, 0);
}

/// The connection of a client has closed. Its leases end in a pass that comes in this
/// turn of the event loop: also where the server has just reckoned how long to sleep,
/// for the alarm wakes it.
pub(crate) fn disconnected(client: u64) {
    let queues = sessions::disconnected(client);
    if queues.is_empty() {
        return;
    }
    for (db, key) in queues {
        file(db, &key, 0);
    }
    // Once for all that close before the pass: on a virtual machine an alarm for a
    // moment that has passed takes some 30 microseconds.
    if !RINGS.get() {
        RINGS.set(true);
        alarm::set(clock::wall_us() / 1000);
    }
}

/// Has every queue that somebody waits for looked at in the next pass.
pub(crate) fn look_at_awaited() {
    for (db, key) in waiters::awaited(None) {
        file(db, &key, 0);
    }
}

/// A database, or all (`None`), is being emptied.
pub(crate) fn flushed(db: Option<i32>) {
    if let Some(books) = AGENDA.with(|agenda| agenda.clear(db)) {
        reaper::drop_elsewhere(Box::new(books));
    }
    sessions::flushed(db);
    for (db, key) in waiters::awaited(db) {
        locks_are_free(db, &key);
    }
}

/// Two databases were swapped: queues go with them, waiters stay.
pub(crate) fn swapped(one: i32, other: i32) {
    AGENDA.with(|agenda| agenda.swap(one, other));
    sessions::swapped(one, other);
    if STATE.with(|state| state.in_pass) == Some(true) {
        // By an event's listener: what the pass has in hand is elsewhere now.
        sweep(false);
    }
    for db in [one, other] {
        for (db, key) in waiters::awaited(Some(db)) {
            if AGENDA.with(|agenda| agenda.entry(db, &key).is_some()) == Some(true) {
                file(db, &key, 0);
            }
            locks_are_free(db, &key);
        }
    }
}

/// This server became the primary of its data.
pub(crate) fn promoted() {
    fences::guard();
    hold();
    sweep(true);
}

/// This server became a replica: what ends with a connection ends by time now, as on
/// every other server.
pub(crate) fn demoted() {
    let Some(ctx) = detached() else {
        return;
    };
    for (db, key) in sessions::places() {
        if let Some(name) = Text::new(&key).filter(|_| ctx.select(db)) {
            value::with_queue(ctx, name.name(), Mode::Quiet, Queue::unbind_all);
        }
        sessions::forget(db, &key);
    }
}

/// A dataset was loaded. Queues from an AOF were filed by commands, those from
/// an RDB file one by one while it was read: what is overdue in them is found by a
/// walk.
pub(crate) fn loaded() {
    fences::start_guard();
    hold();
    sweep(false);
}

/// Whether a walk over all queues is going on.
pub(crate) fn sweeping() -> bool {
    STATE.with(|state| state.sweep.is_some()).unwrap_or(false)
}

/// Starts a walk over all queues.
fn sweep(again: bool) {
    STATE.with(|state| {
        let again = again || state.sweep.as_ref().is_some_and(|sweep| sweep.again);
        state.sweep = Some(Sweep { last: None, again });
    });
    arm();
}

/// The next queue of the walk that is going on, and whether what is unclaimed in
/// it counts as unannounced. `None` ends the walk.
pub(crate) fn next_of_walk() -> Option<(i32, Arc<[u8]>, bool)> {
    let (last, again) = STATE
        .with(|state| state.sweep.as_ref().map(|sweep| (sweep.last, sweep.again)))
        .flatten()?;
    let next = AGENDA.with(|agenda| agenda.next_after(last)).flatten();
    STATE.with(|state| match &next {
        Some(next) => {
            state.sweep = Some(Sweep {
                last: Some(next.0),
                again,
            });
        }
        None => state.sweep = None,
    });
    next.map(|((db, _), key)| (db, key, again))
}

/// Until when (monotonic) queues that were overdue at the start are not announced.
pub(crate) fn hold_until_us() -> u64 {
    STATE.with(|state| state.hold_until_us).unwrap_or(0)
}

/// Sets the timer for the earliest wake, unless it stands for an earlier one.
fn arm() {
    let Some(first) = AGENDA.with(Agenda::first_wake) else {
        return;
    };
    let Some(ctx) = detached() else {
        return;
    };
    STATE.with(|state| {
        let wake = if state.sweep.is_some() { 0 } else { first };
        if state.in_pass || wake == NEVER || state.timer.is_some_and(|(_, set)| set <= wake) {
            return;
        }
        if let Some((id, _)) = state.timer.take() {
            ctx.stop_timer(id);
        }
        // Rounded up: a timer that came a microsecond early would find nothing due.
        let ahead_ms = wake
            .saturating_mul(1000)
            .saturating_sub(clock::wall_us())
            .div_ceil(1000);
        state.timer = ctx
            .start_timer(ahead_ms.min(SLEEP_MS_MAX), Some(on_timer))
            .map(|id| (id, wake));
        if ahead_ms > 0 {
            alarm::set(wake);
        }
    });
}

/// The alarm rings: the timer that was set with it is due, and runs now instead of
/// up to two milliseconds later. A timer that is not due stays as it is: the wall
/// clock was set, or may be another than the kernel's.
fn on_alarm() {
    let Some(ctx) = detached() else {
        return;
    };
    STATE.with(|state| {
        let Some((id, wake)) = state.timer else {
            return;
        };
        if state.in_pass || wake > clock::wall_us() / 1000 {
            return;
        }
        ctx.stop_timer(id);
        state.timer = ctx.start_timer(0, Some(on_timer)).map(|id| (id, wake));
        counters::ALARM_RUNS.add(1);
    });
}

/// The timer's callback.
unsafe extern "C" fn on_timer(ctx: *mut raw::RedisModuleCtx, _data: *mut c_void) {
    guarded((), || {
        // First of all: from here on it is not ours to stop.
        STATE.with(|state| {
            state.timer = None;
            state.in_pass = true;
        });
        RINGS.set(false);
        // SAFETY: the server's context for this callback.
        let ctx = unsafe { Ctx::new(ctx) };
        if let Some(pass) = PASS.get() {
            pass(ctx);
        }
    });
    // Also after a panic: time must go on. What the panic has lost, the cron finds.
    guarded((), || {
        STATE.with(|state| state.in_pass = false);
        arm();
    });
}

/// The server's cron: `hz` times a second, on the monotonic clock. Notices steps
/// of the wall clock; a timer that was set before a step back would sleep through
/// it, and what is filed by lease ends stands for the wrong wall moment. Notices
/// panics too.
pub(crate) fn on_cron() {
    let now = clock::now();
    let Some(Some(last)) = STATE.with(|state| state.cron_at.replace(now)) else {
        return;
    };
    let wall = i128::from(now.wall_us) - i128::from(last.wall_us);
    let mono = i128::from(now.mono_us) - i128::from(last.mono_us);
    let apart = wall - mono;
    if apart.unsigned_abs() > u128::from(STEP_US) {
        let step_ms = i64::try_from(apart / 1000).unwrap_or(i64::MAX);
        counters::CLOCK_STEPS.add(1);
        counters::LAST_CLOCK_STEP_MS.set(step_ms.cast_unsigned());
        log_text(
            Level::Warning,
            format!("orderwheel: the wall clock was set by {step_ms} ms"),
        );
        stop();
        sweep(false);
    } else if STATE.with(|state| {
        state.sweep.is_none() && state.recovery.is_due(counters::PANICS.get(), now.mono_us)
    }) == Some(true)
    {
        sweep(false);
    } else {
        // Nothing to do where all is well; a timer that was lost comes back here.
        arm();
    }
}

/// Stops the timer.
fn stop() {
    let Some(ctx) = detached() else {
        return;
    };
    STATE.with(|state| {
        if let Some((id, _)) = state.timer.take() {
            ctx.stop_timer(id);
        }
    });
}

/// The detached context, for looking at keys where the server gives none.
pub(crate) fn detached() -> Option<Ctx> {
    DETACHED.get().ctx()
}

#[cfg(test)]
mod tests {
    use super::{RECOVER_US, Recovery};

    #[test]
    fn a_panic_is_made_up_for_once_and_a_stream_of_them_once_a_second() {
        let mut recovery = Recovery::new();
        let (mut now_us, mut walks) = (5 * RECOVER_US, 0);
        assert!(!recovery.is_due(0, now_us), "none so far");
        assert!(recovery.is_due(1, now_us));
        assert!(!recovery.is_due(1, now_us + 9 * RECOVER_US), "once");
        for panics in 2..102 {
            now_us += RECOVER_US / 10;
            walks += u32::from(recovery.is_due(panics, now_us));
        }
        assert_eq!(walks, 10);
        assert!(
            recovery.is_due(102, now_us + RECOVER_US),
            "the last one too"
        );
    }
}
