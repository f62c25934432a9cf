//! Commands on a queue as a whole: its settings, allowed changes of status, its
//! pause, its dead orders, and the removal of many.
//!
//! | room | subject |
//! |---|---|
//! | `settings` | CONFIG: a queue's own settings |
//! | `transitions` | which changes of status a queue lets through |
//! | `max_leased` | how many orders may be leased at once |
//! | `pause` | PAUSE and RESUME |
//! | `sweeps` | REQUEUE and PURGE |

mod max_leased;
mod pause;
mod settings;
mod sweeps;
mod transitions;

use std::time::Duration;

use crate::support::{Client, Message, SOON, Server, args, cmd, wait_until};

/// How long "nothing happens" is watched.
const QUIET: Duration = Duration::from_millis(60);
/// Ten minutes.
const LONG: u64 = 600_000;

/// One setting as text.
#[track_caller]
fn setting(c: &mut Client, queue: &str, name: &str) -> String {
    let pairs = cmd!(c, "ORDER.CONFIG", queue, "GET", name).pairs();
    assert_eq!(pairs.len(), 1);
    assert_eq!(pairs[0].0, name);
    pairs[0].1.text()
}

/// Schedules an order that is due at once.
#[track_caller]
fn due(c: &mut Client, queue: &str, id: &str) {
    cmd!(c, "ORDER.SCHEDULE", queue, id, "PX", 0)
        .order()
        .expect("OK");
}

/// Makes an order that is dead.
#[track_caller]
fn dead(c: &mut Client, queue: &str, id: &str, status: &str) {
    cmd!(c, "ORDER.SCHEDULE", queue, id, "PX", 0, "STATUS", status)
        .order()
        .expect("OK");
    let row = cmd!(c, "ORDER.CLAIM", queue, "me", "ID", id)
        .claims()
        .remove(0);
    cmd!(c, "ORDER.NACK", queue, id, row.fence, "DEAD")
        .order()
        .expect("OK");
}

/// A client that waits for an order of `queue`.
#[track_caller]
fn claimer(server: &Server, queue: &str) -> Client {
    let mut c = server.client();
    let before = c.blocked_clients();
    let mut client = server.client();
    client.send(&args!["ORDER.CLAIM", queue, "me", "PX", LONG, "BLOCK", 0]);
    wait_until(SOON, "it to wait", || c.blocked_clients() > before);
    client
}

/// What was heard of the orders of queue `q`: event and id.
fn heard(listener: &mut Client) -> Vec<String> {
    let line = |m: Message| {
        let id = String::from_utf8_lossy(&m.payload).into_owned();
        format!(
            "{} {}",
            m.channel.trim_start_matches("__keyevent@0__:order."),
            id.trim_start_matches("q:")
        )
    };
    listener.messages(QUIET).into_iter().map(line).collect()
}
