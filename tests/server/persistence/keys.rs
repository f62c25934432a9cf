//! Keys that are renamed, moved, swapped or flushed, and who waits on them.

use std::time::Duration;

use super::QUIET;
use crate::support::states::expect_healthy;
use crate::support::{Claimed, Client, Options, SOON, Server, args, argv, cmd, wait_until};

/// Clients that wait for an order of `queue` in database `db`.
#[track_caller]
fn waiter(server: &Server, db: u32, queue: &str) -> Client {
    let mut c = server.client();
    let before = c.blocked_clients();
    let mut client = server.client();
    cmd!(client, "SELECT", db).ok();
    client.send(&args!["ORDER.CLAIM", queue, "me", "BLOCK", 30_000]);
    wait_until(SOON, "the client to wait", || c.blocked_clients() > before);
    client
}

/// Fails unless this waiter gets this order and nothing else.
#[track_caller]
fn expect_served(client: &mut Client, id: &str) {
    let rows = client.read().claims();
    assert_eq!(rows.iter().map(Claimed::id_text).collect::<Vec<_>>(), [id]);
    assert!(crate::support::wall_us() >= rows[0].deadline * 1000);
}

#[test]
fn orders_go_with_a_renamed_moved_or_swapped_key_and_waiters_stay_with_the_name() {
    for how in ["RENAME", "RENAMENX", "MOVE", "SWAPDB", "COPY", "RESTORE"] {
        // Due while it moves, due long before, due after.
        for ms in [0, 300] {
            let server = Options::new().aof().events("KEd").start();
            let mut c = server.client();
            let mut listener = server.client();
            listener.psubscribe(&["__keyevent@*__:order.expired"]);
            let (db, name) = match how {
                "MOVE" | "SWAPDB" => (1, "from"),
                _ => (0, "to"),
            };
            let mut there = waiter(&server, db, name);
            c.config("orderwheel.max-leased", "0");
            cmd!(c, "ORDER.SCHEDULE", "from", "1", "PX", ms)
                .order()
                .expect("OK");
            cmd!(c, "ORDER.SCHEDULE", "from", "2", "PX", 3_600_000)
                .order()
                .expect("OK");
            match how {
                "RENAME" => cmd!(c, "RENAME", "from", "to").ok(),
                "RENAMENX" => assert_eq!(cmd!(c, "RENAMENX", "from", "to").int(), 1),
                "MOVE" => assert_eq!(cmd!(c, "MOVE", "from", 1).int(), 1),
                "SWAPDB" => cmd!(c, "SWAPDB", 0, 1).ok(),
                "COPY" => assert_eq!(cmd!(c, "COPY", "from", "to").int(), 1),
                _ => {
                    let payload = cmd!(c, "DUMP", "from").bytes().to_vec();
                    cmd!(c, "RESTORE", "to", 0, payload).ok();
                    cmd!(c, "DEL", "from");
                }
            }
            // One stays behind for whoever comes to the old name.
            let mut here = if how == "COPY" {
                None
            } else {
                Some(waiter(&server, 0, "from"))
            };
            expect_served(&mut there, "1");
            if let Some(here) = &mut here {
                assert_eq!(
                    here.read_within(QUIET),
                    None,
                    "{how}: the old name has nothing"
                );
            }
            let heard = listener.messages(QUIET);
            let key = format!("{name}:1");
            let new = heard
                .iter()
                .filter(|m| m.payload == key.as_bytes() && m.channel.contains(&format!("@{db}__")))
                .count();
            // An order that was announced under its old name is not again; a copy is
            // an order of its own.
            let old = heard.iter().filter(|m| m.payload == b"from:1").count();
            let old = if how == "SWAPDB" || how == "MOVE" {
                old - new
            } else {
                old
            };
            match how {
                "COPY" | "RESTORE" => assert_eq!(new, 1, "{how} {ms}: {heard:?}"),
                _ if ms > 0 => assert_eq!((new, old), (1, 0), "{how}: {heard:?}"),
                _ => assert_eq!(new + old, 1, "{how}: {heard:?}"),
            }
            cmd!(c, "SELECT", db).ok();
            assert_eq!(
                (c.state(name, "1"), c.state(name, "2")),
                ("leased".into(), "scheduled".into()),
                "{how}"
            );
            cmd!(c, "SELECT", 0).ok();
            if let Some(mut here) = here {
                cmd!(c, "ORDER.SCHEDULE", "from", "3", "PX", 0)
                    .order()
                    .expect("OK");
                expect_served(&mut here, "3");
            }
            expect_healthy(&server);
        }
    }
}

/// Commands after which an order falls due, and the databases and keys of its events.
type Crossing = (&'static [&'static str], &'static [(u32, &'static str)]);

/// Those that bring a queue into another database, and some that do not.
const CROSSINGS: [Crossing; 6] = [
    (&["SELECT 2", "MAKE q"], &[(2, "q")]),
    (&["SELECT 2", "MAKE q", "RENAME q r"], &[(2, "r")]),
    (&["MAKE q", "COPY q q DB 2"], &[(0, "q"), (2, "q")]),
    (
        &["SELECT 3", "MAKE q", "COPY q z DB 2"],
        &[(2, "z"), (3, "q")],
    ),
    (&["SELECT 3", "MAKE q", "MOVE q 4"], &[(4, "q")]),
    (&["SELECT 3", "MAKE q", "SWAPDB 3 4"], &[(4, "q")]),
];

#[test]
fn a_queue_falls_due_in_the_database_it_came_to_also_in_multi_and_scripts() {
    let server = Options::new().events("KEd").start();
    for way in ["plain", "MULTI", "EVAL"] {
        for (commands, places) in CROSSINGS {
            let mut c = server.client();
            cmd!(c, "FLUSHALL").ok();
            let mut listener = server.client();
            listener.psubscribe(&["__keyevent@*__:order.expired"]);
            let commands: Vec<String> = commands
                .iter()
                .map(|words| words.replace("MAKE q", "ORDER.SCHEDULE q 1 PX 300"))
                .collect();
            let words = |command: &str| -> Vec<Vec<u8>> {
                command
                    .split(' ')
                    .map(|word| word.as_bytes().to_vec())
                    .collect()
            };
            let mut batch: Vec<Vec<Vec<u8>>> = commands.iter().map(|c| words(c)).collect();
            if way == "MULTI" {
                batch.insert(0, words("MULTI"));
                batch.push(words("EXEC"));
            }
            if way == "EVAL" {
                let calls = commands
                    .iter()
                    .map(|c| format!("redis.call('{}');", c.replace(' ', "','")));
                batch = vec![argv!["EVAL", calls.collect::<String>(), "0"]];
            }
            for reply in c.pipeline(&batch) {
                assert!(!reply.is_error(), "{way} {commands:?}: {reply:?}");
            }
            let mut heard = Vec::new();
            wait_until(SOON, &format!("{way} {commands:?}"), || {
                heard.extend(listener.messages(QUIET));
                heard.len() >= places.len()
            });
            let mut heard: Vec<_> = heard
                .iter()
                .map(|m| {
                    (
                        m.channel.clone(),
                        String::from_utf8_lossy(&m.payload).into_owned(),
                    )
                })
                .collect();
            heard.sort();
            let expected: Vec<_> = places
                .iter()
                .map(|(db, key)| {
                    (
                        format!("__keyevent@{db}__:order.expired"),
                        format!("{key}:1"),
                    )
                })
                .collect();
            assert_eq!(heard, expected, "{way} {commands:?}");
        }
    }
    expect_healthy(&server);
}

#[test]
fn what_is_flushed_never_fires_and_its_waiters_wait_on() {
    let ways: [&[&str]; 8] = [
        &["FLUSHDB"],
        &["FLUSHDB", "ASYNC"],
        &["FLUSHALL", "SYNC"],
        &["FLUSHALL", "ASYNC"],
        &["DEL", "q"],
        &["UNLINK", "q"],
        &["SET", "q", "a string"],
        &["PEXPIRE", "q", "1"],
    ];
    for way in ways {
        let server = Options::new().aof().events("KEd").start();
        let mut c = server.client();
        let mut listener = server.client();
        let schedule: Vec<_> = (0..300)
            .map(|i| argv!["ORDER.SCHEDULE", "q", i, "PX", 150 + i % 20])
            .collect();
        let mut waiting = waiter(&server, 0, "q");
        for reply in c.pipeline(&schedule) {
            reply.order().expect("OK");
        }
        assert!(!c.run(way).is_error());
        // Not before: all that the schedules raised is out by now.
        listener.psubscribe(&["__keyevent@*__:order.expired"]);
        let heard = listener.messages(Duration::from_millis(250));
        assert_eq!(heard, [], "{way:?}");
        assert_eq!(waiting.read_within(QUIET), None, "{way:?}");
        if way[0] == "SET" {
            assert_eq!(cmd!(c, "DEL", "q").int(), 1);
        }
        assert_eq!(cmd!(c, "EXISTS", "q").int(), 0, "{way:?}");
        assert_eq!(
            c.info_number("orderwheel", "orderwheel_queues"),
            0,
            "{way:?}"
        );
        cmd!(c, "ORDER.SCHEDULE", "q", "new", "PX", 10)
            .order()
            .expect("OK");
        expect_served(&mut waiting, "new");
        expect_healthy(&server);
    }
}
