//! A start: what is overdue is offered, what is leased stays leased, fences grow.

use std::collections::BTreeSet;
use std::thread;
use std::time::{Duration, Instant};

use super::QUIET;
use crate::support::states::expect_healthy;
use crate::support::{Client, Options, Random, SOON, argv, cmd, wait_until};

#[test]
fn orders_overdue_at_a_start_are_offered_at_once_in_the_order_of_their_deadlines() {
    for (what, server) in [
        ("AOF", Options::new().aof()),
        ("RDB", Options::new().line("save 3600 1")),
    ] {
        let mut server = server
            .set("announce-after-start-ms", 300)
            .events("KEd")
            .start();
        let mut c = server.client();
        let base = c.time_ms() + 400;
        let mut random = Random::new();
        let commands: Vec<_> = (0..500)
            .map(|i| {
                argv![
                    "ORDER.SCHEDULE",
                    format!("q{}", i % 3),
                    i,
                    "PXAT",
                    base + random.below(200)
                ]
            })
            .collect();
        let replies = c.pipeline(&commands);
        let deadline = |i: usize| replies[i].order().deadline as u64;
        cmd!(c, "ORDER.SCHEDULE", "q0", "far", "PX", 3_600_000)
            .order()
            .expect("OK");
        if what == "AOF" {
            server.kill();
        } else {
            server.stop();
        }
        // Down over all deadlines.
        wait_until(SOON, "the deadlines to pass", || {
            crate::support::wall_us() > (base + 210) * 1000
        });
        server.start_again();
        let mut listener = server.client();
        listener.psubscribe(&["__keyevent@0__:*"]);
        let mut c = server.client();
        // Not a poll: the first CLAIM finds them.
        for queue in 0..2 {
            let rows = cmd!(c, "ORDER.CLAIM", format!("q{queue}"), "me", "COUNT", 1000).claims();
            let mut expected: Vec<usize> = (0..500).filter(|i| i % 3 == queue).collect();
            expected.sort_by_key(|i| deadline(*i));
            let got: Vec<usize> = rows
                .iter()
                .map(|row| row.id_text().parse().unwrap())
                .collect();
            assert_eq!(
                got, expected,
                "{what}: each once, by deadline, ties as scheduled"
            );
            assert!(
                rows.iter()
                    .all(|row| row.deadline == deadline(row.id_text().parse().unwrap()))
            );
        }
        // What nobody claims is announced, once, when subscribers are back.
        let mut heard = Vec::new();
        wait_until(SOON, "the announcements", || {
            heard.extend(
                listener
                    .messages(QUIET)
                    .into_iter()
                    .filter(|m| m.channel.ends_with("order.expired")),
            );
            heard
                .iter()
                .filter(|m| m.payload.starts_with(b"q2:"))
                .count()
                >= 166
        });
        heard.extend(
            listener
                .messages(QUIET)
                .into_iter()
                .filter(|m| m.channel.ends_with("order.expired")),
        );
        let unique: BTreeSet<_> = heard.iter().map(|m| m.payload.clone()).collect();
        assert_eq!(unique.len(), heard.len(), "{what}: none twice");
        let q2 = heard
            .iter()
            .filter(|m| m.payload.starts_with(b"q2:"))
            .count();
        assert_eq!(q2, 166, "{what}: all of what nobody claimed");
        assert_eq!(
            cmd!(c, "ORDER.CLAIM", "q2", "me", "COUNT", 1000)
                .claims()
                .len(),
            166
        );
        assert_eq!(c.state("q0", "far"), "scheduled");
        expect_healthy(&server);
    }
}

#[test]
fn nothing_overdue_is_announced_early_in_any_of_many_queues() {
    const QUEUES: usize = 20_000;
    let mut server = Options::new()
        .aof()
        .line("appendfsync no")
        .events("KEd")
        .set("announce-after-start-ms", 4000)
        .start();
    let mut c = server.client();
    let commands: Vec<_> = (0..QUEUES)
        .map(|i| argv!["ORDER.SCHEDULE", format!("q{i}"), 1, "PX", 60_000])
        .collect();
    c.pipeline(&commands);
    // Overdue from now on, so that nothing was announced before.
    let commands: Vec<_> = (0..QUEUES)
        .map(|i| argv!["ORDER.SCHEDULE", format!("q{i}"), 1, "PX", 300, "XX"])
        .collect();
    c.pipeline(&commands);
    server.kill();
    thread::sleep(Duration::from_millis(350));
    server.start_again();
    let mut c = server.client();
    let announced = |c: &mut Client| c.info_number("orderwheel", "orderwheel_announced_total");
    let began = Instant::now();
    while began.elapsed() < Duration::from_secs(1) {
        assert_eq!(announced(&mut c), 0, "after {:?}", began.elapsed());
        thread::sleep(Duration::from_millis(20));
    }
    wait_until(SOON, "all to be announced", || {
        announced(&mut c) == QUEUES as i64
    });
}

#[test]
fn a_waiting_claimer_gets_what_is_overdue_after_a_start() {
    let mut server = Options::new().aof().start();
    let mut c = server.client();
    cmd!(c, "ORDER.SCHEDULE", "q", "1", "PX", 30)
        .order()
        .expect("OK");
    server.kill();
    thread::sleep(Duration::from_millis(50));
    server.start_again();
    let mut waiter = server.client();
    let rows = cmd!(waiter, "ORDER.CLAIM", "q", "me", "BLOCK", 20_000).claims();
    assert_eq!(rows[0].id_text(), "1");
    // And a deadline that is still ahead wakes it to the millisecond.
    let mut c = server.client();
    let deadline = cmd!(c, "ORDER.SCHEDULE", "q", "2", "PX", 700)
        .order()
        .expect("OK")
        .deadline as u64;
    server.kill_and_restart();
    let mut waiter = server.client();
    let rows = cmd!(waiter, "ORDER.CLAIM", "q", "me", "BLOCK", 20_000).claims();
    assert!(crate::support::wall_us() >= deadline * 1000);
    assert_eq!(
        (rows[0].id_text().as_str(), rows[0].deadline),
        ("2", deadline)
    );
}

#[test]
fn leases_and_fences_outlive_a_restart() {
    let mut server = Options::new().aof().start();
    let mut c = server.client();
    for id in ["held", "lapsing", "retrying"] {
        cmd!(c, "ORDER.SCHEDULE", "q", id, "PX", 0)
            .order()
            .expect("OK");
    }
    let ends = c.time_ms() + 1500;
    let mut fence =
        |id: &str, ms: u64| cmd!(c, "ORDER.CLAIM", "q", "me", "ID", id, "PX", ms).claims()[0].fence;
    let (held, lapsing, retrying) = (
        fence("held", 600_000),
        fence("lapsing", 1500),
        fence("retrying", 600_000),
    );
    cmd!(c, "ORDER.NACK", "q", "retrying", retrying, "DELAY", 1500)
        .order()
        .expect("OK");
    server.kill_and_restart();
    let mut c = server.client();
    if c.time_ms() + 300 < ends {
        assert_eq!(
            (c.state("q", "lapsing"), c.state("q", "retrying")),
            ("leased".into(), "retrying".into())
        );
    }
    let mut got = Vec::new();
    while got.len() < 2 {
        let row = cmd!(c, "ORDER.CLAIM", "q", "next", "BLOCK", 20_000)
            .claims()
            .remove(0);
        assert!(
            c.time_ms() + 3 >= ends,
            "not before the lease or the wait has ended"
        );
        assert!(
            row.fence > retrying.max(lapsing).max(held) && row.attempt == 2,
            "{row:?}"
        );
        got.push(row.id_text());
    }
    got.sort();
    assert_eq!(got, ["lapsing", "retrying"]);
    cmd!(c, "ORDER.ACK", "q", "lapsing", lapsing)
        .order()
        .expect("STALE");
    cmd!(c, "ORDER.ACK", "q", "held", held).order().expect("OK");
}

#[test]
fn fences_grow_over_every_load_also_above_those_of_orders_long_forgotten() {
    let mut server = Options::new().aof().set("fence-guard-ms", 600_000).start();
    let mut c = server.client();
    // Ahead of the clock by the guard, so that no clock can hide a mistake.
    for id in ["first", "last"] {
        cmd!(c, "ORDER.SCHEDULE", "q", id, "PX", 0)
            .order()
            .expect("OK");
    }
    let claim = |c: &mut Client, queue: &str| {
        let mut rows = cmd!(c, "ORDER.CLAIM", queue, "me", "PX", 1).claims();
        (rows.len() == 1)
            .then(|| rows.remove(0))
            .expect("one is on offer")
    };
    let mut highest = 0;
    for way in ["", "AOF", "RDB preamble", "rewritten AOF", "RDB"] {
        match way {
            "RDB preamble" | "rewritten AOF" => {
                let preamble = if way == "rewritten AOF" { "no" } else { "yes" };
                c.config("aof-use-rdb-preamble", preamble);
                cmd!(c, "BGREWRITEAOF");
                wait_until(SOON, "the rewrite", || {
                    c.info("persistence", "aof_rewrite_in_progress") == "0"
                        && c.info("persistence", "aof_rewrite_scheduled") == "0"
                });
            }
            "RDB" => {
                cmd!(c, "SAVE").ok();
                *server.options_mut() = Options::new();
            }
            _ => {}
        }
        if !way.is_empty() {
            let options = if way == "RDB" {
                Options::new()
            } else {
                Options::new().aof()
            };
            *server.options_mut() = options.set("fence-guard-ms", 0).set("max-attempts", 0);
            server.kill_and_restart();
            c = server.client();
        }
        // The order with the highest number goes, its number stays.
        cmd!(
            c,
            "ORDER.SCHEDULE",
            "q",
            "brief",
            "PXAT",
            100_000_000_000_u64
        )
        .order()
        .expect("OK");
        let row = cmd!(c, "ORDER.CLAIM", "q", "me", "ID", "brief")
            .claims()
            .remove(0);
        assert!(
            row.fence > highest,
            "{way}: {} is not above {highest}",
            row.fence
        );
        highest = row.fence;
        cmd!(c, "ORDER.ACK", "q", "brief", row.fence, "KEEP", 0)
            .order()
            .expect("OK");
    }
    // A copy on a server that has given out nothing yet.
    let fresh = Options::new().set("fence-guard-ms", 0).start();
    let mut f = fresh.client();
    let payload = cmd!(c, "DUMP", "q").bytes().to_vec();
    cmd!(f, "RESTORE", "q", 0, payload).ok();
    let row = claim(&mut f, "q");
    assert!(
        row.fence > highest,
        "RESTORE: {} is not above {highest}",
        row.fence
    );
}

/// What is announced later after a start once hid what falls due meanwhile: a
/// claimer that waits is served at the deadline, whatever is held back.
#[test]
fn a_claimer_that_waits_after_a_start_is_not_held_back_by_announcements() {
    let mut server = Options::new()
        .aof()
        .line("appendfsync always")
        .set("announce-after-start-ms", 60_000)
        .start();
    let mut c = server.client();
    cmd!(c, "ORDER.SCHEDULE", "q", "over", "PX", 0)
        .order()
        .expect("OK");
    cmd!(c, "ORDER.SCHEDULE", "q", "leased", "PX", 0)
        .order()
        .expect("OK");
    let leased = cmd!(c, "ORDER.CLAIM", "q", "dies", "ID", "leased", "PX", 2500).claims();
    assert_eq!(leased.len(), 1);
    let due = cmd!(c, "ORDER.SCHEDULE", "q", "due", "PX", 2500)
        .order()
        .expect("OK")
        .deadline;
    server.kill();
    server.start_again();
    let mut c = server.client();
    let over = cmd!(c, "ORDER.CLAIM", "q", "me").claims();
    assert_eq!(over[0].id_text(), "over");
    let mut ids = Vec::new();
    while ids.len() < 2 {
        let rows = cmd!(c, "ORDER.CLAIM", "q", "me", "BLOCK", 20_000).claims();
        assert!(!rows.is_empty(), "served before the announcements: {ids:?}");
        for row in rows {
            if row.id_text() == "due" {
                assert!(c.time_ms() as i64 >= due, "not before its deadline");
            }
            ids.push(row.id_text());
        }
    }
    ids.sort();
    assert_eq!(ids, ["due", "leased"]);
    expect_healthy(&server);
}
