//! Leases that end with the connection of their holder.
//!
//! | room | subject |
//! |---|---|
//! | `closing` | what a close ends, what follows, and what is no close |
//! | `binding` | which connection a lease is bound to, and who has none |
//! | `waiting` | clients that are gone before or after they were granted |
//! | `keys` | keys that are renamed, moved, copied, loaded, deleted |
//! | `disturbed` | closes while nothing may be written |
//! | `many` | thousands of leases at once, and processes that are killed |

mod binding;
mod closing;
mod disturbed;
mod keys;
mod many;
mod waiting;

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::support::{Claimed, Client, SOON, Server, args, cmd, wait_until};

/// How long "nothing happens" is watched.
const QUIET: Duration = Duration::from_millis(80);
/// Ten minutes: no lease of these tests ends by itself.
const LONG: u64 = 600_000;

/// Orders that are due.
#[track_caller]
fn due(c: &mut Client, queue: &str, ids: &[&str]) {
    for id in ids {
        cmd!(c, "ORDER.SCHEDULE", queue, id, "PX", 0, "STATUS", "unpaid")
            .order()
            .expect("OK");
    }
}

/// Claims an order for ten minutes, or until the connection closes; gives its row.
#[track_caller]
fn claim(c: &mut Client, queue: &str, id: &str) -> Claimed {
    let mut rows = cmd!(
        c,
        "ORDER.CLAIM",
        queue,
        "holder",
        "ID",
        id,
        "PX",
        LONG,
        "SESSION"
    )
    .claims();
    assert_eq!(rows.len(), 1, "{id}");
    rows.remove(0)
}

/// A new connection that holds the claim of an order.
#[track_caller]
fn holder(server: &Server, queue: &str, id: &str) -> Client {
    let mut client = server.client();
    claim(&mut client, queue, id);
    client
}

/// Locks an order for ten minutes, or until the connection closes; gives its fence.
#[track_caller]
fn lock(c: &mut Client, queue: &str, id: &str) -> u64 {
    cmd!(
        c,
        "ORDER.LOCK",
        queue,
        id,
        "holder",
        "PX",
        LONG,
        "SESSION",
        "REENTRANT"
    )
    .lease()
    .fence
}

/// A client that waits for an order of `queue`, of its own until it closes.
#[track_caller]
fn waiter(server: &Server, queue: &str) -> Client {
    waits(
        server,
        &args![
            "ORDER.CLAIM",
            queue,
            "waiter",
            "PX",
            LONG,
            "BLOCK",
            0,
            "SESSION"
        ],
    )
}

/// Makes the owners of locks that are waited for differ.
static WAITERS: AtomicU64 = AtomicU64::new(0);

/// A client that waits for a lock, of its own until it closes.
#[track_caller]
fn lock_waiter(server: &Server, queue: &str, id: &str) -> Client {
    waits(
        server,
        &args![
            "ORDER.LOCK",
            queue,
            id,
            format!("waiter-{}", WAITERS.fetch_add(1, Ordering::Relaxed)),
            "PX",
            LONG,
            "BLOCK",
            0,
            "SESSION"
        ],
    )
}

/// A client that waits in this command.
#[track_caller]
fn waits(server: &Server, command: &[Vec<u8>]) -> Client {
    let mut c = server.client();
    let before = c.blocked_clients();
    let mut client = server.client();
    client.send(command);
    wait_until(SOON, "the client to wait", || c.blocked_clients() > before);
    client
}

/// Waits until an order is in this state.
#[track_caller]
fn becomes(c: &mut Client, queue: &str, id: &str, state: &str) {
    wait_until(SOON, &format!("{id} to be {state}"), || {
        c.state(queue, id) == state
    });
}

/// Fails unless the lease of an order goes on for a while, bound to this client (0: to
/// none).
#[track_caller]
fn stays_leased(c: &mut Client, queue: &str, id: &str, session: i64) {
    std::thread::sleep(QUIET);
    let order = c.order(queue, id);
    assert!(order.int("lease_ms") > 0, "{order:?}");
    assert_eq!(order.int("session"), session, "{order:?}");
}

/// Leases that are bound, as INFO counts them.
#[track_caller]
fn bound(c: &mut Client) -> i64 {
    c.info_number("orderwheel", "orderwheel_session_leases")
}

/// Leases that a close has ended so far.
#[track_caller]
fn released(c: &mut Client) -> i64 {
    c.info_number("orderwheel", "orderwheel_disconnect_released_total")
}
