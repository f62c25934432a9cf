//! A wall clock that is set while the server runs: deadlines follow it, leases and
//! waits do not, nothing stalls, nothing is early.

use std::thread;
use std::time::{Duration, Instant};

use crate::support::states::{expect_healthy, expect_no_fault};
use crate::support::{
    Claimed, Client, Clock, Options, Random, SOON, Server, Value, args, argv, cmd, wait_until,
};

/// How long "nothing happens" is watched.
const QUIET: Duration = Duration::from_millis(80);
/// An hour in milliseconds.
const HOUR: i64 = 3_600_000;
/// A deadline that has passed whatever a test sets the clock to.
const LONG_AGO: u64 = 1_600_000_000_000;

/// A client that waits for an order, without limit: the server measures limits by
/// the wall clock.
#[track_caller]
fn waiter(server: &Server, queue: &str) -> Client {
    let mut c = server.client();
    let before = c.blocked_clients();
    let mut client = server.client();
    client.send(&args![
        "ORDER.CLAIM",
        queue,
        "next",
        "PX",
        600_000,
        "BLOCK",
        0
    ]);
    wait_until(SOON, "the client to wait", || c.blocked_clients() > before);
    client
}

/// Waits until the module has noticed `count` steps, and tells the last one.
#[track_caller]
fn noticed(c: &mut Client, count: i64) -> i64 {
    wait_until(SOON, "the step to be noticed", || {
        c.info_number("orderwheel", "orderwheel_clock_steps_total") >= count
    });
    assert_eq!(
        c.info_number("orderwheel", "orderwheel_clock_steps_total"),
        count,
        "each step once"
    );
    c.info_number("orderwheel", "orderwheel_last_clock_step_ms")
}

#[test]
fn a_clock_set_back_delays_deadlines_and_nothing_else() {
    let clock = Clock::new();
    let server = clock.rule(Options::new().aof().events("KEd")).start();
    let mut c = server.client();
    let long_ago = c.time_ms() - 3 * HOUR as u64;
    let mut listener = server.client();
    listener.subscribe(&["__keyevent@0__:order.expired"]);
    assert_eq!(
        c.info_number("orderwheel", "orderwheel_clock_steps_total"),
        0
    );

    // One that is ahead, one that a claim holds, one that waits for its retry, one
    // that was due and is not any more.
    let ahead = cmd!(c, "ORDER.SCHEDULE", "ahead", "1", "PX", 400)
        .order()
        .expect("OK")
        .deadline;
    cmd!(c, "ORDER.SCHEDULE", "was-due", "1", "PX", 0)
        .order()
        .expect("OK");
    for queue in ["leased", "retrying"] {
        cmd!(c, "ORDER.SCHEDULE", queue, "1", "PXAT", long_ago)
            .order()
            .expect("OK");
    }
    cmd!(c, "ORDER.SCHEDULE", "far", "1", "PX", 10 * HOUR)
        .order()
        .expect("OK");
    assert!(listener.messages(QUIET).len() >= 3);
    let fence = cmd!(c, "ORDER.CLAIM", "retrying", "me").claims()[0].fence;
    let nacked = Instant::now();
    cmd!(c, "ORDER.NACK", "retrying", "1", fence, "DELAY", 1500)
        .order()
        .expect("OK");
    let granted = Instant::now();
    cmd!(c, "ORDER.CLAIM", "leased", "me", "PX", 1200);
    let mut at_lease = waiter(&server, "leased");
    let mut at_retry = waiter(&server, "retrying");
    let mut at_ahead = waiter(&server, "ahead");
    let mut at_was_due = server.client();

    clock.set_ahead(-HOUR);
    let step = noticed(&mut c, 1);
    assert!((step + HOUR).abs() < 2000, "the step was {step} ms");
    assert!(
        server.log().contains("the wall clock was set by -3"),
        "it is in the log"
    );
    assert_eq!(
        (c.state("ahead", "1"), c.state("was-due", "1")),
        ("scheduled".into(), "scheduled".into())
    );
    assert_eq!(
        cmd!(at_was_due, "ORDER.CLAIM", "was-due", "me").claims(),
        [],
        "not due by the clock there is"
    );
    // Rows in the order of time: the lease, then the wait.
    assert_eq!(at_lease.read().claims()[0].id_text(), "1");
    let took = granted.elapsed();
    assert!(
        took >= Duration::from_millis(1195) && took < Duration::from_secs(15),
        "the lease lasted {took:?}"
    );
    assert_eq!(at_retry.read().claims()[0].attempt, 2);
    let took = nacked.elapsed();
    assert!(
        took >= Duration::from_millis(1495) && took < Duration::from_secs(15),
        "the wait lasted {took:?}"
    );
    // What is scheduled by the new clock falls due by it: the timer goes on.
    let began = Instant::now();
    let deadline = cmd!(c, "ORDER.SCHEDULE", "new", "1", "PX", 300)
        .order()
        .expect("OK")
        .deadline;
    let row = waiter(&server, "new").read().claims().remove(0);
    assert!(row.deadline as i64 == deadline && c.time_ms() as i64 >= deadline);
    assert!(began.elapsed() < Duration::from_secs(15));
    assert_eq!(
        at_ahead.read_within(QUIET),
        None,
        "its deadline is an hour away now"
    );

    // And back: what was ahead is due, once.
    let heard = listener.messages(QUIET);
    assert!(heard.iter().all(|m| m.payload != b"ahead:1"), "{heard:?}");
    clock.set_ahead(0);
    let step = noticed(&mut c, 2);
    assert!((step - HOUR).abs() < 2000, "the step was {step} ms");
    let row = at_ahead.read().claims().remove(0);
    assert!(row.deadline as i64 == ahead && c.time_ms() as i64 >= ahead);
    assert_eq!(cmd!(c, "ORDER.CLAIM", "was-due", "me").claims().len(), 1);
    assert_eq!(c.state("far", "1"), "scheduled");
    expect_healthy(&server);
}

#[test]
fn a_clock_set_forward_makes_due_what_is_due_and_ends_no_lease() {
    let clock = Clock::new();
    let server = clock.rule(Options::new().aof().events("KEd")).start();
    let mut c = server.client();
    let mut listener = server.client();
    listener.subscribe(&["__keyevent@0__:order.expired"]);
    let mut deadlines = std::collections::BTreeMap::new();
    for (queue, ms) in [
        ("soon", HOUR / 2),
        ("sooner", HOUR / 3),
        ("later", 2 * HOUR),
    ] {
        deadlines.insert(
            queue,
            cmd!(c, "ORDER.SCHEDULE", queue, "1", "PX", ms)
                .order()
                .expect("OK")
                .deadline,
        );
    }
    for id in ["long", "short"] {
        cmd!(c, "ORDER.SCHEDULE", "leased", id, "PX", 0)
            .order()
            .expect("OK");
    }
    cmd!(
        c,
        "ORDER.CLAIM",
        "leased",
        "me",
        "ID",
        "long",
        "PX",
        600_000
    );
    let granted = Instant::now();
    cmd!(c, "ORDER.CLAIM", "leased", "me", "ID", "short", "PX", 1500);
    cmd!(c, "ORDER.SCHEDULE", "retrying", "1", "PX", 0)
        .order()
        .expect("OK");
    let fence = cmd!(c, "ORDER.CLAIM", "retrying", "me").claims()[0].fence;
    cmd!(c, "ORDER.NACK", "retrying", "1", fence, "DELAY", 600_000)
        .order()
        .expect("OK");
    cmd!(c, "ORDER.FINISH", "kept", "1", "CREATE", "KEEP", HOUR / 2)
        .order()
        .expect("OK");
    listener.messages(QUIET);
    let mut at_soon = waiter(&server, "soon");
    let mut at_lease = waiter(&server, "leased");

    clock.set_ahead(HOUR);
    let step = noticed(&mut c, 1);
    assert!((step - HOUR).abs() < 2000, "the step was {step} ms");
    let row = at_soon.read().claims().remove(0);
    assert_eq!(row.deadline as i64, deadlines["soon"]);
    wait_until(SOON, "its announcement", || {
        listener
            .messages(QUIET)
            .iter()
            .any(|m| m.payload == b"sooner:1")
    });
    assert_eq!(c.state("sooner", "1"), "expired");
    assert_eq!(c.state("later", "1"), "scheduled");
    assert_eq!(
        cmd!(c, "ORDER.GET", "kept", "1"),
        Value::Nil,
        "its keep time is over"
    );
    wait_until(SOON, "it to be forgotten", || {
        cmd!(c, "EXISTS", "kept").int() == 0
    });
    let order = c.order("leased", "long");
    assert_eq!(order.state(), "leased");
    assert!(
        (580_000..=600_000).contains(&order.int("lease_ms")),
        "{order:?}"
    );
    assert_eq!(c.state("retrying", "1"), "retrying");
    let row = at_lease.read().claims().remove(0);
    let took = granted.elapsed();
    assert_eq!(row.id_text(), "short");
    assert!(
        took >= Duration::from_millis(1495) && took < Duration::from_secs(15),
        "the lease lasted {took:?}"
    );

    clock.set_ahead(0);
    noticed(&mut c, 2);
    assert_eq!(
        c.state("sooner", "1"),
        "scheduled",
        "deadlines follow the clock"
    );
    assert_eq!(cmd!(c, "ORDER.CLAIM", "sooner", "me").claims(), []);
    assert_eq!(
        (c.state("leased", "long"), c.state("leased", "short")),
        ("leased".into(), "leased".into())
    );
    expect_healthy(&server);
}

#[test]
fn nothing_is_early_and_nothing_is_lost_under_a_clock_that_jumps_about() {
    const ORDERS: usize = 400;
    let clock = Clock::new();
    let server = clock
        .rule(Options::new().aof().line("appendfsync no"))
        .start();
    let mut c = server.client();
    let mut random = Random::new();
    let mut deadlines = std::collections::BTreeMap::new();
    let mut got = std::collections::BTreeSet::new();
    let us = |time: &Value| {
        time.items()[0].text().parse::<u64>().unwrap() * 1_000_000
            + time.items()[1].text().parse::<u64>().unwrap()
    };
    for i in 0..ORDERS {
        if random.below(4) == 0 {
            clock.set_ahead(random.below(2 * HOUR as u64) as i64 - HOUR);
        }
        // So that some steps are noticed before the next one, and most are not.
        thread::sleep(Duration::from_millis(2));
        let reply = cmd!(c, "ORDER.SCHEDULE", "q", i, "PX", random.below(600_000))
            .order()
            .expect("OK");
        deadlines.insert(i.to_string(), reply.deadline as u64);
        let replies = c.pipeline(&[
            argv!["TIME"],
            argv!["ORDER.CLAIM", "q", "me", "COUNT", 1000, "PX", 80_000_000],
            argv!["TIME"],
        ]);
        let (before, after) = (us(&replies[0]), us(&replies[2]));
        for row in replies[1].claims() {
            assert_eq!(row.deadline, deadlines[&row.id_text()]);
            assert!(
                row.deadline * 1000 <= after,
                "{} early by {} us",
                row.id_text(),
                row.deadline * 1000 - after
            );
            assert!(got.insert(row.id_text()), "{} twice", row.id_text());
        }
        // What is due by the clock there is has been handed out.
        for (id, deadline) in &deadlines {
            assert!(
                got.contains(id) || deadline * 1000 + 999 >= before,
                "{id} is due and was not handed out"
            );
        }
    }
    assert!(c.info_number("orderwheel", "orderwheel_clock_steps_total") > 0);
    clock.set_ahead(2 * HOUR);
    for row in cmd!(c, "ORDER.CLAIM", "q", "me", "COUNT", 1000).claims() {
        assert!(got.insert(row.id_text()), "{} twice", row.id_text());
    }
    assert_eq!(got.len(), ORDERS, "each one once");
    expect_healthy(&server);
}

#[test]
fn waiters_and_announcements_keep_up_with_many_small_steps() {
    let clock = Clock::new();
    let server = clock.rule(Options::new().events("KEd")).start();
    let mut c = server.client();
    let mut listener = server.client();
    listener.subscribe(&["__keyevent@0__:order.expired"]);
    // Back and forth by less than a second, faster than it is noticed.
    for i in 0..60_i64 {
        clock.set_ahead((i * 7919 % 1000) - 500);
        cmd!(c, "ORDER.SCHEDULE", "q", i, "PX", i * 10)
            .order()
            .expect("OK");
        thread::sleep(Duration::from_millis(10));
    }
    clock.set_ahead(0);
    let mut got = std::collections::BTreeSet::new();
    let mut claimer = server.client();
    let until = Instant::now() + SOON;
    while got.len() < 60 {
        assert!(Instant::now() < until, "only {} came", got.len());
        for row in cmd!(
            claimer,
            "ORDER.CLAIM",
            "q",
            "me",
            "COUNT",
            10,
            "PX",
            600_000,
            "BLOCK",
            3000
        )
        .claims()
        {
            assert!(got.insert(row.id_text()));
        }
    }
    let heard = listener.messages(QUIET);
    assert!(heard.len() >= 60, "{} announcements", heard.len());
    expect_healthy(&server);
}

#[test]
fn a_replica_with_another_clock_holds_the_same_and_takes_over_by_its_own() {
    for (ahead, name) in [(HOUR, "ahead"), (-5000, "behind")] {
        let clock = Clock::new();
        clock.set_ahead(ahead);
        let mut primary = Options::new()
            .aof()
            .tcp()
            .line("repl-diskless-sync-delay 0")
            .start();
        let replica = clock
            .rule(
                Options::new()
                    .aof()
                    .replica_of(primary.port())
                    .events("KEd")
                    .set("announce-after-start-ms", 0),
            )
            .start();
        replica.wait_in_sync(&primary);
        let (mut c, mut r) = (primary.client(), replica.client());
        let mut listener = replica.client();
        listener.subscribe(&["__keyevent@0__:order.expired"]);
        cmd!(c, "ORDER.SCHEDULE", "q", "half-an-hour", "PX", HOUR / 2)
            .order()
            .expect("OK");
        cmd!(c, "ORDER.SCHEDULE", "q", "held", "PX", 0)
            .order()
            .expect("OK");
        let held = cmd!(c, "ORDER.CLAIM", "q", "me", "PX", 8_000_000)
            .claims()
            .remove(0);
        cmd!(c, "ORDER.FINISH", "q", "kept", "CREATE", "KEEP", HOUR / 2)
            .order()
            .expect("OK");
        cmd!(c, "ORDER.SCHEDULE", "q", "brief", "PX", 0)
            .order()
            .expect("OK");
        cmd!(c, "ORDER.CLAIM", "q", "me", "ID", "brief", "PX", 100);
        wait_until(SOON, "the lease to end", || {
            c.state("q", "brief") == "expired"
        });
        let brief = cmd!(c, "ORDER.CLAIM", "q", "me", "ID", "brief", "PX", 8_000_000)
            .claims()
            .remove(0);
        replica.wait_in_sync(&primary);
        assert_eq!(r.digest("q"), c.digest("q"), "{name}");
        assert_eq!(
            listener.message(QUIET),
            None,
            "{name}: a replica announces nothing, whatever its clock says"
        );
        // It reads by its own clock, and forgets nothing by it.
        assert_eq!(
            r.state("q", "half-an-hour"),
            if ahead > 0 { "expired" } else { "scheduled" },
            "{name}"
        );
        primary.kill();
        cmd!(r, "REPLICAOF", "NO", "ONE").ok();
        if ahead > 0 {
            let message = listener
                .message(SOON)
                .expect("it is due by the new primary's clock");
            assert_eq!(message.payload, b"q:half-an-hour");
        }
        cmd!(r, "ORDER.SCHEDULE", "q", "new", "PX", 0)
            .order()
            .expect("OK");
        let row = cmd!(r, "ORDER.CLAIM", "q", "next", "ID", "new")
            .claims()
            .remove(0);
        assert!(
            row.fence > held.fence.max(brief.fence),
            "{name}: fences only grow, also under a slower clock"
        );
        cmd!(r, "ORDER.ACK", "q", "held", held.fence)
            .order()
            .expect("OK");
        expect_no_fault(&replica);
    }
}

// ---------------------------------------------- a clock that was wrong, and is put right

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
fn a_promoted_replica_whose_clock_is_right_ends_what_a_fast_clock_granted() {
    let clock = Clock::new();
    clock.set_ahead(2 * HOUR);
    let mut primary = clock
        .rule(Options::new().tcp().line("repl-diskless-sync-delay 0"))
        .start();
    let mut c = primary.client();
    let fill = |c: &mut Client, key: &str| {
        for id in ["claimed", "waiting"] {
            cmd!(c, "ORDER.SCHEDULE", key, id, "PXAT", LONG_AGO)
                .order()
                .expect("OK");
        }
        let rows = cmd!(c, "ORDER.CLAIM", key, "me", "COUNT", 2, "PX", 1000).claims();
        let waiting = rows.iter().find(|row| row.id == b"waiting").expect("both");
        cmd!(
            c,
            "ORDER.NACK",
            key,
            "waiting",
            waiting.fence,
            "DELAY",
            1000
        )
        .order()
        .expect("OK");
        cmd!(c, "ORDER.LOCK", key, "k", "one", "PX", 1000)
            .lease()
            .expect("OK");
    };
    // One queue comes with the full copy, one with what is written after it.
    fill(&mut c, "copied");
    let replica = Options::new()
        .replica_of(primary.port())
        .set("announce-after-start-ms", 0)
        .start();
    replica.wait_in_sync(&primary);
    fill(&mut c, "followed");
    replica.wait_in_sync(&primary);
    let mut r = replica.client();
    for key in ["copied", "followed"] {
        assert_eq!(r.digest(key), c.digest(key));
    }
    primary.kill();
    cmd!(r, "REPLICAOF", "NO", "ONE").ok();
    for key in ["copied", "followed"] {
        for id in ["claimed", "k"] {
            if let Some(order) = cmd!(r, "ORDER.GET", key, id).get() {
                assert!(order.int("lease_ms") <= 1000, "{key}: {order:?}");
            }
        }
        let mut got = Vec::new();
        wait_until(SOON, "both orders", || {
            let rows = cmd!(r, "ORDER.CLAIM", key, "next", "COUNT", 2, "PX", 60_000).claims();
            got.extend(rows.iter().map(Claimed::id_text));
            got.len() == 2
        });
        wait_until(SOON, "the lock to lapse", || {
            let reply = cmd!(r, "ORDER.LOCK", key, "k", "two", "PX", 60_000).lease();
            reply.outcome == "OK"
        });
    }
    expect_no_fault(&replica);
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
