//! Commands within MULTI and scripts, under WATCH, and what is not for clients.

use crate::support::{Options, SOON, Server, Value, cmd, wait_until};

#[test]
fn everything_works_in_transactions_and_scripts() {
    let server = Options::new().aof().start();
    let mut c = server.client();
    cmd!(c, "MULTI").ok();
    for command in [
        "ORDER.SCHEDULE q 1 PX 0 STATUS unpaid",
        "ORDER.SCHEDULE q 2 PX 60000",
        "ORDER.CLAIM q me BLOCK 100000",
        "ORDER.CLAIM q me BLOCK 100000",
        "ORDER.FINISH q 2 STATUS paid",
        "ORDER.GET q 2",
        "ORDER.PTTL q 2",
        "ORDER.STATS q",
    ] {
        assert_eq!(
            c.run(&command.split(' ').collect::<Vec<_>>()).text(),
            "QUEUED"
        );
    }
    let replies = cmd!(c, "EXEC");
    let replies = replies.items();
    assert_eq!(replies[2].claims().len(), 1);
    assert_eq!(replies[3].claims().len(), 0, "BLOCK is ignored");
    replies[4].order().expect("OK");
    assert_eq!(replies[5].get().unwrap().text("status"), "paid");

    let script = "
        local made = redis.call('ORDER.SCHEDULE', KEYS[1], 'a', 'PX', 0)
        local rows = redis.call('ORDER.CLAIM', KEYS[1], 'lua', 'BLOCK', 0)
        local none = redis.call('ORDER.CLAIM', KEYS[1], 'lua', 'BLOCK', 0)
        local fence = string.format('%.0f', rows[1][2])
        local done = redis.call('ORDER.MACK', KEYS[1], 1, 'a', fence)
        local bad = redis.pcall('ORDER.SCHEDULE', KEYS[1], 'b', 'PX', '-1')
        return {made[1], #rows, #none, done[1], bad.err}";
    let reply = cmd!(c, "EVAL", script, 1, "lua");
    let items = reply.items();
    assert_eq!(
        (items[0].text().as_str(), items[1].int(), items[2].int()),
        ("OK", 1, 0),
        "{reply:?}"
    );
    assert_eq!(items[3].text(), "OK");
    assert!(items[4].text().contains("PX"), "{reply:?}");
}

#[test]
fn watch_sees_a_write_and_not_a_refusal() {
    let server = Server::plain();
    let (mut a, mut b) = (server.client(), server.client());
    cmd!(a, "ORDER.SCHEDULE", "q", "1", "PX", 60_000)
        .order()
        .expect("OK");
    for (command, aborts) in [
        ("ORDER.SCHEDULE q 1 PX 5", false),
        ("ORDER.FINISH q 2", false),
        ("ORDER.CLAIM q me", false),
        ("ORDER.GET q 1", false),
        ("ORDER.STATS q", false),
        ("ORDER.STATUS q 1 x", true),
        ("ORDER.SCHEDULE q 3 PX 60000", true),
    ] {
        cmd!(a, "WATCH", "q").ok();
        assert!(!b.run(&command.split(' ').collect::<Vec<_>>()).is_error());
        cmd!(a, "MULTI").ok();
        cmd!(a, "PING");
        let aborted = cmd!(a, "EXEC") == Value::Nil;
        assert_eq!(aborted, aborts, "{command}");
    }
    // A lease that ends by itself counts as a change too.
    cmd!(a, "ORDER.SCHEDULE", "q", "4", "PX", 0)
        .order()
        .expect("OK");
    assert_eq!(
        cmd!(a, "ORDER.CLAIM", "q", "me", "PX", 60).claims().len(),
        1
    );
    cmd!(a, "WATCH", "q").ok();
    wait_until(SOON, "the lapse to be noticed", || {
        b.stat("q", "lapsed_total").int() == 1
    });
    wait_until(SOON, "the watch to be broken", || {
        cmd!(a, "MULTI").ok();
        cmd!(a, "PING");
        let aborted = cmd!(a, "EXEC") == Value::Nil;
        cmd!(a, "WATCH", "q").ok();
        aborted
    });
}

#[test]
fn apply_is_not_for_clients() {
    let server = Server::plain();
    let mut c = server.client();
    let reply = cmd!(c, "ORDER.APPLY", "q", 1, "");
    assert!(reply.error().starts_with("ERR "), "{reply:?}");
    let reply = cmd!(
        c,
        "EVAL",
        "return redis.pcall('ORDER.APPLY', KEYS[1], 1, '').err or 'done'",
        1,
        "q"
    );
    assert_ne!(reply.text(), "done", "nor for a client's script");
    c.config("orderwheel.apply-from-clients", "yes");
    assert!(
        !cmd!(c, "ORDER.APPLY", "q", 1, "").is_error(),
        "an empty one is a probe"
    );
    assert_eq!(cmd!(c, "EXISTS", "q").int(), 0);
    for blob in [
        &b"\xff"[..],
        b"\0",
        b"nonsense, nothing but nonsense",
        &[0x03; 200],
        &[0xfb; 9],
        &[0xfd; 20],
    ] {
        let reply = cmd!(c, "ORDER.APPLY", "q", 1, blob);
        assert!(reply.error().starts_with("ERR "), "{blob:?}: {reply:?}");
    }
    for version in [0_u64, 2, 3, 1 << 40] {
        assert!(
            cmd!(c, "ORDER.APPLY", "q", version, "x").is_error(),
            "version {version}"
        );
    }
    assert!(c.info_number("orderwheel", "orderwheel_apply_refused_total") > 0);
}
