//! One lock and its holder: it is held once, counts up and down, is renewed and ends.

use std::thread;
use std::time::{Duration, Instant};

use super::{HANDED_OVER, LONG, QUIET, ahead, lock, told, waiter};
use crate::support::states::expect_healthy;
use crate::support::{Client, Clock, Options, SOON, Server, cmd, wait_until};

#[test]
fn a_lock_first_and_then_the_creation() {
    let server = Server::plain();
    let mut c = server.client();
    let fence = lock(&mut c, "q", "1", "pay");
    let reply = cmd!(
        c,
        "ORDER.SCHEDULE",
        "q",
        "1",
        "PX",
        LONG,
        "UPSERT",
        "FENCE",
        fence,
        "STATUS",
        "unpaid"
    )
    .order()
    .expect("OK");
    assert_eq!(
        (reply.state.as_str(), reply.was.as_str()),
        ("leased", "reserved")
    );
    assert_eq!(c.order("q", "1").fence(), fence);
    cmd!(c, "ORDER.UNLOCK", "q", "1", fence)
        .lease()
        .expect("OK");
    assert_eq!(c.state("q", "1"), "scheduled");
}

#[test]
fn a_lock_repeated_after_a_lost_reply_is_held_once() {
    let server = Server::plain();
    let mut c = server.client();
    for made in [false, true] {
        let id = format!("{made}");
        if made {
            ahead(&mut c, "q", &id);
        }
        let fence = lock(&mut c, "q", &id, "pay:9f3c");
        for _ in 0..3 {
            let reply = cmd!(c, "ORDER.LOCK", "q", &id, "pay:9f3c", "PX", LONG)
                .lease()
                .expect("HELD");
            assert_eq!((reply.fence, reply.holds), (fence, 1));
        }
        let mut waiting = waiter(&server, "q", &id, "next", &[]);
        let reply = cmd!(
            c,
            "ORDER.LOCK",
            "q",
            &id,
            "pay:9f3c",
            "PX",
            LONG,
            "BLOCK",
            5000
        )
        .lease()
        .expect("HELD");
        assert_eq!(
            (reply.fence, reply.holds),
            (fence, 1),
            "the holder does not wait for itself"
        );
        cmd!(c, "ORDER.UNLOCK", "q", &id, fence)
            .lease()
            .expect("OK");
        assert!(
            told(&mut waiting).expect("OK").fence > fence,
            "one UNLOCK frees it"
        );
        let again = cmd!(c, "ORDER.UNLOCK", "q", &id, fence).lease();
        again.expect("STALE");
    }
}

#[test]
fn a_reentrant_lock_counts_up_and_down_under_one_fence() {
    let server = Server::plain();
    let mut c = server.client();
    ahead(&mut c, "q", "1");
    let fence = cmd!(c, "ORDER.LOCK", "q", "1", "me", "PX", LONG, "REENTRANT")
        .lease()
        .expect("OK")
        .fence;
    for holds in 2..=4 {
        let reply = cmd!(c, "ORDER.LOCK", "q", "1", "me", "PX", 1000, "REENTRANT")
            .lease()
            .expect("HELD");
        assert_eq!((reply.fence, reply.holds), (fence, holds));
    }
    let reply = cmd!(c, "ORDER.LOCK", "q", "1", "me", "PX", 1000)
        .lease()
        .expect("HELD");
    assert_eq!(reply.holds, 4, "only REENTRANT counts");
    assert_eq!(c.order("q", "1").int("holds"), 4);
    for holds in [3, 2, 1] {
        let reply = cmd!(c, "ORDER.UNLOCK", "q", "1", fence)
            .lease()
            .expect("HELD");
        assert_eq!(
            (reply.fence, reply.holds, reply.state.as_str()),
            (fence, holds, "leased")
        );
        assert!(
            reply.lease_ms > 500_000,
            "its lease is as it was: {reply:?}"
        );
        cmd!(c, "ORDER.LOCK", "q", "1", "other", "PX", 1000)
            .lease()
            .expect("BUSY");
    }
    let reply = cmd!(c, "ORDER.UNLOCK", "q", "1", fence)
        .lease()
        .expect("OK");
    assert_eq!(
        (reply.holds, reply.state.as_str(), reply.lease_ms),
        (0, "scheduled", -2)
    );
    cmd!(c, "ORDER.UNLOCK", "q", "1", fence)
        .lease()
        .expect("GONE");
    // BREAK ends all holds at once.
    for _ in 0..3 {
        cmd!(c, "ORDER.LOCK", "q", "1", "me", "PX", LONG, "REENTRANT");
    }
    cmd!(c, "ORDER.BREAK", "q", "1").lease().expect("OK");
    lock(&mut c, "q", "1", "other");
}

#[test]
fn a_lease_is_never_shortened_but_by_lt() {
    let server = Server::plain();
    let mut c = server.client();
    ahead(&mut c, "q", "1");
    let fence = lock(&mut c, "q", "1", "me");
    let reply = cmd!(c, "ORDER.LOCK", "q", "1", "me", "PX", 10)
        .lease()
        .expect("HELD");
    assert!(reply.lease_ms > 500_000, "{reply:?}");
    let reply = cmd!(c, "ORDER.RENEW", "q", "1", fence, "PX", 10)
        .lease()
        .expect("OK");
    assert!(reply.lease_ms > 500_000, "{reply:?}");
    let reply = cmd!(c, "ORDER.RENEW", "q", "1", fence, "PX", 50_000, "LT")
        .lease()
        .expect("OK");
    assert!((1..=50_001).contains(&reply.lease_ms), "{reply:?}");
    let reply = cmd!(c, "ORDER.RENEW", "q", "1", fence, "PX", 200_000, "LT")
        .lease()
        .expect("OK");
    assert!(
        (1..=50_001).contains(&reply.lease_ms),
        "LT only shortens: {reply:?}"
    );
    let reply = cmd!(c, "ORDER.LOCK", "q", "1", "me", "EX", 100)
        .lease()
        .expect("HELD");
    assert!((60_000..=100_001).contains(&reply.lease_ms), "{reply:?}");
    let reply = cmd!(c, "ORDER.RENEW", "q", "1", fence, "PX", 1, "LT")
        .lease()
        .expect("OK");
    assert!(reply.lease_ms <= 2, "{reply:?}");
    wait_until(SOON, "its end", || c.state("q", "1") == "scheduled");
}

#[test]
fn renew_never_resurrects() {
    let server = Server::plain();
    let mut c = server.client();
    let renew = |c: &mut Client, id: &str, fence: u64| {
        cmd!(c, "ORDER.RENEW", "q", id, fence, "PX", LONG).lease()
    };
    ahead(&mut c, "q", "1");
    let fence = cmd!(c, "ORDER.LOCK", "q", "1", "me", "PX", 20)
        .lease()
        .expect("OK")
        .fence;
    wait_until(SOON, "the lapse", || c.state("q", "1") == "scheduled");
    let reply = renew(&mut c, "1", fence).expect("GONE");
    assert_eq!(
        (reply.lease_ms, reply.holds, reply.state.as_str()),
        (-2, 0, "scheduled")
    );
    let second = lock(&mut c, "q", "1", "me");
    assert!(second > fence, "a new grant");
    renew(&mut c, "1", fence).expect("STALE");
    cmd!(c, "ORDER.UNLOCK", "q", "1", second)
        .lease()
        .expect("OK");
    renew(&mut c, "1", second).expect("GONE");
    let third = lock(&mut c, "q", "1", "me");
    cmd!(c, "ORDER.BREAK", "q", "1", third).lease().expect("OK");
    let reply = renew(&mut c, "1", third);
    assert!(
        matches!(reply.outcome.as_str(), "GONE" | "STALE"),
        "{reply:?}"
    );
    cmd!(c, "ORDER.LOCK", "q", "unknown", "me", "PX", 5)
        .lease()
        .expect("OK");
    wait_until(SOON, "the lapse", || c.state("q", "unknown") == "missing");
    renew(&mut c, "unknown", fence).expect("MISSING");
    let fence = lock(&mut c, "q", "1", "me");
    cmd!(c, "ORDER.FINISH", "q", "1", "FENCE", fence)
        .order()
        .expect("OK");
    renew(&mut c, "1", fence).expect("GONE");
}

#[test]
fn max_is_kept_whatever_the_renewals() {
    let server = Server::plain();
    let mut c = server.client();
    ahead(&mut c, "q", "1");
    let began = Instant::now();
    let fence = cmd!(c, "ORDER.LOCK", "q", "1", "me", "PX", 100, "MAX", 600)
        .lease()
        .expect("OK")
        .fence;
    let granted = Instant::now();
    let mut renewals = 0;
    let mut held = 0;
    loop {
        let asked = began.elapsed();
        let reply = cmd!(c, "ORDER.RENEW", "q", "1", fence, "PX", 60_000).lease();
        if reply.outcome == "GONE" {
            break;
        }
        reply.clone().expect("OK");
        let left = Duration::from_millis(reply.lease_ms as u64);
        assert!(
            asked + left <= Duration::from_millis(620) + (granted - began),
            "{reply:?} after {asked:?}"
        );
        let again = cmd!(c, "ORDER.LOCK", "q", "1", "me", "PX", 60_000, "MAX", 60_000).lease();
        if again.outcome == "HELD" {
            assert!(again.lease_ms <= reply.lease_ms, "{again:?}");
            held += 1;
        } else {
            // Its cap has come between the two.
            assert!(again.expect("OK").fence > fence);
            break;
        }
        renewals += 1;
        thread::sleep(Duration::from_millis(10));
        assert!(began.elapsed() < Duration::from_secs(30), "MAX is over");
    }
    assert!(
        began.elapsed() >= Duration::from_millis(598),
        "not before its cap"
    );
    assert!(renewals > 1 && held > 0);
    assert_ne!(c.order("q", "1").fence(), 0);

    // The queue's and the server's limits clamp, and the reply shows it.
    cmd!(c, "ORDER.CONFIG", "q", "SET", "lock-ms-max", 5000).ok();
    let reply = cmd!(c, "ORDER.LOCK", "q", "2", "me", "PX", 60_000)
        .lease()
        .expect("OK");
    assert!((3000..=5001).contains(&reply.lease_ms), "{reply:?}");
    let reply = cmd!(c, "ORDER.LOCK", "q", "3", "me", "PX", 60_000, "MAX", 60_000)
        .lease()
        .expect("OK");
    assert!((3000..=5001).contains(&reply.lease_ms), "{reply:?}");
    let reply = cmd!(c, "ORDER.RENEW", "q", "2", reply.fence, "PX", 60_000).lease();
    reply.expect("STALE");
    c.config("orderwheel.lease-ms-max", "2000");
    let reply = cmd!(c, "ORDER.LOCK", "q2", "1", "me", "PX", 2000)
        .lease()
        .expect("OK");
    assert!((1..=2001).contains(&reply.lease_ms), "{reply:?}");
}

#[test]
fn a_lock_on_an_unknown_id_lives_and_dies_with_the_lock() {
    let server = Options::new().events("KEgd").start();
    let mut c = server.client();
    let mut listener = server.client();
    listener.psubscribe(&["__keyevent@0__:*"]);
    let fence = lock(&mut c, "q", "1", "me");
    assert_eq!(
        (
            c.state("q", "1").as_str(),
            c.stat("q", "reserved").int(),
            c.stat("q", "orders").int()
        ),
        ("reserved", 1, 1)
    );
    assert_eq!(cmd!(c, "ORDER.CLAIM", "q", "x", "COUNT", 10).claims(), []);
    let reply = cmd!(c, "ORDER.UNLOCK", "q", "1", fence)
        .lease()
        .expect("OK");
    assert_eq!(
        (
            reply.fence,
            reply.lease_ms,
            reply.state.as_str(),
            reply.status
        ),
        (0, -2, "missing", None)
    );
    assert_eq!(
        cmd!(c, "EXISTS", "q").int(),
        0,
        "the last order takes the key with it"
    );
    cmd!(c, "ORDER.LOCK", "q", "1", "me", "PX", 20)
        .lease()
        .expect("OK");
    wait_until(SOON, "the key to go by itself", || {
        cmd!(c, "DBSIZE").int() == 0
    });
    let heard: Vec<String> = listener
        .messages(QUIET)
        .into_iter()
        .map(|m| {
            format!(
                "{} {}",
                m.channel.trim_start_matches("__keyevent@0__:"),
                String::from_utf8_lossy(&m.payload)
            )
        })
        .collect();
    let expected = [
        "order.lock q:1",
        "order.unlock q:1",
        "del q",
        "order.lock q:1",
        "order.lapsed q:1",
        "del q",
    ];
    let heard: Vec<&String> = heard
        .iter()
        .filter(|line| !line.starts_with("new "))
        .collect();
    assert_eq!(heard, expected.iter().collect::<Vec<_>>());
}

#[test]
fn a_three_second_lock_lasts_three_seconds_whatever_the_clock_says() {
    const HOUR_MS: i64 = 3_600_000;
    for step in [-HOUR_MS, HOUR_MS] {
        let clock = Clock::new();
        let server = clock.rule(Options::new().aof()).start();
        let mut c = server.client();
        cmd!(c, "ORDER.SCHEDULE", "q", "1", "PX", 10 * HOUR_MS)
            .order()
            .expect("OK");
        let granted = Instant::now();
        let fence = cmd!(c, "ORDER.LOCK", "q", "1", "a", "PX", 3000)
            .lease()
            .expect("OK")
            .fence;
        cmd!(c, "ORDER.LOCK", "q", "unknown", "a", "PX", 3000)
            .lease()
            .expect("OK");
        let answered = Instant::now();
        let mut next = waiter(&server, "q", "1", "b", &["PX", "3000"]);
        let mut other = waiter(&server, "q", "unknown", "b", &["PX", "3000"]);
        clock.set_ahead(step);
        let left = cmd!(c, "ORDER.LOCK", "q", "1", "a", "PX", 1)
            .lease()
            .expect("HELD")
            .lease_ms;
        assert!(left <= 3001, "{step}: {left}");
        for client in [&mut next, &mut other] {
            let reply = client.read().lease().expect("OK");
            let (took, since) = (granted.elapsed(), answered.elapsed());
            assert!(
                took >= Duration::from_millis(2998),
                "{step}: after {took:?}"
            );
            assert!(
                since < Duration::from_secs(3) + HANDED_OVER * 3,
                "{step}: after {since:?}"
            );
            assert!(reply.fence > fence, "{step}: fences only grow");
        }
        // And the new holder's, taken under the new clock.
        let granted = Instant::now();
        wait_until(SOON, "its end", || c.state("q", "1") == "scheduled");
        assert!(granted.elapsed() < Duration::from_secs(3) + HANDED_OVER * 3);
        assert_eq!(
            c.info_number("orderwheel", "orderwheel_clock_steps_total"),
            1
        );
        expect_healthy(&server);
    }
}

#[test]
fn renewals_do_not_pass_the_cap_of_a_lock() {
    const ROUNDS: i64 = 100;
    const MAX_MS: i64 = 15;
    let server = Server::plain();
    let mut c = server.client();
    for round in 0..ROUNDS {
        let id = format!("{round}");
        let fence = cmd!(c, "ORDER.LOCK", "q", id, "me", "PX", 10, "MAX", MAX_MS)
            .lease()
            .expect("OK")
            .fence;
        let granted = Instant::now();
        // A lease counts from the next whole millisecond of the server's clock.
        let left_us = || (MAX_MS + 1) * 1000 - granted.elapsed().as_micros() as i64;
        let expect_within = |lease_ms: i64, left_us: i64| {
            assert!(
                left_us > 0 && lease_ms <= (left_us / 1000).max(1),
                "round {round}: {lease_ms} ms where {left_us} us may be left"
            );
        };
        // The last renewal comes at any part of the last millisecond, where one is said
        // to be left; a second one after the cap would end it.
        let last = MAX_MS * 1000 + 17 * round % 900;
        while (granted.elapsed().as_micros() as i64) < last {
            let left_us = left_us();
            let lease = cmd!(c, "ORDER.RENEW", "q", id, fence, "PX", 60_000).lease();
            if lease.outcome == "OK" {
                expect_within(lease.lease_ms, left_us);
            }
        }
        loop {
            let left_us = left_us();
            // An id that nobody had scheduled goes with its lock.
            let Some(order) = cmd!(c, "ORDER.GET", "q", id).get() else {
                break;
            };
            expect_within(order.int("lease_ms"), left_us);
        }
        assert!(granted.elapsed() >= Duration::from_millis(MAX_MS as u64 - 1));
    }
    expect_healthy(&server);
}
