//! A wall clock that is set while the server runs: deadlines follow it, leases and
//! waits do not, nothing stalls, nothing is early. How it is set: `support/clock.rs`.
//!
//! | room | subject |
//! |---|---|
//! | `jumps` | a clock that is set back, set forward, set again and again |
//! | `replicas` | a primary and a replica whose clocks differ |
//! | `put_right` | a clock that was wrong, and is put right |

mod jumps;
mod put_right;
mod replicas;

use std::time::Duration;

use crate::support::{Client, SOON, Server, args, wait_until};

/// How long "nothing happens" is watched.
const QUIET: Duration = Duration::from_millis(80);
/// An hour in milliseconds.
const HOUR: i64 = 3_600_000;
/// A deadline that has passed whatever a test sets the clock to.
const LONG_AGO: u64 = 1_600_000_000_000;

/// A client that waits for an order, without limit: the server measures limits by
/// the wall clock.
#[track_caller]
fn waiter(server: &Server, queue: &str) -> Client {
    let mut c = server.client();
    let before = c.blocked_clients();
    let mut client = server.client();
    client.send(&args![
        "ORDER.CLAIM",
        queue,
        "next",
        "PX",
        600_000,
        "BLOCK",
        0
    ]);
    wait_until(SOON, "the client to wait", || c.blocked_clients() > before);
    client
}
