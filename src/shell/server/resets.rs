//! CONFIG RESETSTAT, noticed.
//!
//! The server tells nobody of it. But it sets its own counters to zero, which otherwise
//! only grow: so one that has gone back tells. They are read once a second by the cron,
//! and before STATS and INFO answer. Only where since the reset more has happened, by
//! each of the counters, than in all the time before it, does nothing tell.

use crate::shell::server::api::Ctx;
use crate::shell::server::cell::SharedCell;
use crate::shell::server::{clock, gauges};

/// How often the cron looks, microseconds.
const EVERY_US: u64 = 1_000_000;

/// The server's counters when they were last read.
static SEEN: SharedCell<[u64; 4]> = SharedCell::new([0; 4]);
/// When (monotonic) that was, microseconds.
static SEEN_AT: SharedCell<u64> = SharedCell::new(0);

/// Whether a counter has gone back.
fn is_reset(before: &[u64; 4], after: &[u64; 4]) -> bool {
    before
        .iter()
        .zip(after)
        .any(|(before, after)| after < before)
}

/// Forgets the times if the server has reset its own figures. Reads a section of INFO:
/// about 30 microseconds.
pub(crate) fn look(ctx: Ctx) {
    SEEN_AT.set(clock::mono_us());
    let Some(counters) = ctx.server_counters() else {
        return;
    };
    if is_reset(&SEEN.get(), &counters) {
        gauges::reset_times();
    }
    SEEN.set(counters);
}

/// The server's cron, `hz` times a second.
pub(crate) fn on_cron(ctx: Ctx) {
    if clock::mono_us().saturating_sub(SEEN_AT.get()) >= EVERY_US {
        look(ctx);
    }
}

#[cfg(test)]
mod tests {
    use super::is_reset;

    #[test]
    fn any_counter_that_goes_back_tells() {
        let before = [100, 20, 3_000, 0];
        assert!(!is_reset(&before, &before));
        assert!(!is_reset(&before, &[101, 20, 9_000, 5]));
        assert!(is_reset(&before, &[500, 19, 9_000, 5]));
        assert!(is_reset(&before, &[1, 0, 20, 0]));
    }
}
