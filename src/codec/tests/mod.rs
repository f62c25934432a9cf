//! Tests of the encoding. One room a subject: bytes as they were published, the round
//! trip, bytes that are refused, limits of the fields, chunks. A new effect needs a line
//! in `samples`, an arm in `random` and its bad fields in `limits`.

use super::*;
use crate::engine::effect::{
    AfterTry, Base, Bytes, Ended, FinishedBy, Granted, LIST_MAX, LeaseKind, LeaseOf, Requeued,
    Snapshot, SnapshotEnding, SnapshotGrant, SnapshotHolder, SnapshotLife, SnapshotPhase,
};
use crate::engine::number::NUMBER_END;
use crate::engine::settings::{Setting, TRANSITIONS};
use crate::testing::mix;
use crate::words::time::{MOMENT_MAX, WALL_MS_MAX, WallMs};
use random::Random;
use samples::samples;

mod chunks;
mod golden;
mod limits;
mod random;
mod refused;
mod round_trip;
mod samples;

/// One past the last moment.
const MOMENT_END: u64 = MOMENT_MAX + 1;

/// The blob of one effect.
fn blob(effect: &Effect<'_>) -> Vec<u8> {
    let mut blob = Vec::new();
    encode(effect, &mut blob).unwrap();
    blob
}

/// The blob of one effect, whatever is in it.
fn unchecked(effect: &Effect<'_>) -> Vec<u8> {
    let mut blob = Vec::new();
    encode_into_writer(effect, Append(&mut blob), WRITTEN).unwrap();
    blob
}
