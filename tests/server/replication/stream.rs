//! The stream: one APPLY for every write, nothing for what does nothing.

use std::thread;

use super::{QUIET, primary, replica_of};
use crate::support::{Client, SOON, Server, args, cmd, wait_until, wire};

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
