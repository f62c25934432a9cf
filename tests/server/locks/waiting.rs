//! The line of those who wait for a lock: whose turn it is, and who has left.

use std::thread;
use std::time::{Duration, Instant};

use super::{HANDED_OVER, LONG, QUIET, ahead, lock, still_waits, told, waiter};
use crate::support::states::expect_healthy;
use crate::support::{SOON, Server, args, argv, cmd, wait_until};

#[test]
fn the_line_is_served_in_turn_and_skips_those_who_left() {
    let server = Server::plain();
    let mut c = server.client();
    ahead(&mut c, "q", "1");
    let a = lock(&mut c, "q", "1", "a");
    let mut b = waiter(&server, "q", "1", "b", &[]);
    let gone = waiter(&server, "q", "1", "c", &[]);
    let mut d = waiter(&server, "q", "1", "d", &["PX", "400000"]);
    assert_eq!(c.stat("q", "lock_waiters").int(), 3);
    gone.cut();
    wait_until(SOON, "the dead client to be noticed", || {
        c.blocked_clients() == 2
    });
    let before = Instant::now();
    cmd!(c, "ORDER.UNLOCK", "q", "1", a).lease().expect("OK");
    let first = told(&mut b).expect("OK");
    assert!(
        before.elapsed() < HANDED_OVER,
        "handed over after {:?}",
        before.elapsed()
    );
    assert!(first.fence > a && first.holds == 1);
    // While D waits, nobody passes by.
    cmd!(c, "ORDER.LOCK", "q", "1", "e", "PX", 1000)
        .lease()
        .expect("BUSY");
    let replies = c.pipeline(&[
        argv!["MULTI"],
        argv!["ORDER.UNLOCK", "q", "1", first.fence],
        argv!["ORDER.LOCK", "q", "1", "e", "PX", 1000],
        argv!["ORDER.LOCK", "q", "1", "b", "PX", 1000],
        argv!["EXEC"],
    ]);
    let inner = replies[4].items();
    inner[0].lease().expect("OK");
    for reply in &inner[1..] {
        let reply = reply.lease().expect("BUSY");
        assert_eq!(
            (reply.lease_ms, reply.holds),
            (-2, 0),
            "free, but not for those behind the line"
        );
    }
    let second = told(&mut d).expect("OK");
    assert!(second.fence > first.fence);
    assert!(
        (300_000..=400_001).contains(&second.lease_ms),
        "the lease starts at the grant: {second:?}"
    );
    let order = c.order("q", "1");
    assert_eq!(
        (order.text("owner").as_str(), order.fence()),
        ("d", second.fence)
    );
    cmd!(c, "ORDER.UNLOCK", "q", "1", second.fence)
        .lease()
        .expect("OK");
    lock(&mut c, "q", "1", "e");
    assert_eq!(c.stat("q", "lock_waiters").int(), 0);
    expect_healthy(&server);
}

#[test]
fn a_client_that_dies_in_the_very_turn_gets_nothing() {
    let server = Server::plain();
    let mut c = server.client();
    for round in 0..20 {
        let id = format!("{round}");
        let fence = lock(&mut c, "q", &id, "a");
        let dies = waiter(&server, "q", &id, "b", &[]);
        let mut next = waiter(&server, "q", &id, "c", &[]);
        // Its end and the release reach the server together.
        dies.cut();
        cmd!(c, "ORDER.UNLOCK", "q", &id, fence)
            .lease()
            .expect("OK");
        let mut owner = String::new();
        if let Some(reply) = next.read_within(HANDED_OVER) {
            reply.lease().expect("OK");
            owner = c.order("q", &id).text("owner");
        } else {
            // The server had not read the end yet: the lock was granted to it.
            assert_eq!(c.order("q", &id).text("owner"), "b");
            cmd!(c, "ORDER.BREAK", "q", &id).lease().expect("OK");
            told(&mut next).expect("OK");
        }
        assert!(owner.is_empty() || owner == "c");
    }
    expect_healthy(&server);
}

#[test]
fn a_killed_client_gets_nothing_for_sure() {
    let server = Server::plain();
    let mut c = server.client();
    let fence = lock(&mut c, "q", "1", "a");
    let mut dies = server.client();
    let id = dies.id();
    dies.send(&args!["ORDER.LOCK", "q", "1", "b", "PX", LONG, "BLOCK", 0]);
    wait_until(SOON, "it to wait", || c.blocked_clients() == 1);
    let mut next = waiter(&server, "q", "1", "c", &[]);
    let replies = c.pipeline(&[
        argv!["CLIENT", "KILL", "ID", id],
        argv!["ORDER.UNLOCK", "q", "1", fence],
    ]);
    assert_eq!(replies[0].int(), 1);
    told(&mut next).expect("OK");
    assert_eq!(c.order("q", "1").text("owner"), "c");
}

#[test]
fn two_waiters_of_one_owner_share_the_lock() {
    let server = Server::plain();
    let mut c = server.client();
    let fence = lock(&mut c, "q", "1", "a");
    let mut one = waiter(&server, "q", "1", "same", &[]);
    let mut two = waiter(&server, "q", "1", "same", &[]);
    let mut three = waiter(&server, "q", "1", "other", &[]);
    cmd!(c, "ORDER.UNLOCK", "q", "1", fence)
        .lease()
        .expect("OK");
    let granted = told(&mut one).expect("OK");
    let held = told(&mut two).expect("HELD");
    assert_eq!(
        (held.fence, held.holds),
        (granted.fence, 1),
        "a repeat, as without waiting"
    );
    still_waits(&mut three);
    cmd!(c, "ORDER.UNLOCK", "q", "1", granted.fence)
        .lease()
        .expect("OK");
    told(&mut three).expect("OK");
}

#[test]
fn a_wait_that_is_over_answers_busy_with_the_holder() {
    let server = Server::plain();
    let mut c = server.client();
    ahead(&mut c, "q", "1");
    let fence = lock(&mut c, "q", "1", "a");
    let before = Instant::now();
    let reply = cmd!(c, "ORDER.LOCK", "q", "1", "b", "PX", 1000, "BLOCK", 60)
        .lease()
        .expect("BUSY");
    assert!(before.elapsed() >= Duration::from_millis(60));
    assert_eq!(
        (reply.fence, reply.state.as_str(), reply.holds),
        (fence, "leased", 1)
    );
    assert!(reply.lease_ms > 0);
    cmd!(c, "ORDER.UNLOCK", "q", "1", fence)
        .lease()
        .expect("OK");
    thread::sleep(QUIET);
    assert_eq!(
        c.state("q", "1"),
        "scheduled",
        "who gave up is granted nothing"
    );
    expect_healthy(&server);
}

#[test]
fn block_within_a_transaction_or_script_answers_at_once() {
    let server = Server::plain();
    let mut c = server.client();
    ahead(&mut c, "q", "1");
    lock(&mut c, "q", "1", "a");
    let ask = argv!["ORDER.LOCK", "q", "1", "b", "PX", 1000, "BLOCK", 0];
    let replies = c.pipeline(&[argv!["MULTI"], ask, argv!["EXEC"]]);
    replies[2].items()[0].lease().expect("BUSY");
    let script = "return redis.call('ORDER.LOCK', KEYS[1], '1', 'b', 'PX', '1000', 'BLOCK', '0')";
    cmd!(c, "EVAL", script, 1, "q").lease().expect("BUSY");
    let library = "#!lua name=lib\nredis.register_function('take', function(keys, args) return redis.call('ORDER.LOCK', keys[1], '1', 'b', 'PX', '1000', 'BLOCK', '0') end)";
    cmd!(c, "FUNCTION", "LOAD", library);
    cmd!(c, "FCALL", "take", 1, "q").lease().expect("BUSY");
    assert_eq!(
        (c.blocked_clients(), c.stat("q", "lock_waiters").int()),
        (0, 0)
    );
    // Where it is free they are granted as everywhere.
    cmd!(c, "ORDER.BREAK", "q", "1").lease().expect("OK");
    cmd!(c, "FCALL", "take", 1, "q").lease().expect("OK");
}

#[test]
fn a_wait_for_one_lock_is_not_disturbed_by_others() {
    let server = Server::plain();
    let mut c = server.client();
    ahead(&mut c, "q", "mine");
    lock(&mut c, "q", "mine", "a");
    let mut waits = waiter(&server, "q", "mine", "b", &[]);
    for i in 0..200 {
        let id = format!("o{i}");
        let fence = lock(&mut c, "q", &id, "x");
        cmd!(c, "ORDER.UNLOCK", "q", &id, fence)
            .lease()
            .expect("OK");
        cmd!(c, "ORDER.SCHEDULE", "q", &id, "PX", 0)
            .order()
            .expect("OK");
    }
    cmd!(c, "ORDER.CLAIM", "q", "x", "COUNT", 1000);
    still_waits(&mut waits);
    cmd!(c, "ORDER.BREAK", "q", "mine").lease().expect("OK");
    told(&mut waits).expect("OK");
}

#[test]
fn a_lock_that_was_waited_for_is_no_longer_than_was_asked_for() {
    const ROUNDS: usize = 400;
    let server = Server::plain();
    let mut clients = [server.client(), server.client()];
    let ask = |i: usize| {
        args![
            "ORDER.LOCK",
            "q",
            "1",
            ["a", "b"][i],
            "PX",
            5000,
            "BLOCK",
            0
        ]
    };
    let mut fence = clients[0].run(&ask(0)).lease().expect("OK").fence;
    // To and fro: whoever has it sees the other one in line, and gives it back.
    for round in 0..ROUNDS {
        let (holds, waits) = (round % 2, 1 - round % 2);
        clients[waits].send(&ask(waits));
        let holder = &mut clients[holds];
        wait_until(SOON, "the other one to wait", || {
            holder.info_number("orderwheel", "orderwheel_lock_waiters") == 1
        });
        cmd!(holder, "ORDER.UNLOCK", "q", "1", fence)
            .lease()
            .expect("OK");
        let lease = clients[waits].read().lease().expect("OK");
        let told = Instant::now();
        assert!(
            (4000..=5000).contains(&lease.lease_ms),
            "round {round}: {lease:?}"
        );
        // Nor more than is left by the client's clock, at any part of a millisecond.
        let part = Duration::from_micros(37 * (round as u64 % 54));
        while told.elapsed() < part {
            std::hint::spin_loop();
        }
        let passed = told.elapsed().as_millis() as i64;
        let left = clients[waits].order("q", "1").int("lease_ms");
        assert!(
            left <= 5000 - passed,
            "round {round}, {passed} ms after the grant: {left}"
        );
        assert!(lease.fence > fence);
        fence = lease.fence;
    }
    expect_healthy(&server);
}
