//! Batches: MSCHEDULE, MFINISH, MACK, MNACK and MRENEW.
//!
//! | room | what |
//! |---|---|
//! | `twins` | a batch and single commands do the same, in every state, with every option |
//! | `refused` | what is wrong anywhere changes nothing; a full memory |
//! | `once` | one APPLY for all of a batch, no watch touched where nothing was done |
//! | `calls` | within MULTI, scripts and functions, in both protocols, for whom |
//! | `many` | a thousand orders, and batches of many clients at once |
//! | `waiting` | who waits for an order or for its lock is told |

mod calls;
mod many;
mod once;
mod refused;
mod twins;
mod waiting;

use crate::support::{Client, Value, cmd};

/// The words of a line.
fn words(line: &str) -> Vec<String> {
    line.split_ascii_whitespace()
        .map(|word| if word == "''" { "" } else { word }.to_owned())
        .collect()
}

/// The outcome words of a batch.
#[track_caller]
fn outcomes(reply: &Value) -> Vec<String> {
    reply.items().iter().map(Value::text).collect()
}

/// Runs a line and reads its outcome words.
#[track_caller]
fn run(c: &mut Client, line: &str) -> Vec<String> {
    outcomes(&c.run(&words(line)))
}

/// Claims an order for ten minutes; gives its fence.
#[track_caller]
fn claim(c: &mut Client, queue: &str, id: &str) -> u64 {
    let rows = cmd!(c, "ORDER.CLAIM", queue, "me", "ID", id, "PX", 600_000).claims();
    assert_eq!(rows.len(), 1, "{id} can be claimed");
    rows[0].fence
}
