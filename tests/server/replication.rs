//! Replicas: what travels to them, that they never act, and that they take over.

use std::collections::BTreeSet;
use std::thread;
use std::time::{Duration, Instant};

use crate::support::states::{Snapshot, expect_healthy, expect_no_fault, fill_every_state};
use crate::support::{
    Claimed, Client, Message, Options, Random, SOON, Server, Value, args, argv, cmd, wait_for,
    wait_until, wall_us, wire,
};

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

/// The commands logged since the first `seen`, as text: names, and for APPLY its
/// key and version.
fn logged_since(server: &Server, seen: usize) -> Vec<String> {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    wire::logged(server)
        .into_iter()
        .skip(seen)
        .map(|command| match command[0].as_slice() {
            b"ORDER.APPLY" => {
                assert_eq!(command.len(), 4, "APPLY key version effects");
                assert!(!command[3].is_empty(), "no empty APPLY is ever logged");
                format!("APPLY {} {}", text(&command[1]), text(&command[2]))
            }
            _ => command
                .iter()
                .map(|word| text(word))
                .collect::<Vec<_>>()
                .join(" "),
        })
        .collect()
}

#[test]
fn every_write_is_one_apply_and_what_does_nothing_is_none() {
    const APPLY: &[&str] = &["APPLY q 2"];
    let primary = primary().line("repl-ping-replica-period 3600").start();
    let replica = replica_of(&primary);
    let mut c = primary.client();
    let seen = std::cell::Cell::new(wire::logged(&primary).len());
    let expect = |what: &str, expected: &[&str]| {
        let new = logged_since(&primary, seen.get());
        seen.set(seen.get() + new.len());
        assert_eq!(new, expected, "{what}");
    };
    let fence_of = |c: &mut Client, id: &str| {
        cmd!(c, "ORDER.CLAIM", "q", "me", "ID", id, "PX", 600_000).claims()[0].fence
    };

    cmd!(
        c,
        "ORDER.SCHEDULE",
        "q",
        "1",
        "PX",
        3_600_000,
        "STATUS",
        "unpaid",
        "PAYLOAD",
        "p"
    )
    .order()
    .expect("OK");
    expect("SCHEDULE", APPLY);
    cmd!(c, "ORDER.SCHEDULE", "q", "1", "PX", 3_600_000)
        .order()
        .expect("EXISTS");
    cmd!(c, "ORDER.SCHEDULE", "q", "1", "PX", 3_000_000, "GT")
        .order()
        .expect("UNCHANGED");
    cmd!(c, "ORDER.SCHEDULE", "none", "1", "PX", 1, "XX")
        .order()
        .expect("MISSING");
    cmd!(c, "ORDER.FINISH", "q", "1", "FROM", "paid")
        .order()
        .expect("STATE");
    cmd!(c, "ORDER.FINISH", "q", "1", "FENCE", 1)
        .order()
        .expect("STALE");
    cmd!(c, "ORDER.FINISH", "none", "1")
        .order()
        .expect("MISSING");
    cmd!(c, "ORDER.STATUS", "q", "no", "x")
        .order()
        .expect("MISSING");
    cmd!(c, "ORDER.ACK", "q", "1", 5).order().expect("STALE");
    cmd!(c, "ORDER.NACK", "q", "1", 5).order().expect("STALE");
    cmd!(c, "ORDER.RENEW", "q", "1", 5, "PX", 5)
        .lease()
        .expect("GONE");
    cmd!(c, "ORDER.MACK", "q", 2, "1", 5, "2", 5);
    assert_eq!(cmd!(c, "ORDER.CLAIM", "q", "me", "COUNT", 10).claims(), []);
    assert_eq!(cmd!(c, "ORDER.CLAIM", "q", "me", "ID", "1").claims(), []);
    assert_eq!(
        cmd!(c, "ORDER.CLAIM", "none", "me", "BLOCK", 1).claims(),
        []
    );
    assert!(cmd!(c, "ORDER.SCHEDULE", "q", "1", "PX", "x").is_error());
    cmd!(c, "ORDER.GET", "q", "1");
    cmd!(c, "ORDER.SCAN", "q", 0);
    cmd!(c, "ORDER.STATS", "q");
    cmd!(c, "ORDER.NEXT", "q");
    cmd!(c, "ORDER.PTTL", "q", "1");
    expect("no-ops and questions", &[]);
    assert_eq!(cmd!(c, "EXISTS", "none").int(), 0);

    cmd!(c, "ORDER.SCHEDULE", "q", "1", "PX", 7_000_000, "GT")
        .order()
        .expect("OK");
    expect("SCHEDULE GT", APPLY);
    cmd!(c, "ORDER.STATUS", "q", "1", "seen")
        .order()
        .expect("OK");
    expect("STATUS", APPLY);
    cmd!(c, "ORDER.FINISH", "q", "1", "STATUS", "paid")
        .order()
        .expect("OK");
    expect("FINISH", APPLY);
    for id in ["a", "b", "c", "d", "e"] {
        cmd!(c, "ORDER.SCHEDULE", "q", id, "PX", 0)
            .order()
            .expect("OK");
    }
    expect("five SCHEDULEs", &["APPLY q 2"; 5]);
    thread::sleep(QUIET);
    expect("deadlines that pass, and their announcements", &[]);
    let rows = cmd!(c, "ORDER.CLAIM", "q", "me", "COUNT", 3, "PX", 600_000).claims();
    expect("CLAIM of three", APPLY);
    cmd!(
        c,
        "ORDER.RENEW",
        "q",
        rows[0].id,
        rows[0].fence,
        "PX",
        500_000
    )
    .lease()
    .expect("OK");
    expect("RENEW", APPLY);
    cmd!(c, "ORDER.ACK", "q", rows[0].id, rows[0].fence)
        .order()
        .expect("OK");
    expect("ACK", APPLY);
    cmd!(
        c,
        "ORDER.MACK",
        "q",
        3,
        rows[1].id,
        rows[1].fence,
        "no",
        7,
        rows[2].id,
        rows[2].fence
    );
    expect("MACK", APPLY);
    let fence = fence_of(&mut c, "d");
    cmd!(c, "ORDER.NACK", "q", "d", fence, "DELAY", 20)
        .order()
        .expect("OK");
    expect("CLAIM ID and NACK", &["APPLY q 2"; 2]);
    cmd!(c, "ORDER.CLAIM", "q", "me", "ID", "e", "PX", 20);
    expect("CLAIM ID", APPLY);
    wait_until(SOON, "the lease and the wait to end", || {
        c.state("q", "d") == "expired" && c.state("q", "e") == "expired"
    });
    thread::sleep(QUIET);
    expect("a lease and a wait that end", &[]);

    // A grant to one who waits is one too, and so is forgetting.
    let mut waiter = primary.client();
    waiter.send(&args!["ORDER.CLAIM", "w", "me", "BLOCK", 20_000]);
    wait_until(SOON, "the client to wait", || c.blocked_clients() == 1);
    expect("waiting", &[]);
    cmd!(c, "ORDER.SCHEDULE", "w", "1", "PX", 10)
        .order()
        .expect("OK");
    assert_eq!(waiter.read().claims().len(), 1);
    expect("a grant to one who waited", &["APPLY w 2"; 2]);
    cmd!(c, "ORDER.FINISH", "f", "1", "CREATE", "KEEP", 1)
        .order()
        .expect("OK");
    wait_until(SOON, "it to be forgotten", || {
        cmd!(c, "EXISTS", "f").int() == 0
    });
    expect("forgetting by time", &["APPLY f 2"; 2]);

    cmd!(c, "MULTI").ok();
    cmd!(c, "ORDER.SCHEDULE", "q", "m1", "PX", 100_000);
    cmd!(c, "ORDER.SCHEDULE", "q", "m1", "PX", 100_000);
    cmd!(c, "SET", "string", "s");
    cmd!(c, "ORDER.FINISH", "q", "m1");
    cmd!(c, "EXEC");
    expect(
        "MULTI",
        &["MULTI", "APPLY q 2", "SET string s", "APPLY q 2", "EXEC"],
    );
    cmd!(c, "MULTI").ok();
    cmd!(c, "ORDER.SCHEDULE", "q", "m1", "PX", 100_000, "NX");
    cmd!(c, "EXEC");
    expect("MULTI of nothing", &[]);
    let script = "redis.call('ORDER.SCHEDULE', KEYS[1], 'l', 'PX', 9000000) redis.call('ORDER.FINISH', KEYS[1], 'l')";
    cmd!(c, "EVAL", script, 1, "q");
    expect("Lua", &["MULTI", "APPLY q 2", "APPLY q 2", "EXEC"]);

    // The last order takes the key with it, on the replica too, by the same APPLY.
    cmd!(c, "ORDER.SCHEDULE", "one", "1", "PX", 100_000)
        .order()
        .expect("OK");
    cmd!(c, "ORDER.FINISH", "one", "1", "KEEP", 0)
        .order()
        .expect("OK");
    expect("the last order", &["APPLY one 2", "APPLY one 2"]);
    replica.wait_in_sync(&primary);
    let mut r = replica.client();
    assert_eq!(cmd!(r, "EXISTS", "one", "f").int(), 0);

    // The replica's own file holds exactly the same.
    let (here, there) = (wire::logged(&primary), wire::logged(&replica));
    assert_eq!(there, here);
    for queue in ["q", "w"] {
        assert_eq!(r.digest(queue), c.digest(queue));
    }
}

#[test]
fn a_monitor_of_the_replica_sees_the_same_stream() {
    let primary = primary().start();
    let replica = replica_of(&primary);
    let mut monitor = replica.client();
    cmd!(monitor, "MONITOR").ok();
    let mut c = primary.client();
    cmd!(c, "ORDER.SCHEDULE", "q", "1", "PX", 0)
        .order()
        .expect("OK");
    cmd!(c, "ORDER.SCHEDULE", "q", "1", "PX", 0)
        .order()
        .expect("EXISTS");
    cmd!(c, "ORDER.CLAIM", "q", "me").claims();
    cmd!(c, "MULTI").ok();
    cmd!(c, "ORDER.SCHEDULE", "q", "2", "PX", 1000);
    cmd!(c, "ORDER.SCHEDULE", "q", "3", "PX", 1000);
    cmd!(c, "EXEC");
    cmd!(c, "SET", "end", "1").ok();
    let mut seen = Vec::new();
    wait_until(SOON, "the end", || {
        while let Some(line) = monitor.read_within(QUIET) {
            let line = line.text();
            let command = line.split("] ").nth(1).unwrap_or_default().to_owned();
            if !command.contains("PING")
                && !command.contains("REPLCONF")
                && !command.contains("SELECT")
            {
                seen.push(
                    command
                        .split(' ')
                        .take(3)
                        .collect::<Vec<_>>()
                        .join(" ")
                        .to_uppercase(),
                );
            }
        }
        seen.last().is_some_and(|last| last.contains("END"))
    });
    let apply = "\"ORDER.APPLY\" \"Q\" \"2\"";
    assert_eq!(
        seen,
        [
            apply,
            apply,
            "\"MULTI\"",
            apply,
            apply,
            "\"EXEC\"",
            "\"SET\" \"END\" \"1\""
        ]
    );
}

#[test]
fn a_replica_follows_through_full_and_partial_synchronization() {
    for load in ["disabled", "on-empty-db", "swapdb"] {
        let primary = primary().start();
        let mut c = primary.client();
        fill_every_state(&mut c, "q");
        let replica = Options::new()
            .aof()
            .replica_of(primary.port())
            .line(format!("repl-diskless-load {load}"))
            .line("propagation-error-behavior panic")
            .start();
        // What it has of its own goes.
        let mut r = replica.client();
        replica.wait_in_sync(&primary);
        Snapshot::of(&mut c, "q").expect_same(&Snapshot::of(&mut r, "q"), "full");
        assert_eq!(r.digest("q"), c.digest("q"), "{load}");

        // The link breaks and comes back: only what was missed travels.
        let full = c.info_number("stats", "sync_full");
        cmd!(r, "CLIENT", "KILL", "TYPE", "master");
        for i in 0..50 {
            cmd!(c, "ORDER.SCHEDULE", "q", format!("while-away-{i}"), "PX", 0)
                .order()
                .expect("OK");
            cmd!(c, "ORDER.CLAIM", "q", "me", "COUNT", 2, "PX", 600_000);
        }
        replica.wait_in_sync(&primary);
        assert_eq!(
            c.info_number("stats", "sync_full"),
            full,
            "{load}: a partial synchronization"
        );
        assert!(c.info_number("stats", "sync_partial_ok") > 0);
        assert_eq!(r.digest("q"), c.digest("q"), "{load}: after a partial one");

        // And again from the start, over what it has.
        cmd!(c, "DEBUG", "CHANGE-REPL-ID");
        cmd!(r, "CLIENT", "KILL", "TYPE", "master");
        cmd!(c, "ORDER.SCHEDULE", "q", "later", "PX", 0)
            .order()
            .expect("OK");
        wait_until(SOON, "a full synchronization", || {
            c.info_number("stats", "sync_full") > full
        });
        replica.wait_in_sync(&primary);
        Snapshot::of(&mut c, "q").expect_same(&Snapshot::of(&mut r, "q"), "full again");
        assert_eq!(r.digest("q"), c.digest("q"), "{load}: full again");
        assert_eq!(r.info_number("orderwheel", "orderwheel_queues"), 1);

        // Promoted, it hands out what it got that way.
        cmd!(r, "REPLICAOF", "NO", "ONE").ok();
        assert!(
            !cmd!(r, "ORDER.CLAIM", "q", "me", "COUNT", 1000)
                .claims()
                .is_empty()
        );
        expect_healthy(&replica);
        expect_healthy(&primary);
    }
}

/// The ids in messages of this event for queue `q`, in the order they came.
fn ids_of(messages: &[Message], event: &str) -> Vec<String> {
    let channel = format!("__keyevent@0__:{event}");
    messages
        .iter()
        .filter(|m| m.channel == channel)
        .map(|m| {
            String::from_utf8_lossy(&m.payload)
                .strip_prefix("q:")
                .expect("of queue q")
                .to_owned()
        })
        .collect()
}

#[test]
fn a_replica_announces_and_grants_nothing_and_a_promoted_one_does_once() {
    for quick in [true, false] {
        let primary = primary().start();
        let replica = Options::new()
            .aof()
            .replica_of(primary.port())
            .events("KEgd")
            .set("announce-after-start-ms", if quick { 0 } else { 400 })
            .start();
        replica.wait_in_sync(&primary);
        let (mut c, mut r) = (primary.client(), replica.client());
        let mut listener = replica.client();
        listener.psubscribe(&["__keyevent@0__:*"]);
        for i in 0..20 {
            cmd!(c, "ORDER.SCHEDULE", "q", format!("due-{i}"), "PX", 10 + i)
                .order()
                .expect("OK");
        }
        cmd!(c, "ORDER.SCHEDULE", "q", "dead", "PX", 0)
            .order()
            .expect("OK");
        let row = cmd!(c, "ORDER.CLAIM", "q", "me", "ID", "dead")
            .claims()
            .remove(0);
        cmd!(c, "ORDER.NACK", "q", "dead", row.fence, "DEAD")
            .order()
            .expect("OK");
        cmd!(c, "ORDER.SCHEDULE", "q", "lapses", "PX", 0)
            .order()
            .expect("OK");
        cmd!(c, "ORDER.CLAIM", "q", "me", "ID", "lapses", "PX", 30);
        cmd!(c, "ORDER.SCHEDULE", "q", "kept", "PX", 0)
            .order()
            .expect("OK");
        let kept = cmd!(c, "ORDER.CLAIM", "q", "me", "ID", "kept", "PX", 600_000)
            .claims()
            .remove(0);
        cmd!(c, "ORDER.FINISH", "q", "brief", "CREATE", "KEEP", 600_000)
            .order()
            .expect("OK");
        wait_until(SOON, "all deadlines to pass", || {
            cmd!(c, "ORDER.STATS", "q")
                .pairs()
                .iter()
                .any(|(name, value)| name == "expired" && value.int() == 21)
        });
        replica.wait_in_sync(&primary);
        let heard = listener.messages(QUIET * 3);
        for event in ["order.expired", "order.lapsed", "order.dead"] {
            assert_eq!(
                ids_of(&heard, event),
                Vec::<String>::new(),
                "{event} on a replica"
            );
        }
        let schedules = ids_of(&heard, "order.schedule");
        assert_eq!(
            schedules.len(),
            23,
            "writes are told, each once: {schedules:?}"
        );
        assert_eq!(ids_of(&heard, "order.claim"), ["dead", "lapses", "kept"]);
        assert_eq!(ids_of(&heard, "order.nack"), ["dead"]);
        assert_eq!(ids_of(&heard, "order.finish"), ["brief"]);
        // It answers questions by its clock, and refuses to hand out.
        assert_eq!(
            (
                r.state("q", "due-3"),
                r.state("q", "lapses"),
                r.state("q", "dead")
            ),
            ("expired".into(), "expired".into(), "dead".into())
        );
        assert!(
            cmd!(r, "ORDER.CLAIM", "q", "me")
                .error()
                .starts_with("READONLY")
        );
        assert_eq!(r.digest("q"), c.digest("q"), "time has changed nothing");
        let highest = [row.fence, kept.fence].into_iter().max().unwrap();

        // The primary dies.
        let mut primary = primary;
        primary.kill();
        let promoted_at = Instant::now();
        cmd!(r, "REPLICAOF", "NO", "ONE").ok();
        let mut heard = Vec::new();
        wait_until(SOON, "the announcements", || {
            heard.extend(listener.messages(Duration::from_millis(30)));
            ids_of(&heard, "order.expired").len() >= 21
        });
        if !quick {
            assert!(
                promoted_at.elapsed() >= Duration::from_millis(390),
                "not before subscribers are back"
            );
        }
        heard.extend(listener.messages(QUIET));
        let expired = ids_of(&heard, "order.expired");
        let unique: BTreeSet<_> = expired.iter().cloned().collect();
        assert_eq!(
            (unique.len(), expired.len()),
            (21, 21),
            "each once: {expired:?}"
        );
        assert!(unique.contains("lapses") && !unique.contains("kept") && !unique.contains("dead"));
        let rows = cmd!(r, "ORDER.CLAIM", "q", "next", "COUNT", 1000, "PX", 600_000).claims();
        let ids: BTreeSet<String> = rows.iter().map(Claimed::id_text).collect();
        assert_eq!((ids, rows.len()), (unique, 21), "each offered once");
        // Seven seconds is what a guard of ten leaves after some test machine's delays.
        assert!(
            rows.iter().all(|row| row.fence > highest + 7_000_000),
            "fences jump over what may have been lost"
        );
        cmd!(r, "ORDER.ACK", "q", "kept", kept.fence)
            .order()
            .expect("OK");
        expect_healthy(&replica);

        // The old primary comes back and follows.
        primary.start_again();
        cmd!(primary.client(), "REPLICAOF", "NO", "ONE").ok();
    }
}

#[test]
fn the_waiting_are_told_when_their_server_becomes_a_replica() {
    let one = primary().start();
    let two = replica_of(&one);
    let mut c = one.client();
    let mut waiting: Vec<Client> = (0..3)
        .map(|_| {
            let mut client = one.client();
            client.send(&args!["ORDER.CLAIM", "q", "me", "BLOCK", 0]);
            client
        })
        .collect();
    wait_until(SOON, "them to wait", || c.blocked_clients() == 3);
    cmd!(c, "ORDER.SCHEDULE", "q", "1", "PX", 4000)
        .order()
        .expect("OK");
    two.wait_in_sync(&one);
    let mut t = two.client();
    cmd!(t, "REPLICAOF", "NO", "ONE").ok();
    cmd!(c, "REPLICAOF", "127.0.0.1", two.port()).ok();
    for client in &mut waiting {
        // The error, or the end of the connection when that was quicker.
        match client.try_read(SOON) {
            Ok(Some(reply)) => assert!(reply.error().starts_with("UNBLOCKED"), "{reply:?}"),
            Ok(None) => panic!("it still waits on a replica"),
            Err(_) => {}
        }
    }
    wait_until(SOON, "nobody to be blocked", || c.blocked_clients() == 0);
    // It falls due on the new primary alone, which sees it through.
    let row = cmd!(t, "ORDER.CLAIM", "q", "me", "BLOCK", 20_000)
        .claims()
        .remove(0);
    assert!(wall_us() >= row.deadline * 1000);
    cmd!(t, "ORDER.ACK", "q", "1", row.fence)
        .order()
        .expect("OK");
    one.wait_in_sync(&two);
    assert_eq!(c.state("q", "1"), "finished");
    assert_eq!(one.client().digest("q"), t.digest("q"));
    expect_healthy(&one);
    expect_healthy(&two);
}

#[test]
fn orders_fall_due_through_failovers_back_and_forth() {
    let mut servers = [primary().start(), Options::new().start()];
    servers[1] = Options::new()
        .aof()
        .replica_of(servers[0].port())
        .events("KEgd")
        .start();
    servers[1].wait_in_sync(&servers[0]);
    let mut here = 0;
    let (mut sent, mut got) = (BTreeSet::new(), BTreeSet::new());
    let mut highest = 0;
    for round in 0..4 {
        let (old, new) = (here, 1 - here);
        let mut c = servers[old].client();
        let mut claimer = servers[old].client();
        claimer.send(&args!["ORDER.CLAIM", "q", "me", "BLOCK", 0]);
        wait_until(SOON, "it to wait", || c.blocked_clients() == 1);
        for i in 0..60 {
            let id = format!("{round}-{i}");
            cmd!(c, "ORDER.SCHEDULE", "q", id, "PX", i * 5)
                .order()
                .expect("OK");
            sent.insert(id);
        }
        cmd!(c, "FAILOVER").ok();
        wait_until(SOON, "the failover", || {
            servers[new].client().info("replication", "role") == "master"
                && c.info("replication", "role") == "slave"
        });
        // What it was given before is its own; it may have been told of the change.
        while let Ok(Some(reply)) = claimer.try_read(QUIET) {
            if let Value::Array(_) = reply {
                for row in reply.claims() {
                    highest = highest.max(row.fence);
                    assert!(got.insert(row.id_text()), "{} twice", row.id_text());
                }
            }
        }
        let mut c = servers[new].client();
        let until = Instant::now() + SOON;
        while got.len() < sent.len() {
            assert!(
                Instant::now() < until,
                "{:?} never came",
                sent.difference(&got).collect::<Vec<_>>()
            );
            let rows = cmd!(
                c,
                "ORDER.CLAIM",
                "q",
                "me",
                "COUNT",
                100,
                "PX",
                600_000,
                "BLOCK",
                5000
            )
            .claims();
            for row in rows {
                assert!(row.fence > highest, "{row:?} is not above {highest}");
                assert!(got.insert(row.id_text()), "{} twice", row.id_text());
            }
        }
        highest = highest.max(c.order("q", sent.last().unwrap()).fence());
        servers[old].wait_in_sync(&servers[new]);
        assert_eq!(servers[old].client().digest("q"), c.digest("q"));
        here = new;
    }
    for server in &servers {
        expect_healthy(server);
    }
}

#[test]
fn a_replica_that_panics_on_any_error_lives_through_mixed_writes() {
    let primary = primary().line("appendfsync no").start();
    let replica = Options::new()
        .replica_of(primary.port())
        .line("propagation-error-behavior panic")
        .line("replica-ignore-disk-write-errors yes")
        .start();
    replica.wait_in_sync(&primary);
    let mut random = Random::new();
    let mut c = primary.client();
    let mut last: Vec<(String, u64)> = vec![("none".into(), 1)];
    for _ in 0..1500 {
        let id = format!("o{}", random.below(60));
        let (held, fence) = last[random.below(last.len() as u64) as usize].clone();
        let reply = match random.below(9) {
            0 | 1 => cmd!(
                c,
                "ORDER.SCHEDULE",
                "q",
                id,
                "PX",
                random.below(20),
                "UPSERT"
            ),
            2 => cmd!(
                c,
                "ORDER.FINISH",
                "q",
                id,
                "CREATE",
                "KEEP",
                random.below(50)
            ),
            3 => cmd!(c, "ORDER.STATUS", "q", id, "s"),
            4 | 5 => cmd!(
                c,
                "ORDER.CLAIM",
                "q",
                "me",
                "PX",
                1 + random.below(20),
                "COUNT",
                3
            ),
            6 => cmd!(c, "ORDER.ACK", "q", held, fence, "KEEP", 0),
            7 => cmd!(c, "ORDER.NACK", "q", held, fence, "DELAY", random.below(10)),
            _ => cmd!(c, "DEL", if random.below(40) == 0 { "q" } else { "no" }),
        };
        assert!(!reply.is_error(), "{reply:?}");
        if let Value::Array(rows) = &reply
            && rows.iter().all(|row| matches!(row, Value::Array(_)))
        {
            last.extend(
                reply
                    .claims()
                    .into_iter()
                    .map(|row| (row.id_text(), row.fence)),
            );
        }
    }
    let digest = wait_for(SOON, "both to agree", || {
        replica.wait_in_sync(&primary);
        let digest = c.digest("q");
        (replica.client().digest("q") == digest).then_some(digest)
    });
    assert_ne!(digest, "0".repeat(40));
    let mut r = replica.client();
    assert_eq!(
        r.info_number("orderwheel", "orderwheel_apply_mismatch_total"),
        0
    );
    expect_healthy(&replica);
}

#[test]
fn a_chained_replica_and_the_file_of_a_replica_hold_the_same() {
    let primary = primary().start();
    let middle = replica_of(&primary);
    let mut last = Options::new().aof().replica_of(middle.port()).start();
    last.wait_in_sync(&middle);
    let mut c = primary.client();
    fill_every_state(&mut c, "q");
    let mut waiter = primary.client();
    waiter.send(&args![
        "ORDER.CLAIM",
        "w",
        "me",
        "BLOCK",
        20_000,
        "PX",
        600_000
    ]);
    cmd!(c, "ORDER.SCHEDULE", "w", "1", "PX", 20)
        .order()
        .expect("OK");
    waiter.read().claims();
    middle.wait_in_sync(&primary);
    last.wait_in_sync(&middle);
    let before = Snapshot::of(&mut c, "q");
    let digests = [c.digest("q"), c.digest("w")];
    for server in [&middle, &last] {
        let mut r = server.client();
        before.expect_same(&Snapshot::of(&mut r, "q"), "a replica");
        assert_eq!([r.digest("q"), r.digest("w")], digests);
    }
    // A replica begins its file anew after it has synchronized, by a child.
    wait_until(SOON, "its file to be whole", || {
        let mut r = last.client();
        ["aof_rewrite_in_progress", "aof_rewrite_scheduled"]
            .iter()
            .all(|field| r.info("persistence", field) == "0")
    });
    *last.options_mut() = Options::new().aof();
    last.kill_and_restart();
    let mut r = last.client();
    before.expect_same(&Snapshot::of(&mut r, "q"), "the file of a chained replica");
    assert_eq!([r.digest("q"), r.digest("w")], digests);
    expect_healthy(&last);
    expect_no_fault(&middle);
}

/// A grant that the server refuses is decided every ten milliseconds. Only the one that
/// is made counts, and what is to be said with it is not lost meanwhile.
#[test]
fn a_refused_grant_is_neither_timed_nor_announced() {
    const REFUSED: Duration = Duration::from_millis(600);
    let primary = primary().start();
    let mut c = primary.client();
    let mut listener = primary.client();
    listener.psubscribe(&["__keyevent@0__:order.l*"]);
    cmd!(c, "ORDER.SCHEDULE", "q", "1", "PX", 200)
        .order()
        .expect("OK");
    cmd!(c, "ORDER.SCHEDULE", "w", "locked", "PX", 60_000)
        .order()
        .expect("OK");
    cmd!(c, "ORDER.LOCK", "w", "locked", "a", "PX", 200)
        .lease()
        .expect("OK");
    let mut claimer = primary.client();
    claimer.send(&args!["ORDER.CLAIM", "q", "me", "BLOCK", 30_000]);
    let mut locker = primary.client();
    locker.send(&args![
        "ORDER.LOCK",
        "w",
        "locked",
        "b",
        "PX",
        30_000,
        "BLOCK",
        30_000
    ]);
    wait_until(SOON, "them to wait", || c.blocked_clients() == 2);
    c.config("min-replicas-to-write", "1");
    wait_until(SOON, "both to be due", || {
        c.state("q", "1") == "expired" && c.state("w", "locked") == "scheduled"
    });
    thread::sleep(REFUSED);
    assert_eq!(claimer.read_within(Duration::ZERO), None);
    assert_eq!(locker.read_within(Duration::ZERO), None);
    c.config("min-replicas-to-write", "0");
    assert_eq!(claimer.read().claims().remove(0).id_text(), "1");
    locker.read().lease().expect("OK");
    let heard: Vec<String> = listener
        .messages(QUIET)
        .into_iter()
        .map(|m| {
            m.channel
                .trim_start_matches("__keyevent@0__:order.")
                .to_owned()
        })
        .collect();
    assert_eq!(heard, ["lock", "lapsed", "lock"]);
    // One order, one time: half of all are not below it.
    let p50: f64 = c.stat("q", "lateness_ms_p50").text().parse().unwrap();
    assert!(p50 >= 600.0, "p50 {p50} ms");
    expect_healthy(&primary);
}

#[test]
fn too_few_replicas_refuse_writes_and_hold_back_what_falls_due() {
    let primary = primary().start();
    let mut c = primary.client();
    let mut listener = primary.client();
    listener.subscribe(&["__keyevent@0__:order.expired"]);
    let mut waiter = primary.client();
    waiter.send(&args!["ORDER.CLAIM", "q", "me", "BLOCK", 30_000]);
    wait_until(SOON, "it to wait", || c.blocked_clients() == 1);
    cmd!(c, "ORDER.SCHEDULE", "q", "1", "PX", 100)
        .order()
        .expect("OK");
    cmd!(c, "ORDER.SCHEDULE", "other", "2", "PX", 100)
        .order()
        .expect("OK");
    c.config("min-replicas-to-write", "1");
    assert!(
        cmd!(c, "ORDER.SCHEDULE", "q", "3", "PX", 1)
            .error()
            .starts_with("NOREPLICAS")
    );
    assert!(
        cmd!(c, "ORDER.CLAIM", "q", "me")
            .error()
            .starts_with("NOREPLICAS")
    );
    wait_until(SOON, "it to fall due", || c.state("q", "1") == "expired");
    assert_eq!(
        waiter.read_within(QUIET),
        None,
        "a grant that no replica would have is not made"
    );
    assert_eq!(
        listener.message(QUIET),
        None,
        "nor is anything announced that nobody could claim"
    );
    // Refused work is tried again, not in a busy loop.
    let runs = c.info_number("orderwheel", "orderwheel_timer_runs_total");
    thread::sleep(Duration::from_millis(200));
    let runs = c.info_number("orderwheel", "orderwheel_timer_runs_total") - runs;
    assert!(runs < 100, "{runs} passes in 200 ms");
    let replica = replica_of(&primary);
    let row = waiter.read().claims().remove(0);
    assert_eq!(row.id_text(), "1");
    let heard: BTreeSet<Vec<u8>> = listener
        .messages(QUIET)
        .into_iter()
        .map(|m| m.payload)
        .collect();
    assert_eq!(
        heard,
        BTreeSet::from([b"q:1".to_vec(), b"other:2".to_vec()])
    );
    replica.wait_in_sync(&primary);
    assert_eq!(replica.client().digest("q"), c.digest("q"));
    expect_healthy(&primary);
}

#[test]
fn a_writable_replica_does_not_act_on_its_primarys_orders() {
    let primary = primary().start();
    let replica = replica_of(&primary);
    let mut r = replica.client();
    r.config("replica-read-only", "no");
    let mut listener = replica.client();
    listener.subscribe(&["__keyevent@0__:order.expired"]);
    let mut waiter = replica.client();
    waiter.send(&args!["ORDER.CLAIM", "q", "me", "BLOCK", 300]);
    let mut c = primary.client();
    cmd!(c, "ORDER.SCHEDULE", "q", "1", "PX", 30)
        .order()
        .expect("OK");
    assert_eq!(
        waiter.read().claims(),
        [],
        "the pass of a replica grants nothing"
    );
    assert_eq!(listener.message(QUIET), None);
    replica.wait_in_sync(&primary);
    assert_eq!(r.digest("q"), c.digest("q"));
    expect_healthy(&replica);
    let commands: Vec<_> = (0..10).map(|_| argv!["ORDER.GET", "q", "1"]).collect();
    assert!(
        r.pipeline(&commands)
            .iter()
            .all(|reply| reply.get().is_some())
    );
}
