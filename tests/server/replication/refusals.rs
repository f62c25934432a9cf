//! A grant that is refused, and writes that too few replicas refuse.

use std::collections::BTreeSet;
use std::thread;
use std::time::Duration;

use super::{QUIET, primary, replica_of};
use crate::support::states::expect_healthy;
use crate::support::{SOON, args, cmd, wait_until};

/// A grant that the server refuses is decided every ten milliseconds. Only the one that
/// is made counts, and what is to be said with it is not lost meanwhile.
#[test]
fn a_refused_grant_is_neither_timed_nor_announced() {
    const REFUSED: Duration = Duration::from_millis(600);
    let primary = primary().start();
    let mut c = primary.client();
    let mut listener = primary.client();
    listener.psubscribe(&["__keyevent@0__:order.l*"]);
    cmd!(c, "ORDER.SCHEDULE", "q", "1", "PX", 200)
        .order()
        .expect("OK");
    cmd!(c, "ORDER.SCHEDULE", "w", "locked", "PX", 60_000)
        .order()
        .expect("OK");
    cmd!(c, "ORDER.LOCK", "w", "locked", "a", "PX", 200)
        .lease()
        .expect("OK");
    let mut claimer = primary.client();
    claimer.send(&args!["ORDER.CLAIM", "q", "me", "BLOCK", 30_000]);
    let mut locker = primary.client();
    locker.send(&args![
        "ORDER.LOCK",
        "w",
        "locked",
        "b",
        "PX",
        30_000,
        "BLOCK",
        30_000
    ]);
    wait_until(SOON, "them to wait", || c.blocked_clients() == 2);
    c.config("min-replicas-to-write", "1");
    wait_until(SOON, "both to be due", || {
        c.state("q", "1") == "expired" && c.state("w", "locked") == "scheduled"
    });
    thread::sleep(REFUSED);
    assert_eq!(claimer.read_within(Duration::ZERO), None);
    assert_eq!(locker.read_within(Duration::ZERO), None);
    c.config("min-replicas-to-write", "0");
    assert_eq!(claimer.read().claims().remove(0).id_text(), "1");
    locker.read().lease().expect("OK");
    let heard: Vec<String> = listener
        .messages(QUIET)
        .into_iter()
        .map(|m| {
            m.channel
                .trim_start_matches("__keyevent@0__:order.")
                .to_owned()
        })
        .collect();
    assert_eq!(heard, ["lock", "lapsed", "lock"]);
    // One order, one time: half of all are not below it.
    let p50: f64 = c.stat("q", "lateness_ms_p50").text().parse().unwrap();
    assert!(p50 >= 600.0, "p50 {p50} ms");
    expect_healthy(&primary);
}

#[test]
fn too_few_replicas_refuse_writes_and_hold_back_what_falls_due() {
    let primary = primary().start();
    let mut c = primary.client();
    let mut listener = primary.client();
    listener.subscribe(&["__keyevent@0__:order.expired"]);
    let mut waiter = primary.client();
    waiter.send(&args!["ORDER.CLAIM", "q", "me", "BLOCK", 30_000]);
    wait_until(SOON, "it to wait", || c.blocked_clients() == 1);
    cmd!(c, "ORDER.SCHEDULE", "q", "1", "PX", 100)
        .order()
        .expect("OK");
    cmd!(c, "ORDER.SCHEDULE", "other", "2", "PX", 100)
        .order()
        .expect("OK");
    c.config("min-replicas-to-write", "1");
    assert!(
        cmd!(c, "ORDER.SCHEDULE", "q", "3", "PX", 1)
            .error()
            .starts_with("NOREPLICAS")
    );
    assert!(
        cmd!(c, "ORDER.CLAIM", "q", "me")
            .error()
            .starts_with("NOREPLICAS")
    );
    wait_until(SOON, "it to fall due", || c.state("q", "1") == "expired");
    assert_eq!(
        waiter.read_within(QUIET),
        None,
        "a grant that no replica would have is not made"
    );
    assert_eq!(
        listener.message(QUIET),
        None,
        "nor is anything announced that nobody could claim"
    );
    // Refused work is tried again, not in a busy loop.
    let runs = c.info_number("orderwheel", "orderwheel_timer_runs_total");
    thread::sleep(Duration::from_millis(200));
    let runs = c.info_number("orderwheel", "orderwheel_timer_runs_total") - runs;
    assert!(runs < 100, "{runs} passes in 200 ms");
    let replica = replica_of(&primary);
    let row = waiter.read().claims().remove(0);
    assert_eq!(row.id_text(), "1");
    let heard: BTreeSet<Vec<u8>> = listener
        .messages(QUIET)
        .into_iter()
        .map(|m| m.payload)
        .collect();
    assert_eq!(
        heard,
        BTreeSet::from([b"q:1".to_vec(), b"other:2".to_vec()])
    );
    replica.wait_in_sync(&primary);
    assert_eq!(replica.client().digest("q"), c.digest("q"));
    expect_healthy(&primary);
}
