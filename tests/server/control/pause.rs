//! PAUSE and RESUME.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use super::{LONG, QUIET, claimer, due, heard};
use crate::support::states::expect_healthy;
use crate::support::{Claimed, Client, Options, SOON, args, cmd, wait_until};

#[test]
fn a_paused_queue_hands_out_and_announces_nothing_and_all_else_goes_on() {
    let server = Options::new().events("KEd").start();
    let mut c = server.client();
    let mut listener = server.client();
    listener.subscribe(&[
        "__keyevent@0__:order.expired",
        "__keyevent@0__:order.lapsed",
        "__keyevent@0__:order.dead",
    ]);
    due(&mut c, "q", "before");
    assert_eq!(heard(&mut listener), ["expired before"]);
    cmd!(c, "ORDER.PAUSE", "q", "REASON", "the shop's database moves").ok();
    assert_eq!(
        c.stat("q", "pause_reason").text(),
        "the shop's database moves"
    );
    assert_eq!(c.state("q", "before"), "expired");
    let mut waits = claimer(&server, "q");
    // Deadlines that pass in the pause, in another order than they were made.
    let at = c.time_ms() + 40;
    for (i, ms) in [(3_u64, 30), (1, 10), (2, 20), (0, 0)] {
        cmd!(c, "ORDER.SCHEDULE", "q", format!("o{i}"), "PXAT", at + ms)
            .order()
            .expect("OK");
    }
    let fence = cmd!(c, "ORDER.LOCK", "q", "locked", "me", "PX", 40)
        .lease()
        .expect("OK")
        .fence;
    cmd!(
        c,
        "ORDER.SCHEDULE",
        "q",
        "locked",
        "PX",
        LONG,
        "UPSERT",
        "FENCE",
        fence
    )
    .order();
    wait_until(SOON, "all to be due", || c.state("q", "o3") == "expired");
    assert_eq!(cmd!(c, "ORDER.CLAIM", "q", "me", "COUNT", 10).claims(), []);
    assert_eq!(cmd!(c, "ORDER.CLAIM", "q", "me", "ID", "o1").claims(), []);
    assert_eq!(heard(&mut listener), Vec::<String>::new());
    assert_eq!(waits.read_within(QUIET), None);
    // All else.
    cmd!(c, "ORDER.FINISH", "q", "o1", "STATUS", "paid")
        .order()
        .expect("OK");
    cmd!(c, "ORDER.LOCK", "q", "new", "me", "PX", LONG)
        .lease()
        .expect("OK");
    cmd!(c, "ORDER.STATUS", "q", "o2", "seen")
        .order()
        .expect("OK");
    let mut lock_waits = server.client();
    lock_waits.send(&args![
        "ORDER.LOCK",
        "q",
        "new",
        "other",
        "PX",
        1000,
        "BLOCK",
        0
    ]);
    wait_until(SOON, "it to wait", || {
        c.stat("q", "lock_waiters").int() == 1
    });
    cmd!(c, "ORDER.BREAK", "q", "new").lease().expect("OK");
    lock_waits.read().lease().expect("OK");
    // A second pause replaces the first.
    cmd!(c, "ORDER.PAUSE", "q").ok();
    assert_eq!(c.stat("q", "pause_reason").text(), "");
    assert_eq!(waits.read_within(QUIET), None);

    cmd!(c, "ORDER.RESUME", "q").ok();
    assert_eq!(
        waits.read().claims()[0].id_text(),
        "before",
        "first come first served"
    );
    let lines = heard(&mut listener);
    let expired: Vec<&String> = lines
        .iter()
        .filter(|line| line.starts_with("expired"))
        .collect();
    assert_eq!(
        expired,
        ["expired o0", "expired o2", "expired o3"],
        "in order, and without what is paid: {lines:?}"
    );
    assert_eq!(c.stat("q", "paused_ms").int(), -2);
    let rows = cmd!(c, "ORDER.CLAIM", "q", "me", "COUNT", 10).claims();
    let ids: Vec<String> = rows.iter().map(Claimed::id_text).collect();
    assert_eq!(ids, ["o0", "o2", "o3"]);
    cmd!(c, "ORDER.RESUME", "q").ok();
    expect_healthy(&server);
}

#[test]
fn a_pause_with_an_end_ends_by_itself() {
    let server = Options::new().events("KEd").start();
    let mut c = server.client();
    let mut listener = server.client();
    listener.subscribe(&["__keyevent@0__:order.expired"]);
    cmd!(c, "ORDER.SCHEDULE", "q", "ahead", "PX", LONG)
        .order()
        .expect("OK");
    let began = Instant::now();
    cmd!(c, "ORDER.PAUSE", "q", "PX", 400, "REASON", "brief").ok();
    let left = c.stat("q", "paused_ms").int();
    assert!((1..=401).contains(&left), "{left}");
    due(&mut c, "q", "1");
    due(&mut c, "q", "2");
    let mut waits = claimer(&server, "q");
    let row = waits.read().claims().remove(0);
    assert!(
        began.elapsed() >= Duration::from_millis(399),
        "after {:?}",
        began.elapsed()
    );
    assert_eq!(row.id_text(), "1");
    let lines = heard(&mut listener);
    assert_eq!(lines.iter().collect::<BTreeSet<_>>().len(), 2, "{lines:?}");
    assert!(cmd!(c, "ORDER.CLAIM", "q", "me").claims().len() == 1);
    // A queue that had nothing but its pause goes with it.
    let paused = |c: &mut Client, pause: &[&str]| {
        cmd!(c, "ORDER.SCHEDULE", "empty", "1", "PX", LONG)
            .order()
            .expect("OK");
        c.run(pause).ok();
        cmd!(c, "ORDER.FINISH", "empty", "1", "KEEP", 0)
            .order()
            .expect("OK");
    };
    paused(&mut c, &["ORDER.PAUSE", "empty", "PX", "30"]);
    wait_until(SOON, "it to go", || cmd!(c, "EXISTS", "empty").int() == 0);
    paused(&mut c, &["ORDER.PAUSE", "empty"]);
    assert_eq!(cmd!(c, "EXISTS", "empty").int(), 1);
    cmd!(c, "ORDER.RESUME", "empty").ok();
    assert_eq!(cmd!(c, "EXISTS", "empty").int(), 0);
    expect_healthy(&server);
}

#[test]
fn a_pause_survives_restarts_and_moves_with_the_queue() {
    let mut server = Options::new()
        .aof()
        .events("KEd")
        .set("announce-after-start-ms", 0)
        .start();
    let mut c = server.client();
    due(&mut c, "q", "1");
    cmd!(c, "ORDER.PAUSE", "q", "REASON", "why").ok();
    server.restart();
    let mut c = server.client();
    let mut listener = server.client();
    listener.subscribe(&["__keyevent@0__:order.expired"]);
    assert_eq!(c.stat("q", "pause_reason").text(), "why");
    assert_eq!(cmd!(c, "ORDER.CLAIM", "q", "me").claims(), []);
    cmd!(c, "DEBUG", "RELOAD").ok();
    assert_eq!(cmd!(c, "ORDER.CLAIM", "q", "me").claims(), []);
    cmd!(c, "RENAME", "q", "r").ok();
    assert_eq!(cmd!(c, "ORDER.CLAIM", "r", "me").claims(), []);
    assert_eq!(listener.message(QUIET), None);
    let mut waits = claimer(&server, "r");
    cmd!(c, "ORDER.RESUME", "r").ok();
    assert_eq!(waits.read().claims().len(), 1);
    assert_eq!(
        listener.message(SOON).expect("its announcement").payload,
        b"r:1"
    );
}
