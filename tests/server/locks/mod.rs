//! Locks, and leases of both kinds: every answer in every state, who is next in
//! line, what ends a lease, and fences that only grow.
//!
//! | room | subject |
//! |---|---|
//! | `states` | every command on an order in every state |
//! | `holding` | one lock and its holder: lock, renew, unlock |
//! | `waiting` | the line of those who wait, and who leaves it |
//! | `handover` | when and to whom a lock goes on |
//! | `closing` | locks, and an order that is finished or falls due |
//! | `disturbed` | what the server does to those who wait |
//! | `stories` | payments, creations and requests, as a shop has them |
//! | `fences` | numbers that only grow |
//! | `memory` | what locks take and give back |
//! | `noticing` | who learns of the end of a lock, and the counts |
//! | `arguments` | bad input, and what is not replicated |

mod arguments;
mod closing;
mod disturbed;
mod fences;
mod handover;
mod holding;
mod memory;
mod noticing;
mod states;
mod stories;
mod waiting;

use std::time::Duration;

use crate::support::{Client, LeaseReply, SOON, Server, Value, cmd, wait_until};

/// How long "nothing happens" is watched.
const QUIET: Duration = Duration::from_millis(60);
/// How long a hand-over may take on a machine that is busy with other tests; on
/// an idle one it is a millisecond or two.
const HANDED_OVER: Duration = Duration::from_millis(1500);
/// Ten minutes, the longest lock.
const LONG: u64 = 600_000;

/// A client that waits for the lock of an order.
#[track_caller]
fn waiter(server: &Server, queue: &str, id: &str, owner: &str, more: &[&str]) -> Client {
    let mut c = server.client();
    let before = c.blocked_clients();
    let mut client = server.client();
    let mut words = vec!["ORDER.LOCK", queue, id, owner];
    if !more.contains(&"PX") {
        words.extend(["PX", "600000"]);
    }
    if !more.contains(&"BLOCK") {
        words.extend(["BLOCK", "0"]);
    }
    words.extend_from_slice(more);
    client.send(&words);
    wait_until(SOON, "the client to wait", || c.blocked_clients() > before);
    client
}

/// Takes a lock that is free, for ten minutes; gives its fence.
#[track_caller]
fn lock(c: &mut Client, queue: &str, id: &str, owner: &str) -> u64 {
    cmd!(c, "ORDER.LOCK", queue, id, owner, "PX", LONG)
        .lease()
        .expect("OK")
        .fence
}

/// Schedules an order whose deadline is ten minutes ahead.
#[track_caller]
fn ahead(c: &mut Client, queue: &str, id: &str) {
    cmd!(
        c,
        "ORDER.SCHEDULE",
        queue,
        id,
        "PX",
        LONG,
        "STATUS",
        "unpaid",
        "PAYLOAD",
        "p"
    )
    .order()
    .expect("OK");
}

/// The reply a waiter gets; the client stays usable.
#[track_caller]
fn told(client: &mut Client) -> LeaseReply {
    let reply = client.read().lease();
    assert_eq!(cmd!(client, "PING"), Value::Simple("PONG".into()));
    reply
}

/// Fails unless this waiter still waits.
#[track_caller]
fn still_waits(client: &mut Client) {
    assert_eq!(client.read_within(QUIET), None, "it should still wait");
}

/// Runs a command of a table, with the queue and fences put in.
fn run(c: &mut Client, command: &str, queue: &str, fence: u64) -> Value {
    c.run(&words(command, queue, fence))
}

/// The words of a command of a table.
fn words(command: &str, queue: &str, fence: u64) -> Vec<String> {
    let word = |word: &str| match word {
        "$q" => queue.to_owned(),
        "$f" => fence.to_string(),
        "$other" => (fence + 7).to_string(),
        "''" => String::new(),
        word => word.to_owned(),
    };
    command.split(' ').map(word).collect()
}
