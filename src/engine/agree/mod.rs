//! Whatever happened to the clock: all questions are answered alike.
//!
//! GET, PTTL and SCAN read records. STATS, NEXT and CLAIM read the lists and wheels
//! that records stand in, and those know of a step of the wall clock only what
//! [`Queue::advance`](super::queue::Queue::advance) has told them. So short random lives
//! of a queue, made of every command, end here in a step of the clock, in a reload, or in
//! both; then, after one `advance` without a limit, all of them must tell of the same
//! orders.
//!
//! ```text
//!   dice ─► a few commands ─► clock step / reload ─► advance ─┬► view of each id ─┐
//!   life    commands                                          ├► SCAN, STATS      ├─ equal?
//!                                                             └► NEXT, CLAIM     ─┘ answers
//! ```
//!
//! A life prints its number when it fails. `ORDER_TEST_SEED` gives other lives,
//! `ORDER_TEST_STEPS` another number of them. A new command needs an arm in `commands`,
//! a new question a part of `answers`.

#![allow(
    clippy::cast_possible_wrap,
    clippy::cast_sign_loss,
    clippy::indexing_slicing,
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stderr,
    reason = "a test that fails should fail loudly"
)]

use super::testing::from_environment;
use life::Life;

mod answers;
mod commands;
mod life;
mod ways;

/// How many lives are lived.
const LIVES: u64 = 50_000;

/// The ids of a life.
const IDS: [&[u8]; 6] = [b"a", b"b", b"c", b"d", b"e", b"f"];

/// Lengths of leases, waits and deadlines, milliseconds.
const LENGTHS: [u64; 6] = [1, 5, 40, 300, 5_000, 4_000_000];

/// Steps of the wall clock, microseconds.
const STEPS: [i64; 7] = [1, 700, 1_000, 30_000, 400_000, 20_000_000, 3_600_000_000];

#[test]
fn after_a_clock_step_or_a_reload_all_questions_are_answered_alike() {
    /// Prints which life it was, unless it ended well.
    struct Which(u64, bool);
    impl Drop for Which {
        fn drop(&mut self) {
            if !self.1 {
                eprintln!("ORDER_TEST_SEED={} ORDER_TEST_STEPS=1", self.0);
            }
        }
    }
    let first = from_environment("ORDER_TEST_SEED").unwrap_or(1);
    let lives = from_environment("ORDER_TEST_STEPS").unwrap_or(LIVES);
    for seed in first..first + lives {
        let mut which = Which(seed, false);
        let mut life = Life::new(seed);
        for _ in 0..=life.dice.below(14) {
            life.step();
        }
        life.end();
        life.agrees();
        which.1 = true;
    }
}
