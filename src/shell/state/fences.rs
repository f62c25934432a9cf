//! The server's number generator, and the guard that is due once after a start.

use crate::engine::number::Numbers;
use crate::shell::server::api::{Level, log_text};
use crate::shell::server::cell::SharedCell;
use crate::shell::server::{clock, counters};
use crate::shell::state::settings;

/// The generator.
static NUMBERS: SharedCell<Numbers> = SharedCell::new(Numbers::new());

/// Whether the guard of this start is still to come: it waits until the dataset
/// is loaded, for what was loaded must be below it.
static GUARD_DUE: SharedCell<bool> = SharedCell::new(true);

/// Runs `body` with the generator.
pub(crate) fn with<R>(body: impl FnOnce(&mut Numbers) -> R) -> R {
    if GUARD_DUE.get() {
        start_guard();
    }
    let mut numbers = NUMBERS.get();
    let result = body(&mut numbers);
    NUMBERS.set(numbers);
    result
}

/// Takes note of a queue's highest number. Further ahead of the clock than is
/// followed: counted, once logged.
pub(crate) fn learn(floor: u64, now_us: u64) {
    let mut numbers = NUMBERS.get();
    // What was given out here is known, however far the clock was set back since.
    if floor <= numbers.last() {
        return;
    }
    let followed = numbers.learn(floor, now_us);
    NUMBERS.set(numbers);
    if !followed {
        note_fence_ahead(floor);
    }
}

/// Moves ahead of what the server before this one may have given out: once after
/// a start.
pub(crate) fn start_guard() {
    if GUARD_DUE.get() {
        GUARD_DUE.set(false);
        guard();
    }
}

/// The same at a promotion.
pub(crate) fn guard() {
    let mut numbers = NUMBERS.get();
    numbers.guard(
        clock::wall_us(),
        settings::FENCE_GUARD_MS.get().saturating_mul(1000),
    );
    NUMBERS.set(numbers);
}

/// Counts a number that was too far ahead to follow, and says so once.
fn note_fence_ahead(number: u64) {
    if counters::FENCE_AHEAD.get() == 0 {
        log_text(
            Level::Warning,
            format!(
                "orderwheel: a queue holds the number {number}, more than an hour ahead of this server's clock; \
                 only queues as far ahead follow it"
            ),
        );
    }
    counters::FENCE_AHEAD.add(1);
}
