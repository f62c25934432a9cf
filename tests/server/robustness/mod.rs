//! No input, no moment and no neighbour ends the server.
//!
//! | room | subject |
//! |---|---|
//! | `neighbours` | other modules, transactions and scripts |
//! | `waiting` | keys and clients that change while somebody waits, pauses, failovers |
//! | `damage` | damaged payloads, and every argument of APPLY |
//! | `memory` | a full memory, and large queues that go |
//! | `administration` | the server's own commands, settings and users |

mod administration;
mod damage;
mod memory;
mod neighbours;
mod waiting;

use std::time::Duration;

use crate::support::{Claimed, Client, SOON, Server, args, wait_until};

/// How long "nothing happens" is watched.
const QUIET: Duration = Duration::from_millis(60);

/// A client that waits for an order of `queue`.
#[track_caller]
fn waiter(server: &Server, queue: &str) -> Client {
    let mut c = server.client();
    let before = c.blocked_clients();
    let mut client = server.client();
    client.send(&args!["ORDER.CLAIM", queue, "me", "BLOCK", 30_000]);
    wait_until(SOON, "the client to wait", || c.blocked_clients() > before);
    client
}

/// Fails unless this waiter gets this order.
#[track_caller]
fn expect_served(client: &mut Client, id: &str) {
    let rows = client.read().claims();
    assert_eq!(rows.iter().map(Claimed::id_text).collect::<Vec<_>>(), [id]);
}
