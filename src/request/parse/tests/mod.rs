//! Tests of the grammar. What holds for all commands has a room of its own (numbers,
//! lengths, options, what is asked for in full and in brief); what one command alone
//! does stands in the room of its subject: orders, claims, locks, batches, the queue.
//!
//! A new command needs a line in the tables of `numbers`, `lengths` and `options`, its
//! request in `full`, and a test in the room of its subject.

use super::*;
use crate::error::Excerpt;
use crate::request::parse::arguments::unknown;
use crate::request::{
    Ack, Again, Break, Claim, Configure, Direction, Finish, Guard, Lock, Mode, Nack, Pause, Pick,
    Purge, Release, Renew, Requeue, Scan, Schedule, SetStatus, When,
};
use crate::testing::mix;
use crate::words::state::State;
use crate::words::time::{WALL_MS_MAX, WallMs};

mod batches;
mod claims;
mod full;
mod lengths;
mod locks;
mod numbers;
mod options;
mod orders;
mod queue;
mod random;

/// Limits as the defaults of the settings have them.
const LIMITS: Limits = Limits {
    lease_ms_max: 86_400_000,
    payload_bytes_max: 65_536,
};

/// A lease or relative time that is always in range.
const MS: &[u8] = b"500";

/// Parses arguments; name and key are put in front.
fn run<'a>(verb: Verb, args: &[&'a [u8]]) -> Result<Request<'a>, Error> {
    let mut all: Vec<&[u8]> = vec![verb.command().as_bytes(), b"queue"];
    all.extend(args);
    parse(verb, &all, &LIMITS)
}

/// Parses words parted by spaces.
fn words(verb: Verb, text: &str) -> Result<Request<'_>, Error> {
    run(
        verb,
        &text
            .split_ascii_whitespace()
            .map(str::as_bytes)
            .collect::<Vec<_>>(),
    )
}

/// An error without its place in a list.
fn bare(error: Error) -> Error {
    match error {
        Error::InList { error, .. } => *error,
        other => other,
    }
}

/// The error line of words parted by spaces.
fn line(verb: Verb, text: &str) -> String {
    words(verb, text).unwrap_err().to_string()
}

/// Parses words as a SCHEDULE.
fn schedule_of(text: &str) -> Schedule<'_> {
    match words(Verb::Schedule, text) {
        Ok(Request::Schedule(schedule)) => schedule,
        other => panic!("{text}: {other:?}"),
    }
}
