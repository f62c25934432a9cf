//! REQUEUE of retrying orders and of chosen ones; what an operator is shown and told.

use crate::support::states::expect_healthy;
use crate::support::{Client, Options, SOON, Server, Value, args, argv, cmd, wait_until};

/// Longer than any test.
const LONG: u64 = 600_000;

/// `[moved, left]`.
#[track_caller]
fn swept(reply: &Value) -> (i64, i64) {
    let [done, left] = reply.items() else {
        panic!("{reply:?}")
    };
    (done.int(), left.int())
}

/// Three dead orders `d0` to `d2` and three retrying ones `r0` to `r2` in `q`.
#[track_caller]
fn filled(c: &mut Client) {
    for id in ["d0", "d1", "d2", "r0", "r1", "r2"] {
        let status = if id.ends_with('1') { "one" } else { "other" };
        cmd!(c, "ORDER.SCHEDULE", "q", id, "PX", 0, "STATUS", status)
            .order()
            .expect("OK");
        let fence = cmd!(c, "ORDER.CLAIM", "q", "me", "ID", id).claims()[0].fence;
        let mut nack = argv!["ORDER.NACK", "q", id, fence, "ERROR", "database is away"];
        if id.starts_with('d') {
            nack.extend(argv!["DEAD"]);
        } else {
            nack.extend(argv!["DELAY", LONG]);
        }
        c.run(&nack).order().expect("OK");
    }
}

#[test]
fn the_database_is_back_and_so_are_the_orders() {
    for resp3 in [false, true] {
        let server = Server::plain();
        let mut c = if resp3 {
            server.client3()
        } else {
            server.client()
        };
        filled(&mut c);
        let mut closer = server.client();
        closer.send(&args!["ORDER.CLAIM", "q", "closer", "BLOCK", 0, "COUNT", 9]);
        wait_until(SOON, "it to wait", || c.blocked_clients() == 1);
        let retrying = &["ORDER.REQUEUE", "q", "STATE", "retrying"];
        let one = [retrying, &["STATUS", "one"][..]].concat();
        assert_eq!(swept(&c.run(&one)), (1, 2));
        let rows = closer.read().claims();
        assert_eq!((rows[0].id_text(), rows[0].attempt), ("r1".into(), 2));
        assert_eq!(swept(&c.run(retrying)), (2, 0));
        assert_eq!(swept(&c.run(retrying)), (0, 0));
        assert_eq!(c.order("q", "r0").int("attempt"), 1);
        assert_eq!(c.order("q", "r0").text("error"), "database is away");
        assert_eq!(
            swept(&cmd!(c, "ORDER.REQUEUE", "q", "MATCH", "d[12]")),
            (2, 1)
        );
        assert_eq!(c.order("q", "d1").int("attempt"), 0);
        assert_eq!(c.stat("q", "dead").int(), 1);
        let reply = cmd!(c, "ORDER.REQUEUE", "q", "ID", "d0", "d0", "r0", "none");
        assert_eq!(swept(&reply), (1, 3));
        assert_eq!(swept(&cmd!(c, "ORDER.REQUEUE", "none", "ID", "x")), (0, 1));
        assert_eq!(cmd!(c, "EXISTS", "none").int(), 0);
        expect_healthy(&server);
    }
}

#[test]
fn within_transactions_and_scripts_and_with_wrong_arguments() {
    let server = Server::plain();
    let mut c = server.client();
    filled(&mut c);
    let replies = c.pipeline(&[
        argv!["MULTI"],
        argv!["ORDER.REQUEUE", "q", "ID", "r2", "d2"],
        argv!["ORDER.REQUEUE", "q", "STATE", "retrying", "COUNT", 1],
        argv!["ORDER.CLAIM", "q", "x", "COUNT", 9],
        argv!["EXEC"],
    ]);
    let inner = replies.last().unwrap().items();
    assert_eq!((swept(&inner[0]), swept(&inner[1])), ((2, 0), (1, 1)));
    let rows = inner[2].claims();
    let rows: Vec<_> = rows
        .iter()
        .map(|row| (row.id_text(), row.attempt))
        .collect();
    assert_eq!(rows.len(), 3);
    assert!(
        rows.contains(&("r2".into(), 2)) && rows.contains(&("d2".into(), 1)),
        "{rows:?}"
    );
    let script = "return redis.call('ORDER.REQUEUE', KEYS[1], 'STATE', 'retrying')";
    assert_eq!(swept(&cmd!(c, "EVAL", script, 1, "q")), (1, 0));
    let digest = c.digest("q");
    for (words, error) in [
        (
            argv!["ORDER.REQUEUE", "q", "STATE", "expired"],
            "STATE must be dead or retrying, not 'expired'",
        ),
        (argv!["ORDER.REQUEUE", "q", "ID"], "option ID needs a value"),
        (
            argv!["ORDER.REQUEUE", "q", "COUNT", 5, "ID", "d0"],
            "COUNT and ID exclude each other",
        ),
        (argv!["ORDER.REQUEUE", "q", "ID", "d0", ""], "length of ID"),
    ] {
        assert!(c.run(&words).error().contains(error), "{words:?}");
    }
    let mut many = argv!["ORDER.REQUEUE", "q", "ID"];
    many.extend((0..1001).map(|n| format!("d{n}").into_bytes()));
    assert!(
        c.run(&many)
            .error()
            .contains("option ID takes at most 1000 values")
    );
    assert_eq!(c.digest("q"), digest);
    expect_healthy(&server);
}

#[test]
fn the_replica_and_the_log_end_with_the_same() {
    let mut primary = Options::new().tcp().aof().start();
    let replica = Options::new().aof().replica_of(primary.port()).start();
    let (mut c, mut r) = (primary.client(), replica.client());
    replica.wait_in_sync(&primary);
    filled(&mut c);
    assert_eq!(
        swept(&cmd!(c, "ORDER.REQUEUE", "q", "ID", "r0", "d0")),
        (2, 0)
    );
    assert_eq!(
        swept(&cmd!(
            c,
            "ORDER.REQUEUE",
            "q",
            "STATE",
            "retrying",
            "STATUS",
            "one"
        )),
        (1, 1)
    );
    assert_eq!(swept(&cmd!(c, "ORDER.REQUEUE", "q", "COUNT", 1)), (1, 1));
    let tries = |c: &mut Client| ["r0", "r1", "d0", "d1"].map(|id| c.order("q", id).int("attempt"));
    assert_eq!(tries(&mut c), [1, 1, 0, 0]);
    replica.wait_in_sync(&primary);
    assert_eq!(
        (r.digest("q"), tries(&mut r)),
        (c.digest("q"), [1, 1, 0, 0])
    );
    let words = ["ORDER.REQUEUE", "q", "STATE", "retrying"];
    assert!(r.run(&words).error().starts_with("READONLY"));
    let digest = c.digest("q");
    primary.restart();
    let mut c = primary.client();
    assert_eq!((c.digest("q"), tries(&mut c)), (digest, [1, 1, 0, 0]));
    expect_healthy(&primary);
    expect_healthy(&replica);
}

#[test]
fn an_operator_sees_who_holds_what_and_why_an_order_is_dead() {
    for resp3 in [false, true] {
        let server = Server::plain();
        let mut c = if resp3 {
            server.client3()
        } else {
            server.client()
        };
        filled(&mut c);
        cmd!(c, "ORDER.CONFIG", "q", "SET", "max-attempts", 1).ok();
        cmd!(c, "ORDER.SCHEDULE", "q", "silent", "PX", 0)
            .order()
            .expect("OK");
        cmd!(c, "ORDER.CLAIM", "q", "closer-7", "PX", 1).claims();
        cmd!(c, "ORDER.SCHEDULE", "q", "held", "PX", 0)
            .order()
            .expect("OK");
        cmd!(c, "ORDER.CLAIM", "q", "closer-8", "ID", "held", "PX", LONG).claims();
        wait_until(SOON, "the last try to end", || {
            c.state("q", "silent") == "dead"
        });
        let silent = "lease of closer-7 ended without a word";
        assert_eq!(c.order("q", "silent").text("error"), silent);
        let scan = |c: &mut Client, filter: &[&str]| -> Vec<Vec<Value>> {
            let words = [&["ORDER.SCAN", "q", "0", "COUNT", "1000"], filter].concat();
            let reply = c.run(&words);
            let rows = reply.items()[1].items();
            rows.iter().map(|row| row.items().to_vec()).collect()
        };
        let held = scan(&mut c, &["OWNER", "closer-8"]);
        assert_eq!(held.len(), 1);
        assert_eq!(held[0].len(), 7);
        assert_eq!(
            (held[0][0].text(), held[0][4].text(), held[0][5].int()),
            ("held".into(), "closer-8".into(), 1)
        );
        assert_eq!(held[0][6], Value::Nil);
        assert_eq!(
            scan(&mut c, &["OWNER", "closer-7"]).len(),
            0,
            "its lease is over"
        );
        let dead = scan(&mut c, &["STATE", "dead", "MATCH", "s*"]);
        assert_eq!(
            (dead[0][4].clone(), dead[0][6].text()),
            (Value::Nil, silent.into())
        );
        let away = scan(&mut c, &["STATE", "retrying"]);
        assert!(
            away.iter()
                .all(|row| row[6].text() == "database is away" && row[5].int() == 1)
        );
        expect_healthy(&server);
    }
}

#[test]
fn a_pause_of_a_wrong_name_says_so_and_makes_nothing() {
    let missing = Value::Bulk(b"MISSING".to_vec());
    for resp3 in [false, true] {
        let server = Options::new().aof().start();
        let mut c = if resp3 {
            server.client3()
        } else {
            server.client()
        };
        let before = c.info_number("stats", "total_commands_processed");
        assert!(before > 0);
        for words in [
            argv!["ORDER.PAUSE", "q"],
            argv!["ORDER.PAUSE", "q", "PX", 1000, "REASON", "r"],
            argv!["ORDER.RESUME", "q"],
        ] {
            assert_eq!(c.run(&words), missing, "{words:?}");
            assert_eq!(cmd!(c, "EXISTS", "q").int(), 0);
        }
        let inner = c.pipeline(&[argv!["MULTI"], argv!["ORDER.PAUSE", "q"], argv!["EXEC"]]);
        assert_eq!(inner[2].items()[0], missing);
        let script = "return redis.call('ORDER.RESUME', KEYS[1])";
        assert_eq!(cmd!(c, "EVAL", script, 1, "q"), missing);
        // Settings alone make a queue.
        cmd!(c, "ORDER.CONFIG", "q", "SET", "max-leased", 5).ok();
        cmd!(c, "ORDER.RESUME", "q").ok();
        cmd!(c, "ORDER.PAUSE", "q", "REASON", "r").ok();
        cmd!(c, "ORDER.CONFIG", "q", "RESET").ok();
        cmd!(c, "ORDER.RESUME", "q").ok();
        assert_eq!(cmd!(c, "ORDER.RESUME", "q"), missing);
        cmd!(c, "SET", "text", "x").ok();
        assert!(
            cmd!(c, "ORDER.PAUSE", "text")
                .error()
                .starts_with("WRONGTYPE")
        );
        expect_healthy(&server);
    }
}
