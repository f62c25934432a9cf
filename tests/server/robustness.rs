//! No input, no moment and no neighbour ends the server.

use std::thread;
use std::time::{Duration, Instant};

use crate::support::states::{Snapshot, apply, expect_healthy, expect_no_fault, fill_every_state};
use crate::support::{
    Claimed, Client, Options, Random, SOON, Server, Value, args, argv, cmd, library, read_file,
    wait_for, wait_until, wall_us, wire,
};

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

/// A server with the second module, which listens to our events and calls us.
fn meddled(options: Options) -> Server {
    options
        .module(library("ORDERWHEEL_MEDDLER", "libmeddler.so"))
        .start()
}

#[test]
fn blocking_inside_transactions_scripts_and_other_modules_answers_at_once() {
    let server = meddled(Options::new().aof());
    let mut c = server.client();
    let claim = ["ORDER.CLAIM", "q", "me", "BLOCK", "0"];
    cmd!(c, "MULTI").ok();
    c.run(&claim);
    assert_eq!(cmd!(c, "EXEC").items()[0].claims(), []);
    let script = "return redis.call('ORDER.CLAIM', KEYS[1], 'me', 'BLOCK', 0)";
    assert_eq!(cmd!(c, "EVAL", script, 1, "q").claims(), []);
    let library = "#!lua name=l\nredis.register_function('f', function(keys) return redis.call('ORDER.CLAIM', keys[1], 'me', 'BLOCK', 0) end)";
    cmd!(c, "FUNCTION", "LOAD", library);
    assert_eq!(cmd!(c, "FCALL", "f", 1, "q").claims(), []);
    for flags in [
        "-", "!", "E", "!E", "!SE", "S", "W", "M", "!A", "!R", "0", "3", "C", "!EMW",
    ] {
        let mut words = vec!["MEDDLER.CALL", flags, "ORDER.CLAIM"];
        words.extend(&claim[1..]);
        // Null where the server refuses the flags; never a wait.
        match c.run(&words) {
            Value::Array(rows) => assert_eq!(rows, [], "{flags}"),
            Value::Nil | Value::Error(_) => {}
            other => panic!("{flags}: {other:?}"),
        }
    }
    // The same where there is something to hand out, and where somebody waits.
    let mut waiting = waiter(&server, "q");
    cmd!(c, "MULTI").ok();
    cmd!(c, "ORDER.SCHEDULE", "q", "1", "PX", 0);
    c.run(&["ORDER.CLAIM", "none", "me", "BLOCK", "0"]);
    cmd!(c, "EXEC");
    expect_served(&mut waiting, "1");
    for flags in ["!", "!E", "!SE"] {
        let reply = cmd!(
            c,
            "MEDDLER.CALL",
            flags,
            "ORDER.SCHEDULE",
            "q",
            flags,
            "PX",
            0
        );
        reply.order().expect("OK");
        let rows = cmd!(
            c,
            "MEDDLER.CALL",
            flags,
            "ORDER.CLAIM",
            "q",
            "other",
            "COUNT",
            10,
            "BLOCK",
            5
        )
        .claims();
        assert_eq!(
            rows.iter().map(Claimed::id_text).collect::<Vec<_>>(),
            [flags]
        );
    }
    // Commands called with nonsense by a module get errors, not the server.
    for words in [
        &["ORDER.APPLY", "q", "1", "x"][..],
        &["ORDER.SCHEDULE", "q"],
        &["ORDER.CLAIM"],
        &["ORDER.GET", "q", ""],
        &["ORDER.NONE"],
    ] {
        let mut command = vec!["MEDDLER.CALL", "!E"];
        command.extend(words);
        let reply = c.run(&command);
        assert!(
            reply.is_error() || reply == Value::Nil,
            "{words:?}: {reply:?}"
        );
    }
    expect_healthy(&server);
    // What a module called with "!" is in the log like any other write.
    let mut server = server;
    let digest = server.client().digest("q");
    server.kill_and_restart();
    assert_eq!(server.client().digest("q"), digest);
}

/// Freeing a large block can take milliseconds, so a thread of the module's does it,
/// which is there from the start: `server-cpulist` ties down what is made later.
#[test]
fn what_a_queue_has_emptied_is_freed_elsewhere_and_comes_back() {
    let mut server = Server::plain();
    let mut c = server.client();
    let threads = format!("/proc/{}/task", server.pid());
    // It gives itself its name, when it first runs.
    let reaper = wait_for(
        SOON,
        "the thread that is made while the module loads",
        || {
            std::fs::read_dir(&threads)
                .expect("a process has threads")
                .map(|thread| thread.expect("a thread").path())
                .find(|thread| {
                    let name = std::fs::read_to_string(thread.join("comm")).unwrap_or_default();
                    name.trim_end() == "orderwheel-free"
                })
        },
    );
    // Times it had something to do.
    let turns = || -> u64 {
        std::fs::read_to_string(reaper.join("status"))
            .expect("the thread is there")
            .lines()
            .find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"))
            .expect("a count")
            .trim()
            .parse()
            .expect("a number")
    };
    let used = |c: &mut Client| c.info_number("memory", "used_memory");
    let before = used(&mut c);
    let (turns_before, payload) = (turns(), [b'x'; 1000]);
    for some in (0..20_000_u32).collect::<Vec<_>>().chunks(1000) {
        let commands: Vec<_> = some
            .iter()
            .map(|i| argv!["ORDER.SCHEDULE", "q", i, "PX", 600_000, "PAYLOAD", payload])
            .collect();
        c.pipeline(&commands);
    }
    let filled = used(&mut c) - before;
    assert!(filled > 20_000_000, "{filled}");
    // The key stays, and is saved by a child that has no such thread.
    for some in (1..20_000_u32).collect::<Vec<_>>().chunks(1000) {
        let commands: Vec<_> = some
            .iter()
            .map(|i| argv!["ORDER.FINISH", "q", i, "KEEP", 0])
            .collect();
        c.pipeline(&commands);
    }
    wait_until(SOON, "the memory to come back", || {
        used(&mut c) - before < filled / 10
    });
    // On a busy machine it finds much to do at each turn.
    assert!(turns() > turns_before, "by the thread");
    cmd!(c, "BGSAVE");
    wait_until(SOON, "the file to be written", || {
        c.info("persistence", "rdb_bgsave_in_progress") == "0"
    });
    assert_eq!(c.info("persistence", "rdb_last_bgsave_status"), "ok");
    server.restart();
    assert_eq!(server.client().stat("q", "orders").int(), 1);
}

#[test]
fn events_are_raised_as_soon_as_anybody_can_hear_them() {
    let server = Options::new()
        .line("notify-keyspace-events \"\"")
        .line("enable-module-command yes")
        .start();
    let mut c = server.client();
    let mut listener = server.listener();
    // Nobody can hear anything, and by now the server's cron has found that out.
    wait_until(SOON, "the server to be up a second", || {
        c.info_number("server", "uptime_in_seconds") >= 1
    });
    let schedule = |c: &mut Client, id: &str| {
        cmd!(c, "ORDER.SCHEDULE", "q", id, "PX", 0)
            .order()
            .expect("OK");
    };
    schedule(&mut c, "1");
    assert_eq!(listener.messages(QUIET).len(), 0);
    // A setting is heard of at once.
    cmd!(c, "CONFIG", "SET", "notify-keyspace-events", "Ed").ok();
    schedule(&mut c, "2");
    assert_eq!(listener.messages(QUIET).len(), 2, "scheduled, expired");
    cmd!(c, "CONFIG", "SET", "notify-keyspace-events", "").ok();
    schedule(&mut c, "3");
    assert_eq!(listener.messages(QUIET).len(), 0);
    // So is another module, which hears whatever the setting says.
    let meddler = library("ORDERWHEEL_MEDDLER", "libmeddler.so");
    cmd!(c, "MODULE", "LOAD", meddler.to_str().expect("a plain path")).ok();
    let heard = |c: &mut Client| cmd!(c, "MEDDLER.COUNT").items()[0].int();
    let before = heard(&mut c);
    cmd!(c, "MEDDLER.ON", "order.schedule", "ORDER.STATUS", "seen").ok();
    schedule(&mut c, "4");
    assert!(heard(&mut c) > before);
    assert_eq!(
        cmd!(c, "ORDER.GET", "q", "4")
            .get()
            .expect("one")
            .field("status")
            .text(),
        "seen"
    );
}

#[test]
fn a_module_that_writes_to_the_same_queue_from_its_event_does_no_harm() {
    let mut server = meddled(
        Options::new()
            .aof()
            .tcp()
            .events("KEA")
            .line("repl-diskless-sync-delay 0"),
    );
    let replica = Options::new()
        .module(library("ORDERWHEEL_MEDDLER", "libmeddler.so"))
        .replica_of(server.port())
        .start();
    replica.wait_in_sync(&server);
    let mut c = server.client();
    // It finishes each order as it is announced; the last one takes the key along.
    for (event, verb, more) in [
        ("order.expired", "ORDER.FINISH", &["KEEP", "0"][..]),
        ("order.schedule", "ORDER.FINISH", &["KEEP", "0"]),
        ("order.schedule", "ORDER.SCHEDULE", &["PX", "5", "XX"]),
        ("order.claim", "ORDER.SCHEDULE", &["PX", "1"]),
        ("order.finish", "ORDER.FINISH", &["CREATE", "KEEP", "0"]),
        ("order.finish", "DEL", &[]),
        ("order.expired", "DEL", &[]),
        ("order.claim", "DEL", &[]),
        ("order.ack", "ORDER.SCHEDULE", &["PX", "0"]),
        ("del", "ORDER.SCHEDULE", &["PX", "100000"]),
        ("order.expired", "ORDER.CLAIM", &[]),
    ] {
        let mut words = vec!["MEDDLER.ON", event, verb];
        words.extend(more);
        c.run(&words).ok();
        let mut waiting = server.client();
        waiting.send(&args![
            "ORDER.CLAIM",
            "q",
            "waiter",
            "COUNT",
            3,
            "BLOCK",
            300
        ]);
        let commands: Vec<_> = (0..60)
            .flat_map(|i| {
                [
                    argv!["ORDER.SCHEDULE", "q", i, "PX", i % 7],
                    argv!["ORDER.CLAIM", "q", "me", "COUNT", 2, "PX", 20],
                    argv!["ORDER.FINISH", "q", i - 3, "KEEP", i % 2],
                ]
            })
            .collect();
        for (reply, command) in c.pipeline(&commands).iter().zip(&commands) {
            assert!(
                !reply.is_error(),
                "{event} {verb}: {reply:?} to {command:?}"
            );
            if reply
                .items()
                .iter()
                .all(|row| matches!(row, Value::Array(_)))
            {
                for row in reply.claims() {
                    // Whether it still is ours depends on the meddler.
                    let reply = cmd!(c, "ORDER.ACK", "q", row.id, row.fence);
                    assert!(!reply.is_error(), "{reply:?}");
                }
            }
        }
        waiting.read();
        cmd!(c, "MEDDLER.OFF").ok();
        wait_until(SOON, "the replica to agree", || {
            replica.wait_in_sync(&server);
            replica.client().digest("q") == c.digest("q")
        });
        cmd!(c, "DEL", "q");
        expect_healthy(&server);
    }
    let counts = cmd!(c, "MEDDLER.COUNT");
    assert!(
        counts.items()[1].int() > 100,
        "the meddler has meddled: {counts:?}"
    );
    expect_no_fault(&replica);
    cmd!(c, "ORDER.SCHEDULE", "q", "end", "PX", 100_000)
        .order()
        .expect("OK");
    let digest = c.digest("q");
    server.kill_and_restart();
    assert_eq!(server.client().digest("q"), digest);
}

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

/// Looks at everything of a queue and writes to it: whatever a payload made of it.
fn exercise(c: &mut Client, queue: &str) {
    let mut commands = vec![
        argv!["ORDER.STATS", queue],
        argv!["ORDER.SCAN", queue, 0, "COUNT", 1000],
        argv!["ORDER.NEXT", queue, "COUNT", 1000],
        argv!["DEBUG", "DIGEST-VALUE", queue],
        argv!["DUMP", queue],
        argv!["MEMORY", "USAGE", queue],
        argv!["COPY", queue, "copy", "REPLACE"],
        argv!["ORDER.SCHEDULE", queue, "new", "PX", 0],
        argv!["ORDER.CLAIM", queue, "me", "COUNT", 1000],
        argv!["ORDER.FINISH", queue, "new"],
        argv!["ORDER.CLAIM", "copy", "me", "COUNT", 1000, "PX", 1],
    ];
    commands.extend(
        [
            "scheduled",
            "expired-1",
            "leased",
            "dead",
            "paid",
            "locked",
            "reserved",
        ]
        .iter()
        .flat_map(|id| {
            [
                argv!["ORDER.GET", queue, id],
                argv!["ORDER.SCHEDULE", queue, id, "PX", 1, "UPSERT"],
                argv!["ORDER.FINISH", queue, id],
            ]
        }),
    );
    c.pipeline(&commands);
}

/// The good DUMP of a queue that has an order in every state, small.
fn good_dump(c: &mut Client) -> Vec<u8> {
    fill_every_state(c, "good");
    for id in ["moved", "scheduled-full"] {
        cmd!(c, "ORDER.FINISH", "good", id, "KEEP", 0)
            .order()
            .expect("OK");
    }
    cmd!(c, "ORDER.FINISH", "good", [b'i'; 255], "KEEP", 0)
        .order()
        .expect("OK");
    apply(c, "good", &wire::configure(b"max-attempts", b"3"));
    cmd!(c, "DUMP", "good").bytes().to_vec()
}

#[test]
fn no_damaged_payload_ends_the_server() {
    // Not compressed, so that the damage is ours to find.
    let server = Options::new().line("rdbcompression no").start();
    let mut c = server.client();
    let payload = good_dump(&mut c);
    let (value, version) = wire::open_dump(&payload);
    let mut random = Random::new();
    let mut damaged: Vec<Vec<u8>> = Vec::new();
    // The first byte names the kind of value: others are the server's own business.
    for at in 1..value.len() {
        damaged.push(value[..at].to_vec());
        for flip in [0x01, 0x80, 0xff, 1 << random.below(8)] {
            let mut bytes = value.to_vec();
            bytes[at] ^= flip;
            damaged.push(bytes);
        }
        let mut bytes = value.to_vec();
        bytes.remove(at);
        damaged.push(bytes);
    }
    for _ in 0..3000 {
        let mut bytes = value.to_vec();
        for _ in 0..=random.below(6) {
            let at = 1 + random.below(bytes.len() as u64 - 1) as usize;
            match random.below(5) {
                0 => bytes[at] = random.next() as u8,
                1 => {
                    bytes[at] = [0, 1, 0x7f, 0x80, 0x81, 0xc0, 0xc3, 0xfb, 0xfd, 0xff]
                        [random.below(10) as usize];
                }
                2 => bytes.truncate(at.max(12)),
                3 => {
                    let byte = bytes[at];
                    bytes.insert(at, byte);
                }
                _ => {
                    // A piece from elsewhere.
                    let from = 1 + random.below(value.len() as u64 - 9) as usize;
                    let end = (at + 8).min(bytes.len());
                    bytes.splice(at..end, value[from..from + 8].iter().copied());
                }
            }
        }
        damaged.push(bytes);
    }
    let began = Instant::now();
    let (mut refused, mut taken) = (0, 0);
    for part in damaged.chunks(64) {
        let commands: Vec<_> = part
            .iter()
            .enumerate()
            .map(|(i, bytes)| {
                argv![
                    "RESTORE",
                    format!("r{i}"),
                    0,
                    wire::close_dump(bytes, version),
                    "REPLACE"
                ]
            })
            .collect();
        let replies = c.pipeline(&commands);
        for (i, reply) in replies.iter().enumerate() {
            if reply.is_error() {
                refused += 1;
            } else {
                taken += 1;
                if taken % 16 == 0 {
                    exercise(&mut c, &format!("r{i}"));
                }
            }
        }
        assert!(
            began.elapsed() < Duration::from_secs(60),
            "{refused} refused and {taken} taken in a minute"
        );
    }
    assert!(
        refused > 1000 && taken > 100,
        "{refused} refused, {taken} taken: both must come up"
    );
    // What was taken can be saved and read again as it is.
    cmd!(c, "DEL", "copy");
    let keys: Vec<String> = cmd!(c, "KEYS", "*")
        .items()
        .iter()
        .map(Value::text)
        .collect();
    let digests: Vec<String> = keys.iter().map(|key| c.digest(key)).collect();
    let kept = c.digest("good");
    cmd!(c, "DEBUG", "RELOAD").ok();
    for (key, digest) in keys.iter().zip(digests) {
        // What is over and was forgotten meanwhile may have taken its key along.
        if cmd!(c, "EXISTS", key).int() == 1 && key != "good" {
            let now = c.digest(key);
            let orders = c.stat(key, "orders").int();
            assert!(now == digest || orders < 40, "{key}: {now} after {digest}");
        }
    }
    assert_eq!(c.digest("good"), kept);
    cmd!(c, "FLUSHALL").ok();
    expect_healthy(&server);
}

#[test]
fn no_argument_of_apply_ends_the_server_and_clients_may_not_use_it() {
    let mut server = Options::new().aof().line("appendfsync no").start();
    let mut c = server.client();
    fill_every_state(&mut c, "good");
    // Every effect that made it, and one of each kind.
    let mut blobs: Vec<Vec<u8>> = wire::logged(&server)
        .into_iter()
        .filter(|command| command[0] == b"ORDER.APPLY")
        .map(|mut command| command.pop().unwrap())
        .collect();
    let fixtures = read_file(std::path::Path::new(concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/tests/fixtures/effects-v1.txt"
    )));
    let unhex = |text: &str| -> Vec<u8> {
        (0..text.len() / 2)
            .map(|i| u8::from_str_radix(&text[2 * i..2 * i + 2], 16).expect("hexadecimal"))
            .collect()
    };
    let golden: Vec<Vec<u8>> = String::from_utf8(fixtures)
        .expect("text")
        .lines()
        .filter(|line| !line.starts_with('#'))
        .filter_map(|line| Some(unhex(line.split_once(' ')?.1)))
        .collect();
    assert!(golden.len() > 25 && blobs.len() > 40);
    blobs.extend(golden.iter().cloned());

    let refused = c.info_number("orderwheel", "orderwheel_apply_refused_total");
    let before = Snapshot::of(&mut c, "good");
    for version in [
        "1",
        "0",
        "2",
        "9223372036854775808",
        "18446744073709551615",
        "18446744073709551616",
        "-1",
        "",
        "x",
    ] {
        for blob in [&b""[..], b"x", &golden[0]] {
            assert!(
                cmd!(c, "ORDER.APPLY", "good", version, blob).is_error(),
                "{version}"
            );
        }
    }
    cmd!(c, "MULTI").ok();
    cmd!(c, "ORDER.APPLY", "good", 1, golden[0]);
    assert!(cmd!(c, "EXEC").items()[0].is_error());
    assert!(
        cmd!(
            c,
            "EVAL",
            "return redis.pcall('ORDER.APPLY', KEYS[1], 1, ARGV[1])",
            1,
            "good",
            golden[0]
        )
        .is_error()
    );
    assert!(c.info_number("orderwheel", "orderwheel_apply_refused_total") > refused);
    before.expect_same(&Snapshot::of(&mut c, "good"), "a refused APPLY");

    c.config("orderwheel.apply-from-clients", "yes");
    for version in ["0", "3", "9223372036854775808"] {
        for blob in [&b""[..], b"x", &golden[0]] {
            assert!(
                cmd!(c, "ORDER.APPLY", "good", version, blob).is_error(),
                "{version}"
            );
        }
    }
    cmd!(c, "SET", "string", "s").ok();
    assert!(
        cmd!(c, "ORDER.APPLY", "string", 1, golden[0])
            .error()
            .starts_with("WRONGTYPE")
    );
    cmd!(c, "DEL", "string");
    let mut random = Random::new();
    let mut commands = Vec::new();
    for blob in &golden {
        commands.push(argv!["ORDER.APPLY", "q", 1, blob]);
        for at in 0..blob.len() {
            commands.push(argv!["ORDER.APPLY", "cut", 1, blob[..at]]);
            let mut bytes = blob.clone();
            bytes[at] ^= 1 << random.below(8);
            commands.push(argv!["ORDER.APPLY", format!("q{}", at % 5), 1, bytes]);
        }
    }
    for i in 0..12_000_u64 {
        let bytes = match random.below(3) {
            // Noise that begins like an effect.
            0 => {
                let mut bytes: Vec<u8> =
                    (0..random.below(60)).map(|_| random.next() as u8).collect();
                if let Some(first) = bytes.first_mut() {
                    *first %= 16;
                }
                bytes
            }
            // Good effects one after another, of whatever queue, some damaged.
            n => {
                let mut bytes = Vec::new();
                for _ in 0..=random.below(4) {
                    bytes.extend_from_slice(&blobs[random.below(blobs.len() as u64) as usize]);
                }
                if n == 2 {
                    for _ in 0..=random.below(3) {
                        let at = random.below(bytes.len() as u64) as usize;
                        bytes[at] = random.next() as u8;
                    }
                }
                bytes
            }
        };
        commands.push(argv!["ORDER.APPLY", format!("q{}", i % 7), 1, bytes]);
    }
    let (mut taken, mut refused) = (0, 0);
    for part in commands.chunks(2000) {
        for reply in c.pipeline(part) {
            if reply.is_error() {
                refused += 1;
            } else {
                taken += 1;
            }
        }
        for i in 0..7 {
            exercise(&mut c, &format!("q{i}"));
        }
        cmd!(c, "DEL", "copy");
    }
    assert!(
        taken > 2000 && refused > 1000,
        "{taken} taken, {refused} refused"
    );
    before.expect_same(&Snapshot::of(&mut c, "good"), "effects for other queues");
    // All of it can be saved, loaded, and replayed.
    thread::sleep(Duration::from_millis(600));
    cmd!(c, "DEBUG", "RELOAD").ok();
    server.kill_and_restart();
    before.expect_same(
        &Snapshot::of(&mut server.client(), "good"),
        "a replay of it all",
    );
    expect_healthy(&server);
}

#[test]
fn a_full_memory_refuses_new_orders_and_lets_everything_else_go_on() {
    let server = Options::new().aof().start();
    let mut c = server.client();
    for i in 0..8 {
        cmd!(c, "ORDER.SCHEDULE", "q", i, "PX", 0)
            .order()
            .expect("OK");
    }
    let held = cmd!(c, "ORDER.CLAIM", "q", "me", "COUNT", 5, "PX", 600_000).claims();
    let mut waiting = waiter(&server, "w");
    cmd!(c, "ORDER.SCHEDULE", "w", "soon", "PX", 200)
        .order()
        .expect("OK");
    c.config("maxmemory", "1");
    for command in [
        &["ORDER.SCHEDULE", "q", "new", "PX", "1"][..],
        &["ORDER.STATUS", "q", "1", "long status"],
    ] {
        assert!(c.run(command).error().starts_with("OOM"), "{command:?}");
    }
    let fence = |i: usize| held[i].fence;
    cmd!(c, "ORDER.RENEW", "q", held[0].id, fence(0), "PX", 700_000)
        .lease()
        .expect("OK");
    cmd!(
        c,
        "ORDER.ACK",
        "q",
        held[0].id,
        fence(0),
        "STATUS",
        "closed"
    )
    .order()
    .expect("OK");
    cmd!(
        c,
        "ORDER.NACK",
        "q",
        held[1].id,
        fence(1),
        "DELAY",
        0,
        "ERROR",
        "e"
    )
    .order()
    .expect("OK");
    cmd!(c, "ORDER.NACK", "q", held[2].id, fence(2), "DEAD")
        .order()
        .expect("OK");
    assert_eq!(
        cmd!(
            c,
            "ORDER.MACK",
            "q",
            2,
            held[3].id,
            fence(3),
            held[4].id,
            fence(4)
        )
        .items()
        .len(),
        2
    );
    cmd!(c, "ORDER.FINISH", "q", "6", "STATUS", "paid", "RESULT", "r")
        .order()
        .expect("OK");
    let rows = cmd!(c, "ORDER.CLAIM", "q", "me", "COUNT", 10).claims();
    assert_eq!(
        rows.len(),
        3,
        "two that were never claimed, one that was given back: {rows:?}"
    );
    expect_served(&mut waiting, "soon");
    // (The server itself queues nothing for a MULTI then; a script may still finish.)
    let script = "return redis.call('ORDER.FINISH', KEYS[1], ARGV[1], 'FENCE', ARGV[2])";
    cmd!(
        c,
        "EVAL",
        format!("#!lua flags=allow-oom\n{script}"),
        1,
        "q",
        rows[0].id,
        rows[0].fence
    )
    .order()
    .expect("OK");
    for command in [
        &["ORDER.GET", "q", "1"][..],
        &["ORDER.STATS", "q"],
        &["ORDER.SCAN", "q", "0"],
    ] {
        assert!(!c.run(command).is_error());
    }
    // Eviction takes a whole queue, and says so before it happens.
    c.config("maxmemory-policy", "allkeys-lru");
    assert_eq!(c.info("orderwheel", "orderwheel_evicting_policy"), "1");
    let reply = cmd!(c, "ORDER.SCHEDULE", "q", "new", "PX", 1);
    assert!(reply.is_error(), "{reply:?}");
    assert_eq!(cmd!(c, "DBSIZE").int(), 0);
    c.config("maxmemory", "0");
    cmd!(c, "ORDER.SCHEDULE", "q", "new", "PX", 0)
        .order()
        .expect("OK");
    assert_eq!(cmd!(c, "ORDER.CLAIM", "q", "me").claims().len(), 1);
    expect_healthy(&server);
}

#[test]
fn a_large_queue_goes_without_a_stall_and_gives_its_memory_back() {
    const ORDERS: usize = 200_000;
    let server = Options::new().line("repl-backlog-size 16kb").start();
    let mut c = server.client();
    cmd!(c, "ORDER.SCHEDULE", "warm", "1", "PX", 100_000)
        .order()
        .expect("OK");
    cmd!(c, "DEL", "warm");
    let used = |c: &mut Client| c.info_number("memory", "used_memory");
    let base = used(&mut c);
    // Filled once, then copied: each way gets one like it.
    for part in 0..ORDERS / 2000 {
        let commands: Vec<_> = (0..2000)
            .map(|i| {
                argv![
                    "ORDER.SCHEDULE",
                    "model",
                    part * 2000 + i,
                    "PX",
                    3_600_000 + i * part,
                    "STATUS",
                    "unpaid",
                    "PAYLOAD",
                    "12345678"
                ]
            })
            .collect();
        let replies = c.pipeline(&commands);
        assert!(replies.iter().all(|reply| !reply.is_error()));
    }
    let full = used(&mut c) - base;
    assert!(
        full / (ORDERS as i64) < 200,
        "{} bytes an order",
        full / ORDERS as i64
    );
    let usage = cmd!(c, "MEMORY", "USAGE", "model").int();
    assert!(
        (usage - full).abs() < full / 4,
        "MEMORY USAGE says {usage}, the server {full}"
    );
    let payload = cmd!(c, "DUMP", "model").bytes().to_vec();
    let ways: [&[&str]; 9] = [
        &["DEL", "q"],
        &["UNLINK", "q"],
        &["SET", "q", "x"],
        &["COPY", "small", "q", "REPLACE"],
        &["RENAME", "small", "q"],
        &["PEXPIRE", "q", "0"],
        &["GETDEL", "none"],
        &["FLUSHDB", "SYNC"],
        &["FLUSHALL", "ASYNC"],
    ];
    for way in ways {
        // FLUSH* take the model along.
        cmd!(c, "RESTORE", "q", 0, payload, "REPLACE").ok();
        cmd!(c, "ORDER.SCHEDULE", "small", "1", "PX", 100_000).order();
        assert_eq!(c.stat("q", "orders").int(), ORDERS as i64, "{way:?}");
        let began = Instant::now();
        c.run(way);
        let took = began.elapsed();
        // Freeing it here would take some 10 ms, or more.
        assert!(took < Duration::from_millis(250), "{way:?} took {took:?}");
        if way[0] == "GETDEL" {
            cmd!(c, "ORDER.FINISH", "q", "1", "KEEP", 0)
                .order()
                .expect("OK");
        }
        cmd!(c, "DEL", "q", "small", "model");
        wait_until(SOON, "the memory to come back", || {
            used(&mut c) < base + full / 5
        });
    }
    expect_healthy(&server);
}

#[test]
fn the_servers_own_commands_work_on_a_queue() {
    let server = Options::new().aof().start();
    let mut c = server.client();
    fill_every_state(&mut c, "q");
    assert_eq!(cmd!(c, "TYPE", "q").text(), "ordrwheel");
    assert!(cmd!(c, "MEMORY", "USAGE", "q").int() > 1000);
    assert!(cmd!(c, "MEMORY", "USAGE", "q", "SAMPLES", 0).int() > 1000);
    let idle = cmd!(c, "OBJECT", "IDLETIME", "q").int();
    assert!(idle < 60);
    for what in ["ENCODING", "REFCOUNT"] {
        assert!(!cmd!(c, "OBJECT", what, "q").is_error(), "{what}");
    }
    assert!(
        cmd!(c, "OBJECT", "FREQ", "q").is_error(),
        "no LFU policy here"
    );
    cmd!(c, "DEBUG", "OBJECT", "q");
    assert!(!cmd!(c, "DEBUG", "DIGEST").is_error());
    assert!(!cmd!(c, "MEMORY", "STATS").is_error());
    assert!(!cmd!(c, "MEMORY", "DOCTOR").is_error());
    cmd!(c, "MEMORY", "PURGE");
    assert!(!cmd!(c, "DEBUG", "HTSTATS", 0).is_error());
    assert!(!cmd!(c, "DEBUG", "HTSTATS-KEY", "q").is_error() || server.client().id() > 0);
    assert!(!cmd!(c, "SCAN", 0, "TYPE", "ordrwheel").is_error());
    assert_eq!(
        cmd!(c, "SCAN", 0, "TYPE", "ordrwheel").items()[1]
            .items()
            .len(),
        1
    );
    for command in [
        &["GET", "q"][..],
        &["LPUSH", "q", "x"],
        &["INCR", "q"],
        &["ZADD", "q", "1", "x"],
        &["HGETALL", "q"],
        &["APPEND", "q", "x"],
    ] {
        assert!(
            c.run(command).error().starts_with("WRONGTYPE"),
            "{command:?}"
        );
    }
    assert!(cmd!(c, "SORT", "q").is_error());
    for word in ["TOUCH", "EXISTS", "PERSIST", "TTL", "OBJECT"] {
        if word == "OBJECT" {
            assert!(!cmd!(c, "OBJECT", "HELP").is_error());
        } else {
            assert!(!cmd!(c, word, "q").is_error(), "{word}");
        }
    }
    // WATCH sees what writes and what ends by itself.
    let mut other = server.client();
    cmd!(c, "ORDER.SCHEDULE", "w", "1", "PX", 0)
        .order()
        .expect("OK");
    cmd!(c, "ORDER.CLAIM", "w", "me", "PX", 100);
    cmd!(c, "WATCH", "w").ok();
    cmd!(other, "ORDER.GET", "w", "1");
    cmd!(other, "ORDER.SCHEDULE", "w", "1", "PX", 5)
        .order()
        .expect("EXISTS");
    cmd!(c, "MULTI").ok();
    cmd!(c, "PING");
    assert_eq!(
        cmd!(c, "EXEC").items().len(),
        1,
        "questions and no-ops do not change a key"
    );
    cmd!(c, "WATCH", "w").ok();
    wait_until(SOON, "the lease to end", || {
        other.state("w", "1") == "expired"
    });
    thread::sleep(QUIET);
    cmd!(c, "MULTI").ok();
    cmd!(c, "PING");
    assert_eq!(
        cmd!(c, "EXEC"),
        Value::Nil,
        "a lease that ended changed the key"
    );
    assert!(!cmd!(c, "MODULE", "LIST").is_error());
    assert!(cmd!(c, "MODULE", "UNLOAD", "orderwheel").is_error());
    expect_healthy(&server);
}

#[test]
fn every_setting_holds_at_its_limits_and_refuses_what_is_beyond() {
    let mut server = Options::new().aof().start();
    let mut c = server.client();
    let year = 31_536_000_000_u64;
    let mut names: Vec<String> = cmd!(c, "CONFIG", "GET", "orderwheel.*")
        .pairs()
        .into_iter()
        .map(|(name, _)| name)
        .collect();
    names.sort();
    let mut tried = Vec::new();
    for (name, min, max) in [
        ("tick-budget-us", 100, 1_000_000),
        ("announce-per-s-max", 0, 1_000_000_000),
        ("announce-after-start-ms", 0, 3_600_000),
        ("payload-bytes-max", 0, 8_388_608),
        ("fence-guard-ms", 0, 600_000),
        ("lease-ms-max", 1, year),
        ("lease-ms", 1, year),
        ("lock-ms-max", 1, year),
        ("max-attempts", 0, 1_000_000_000),
        ("backoff-ms", 0, year),
        ("backoff-ms-max", 0, year),
        ("keep-ms", 0, 10 * year),
        ("max-leased", 0, 1_000_000_000),
        ("dead-max", 0, 100_000_000),
        ("claims-per-s-max", 0, 1_000_000),
    ] {
        let name = format!("orderwheel.{name}");
        let default = c.config_get(&name);
        let mut beyond = vec![
            (max + 1).to_string(),
            "-1".into(),
            "9223372036854775807".into(),
            "9223372036854775808".into(),
        ];
        beyond.extend(["x", "1.5", "0x10", "yes", "18446744073709551616"].map(str::to_owned));
        if min > 0 {
            beyond.push((min - 1).to_string());
        }
        for value in [min, max] {
            let reply = c.run(&["CONFIG", "SET", &name, &value.to_string()]);
            assert_eq!(reply, Value::Simple("OK".into()), "{name} {value}");
            assert_eq!(c.config_get(&name), value.to_string());
            for bad in &beyond {
                let reply = c.run(&["CONFIG", "SET", &name, bad]);
                assert!(reply.is_error(), "{name} {bad}: {reply:?}");
                assert_eq!(c.config_get(&name), value.to_string(), "after {bad}");
            }
            // Everything goes on at a limit.
            for i in 0..4 {
                cmd!(c, "ORDER.SCHEDULE", "q", i, "PX", 0, "UPSERT");
            }
            let claims = cmd!(c, "ORDER.CLAIM", "q", "me", "COUNT", 4).claims();
            for (i, row) in claims.iter().enumerate() {
                let reply = match i % 3 {
                    0 => cmd!(c, "ORDER.NACK", "q", row.id, row.fence),
                    1 => cmd!(c, "ORDER.NACK", "q", row.id, row.fence, "DEAD"),
                    _ => cmd!(c, "ORDER.ACK", "q", row.id, row.fence),
                };
                assert!(!reply.is_error(), "{name} {value}: {reply:?}");
            }
            assert!(!cmd!(c, "ORDER.FINISH", "q", "0", "CREATE").is_error());
            assert!(!cmd!(c, "ORDER.STATS", "q").is_error());
            cmd!(c, "DEL", "q");
            expect_no_fault(&server);
        }
        c.config(&name, &default);
        tried.push(name);
    }
    let apply = "orderwheel.apply-from-clients";
    for (value, good) in [
        ("yes", true),
        ("no", true),
        ("1", false),
        ("", false),
        ("maybe", false),
    ] {
        assert_eq!(
            !c.run(&["CONFIG", "SET", apply, value]).is_error(),
            good,
            "{value}"
        );
    }
    tried.push(apply.into());
    tried.sort();
    assert_eq!(names, tried, "every setting was tried");

    // CONFIG REWRITE writes what was set, and a start reads it back.
    c.config("orderwheel.keep-ms", "123456");
    c.config("orderwheel.apply-from-clients", "yes");
    c.config("orderwheel.payload-bytes-max", "128kb");
    cmd!(c, "CONFIG", "REWRITE").ok();
    let text = String::from_utf8(read_file(&server.dir().join("redis.conf"))).expect("text");
    for line in [
        "orderwheel.keep-ms 123456",
        "orderwheel.apply-from-clients yes",
        "loadmodule ",
    ] {
        assert!(text.contains(line), "{line} in:\n{text}");
    }
    *server.options_mut() = Options::new()
        .aof()
        .set("keep-ms", 123_456)
        .set("payload-bytes-max", "128kb");
    server.restart();
    let mut c = server.client();
    assert_eq!(c.config_get("orderwheel.keep-ms"), "123456");
    assert_eq!(c.config_get("orderwheel.payload-bytes-max"), "131072");
    cmd!(c, "CONFIG", "RESETSTAT").ok();
    expect_healthy(&server);
}

#[test]
fn users_with_few_rights_are_refused_and_nothing_else() {
    let server = Options::new().aof().start();
    let mut c = server.client();
    cmd!(
        c,
        "ACL",
        "SETUSER",
        "reader",
        "on",
        "nopass",
        "%R~q*",
        "+order.get",
        "+order.scan",
        "+order.stats",
        "+order.schedule"
    )
    .ok();
    cmd!(
        c,
        "ACL",
        "SETUSER",
        "closer",
        "on",
        "nopass",
        "~q*",
        "+order.claim",
        "+order.ack",
        "+ping"
    )
    .ok();
    cmd!(c, "ORDER.SCHEDULE", "q", "1", "PX", 0)
        .order()
        .expect("OK");
    let mut reader = server.client();
    cmd!(reader, "AUTH", "reader", "x").ok();
    assert!(cmd!(reader, "ORDER.GET", "q", "1").get().is_some());
    for command in [
        &["ORDER.GET", "other", "1"][..],
        &["ORDER.SCHEDULE", "q", "2", "PX", "1"],
        &["ORDER.CLAIM", "q", "me"],
        &["ORDER.APPLY", "q", "1", ""],
    ] {
        assert!(
            reader.run(command).error().starts_with("NOPERM"),
            "{command:?}"
        );
    }
    let mut closer = server.client();
    cmd!(closer, "AUTH", "closer", "x").ok();
    assert!(cmd!(closer, "ORDER.CLAIM", "z", "me", "BLOCK", 5).is_error());
    assert_eq!(cmd!(closer, "ORDER.CLAIM", "q", "me").claims().len(), 1);
    // The user goes while its client waits: the client goes too.
    closer.send(&args!["ORDER.CLAIM", "q", "me", "BLOCK", 0]);
    wait_until(SOON, "it to wait", || c.blocked_clients() == 1);
    assert_eq!(cmd!(c, "ACL", "DELUSER", "closer").int(), 1);
    wait_until(SOON, "it to be gone", || c.blocked_clients() == 0);
    cmd!(c, "ORDER.SCHEDULE", "q", "2", "PX", 0)
        .order()
        .expect("OK");
    thread::sleep(QUIET);
    assert_eq!(
        c.state("q", "2"),
        "expired",
        "nothing was granted to the dead"
    );
    expect_healthy(&server);
}

#[test]
fn a_busy_script_only_delays_what_falls_due() {
    let server = Options::new()
        .aof()
        .line("busy-reply-threshold 50")
        .events("KEd")
        .start();
    let mut c = server.client();
    let mut waiting = waiter(&server, "q");
    // To be forgotten meanwhile, which is a write and goes into the AOF.
    cmd!(c, "ORDER.SCHEDULE", "q", "0", "PX", 60_000)
        .order()
        .expect("OK");
    cmd!(c, "ORDER.FINISH", "q", "0", "KEEP", 100)
        .order()
        .expect("OK");
    let deadline = cmd!(c, "ORDER.SCHEDULE", "q", "1", "PX", 100)
        .order()
        .expect("OK")
        .deadline as u64;
    let mut busy = server.client();
    busy.send(&args!["EVAL", "while true do end", 0]);
    thread::sleep(Duration::from_millis(250));
    assert!(cmd!(c, "ORDER.GET", "q", "1").error().starts_with("BUSY"));
    cmd!(c, "SCRIPT", "KILL").ok();
    assert!(busy.read().is_error());
    let rows = waiting.read().claims();
    assert!(rows[0].deadline == deadline && wall_us() >= deadline * 1000);
    wait_until(SOON, "the finished one to be forgotten", || {
        c.stat("q", "finished").int() == 0
    });
    expect_healthy(&server);
}
