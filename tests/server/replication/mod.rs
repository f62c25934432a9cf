//! Replicas: what travels to them, that they never act, and that they take over.
//!
//! | room | subject |
//! |---|---|
//! | `stream` | what travels for each write |
//! | `following` | replicas that follow, of every kind |
//! | `promotion` | replicas that take over |
//! | `refusals` | writes and grants that a replica or too few of them refuse |

mod following;
mod promotion;
mod refusals;
mod stream;

use std::time::Duration;

use crate::support::{Options, Server};

/// How long "nothing happens" is watched.
const QUIET: Duration = Duration::from_millis(80);

/// A primary that keeps an append-only file and listens on a port.
fn primary() -> Options {
    Options::new()
        .aof()
        .tcp()
        .events("KEgd")
        .line("repl-diskless-sync-delay 0")
}

/// A replica of it, in step with it.
#[track_caller]
fn replica_of(primary: &Server) -> Server {
    let server = Options::new()
        .aof()
        .replica_of(primary.port())
        .events("KEgd")
        .start();
    server.wait_in_sync(primary);
    server
}
