//! Leases of closers: they end, what has ended changes nothing, and fences grow.

use std::time::Duration;

use crate::support::{Options, SOON, Server, cmd, wait_for, wait_until, wall_us};

#[test]
fn a_dead_closers_order_is_offered_again_and_it_changes_nothing_any_more() {
    let server = Options::new().events("KEd").start();
    let mut c = server.client();
    let mut listener = server.listener();
    cmd!(
        c,
        "ORDER.SCHEDULE",
        "q",
        "1",
        "PX",
        0,
        "STATUS",
        "unpaid",
        "PAYLOAD",
        "p"
    )
    .order()
    .expect("OK");

    let mut dying = server.client();
    let id = dying.id();
    let before = c.time_us();
    let first = cmd!(dying, "ORDER.CLAIM", "q", "dying", "PX", 150)
        .claims()
        .remove(0);
    let granted = c.time_us();
    assert_eq!(cmd!(c, "CLIENT", "KILL", "ID", id).int(), 1);
    drop(dying);

    // Another one waits; it gets the order at the lease's end and not before.
    let mut second = server.client();
    let rows = cmd!(
        second,
        "ORDER.CLAIM",
        "q",
        "second",
        "PX",
        60_000,
        "BLOCK",
        20_000
    )
    .claims();
    let now = wall_us();
    assert_eq!(rows.len(), 1);
    let row = &rows[0];
    assert!(
        now >= before + 150_000,
        "{} us before the lease's end",
        before + 150_000 - now
    );
    assert!(now <= granted + 20_000_000);
    assert_eq!(
        (row.id_text().as_str(), row.attempt, row.payload.as_deref()),
        ("1", 2, Some(&b"p"[..]))
    );
    assert!(row.fence > first.fence);
    let lapsed = wait_for(SOON, "order.lapsed", || {
        listener
            .message(SOON)
            .filter(|m| m.channel == "__keyevent@0__:order.lapsed")
            .map(|m| m.payload)
    });
    assert_eq!(lapsed, b"q:1");

    // The first holder comes back: STALE, and nothing has changed.
    let before = c.digest("q");
    cmd!(c, "ORDER.ACK", "q", "1", first.fence, "STATUS", "closed")
        .order()
        .expect("STALE");
    cmd!(
        c,
        "ORDER.NACK",
        "q",
        "1",
        first.fence,
        "DEAD",
        "ERROR",
        "late"
    )
    .order()
    .expect("STALE");
    cmd!(c, "ORDER.RENEW", "q", "1", first.fence, "PX", 90_000)
        .lease()
        .expect("STALE");
    cmd!(c, "ORDER.FINISH", "q", "1", "FENCE", first.fence)
        .order()
        .expect("STALE");
    cmd!(c, "ORDER.STATUS", "q", "1", "x", "FENCE", first.fence)
        .order()
        .expect("STALE");
    cmd!(c, "ORDER.SCHEDULE", "q", "1", "PX", 1, "FENCE", first.fence)
        .order()
        .expect("STALE");
    assert_eq!(
        cmd!(c, "ORDER.MACK", "q", 1, "1", first.fence).items()[0].text(),
        "STALE"
    );
    assert_eq!(c.digest("q"), before);
    cmd!(second, "ORDER.ACK", "q", "1", row.fence, "STATUS", "closed")
        .order()
        .expect("OK");
    cmd!(c, "ORDER.ACK", "q", "1", first.fence)
        .order()
        .expect("FINISHED");
}

#[test]
fn a_lease_ends_when_it_should_and_not_before() {
    let server = Server::plain();
    let mut c = server.client();
    for lease in [1_u64, 2, 10, 50, 120] {
        cmd!(c, "ORDER.SCHEDULE", "q", "1", "PX", 0, "UPSERT")
            .order()
            .expect("OK");
        let before = c.time_us();
        let first = cmd!(c, "ORDER.CLAIM", "q", "a", "PX", lease)
            .claims()
            .remove(0);
        let again = wait_for(SOON, "the lease's end", || {
            cmd!(c, "ORDER.CLAIM", "q", "b", "PX", 60_000)
                .claims()
                .pop()
        });
        let after = c.time_us();
        assert!(
            after >= before + lease * 1000,
            "a lease of {lease} ms ended after {} us",
            after - before
        );
        assert_eq!(again.attempt, 2);
        assert!(again.fence > first.fence);
        cmd!(c, "ORDER.ACK", "q", "1", again.fence, "KEEP", 0)
            .order()
            .expect("OK");
    }
}

#[test]
fn the_last_failed_try_is_dead_with_its_error_and_says_so() {
    let server = Options::new()
        .events("KEd")
        .set("max-attempts", 3)
        .set("backoff-ms", 1)
        .start();
    let mut c = server.client();
    let mut listener = server.client();
    listener.subscribe(&["__keyevent@0__:order.dead"]);
    for how in ["nack", "lapse", "flag"] {
        cmd!(
            c,
            "ORDER.SCHEDULE",
            "q",
            how,
            "PX",
            0,
            "STATUS",
            "unpaid",
            "PAYLOAD",
            "p"
        )
        .order()
        .expect("OK");
        let mut last = 0;
        for attempt in 1..=3 {
            let row = wait_for(SOON, "the next try", || {
                cmd!(c, "ORDER.CLAIM", "q", "me", "PX", 30).claims().pop()
            });
            assert_eq!((row.id_text().as_str(), row.attempt), (how, attempt));
            assert!(row.fence > last);
            last = row.fence;
            match (how, attempt) {
                // This one is given up on its first try.
                ("flag", _) => {
                    let reply = cmd!(c, "ORDER.NACK", "q", how, last, "DEAD", "ERROR", "hopeless")
                        .order()
                        .expect("OK");
                    assert_eq!(reply.state, "dead");
                    break;
                }
                ("lapse", 3) => wait_until(SOON, "the last lapse", || c.state("q", how) == "dead"),
                ("lapse", 2) => {}
                _ => {
                    let error = format!("try {attempt}");
                    let reply = cmd!(c, "ORDER.NACK", "q", how, last, "ERROR", error)
                        .order()
                        .expect("OK");
                    assert_eq!(reply.state, if attempt == 3 { "dead" } else { "retrying" });
                }
            }
        }
        let order = c.order("q", how);
        let error = match how {
            "nack" => "try 3",
            "lapse" => "lease of me ended without a word",
            _ => "hopeless",
        };
        assert_eq!(
            (order.state().as_str(), order.text("error").as_str()),
            ("dead", error)
        );
        assert_eq!(
            (
                order.text("payload").as_str(),
                order.text("status").as_str()
            ),
            ("p", "unpaid")
        );
        let message = listener.message(SOON).expect("order.dead is published");
        assert_eq!(message.payload, format!("q:{how}").into_bytes());
        // Never offered again, but an operator brings it back, with attempt 1.
        assert_eq!(cmd!(c, "ORDER.CLAIM", "q", "me", "BLOCK", 20).claims(), []);
        cmd!(c, "ORDER.SCHEDULE", "q", how, "PX", 0, "XX")
            .order()
            .expect("OK");
        let row = cmd!(c, "ORDER.CLAIM", "q", "me", "PX", 60_000)
            .claims()
            .remove(0);
        assert_eq!(row.attempt, 1);
        cmd!(c, "ORDER.ACK", "q", how, row.fence)
            .order()
            .expect("OK");
    }
    assert_eq!(
        listener.message(Duration::from_millis(50)),
        None,
        "once each"
    );
}

#[test]
fn fences_grow_across_everything_that_forgets_them() {
    let mut server = Options::new().aof().start();
    let mut last = 0;
    for round in ["first", "DEL", "FLUSHALL", "restart", "kill", "again"] {
        let mut c = server.client();
        cmd!(c, "ORDER.SCHEDULE", "q", "1", "PX", 0)
            .order()
            .expect("OK");
        let row = cmd!(c, "ORDER.CLAIM", "q", "me").claims().remove(0);
        assert!(row.fence > last, "{round}: {} after {last}", row.fence);
        assert!(row.fence < 1 << 53);
        last = row.fence;
        match round {
            "DEL" => drop(cmd!(c, "DEL", "q")),
            "FLUSHALL" => drop(cmd!(c, "FLUSHALL")),
            "restart" => server.restart(),
            "kill" => server.kill_and_restart(),
            _ => {}
        }
        let mut c = server.client();
        cmd!(c, "DEL", "q");
    }
}
