//! Tables: what the core answers in every state, and over time.
//!
//! Each room tells stories of one subject: rows of a moment, a command as a client would
//! type it, and the line it must come to. They are told on a [`Bench`], a queue with a
//! clock that only the test moves (`bench`). Every story is told twice, with and without
//! a pass before each command, so it is a test of P3 too: answers do not depend on
//! whether a timer has run.

#![allow(
    clippy::cast_sign_loss,
    clippy::cast_possible_wrap,
    clippy::cast_precision_loss,
    reason = "stories are told in small signed milliseconds"
)]

use std::collections::BTreeSet;

use super::decide::{CLAIM_BYTES_MAX, Env};
use super::number::{FOREIGN_AHEAD_US_MAX, NUMBER_END, Numbers};
use super::queue::Queue;
use super::settings::{Defaults, Setting};
use super::testing::{Digest, digest};
use crate::engine::effect::{
    AfterTry, Bytes, Effect, Ended, Granted, LeaseKind, Requeued, Snapshot, SnapshotGrant,
    SnapshotLife, SnapshotPhase,
};
use crate::error::Error;
use crate::request::{Configure, Request, Scan};
use crate::words::state::State;
use crate::words::time::{Now, WALL_MS_MAX, WallMs};
use bench::{Bench, START_MONO_MS, START_MS};

mod bench;

mod announcing;
mod asking;
mod batches;
mod brake;
mod claim_order;
mod clocks;
mod compaction;
mod deadlines;
mod endings;
mod fences;
mod fingerprints;
mod finished;
mod full;
mod guards;
mod lapsing;
mod leases;
mod lengths;
mod lock_deadlines;
mod lock_existing;
mod locks;
mod numbers;
mod overdue;
mod questions;
mod queue;
mod refused;
mod releasing;
mod requeueing;
mod sessions;
mod states;
mod stored;
mod tries;
mod untried;

/// One row per moment: milliseconds into the story, command, expected line.
type Row<'r> = (f64, &'r str, &'r str);

/// Tells a story twice, with and without a pass before each command.
#[track_caller]
fn story(rows: &[Row<'_>]) {
    for passes in [false, true] {
        let mut bench = Bench::new(passes);
        tell(&mut bench, rows);
    }
}

/// Tells a story on a bench.
#[track_caller]
fn tell(bench: &mut Bench, rows: &[Row<'_>]) {
    for (ms, line, expected) in rows {
        bench.until(*ms);
        let said = bench.run(line);
        assert_eq!(
            said, *expected,
            "at {ms} ms: {line} (passes: {})",
            bench.passes
        );
    }
}
