//! Locks of an order that is finished or falls due: who waits is told, and a lock
//! holds the close back for a while.

use std::time::{Duration, Instant};

use super::{LONG, ahead, lock, still_waits, told, waiter};
use crate::support::states::expect_healthy;
use crate::support::{Client, SOON, Server, Value, args, cmd, wait_until};

#[test]
fn all_waiters_are_told_when_the_holder_finishes() {
    let server = Server::plain();
    let mut c = server.client();
    for verb in ["FINISH", "ACK"] {
        for made in [true, false] {
            let id = format!("{verb}-{made}");
            if made {
                ahead(&mut c, "q", &id);
            }
            let fence = lock(&mut c, "q", &id, "a");
            let mut waiting: Vec<Client> = (0..4)
                .map(|i| waiter(&server, "q", &id, &format!("w{i}"), &[]))
                .collect();
            if verb == "FINISH" {
                cmd!(
                    c,
                    "ORDER.FINISH",
                    "q",
                    &id,
                    "FENCE",
                    fence,
                    "STATUS",
                    "paid",
                    "RESULT",
                    "pay:9f3c"
                )
                .order()
                .expect("OK");
            } else {
                cmd!(
                    c,
                    "ORDER.ACK",
                    "q",
                    &id,
                    fence,
                    "STATUS",
                    "paid",
                    "RESULT",
                    "pay:9f3c"
                )
                .order()
                .expect("OK");
            }
            for client in &mut waiting {
                let reply = told(client).expect("FINISHED");
                assert_eq!(reply.result.as_deref(), Some(&b"pay:9f3c"[..]));
                assert_eq!(
                    (
                        reply.state.as_str(),
                        reply.status.as_deref(),
                        reply.lease_ms
                    ),
                    ("finished", Some(&b"paid"[..]), -2)
                );
            }
        }
    }
    // RESP3 too, as a map.
    let fence = lock(&mut c, "q", "map", "a");
    let mut third = server.client3();
    third.send(&args![
        "ORDER.LOCK",
        "q",
        "map",
        "b",
        "PX",
        1000,
        "BLOCK",
        0
    ]);
    wait_until(SOON, "it to wait", || c.blocked_clients() == 1);
    cmd!(c, "ORDER.ACK", "q", "map", fence, "RESULT", "r")
        .order()
        .expect("OK");
    let reply = third.read();
    assert!(matches!(reply, Value::Map(_)), "{reply:?}");
    reply.lease().expect("FINISHED");
}

#[test]
fn waiters_are_told_expired_when_the_deadline_passes() {
    let server = Server::plain();
    let mut c = server.client();
    let deadline = cmd!(c, "ORDER.SCHEDULE", "q", "1", "PX", 700)
        .order()
        .expect("OK")
        .deadline;
    cmd!(c, "ORDER.LOCK", "q", "1", "a", "PX", 5000)
        .lease()
        .expect("OK");
    let mut waiting: Vec<Client> = (0..3)
        .map(|i| waiter(&server, "q", "1", &format!("w{i}"), &[]))
        .collect();
    for client in &mut waiting {
        let reply = client.read().lease().expect("EXPIRED");
        assert!(c.time_ms() as i64 >= deadline);
        assert_eq!(
            reply.state, "leased",
            "its holder may still finish: {reply:?}"
        );
    }
    // And at once for those who come now; without BLOCK it is still held.
    cmd!(c, "ORDER.LOCK", "q", "1", "late", "PX", 1000, "BLOCK", 0)
        .lease()
        .expect("EXPIRED");
    cmd!(c, "ORDER.LOCK", "q", "1", "late", "PX", 1000)
        .lease()
        .expect("BUSY");

    // A deadline that the holder moves under them tells them too.
    ahead(&mut c, "q", "2");
    let fence = lock(&mut c, "q", "2", "a");
    let mut waits = waiter(&server, "q", "2", "b", &[]);
    cmd!(c, "ORDER.SCHEDULE", "q", "2", "PX", 0, "XX", "FENCE", fence)
        .order()
        .expect("OK");
    told(&mut waits).expect("EXPIRED");
    expect_healthy(&server);
}

#[test]
fn a_live_lock_defers_the_close_up_to_its_cap() {
    let server = Server::plain();
    let mut c = server.client();
    // Without renewal: to its end.
    let granted = Instant::now();
    cmd!(c, "MULTI").ok();
    cmd!(c, "ORDER.SCHEDULE", "short", "1", "PX", 50);
    cmd!(c, "ORDER.LOCK", "short", "1", "a", "PX", 400);
    cmd!(c, "EXEC");
    let mut closer = server.client();
    closer.send(&args![
        "ORDER.CLAIM",
        "short",
        "closer",
        "PX",
        1000,
        "BLOCK",
        0
    ]);
    let row = closer.read().claims().remove(0);
    assert!(
        granted.elapsed() >= Duration::from_millis(399),
        "the close waits for the lock's end"
    );
    assert_eq!(row.attempt, 1);
    // With all renewals: to its cap.
    let began = Instant::now();
    cmd!(c, "MULTI").ok();
    cmd!(c, "ORDER.SCHEDULE", "q", "1", "PX", 100);
    cmd!(c, "ORDER.LOCK", "q", "1", "a", "PX", 300, "MAX", 900);
    let fence = cmd!(c, "EXEC").items()[1].lease().expect("OK").fence;
    closer.send(&args![
        "ORDER.CLAIM",
        "q",
        "closer",
        "PX",
        60_000,
        "BLOCK",
        0
    ]);
    let mut answer = None;
    let mut last_ok = Duration::ZERO;
    while answer.is_none() {
        if cmd!(c, "ORDER.RENEW", "q", "1", fence, "PX", 10_000)
            .lease()
            .outcome
            == "OK"
        {
            last_ok = began.elapsed();
        }
        answer = closer.read_within(Duration::from_millis(5));
        assert!(
            began.elapsed() < Duration::from_secs(30),
            "no close is deferred for ever"
        );
    }
    assert!(
        began.elapsed() >= Duration::from_millis(899),
        "not before the cap: {:?}",
        began.elapsed()
    );
    assert!(
        last_ok > Duration::from_millis(100),
        "it was renewed past the deadline"
    );
    let row = answer.unwrap().claims().remove(0);
    assert!(row.fence > fence);
    cmd!(c, "ORDER.FINISH", "q", "1", "FENCE", fence)
        .order()
        .expect("STALE");
    // The holder that releases after the deadline lets the closer in at once.
    cmd!(c, "MULTI").ok();
    cmd!(c, "ORDER.SCHEDULE", "r", "1", "PX", 30);
    cmd!(c, "ORDER.LOCK", "r", "1", "a", "PX", LONG);
    let fence = cmd!(c, "EXEC").items()[1].lease().expect("OK").fence;
    closer.send(&args!["ORDER.CLAIM", "r", "closer", "BLOCK", 0]);
    wait_until(SOON, "the deadline", || {
        cmd!(c, "ORDER.PTTL", "r", "1").int() == 0
    });
    still_waits(&mut closer);
    cmd!(c, "ORDER.UNLOCK", "r", "1", fence)
        .lease()
        .expect("OK");
    assert_eq!(closer.read().claims().len(), 1);
    expect_healthy(&server);
}

/// With KEEP 0 nothing is left that could tell those who wait: they were granted the
/// lock, and would have done the work a second time.
#[test]
fn who_waits_is_told_of_a_finish_that_keeps_nothing() {
    let server = Server::plain();
    let mut c = server.client();
    for made in [true, false] {
        for verb in ["FINISH", "ACK"] {
            let id = format!("{verb}-{made}");
            if made {
                ahead(&mut c, "q", &id);
            }
            let fence = lock(&mut c, "q", &id, "first").to_string();
            let mut waiting: Vec<Client> = (0..3)
                .map(|i| waiter(&server, "q", &id, &format!("w{i}"), &[]))
                .collect();
            let mut words = vec![format!("ORDER.{verb}"), "q".into(), id.clone()];
            if verb == "FINISH" {
                words.push("FENCE".into());
            }
            words.extend([fence, "STATUS".into(), "paid".into()]);
            words.extend(["RESULT", "pay:1", "KEEP", "0"].map(String::from));
            c.send(&words);
            c.read().order().expect("OK");
            for client in &mut waiting {
                let reply = told(client);
                assert_eq!(reply.outcome, "FINISHED", "{id}");
                assert_eq!(reply.status.as_deref(), Some(&b"paid"[..]), "{id}");
                assert_eq!(reply.result.as_deref(), Some(&b"pay:1"[..]), "{id}");
            }
        }
    }
    expect_healthy(&server);
}
