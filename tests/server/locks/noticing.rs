//! The end of a lock is noticed: by WATCH, by caches of clients, by events and counts.

use std::collections::BTreeSet;
use std::thread;
use std::time::Duration;

use super::{LONG, QUIET, ahead, lock, told, waiter};
use crate::support::{Client, Message, Options, SOON, Server, Value, cmd, wait_until};

#[test]
fn the_end_of_a_lease_aborts_who_watches() {
    let server = Server::plain();
    let mut c = server.client();
    let exec = |w: &mut Client| {
        cmd!(w, "MULTI").ok();
        cmd!(w, "PING");
        cmd!(w, "EXEC")
    };
    for (name, lease) in [
        ("lapse", 80),
        ("UNLOCK", LONG),
        ("BREAK", LONG),
        ("FINISH", LONG),
        ("none", LONG),
    ] {
        for made in [true, false] {
            let queue = format!("{name}-{made}");
            ahead(&mut c, &queue, "other");
            if made {
                ahead(&mut c, &queue, "1");
            }
            let fence = cmd!(c, "ORDER.LOCK", &queue, "1", "a", "PX", lease)
                .lease()
                .expect("OK")
                .fence;
            let mut watcher = server.client();
            cmd!(watcher, "WATCH", &queue).ok();
            match name {
                "UNLOCK" => drop(
                    cmd!(c, "ORDER.UNLOCK", &queue, "1", fence)
                        .lease()
                        .expect("OK"),
                ),
                "BREAK" => drop(cmd!(c, "ORDER.BREAK", &queue, "1").lease().expect("OK")),
                "FINISH" => drop(
                    cmd!(c, "ORDER.FINISH", &queue, "1", "FENCE", fence)
                        .order()
                        .expect("OK"),
                ),
                // Nothing but time: nobody else says a word.
                "lapse" => thread::sleep(Duration::from_millis(400)),
                _ => drop(
                    cmd!(c, "ORDER.UNLOCK", &queue, "1", fence + 1)
                        .lease()
                        .expect("STALE"),
                ),
            }
            let reply = exec(&mut watcher);
            assert_eq!(reply == Value::Nil, name != "none", "{queue}: {reply:?}");
        }
    }
    // A claim's end too.
    cmd!(c, "ORDER.SCHEDULE", "claims", "1", "PX", 0)
        .order()
        .expect("OK");
    cmd!(c, "ORDER.CLAIM", "claims", "me", "PX", 80);
    let mut watcher = server.client();
    cmd!(watcher, "WATCH", "claims").ok();
    thread::sleep(Duration::from_millis(400));
    assert_eq!(exec(&mut watcher), Value::Nil);
}

#[test]
fn the_end_of_a_lease_invalidates_what_clients_have_cached() {
    let server = Server::plain();
    let mut c = server.client();
    let mut cache = server.client3();
    cmd!(cache, "CLIENT", "TRACKING", "ON").ok();
    let invalidated = |cache: &mut Client, queue: &str| match cache.push(SOON) {
        Some(Value::Push(items)) => {
            assert_eq!(items[0].text(), "invalidate");
            assert_eq!(items[1].items()[0].text(), queue);
        }
        other => panic!("an invalidation was expected, not {other:?}"),
    };
    for name in ["lapse", "UNLOCK", "BREAK"] {
        ahead(&mut c, name, "1");
        let lease = if name == "lapse" { 150 } else { LONG };
        let fence = cmd!(c, "ORDER.LOCK", name, "1", "a", "PX", lease)
            .lease()
            .expect("OK")
            .fence;
        assert_eq!(cache.order(name, "1").state(), "leased");
        match name {
            "UNLOCK" => drop(
                cmd!(c, "ORDER.UNLOCK", name, "1", fence)
                    .lease()
                    .expect("OK"),
            ),
            "BREAK" => drop(cmd!(c, "ORDER.BREAK", name, "1").lease().expect("OK")),
            _ => {}
        }
        invalidated(&mut cache, name);
        assert_eq!(
            cache.order(name, "1").state(),
            "scheduled",
            "{name}: told when it is true"
        );
        assert_eq!(cache.push(QUIET), None, "{name}: once");
    }
}

#[test]
fn events_of_locks() {
    let server = Options::new().events("KEd").start();
    let mut c = server.client();
    let mut listener = server.client();
    listener.psubscribe(&["__keyevent@0__:order.*"]);
    let heard = |listener: &mut Client| -> Vec<String> {
        let line = |m: Message| {
            format!(
                "{} {}",
                m.channel.trim_start_matches("__keyevent@0__:order."),
                String::from_utf8_lossy(&m.payload)
            )
        };
        listener.messages(QUIET).into_iter().map(line).collect()
    };
    ahead(&mut c, "q", "1");
    assert_eq!(heard(&mut listener), ["schedule q:1"]);
    let fence = lock(&mut c, "q", "1", "a");
    assert_eq!(heard(&mut listener), ["lock q:1"]);
    cmd!(c, "ORDER.RENEW", "q", "1", fence, "PX", LONG)
        .lease()
        .expect("OK");
    cmd!(c, "ORDER.LOCK", "q", "1", "other", "PX", LONG)
        .lease()
        .expect("BUSY");
    cmd!(c, "ORDER.UNLOCK", "q", "1", fence + 1)
        .lease()
        .expect("STALE");
    assert_eq!(heard(&mut listener), Vec::<String>::new());
    cmd!(c, "ORDER.UNLOCK", "q", "1", fence)
        .lease()
        .expect("OK");
    assert_eq!(heard(&mut listener), ["unlock q:1"]);
    cmd!(c, "ORDER.UNLOCK", "q", "1", fence)
        .lease()
        .expect("GONE");
    assert_eq!(heard(&mut listener), Vec::<String>::new());
    lock(&mut c, "q", "1", "a");
    let mut waits = waiter(&server, "q", "1", "b", &["PX", "150"]);
    assert_eq!(heard(&mut listener), ["lock q:1"]);
    cmd!(c, "ORDER.BREAK", "q", "1").lease().expect("OK");
    told(&mut waits).expect("OK");
    wait_until(SOON, "the lapse", || c.state("q", "1") == "scheduled");
    assert_eq!(
        heard(&mut listener),
        ["unlock q:1", "lock q:1", "lapsed q:1"]
    );
    // A hand-over on lapse: first the end, then the grant.
    for id in ["1", "unknown"] {
        cmd!(c, "ORDER.LOCK", "q", id, "a", "PX", 200)
            .lease()
            .expect("OK");
        let mut waits = waiter(&server, "q", id, "b", &[]);
        let fence = told(&mut waits).expect("OK").fence;
        cmd!(c, "ORDER.UNLOCK", "q", id, fence).lease().expect("OK");
        let expected = ["lock", "lapsed", "lock", "unlock"].map(|event| format!("{event} q:{id}"));
        assert_eq!(heard(&mut listener), expected);
    }
    // A lapse after the deadline: it is offered, and said so.
    cmd!(c, "MULTI").ok();
    cmd!(c, "ORDER.SCHEDULE", "q", "2", "PX", 40);
    cmd!(c, "ORDER.LOCK", "q", "2", "a", "PX", 150);
    cmd!(c, "EXEC");
    wait_until(SOON, "the lapse", || c.state("q", "2") == "expired");
    let lines = heard(&mut listener);
    assert_eq!(lines[..2], ["schedule q:2", "lock q:2"]);
    let rest: BTreeSet<&str> = lines[2..].iter().map(String::as_str).collect();
    assert_eq!(
        rest,
        BTreeSet::from(["lapsed q:2", "expired q:2"]),
        "{lines:?}"
    );
    assert_eq!(lines.len(), 4, "{lines:?}");
    let row = cmd!(c, "ORDER.CLAIM", "q", "x").claims().remove(0);
    cmd!(c, "ORDER.UNLOCK", "q", "2", row.fence)
        .lease()
        .expect("OK");
    let lines = heard(&mut listener);
    assert_eq!(lines[..2], ["claim q:2", "unlock q:2"], "{lines:?}");
}

#[test]
fn counts_of_locks() {
    let server = Server::plain();
    let mut c = server.client();
    ahead(&mut c, "q", "1");
    let fence = lock(&mut c, "q", "1", "a");
    cmd!(c, "ORDER.LOCK", "q", "1", "b", "PX", 10)
        .lease()
        .expect("BUSY");
    cmd!(c, "ORDER.LOCK", "q", "1", "a", "PX", 10)
        .lease()
        .expect("HELD");
    let mut waits = waiter(&server, "q", "1", "c", &[]);
    assert_eq!(c.stat("q", "lock_waiters").int(), 1);
    thread::sleep(Duration::from_millis(30));
    cmd!(c, "ORDER.UNLOCK", "q", "1", fence)
        .lease()
        .expect("OK");
    told(&mut waits).expect("OK");
    assert_eq!(c.stat("q", "lock_waiters").int(), 0);
    assert_eq!(
        c.stat("q", "lock_attempt_total").int(),
        4,
        "each LOCK that was asked"
    );
    assert_eq!(c.stat("q", "lock_acquired_total").int(), 2);
    assert_eq!(c.stat("q", "lock_busy_total").int(), 2);
    let number = |c: &mut Client, field: &str| match c.stat("q", field) {
        Value::Double(x) => x,
        other => other.text().parse().unwrap(),
    };
    assert!(number(&mut c, "lock_wait_ms_max") >= 25.0);
    assert!(number(&mut c, "lock_hold_ms_max") >= 25.0);
    cmd!(c, "ORDER.LOCK", "q", "2", "a", "PX", 10)
        .lease()
        .expect("OK");
    wait_until(SOON, "the lapse to be counted", || {
        c.stat("q", "lapsed_total").int() == 1
    });
    assert_eq!(
        c.info_number("orderwheel", "orderwheel_lock_acquired_total"),
        3
    );
}
