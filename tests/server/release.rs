//! RELEASE: the leases of a worker that is gone.

use crate::support::states::expect_healthy;
use crate::support::{Client, Options, SOON, Server, Value, args, argv, cmd, wait_until};

/// Longer than any test.
const LONG: u64 = 600_000;

/// `[released, left]`.
#[track_caller]
fn swept(reply: &Value) -> (i64, i64) {
    let [done, left] = reply.items() else {
        panic!("{reply:?}")
    };
    (done.int(), left.int())
}

/// Orders `0` to `count`, claimed by `owner`; their fences.
#[track_caller]
fn claimed(c: &mut Client, owner: &str, count: usize) -> Vec<u64> {
    for n in 0..count {
        cmd!(c, "ORDER.SCHEDULE", "q", n, "PX", 0)
            .order()
            .expect("OK");
    }
    let rows = cmd!(c, "ORDER.CLAIM", "q", owner, "COUNT", count, "PX", LONG).claims();
    assert_eq!(rows.len(), count);
    rows.iter().map(|row| row.fence).collect()
}

#[test]
fn what_a_worker_held_goes_to_those_who_wait() {
    for resp3 in [false, true] {
        let server = Options::new().events("KEd").start();
        let mut c = if resp3 {
            server.client3()
        } else {
            server.client()
        };
        let fences = claimed(&mut c, "gone", 3);
        cmd!(c, "ORDER.LOCK", "q", "locked", "gone", "PX", LONG)
            .lease()
            .expect("OK");
        let mut listener = server.client();
        listener.subscribe(&["__keyevent@0__:order.lapsed", "__keyevent@0__:order.unlock"]);
        let mut closer = server.client();
        closer.send(&args!["ORDER.CLAIM", "q", "new", "BLOCK", 0, "PX", LONG]);
        let mut payer = server.client();
        payer.send(&args![
            "ORDER.LOCK",
            "q",
            "locked",
            "payer",
            "PX",
            LONG,
            "BLOCK",
            0
        ]);
        wait_until(SOON, "both to wait", || c.blocked_clients() == 2);
        let rev = c.order("q", "2").int("rev");

        assert_eq!(swept(&cmd!(c, "ORDER.RELEASE", "q", "somebody")), (0, 0));
        assert_eq!(
            swept(&cmd!(c, "ORDER.RELEASE", "q", "gone", "COUNT", 1)),
            (1, 3)
        );
        assert_eq!(swept(&cmd!(c, "ORDER.RELEASE", "q", "gone")), (3, 0));
        assert_eq!(swept(&cmd!(c, "ORDER.RELEASE", "q", "gone")), (0, 0));
        assert_eq!(closer.read().claims()[0].id_text(), "0");
        payer.read().lease().expect("OK");
        // The rev stays, and the late word counts as long as nobody else has written.
        assert_eq!(
            (c.order("q", "2").int("rev"), c.state("q", "2")),
            (rev, "expired".into())
        );
        cmd!(c, "ORDER.ACK", "q", "2", fences[2])
            .order()
            .expect("OK");
        cmd!(c, "ORDER.ACK", "q", "0", fences[0])
            .order()
            .expect("STALE");
        let mut lapsed = Vec::new();
        while lapsed.len() < 4 {
            let message = listener.message(SOON).expect("an announcement");
            assert!(message.channel.ends_with("order.lapsed"), "{message:?}");
            lapsed.push(String::from_utf8(message.payload).unwrap());
        }
        lapsed.sort();
        assert_eq!(lapsed, ["q:0", "q:1", "q:2", "q:locked"]);
        assert_eq!(c.stat("q", "lapsed_total").int(), 4);
        assert_eq!(
            cmd!(c, "ORDER.RELEASE", "none", "gone"),
            Value::Array(vec![Value::Int(0), Value::Int(0)])
        );
        assert_eq!(cmd!(c, "EXISTS", "none").int(), 0);
        expect_healthy(&server);
    }
}

#[test]
fn within_transactions_and_scripts_and_for_those_who_watch() {
    let server = Server::plain();
    let mut c = server.client();
    claimed(&mut c, "w", 3);
    let mut watcher = server.client();
    cmd!(watcher, "WATCH", "q").ok();
    let replies = c.pipeline(&[
        argv!["MULTI"],
        argv!["ORDER.RELEASE", "q", "w", "COUNT", 2],
        argv!["ORDER.CLAIM", "q", "x", "COUNT", 9],
        argv!["ORDER.STATS", "q"],
        argv!["EXEC"],
    ]);
    let inner = replies.last().unwrap().items();
    assert_eq!(swept(&inner[0]), (2, 1));
    let rows = inner[1].claims();
    assert_eq!((rows.len(), rows[0].attempt), (2, 2));
    cmd!(watcher, "MULTI").ok();
    cmd!(watcher, "PING");
    assert_eq!(cmd!(watcher, "EXEC"), Value::Nil, "it was told");
    let script = "return redis.call('ORDER.RELEASE', KEYS[1], ARGV[1])";
    assert_eq!(swept(&cmd!(c, "EVAL", script, 1, "q", "w")), (1, 0));
    for (words, error) in [
        (argv!["ORDER.RELEASE", "q"], "wrong number"),
        (argv!["ORDER.RELEASE", "q", ""], "length of owner"),
        (
            argv!["ORDER.RELEASE", "q", "w", "COUNT", 1001],
            "between 1 and 1000",
        ),
        (argv!["ORDER.RELEASE", "q", "w", "NOW"], "unknown option"),
    ] {
        assert!(c.run(&words).error().contains(error), "{words:?}");
    }
    cmd!(c, "SET", "text", "x").ok();
    assert!(
        cmd!(c, "ORDER.RELEASE", "text", "w")
            .error()
            .starts_with("WRONGTYPE")
    );
    expect_healthy(&server);
}

#[test]
fn the_replica_and_the_log_end_with_the_same() {
    let mut primary = Options::new().tcp().aof().start();
    let replica = Options::new().aof().replica_of(primary.port()).start();
    let (mut c, mut r) = (primary.client(), replica.client());
    replica.wait_in_sync(&primary);
    let fences = claimed(&mut c, "w", 5);
    cmd!(c, "ORDER.CONFIG", "q", "SET", "max-attempts", 1).ok();
    cmd!(c, "ORDER.SCHEDULE", "q", "last", "PX", 0)
        .order()
        .expect("OK");
    cmd!(c, "ORDER.CLAIM", "q", "w", "PX", LONG).claims();
    cmd!(c, "ORDER.LOCK", "q", "reserved", "w", "PX", LONG)
        .lease()
        .expect("OK");
    cmd!(c, "ORDER.SCHEDULE", "q", "ahead", "PX", LONG)
        .order()
        .expect("OK");
    cmd!(c, "ORDER.LOCK", "q", "ahead", "w", "PX", LONG)
        .lease()
        .expect("OK");
    assert_eq!(swept(&cmd!(c, "ORDER.RELEASE", "q", "w")), (8, 0));
    cmd!(c, "ORDER.ACK", "q", "4", fences[4])
        .order()
        .expect("OK");
    wait_until(SOON, "the reservation to go", || {
        c.stat("q", "reserved").int() == 0
    });
    let expected = [
        ("0", "expired"),
        ("4", "finished"),
        ("last", "dead"),
        ("reserved", "missing"),
        ("ahead", "scheduled"),
    ];
    let states = |c: &mut Client| expected.map(|(id, _)| c.state("q", id));
    let words = expected.map(|(_, state)| state.to_owned());
    assert_eq!(states(&mut c), words);
    replica.wait_in_sync(&primary);
    assert_eq!(r.digest("q"), c.digest("q"));
    assert_eq!(states(&mut r), words);
    assert_eq!(r.stat("q", "live_claims").int(), 0);
    assert!(
        cmd!(r, "ORDER.RELEASE", "q", "w")
            .error()
            .starts_with("READONLY")
    );
    let digest = c.digest("q");
    cmd!(c, "DEBUG", "LOADAOF").ok();
    assert_eq!(
        (c.digest("q"), states(&mut c)),
        (digest.clone(), words.clone())
    );
    primary.restart();
    let mut c = primary.client();
    assert_eq!((c.digest("q"), states(&mut c)), (digest, words));
    expect_healthy(&primary);
    expect_healthy(&replica);
}
