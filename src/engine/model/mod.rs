//! The core against a naive model of it.
//!
//! The model is a sorted map of records and the rules of the design, written down
//! as they are read, with no wheel, list or index: every question is a walk over
//! all records. A seeded generator drives the core and the model with the same
//! operations and compares what they say after each. The core runs twice, as a
//! primary and as a replica with another clock, which gets the effects alone,
//! encoded and decoded; now and then they change places, or one is saved and
//! loaded again.
//!
//! ```text
//!   dice ─► operation ─┬► model                      outcome, order, fence ─┐
//!                      └► primary ─► effect ─► codec ─► replica             ├─ equal?
//!                           └► save ─► codec ─► load ─► copy    views ──────┘
//! ```
//!
//! A run prints its name, seed and step when it fails. `ORDER_TEST_SEED` gives
//! another seed, `ORDER_TEST_STEPS` another number of steps for each run.
//!
//! What is compared when depends on the run: *exact* runs have clocks that only
//! pass, and a pass before each operation, so that the order of claims, the
//! announcements, the counts of STATS and the wake times are certain. The others
//! have clock steps, promotions, and passes that come late or never; there it is
//! compared whatever must hold all the same.
//!
//! Where a new command goes; each of the three has a file a subject: orders, claims,
//! locks, batches, the queue.
//!
//! - `requests`: how the dice make one. It hands it to `compare`.
//! - `reference`: what the outcome must be, and what is left of the record then.
//! - `compare`: asks the core and the reference, and holds one against the other.
//! - `run`: how often it comes, and that it did come.
//!
//! Besides, `world` has the servers and their clocks, `passes` what time brings. What is
//! compared now and then, whatever was done, is in `compare::all`.

#![allow(
    clippy::cast_sign_loss,
    clippy::cast_possible_wrap,
    clippy::indexing_slicing,
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stderr,
    clippy::option_option,
    reason = "a test that fails should fail loudly"
)]

use run::{Kind, Often, play};

mod compare;
mod passes;
mod reference;
mod requests;
mod run;
mod world;

#[test]
fn few_orders_with_certain_clocks_and_passes() {
    play(
        Kind {
            name: "few, exact",
            steps: 300_000,
            ids: 40,
            statuses: 5,
            advance: Often::Always,
            announce: Often::Always,
            clock_steps: false,
            promotions: false,
            far: false,
            compare_every: 64,
        },
        1,
    );
}

#[test]
fn many_orders_with_certain_clocks_and_passes() {
    play(
        Kind {
            name: "many, exact",
            steps: 60_000,
            ids: 5_000,
            statuses: 6_000,
            advance: Often::Always,
            announce: Often::Sometimes,
            clock_steps: false,
            promotions: false,
            far: false,
            compare_every: 4_096,
        },
        2,
    );
}

#[test]
fn few_orders_with_late_passes_clock_steps_and_promotions() {
    play(
        Kind {
            name: "few, sloppy",
            steps: 400_000,
            ids: 40,
            statuses: 5,
            advance: Often::Sometimes,
            announce: Often::Sometimes,
            clock_steps: true,
            promotions: true,
            far: false,
            compare_every: 64,
        },
        3,
    );
}

#[test]
fn few_orders_with_prompt_passes_clock_steps_and_promotions() {
    play(
        Kind {
            name: "few, prompt",
            steps: 200_000,
            ids: 40,
            statuses: 5,
            advance: Often::Always,
            announce: Often::Always,
            clock_steps: true,
            promotions: true,
            far: false,
            compare_every: 64,
        },
        4,
    );
}

#[test]
fn few_orders_whose_numbers_are_far_ahead_of_the_clock() {
    play(
        Kind {
            name: "few, far ahead",
            steps: 100_000,
            ids: 40,
            statuses: 5,
            advance: Often::Sometimes,
            announce: Often::Always,
            clock_steps: true,
            promotions: true,
            far: true,
            compare_every: 64,
        },
        7,
    );
}

#[test]
fn many_orders_without_any_pass() {
    play(
        Kind {
            name: "many, no pass",
            steps: 60_000,
            ids: 5_000,
            statuses: 30,
            advance: Often::Never,
            announce: Often::Never,
            clock_steps: false,
            promotions: true,
            far: false,
            compare_every: 4_096,
        },
        5,
    );
}
