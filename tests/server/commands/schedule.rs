//! SCHEDULE: each kind of time, moves, guards, and orders that open again.

use crate::support::{Server, cmd};

#[test]
fn schedule_takes_each_kind_of_time() {
    let server = Server::plain();
    let mut c = server.client();
    for (unit, value, ms) in [("PX", 90_000_u64, 90_000_u64), ("EX", 90, 90_000)] {
        let before = c.time_us();
        let reply = cmd!(c, "ORDER.SCHEDULE", "q", unit, unit, value)
            .order()
            .expect("OK");
        let after = c.time_us();
        let deadline = reply.deadline as u64;
        assert!(
            deadline >= before.div_ceil(1000) + ms,
            "{unit}: {deadline} is before {before} us + {ms} ms"
        );
        assert!(
            deadline <= after.div_ceil(1000) + ms,
            "{unit}: {deadline} is after {after} us + {ms} ms"
        );
        assert_eq!(
            (reply.state.as_str(), reply.was.as_str()),
            ("scheduled", "missing")
        );
    }
    let reply = cmd!(
        c,
        "ORDER.SCHEDULE",
        "q",
        "pxat",
        "PXAT",
        4_000_000_000_123_u64
    )
    .order()
    .expect("OK");
    assert_eq!(reply.deadline, 4_000_000_000_123);
    let reply = cmd!(c, "ORDER.SCHEDULE", "q", "exat", "EXAT", 4_000_000_000_u64)
        .order()
        .expect("OK");
    assert_eq!(reply.deadline, 4_000_000_000_000);

    // Now, in both units, and the past, stored as given.
    for unit in ["PX", "EX"] {
        let id = format!("{unit}0");
        let before = c.time_ms();
        let reply = cmd!(c, "ORDER.SCHEDULE", "q", &id, unit, 0)
            .order()
            .expect("OK");
        assert!(
            (before..=c.time_ms()).contains(&(reply.deadline as u64)),
            "{reply:?}"
        );
        assert_eq!(reply.state, "expired", "{unit} 0 is due at once");
    }
    let reply = cmd!(
        c,
        "ORDER.SCHEDULE",
        "q",
        "past",
        "PXAT",
        100_000_000_000_u64
    )
    .order()
    .expect("OK");
    assert_eq!(
        (reply.deadline, reply.state.as_str()),
        (100_000_000_000, "expired")
    );
    let reply = cmd!(c, "ORDER.SCHEDULE", "q", "1970", "EXAT", 0)
        .order()
        .expect("OK");
    assert_eq!((reply.deadline, reply.state.as_str()), (0, "expired"));
    let due = cmd!(c, "ORDER.CLAIM", "q", "me", "COUNT", 10).claims();
    assert_eq!(due.len(), 4, "{due:?}");
    assert_eq!(c.state("q", "PX"), "scheduled");
}

#[test]
fn schedule_is_safe_to_repeat() {
    let server = Server::plain();
    let mut c = server.client();
    let first = cmd!(
        c,
        "ORDER.SCHEDULE",
        "q",
        "1",
        "PX",
        60_000,
        "STATUS",
        "unpaid"
    )
    .order()
    .expect("OK");
    let again = cmd!(
        c,
        "ORDER.SCHEDULE",
        "q",
        "1",
        "PX",
        5,
        "STATUS",
        "other",
        "PAYLOAD",
        "x"
    )
    .order()
    .expect("EXISTS");
    assert_eq!(
        (again.deadline, again.rev, again.status),
        (first.deadline, first.rev, first.status)
    );
    assert_eq!(c.order("q", "1").text("payload"), "-");
}

#[test]
fn a_move_keeps_what_is_not_given_and_starts_over() {
    let server = Server::plain();
    let mut c = server.client();
    cmd!(
        c,
        "ORDER.SCHEDULE",
        "q",
        "1",
        "PX",
        0,
        "STATUS",
        "unpaid",
        "PAYLOAD",
        "basket"
    )
    .order()
    .expect("OK");
    let claim = cmd!(c, "ORDER.CLAIM", "q", "me").claims().remove(0);
    cmd!(
        c,
        "ORDER.NACK",
        "q",
        "1",
        claim.fence,
        "DEAD",
        "ERROR",
        "no"
    )
    .order()
    .expect("OK");
    let moved = cmd!(c, "ORDER.SCHEDULE", "q", "1", "PX", 60_000, "XX")
        .order()
        .expect("OK");
    assert_eq!(
        (moved.was.as_str(), moved.state.as_str()),
        ("dead", "scheduled")
    );
    assert!(moved.rev > claim.fence, "{moved:?}");
    let order = c.order("q", "1");
    assert_eq!(
        (order.text("status"), order.text("payload")),
        ("unpaid".into(), "basket".into())
    );
    assert_eq!(order.int("attempt"), 0);
    cmd!(
        c,
        "ORDER.SCHEDULE",
        "q",
        "1",
        "PX",
        70_000,
        "XX",
        "STATUS",
        "late",
        "PAYLOAD",
        ""
    )
    .order()
    .expect("OK");
    let order = c.order("q", "1");
    assert_eq!(
        (order.text("status"), order.text("payload")),
        ("late".into(), String::new())
    );
    // The holder's move ends its claim.
    cmd!(c, "ORDER.SCHEDULE", "q", "1", "PX", 0, "XX")
        .order()
        .expect("OK");
    let claim = cmd!(c, "ORDER.CLAIM", "q", "me").claims().remove(0);
    let moved = cmd!(
        c,
        "ORDER.SCHEDULE",
        "q",
        "1",
        "PX",
        50,
        "FENCE",
        claim.fence
    )
    .order()
    .expect("OK");
    assert_eq!((moved.lease_ms, moved.was.as_str()), (-2, "leased"));
    cmd!(c, "ORDER.ACK", "q", "1", claim.fence)
        .order()
        .expect("STALE");
}

#[test]
fn gt_and_lt_move_strictly() {
    let server = Server::plain();
    let mut c = server.client();
    let at = 4_000_000_000_000_u64;
    cmd!(c, "ORDER.SCHEDULE", "q", "1", "PXAT", at)
        .order()
        .expect("OK");
    for (flag, to, outcome) in [
        ("GT", at, "UNCHANGED"),
        ("GT", at - 1, "UNCHANGED"),
        ("LT", at, "UNCHANGED"),
        ("LT", at + 1, "UNCHANGED"),
        ("GT", at + 1, "OK"),
        ("LT", at, "OK"),
    ] {
        let before = c.order("q", "1").ground();
        let reply = cmd!(c, "ORDER.SCHEDULE", "q", "1", "PXAT", to, flag)
            .order()
            .expect(outcome);
        if outcome == "UNCHANGED" {
            assert_eq!(c.order("q", "1").ground(), before, "{flag} {to}");
        } else {
            assert_eq!(reply.deadline as u64, to);
        }
    }
    // They imply XX, and with UPSERT only test what is there.
    cmd!(c, "ORDER.SCHEDULE", "q", "2", "PXAT", at, "GT")
        .order()
        .expect("MISSING");
    cmd!(c, "ORDER.SCHEDULE", "q", "2", "PXAT", at, "GT", "UPSERT")
        .order()
        .expect("OK");
    cmd!(c, "ORDER.SCHEDULE", "q", "2", "PXAT", at, "GT", "UPSERT")
        .order()
        .expect("UNCHANGED");
    // A plain move to the same deadline is a write.
    let before = c.order("q", "2").int("rev");
    let reply = cmd!(c, "ORDER.SCHEDULE", "q", "2", "PXAT", at, "XX")
        .order()
        .expect("OK");
    assert!(reply.rev as i64 > before, "{reply:?}");
    // A reopened order has no deadline to compare with.
    cmd!(c, "ORDER.FINISH", "q", "2", "STATUS", "paid")
        .order()
        .expect("OK");
    cmd!(
        c,
        "ORDER.SCHEDULE",
        "q",
        "2",
        "PXAT",
        at,
        "LT",
        "UPSERT",
        "FROM",
        "paid"
    )
    .order()
    .expect("OK");
}

#[test]
fn guards_hold_a_write_back() {
    let server = Server::plain();
    let mut c = server.client();
    let rev = cmd!(
        c,
        "ORDER.SCHEDULE",
        "q",
        "1",
        "PX",
        60_000,
        "STATUS",
        "unpaid"
    )
    .order()
    .expect("OK")
    .rev;
    let before = c.digest("q");
    for command in [
        &["ORDER.SCHEDULE", "q", "1", "PX", "5"][..],
        &["ORDER.FINISH", "q", "1"],
        &["ORDER.STATUS", "q", "1", "other"],
    ] {
        let with = |more: &[&str]| -> Vec<String> {
            command.iter().chain(more).map(|&w| w.to_owned()).collect()
        };
        c.run(&with(&["FROM", "paid"])).order().expect("STATE");
        c.run(&with(&["FROM", "paid", "FROM", "closed", "FROM", ""]))
            .order()
            .expect("STATE");
        c.run(&with(&["IFREV", &(rev + 1).to_string()]))
            .order()
            .expect("STALE");
        c.run(&with(&["IFREV", "0"])).order().expect("STALE");
        c.run(&with(&["FENCE", "1"])).order().expect("STALE");
        // A stale rev wins over a wrong status.
        c.run(&with(&["FROM", "paid", "IFREV", "1"]))
            .order()
            .expect("STALE");
        assert_eq!(c.digest("q"), before, "{command:?}");
    }
    // A guard alone implies XX.
    cmd!(c, "ORDER.SCHEDULE", "q", "2", "PX", 5, "FROM", "")
        .order()
        .expect("MISSING");
    cmd!(
        c,
        "ORDER.SCHEDULE",
        "q",
        "2",
        "PX",
        50_000,
        "IFREV",
        5,
        "UPSERT"
    )
    .order()
    .expect("OK");
    // The empty status has a name; and the guards let through what they name.
    cmd!(c, "ORDER.STATUS", "q", "2", "new", "FROM", "")
        .order()
        .expect("OK");
    let moved = cmd!(
        c,
        "ORDER.SCHEDULE",
        "q",
        "1",
        "PX",
        50_000,
        "FROM",
        "paid",
        "FROM",
        "unpaid",
        "IFREV",
        rev
    );
    let rev = moved.order().expect("OK").rev;
    let named = cmd!(
        c,
        "ORDER.STATUS",
        "q",
        "1",
        "late",
        "IFREV",
        rev,
        "FROM",
        "unpaid"
    )
    .order()
    .expect("OK");
    cmd!(c, "ORDER.FINISH", "q", "1", "IFREV", rev)
        .order()
        .expect("STALE");
    cmd!(
        c,
        "ORDER.FINISH",
        "q",
        "1",
        "IFREV",
        named.rev,
        "FROM",
        "late"
    )
    .order()
    .expect("OK");
}

#[test]
fn a_finished_order_reopens_only_for_who_names_its_status() {
    let server = Server::plain();
    let mut c = server.client();
    cmd!(
        c,
        "ORDER.FINISH",
        "q",
        "1",
        "CREATE",
        "STATUS",
        "paid",
        "RESULT",
        "pay:1"
    )
    .order()
    .expect("OK");
    for command in [
        &["NX"][..],
        &["XX"],
        &["UPSERT"],
        &["GT"],
        &["XX", "FROM", "unpaid"],
        &["UPSERT", "FROM", "unpaid"],
        &[],
    ] {
        let mut words = vec!["ORDER.SCHEDULE", "q", "1", "PX", "0"];
        words.extend_from_slice(command);
        let reply = c.run(&words).order().expect("FINISHED");
        assert_eq!(reply.result.as_deref(), Some(&b"pay:1"[..]), "{command:?}");
    }
    let reply = cmd!(c, "ORDER.SCHEDULE", "q", "1", "PX", 60_000, "FROM", "paid")
        .order()
        .expect("OK");
    assert_eq!(
        (reply.was.as_str(), reply.state.as_str(), reply.result),
        ("finished", "scheduled", None)
    );
    let order = c.order("q", "1");
    assert_eq!(
        (order.int("keep_end"), order.text("result").as_str()),
        (-1, "-"),
        "both are gone"
    );
}
