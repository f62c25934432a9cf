//! FINISH and STATUS: what is kept, what goes, and that a label moves nothing.

use crate::support::{SOON, Server, cmd, wait_until};

#[test]
fn finish_frees_the_payload_and_keeps_the_rest() {
    let server = Server::plain();
    let mut c = server.client();
    cmd!(
        c,
        "ORDER.SCHEDULE",
        "q",
        "1",
        "PX",
        60_000,
        "STATUS",
        "unpaid",
        "PAYLOAD",
        "basket"
    )
    .order()
    .expect("OK");
    let before = c.time_us();
    let reply = cmd!(
        c,
        "ORDER.FINISH",
        "q",
        "1",
        "STATUS",
        "paid",
        "RESULT",
        "pay:1",
        "KEEP",
        5000
    )
    .order()
    .expect("OK");
    let after = c.time_us();
    assert_eq!(
        (reply.was.as_str(), reply.state.as_str()),
        ("scheduled", "finished")
    );
    assert_eq!(
        (reply.status_text().as_str(), reply.deadline, reply.lease_ms),
        ("paid", -1, -2)
    );
    assert_eq!(reply.result.as_deref(), Some(&b"pay:1"[..]));
    let order = c.order("q", "1");
    assert_eq!(
        (
            order.text("payload").as_str(),
            order.text("result").as_str()
        ),
        ("-", "pay:1")
    );
    let keep_end = order.int("keep_end") as u64;
    assert!(
        (before / 1000 + 5000..=after.div_ceil(1000) + 5000).contains(&keep_end),
        "{keep_end} after {before}"
    );
    // A duplicate and a second payment tell apart.
    let second = cmd!(
        c,
        "ORDER.FINISH",
        "q",
        "1",
        "STATUS",
        "paid",
        "RESULT",
        "pay:2"
    )
    .order()
    .expect("FINISHED");
    assert_eq!(second.result.as_deref(), Some(&b"pay:1"[..]));
    // The default keep time.
    cmd!(c, "ORDER.SCHEDULE", "q", "2", "PX", 60_000)
        .order()
        .expect("OK");
    let now = c.time_ms();
    cmd!(c, "ORDER.FINISH", "q", "2").order().expect("OK");
    let keep_end = c.order("q", "2").int("keep_end") as u64;
    assert!(
        (now + 86_400_000..=now + 86_400_000 + 20_000).contains(&keep_end),
        "{keep_end}"
    );
    c.config("orderwheel.keep-ms", "7000");
    cmd!(c, "ORDER.SCHEDULE", "q", "3", "PX", 60_000)
        .order()
        .expect("OK");
    let now = c.time_ms();
    cmd!(c, "ORDER.FINISH", "q", "3").order().expect("OK");
    let keep_end = c.order("q", "3").int("keep_end") as u64;
    assert!(
        (now + 7000..=now + 7000 + 20_000).contains(&keep_end),
        "{keep_end}"
    );
}

#[test]
fn keep_0_forgets_at_once_and_an_empty_queue_is_no_key() {
    let server = Server::plain();
    let mut c = server.client();
    cmd!(c, "ORDER.SCHEDULE", "q", "1", "PX", 60_000)
        .order()
        .expect("OK");
    assert_eq!(cmd!(c, "TYPE", "q").text(), "ordrwheel");
    let reply = cmd!(
        c,
        "ORDER.FINISH",
        "q",
        "1",
        "STATUS",
        "paid",
        "RESULT",
        "r",
        "KEEP",
        0
    )
    .order()
    .expect("OK");
    assert_eq!(reply.was, "scheduled");
    assert_eq!(c.state("q", "1"), "missing");
    assert_eq!(cmd!(c, "EXISTS", "q").int(), 0);
    // The same through ACK and MACK; and by the clock.
    for (id, keep) in [("2", "0"), ("3", "0"), ("4", "30")] {
        cmd!(c, "ORDER.SCHEDULE", "q", id, "PX", 0)
            .order()
            .expect("OK");
        let claim = cmd!(c, "ORDER.CLAIM", "q", "me").claims().remove(0);
        if id == "3" {
            let words = cmd!(c, "ORDER.MACK", "q", 1, id, claim.fence, "KEEP", keep);
            assert_eq!(words.items()[0].text(), "OK");
        } else {
            cmd!(c, "ORDER.ACK", "q", id, claim.fence, "KEEP", keep)
                .order()
                .expect("OK");
        }
        wait_until(SOON, "the key to go", || cmd!(c, "EXISTS", "q").int() == 0);
    }
    // A CREATE with KEEP 0 leaves nothing either.
    cmd!(c, "ORDER.FINISH", "q", "5", "CREATE", "KEEP", 0)
        .order()
        .expect("OK");
    assert_eq!(cmd!(c, "EXISTS", "q").int(), 0);
}

#[test]
fn no_refused_command_makes_a_key() {
    let server = Server::plain();
    let mut c = server.client();
    for command in [
        &["ORDER.SCHEDULE", "q", "1", "PX", "5", "XX"][..],
        &["ORDER.FINISH", "q", "1"],
        &["ORDER.STATUS", "q", "1", "s"],
        &["ORDER.CLAIM", "q", "me"],
        &["ORDER.CLAIM", "q", "me", "ID", "1"],
        &["ORDER.ACK", "q", "1", "5"],
        &["ORDER.MACK", "q", "1", "1", "5"],
        &["ORDER.NACK", "q", "1", "5"],
        &["ORDER.RENEW", "q", "1", "5", "PX", "5"],
        &["ORDER.GET", "q", "1"],
        &["ORDER.PTTL", "q", "1"],
        &["ORDER.NEXT", "q"],
        &["ORDER.SCAN", "q", "0"],
        &["ORDER.STATS", "q"],
    ] {
        let reply = c.run(command);
        assert!(!reply.is_error(), "{command:?}: {reply:?}");
        assert_eq!(cmd!(c, "EXISTS", "q").int(), 0, "{command:?}");
    }
}

#[test]
fn status_labels_and_moves_nothing() {
    let server = Server::plain();
    let mut c = server.client();
    let made = cmd!(
        c,
        "ORDER.SCHEDULE",
        "q",
        "1",
        "PX",
        60_000,
        "STATUS",
        "unpaid",
        "PAYLOAD",
        "a"
    )
    .order()
    .expect("OK");
    let reply = cmd!(c, "ORDER.STATUS", "q", "1", "asked")
        .order()
        .expect("OK");
    assert_eq!(
        (reply.status_text().as_str(), reply.deadline),
        ("asked", made.deadline)
    );
    assert!(reply.rev > made.rev);
    assert_eq!(c.order("q", "1").text("payload"), "a");
    cmd!(
        c,
        "ORDER.STATUS",
        "q",
        "1",
        "",
        "PAYLOAD",
        "b",
        "FROM",
        "asked"
    )
    .order()
    .expect("OK");
    let order = c.order("q", "1");
    assert_eq!(
        (
            order.text("status").as_str(),
            order.text("payload").as_str()
        ),
        ("", "b")
    );
    // The holder passes its fence; its lease stays.
    cmd!(c, "ORDER.SCHEDULE", "q", "2", "PX", 0)
        .order()
        .expect("OK");
    let claim = cmd!(c, "ORDER.CLAIM", "q", "me").claims().remove(0);
    cmd!(c, "ORDER.STATUS", "q", "2", "x")
        .order()
        .expect("LEASED");
    let reply = cmd!(c, "ORDER.STATUS", "q", "2", "x", "FENCE", claim.fence)
        .order()
        .expect("OK");
    assert_eq!(reply.state, "leased");
    cmd!(c, "ORDER.ACK", "q", "2", claim.fence, "FROM", "x")
        .order()
        .expect("OK");
}
