//! The scheduler: whom it serves first, and when it does nothing.

use std::thread;
use std::time::Duration;

use crate::support::{Client, Options, SOON, Server, argv, cmd, wait_until, wall_us};

/// The last of 5,000 queues that fall due together was come to after all others.
#[test]
fn where_very_many_queues_are_due_those_that_somebody_waits_for_come_first() {
    const QUEUES: i64 = 5000;
    let server = Options::new()
        .events("KEd")
        .set("tick-budget-us", 100)
        .start();
    let mut c = server.client();
    let at = c.time_ms() + 1500;
    let commands: Vec<_> = (0..QUEUES)
        .map(|i| argv!["ORDER.SCHEDULE", format!("q{i}"), "1", "PXAT", at])
        .collect();
    c.pipeline(&commands);
    let mut waiter = server.client();
    let last = format!("q{}", QUEUES - 1);
    let rows = cmd!(waiter, "ORDER.CLAIM", last, "me", "BLOCK", 20_000).claims();
    let announced = c.info_number("orderwheel", "orderwheel_announced_total");
    assert!(rows.len() == 1 && wall_us() >= at * 1000);
    assert!(
        announced < QUEUES / 2,
        "{announced} of {QUEUES} queues were come to first"
    );
    // The others are come to as well.
    wait_until(SOON, "all to be announced", || {
        c.info_number("orderwheel", "orderwheel_announced_total") == QUEUES
    });
}

/// What the alarm was set for may be gone when it rings: nothing comes early for it,
/// and the event loop does not go round for nothing.
#[test]
fn an_alarm_for_an_order_that_is_gone_does_nothing() {
    let server = Server::plain();
    let mut c = server.client();
    for round in 0..20 {
        // Set for the far one, then for the near one, which is then taken away.
        for (id, ms) in [("far", 60_000), ("near", 30)] {
            cmd!(c, "ORDER.SCHEDULE", "q", id, "PX", ms)
                .order()
                .expect("OK");
        }
        if round % 2 == 0 {
            // On a machine that stood still it is due already: all the same here.
            cmd!(c, "ORDER.FINISH", "q", "near", "KEEP", 0).order();
        }
        cmd!(c, "DEL", "q");
    }
    let mut waiter: Client = server.client();
    let deadline = cmd!(c, "ORDER.SCHEDULE", "q", "last", "PX", 100)
        .order()
        .expect("OK")
        .deadline as u64;
    let rows = cmd!(waiter, "ORDER.CLAIM", "q", "me", "BLOCK", 20_000).claims();
    assert!(rows.len() == 1 && rows[0].id == b"last");
    assert!(wall_us() >= deadline * 1000);
    let runs = |c: &mut Client| c.info_number("orderwheel", "orderwheel_timer_runs_total");
    let before = runs(&mut c);
    thread::sleep(Duration::from_millis(300));
    let after = runs(&mut c);
    assert!(
        after - before < 10,
        "{} runs with nothing to do",
        after - before
    );
}

/// The server's own timer reckons in microseconds of 32 bits: set for more than 35
/// minutes by a timer's callback it ran again and again until then.
#[test]
fn a_server_with_nothing_to_do_does_nothing_however_far_the_next_deadline_is() {
    const MINUTE_MS: u64 = 60_000;
    let server = Server::plain();
    let mut c = server.client();
    let mut cpu_ms = |of_ms: u64| {
        let mut used = || {
            let mut seconds = |name| -> f64 { c.info("cpu", name).parse().expect("seconds") };
            1000.0 * (seconds("used_cpu_user_main_thread") + seconds("used_cpu_sys_main_thread"))
        };
        let before = used();
        thread::sleep(Duration::from_millis(of_ms));
        used() - before
    };
    let mut near = server.client();
    let announced = |c: &mut Client| c.info_number("orderwheel", "orderwheel_announced_total");
    for far in [36, 50, 71, 72, 100, 120, 1440, 100_000] {
        let before = announced(&mut near);
        cmd!(near, "ORDER.SCHEDULE", "q", "near", "PX", 5)
            .order()
            .expect("OK");
        cmd!(near, "ORDER.SCHEDULE", "q", far, "PX", far * MINUTE_MS)
            .order()
            .expect("OK");
        // The near one is gone through by the timer, which is then set for the far one.
        wait_until(SOON, "the near one to be announced", || {
            announced(&mut near) > before
        });
        let used = cpu_ms(300);
        assert!(used < 150.0, "{used} ms of 300, {far} minutes ahead");
        cmd!(near, "DEL", "q");
    }
}
