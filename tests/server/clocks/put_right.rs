//! A clock that was wrong, and is put right.

use super::{HOUR, LONG_AGO, waiter};
use crate::support::states::expect_healthy;
use crate::support::{Client, Clock, Options, SOON, Server, cmd, wait_until};

/// A server that goes by this clock and keeps an append-only file.
fn kept(clock: &Clock) -> Server {
    clock.rule(Options::new().aof()).start()
}

/// Kills the server, sets its clock, and starts it again.
#[track_caller]
fn put_right(server: &mut Server, clock: &Clock, ahead: i64) -> Client {
    server.kill();
    clock.set_ahead(ahead);
    server.start_again();
    server.client()
}

#[test]
fn a_claim_granted_under_a_fast_clock_is_no_longer_after_a_start() {
    let clock = Clock::new();
    clock.set_ahead(2 * HOUR);
    let mut server = kept(&clock);
    let mut c = server.client();
    cmd!(c, "ORDER.CONFIG", "q", "SET", "max-leased", 2);
    for id in 0..5 {
        cmd!(c, "ORDER.SCHEDULE", "q", id, "PXAT", LONG_AGO)
            .order()
            .expect("OK");
    }
    let rows = cmd!(c, "ORDER.CLAIM", "q", "dead", "COUNT", 5, "PX", 1000).claims();
    assert_eq!(rows.len(), 2, "max-leased");

    let mut c = put_right(&mut server, &clock, 0);
    for row in &rows {
        let order = c.order("q", &row.id_text());
        let left = order.int("lease_ms");
        assert!(left <= 1000, "a second was asked for: {order:?}");
    }
    // The dead ones make room within a second, and the others are handed out.
    let mut got = Vec::new();
    wait_until(SOON, "all overdue orders", || {
        let rows = cmd!(c, "ORDER.CLAIM", "q", "me", "COUNT", 5, "PX", 60_000).claims();
        for row in rows {
            cmd!(c, "ORDER.ACK", "q", row.id_text(), row.fence)
                .order()
                .expect("OK");
            got.push(row.id_text());
        }
        got.len() == 5
    });
    expect_healthy(&server);
}

#[test]
fn a_lock_and_a_wait_under_a_fast_clock_are_no_longer_after_a_start() {
    let clock = Clock::new();
    clock.set_ahead(2 * HOUR);
    let mut server = kept(&clock);
    let mut c = server.client();
    cmd!(c, "ORDER.LOCK", "idem", "k", "one", "PX", 1000)
        .lease()
        .expect("OK");
    cmd!(c, "ORDER.LOCK", "idem", "long", "one", "PX", 500_000)
        .lease()
        .expect("OK");
    cmd!(c, "ORDER.SCHEDULE", "q", "1", "PXAT", LONG_AGO)
        .order()
        .expect("OK");
    let row = cmd!(c, "ORDER.CLAIM", "q", "me").claims().remove(0);
    cmd!(c, "ORDER.NACK", "q", "1", row.fence, "DELAY", 1500)
        .order()
        .expect("OK");

    let mut c = put_right(&mut server, &clock, 0);
    let reply = cmd!(c, "ORDER.LOCK", "idem", "k", "two", "PX", 1000).lease();
    assert!(reply.lease_ms <= 1000, "{reply:?}");
    let reply = cmd!(c, "ORDER.LOCK", "idem", "long", "two", "PX", 1000)
        .lease()
        .expect("BUSY");
    assert!(reply.lease_ms <= 500_000, "{reply:?}");
    wait_until(SOON, "the lock to lapse", || {
        cmd!(c, "ORDER.LOCK", "idem", "k", "two", "PX", 1000)
            .lease()
            .outcome
            == "OK"
    });
    // The wait of a second and a half, not of two hours.
    let mut client = waiter(&server, "q");
    assert_eq!(client.read().claims()[0].attempt, 2);
    expect_healthy(&server);
}

#[test]
fn a_claim_that_has_lapsed_does_not_come_back_with_an_earlier_clock() {
    let clock = Clock::new();
    let mut server = kept(&clock);
    let mut c = server.client();
    cmd!(c, "ORDER.SCHEDULE", "q", "1", "PXAT", LONG_AGO)
        .order()
        .expect("OK");
    let row = cmd!(c, "ORDER.CLAIM", "q", "me", "PX", 50)
        .claims()
        .remove(0);
    wait_until(SOON, "the claim to lapse", || {
        c.state("q", "1") == "expired"
    });

    let mut c = put_right(&mut server, &clock, -HOUR);
    let order = c.order("q", "1");
    assert!(order.int("lease_ms") <= 50, "{order:?}");
    wait_until(SOON, "what is left of it to end", || {
        c.state("q", "1") == "expired"
    });
    let reply = cmd!(c, "ORDER.RENEW", "q", "1", row.fence, "PX", 60_000, "LT").lease();
    assert_eq!(
        (&reply.outcome[..], reply.lease_ms),
        ("GONE", -2),
        "{reply:?}"
    );
    assert_eq!(cmd!(c, "ORDER.CLAIM", "q", "next").claims().len(), 1);
    expect_healthy(&server);
}
