//! A clock that is set back, set forward, set again and again.

use std::thread;
use std::time::{Duration, Instant};

use super::{HOUR, QUIET, waiter};
use crate::support::states::expect_healthy;
use crate::support::{Client, Clock, Options, Random, SOON, Value, argv, cmd, wait_until};

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
