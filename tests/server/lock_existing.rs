//! LOCK … XX: the lock of an order that is there.

use crate::support::states::expect_healthy;
use crate::support::{Client, Options, SOON, Server, args, argv, cmd, wait_until};

/// Longer than any test.
const LONG: u64 = 600_000;

/// A client that waits for the lock of order 1 of `q`, if that is there.
#[track_caller]
fn waiter(server: &Server, c: &mut Client, owner: &str) -> Client {
    let waiting = c.blocked_clients();
    let mut client = server.client();
    client.send(&args![
        "ORDER.LOCK",
        "q",
        "1",
        owner,
        "PX",
        5000,
        "BLOCK",
        0,
        "XX"
    ]);
    wait_until(SOON, "it to wait", || c.blocked_clients() == waiting + 1);
    client
}

#[test]
fn a_payment_that_comes_before_its_order_is_told_so() {
    for resp3 in [false, true] {
        let server = Server::plain();
        let mut c = if resp3 {
            server.client3()
        } else {
            server.client()
        };
        let ask = argv!["ORDER.LOCK", "q", "1", "pay", "PX", LONG, "XX"];
        let reply = c.run(&ask).lease().expect("MISSING");
        assert_eq!(
            (reply.state.as_str(), reply.fence, reply.lease_ms),
            ("missing", 0, -2)
        );
        let blocked = argv!["ORDER.LOCK", "q", "1", "pay", "PX", LONG, "XX", "BLOCK", 0];
        c.run(&blocked).lease().expect("MISSING");
        assert_eq!(cmd!(c, "EXISTS", "q").int(), 0);
        // A reservation is no order, not even one's own.
        cmd!(c, "ORDER.LOCK", "q", "1", "pay", "PX", LONG)
            .lease()
            .expect("OK");
        let reply = c.run(&ask).lease().expect("MISSING");
        assert_eq!(reply.state, "reserved");
        let fence = c.order("q", "1").fence();
        cmd!(c, "ORDER.UNLOCK", "q", "1", fence)
            .lease()
            .expect("OK");
        cmd!(
            c,
            "ORDER.SCHEDULE",
            "q",
            "1",
            "PX",
            LONG,
            "STATUS",
            "unpaid"
        )
        .order()
        .expect("OK");
        let fence = c.run(&ask).lease().expect("OK").fence;
        c.run(&ask).lease().expect("HELD");
        cmd!(
            c,
            "ORDER.FINISH",
            "q",
            "1",
            "FENCE",
            fence,
            "FROM",
            "unpaid"
        )
        .order()
        .expect("OK");
        c.run(&ask).lease().expect("FINISHED");
        let inner = c.pipeline(&[
            argv!["MULTI"],
            argv!["ORDER.LOCK", "q", "2", "pay", "PX", LONG, "XX", "BLOCK", 0],
            argv!["EXEC"],
        ]);
        inner[2].items()[0].lease().expect("MISSING");
        let script = "return redis.call('ORDER.LOCK', KEYS[1], '2', 'pay', 'PX', 5000, 'XX')[1]";
        assert_eq!(cmd!(c, "EVAL", script, 1, "q").text(), "MISSING");
        assert!(
            cmd!(c, "ORDER.LOCK", "q", "1", "pay", "PX", LONG, "XX", "XX")
                .error()
                .contains("given twice")
        );
        expect_healthy(&server);
    }
}

#[test]
fn who_waits_is_told_when_the_order_or_its_queue_goes() {
    let server = Server::plain();
    let mut c = server.client();
    let locked = |c: &mut Client| {
        cmd!(c, "ORDER.SCHEDULE", "q", "1", "PX", LONG)
            .order()
            .expect("OK");
        let lock = cmd!(c, "ORDER.LOCK", "q", "1", "holder", "PX", LONG);
        lock.lease().expect("OK").fence
    };
    for goes in [
        argv!["DEL", "q"],
        argv!["UNLINK", "q"],
        argv!["FLUSHALL"],
        argv!["RENAME", "q", "other"],
    ] {
        locked(&mut c);
        let mut waits = waiter(&server, &mut c, "payer");
        c.run(&goes);
        let reply = waits.read().lease().expect("MISSING");
        assert_eq!(
            (reply.state.as_str(), reply.status),
            ("missing", None),
            "{goes:?}"
        );
        assert_eq!(cmd!(c, "EXISTS", "q").int(), 0, "{goes:?}: nothing is made");
    }
    // The same id as a mere reservation is no order.
    locked(&mut c);
    let mut waits = waiter(&server, &mut c, "payer");
    c.pipeline(&[
        argv!["MULTI"],
        argv!["DEL", "q"],
        argv!["ORDER.LOCK", "q", "1", "somebody", "PX", LONG],
        argv!["EXEC"],
    ]);
    waits.read().lease().expect("MISSING");
    cmd!(c, "DEL", "q");
    // One that stays is granted; one that is finished and not kept says so.
    let fence = locked(&mut c);
    let mut waits = waiter(&server, &mut c, "payer");
    cmd!(c, "ORDER.UNLOCK", "q", "1", fence)
        .lease()
        .expect("OK");
    let fence = waits.read().lease().expect("OK").fence;
    let mut waits = waiter(&server, &mut c, "another");
    cmd!(
        c,
        "ORDER.FINISH",
        "q",
        "1",
        "FENCE",
        fence,
        "STATUS",
        "paid",
        "KEEP",
        0
    )
    .order()
    .expect("OK");
    waits.read().lease().expect("FINISHED");
    expect_healthy(&server);
}

#[test]
fn what_it_grants_is_a_lock_like_any_other() {
    let mut primary = Options::new().tcp().aof().start();
    let replica = Options::new().aof().replica_of(primary.port()).start();
    let (mut c, mut r) = (primary.client(), replica.client());
    replica.wait_in_sync(&primary);
    cmd!(c, "ORDER.SCHEDULE", "q", "1", "PX", LONG)
        .order()
        .expect("OK");
    cmd!(
        c,
        "ORDER.LOCK",
        "q",
        "1",
        "w",
        "PX",
        LONG,
        "XX",
        "REENTRANT"
    )
    .lease()
    .expect("OK");
    cmd!(
        c,
        "ORDER.LOCK",
        "q",
        "1",
        "w",
        "PX",
        LONG,
        "XX",
        "REENTRANT"
    )
    .lease()
    .expect("HELD");
    cmd!(c, "ORDER.LOCK", "q", "2", "w", "PX", LONG, "XX")
        .lease()
        .expect("MISSING");
    replica.wait_in_sync(&primary);
    assert_eq!(r.digest("q"), c.digest("q"));
    let digest = c.digest("q");
    primary.restart();
    let mut c = primary.client();
    assert_eq!((c.digest("q"), c.order("q", "1").int("holds")), (digest, 2));
    expect_healthy(&primary);
    expect_healthy(&replica);
}
