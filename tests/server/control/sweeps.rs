//! REQUEUE and PURGE, and all of these commands within transactions and scripts.

use std::thread;

use super::{LONG, QUIET, claimer, dead, due, heard};
use crate::support::states::{Snapshot, expect_healthy, fill_every_state};
use crate::support::{Claimed, Client, Options, Server, Value, argv, cmd};

/// The numbers of a REQUEUE or PURGE.
#[track_caller]
fn swept(reply: &Value) -> (i64, i64) {
    assert_eq!(reply.items().len(), 2, "{reply:?}");
    (reply.items()[0].int(), reply.items()[1].int())
}

#[test]
fn requeue_gives_the_longest_dead_another_life() {
    let server = Options::new().events("KEd").start();
    let mut c = server.client();
    for i in 0..5 {
        dead(&mut c, "q", &format!("d{i}"), "unpaid");
    }
    cmd!(c, "ORDER.SCHEDULE", "q", "other", "PX", LONG)
        .order()
        .expect("OK");
    let mut listener = server.client();
    listener.psubscribe(&["__keyevent@0__:order.*"]);
    let mut waits = claimer(&server, "q");
    assert_eq!(swept(&cmd!(c, "ORDER.REQUEUE", "q", "COUNT", 2)), (2, 3));
    let row = waits.read().claims().remove(0);
    assert_eq!(
        (row.id_text().as_str(), row.attempt),
        ("d0", 1),
        "the longest dead first"
    );
    assert_eq!(c.order("q", "d1").int("attempt"), 0);
    let lines = heard(&mut listener);
    assert!(
        lines.contains(&"expired d1".to_owned()),
        "an entry into expired is announced: {lines:?}"
    );
    assert!(
        lines.iter().all(|line| !line.contains("requeue")),
        "{lines:?}"
    );
    assert_eq!(swept(&cmd!(c, "ORDER.REQUEUE", "q")), (3, 0));
    assert_eq!(swept(&cmd!(c, "ORDER.REQUEUE", "q")), (0, 0));
    assert_eq!(swept(&cmd!(c, "ORDER.REQUEUE", "nobody")), (0, 0));
    assert_eq!(cmd!(c, "EXISTS", "nobody").int(), 0);
    let ids: Vec<String> = cmd!(c, "ORDER.CLAIM", "q", "me", "COUNT", 10)
        .claims()
        .iter()
        .map(Claimed::id_text)
        .collect();
    assert_eq!(ids, ["d1", "d2", "d3", "d4"]);
    assert_eq!(c.state("q", "other"), "scheduled");
    // A holder of before is stale.
    cmd!(c, "ORDER.ACK", "q", "d0", row.fence - 1)
        .order()
        .expect("STALE");
    expect_healthy(&server);
}

#[test]
fn purge_meets_every_order_by_repeated_calls_and_no_lease() {
    let server = Server::plain();
    let mut c = server.client();
    let mut made = Vec::new();
    for i in 0..600 {
        let status = if i % 3 == 0 { "a" } else { "b" };
        made.push(argv![
            "ORDER.SCHEDULE",
            "q",
            format!("s{i}"),
            "PX",
            LONG + i,
            "STATUS",
            status
        ]);
        made.push(argv![
            "ORDER.SCHEDULE",
            "q",
            format!("e{i}"),
            "PX",
            0,
            "STATUS",
            status
        ]);
        made.push(argv![
            "ORDER.FINISH",
            "q",
            format!("f{i}"),
            "CREATE",
            "STATUS",
            status
        ]);
    }
    c.pipeline(&made);
    for i in 0..30 {
        cmd!(
            c,
            "ORDER.CLAIM",
            "q",
            "me",
            "ID",
            format!("e{i}"),
            "PX",
            LONG
        );
        cmd!(c, "ORDER.LOCK", "q", format!("s{i}"), "me", "PX", LONG)
            .lease()
            .expect("OK");
    }
    let purge = |c: &mut Client, state: &str, filter: &[&str]| -> i64 {
        let mut total = 0;
        for round in 0.. {
            let mut words = vec!["ORDER.PURGE", "q", "STATE", state, "COUNT", "50"];
            words.extend_from_slice(filter);
            let (done, left) = swept(&c.run(&words));
            assert!(done <= 50);
            total += done;
            if left == 0 || (!filter.is_empty() && round > 60) || (filter.is_empty() && done == 0) {
                break;
            }
        }
        total
    };
    assert_eq!(purge(&mut c, "scheduled", &["STATUS", "a"]), 190);
    assert_eq!(
        purge(&mut c, "scheduled", &["MATCH", "s[1-4]?"]),
        13,
        "of forty, those that have no lock and are no a"
    );
    assert_eq!(
        purge(&mut c, "finished", &["STATUS", "b", "MATCH", "f*9"]),
        40
    );
    assert_eq!(purge(&mut c, "finished", &[]), 560);
    assert_eq!(purge(&mut c, "expired", &[]), 570);
    assert_eq!(purge(&mut c, "scheduled", &[]), 570 - 190 - 13);
    assert_eq!(purge(&mut c, "leased", &[]), 0);
    assert_eq!(c.stat("q", "orders").int(), 60);
    assert_eq!(c.stat("q", "leased").int(), 60);
    assert_eq!(
        swept(&cmd!(c, "ORDER.PURGE", "q", "STATE", "leased")),
        (0, 60)
    );
    for i in 0..30 {
        cmd!(c, "ORDER.BREAK", "q", format!("e{i}"))
            .lease()
            .expect("OK");
        cmd!(c, "ORDER.BREAK", "q", format!("s{i}"))
            .lease()
            .expect("OK");
    }
    purge(&mut c, "expired", &[]);
    purge(&mut c, "scheduled", &[]);
    assert_eq!(
        cmd!(c, "EXISTS", "q").int(),
        0,
        "with the last order the key goes"
    );
    assert_eq!(swept(&cmd!(c, "ORDER.PURGE", "q", "STATE", "dead")), (0, 0));
    expect_healthy(&server);
}

#[test]
fn sweeps_replicate_what_they_did() {
    let primary = Options::new()
        .aof()
        .tcp()
        .line("repl-diskless-sync-delay 0")
        .start();
    let replica = Options::new()
        .aof()
        .replica_of(primary.port())
        .line("propagation-error-behavior panic")
        .start();
    replica.wait_in_sync(&primary);
    let (mut c, mut r) = (primary.client(), replica.client());
    fill_every_state(&mut c, "q");
    cmd!(
        c,
        "ORDER.CONFIG",
        "q",
        "SET",
        "max-leased",
        100,
        "transitions",
        "a>b"
    )
    .ok();
    cmd!(c, "ORDER.PAUSE", "q", "PX", LONG, "REASON", "r").ok();
    assert!(swept(&cmd!(c, "ORDER.REQUEUE", "q")).0 > 0);
    assert!(
        swept(&cmd!(
            c,
            "ORDER.PURGE",
            "q",
            "STATE",
            "finished",
            "COUNT",
            1
        ))
        .0 > 0
    );
    assert!(swept(&cmd!(c, "ORDER.PURGE", "q", "STATE", "retrying")).0 > 0);
    cmd!(c, "ORDER.UNLOCK", "q", "nobody", 1)
        .lease()
        .expect("MISSING");
    let locked = c.order("q", "locked-twice").fence();
    cmd!(c, "ORDER.UNLOCK", "q", "locked-twice", locked)
        .lease()
        .expect("HELD");
    let leased = c.order("q", "leased").fence();
    cmd!(c, "ORDER.UNLOCK", "q", "leased", leased)
        .lease()
        .expect("OK");
    cmd!(c, "ORDER.BREAK", "q", "locked").lease().expect("OK");
    cmd!(c, "ORDER.BREAK", "q", "reserved").lease().expect("OK");
    replica.wait_in_sync(&primary);
    assert_eq!(r.digest("q"), c.digest("q"));
    Snapshot::of(&mut c, "q").expect_same(&Snapshot::of(&mut r, "q"), "on the replica");
    assert_eq!(r.stat("q", "pause_reason").text(), "r");
    assert_eq!(r.stat("q", "max-leased"), c.stat("q", "max-leased"));
    cmd!(c, "ORDER.RESUME", "q").ok();
    cmd!(c, "ORDER.CONFIG", "q", "RESET", "transitions").ok();
    replica.wait_in_sync(&primary);
    assert_eq!(r.digest("q"), c.digest("q"));
    for words in [
        argv!["ORDER.CONFIG", "q", "SET", "lease-ms", 5],
        argv!["ORDER.PAUSE", "q"],
        argv!["ORDER.RESUME", "q"],
        argv!["ORDER.REQUEUE", "q"],
        argv!["ORDER.PURGE", "q", "STATE", "dead"],
        argv!["ORDER.LOCK", "q", "x", "me", "PX", 5],
        argv!["ORDER.UNLOCK", "q", "x", 5],
        argv!["ORDER.BREAK", "q", "x"],
    ] {
        assert!(r.run(&words).error().starts_with("READONLY"), "{words:?}");
    }
    // And from the log alone.
    let digest = c.digest("q");
    cmd!(c, "DEBUG", "LOADAOF").ok();
    assert_eq!(c.digest("q"), digest);
    thread::sleep(QUIET);
    expect_healthy(&primary);
    expect_healthy(&replica);
}

#[test]
fn control_within_transactions_and_scripts() {
    let server = Server::plain();
    let mut c = server.client();
    due(&mut c, "q", "1");
    let replies = c.pipeline(&[
        argv!["MULTI"],
        argv!["ORDER.PAUSE", "q"],
        argv!["ORDER.CLAIM", "q", "me"],
        argv!["ORDER.RESUME", "q"],
        argv!["ORDER.CONFIG", "q", "SET", "max-leased", 1],
        argv!["ORDER.CLAIM", "q", "me", "COUNT", 10],
        argv!["ORDER.CLAIM", "q", "me", "COUNT", 10],
        argv!["ORDER.CONFIG", "q", "RESET"],
        argv!["ORDER.PURGE", "q", "STATE", "leased"],
        argv!["EXEC"],
    ]);
    let inner = replies.last().unwrap().items();
    inner[0].ok();
    assert_eq!(inner[1].claims(), []);
    assert_eq!(inner[4].claims().len(), 1);
    assert_eq!(inner[5].claims(), []);
    assert_eq!(swept(&inner[7]), (0, 1));
    let script = "redis.call('ORDER.CONFIG', KEYS[1], 'SET', 'keep-ms', '7')
        return redis.call('ORDER.CONFIG', KEYS[1], 'GET', 'keep-ms')[2]";
    assert_eq!(cmd!(c, "EVAL", script, 1, "q").text(), "7");
    expect_healthy(&server);
}
