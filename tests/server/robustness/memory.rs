//! Memory: a full one, a large queue that goes, and what an emptied queue gives back.

use std::time::{Duration, Instant};

use super::{expect_served, waiter};
use crate::support::states::expect_healthy;
use crate::support::{Client, Options, SOON, Server, argv, cmd, wait_for, wait_until};

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
