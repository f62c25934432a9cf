//! Clients that are gone before they were granted what they waited for, or just after.

use super::{LONG, QUIET, becomes, bound, due, lock, lock_waiter, released, waiter};
use crate::support::states::expect_healthy;
use crate::support::{Client, Options, Random, SOON, Server, args, argv, cmd, wait_until};

#[test]
fn what_a_waiter_is_granted_after_it_has_gone_is_free_at_once() {
    let server = Options::new().aof().start();
    let mut c = server.client();
    let mut gone = waiter(&server, "q");
    let id = newest_waiter(&mut c);
    let mut lives = waiter(&server, "q");
    // In one turn of the event loop: the first in line is killed before the pass.
    let replies = c.pipeline(&[
        argv!["MULTI"],
        argv!["ORDER.SCHEDULE", "q", "1", "PX", 0],
        argv!["CLIENT", "KILL", "ID", id],
        argv!["EXEC"],
    ]);
    assert_eq!(replies[3].items()[1].int(), 1);
    let rows = lives.read().claims();
    assert_eq!(rows[0].id_text(), "1");
    assert_eq!(c.order("q", "1").int("session"), lives.id());
    assert!(gone.try_read(QUIET).is_err(), "its connection is closed");
    // The same for a lock.
    let fence = cmd!(c, "ORDER.LOCK", "q", "2", "holder", "PX", LONG)
        .lease()
        .expect("OK")
        .fence;
    let mut gone = lock_waiter(&server, "q", "2");
    let id = newest_waiter(&mut c);
    let mut lives = lock_waiter(&server, "q", "2");
    c.pipeline(&[
        argv!["MULTI"],
        argv!["ORDER.UNLOCK", "q", "2", fence],
        argv!["CLIENT", "KILL", "ID", id],
        argv!["EXEC"],
    ]);
    lives.read().lease().expect("OK");
    assert_eq!(c.order("q", "2").int("session"), lives.id());
    assert!(gone.try_read(QUIET).is_err());
    expect_healthy(&server);
}

#[test]
fn what_a_waiter_was_granted_and_did_not_read_is_free_when_it_goes() {
    let server = Server::plain();
    let mut c = server.client();
    let claims = waiter(&server, "q");
    due(&mut c, "q", &["1"]);
    becomes(&mut c, "q", "1", "leased");
    let fence = lock(&mut c, "q", "2");
    let locks = lock_waiter(&server, "q", "2");
    cmd!(c, "ORDER.UNLOCK", "q", "2", fence)
        .lease()
        .expect("OK");
    becomes(&mut c, "q", "2", "reserved");
    claims.cut();
    locks.cut();
    becomes(&mut c, "q", "1", "expired");
    becomes(&mut c, "q", "2", "missing");
    assert_eq!((released(&mut c), bound(&mut c)), (2, 0));
    expect_healthy(&server);
}

#[test]
fn a_waiter_that_is_told_something_else_has_bound_nothing() {
    let server = Server::plain();
    let mut c = server.client();
    cmd!(c, "ORDER.LOCK", "q", "1", "holder", "PX", LONG)
        .lease()
        .expect("OK");
    let mut busy = server.client();
    cmd!(
        busy,
        "ORDER.LOCK",
        "q",
        "1",
        "other",
        "PX",
        LONG,
        "BLOCK",
        20,
        "SESSION"
    )
    .lease()
    .expect("BUSY");
    let rows = cmd!(busy, "ORDER.CLAIM", "q", "other", "BLOCK", 20, "SESSION");
    assert_eq!(rows.claims(), []);
    let mut unblocked = waiter(&server, "q");
    let id = newest_waiter(&mut c);
    assert_eq!(cmd!(c, "CLIENT", "UNBLOCK", id, "ERROR").int(), 1);
    assert!(unblocked.read().error().starts_with("UNBLOCKED"));
    assert_eq!(bound(&mut c), 0);
    busy.cut();
    unblocked.cut();
    super::stays_leased(&mut c, "q", "1", 0);
    assert_eq!(released(&mut c), 0);
    expect_healthy(&server);
}

#[test]
fn whenever_a_waiter_dies_the_next_one_has_what_it_waited_for() {
    let server = Options::new().aof().line("appendfsync no").start();
    let mut c = server.client();
    let mut random = Random::new();
    for round in 0..60 {
        let (id, claims) = (format!("{round}"), round % 2 == 0);
        let fence = if claims {
            0
        } else {
            cmd!(c, "ORDER.LOCK", "q", id, "holder", "PX", LONG)
                .lease()
                .expect("OK")
                .fence
        };
        let start = || {
            if claims {
                waiter(&server, "q")
            } else {
                lock_waiter(&server, "q", &id)
            }
        };
        let dies = start();
        let killed = newest_waiter(&mut c);
        let mut lives = start();
        let free = if claims {
            argv!["ORDER.SCHEDULE", "q", id, "PX", random.below(2)]
        } else {
            argv!["ORDER.UNLOCK", "q", id, fence]
        };
        match random.below(4) {
            0 => {
                c.run(&free);
                dies.cut();
            }
            1 => {
                dies.cut();
                c.run(&free);
            }
            2 => {
                c.pipeline(&[free, argv!["CLIENT", "KILL", "ID", killed]]);
            }
            _ => {
                c.pipeline(&[argv!["CLIENT", "KILL", "ID", killed], free]);
            }
        }
        let reply = lives.read();
        let fence = if claims {
            let rows = reply.claims();
            assert!(rows.len() == 1 && rows[0].attempt <= 2, "{rows:?}");
            rows[0].fence
        } else {
            reply.lease().expect("OK").fence
        };
        let order = c.order("q", &id);
        assert_eq!((order.fence(), order.int("session")), (fence, lives.id()));
        assert_eq!(bound(&mut c), 1, "round {round}");
        cmd!(lives, "ORDER.ACK", "q", id, fence)
            .order()
            .expect("OK");
        assert_eq!(bound(&mut c), 0, "round {round}");
    }
    wait_until(SOON, "nobody to wait", || c.blocked_clients() == 0);
    expect_healthy(&server);
}

/// The id of the client that has begun to wait last: the newest connection that is
/// blocked.
#[track_caller]
fn newest_waiter(c: &mut Client) -> i64 {
    let list = cmd!(c, "CLIENT", "LIST").text();
    let id = |line: &str| {
        let id = line.split_whitespace().next()?.strip_prefix("id=")?;
        id.parse::<i64>().ok()
    };
    list.lines()
        .filter(|line| line.contains(" flags=b"))
        .filter_map(id)
        .max()
        .expect("a client that waits")
}
