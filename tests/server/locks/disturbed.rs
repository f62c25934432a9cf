//! What the server does to those who wait: they are killed and paused, their queue
//! goes or comes, their server becomes a replica.

use std::time::{Duration, Instant};

use super::{LONG, ahead, lock, run, still_waits, told, waiter};
use crate::support::states::expect_healthy;
use crate::support::{Client, Options, SOON, Server, Value, args, cmd, wait_until};

#[test]
fn the_waiting_are_told_when_their_server_becomes_a_replica() {
    let one = Options::new()
        .tcp()
        .line("repl-diskless-sync-delay 0")
        .start();
    let two = Options::new()
        .tcp()
        .line("repl-diskless-sync-delay 0")
        .start();
    let mut c = one.client();
    ahead(&mut c, "q", "1");
    lock(&mut c, "q", "1", "a");
    let mut waits = waiter(&one, "q", "1", "b", &[]);
    cmd!(c, "REPLICAOF", "127.0.0.1", two.port()).ok();
    assert!(waits.read().error().starts_with("UNBLOCKED"));
    one.wait_in_sync(&two);
    cmd!(c, "REPLICAOF", "NO", "ONE").ok();
    lock(&mut c, "q", "1", "c");
    assert_eq!(c.stat("q", "lock_waiters").int(), 0);
    expect_healthy(&one);
}

#[test]
fn a_waiter_is_killed_unblocked_and_paused() {
    let server = Server::plain();
    let mut c = server.client();
    let fence = lock(&mut c, "q", "1", "a");
    let start = |c: &mut Client, owner: &str| {
        let mut client = server.client();
        let id = client.id();
        let before = c.blocked_clients();
        client.send(&args![
            "ORDER.LOCK",
            "q",
            "1",
            owner,
            "PX",
            LONG,
            "BLOCK",
            0
        ]);
        wait_until(SOON, "it to wait", || c.blocked_clients() > before);
        (client, id)
    };
    let (mut timed, timed_id) = start(&mut c, "timed");
    let (mut failed, failed_id) = start(&mut c, "failed");
    let (killed, killed_id) = start(&mut c, "killed");
    let (mut last, _) = start(&mut c, "last");
    assert_eq!(cmd!(c, "CLIENT", "UNBLOCK", timed_id).int(), 1);
    assert_eq!(told(&mut timed).expect("BUSY").fence, fence);
    assert_eq!(cmd!(c, "CLIENT", "UNBLOCK", failed_id, "ERROR").int(), 1);
    assert!(failed.read().error().starts_with("UNBLOCKED"));
    assert_eq!(cmd!(failed, "PING"), Value::Simple("PONG".into()));
    assert_eq!(cmd!(c, "CLIENT", "KILL", "ID", killed_id).int(), 1);
    drop(killed);
    wait_until(SOON, "one to be left", || {
        c.stat("q", "lock_waiters").int() == 1
    });
    still_waits(&mut last);
    cmd!(c, "ORDER.UNLOCK", "q", "1", fence)
        .lease()
        .expect("OK");
    let fence = told(&mut last).expect("OK").fence;
    cmd!(c, "ORDER.UNLOCK", "q", "1", fence)
        .lease()
        .expect("OK");
    assert_eq!(cmd!(c, "EXISTS", "q").int(), 0);
    expect_healthy(&server);
}

#[test]
fn nothing_is_granted_while_writing_is_paused() {
    // With an append-only file, so that a write in the pause would be fatal.
    let server = Options::new().aof().start();
    let mut c = server.client();
    for mode in ["WRITE", "ALL"] {
        cmd!(c, "ORDER.LOCK", "q", mode, "a", "PX", 150)
            .lease()
            .expect("OK");
        let mut next = waiter(&server, "q", mode, "b", &[]);
        let began = Instant::now();
        cmd!(c, "CLIENT", "PAUSE", 500, mode).ok();
        let reply = next.read().lease().expect("OK");
        assert!(
            began.elapsed() >= Duration::from_millis(495),
            "{mode}: granted in the pause"
        );
        assert!(reply.lease_ms > 500_000, "the lease starts at the grant");
        // Timed out within a pause.
        let before = c.blocked_clients();
        let mut gives_up = server.client();
        gives_up.send(&args![
            "ORDER.LOCK",
            "q",
            mode,
            "c",
            "PX",
            100,
            "BLOCK",
            200
        ]);
        wait_until(SOON, "it to wait", || c.blocked_clients() > before);
        cmd!(c, "CLIENT", "PAUSE", 400, mode).ok();
        gives_up.read().lease().expect("BUSY");
        cmd!(c, "CLIENT", "UNPAUSE").ok();
    }
    expect_healthy(&server);
}

#[test]
fn those_who_wait_are_served_when_the_queue_goes() {
    let server = Server::plain();
    let mut c = server.client();
    let ways: [(&str, &[&str]); 9] = [
        ("DEL", &["DEL q"]),
        ("UNLINK", &["UNLINK q"]),
        ("FLUSHALL", &["FLUSHALL"]),
        ("FLUSHDB ASYNC", &["FLUSHDB ASYNC"]),
        ("RENAME away", &["RENAME q elsewhere"]),
        ("MOVE", &["MOVE q 5"]),
        ("SWAPDB", &["SWAPDB 0 7"]),
        ("PEXPIRE", &["PEXPIRE q 40"]),
        ("SET, DEL", &["SET q text", "DEL q"]),
    ];
    for made in [true, false] {
        for (way, commands) in ways {
            cmd!(c, "FLUSHALL").ok();
            if made {
                ahead(&mut c, "q", "1");
            }
            let fence = lock(&mut c, "q", "1", "a");
            let mut one = waiter(&server, "q", "1", "b", &[]);
            let mut two = waiter(&server, "q", "1", "c", &[]);
            for command in commands {
                assert!(!run(&mut c, command, "q", 0).is_error(), "{command}");
                if *command == "SET q text" {
                    still_waits(&mut one);
                    assert_eq!(
                        cmd!(c, "GET", "q").text(),
                        "text",
                        "another type is left alone"
                    );
                }
            }
            let reply = told(&mut one).expect("OK");
            assert!(reply.fence > fence, "{way}: {reply:?}");
            assert_eq!(reply.state, "reserved", "{way}: {reply:?}");
            still_waits(&mut two);
            cmd!(c, "ORDER.UNLOCK", "q", "1", fence)
                .lease()
                .expect("STALE");
            cmd!(c, "ORDER.UNLOCK", "q", "1", reply.fence)
                .lease()
                .expect("OK");
            let last = told(&mut two).expect("OK");
            cmd!(c, "ORDER.UNLOCK", "q", "1", last.fence)
                .lease()
                .expect("OK");
        }
    }
    expect_healthy(&server);
}

#[test]
fn those_who_wait_get_what_comes_to_the_name() {
    let server = Server::plain();
    let mut c = server.client();
    for (way, expected) in [
        ("free", "OK"),
        ("finished", "FINISHED"),
        ("expired", "EXPIRED"),
        ("locked", ""),
    ] {
        cmd!(c, "FLUSHALL").ok();
        lock(&mut c, "q", "1", "a");
        ahead(&mut c, "other", "1");
        let mut fence = 0;
        match way {
            "finished" => {
                cmd!(c, "ORDER.FINISH", "other", "1", "RESULT", "r")
                    .order()
                    .expect("OK")
                    .rev
            }
            "expired" => {
                cmd!(c, "ORDER.SCHEDULE", "other", "1", "PX", 0, "XX")
                    .order()
                    .expect("OK")
                    .rev
            }
            "locked" => {
                fence = lock(&mut c, "other", "1", "x");
                fence
            }
            _ => 0,
        };
        let mut waits = waiter(&server, "q", "1", "b", &[]);
        cmd!(c, "RENAME", "other", "q").ok();
        if expected.is_empty() {
            still_waits(&mut waits);
            cmd!(c, "ORDER.UNLOCK", "q", "1", fence)
                .lease()
                .expect("OK");
            told(&mut waits).expect("OK");
        } else {
            told(&mut waits).expect(expected);
        }
    }
    // And by RESTORE.
    cmd!(c, "FLUSHALL").ok();
    ahead(&mut c, "q", "1");
    let dump = cmd!(c, "DUMP", "q").bytes().to_vec();
    lock(&mut c, "q", "1", "a");
    let mut waits = waiter(&server, "q", "1", "b", &[]);
    cmd!(c, "RESTORE", "q", 0, dump, "REPLACE").ok();
    told(&mut waits).expect("OK");
    expect_healthy(&server);
}

/// The queue was made again for the last client in its line, and dropped out of the
/// scheduler: nobody who waited for its orders was ever served, nothing forgotten.
#[test]
fn a_queue_made_for_its_last_waiter_is_looked_after() {
    let server = Server::plain();
    let mut c = server.client();
    for (i, end) in ["UNLOCK", "BREAK", "FINISH", "DEL", "RENAME", "FLUSHALL"]
        .into_iter()
        .enumerate()
    {
        let queue = format!("q{i}");
        let fence = lock(&mut c, &queue, "a", "first").to_string();
        let mut waiting = waiter(&server, &queue, "a", "second", &["PX", "300"]);
        match end {
            "UNLOCK" => drop(cmd!(c, "ORDER.UNLOCK", &queue, "a", &fence)),
            "BREAK" => drop(cmd!(c, "ORDER.BREAK", &queue, "a")),
            "FINISH" => drop(cmd!(
                c,
                "ORDER.FINISH",
                &queue,
                "a",
                "FENCE",
                &fence,
                "KEEP",
                0
            )),
            "DEL" => drop(cmd!(c, "DEL", &queue)),
            "RENAME" => drop(cmd!(c, "RENAME", &queue, "elsewhere")),
            _ => drop(cmd!(c, "FLUSHALL")),
        }
        told(&mut waiting);
        cmd!(c, "ORDER.SCHEDULE", &queue, "due", "PX", 200)
            .order()
            .expect("OK");
        let rows = cmd!(c, "ORDER.CLAIM", &queue, "me", "BLOCK", 20_000).claims();
        assert_eq!(rows.len(), 1, "{end}: a claimer that waits is served");
        cmd!(c, "ORDER.ACK", &queue, "due", rows[0].fence, "KEEP", 50)
            .order()
            .expect("OK");
        wait_until(SOON, "everything to be forgotten", || {
            cmd!(c, "EXISTS", &queue) == Value::Int(0)
        });
    }
    expect_healthy(&server);
}
