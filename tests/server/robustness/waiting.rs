//! Clients that wait while their key changes, while they are killed or paused, and
//! while their server hands over or ends.

use std::thread;
use std::time::{Duration, Instant};

use super::{QUIET, expect_served, waiter};
use crate::support::states::expect_healthy;
use crate::support::{Claimed, Client, Options, Random, SOON, Value, args, argv, cmd, wait_until};

#[test]
fn whatever_happens_to_a_key_somebody_waits_on_the_waiter_is_served_or_waits_on() {
    let server = Options::new().aof().events("KEA").start();
    let mut c = server.client();
    let ways: [&[&[&str]]; 14] = [
        &[&["DEL", "q"]],
        &[&["UNLINK", "q"]],
        &[&["RENAME", "q", "away"]],
        &[&["SET", "q", "x"], &["DEL", "q"]],
        &[&["SET", "q", "x"], &["RENAME", "q", "away"]],
        &[
            &["LPUSH", "list", "x"],
            &["RENAME", "list", "q"],
            &["LPOP", "q"],
        ],
        &[&["MOVE", "q", "2"]],
        &[&["SWAPDB", "0", "4"], &["SWAPDB", "0", "4"], &["DEL", "q"]],
        &[&["FLUSHDB"]],
        &[&["FLUSHALL", "ASYNC"]],
        &[&["PEXPIRE", "q", "1"]],
        &[&["EXPIREAT", "q", "1"]],
        &[&["ORDER.FINISH", "q", "far", "KEEP", "0"]],
        &[&["DEBUG", "RELOAD"], &["DEL", "q"]],
    ];
    for way in ways {
        cmd!(c, "FLUSHALL").ok();
        cmd!(c, "ORDER.SCHEDULE", "q", "far", "PX", 3_600_000)
            .order()
            .expect("OK");
        let mut first = waiter(&server, "q");
        let mut second = waiter(&server, "q");
        let dying = waiter(&server, "q");
        dying.cut();
        for command in way {
            assert!(!c.run(command).is_error(), "{command:?}");
        }
        wait_until(SOON, &format!("the key to be gone by {way:?}"), || {
            cmd!(c, "EXISTS", "q").int() == 0
        });
        assert_eq!(first.read_within(Duration::from_millis(5)), None, "{way:?}");
        cmd!(c, "ORDER.SCHEDULE", "q", "1", "PX", 0)
            .order()
            .expect("OK");
        expect_served(&mut first, "1");
        cmd!(c, "ORDER.SCHEDULE", "q", "2", "PX", 5)
            .order()
            .expect("OK");
        expect_served(&mut second, "2");
        wait_until(SOON, "nobody to be left", || c.blocked_clients() == 0);
    }
    expect_healthy(&server);
}

#[test]
fn clients_that_are_unblocked_or_killed_leave_no_trace() {
    let server = Options::new().aof().start();
    let mut c = server.client();
    let mut random = Random::new();
    for round in 0..40 {
        let mut waiting: Vec<(i64, Client)> = (0..6)
            .map(|_| {
                let mut client = server.client();
                let id = client.id();
                client.send(&args![
                    "ORDER.CLAIM",
                    "q",
                    "me",
                    "BLOCK",
                    if round % 2 == 0 { 0 } else { 20_000 }
                ]);
                (id, client)
            })
            .collect();
        wait_until(SOON, "them to wait", || c.blocked_clients() == 6);
        // All in one turn: what ends waiting, and an order that falls due.
        let victim = |i: usize| waiting[i].0.to_string().into_bytes();
        let mut commands = vec![
            argv!["CLIENT", "UNBLOCK", victim(0), "TIMEOUT"],
            argv!["CLIENT", "UNBLOCK", victim(1), "ERROR"],
            argv!["CLIENT", "KILL", "ID", victim(2)],
            argv!["ORDER.SCHEDULE", "q", format!("{round}-a"), "PX", 0],
            argv![
                "ORDER.SCHEDULE",
                "q",
                format!("{round}-b"),
                "PX",
                random.below(2)
            ],
        ];
        for i in (1..commands.len()).rev() {
            commands.swap(i, random.below(i as u64 + 1) as usize);
        }
        if round % 3 == 0 {
            commands.insert(0, argv!["MULTI"]);
            commands.push(argv!["EXEC"]);
        }
        c.pipeline(&commands);
        let mut got = Vec::new();
        let mut unblocked = 0;
        for (i, (_, client)) in waiting.iter_mut().enumerate() {
            match client.try_read(if i < 3 { SOON } else { QUIET }) {
                Ok(Some(Value::Array(rows))) if rows.is_empty() => {
                    assert_eq!(i, 0, "only the first timed out");
                }
                Ok(Some(reply @ Value::Array(_))) => {
                    got.extend(reply.claims().iter().map(Claimed::id_text));
                }
                Ok(Some(Value::Error(text))) => {
                    assert!(i == 1 && text.starts_with("UNBLOCKED"), "{i}: {text}");
                    unblocked += 1;
                }
                Ok(Some(other)) => panic!("{other:?}"),
                Ok(None) => assert!(i >= 3, "{i} still waits"),
                Err(_) => assert_eq!(i, 2, "only the third was killed"),
            }
        }
        assert!(unblocked <= 1);
        // What was granted to one that died is leased; the rest went to the living.
        for id in ["a", "b"].map(|part| format!("{round}-{part}")) {
            let state = c.state("q", &id);
            assert_eq!(state, "leased", "{id}");
        }
        let unique: std::collections::BTreeSet<_> = got.iter().collect();
        assert_eq!(unique.len(), got.len(), "{got:?}");
        for (_, client) in waiting {
            client.cut();
        }
        wait_until(SOON, "them to be gone", || c.blocked_clients() == 0);
    }
    expect_healthy(&server);
}

#[test]
fn nothing_is_written_while_clients_are_paused() {
    for kind in ["WRITE", "ALL"] {
        let server = Options::new()
            .aof()
            .tcp()
            .events("KEd")
            .line("repl-diskless-sync-delay 0")
            .start();
        let replica = Options::new().replica_of(server.port()).start();
        replica.wait_in_sync(&server);
        let mut c = server.client();
        let mut listener = server.client();
        listener.subscribe(&["__keyevent@0__:order.expired"]);
        let mut waiting: Vec<Client> = (0..3).map(|_| waiter(&server, "q")).collect();
        cmd!(c, "ORDER.FINISH", "brief", "1", "CREATE", "KEEP", 50)
            .order()
            .expect("OK");
        for i in 0..5 {
            cmd!(c, "ORDER.SCHEDULE", "q", i, "PX", 60 + i)
                .order()
                .expect("OK");
        }
        let paused = Instant::now();
        cmd!(c, "CLIENT", "PAUSE", 600, kind).ok();
        let mut late = server.client();
        // Waits with everybody else.
        late.send(&args!["ORDER.SCHEDULE", "q", "late", "PX", 0]);
        for client in &mut waiting {
            let rows = client.read().claims();
            assert_eq!(rows.len(), 1);
            assert!(
                paused.elapsed() >= Duration::from_millis(590),
                "{kind}: granted in the pause"
            );
        }
        late.read().order().expect("OK");
        let heard = listener.messages(Duration::from_millis(200));
        assert_eq!(heard.len(), 6, "{kind}: {heard:?}");
        wait_until(SOON, "what ended in the pause to be forgotten", || {
            cmd!(c, "EXISTS", "brief").int() == 0
        });
        replica.wait_in_sync(&server);
        assert_eq!(replica.client().digest("q"), c.digest("q"), "{kind}");
        // A pause whose waiters time out, are unblocked and killed in it.
        let mut short = server.client();
        let mut unblocked = server.client();
        let id = unblocked.id();
        unblocked.send(&args!["ORDER.CLAIM", "w", "me", "BLOCK", 30_000]);
        let killed = waiter(&server, "w");
        short.send(&args!["ORDER.CLAIM", "w", "me", "BLOCK", 50]);
        wait_until(SOON, "three to wait", || c.blocked_clients() == 3);
        cmd!(c, "ORDER.SCHEDULE", "w", "1", "PX", 80)
            .order()
            .expect("OK");
        let replies = c.pipeline(&[
            argv!["CLIENT", "UNBLOCK", id],
            argv!["CLIENT", "PAUSE", 300, kind],
        ]);
        assert_eq!(replies[0], Value::Int(1));
        killed.cut();
        assert_eq!(unblocked.read().claims(), []);
        assert_eq!(short.read().claims(), []);
        let mut c = server.client();
        wait_until(SOON, "the order to fall due", || {
            c.state("w", "1") == "expired"
        });
        expect_healthy(&server);
        assert_eq!(cmd!(c, "ORDER.CLAIM", "w", "me").claims().len(), 1);
    }
}

#[test]
fn a_failover_and_a_shutdown_that_wait_for_a_replica_do_not_end_in_a_crash() {
    let mut server = Options::new()
        .aof()
        .tcp()
        .events("KEd")
        .line("repl-diskless-sync-delay 0")
        .start();
    let replica = Options::new().aof().replica_of(server.port()).start();
    replica.wait_in_sync(&server);
    let mut c = server.client();
    let mut waiting: Vec<Client> = (0..3).map(|_| waiter(&server, "q")).collect();
    // The replica lags: the failover pauses writes and waits, and gives up.
    replica.signal("STOP");
    for i in 0..3 {
        cmd!(c, "ORDER.SCHEDULE", "q", i, "PX", 150 + i)
            .order()
            .expect("OK");
    }
    let reply = cmd!(
        c,
        "FAILOVER",
        "TO",
        "127.0.0.1",
        replica.port(),
        "TIMEOUT",
        500
    );
    assert!(!reply.is_error(), "{reply:?}");
    let began = Instant::now();
    for client in &mut waiting {
        assert_eq!(client.read().claims().len(), 1);
    }
    assert!(
        began.elapsed() >= Duration::from_millis(490),
        "granted while writes were paused"
    );
    wait_until(SOON, "the failover to be given up", || {
        c.info("replication", "master_failover_state") == "no-failover"
    });
    expect_healthy(&server);

    // A graceful SHUTDOWN waits for the replica in the same way.
    let _waiting = waiter(&server, "q");
    cmd!(c, "ORDER.SCHEDULE", "q", "later", "PX", 150)
        .order()
        .expect("OK");
    c.config("shutdown-timeout", "10");
    c.send(&["SHUTDOWN"]);
    thread::sleep(Duration::from_millis(500));
    assert!(server.is_running(), "it waits for its replica");
    replica.signal("CONT");
    let status = server.wait_end();
    assert!(status.success(), "{status}");
    server.start_again();
    expect_healthy(&server);
    replica.wait_in_sync(&server);
    let mut c = server.client();
    assert_eq!(
        cmd!(c, "ORDER.CLAIM", "q", "me").claims()[0].id_text(),
        "later"
    );
}
