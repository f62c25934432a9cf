//! One APPLY for all of a batch; where nothing was done none, and no watch is touched.

use super::{claim, run};
use crate::support::{Options, Server, Value, cmd, wire};

/// Batches one after the other, with their outcomes.
const BATCHES: [(&str, &[&str]); 12] = [
    (
        "MSCHEDULE q PX 3 x 600000 y 600000 z 600000",
        &["OK", "OK", "OK"],
    ),
    ("MSCHEDULE q PX 2 x 5 y 5", &["EXISTS", "EXISTS"]),
    ("MSCHEDULE q PX 2 x 5 none 5 GT", &["UNCHANGED", "MISSING"]),
    (
        "MSCHEDULE q PX 3 none 5 x 700000 y 5 GT",
        &["MISSING", "OK", "UNCHANGED"],
    ),
    ("MRENEW q 2 a $a b $b PX 700000", &["OK", "OK"]),
    (
        "MRENEW q 3 x 5 c 5 none 5 PX 700000",
        &["GONE", "GONE", "MISSING"],
    ),
    ("MNACK q 2 a $a x 5 DELAY 0", &["OK", "STALE"]),
    ("MNACK q 2 a $a none 5 DELAY 0", &["STALE", "MISSING"]),
    ("MACK q STATUSES 2 b $b paid b $b s", &["OK", "FINISHED"]),
    ("MACK q 2 b $b x 5", &["FINISHED", "STALE"]),
    (
        "MFINISH q 4 x y z none STATUS paid",
        &["OK", "OK", "OK", "MISSING"],
    ),
    ("MFINISH q 2 x none STATUS paid", &["FINISHED", "MISSING"]),
];

#[test]
fn a_batch_is_one_apply_and_one_that_does_nothing_is_none() {
    let options = Options::new()
        .aof()
        .tcp()
        .line("repl-diskless-sync-delay 0");
    let mut server = options.line("repl-ping-replica-period 3600").start();
    let replica = Options::new().replica_of(server.port()).start();
    replica.wait_in_sync(&server);
    let (mut c, mut watcher) = (server.client(), server.client());
    for id in ["a", "b", "c"] {
        cmd!(c, "ORDER.SCHEDULE", "q", id, "PX", 0)
            .order()
            .expect("OK");
    }
    let fences = [claim(&mut c, "q", "a"), claim(&mut c, "q", "b")];
    for (line, expected) in BATCHES {
        let line = line
            .replace("$a", &fences[0].to_string())
            .replace("$b", &fences[1].to_string());
        let seen = wire::logged(&server).len();
        let before = c.digest("q");
        cmd!(watcher, "WATCH", "q").ok();
        assert_eq!(run(&mut c, &format!("ORDER.{line}")), expected, "{line}");
        let does = expected.contains(&"OK");
        assert_eq!(c.digest("q") != before, does, "{line}");
        cmd!(watcher, "MULTI").ok();
        cmd!(watcher, "PING");
        assert_eq!(
            cmd!(watcher, "EXEC") == Value::Nil,
            does,
            "{line}: the watch"
        );
        let logged = wire::logged(&server);
        let new: Vec<&[u8]> = logged[seen..].iter().map(|words| &*words[0]).collect();
        let applies: &[&[u8]] = if does { &[b"ORDER.APPLY"] } else { &[] };
        assert_eq!(new, applies, "{line}");
    }
    let digest = c.digest("q");
    replica.wait_in_sync(&server);
    assert_eq!(digest, replica.client().digest("q"), "the replica");
    server.kill_and_restart();
    assert_eq!(digest, server.client().digest("q"), "the append-only file");
}

#[test]
fn each_order_of_a_batch_raises_its_own_event_in_its_order() {
    let server = Options::new().events("KEgd").start();
    let (mut c, mut listener) = (server.client(), server.listener());
    let mut heard = || -> Vec<String> {
        let messages = listener.messages(std::time::Duration::from_millis(60));
        let of = |message: &crate::support::Message| {
            let event = message.channel.strip_prefix("__keyevent@0__:order.")?;
            Some(format!(
                "{event} {}",
                String::from_utf8_lossy(&message.payload)
            ))
        };
        messages.iter().filter_map(of).collect()
    };
    run(&mut c, "ORDER.MSCHEDULE q PX 3 b 600000 a 600000 b 600000");
    assert_eq!(heard(), ["schedule q:b", "schedule q:a"]);
    run(&mut c, "ORDER.MSCHEDULE q PX 2 c 0 d 0");
    assert_eq!(
        heard(),
        ["schedule q:c", "schedule q:d", "expired q:c", "expired q:d"]
    );
    let (c1, d1) = (claim(&mut c, "q", "c"), claim(&mut c, "q", "d"));
    heard();
    run(&mut c, &format!("ORDER.MRENEW q 2 c {c1} d {d1} PX 700000"));
    assert_eq!(heard(), [""; 0]);
    run(
        &mut c,
        &format!("ORDER.MNACK q 2 d {d1} c {c1} DELAY 600000"),
    );
    assert_eq!(heard(), ["nack q:d", "nack q:c"]);
    run(&mut c, "ORDER.MFINISH q 3 c none a");
    assert_eq!(heard(), ["finish q:c", "finish q:a"]);
    run(&mut c, "ORDER.MFINISH q 2 none a");
    assert_eq!(heard(), [""; 0]);
}

/// Totals count orders, not commands.
#[test]
fn outcomes_are_counted_for_each_order() {
    let server = Server::plain();
    let mut c = server.client();
    run(&mut c, "ORDER.MSCHEDULE q PX 3 a 0 b 0 c 600000");
    let fences = [claim(&mut c, "q", "a"), claim(&mut c, "q", "b")];
    let total = |c: &mut crate::support::Client, name: &str| {
        c.info_number("orderwheel", &format!("orderwheel_{name}_total"))
    };
    let names = ["finished", "acked", "stale"];
    let before = names.map(|name| total(&mut c, name));
    let line = format!("ORDER.MACK q 3 a {} b {} c 5", fences[0], fences[1] + 1);
    assert_eq!(run(&mut c, &line), ["OK", "STALE", "STALE"]);
    run(&mut c, "ORDER.MFINISH q 2 c none");
    let after = names.map(|name| total(&mut c, name));
    let grown: Vec<i64> = after.iter().zip(before).map(|(a, b)| a - b).collect();
    assert_eq!(grown, [1, 1, 2]);
}
