//! Other modules, transactions and scripts: what they do to the module, and it to them.

use std::thread;
use std::time::Duration;

use super::{QUIET, expect_served, waiter};
use crate::support::states::{expect_healthy, expect_no_fault};
use crate::support::{
    Claimed, Client, Options, SOON, Server, Value, args, argv, cmd, library, wait_until, wall_us,
};

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
